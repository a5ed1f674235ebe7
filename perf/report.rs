//! `report`: one table of many reports, in Markdown, for people to paste. It knows the reports by
//! their fields and computes nothing: what is not in a report is not in the table.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

/// Options of `report`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// JSON reports of load, compare and idle
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Prints the table.
///
/// # Errors
/// A file that cannot be read or is no report, in words.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut text = String::new();
    for path in &options.files {
        let shown = path.display();
        let json = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let report: Value =
            serde_json::from_str(&json).map_err(|error| format!("{shown}: {error}"))?;
        text.push_str(&row(&name(path), &report).ok_or(format!("{shown} is no report"))?);
    }
    print!("| what | result |\n|---|---|\n{text}");
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn row(name: &str, report: &Value) -> Option<String> {
    let result = if report.get("ratio").is_some() {
        compared(report)?
    } else if report.get("response_good").is_some() {
        loaded(report)?
    } else if report.get("closed_by_server").is_some() {
        idle(report)?
    } else {
        return None;
    };
    Some(format!("| {name} | {result} |\n"))
}

fn compared(report: &Value) -> Option<String> {
    let side = |side: &str| {
        let column = &report[side];
        let (all, user) = (column["cpu_us_median"].as_f64()?, column["user_us_median"].as_f64()?);
        Some(format!("{} {all:.2} µs CPU ({user:.2} user)", column["name"].as_str()?))
    };
    let ratio = |field: &str| report["ratio"][field].as_f64();
    let noisy = if report["is_noisy"] == true { ", noisy" } else { "" };
    Some(format!(
        "{} and {} per request: ratio {:.3} ({:.3} to {:.3}, {} pairs{noisy})",
        side("a")?,
        side("b")?,
        ratio("median")?,
        ratio("low")?,
        ratio("high")?,
        report["pairs"],
    ))
}

fn loaded(report: &Value) -> Option<String> {
    let mut text = String::new();
    for (label, field) in
        [("good answers", "response_good"), ("time to good", "time_to_good"), ("own time", "own")]
    {
        let percentiles = report.get(field).filter(|found| found.is_object());
        if let Some(found) = percentiles {
            let _ = write!(text, "{label} p50 / p90 / p99 / p99.9 ms: {}; ", four(found));
        }
    }
    let not_good = report["failure_ratio"]["ratio"].as_f64()? * 100.0;
    let _ = write!(text, "{} requests, {not_good:.3} % not good", report["requests"]);
    if report["generator_suspect"] == true {
        text.push_str("; GENERATOR SUSPECT");
    }
    Some(text)
}

fn four(percentiles: &Value) -> String {
    let one = |field: &str| match percentiles[field].as_f64() {
        Some(ms) if ms < 10.0 => format!("{ms:.3}"),
        Some(ms) => format!("{ms:.0}"),
        None => "inf".to_owned(),
    };
    ["p50_ms", "p90_ms", "p99_ms", "p99_9_ms"].map(one).join(" / ")
}

fn idle(report: &Value) -> Option<String> {
    let bytes = report["rss_bytes_per_connection"].as_f64();
    let bytes = bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{bytes:.0}"));
    let (opened, closed) = (report["opened"].as_u64()?, report["closed_by_server"].as_u64()?);
    let mut text = format!("{opened} held, {closed} lost, {bytes} bytes resident each");
    if let Some(beside) = report.get("beside") {
        text.push_str(&others(beside)?);
    }
    Some(text)
}

fn others(beside: &Value) -> Option<String> {
    let ratio = &beside["p99_ratio"];
    let of = |field: &str| ratio[field].as_f64();
    let noisy = if ratio["is_noisy"] == true { ", noisy" } else { "" };
    Some(format!(
        "; others' p99 with {} held by without: ratio {:.3} ({:.3} to {:.3}, {} rounds{noisy})",
        beside["held_min"],
        of("median")?,
        of("low")?,
        of("high")?,
        ratio["rounds"],
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(report: Value, expected: Option<&str>) {
        assert_eq!(row("x", &report).as_deref(), expected, "{report}");
    }

    #[test]
    fn each_kind_has_its_row() {
        let side = |name| json!({"name": name, "cpu_us_median": 10.0, "user_us_median": 2.0});
        check(
            json!({"a": side("a"), "b": side("b"), "pairs": 12,
                "ratio": {"median": 1.0, "low": 0.9, "high": 1.1}}),
            Some(
                "| x | a 10.00 µs CPU (2.00 user) and b 10.00 µs CPU (2.00 user) per request: \
                 ratio 1.000 (0.900 to 1.100, 12 pairs) |\n",
            ),
        );
        let four = json!({"p50_ms": 1.5, "p90_ms": 20.4, "p99_ms": 300, "p99_9_ms": null});
        check(
            json!({"response_good": four, "failure_ratio": {"ratio": 0.01}, "requests": 100,
                "generator_suspect": true}),
            Some(
                "| x | good answers p50 / p90 / p99 / p99.9 ms: 1.500 / 20 / 300 / inf; \
                 100 requests, 1.000 % not good; GENERATOR SUSPECT |\n",
            ),
        );
        check(
            json!({"opened": 5, "closed_by_server": 0, "rss_bytes_per_connection": 812.4}),
            Some("| x | 5 held, 0 lost, 812 bytes resident each |\n"),
        );
        let ratio = json!({"median": 1.01, "low": 0.9, "high": 1.1, "rounds": 6});
        check(
            json!({"opened": 5, "closed_by_server": 0, "rss_bytes_per_connection": 812.4,
                "beside": {"held_min": 4, "p99_ratio": ratio}}),
            Some(
                "| x | 5 held, 0 lost, 812 bytes resident each; others' p99 with 4 held by \
                 without: ratio 1.010 (0.900 to 1.100, 6 rounds) |\n",
            ),
        );
        check(json!({"other": 1}), None);
    }
}
