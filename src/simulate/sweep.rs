//! The published sweep of hedge delays, repeated: a fixed delay, the deadline lifted, the table as
//! published beside ours.

use std::fmt::Write as _;

use serde::Serialize;

use super::outcome::{Outcome, rounded};
use super::svg::{Line, Panel, picture};
use super::worlds::Spec;

/// One row as published: the delay in ms, p99 in ms, the extra load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Published {
    /// ms.
    pub delay_ms: u64,
    /// ms, whole path.
    pub p99_ms: f64,
    /// A ratio.
    pub extra: f64,
}

const fn row(delay_ms: u64, p99_ms: f64, extra: f64) -> Published {
    Published { delay_ms, p99_ms, extra }
}

/// The table as published.
pub const PUBLISHED: [Published; 6] = [
    row(150, 431.0, 0.58),
    row(250, 482.0, 0.26),
    row(350, 546.0, 0.14),
    row(420, 587.0, 0.10),
    row(500, 655.0, 0.07),
    row(600, 746.0, 0.05),
];

/// A row of ours beside it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// As published.
    pub published: Published,
    /// As run.
    pub outcome: Outcome,
}

/// The worlds of the sweep: `spec` with each delay.
pub fn worlds(spec: &Spec) -> Vec<Spec> {
    PUBLISHED.iter().map(|row| spec.clone().fixed_delay(row.delay_ms)).collect()
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let world = rows.first().map_or("", |row| row.outcome.world.as_str());
    let mut out = format!(
        "world {world} · whole path: 31 % hits of 20 ms · deadline lifted · extra: calls beyond \
         the first, per upstream request\n           published      |                 simulated\n\
         delay    p99   extra |   p50    p90    p99  p99.9   extra  per request  engine time\n"
    );
    for row in rows {
        let Published { delay_ms, p99_ms, extra } = row.published;
        let [p50, p90, p99, p999] = row.outcome.latency.mixture;
        let ours = &row.outcome.extra;
        let _ = writeln!(
            out,
            "{delay_ms:5} {p99_ms:6.0} {:6.0}% | {p50:5.0} {p90:6.0} {p99:6.0} {p999:6.0} {:6.1}% \
             {:10.1}% {:11.1}%",
            extra * 100.0,
            ours.per_upstream_request * 100.0,
            ours.per_request * 100.0,
            ours.engine_time * 100.0
        );
    }
    out
}

/// The picture: p99 and extra load over the delay.
pub fn figure(rows: &[Row]) -> String {
    let world = rows.first().map_or("", |row| row.outcome.world.as_str());
    let line = |name: &str, is_dashed, value: &dyn Fn(&Row) -> f64| Line {
        name: name.to_owned(),
        points: rows.iter().map(|r| (r.published.delay_ms as f64, rounded(value(r), 4))).collect(),
        is_dashed,
    };
    let ticks = || PUBLISHED.map(|row| (row.delay_ms as f64, row.delay_ms.to_string())).to_vec();
    let most = rows.iter().map(|row| row.outcome.latency.mixture[3]).fold(800.0, f64::max);
    let latency = Panel {
        title: "Latency of the whole path over the hedge delay".to_owned(),
        x_label: "delay, ms",
        x_ticks: ticks(),
        y_max: (most / 200.0).ceil() * 200.0,
        y_label: "ms",
        lines: vec![
            line("p99", false, &|row| row.outcome.latency.mixture[2]),
            line("p99 published", true, &|row| row.published.p99_ms),
            line("p99.9", false, &|row| row.outcome.latency.mixture[3]),
            line("p90", false, &|row| row.outcome.latency.mixture[1]),
        ],
    };
    let extra = Panel {
        title: "Extra calls per upstream request".to_owned(),
        x_label: "delay, ms",
        x_ticks: ticks(),
        y_max: 100.0,
        y_label: "%",
        lines: vec![
            line("extra", false, &|row| row.outcome.extra.per_upstream_request * 100.0),
            line("published", true, &|row| row.published.extra * 100.0),
        ],
    };
    picture(&format!("hedgerow simulate sweep · world {world}"), &[latency, extra])
}
