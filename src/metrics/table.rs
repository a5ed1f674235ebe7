//! The list of exported series (`metrics.txt`), and a page in Prometheus's text format 0.0.4 that
//! can hold only what is on the list: a series under another name or with other labels is a mistake
//! in the program, found by any test that renders.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::timing::Timing;

const SERIES: &str = include_str!("metrics.txt");

/// Upper bounds of the buckets of every histogram: from a hit to the deadline and beyond.
pub const BOUNDS: [Duration; 24] = {
    const US: [u64; 24] = [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 150_000,
        200_000, 250_000, 300_000, 350_000, 400_000, 450_000, 500_000, 550_000, 600_000, 1_000_000,
        2_500_000,
    ];
    let mut bounds = [Duration::ZERO; 24];
    let mut index = 0;
    while index < US.len() {
        bounds[index] = Duration::from_micros(US[index]);
        index += 1;
    }
    bounds
};

/// One series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
    /// What it counts, a sentence.
    pub help: &'static str,
}

/// All series, in the list's order.
pub fn all() -> Vec<Series> {
    let lines = SERIES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.splitn(4, '|').map(str::trim);
            let mut next = || columns.next().unwrap_or_default();
            let (name, kind, labels, help) = (next(), next(), next(), next());
            let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
            Series { name, kind, labels: labels.collect(), help }
        })
        .collect()
}

/// `docs/metrics.md` as it must be.
pub fn document() -> String {
    let mut out = String::from(HEAD);
    let mut section = "";
    for series in all() {
        let stage = match series.name.strip_prefix("hedgerow_") {
            Some(rest) => rest.split('_').next().unwrap_or(rest),
            None => "process",
        };
        if stage != section {
            section = stage;
            let _ = write!(out, "\n## {section}\n\n| series | type | labels | what it counts |\n");
            out.push_str("|---|---|---|---|\n");
        }
        let labels: Vec<String> = series.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (series.name, series.kind, series.help);
        let _ = writeln!(out, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
    }
    out
}

const HEAD: &str = "# Metrics

The admin listener serves them at `/metrics` (Prometheus text format 0.0.4). Every core counts for
itself and publishes once a second; a scrape merges the newest publications, so histograms are
merged and never averaged. Counters count since the process's start. Durations are seconds, sizes
bytes, ratios shares of 1. Engines' and keys' names are the configured ones; no label holds
anything that a caller sent.

`GET /v1/latency` gives percentiles of the same histograms at their full resolution (3 significant
digits), `GET /v1/status` where everything stands; `/` shows both.

This page is the list `src/metrics/metrics.txt`; a test compares them.
";

/// A page of metrics being written.
pub struct Page {
    series: Vec<Series>,
    current: Option<usize>,
    written: Vec<&'static str>,
    out: String,
}

impl Page {
    /// An empty one.
    pub fn new() -> Self {
        Self { series: all(), current: None, written: Vec::new(), out: String::new() }
    }

    /// Begins the series of that name.
    pub fn series(&mut self, name: &'static str) -> &mut Self {
        self.current = self.series.iter().position(|series| series.name == name);
        debug_assert!(self.current.is_some(), "{name} is not in metrics.txt");
        debug_assert!(!self.written.contains(&name), "{name} is written twice");
        self.written.push(name);
        if let Some(series) = self.current.and_then(|index| self.series.get(index)) {
            let _ = writeln!(self.out, "# HELP {name} {}", series.help);
            let _ = writeln!(self.out, "# TYPE {name} {}", series.kind);
        }
        self
    }

    /// A value of the current series; what is not finite is left out.
    pub fn value(&mut self, labels: &[&dyn Display], value: f64) -> &mut Self {
        if value.is_finite() {
            self.line("", labels, None, &value);
        }
        self
    }

    /// A whole value of the current series.
    pub fn count(&mut self, labels: &[&dyn Display], value: u64) -> &mut Self {
        self.line("", labels, None, &value);
        self
    }

    /// A histogram of the current series.
    pub fn histogram(&mut self, labels: &[&dyn Display], timing: &Timing) -> &mut Self {
        for (bound, count) in BOUNDS.iter().zip(timing.counts_within(&BOUNDS)) {
            self.line("_bucket", labels, Some(&bound.as_secs_f64()), &count);
        }
        self.line("_bucket", labels, Some(&"+Inf"), &timing.count());
        self.line("_sum", labels, None, &timing.sum().as_secs_f64());
        self.line("_count", labels, None, &timing.count());
        self
    }

    fn line(
        &mut self,
        ending: &str,
        labels: &[&dyn Display],
        bound: Option<&dyn Display>,
        value: &dyn Display,
    ) {
        let Some(series) = self.current.and_then(|index| self.series.get(index)) else {
            return;
        };
        debug_assert_eq!(series.labels.len(), labels.len(), "labels of {}", series.name);
        let _ = write!(self.out, "{}{ending}", series.name);
        let names = series.labels.iter().copied();
        let pairs = names.zip(labels.iter().copied()).chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in pairs {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.out, "{separator}{name}=\"{}\"", value.replace('\n', "\\n"));
            separator = ',';
        }
        self.out.push_str(if separator == ',' { "} " } else { " " });
        let _ = writeln!(self.out, "{value}");
    }

    /// The text, and the names of the series that were written.
    pub fn finish(self) -> (String, Vec<&'static str>) {
        (self.out, self.written)
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}
