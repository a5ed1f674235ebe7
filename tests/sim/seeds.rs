//! Seeds: each is a world of its own, with faults by chance. `HEDGEROW_SIM_SEEDS` says how many
//! (256), `HEDGEROW_SIM_SEED` replays one, `HEDGEROW_SIM_COMMIT` adds a commit's own.

use std::time::Duration;

use runtime::sim::{Faults, Options};

use super::checks;
use super::client::Ask;
use super::engine::{Kind, Manner, unit};
use super::world::{self, Ran};

const SEEDS: u64 = 256;
const REQUESTS: usize = 60;

/// Hedges soon, and as many as there are requests.
const EAGER: &str = "[hedge]\ndelay_initial_ms = 60\ndelay_min_ms = 60\ndelay_max_ms = 60\n\
                     budget_ratio = 1.0\n";

fn seeds() -> Vec<u64> {
    if let Some(seed) = number("HEDGEROW_SIM_SEED") {
        return vec![seed];
    }
    let count = number("HEDGEROW_SIM_SEEDS").unwrap_or(SEEDS);
    let own = std::env::var("HEDGEROW_SIM_COMMIT").ok();
    let own = own.and_then(|commit| u64::from_str_radix(commit.get(..15)?, 16).ok());
    (0..count).chain(own).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Questions asked once, twice at the same moment, by clients that leave or have little time; over
/// engines and a network with faults.
fn troubled(seed: u64) -> Ran {
    let faults = Faults { split_ratio: 0.2, short_read_ratio: 0.05, ..Faults::default() };
    let options = Options { faults, ..Options::default() };
    let cores = 1 + (seed % 4) as usize;
    let sim = world::start(seed, options, cores, &[Manner::BAD, Manner::SLOW, Manner::BAD], "");
    let mut count = 0;
    for index in 0..REQUESTS {
        let after = Duration::from_millis((unit(&sim.clients) * 3_000.0) as u64);
        let draw = unit(&sim.clients);
        let question = format!("what is number {}", index / 2);
        let timeout_ms = (draw < 0.1).then_some(120);
        let leaves_after = (draw > 0.9).then_some(Duration::from_millis(30));
        let copies = if draw > 0.7 { 4 } else { 1 };
        for _ in 0..copies {
            let question = question.clone();
            sim.send(after, Ask { question, timeout_ms, leaves_after, ..Ask::default() });
            count += 1;
        }
    }
    sim.run(count)
}

/// Distinct questions, slow engines, hedges in plenty: connections change hands all the time.
fn hedged(seed: u64, is_poisoned: bool) -> Ran {
    let cores = 1 + (seed % 2) as usize;
    // An engine that repeats the question would give the planted fault away at once.
    let engine = Manner::SLOW.with(Kind::Mute);
    let sim = world::start(seed, Options::default(), cores, &[engine; 2], EAGER);
    if is_poisoned {
        sim.instance.poison();
    }
    for index in 0..REQUESTS {
        sim.ask(Duration::from_millis(10 * index as u64), &format!("question number {index}"));
    }
    sim.run(REQUESTS)
}

fn report(seed: u64, world: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "seed {seed}, {world}:\n{}\nreplay: HEDGEROW_SIM_SEED={seed} cargo test --test sim",
        findings.join("\n")
    );
}

#[test]
fn nothing_is_lost_mixed_up_late_or_left_behind() {
    for seed in seeds() {
        let ran = troubled(seed);
        let mut findings = ran.findings(Duration::ZERO);
        // Three legs a flight; a question is asked twice, and by callers that come back.
        findings.extend(checks::legs(&ran.calls, 18));
        report(seed, "troubled", &findings);
    }
}

#[test]
fn hedges_mix_nothing_up() {
    for seed in seeds() {
        let ran = hedged(seed, false);
        let extra = ran.calls.len() - REQUESTS;
        assert!(extra > 0, "seed {seed}: no hedge was sent, nothing was tested");
        let mut findings = ran.findings(Duration::ZERO);
        findings.extend(checks::legs(&ran.calls, 3));
        report(seed, "hedged", &findings);
    }
}

#[test]
fn a_loser_that_returns_to_its_pool_is_caught_in_every_seed() {
    for seed in seeds().into_iter().take(64) {
        let ran = hedged(seed, true);
        let extra = ran.calls.len() - REQUESTS;
        assert!(extra > 0, "seed {seed}: no hedge was sent, so no fault was planted");
        let findings = ran.findings(Duration::ZERO);
        let is_caught = findings.iter().any(|finding| finding.contains("another page"));
        assert!(is_caught, "seed {seed}: the planted fault was not caught: {findings:?}");
    }
}

#[test]
fn same_seed_same_trace() {
    for seed in seeds().into_iter().take(4) {
        assert_eq!(troubled(seed).trace, troubled(seed).trace, "seed {seed}");
    }
    assert_ne!(troubled(1).trace, troubled(2).trace);
}

/// The same fault where engines repeat the question: no caller gets another's page.
#[test]
fn an_engine_that_repeats_its_question_mixes_nothing_up() {
    for seed in seeds().into_iter().take(8) {
        let sim = world::start(seed, Options::default(), 1, &[Manner::SLOW; 2], EAGER);
        sim.instance.poison();
        for index in 0..REQUESTS {
            sim.ask(Duration::from_millis(10 * index as u64), &format!("question number {index}"));
        }
        let findings = sim.run(REQUESTS).findings(Duration::ZERO);
        let is_mixed_up = findings.iter().any(|finding| finding.contains("another page"));
        assert!(!is_mixed_up, "seed {seed}: {findings:?}");
    }
}
