//! What came of a run, in numbers to print, to compare and to write as JSON. Times are in
//! milliseconds, shares are ratios of 1; all are rounded, so that a run writes the same bytes
//! wherever it is repeated.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::Ran;
use super::tally::{Kind, QUANTILES, Tally, milliseconds};
use super::worlds::{DEADLINE_LIFTED, Spec};
use crate::metrics::Seen;
use crate::metrics::timing::Timing;
use crate::model::{Class, Role, Verdict};

/// p50, p90, p99 and p99.9 in ms.
pub type Percentiles = [f64; QUANTILES.len()];

/// What came of a run.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Outcome {
    /// The world.
    pub world: String,
    /// Its seed.
    pub seed: u64,
    /// Cores of the instance.
    pub cores: usize,
    /// The deadline in ms; none: lifted.
    pub deadline_ms: Option<u64>,
    /// Requests that count; those that warmed the world up do not.
    pub requests: u64,
    /// How long the traffic took, in seconds of the world.
    pub span_s: f64,
    /// Latencies.
    pub latency: Latencies,
    /// What became of the requests.
    pub answers: Answers,
    /// More calls than one for each upstream request, in three readings; all requests count.
    pub extra: Extra,
    /// Hedges and last chances.
    pub hedges: Hedges,
    /// By engine.
    pub engines: Vec<OfEngine>,
    /// By class; only those that were asked.
    pub classes: BTreeMap<&'static str, OfClass>,
    /// Panics caught.
    pub panics: u64,
    /// A hash over every event of the world.
    pub trace: String,
}

/// Latencies in ms: p50, p90, p99, p99.9.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Latencies {
    /// 31 % hits of 20 ms and 69 % misses as measured: how the published figure is put together.
    pub mixture: Percentiles,
    /// All requests as measured: a hit takes what it takes here.
    pub measured: Percentiles,
    /// Requests that no stored answer served.
    pub misses: Percentiles,
    /// Hits and stale answers.
    pub hits: Percentiles,
    /// The longest of all.
    pub max: f64,
}

/// What became of the requests.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Answers {
    /// The share answered validly by the deadline.
    pub valid_ratio: f64,
    /// Requests that ended later than the deadline and 5 ms.
    pub late: u64,
    /// The share of 503, turned away or unanswered.
    pub refused_ratio: f64,
    /// The share answered from the cache at once, fresh or stale.
    pub hit_ratio: f64,
    /// Those answered by an old page because no engine gave a new one in time: valid answers.
    pub stale_if_error: u64,
    /// By kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// 503s by code.
    pub codes: BTreeMap<&'static str, u64>,
    /// Requests in the batch lane.
    pub batch: u64,
    /// Those of them that were turned away.
    pub batch_refused: u64,
}

/// The readings of "+10 %".
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Extra {
    /// Calls beyond the first, per upstream request: what the budget is in.
    pub per_upstream_request: f64,
    /// The same per request of a client.
    pub per_request: f64,
    /// Engine-seconds of hedges and last chances per engine-second of first calls.
    pub per_engine_second: f64,
    /// Engine time beyond what it would be if every first call ran to its end, alone.
    pub engine_time: f64,
    /// Engine time of an upstream request in ms, losers until they were cancelled.
    pub engine_ms_per_upstream_request: f64,
    /// The greatest per upstream request in any 10 s.
    pub in_any_10_s: f64,
}

/// Hedges and last chances.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Hedges {
    /// Upstream requests.
    pub upstream_requests: u64,
    /// Calls that were late and had another engine to ask.
    pub wanted: u64,
    /// Those the budget denied.
    pub denied: u64,
    /// Second calls: for lateness, or after an invalid answer.
    pub sent: u64,
    /// Second calls that won.
    pub won: u64,
    /// Last chances.
    pub last_chances: u64,
    /// Last chances that won.
    pub last_chances_won: u64,
    /// Probes.
    pub probes: u64,
}

/// One engine.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct OfEngine {
    /// Its share of all calls.
    pub share: f64,
    /// Its share of first calls.
    pub first_share: f64,
    /// Calls, as it counted them.
    pub calls: u64,
    /// Calls whose caller hung up first.
    pub abandoned: u64,
    /// The most calls it had at once.
    pub in_flight_max: u32,
    /// The most calls that waited there for a slot.
    pub queued_max: u32,
    /// Times its breaker opened, on whatever core first.
    pub openings: u64,
}

/// One class.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct OfClass {
    /// Requests.
    pub requests: u64,
    /// Those answered by an engine that was asked for them.
    pub misses: u64,
    /// The share answered fresh from the cache.
    pub hit_ratio: f64,
    /// The share answered stale.
    pub stale_ratio: f64,
}

impl Outcome {
    /// Of a run of `spec` from `seed`.
    pub fn new(spec: &Spec, seed: u64, ran: &Ran) -> Self {
        let tally = ran.clients.tally.borrow();
        let lifted = spec.deadline >= DEADLINE_LIFTED;
        Self {
            world: spec.name.to_owned(),
            seed,
            cores: spec.cores,
            deadline_ms: (!lifted).then_some(spec.deadline.as_millis() as u64),
            requests: tally.requests,
            span_s: rounded(ran.span.as_secs_f64(), 3),
            latency: latencies(&tally),
            answers: answers(&tally),
            extra: extra(ran),
            hedges: hedges(&ran.seen),
            engines: engines(ran),
            classes: classes(&tally),
            panics: ran.panics,
            trace: format!("{:016x}", ran.trace),
        }
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        json(self)
    }
}

/// `value` as JSON, indented, with a line end.
pub fn json(value: &impl Serialize) -> String {
    // Plain data without maps of other keys than text: it cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// `value` with so many digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// A part of a whole, rounded; 0 of nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { rounded(part as f64 / whole as f64, 6) }
}

fn percentiles(timing: &Timing) -> Percentiles {
    QUANTILES.map(|quantile| rounded(milliseconds(timing, quantile), 1))
}

fn latencies(tally: &Tally) -> Latencies {
    let max = tally.all.max().map_or(0.0, |max| max.as_secs_f64() * 1e3);
    Latencies {
        mixture: QUANTILES.map(|quantile| rounded(tally.mixture_ms(quantile), 1)),
        measured: percentiles(&tally.all),
        misses: percentiles(&tally.misses),
        hits: percentiles(&tally.hits),
        max: rounded(max, 1),
    }
}

fn answers(tally: &Tally) -> Answers {
    let refused = tally.of(Kind::Refused) + tally.of(Kind::Unanswered);
    Answers {
        valid_ratio: ratio(tally.valid, tally.requests),
        late: tally.late,
        refused_ratio: ratio(refused, tally.requests),
        hit_ratio: ratio(tally.of(Kind::Hit) + tally.of(Kind::Stale), tally.requests),
        stale_if_error: tally.of(Kind::Spare),
        kinds: tally.kinds.iter().map(|(kind, &count)| (kind.name(), count)).collect(),
        codes: tally.codes.clone(),
        batch: tally.batch.0,
        batch_refused: tally.batch.1,
    }
}

fn extra(ran: &Ran) -> Extra {
    let load = ran.seen.extra_load();
    let chosen: u64 = ran.seen.engines.iter().map(|engine| engine.chosen).sum();
    let busy: f64 = ran.engines.iter().map(|engine| engine.counts().busy.as_secs_f64()).sum();
    let first: f64 = ran.engines.iter().map(|engine| engine.counts().first.as_secs_f64()).sum();
    let engine_time = if first > 0.0 { busy / first - 1.0 } else { 0.0 };
    let engine_ms = if chosen == 0 { 0.0 } else { busy * 1e3 / chosen as f64 };
    Extra {
        per_upstream_request: rounded(load.per_upstream_request, 5),
        per_request: rounded(load.per_request, 5),
        per_engine_second: rounded(load.per_engine_second, 5),
        engine_time: rounded(engine_time, 5),
        engine_ms_per_upstream_request: rounded(engine_ms, 2),
        in_any_10_s: rounded(ran.watched.window_extra_max, 4),
    }
}

fn hedges(seen: &Seen) -> Hedges {
    let of_role = |role: Role, verdict: Option<Verdict>| -> u64 {
        let legs = seen.engines.iter().map(|engine| &engine.legs[role as usize]);
        match verdict {
            Some(verdict) => legs.map(|by_verdict| by_verdict[verdict.index()]).sum(),
            None => legs.map(|all| all.iter().sum::<u64>() - all[Verdict::Skipped.index()]).sum(),
        }
    };
    let won = |role| of_role(role, Some(Verdict::Valid)) + of_role(role, Some(Verdict::Empty));
    Hedges {
        upstream_requests: seen.engines.iter().map(|engine| engine.chosen).sum(),
        wanted: seen.engines.iter().map(|engine| engine.hedges_wanted).sum(),
        denied: seen.engines.iter().map(|engine| engine.hedges_denied).sum(),
        sent: of_role(Role::Hedge, None),
        won: won(Role::Hedge),
        last_chances: of_role(Role::LastChance, None),
        last_chances_won: won(Role::LastChance),
        probes: of_role(Role::Probe, None),
    }
}

fn engines(ran: &Ran) -> Vec<OfEngine> {
    let attempts: u64 = ran.seen.engines.iter().map(|engine| engine.attempts()).sum();
    let chosen: u64 = ran.seen.engines.iter().map(|engine| engine.chosen).sum();
    let engines = ran.engines.iter().zip(&ran.seen.engines).zip(&ran.watched.openings);
    engines
        .map(|((engine, seen), &openings)| {
            let counts = engine.counts();
            OfEngine {
                share: ratio(seen.attempts(), attempts),
                first_share: ratio(seen.chosen, chosen),
                calls: counts.calls,
                abandoned: counts.abandoned,
                in_flight_max: counts.in_flight_max,
                queued_max: counts.queued_max,
                openings,
            }
        })
        .collect()
}

fn classes(tally: &Tally) -> BTreeMap<&'static str, OfClass> {
    let asked = Class::ALL.into_iter().filter(|class| tally.classes[class.index()].requests > 0);
    asked
        .map(|class| {
            let of = tally.classes[class.index()];
            let (hit_ratio, stale_ratio) =
                (ratio(of.hits, of.requests), ratio(of.stale, of.requests));
            (
                class.name(),
                OfClass { requests: of.requests, misses: of.misses, hit_ratio, stale_ratio },
            )
        })
        .collect()
}
