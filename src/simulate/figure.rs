//! The figures of a run: the distribution of latency on an axis of nines, and what happened over
//! time.

use super::outcome::{Outcome, rounded};
use super::run::Ran;
use super::scenario::STRETCH_S;
use super::svg::{Line, Panel, picture};
use super::tally::{Tally, milliseconds};

/// The published percentiles of the whole path, and of one engine alone.
const PUBLISHED: [(f64, f64); 4] = [(0.5, 148.0), (0.9, 341.0), (0.99, 587.0), (0.999, 1_020.0)];
const ONE_ENGINE: [(f64, f64); 4] = [(0.5, 248.0), (0.9, 612.0), (0.99, 1_480.0), (0.999, 2_950.0)];

/// Points along the axis of nines, from 0 to 99.95 %.
const STEPS: u32 = 66;
const NINES_MAX: f64 = 3.3;

/// Where a quantile lies: how many nines it has.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// The distribution of latency; under it, where the world keeps stretches, what happened over time.
pub fn run(outcome: &Outcome, ran: &Ran) -> String {
    let tally = ran.clients.tally.borrow();
    let mut panels = vec![distribution(&tally)];
    if !tally.stretches.is_empty() {
        panels.extend(over_time(&tally, ran));
    }
    let title = format!(
        "hedgerow simulate · {} · seed {} · {} requests",
        outcome.world, outcome.seed, outcome.requests
    );
    picture(&title, &panels)
}

fn distribution(tally: &Tally) -> Panel {
    let along = |value: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        (0..=STEPS)
            .map(|step| f64::from(step) / f64::from(STEPS) * NINES_MAX)
            .map(|x| (rounded(x, 4), rounded(value(1.0 - 10_f64.powf(-x)), 2)))
            .collect()
    };
    let line = |name: &str, points, is_dashed| Line { name: name.to_owned(), points, is_dashed };
    let longest = milliseconds(&tally.misses, 0.9995).max(1_600.0);
    let y_max = (longest / 400.0).ceil() * 400.0;
    let published = |table: [(f64, f64); 4]| {
        table.into_iter().filter(|(_, ms)| *ms <= y_max).map(|(q, ms)| (nines(q), ms)).collect()
    };
    let ticks = [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9")];
    Panel {
        title: "Latency by percentile".to_owned(),
        x_label: "% of requests that are no slower",
        x_ticks: ticks.map(|(q, name)| (nines(q), name.to_owned())).to_vec(),
        y_max,
        y_label: "ms",
        lines: vec![
            line("whole path", along(&|q| tally.mixture_ms(q)), false),
            line("published", published(PUBLISHED), true),
            line("misses only", along(&|q| milliseconds(&tally.misses, q)), false),
            line("one engine", published(ONE_ENGINE), true),
        ],
    }
}

fn over_time(tally: &Tally, ran: &Ran) -> [Panel; 3] {
    let stretches = &tally.stretches;
    let seconds = |index: usize| (index as u64 * STRETCH_S) as f64;
    let over = |name: &str, value: &dyn Fn(usize) -> f64, count: usize| Line {
        name: name.to_owned(),
        points: (0..count).map(|index| (seconds(index), rounded(value(index), 2))).collect(),
        is_dashed: false,
    };
    let count = stretches.len();
    let ticks = || -> Vec<(f64, String)> {
        let step = (count / 8).max(1);
        (0..count).step_by(step).map(|index| (seconds(index), seconds(index).to_string())).collect()
    };
    let panel = |title: &str, y_max, y_label, lines| Panel {
        title: title.to_owned(),
        x_label: "s",
        x_ticks: ticks(),
        y_max,
        y_label,
        lines,
    };
    let lost = |index: usize| (1.0 - stretches[index].valid_ratio()) * 100.0;
    let most_lost = (0..count).map(lost).fold(4.0, f64::max);
    let quantile = |q: f64| move |index: usize| stretches[index].quantile_ms(q);
    let calls = &ran.watched.calls;
    let share = |engine: usize| {
        move |index: usize| {
            let all: u64 = calls[index].iter().sum();
            calls[index][engine] as f64 * 100.0 / all.max(1) as f64
        }
    };
    let engines = 0..ran.engines.len();
    [
        panel(
            "Latency of misses, by 10 s",
            600.0,
            "ms",
            vec![
                over("p50", &quantile(0.5), count),
                over("p90", &quantile(0.9), count),
                over("p99", &quantile(0.99), count),
            ],
        ),
        panel(
            "Not answered validly in time",
            (most_lost / 4.0).ceil() * 4.0,
            "%",
            vec![over("not answered", &lost, count)],
        ),
        panel(
            "Calls by engine",
            100.0,
            "%",
            engines
                .map(|engine| over(&format!("e{engine}"), &share(engine), calls.len()))
                .collect(),
        ),
    ]
}
