//! `/v1/latency`: percentiles of all cores together, at the histograms' full resolution. Pure.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::metrics::Seen;
use crate::metrics::render::Instance;
use crate::metrics::timing::{Digits, Timing};
use crate::model::{Class, Endpoint, Verdict};

/// The percentiles that are told.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A time in milliseconds, to the microsecond; null where there is none.
pub(super) fn ms(span: Option<Duration>) -> Value {
    span.map_or(Value::Null, |span| json!(span.as_micros() as f64 / 1_000.0))
}

/// Count, percentiles and maximum of one distribution.
pub(super) fn percentiles(timing: &Timing) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("count".to_owned(), json!(timing.count()));
    for (name, quantile) in QUANTILES {
        out.insert(name.to_owned(), ms(timing.quantile(quantile)));
    }
    out.insert("max".to_owned(), ms(timing.max()));
    out
}

fn named(name: &str, timing: &Timing) -> Map<String, Value> {
    let mut out = Map::from_iter([("name".to_owned(), json!(name))]);
    out.extend(percentiles(timing));
    out
}

/// The document. Keys come first whose p99 is furthest above that of all requests.
pub(super) fn document(seen: &Seen, instance: &Instance) -> Value {
    let mut all = Timing::new(Digits::Three);
    let of_endpoints = Endpoint::ALL.map(|endpoint| seen.of_endpoint(endpoint));
    of_endpoints.iter().for_each(|timing| all.merge(timing));
    let endpoints = Endpoint::ALL.iter().zip(&of_endpoints);
    let own = Endpoint::ALL.iter().zip(&seen.own);
    let engines = instance.engines.iter().zip(&seen.engines);
    json!({
        "unit": "ms",
        "all": percentiles(&all),
        "endpoint": endpoints.map(|(e, timing)| named(e.name(), timing)).collect::<Vec<_>>(),
        "own": own.map(|(e, timing)| named(e.name(), timing)).collect::<Vec<_>>(),
        "engine": engines
            .map(|(name, seen)| {
                let mut out = named(name, &seen.timing);
                out.insert("cancelled".to_owned(), json!(seen.with(Verdict::Cancelled)));
                out
            })
            .collect::<Vec<_>>(),
        "class": Class::ALL
            .iter()
            .zip(&seen.by_class)
            .map(|(class, timing)| named(class.name(), timing))
            .collect::<Vec<_>>(),
        "key": keys(seen, instance, all.quantile(0.99)),
    })
}

fn keys(seen: &Seen, instance: &Instance, p99_of_all: Option<Duration>) -> Vec<Map<String, Value>> {
    let of_all = p99_of_all.unwrap_or_default().as_secs_f64();
    let used = instance.keys.iter().zip(&seen.keys).filter(|(_, key)| key.timing.count() > 0);
    let mut sorted: Vec<(f64, Map<String, Value>)> = used
        .map(|(name, key)| {
            let p99 = key.timing.quantile(0.99).unwrap_or_default().as_secs_f64();
            let excess_ms = (p99 - of_all) * 1_000.0;
            let mut out = named(name, &key.timing);
            out.insert("p99_excess".to_owned(), json!((excess_ms * 1_000.0).round() / 1_000.0));
            (excess_ms, out)
        })
        .collect();
    sorted.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    sorted.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Outcome;
    use crate::model::CacheStatus;

    fn instance() -> Instance {
        Instance {
            engines: vec!["alpha".to_owned()],
            keys: vec!["calm".to_owned(), "unused".to_owned(), "slow".to_owned()],
            ..Instance::default()
        }
    }

    #[test]
    fn keys_are_sorted_by_how_far_they_are_above_all() {
        let mut seen = Seen::new(1, 3);
        let miss = Outcome::Answered(CacheStatus::Miss).index();
        for (key, time_ms) in [(0, 100), (2, 500)] {
            let time = Duration::from_millis(time_ms);
            seen.by_endpoint[0][miss].record(time);
            seen.keys[key].timing.record(time);
        }
        let document = document(&seen, &instance());
        let names: Vec<&str> = document["key"]
            .as_array()
            .unwrap()
            .iter()
            .map(|k| k["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["slow", "calm"]);
        assert!(document["key"][1]["p99_excess"].as_f64().unwrap() < -390.0);
        assert_eq!(document["all"]["count"], 2);
        assert_eq!(document["endpoint"][0]["name"], "lite");
        assert!((document["all"]["p99"].as_f64().unwrap() / 500.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn nothing_seen_is_null_and_not_zero() {
        let document = document(&Seen::new(1, 3), &instance());
        assert_eq!(document["engine"][0]["p99"], Value::Null);
        assert_eq!(document["key"], json!([]));
    }
}
