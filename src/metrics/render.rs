//! Snapshots of all cores to the text of `/metrics`. Pure: what `control` knows besides comes in
//! as `Instance`.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use shards::breaker::State;

use super::table::Page;
use super::{EngineGauges, Outcome, Seen, Snapshot, seen};
use crate::model::{CacheStatus, Class, Endpoint, Role, Verdict};

/// What is known of the instance besides what its cores publish.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// Of this program.
    pub version: String,
    /// As configured.
    pub instance: String,
    /// As configured.
    pub region: String,
    /// As configured.
    pub pop: String,
    /// As configured.
    pub provider: String,
    /// Names of engines, by id.
    pub engines: Vec<String>,
    /// Names of keys, by id.
    pub keys: Vec<String>,
    /// Since the start.
    pub uptime: Duration,
    /// Cores configured.
    pub cores: usize,
    /// Cores whose pools are filled.
    pub cores_warm: usize,
    /// Whether the instance drains.
    pub is_draining: bool,
    /// By core: since it last published.
    pub silences: Vec<Duration>,
    /// Names looked up.
    pub lookups_ok: u64,
    /// Names that could not be looked up.
    pub lookups_failed: u64,
    /// What the kernel says of the process.
    pub process: Process,
}

/// What the kernel says of the process.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Process {
    /// In RAM.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Open descriptors.
    pub open_fds: u64,
    /// The limit of them.
    pub max_fds: u64,
    /// Threads.
    pub threads: u64,
    /// User and system time.
    pub cpu: Duration,
    /// Start, since the Unix epoch.
    pub started: Duration,
}

/// What all cores have seen together; none before the first publication.
pub fn merged(cores: &[Option<Arc<Snapshot>>]) -> Option<Seen> {
    let mut snapshots = cores.iter().flatten();
    let mut merged = snapshots.next()?.seen.clone();
    snapshots.for_each(|snapshot| merged.merge(&snapshot.seen));
    Some(merged)
}

/// The text of `/metrics`.
pub fn render(cores: &[Option<Arc<Snapshot>>], instance: &Instance) -> String {
    page(cores, instance).finish().0
}

pub(super) fn page(cores: &[Option<Arc<Snapshot>>], instance: &Instance) -> Page {
    let mut page = Page::new();
    let none = Seen::new(instance.engines.len(), instance.keys.len());
    let seen = merged(cores).unwrap_or(none);
    edge(&mut page, cores);
    requests(&mut page, &seen);
    gateway(&mut page, &seen, cores, instance);
    cache(&mut page, &seen, cores);
    engines(&mut page, &seen, instance);
    engines_by_core(&mut page, cores, instance);
    reactor(&mut page, &seen, cores);
    control(&mut page, instance);
    process(&mut page, &instance.process);
    page
}

/// One value a core, under the label `core`.
fn by_core(
    page: &mut Page,
    name: &'static str,
    cores: &[Option<Arc<Snapshot>>],
    value: impl Fn(&Snapshot) -> f64,
) {
    page.series(name);
    for (core, snapshot) in published(cores) {
        page.value(&[&core], value(snapshot));
    }
}

/// The cores that have published, with their indexes.
fn published(cores: &[Option<Arc<Snapshot>>]) -> impl Iterator<Item = (usize, &Snapshot)> {
    let of = |(core, snapshot): (usize, &'_ Option<Arc<Snapshot>>)| snapshot.as_ref().map(|_| core);
    let indexes: Vec<usize> = cores.iter().enumerate().filter_map(of).collect();
    indexes.into_iter().zip(cores.iter().flatten().map(Arc::as_ref))
}

fn edge(page: &mut Page, cores: &[Option<Arc<Snapshot>>]) {
    by_core(page, "hedgerow_edge_connections_open", cores, |core| {
        core.gauges.edge.connections_open as f64
    });
    by_core(page, "hedgerow_edge_connections_accepted_total", cores, |core| {
        core.gauges.edge.accepted as f64
    });
    let sum = |value: fn(&super::EdgeCounts) -> u64| -> u64 {
        cores.iter().flatten().map(|core| value(&core.gauges.edge)).sum()
    };
    page.series("hedgerow_edge_connections_surplus_total").count(&[], sum(|edge| edge.surplus));
    page.series("hedgerow_edge_accept_errors_total").count(&[], sum(|edge| edge.accept_errors));
    page.series("hedgerow_edge_requests_received_total").count(&[], sum(|edge| edge.requests));
    page.series("hedgerow_edge_responses_total");
    let classes: [fn(&super::EdgeCounts) -> u64; 5] = [
        |edge| edge.responses[0],
        |edge| edge.responses[1],
        |edge| edge.responses[2],
        |edge| edge.responses[3],
        |edge| edge.responses[4],
    ];
    for (name, of_class) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(classes) {
        page.count(&[name], sum(of_class));
    }
    page.series("hedgerow_edge_received_bytes_total").count(&[], sum(|edge| edge.received_bytes));
    page.series("hedgerow_edge_sent_bytes_total").count(&[], sum(|edge| edge.sent_bytes));
    page.series("hedgerow_edge_requests_malformed_total").count(&[], sum(|edge| edge.malformed));
    page.series("hedgerow_edge_timeouts_total")
        .count(&[&"slow_request"], sum(|edge| edge.slow_requests))
        .count(&[&"idle"], sum(|edge| edge.idle_timeouts))
        .count(&[&"slow_reader"], sum(|edge| edge.slow_readers));
    page.series("hedgerow_edge_peers_gone_total").count(&[], sum(|edge| edge.peers_gone));
    page.series("hedgerow_edge_panics_total").count(&[], sum(|edge| edge.panics));
}

fn requests(page: &mut Page, seen: &Seen) {
    page.series("hedgerow_edge_responses_incomplete_total").count(&[], seen.incomplete);
    page.series("hedgerow_edge_requests_total");
    let endpoints = Endpoint::ALL.iter().map(|endpoint| endpoint.name()).chain(["none"]);
    for (endpoint, counts) in endpoints.zip(&seen.requests) {
        for (status, count) in seen::STATUSES.iter().zip(counts).filter(|(_, count)| **count > 0) {
            let other: &dyn Display = &"other";
            let status: &dyn Display = if *status == 0 { other } else { status };
            page.count(&[&endpoint, status], *count);
        }
    }
    page.series("hedgerow_edge_refusals_total");
    for (code, count) in &seen.refusals {
        page.count(&[code], *count);
    }
    page.series("hedgerow_edge_request_duration_seconds");
    for endpoint in Endpoint::ALL {
        for outcome in Outcome::ALL {
            let timing = &seen.by_endpoint[endpoint.index()][outcome.index()];
            if timing.count() > 0 {
                page.histogram(&[&endpoint.name(), &outcome.name()], timing);
            }
        }
    }
    page.series("hedgerow_edge_request_own_seconds");
    for endpoint in Endpoint::ALL {
        page.histogram(&[&endpoint.name()], &seen.own[endpoint.index()]);
    }
    page.series("hedgerow_edge_stage_duration_seconds");
    let reached = seen::STAGES.iter().zip(&seen.by_stage).filter(|(_, timing)| timing.count() > 0);
    for (stage, timing) in reached {
        page.histogram(&[stage], timing);
    }
}

fn gateway(page: &mut Page, seen: &Seen, cores: &[Option<Arc<Snapshot>>], instance: &Instance) {
    page.series("hedgerow_gateway_admitted_total");
    for (endpoint, count) in Endpoint::ALL.iter().zip(seen.admitted) {
        page.count(&[&endpoint.name()], count);
    }
    by_core(page, "hedgerow_gateway_limit_requests", cores, |core| f64::from(core.gauges.limit));
    page.series("hedgerow_gateway_in_flight_requests");
    for (index, core) in published(cores) {
        page.count(&[&index, &"interactive"], core.gauges.in_flight_interactive.into());
        page.count(&[&index, &"batch"], core.gauges.in_flight_batch.into());
    }
    page.series("hedgerow_gateway_key_requests_total");
    for (name, key) in instance.keys.iter().zip(&seen.keys) {
        for (outcome, count) in Outcome::ALL.iter().zip(key.outcomes).filter(|(_, n)| *n > 0) {
            page.count(&[name, &outcome.name()], count);
        }
    }
    page.series("hedgerow_compiler_plans_total");
    for (class, count) in Class::ALL.iter().zip(seen.plans) {
        page.count(&[&class.name()], count);
    }
}

fn cache(page: &mut Page, seen: &Seen, cores: &[Option<Arc<Snapshot>>]) {
    page.series("hedgerow_cache_answers_total");
    for status in CacheStatus::ALL {
        let index = Outcome::Answered(status).index();
        let count = seen.by_endpoint.iter().map(|of| of[index].count()).sum();
        page.count(&[&status.name()], count);
    }
    by_core(page, "hedgerow_cache_size_bytes", cores, |core| core.gauges.l1_bytes as f64);
    by_core(page, "hedgerow_cache_size_max_bytes", cores, |core| core.gauges.l1_bytes_max as f64);
    by_core(page, "hedgerow_cache_entries", cores, |core| core.gauges.l1_entries as f64);
    by_core(page, "hedgerow_cache_flights", cores, |core| core.gauges.flights as f64);
    page.series("hedgerow_cache_refreshes_total").count(&[], seen.refreshes);
    page.series("hedgerow_cache_spares_total");
    for (code, count) in seen::SPARE_CODES.iter().zip(seen.spares) {
        page.count(&[code], count);
    }
    by_core(page, "hedgerow_cache_leases", cores, |core| core.gauges.leases as f64);
    page.series("hedgerow_cache_leases_overdue_total").count(&[], seen.leases_overdue);
}

fn engines(page: &mut Page, seen: &Seen, instance: &Instance) {
    let engines = || instance.engines.iter().zip(&seen.engines);
    let mut counts = |name, value: fn(&seen::EngineSeen) -> u64| {
        page.series(name);
        for (engine, seen) in engines() {
            page.count(&[engine], value(seen));
        }
    };
    counts("hedgerow_router_choices_total", |seen| seen.chosen);
    counts("hedgerow_engine_attempts_total", seen::EngineSeen::attempts);
    counts("hedgerow_engine_hedges_wanted_total", |seen| seen.hedges_wanted);
    counts("hedgerow_engine_hedges_denied_total", |seen| seen.hedges_denied);
    page.series("hedgerow_engine_legs_total");
    for (engine, seen) in engines() {
        for role in Role::ALL {
            for verdict in Verdict::ALL {
                let count = seen.legs[role as usize][verdict.index()];
                if count > 0 {
                    page.count(&[engine, &role.name(), &verdict.name()], count);
                }
            }
        }
    }
    page.series("hedgerow_engine_busy_seconds_total");
    for (engine, seen) in engines() {
        for (role, busy) in Role::ALL.iter().zip(seen.busy) {
            page.value(&[engine, &role.name()], busy.as_secs_f64());
        }
    }
    page.series("hedgerow_engine_leg_duration_seconds");
    for (engine, seen) in engines() {
        page.histogram(&[engine], &seen.timing);
    }
    page.series("hedgerow_engine_details_total");
    for (engine, seen) in engines() {
        for (detail, count) in &seen.details {
            page.count(&[engine, detail], *count);
        }
    }
    let extra = seen.extra_load();
    page.series("hedgerow_engine_extra_load_ratio")
        .value(&[&"upstream_request"], extra.per_upstream_request)
        .value(&[&"request"], extra.per_request)
        .value(&[&"engine_second"], extra.per_engine_second);
}

fn engines_by_core(page: &mut Page, cores: &[Option<Arc<Snapshot>>], instance: &Instance) {
    // The budgets are shared: any core's reading will do.
    let newest = cores.iter().flatten().max_by_key(|core| core.gauges.at);
    page.series("hedgerow_engine_hedge_tokens");
    newest.map(|core| page.value(&[], core.gauges.hedge_tokens));
    page.series("hedgerow_engine_last_chance_tokens");
    newest.map(|core| page.value(&[], core.gauges.last_chance_tokens));
    page.series("hedgerow_engine_late_after_seconds");
    for (core, engine, gauges) in each_engine(cores, instance) {
        let known = Class::ALL.iter().zip(gauges.late_after);
        // Zero: no request of the class has asked for it yet.
        for (class, delay) in known.filter(|(_, delay)| !delay.is_zero()) {
            page.value(&[&core, engine, &class.name()], delay.as_secs_f64());
        }
    }
    let mut gauge = |name, value: fn(&EngineGauges) -> Option<f64>| {
        page.series(name);
        for (core, engine, gauges) in each_engine(cores, instance) {
            value(gauges).map(|value| page.value(&[&core, engine], value));
        }
    };
    gauge("hedgerow_engine_breaker_state", |engine| {
        Some(match engine.breaker {
            State::Closed => 0.0,
            State::HalfOpen => 1.0,
            State::Open { .. } => 2.0,
        })
    });
    gauge("hedgerow_engine_resting_seconds", |engine| Some(engine.rests_for.as_secs_f64()));
    gauge("hedgerow_engine_in_flight_calls", |engine| Some(engine.in_flight.into()));
    gauge("hedgerow_engine_connections_idle", |engine| Some(engine.idle as f64));
    gauge("hedgerow_engine_latency_ewma_seconds", |engine| {
        engine.ewma.map(|ewma| ewma.as_secs_f64())
    });
    gauge("hedgerow_engine_valid_ratio", |engine| Some(engine.valid_ratio));
    let mut sums = |name, value: fn(&EngineGauges) -> u64| {
        page.series(name);
        for (index, engine) in instance.engines.iter().enumerate() {
            let of_cores = cores.iter().flatten();
            let sum = of_cores.filter_map(|core| core.gauges.engines.get(index)).map(value).sum();
            page.count(&[engine], sum);
        }
    };
    sums("hedgerow_engine_connections_opened_total", |engine| engine.opened_total);
    sums("hedgerow_engine_connections_reused_total", |engine| engine.reused_total);
}

/// Each engine on each core: the core's index, the engine's name, where it stands.
fn each_engine<'a>(
    cores: &'a [Option<Arc<Snapshot>>],
    instance: &'a Instance,
) -> impl Iterator<Item = (usize, &'a String, &'a EngineGauges)> {
    published(cores).flat_map(|(core, snapshot)| {
        let named = instance.engines.iter().zip(&snapshot.gauges.engines);
        named.map(move |(name, gauges)| (core, name, gauges))
    })
}

fn reactor(page: &mut Page, seen: &Seen, cores: &[Option<Arc<Snapshot>>]) {
    page.series("hedgerow_reactor_lateness_seconds").histogram(&[], &seen.lateness);
    by_core(page, "hedgerow_reactor_lateness_max_seconds", cores, |core| {
        core.gauges.lateness_max.as_secs_f64()
    });
    by_core(page, "hedgerow_reactor_panics_total", cores, |core| core.gauges.panics_total as f64);
    page.series("hedgerow_reactor_lanes_full_total").count(&[], seen.lanes_full);
}

fn control(page: &mut Page, instance: &Instance) {
    page.series("hedgerow_control_build_info").count(
        &[
            &instance.version,
            &instance.instance,
            &instance.region,
            &instance.pop,
            &instance.provider,
        ],
        1,
    );
    page.series("hedgerow_control_uptime_seconds").value(&[], instance.uptime.as_secs_f64());
    page.series("hedgerow_control_cores")
        .count(&[&"configured"], instance.cores as u64)
        .count(&[&"warm"], instance.cores_warm as u64);
    page.series("hedgerow_control_draining").count(&[], instance.is_draining.into());
    page.series("hedgerow_control_silence_seconds");
    for (core, silence) in instance.silences.iter().enumerate() {
        page.value(&[&core], silence.as_secs_f64());
    }
    page.series("hedgerow_control_lookups_total")
        .count(&[&"ok"], instance.lookups_ok)
        .count(&[&"failed"], instance.lookups_failed);
}

fn process(page: &mut Page, process: &Process) {
    page.series("process_resident_memory_bytes").count(&[], process.resident_bytes);
    page.series("process_virtual_memory_bytes").count(&[], process.virtual_bytes);
    page.series("process_open_fds").count(&[], process.open_fds);
    page.series("process_max_fds").count(&[], process.max_fds);
    page.series("process_threads").count(&[], process.threads);
    page.series("process_cpu_seconds_total").value(&[], process.cpu.as_secs_f64());
    page.series("process_start_time_seconds").value(&[], process.started.as_secs_f64());
}
