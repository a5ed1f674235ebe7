//! The text of an outcome, and of several beside each other.

use std::fmt::Write as _;

use super::outcome::{Outcome, Percentiles};
use super::tally::QUANTILES;

/// A whole outcome in about twenty lines.
pub fn outcome(outcome: &Outcome) -> String {
    let mut out = String::new();
    let deadline = match outcome.deadline_ms {
        Some(ms) => format!("deadline {ms} ms"),
        None => "deadline lifted".to_owned(),
    };
    let _ = writeln!(
        out,
        "world {} · seed {} · {} core(s) · {} requests in {:.0} s of the world · {deadline}",
        outcome.world, outcome.seed, outcome.cores, outcome.requests, outcome.span_s
    );
    let latency = &outcome.latency;
    let _ = writeln!(out, "  latency, ms                        p50    p90    p99  p99.9");
    row(&mut out, "whole path: 31 % hits of 20 ms", latency.mixture);
    row(&mut out, "whole path as measured", latency.measured);
    row(&mut out, "misses only", latency.misses);
    let _ = writeln!(out, "  longest {:.1} ms", latency.max);
    let answers = &outcome.answers;
    let _ = writeln!(
        out,
        "  answered validly in time {:.3} % · 503 {:.3} % {:?} · later than the deadline {}",
        percent(answers.valid_ratio),
        percent(answers.refused_ratio),
        answers.codes,
        answers.late
    );
    let _ = writeln!(
        out,
        "  from the cache {:.1} %, {} stale for want of an engine {:?}",
        percent(answers.hit_ratio),
        answers.stale_if_error,
        answers.kinds
    );
    let extra = &outcome.extra;
    let _ = writeln!(
        out,
        "  extra calls {:.2} % per upstream request, {:.2} % per request, {:.2} % of engine time \
         ({:.1} ms per upstream request); {:.1} % in the worst 10 s",
        percent(extra.per_upstream_request),
        percent(extra.per_request),
        percent(extra.engine_time),
        extra.engine_ms_per_upstream_request,
        percent(extra.in_any_10_s)
    );
    let hedges = &outcome.hedges;
    let _ = writeln!(
        out,
        "  of {} upstream requests: {} late, {} denied, {} second calls ({} won), {} last chances \
         ({} won), {} probes",
        hedges.upstream_requests,
        hedges.wanted,
        hedges.denied,
        hedges.sent,
        hedges.won,
        hedges.last_chances,
        hedges.last_chances_won,
        hedges.probes
    );
    engines(&mut out, outcome);
    if outcome.classes.len() > 1 {
        let _ = writeln!(out, "  class           requests    hits   stale");
        for (name, class) in &outcome.classes {
            let (hits, stale) = (percent(class.hit_ratio), percent(class.stale_ratio));
            let _ = writeln!(out, "  {name:13} {:>10} {hits:6.1}% {stale:6.1}%", class.requests);
        }
    }
    out
}

fn engines(out: &mut String, outcome: &Outcome) {
    let _ = writeln!(out, "  engine   calls   share   first  at once  queued  abandoned  opened");
    for (index, engine) in outcome.engines.iter().enumerate() {
        let _ = writeln!(
            out,
            "  e{index:<3} {:>9} {:>6.1}% {:>6.1}% {:>8} {:>7} {:>10} {:>7}",
            engine.calls,
            percent(engine.share),
            percent(engine.first_share),
            engine.in_flight_max,
            engine.queued_max,
            engine.abandoned,
            engine.openings
        );
    }
}

fn row(out: &mut String, name: &str, latency: Percentiles) {
    let [p50, p90, p99, p999] = latency;
    let _ = writeln!(out, "  {name:32} {p50:6.0} {p90:6.0} {p99:6.0} {p999:6.0}");
}

/// Median and worst of several runs of a world.
pub fn seeds(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let Some(first) = outcomes.first() else {
        return out;
    };
    let _ = writeln!(
        out,
        "world {} · {} seeds from {} · whole path: 31 % hits of 20 ms",
        first.world,
        outcomes.len(),
        first.seed
    );
    let _ = writeln!(out, "             p50    p90    p99  p99.9   extra     503");
    for (name, pick) in [("median", Pick::Median), ("worst", Pick::Worst)] {
        let of = |value: &dyn Fn(&Outcome) -> f64| pick.of(outcomes.iter().map(value).collect());
        let _ = write!(out, "  {name:8}");
        for index in 0..QUANTILES.len() {
            let _ = write!(out, " {:6.0}", of(&|outcome| outcome.latency.mixture[index]));
        }
        let extra = percent(of(&|outcome| outcome.extra.per_upstream_request));
        let refused = percent(of(&|outcome| outcome.answers.refused_ratio));
        let _ = writeln!(out, " {extra:6.2}% {refused:6.3}%");
    }
    out
}

/// Which of several values.
#[derive(Clone, Copy)]
enum Pick {
    Median,
    Worst,
}

impl Pick {
    fn of(self, mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let last = values.len().saturating_sub(1);
        match self {
            // Of an even number, between the two in the middle.
            Self::Median => f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            Self::Worst => at(last),
        }
    }
}

fn percent(ratio: f64) -> f64 {
    ratio * 100.0
}

/// What a scenario's checker found.
pub fn findings(findings: &[String]) -> String {
    if findings.is_empty() {
        return "  checker: nothing found\n".to_owned();
    }
    findings.iter().map(|found| format!("  checker: {found}\n")).collect()
}
