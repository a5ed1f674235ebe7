//! What must hold in every world, checked from outside: by what clients got, what engines saw, and
//! what is left alive at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow::simulate::Instance;
use runtime::Instant;
use runtime::sim::World;

use super::client::{End, Exchange};
use super::engine::Called;

/// How late an answer may be beyond its deadline: two timers, each up to 2 ms late, and the way.
const LATE_MAX: Duration = Duration::from_millis(10);

/// The tokens a hedge budget holds at the most.
const HEDGE_BURST: f64 = 10.0;

/// Every request was answered once, with the page of its question, by its deadline.
pub(crate) fn answers(exchanges: &[Exchange], slack: Duration) -> Vec<String> {
    let mut findings = Vec::new();
    for exchange in exchanges {
        let question = &exchange.ask.question;
        let given = Duration::from_millis(exchange.ask.timeout_ms.unwrap_or(600));
        let took = exchange.ended.since(exchange.sent);
        match &exchange.end {
            End::Left => {}
            End::Broken(why) => findings.push(format!("{question}: {why}")),
            End::Answered(200, body) => {
                if !is_page_of(question, body) {
                    findings.push(format!("{question}: answered with another page: {body:.120}"));
                }
            }
            End::Answered(503, body) => {
                let codes = ["deadline_exceeded", "no_valid_answer", "engines_unavailable"];
                if !codes.iter().any(|code| body.contains(code)) {
                    findings.push(format!("{question}: an unexpected 503: {body:.120}"));
                }
            }
            End::Answered(status, body) => {
                findings.push(format!("{question}: status {status}: {body:.120}"));
            }
        }
        if took > given + LATE_MAX + slack {
            findings.push(format!("{question}: took {took:?} of {given:?}"));
        }
    }
    findings
}

fn is_page_of(question: &str, body: &str) -> bool {
    let Ok(answer) = serde_json::from_str::<serde_json::Value>(body) else { return false };
    let Some(results) = answer["results"].as_array() else { return false };
    let title = format!("{question} ::");
    !results.is_empty()
        && results.iter().all(|row| row["title"].as_str().is_some_and(|t| t.starts_with(&title)))
}

/// Calls beyond the first of a question, in any window, are within the budget of that window's
/// first calls. For worlds of distinct questions and valid answers only.
pub(crate) fn hedges(calls: &[Called], ratio: f64) -> Vec<String> {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.at);
    let mut seen = BTreeMap::new();
    let marked: Vec<(Instant, bool)> = calls
        .iter()
        .map(|call| {
            let count = seen.entry(call.question.clone()).or_insert(0_u32);
            *count += 1;
            (call.at, *count > 1)
        })
        .collect();
    let mut findings = Vec::new();
    for (index, (start, _)) in marked.iter().enumerate() {
        let window = marked[index..].iter().take_while(|(at, _)| at.since(*start).as_secs() < 1);
        let (mut firsts, mut extras) = (0.0, 0.0);
        for (_, is_extra) in window {
            if *is_extra { extras += 1.0 } else { firsts += 1.0 }
        }
        // A hedge of a call made before the window began was paid for then: the burst covers it.
        if extras > ratio * firsts + HEDGE_BURST + 1.0 {
            findings.push(format!("{extras} hedges beside {firsts} calls in one second"));
        }
    }
    findings
}

/// No question was asked of more than `legs_max` engines.
pub(crate) fn legs(calls: &[Called], legs_max: usize) -> Vec<String> {
    let mut by_question: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *by_question.entry(&call.question).or_default() += 1;
    }
    by_question
        .into_iter()
        .filter(|(_, count)| *count > legs_max)
        .map(|(question, count)| format!("{question}: {count} calls"))
        .collect()
}

/// Nothing is left behind once all clients are gone: no request in a lane, no flight, no lease, no
/// call in flight, no task but those that were there before, no operation dropped half-way.
pub(crate) fn leaks(
    world: &World,
    instance: &Instance,
    before: &BTreeMap<String, usize>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (core, gauges) in instance.gauges().iter().enumerate() {
        let in_lanes = gauges.in_flight_interactive + gauges.in_flight_batch;
        let calls: u32 = gauges.engines.iter().map(|engine| engine.in_flight).sum();
        for (what, count) in [
            ("requests in a lane", in_lanes as usize),
            ("flights", gauges.flights),
            ("leases", gauges.leases),
            ("calls in flight", calls as usize),
            ("connections open", gauges.edge.connections_open as usize),
        ] {
            if count > 0 {
                findings.push(format!("core {core}: {count} {what} left"));
            }
        }
    }
    let census = world.census();
    if census.operations_dropped > 0 || census.panics > 0 {
        findings.push(format!(
            "{} operations dropped half-way, {} panics",
            census.operations_dropped, census.panics
        ));
    }
    for (core, tasks) in before {
        let now = census.tasks.get(core).copied().unwrap_or_default();
        if core.starts_with("core-") && now > *tasks {
            findings.push(format!("{core}: {now} tasks, {tasks} before"));
        }
    }
    findings
}
