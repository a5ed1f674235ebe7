//! The simulator's check of itself: worlds whose answer is known in closed form, repeatability, and
//! that every world and scenario runs.

use std::time::Duration;

use hedgerow::simulate::outcome::Outcome;
use hedgerow::simulate::scenario::{self, Scenario};
use hedgerow::simulate::worlds::{self, Beside, Spec};
use hedgerow::simulate::{run, sweep};

fn world(name: &str, requests: u64) -> Spec {
    let mut spec = worlds::worlds().into_iter().find(|spec| spec.name == name).expect("a world");
    spec.requests = requests;
    spec
}

fn outcome(spec: &Spec, seed: u64) -> Outcome {
    let ran = run::run(spec, seed).expect("it runs");
    Outcome::new(spec, seed, &ran)
}

/// `value` lies within `tolerance` of `expected`, as a ratio.
fn is_near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() <= tolerance
}

/// Independent engines of the quoted lognormal law, every hedge at 420 ms: min(T1, 420 + T2) has
/// p50 163, p90 507, p99 804 and p99.9 1,150 ms beside 31 % hits, and S(420) is 22.7 %. Four
/// standard errors of 10,000 requests; `simulate world Q --requests 600000` is within 1 %.
#[test]
fn a_fixed_delay_over_independent_engines_gives_the_closed_form() {
    let outcome = outcome(&world("Q", 10_000), 1);
    let [p50, p90, p99, _] = outcome.latency.mixture;
    assert!(is_near(p50, 163.0, 0.04), "p50 {p50}");
    assert!(is_near(p90, 507.0, 0.05), "p90 {p90}");
    assert!(is_near(p99, 804.0, 0.07), "p99 {p99}");
    let extra = outcome.extra.per_upstream_request;
    assert!((extra - 0.227).abs() < 0.02, "extra {extra}");
    let sent = outcome.hedges.sent as f64 / outcome.hedges.upstream_requests as f64;
    assert!((sent - extra).abs() < 1e-4, "{sent} second calls, extra load {extra}");
    assert_eq!(outcome.hedges.last_chances, 0);
}

/// Without hedges a miss takes what one engine takes.
#[test]
fn without_hedges_a_miss_takes_one_engines_time() {
    let spec = world("Q", 6_000).with("hedge.enabled", "false");
    let outcome = outcome(&spec, 2);
    for (found, expected, tolerance) in [
        (outcome.latency.misses[0], 248.0, 0.06),
        (outcome.latency.misses[1], 612.0, 0.08),
        (outcome.latency.misses[2], 1_480.0, 0.2),
    ] {
        assert!(is_near(found, expected, tolerance), "{found}, not {expected}");
    }
    assert_eq!(outcome.extra.per_upstream_request, 0.0);
    // Every call ran to its end, alone.
    assert!(outcome.extra.engine_time.abs() < 0.01, "{}", outcome.extra.engine_time);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let spec = world("B", 1_000);
    let (one, again, other) = (outcome(&spec, 5), outcome(&spec, 5), outcome(&spec, 6));
    assert_eq!(one.json(), again.json());
    assert_ne!(one.trace, other.trace);
}

#[test]
fn a_share_of_31_percent_comes_from_the_cache() {
    let outcome = outcome(&world("W", 3_000), 3);
    assert!((outcome.answers.hit_ratio - 0.31).abs() < 0.03, "{}", outcome.answers.hit_ratio);
}

#[test]
fn every_world_runs_and_answers() {
    for mut spec in worlds::worlds().into_iter().chain([worlds::week()]) {
        spec.requests = 300;
        let outcome = outcome(&spec, 4);
        assert_eq!((outcome.panics, outcome.answers.late), (0, 0), "{}", spec.name);
        assert!(outcome.answers.valid_ratio > 0.9, "{}: {:?}", spec.name, outcome.answers);
        let calls: u64 = outcome.engines.iter().map(|engine| engine.calls).sum();
        assert!(calls >= outcome.hedges.upstream_requests, "{}", spec.name);
    }
}

/// With slots, an engine works on no more calls than it has slots, and the instance's cap keeps
/// calls from queueing there.
#[test]
fn an_engine_with_slots_has_no_more_calls_than_slots() {
    let outcome = outcome(&world("H", 3_000), 1);
    for engine in &outcome.engines {
        assert!(engine.in_flight_max <= 20, "{engine:?}");
        assert_eq!(engine.queued_max, 0, "{engine:?}");
    }
    let mut uncapped = world("H", 3_000);
    uncapped.in_flight_max = 0;
    uncapped.rate = 500.0;
    let queued: u32 = outcome_of_queues(&uncapped);
    assert!(queued > 0, "beyond its slots an engine queues");
}

fn outcome_of_queues(spec: &Spec) -> u32 {
    outcome(spec, 1).engines.iter().map(|engine| engine.queued_max).max().unwrap_or(0)
}

/// A scenario with a third of the traffic: enough for its checker, and quick.
fn third(name: &str) -> Scenario {
    let mut scenarios = scenario::scenarios().into_iter();
    let mut found = scenarios.find(|it| it.spec.name == name).expect("a scenario");
    if found.spec.rate > 10.0 {
        found.spec.rate /= 3.0;
        found.spec.requests /= 3;
    }
    found
}

fn findings(scenario: &Scenario) -> Vec<String> {
    let ran = run::run(&scenario.spec, 1).expect("it runs");
    scenario.findings(&Outcome::new(&scenario.spec, 1, &ran), &ran)
}

/// Those that the shipped program passes; all of them: `hedgerow simulate world NAME`.
#[test]
fn scenarios_hold() {
    for name in ["grey", "dead", "agents-40"] {
        let findings = findings(&third(name));
        assert!(findings.is_empty(), "{name}: {findings:?}");
    }
}

/// A checker that cannot fail is worth nothing.
#[test]
fn checkers_find_what_is_planted() {
    let mut never_heals = third("grey");
    never_heals.spec.engines[0].phases[0].until = Duration::from_secs(100_000);
    let mut stands_still = third("stalled-core");
    stands_still.spec.stalls.iter_mut().for_each(|it| it.span = Duration::from_secs(3));
    let mut asks_twice = third("agents-40");
    // As many questions as two and a half times the bursts: as if each burst asked twice.
    asks_twice.spec.beside = Beside::Agents { size: 2, every: Duration::from_secs(2), times: 120 };
    for scenario in [never_heals, stands_still, asks_twice] {
        assert!(!findings(&scenario).is_empty(), "{}", scenario.spec.name);
    }
}

#[test]
fn the_sweep_has_the_published_rows_and_hedges_less_with_more_patience() {
    let specs = sweep::worlds(&world("W", 600));
    let rows: Vec<sweep::Row> = specs
        .iter()
        .zip(sweep::PUBLISHED)
        .map(|(spec, published)| sweep::Row { published, outcome: outcome(spec, 1) })
        .collect();
    let extra: Vec<f64> = rows.iter().map(|row| row.outcome.extra.per_upstream_request).collect();
    assert!(extra.is_sorted_by(|more, less| more > less), "{extra:?}");
    assert_eq!(sweep::table(&rows).lines().count(), 3 + 6);
    assert_eq!(sweep::figure(&rows).matches("<polyline").count(), 6);
}
