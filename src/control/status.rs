//! `/v1/status`: where everything stands, of each core and of the instance. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use shards::breaker::State as Breaker;

use super::latency::{ms, percentiles};
use crate::config::settings::{EngineRole, HedgeMode, RouterMode, Settings};
use crate::metrics::render::{Instance, merged};
use crate::metrics::{EngineGauges, Outcome, Seen, Snapshot};
use crate::model::{CacheStatus, Class, Endpoint, Role, Verdict};

type Snapshots = [Option<Arc<Snapshot>>];

/// The document. `reasons` say why the instance is not ready; none: it is.
pub(super) fn document(
    cores: &Snapshots,
    instance: &Instance,
    settings: &Settings,
    reasons: &[String],
) -> Value {
    let seen =
        merged(cores).unwrap_or_else(|| Seen::new(instance.engines.len(), instance.keys.len()));
    let state = match (instance.is_draining, reasons.is_empty()) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "not ready",
    };
    json!({
        "version": instance.version,
        "instance": instance.instance,
        "region": instance.region,
        "pop": instance.pop,
        "provider": instance.provider,
        "uptime_s": instance.uptime.as_secs(),
        "state": state,
        "reasons": reasons,
        "requests": requests(&seen),
        "admission": admission(cores, settings),
        "cache": cache(cores, &seen),
        "hedging": hedging(cores, &seen, settings),
        "router": { "mode": match settings.router.mode {
            RouterMode::All => "all",
            RouterMode::TwoChoices => "two_choices",
        }},
        "engines": engines(cores, &seen, settings),
        "cores": by_core(cores, instance),
        "process": {
            "resident_bytes": instance.process.resident_bytes,
            "open_fds": instance.process.open_fds,
            "max_fds": instance.process.max_fds,
            "cpu_s": instance.process.cpu.as_secs_f64(),
        },
    })
}

fn sum(cores: &Snapshots, value: impl Fn(&Snapshot) -> u64) -> u64 {
    cores.iter().flatten().map(|core| value(core)).sum()
}

fn requests(seen: &Seen) -> Value {
    let count = |outcome: Outcome| -> u64 {
        seen.by_endpoint.iter().map(|of| of[outcome.index()].count()).sum()
    };
    let answered = CacheStatus::ALL.map(|status| count(Outcome::Answered(status)));
    json!({
        "admitted": seen.admitted.iter().sum::<u64>(),
        "answered": answered.iter().sum::<u64>(),
        "unanswered": count(Outcome::Unanswered),
        "peers_gone": count(Outcome::PeerGone),
        "refusals": seen.refusals,
        "by_class": Class::ALL.iter().zip(seen.plans).map(|(class, count)| {
            (class.name().to_owned(), json!(count))
        }).collect::<serde_json::Map<_, _>>(),
    })
}

fn admission(cores: &Snapshots, settings: &Settings) -> Value {
    json!({
        "limit": sum(cores, |core| core.gauges.limit.into()),
        "limit_min_per_core": settings.admission.limit_min,
        "limit_max_per_core": settings.admission.limit_max,
        "in_flight": sum(cores, |core| core.gauges.in_flight_interactive.into()),
        "in_flight_batch": sum(cores, |core| core.gauges.in_flight_batch.into()),
        "connections": sum(cores, |core| core.gauges.edge.connections_open),
        "connections_max": settings.limits.connections_per_core_max as u64 * cores.len() as u64,
    })
}

fn cache(cores: &Snapshots, seen: &Seen) -> Value {
    let count = |status: CacheStatus| -> u64 {
        let index = Outcome::Answered(status).index();
        seen.by_endpoint.iter().map(|of| of[index].count()).sum()
    };
    let answers: serde_json::Map<String, Value> =
        CacheStatus::ALL.iter().map(|s| (s.name().to_owned(), json!(count(*s)))).collect();
    let all: u64 = CacheStatus::ALL.iter().map(|status| count(*status)).sum();
    let spares: u64 = seen.spares.iter().sum();
    // A page that stood in for a refusal spared nobody a call.
    let held = (count(CacheStatus::Hit) + count(CacheStatus::Stale)).saturating_sub(spares);
    json!({
        "bytes": sum(cores, |core| core.gauges.l1_bytes),
        "bytes_max": sum(cores, |core| core.gauges.l1_bytes_max),
        "entries": sum(cores, |core| core.gauges.l1_entries as u64),
        "flights": sum(cores, |core| core.gauges.flights as u64),
        "answers": answers,
        "hit_ratio": if all == 0 { 0.0 } else { held as f64 / all as f64 },
        "refreshes": seen.refreshes,
        "spares": spares,
        "leases_overdue": seen.leases_overdue,
    })
}

fn hedging(cores: &Snapshots, seen: &Seen, settings: &Settings) -> Value {
    let hedge = &settings.hedge;
    let newest = cores.iter().flatten().max_by_key(|core| core.gauges.at);
    let extra = seen.extra_load();
    json!({
        "enabled": hedge.enabled,
        "mode": match hedge.mode {
            HedgeMode::Budget => "budget",
            HedgeMode::Percentile => "percentile",
        },
        "budget_ratio": hedge.budget_ratio,
        "budget_target_ratio": hedge.budget_target_ratio,
        "tokens": newest.map(|core| core.gauges.hedge_tokens),
        "last_chance_tokens": newest.map(|core| core.gauges.last_chance_tokens),
        "extra_per_upstream_request": extra.per_upstream_request,
        "extra_per_request": extra.per_request,
        "extra_per_engine_second": extra.per_engine_second,
    })
}

/// A delay in milliseconds; null where it was not worked out yet.
fn known(delay: Option<Duration>) -> Value {
    ms(delay.filter(|delay| !delay.is_zero()))
}

fn breaker(state: Breaker) -> &'static str {
    match state {
        Breaker::Closed => "closed",
        Breaker::HalfOpen => "half open",
        Breaker::Open { .. } => "open",
    }
}

/// Each engine, of all cores together: sums, and the worst state of its breakers.
fn engines(cores: &Snapshots, seen: &Seen, settings: &Settings) -> Vec<Value> {
    let named = settings.engines.iter().zip(&seen.engines).enumerate();
    let one = |(index, (engine, seen)): (usize, (&crate::config::settings::Engine, _))| {
        let seen: &crate::metrics::seen::EngineSeen = seen;
        let of_cores: Vec<&EngineGauges> =
            cores.iter().flatten().filter_map(|core| core.gauges.engines.get(index)).collect();
        let worst = of_cores.iter().map(|engine| engine.breaker).max_by_key(|state| match state {
            Breaker::Closed => 0,
            Breaker::HalfOpen => 1,
            Breaker::Open { .. } => 2,
        });
        let valid = seen.with(Verdict::Valid) + seen.with(Verdict::Empty);
        let evidence: u64 =
            Verdict::ALL.iter().filter(|v| v.is_evidence()).map(|v| seen.with(*v)).sum();
        let role = |role: Role| -> u64 { seen.legs[role as usize].iter().sum() };
        let times = percentiles(&seen.timing);
        json!({
            "name": engine.name,
            "adapter": engine.manifest.name,
            "url": engine.url.as_str(),
            "role": match engine.role {
                EngineRole::Primary => "primary",
                EngineRole::LastChance => "last_chance",
            },
            "breaker": worst.map(breaker),
            "rests_s": of_cores.iter().map(|engine| engine.rests_for.as_secs()).max(),
            "in_flight": of_cores.iter().map(|engine| u64::from(engine.in_flight)).sum::<u64>(),
            "idle": of_cores.iter().map(|engine| engine.idle as u64).sum::<u64>(),
            "opened": of_cores.iter().map(|engine| engine.opened_total).sum::<u64>(),
            "reused": of_cores.iter().map(|engine| engine.reused_total).sum::<u64>(),
            "ewma_max_ms": ms(of_cores.iter().filter_map(|engine| engine.ewma).max()),
            "late_after_max_ms": known(
                of_cores.iter().flat_map(|engine| engine.late_after).max()
            ),
            "valid_ratio": (evidence > 0).then(|| valid as f64 / evidence as f64),
            "chosen": seen.chosen,
            "attempts": seen.attempts(),
            "hedges": role(Role::Hedge),
            "last_chances": role(Role::LastChance),
            "cancelled": seen.with(Verdict::Cancelled),
            "hedges_wanted": seen.hedges_wanted,
            "hedges_denied": seen.hedges_denied,
            "verdicts": Verdict::ALL.iter().map(|verdict| {
                (verdict.name().to_owned(), json!(seen.with(*verdict)))
            }).collect::<serde_json::Map<_, _>>(),
            "details": seen.details,
            "p50_ms": times["p50"],
            "p99_ms": times["p99"],
        })
    };
    named.map(one).collect()
}

fn by_core(cores: &Snapshots, instance: &Instance) -> Vec<Value> {
    let silence = |core: usize| ms(instance.silences.get(core).copied());
    let one = |(core, snapshot): (usize, &Option<Arc<Snapshot>>)| {
        let Some(snapshot) = snapshot else {
            return json!({ "core": core, "silence_ms": silence(core) });
        };
        let gauges = &snapshot.gauges;
        let requests: u64 = snapshot.seen.admitted.iter().sum();
        let named = instance.engines.iter().zip(&gauges.engines);
        json!({
            "core": core,
            "silence_ms": silence(core),
            "connections": gauges.edge.connections_open,
            "accepted": gauges.edge.accepted,
            "requests": requests,
            "limit": gauges.limit,
            "in_flight": gauges.in_flight_interactive,
            "in_flight_batch": gauges.in_flight_batch,
            "flights": gauges.flights,
            "leases": gauges.leases,
            "l1_bytes": gauges.l1_bytes,
            "l1_bytes_max": gauges.l1_bytes_max,
            "l1_entries": gauges.l1_entries,
            "lateness_max_ms": ms(Some(gauges.lateness_max)),
            "panics": gauges.panics_total + gauges.edge.panics,
            "own_p99_ms": ms(snapshot.seen.own[Endpoint::Fast.index()].quantile(0.99)),
            "engines": named.map(|(name, engine)| engine_of_core(name, engine)).collect::<Vec<_>>(),
        })
    };
    cores.iter().enumerate().map(one).collect()
}

fn engine_of_core(name: &str, engine: &EngineGauges) -> Value {
    json!({
        "name": name,
        "breaker": breaker(engine.breaker),
        "rests_s": engine.rests_for.as_secs(),
        "in_flight": engine.in_flight,
        "idle": engine.idle,
        "opened": engine.opened_total,
        "reused": engine.reused_total,
        "ewma_ms": ms(engine.ewma),
        "valid_ratio": engine.valid_ratio,
        "late_after_ms": Class::ALL.iter().zip(engine.late_after).map(|(class, delay)| {
            (class.name().to_owned(), known(Some(delay)))
        }).collect::<serde_json::Map<_, _>>(),
    })
}
