//! What a run is reported to be: JSON for machines (`schema` counts up when a field changes its
//! meaning), a short table for people.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::load::tally::Tally;
use crate::measure::{Share, Summary, TimeToGood, shown};
use crate::process::{CpuTime, Host, Noise};

const SCHEMA: u32 = 1;
/// A generator busier than this on its core may have been the bottleneck.
const CPU_RATIO_MAX: f64 = 0.7;
/// Sends later than this share of the median response distort it.
const LATENESS_RATIO_MAX: f64 = 0.1;

/// What the command knows about a run.
pub(crate) struct Facts<'a> {
    pub(crate) target: &'a str,
    pub(crate) mode: String,
    pub(crate) seed: u64,
    pub(crate) span: Duration,
    pub(crate) wall: Duration,
    pub(crate) noise: Noise,
    pub(crate) server_cpu: Option<CpuTime>,
    pub(crate) own_cpu: CpuTime,
    pub(crate) is_closed: bool,
    pub(crate) with_own_time: bool,
    pub(crate) tally: Tally,
}

/// The report of one run. Times in ms.
#[derive(Serialize)]
pub(crate) struct Report {
    schema: u32,
    target: String,
    mode: String,
    seed: u64,
    seconds: f64,
    requests: u64,
    requests_per_s: f64,
    answer_bytes_mean: f64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<&'static str, u64>,
    /// Still without an answer when the run gave up.
    censored: u64,
    /// Requests without a good answer.
    failure_ratio: Share,
    pub(crate) response_all: Summary,
    pub(crate) response_good: Summary,
    pub(crate) time_to_good: TimeToGood,
    service: Summary,
    lateness: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<Summary>,
    by_cache: BTreeMap<String, ByCache>,
    connections: u64,
    repeated: u64,
    waited_for_connection: u64,
    generator_cpu_ratio: f64,
    generator_suspect: bool,
    pub(crate) generator_suspect_reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_request: Option<f64>,
    noise: Noise,
    host: Host,
}

#[derive(Serialize)]
struct ByCache {
    response: Summary,
    own: Summary,
}

impl Report {
    /// Draws the report up.
    pub(crate) fn new(facts: Facts<'_>) -> Self {
        let tally = facts.tally;
        let total = tally.total();
        let bad = total - tally.good.count();
        let cpu_ratio = facts.own_cpu.total.as_secs_f64() / facts.wall.as_secs_f64().max(1e-9);
        let reasons = suspicions(&tally, cpu_ratio, facts.is_closed);
        let split = |(own, response): &(_, crate::measure::Latency)| {
            let own: &crate::measure::Latency = own;
            ByCache { response: response.summary(), own: own.summary() }
        };
        let server_cpu = facts.server_cpu.map(|cpu| cpu.total.as_secs_f64() * 1e6);
        Self {
            schema: SCHEMA,
            target: facts.target.to_owned(),
            mode: facts.mode,
            seed: facts.seed,
            seconds: facts.span.as_secs_f64(),
            requests: total,
            requests_per_s: total as f64 / facts.span.as_secs_f64(),
            answer_bytes_mean: tally.bytes as f64 / total.max(1) as f64,
            censored: tally.censored.count(),
            failure_ratio: Share::of(bad, total),
            response_all: tally.all.summary(),
            response_good: tally.good.summary(),
            time_to_good: TimeToGood::of(&tally.good, total),
            service: tally.service.summary(),
            lateness: tally.lateness.summary(),
            own: facts.with_own_time.then(|| tally.own.summary()),
            by_cache: tally
                .by_cache
                .iter()
                .map(|(label, two)| (label.clone(), split(two)))
                .collect(),
            connections: tally.connections,
            repeated: tally.repeated,
            waited_for_connection: tally.waited,
            generator_cpu_ratio: cpu_ratio,
            generator_suspect: !reasons.is_empty(),
            generator_suspect_reasons: reasons,
            server_cpu_us_per_request: server_cpu.map(|us| us / tally.ended.max(1) as f64),
            statuses: tally.statuses,
            failures: tally.failures,
            noise: facts.noise,
            host: Host::here(),
        }
    }

    /// A table for people. `inf`: so many failed that the percentile has no value.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
            "ms", "p50", "p90", "p99", "p99.9", "count"
        );
        row(&mut text, "response, good", &self.response_good);
        row(&mut text, "response, all", &self.response_all);
        let time = &self.time_to_good;
        let values = [time.p50_ms, time.p90_ms, time.p99_ms, time.p99_9_ms];
        line(&mut text, "time to good", values.map(|ms| shown(ms, "inf")), self.requests);
        row(&mut text, "service", &self.service);
        row(&mut text, "lateness", &self.lateness);
        if let Some(own) = &self.own {
            row(&mut text, "own time", own);
        }
        for (label, by) in &self.by_cache {
            row(&mut text, &format!("  {label}"), &by.response);
            if self.own.is_some() {
                row(&mut text, &format!("  {label}, own"), &by.own);
            }
        }
        self.push_counts(&mut text);
        text
    }

    fn push_counts(&self, text: &mut String) {
        let failure = &self.failure_ratio;
        let _ = writeln!(
            text,
            "{:.1} requests/s, statuses {:?}, failures {:?}, censored {}, not good {:.3} % \
             ({:.3} to {:.3}), {} connections, generator CPU {:.0} %",
            self.requests_per_s,
            self.statuses,
            self.failures,
            self.censored,
            failure.ratio * 100.0,
            failure.low * 100.0,
            failure.high * 100.0,
            self.connections,
            self.generator_cpu_ratio * 100.0,
        );
        if let Some(us) = self.server_cpu_us_per_request {
            let _ = writeln!(text, "server CPU {us:.1} µs/request");
        }
    }
}

fn row(text: &mut String, name: &str, of: &Summary) {
    let values = [of.p50_ms, of.p90_ms, of.p99_ms, of.p99_9_ms];
    line(text, name, values.map(|ms| shown(ms, "-")), of.count);
}

fn line(text: &mut String, name: &str, [p50, p90, p99, p99_9]: [String; 4], count: u64) {
    let _ = writeln!(text, "{name:<16}{p50:>12}{p90:>12}{p99:>12}{p99_9:>12}{count:>12}");
}

/// Why the generator itself may be what was measured.
fn suspicions(tally: &Tally, cpu_ratio: f64, is_closed: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let percent = cpu_ratio * 100.0;
    if is_closed {
        // A closed loop has no intended times, and is meant to use all of its core.
        return reasons;
    }
    if cpu_ratio > CPU_RATIO_MAX {
        reasons.push(format!("it used {percent:.0} % of a core, over 70 %"));
    }
    let late = tally.lateness.at_ms(0.99).unwrap_or(0.0);
    let median = tally.all.at_ms(0.5).unwrap_or(0.0);
    if late > median * LATENESS_RATIO_MAX {
        let waited = tally.waited;
        reasons.push(format!(
            "it sent {late:.3} ms late at p99, over 10 % of the median response of {median:.3} ms \
             ({waited} requests waited for a connection)"
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::load::Good;
    use crate::load::tally::Times;
    use runtime::Instant;

    fn reasons(late: Duration, response: Duration, cpu_ratio: f64) -> usize {
        let mut tally = Tally::new(Good::new(&[]));
        let sent = Instant::ZERO + late;
        let times = Times { intended: Instant::ZERO, sent, ended: Instant::ZERO + response };
        tally.record(times, &Err(crate::connection::Failure::Io));
        let all = suspicions(&tally, cpu_ratio, false);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(suspicions(&tally, cpu_ratio, true).is_empty());
        all.len()
    }

    #[test]
    fn a_late_or_busy_generator_is_suspect() {
        let ms = Duration::from_millis;
        assert_eq!(reasons(ms(1), ms(100), 0.5), 0);
        assert_eq!(reasons(ms(11), ms(100), 0.5), 1);
        assert_eq!(reasons(ms(1), ms(100), 0.71), 1);
        assert_eq!(reasons(ms(11), ms(100), 0.71), 2);
    }
}
