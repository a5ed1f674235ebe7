//! Histograms and what is read from them. Units: microseconds inside a histogram (1 µs to 60 s, 3
//! digits: a relative error of at most 0.1 %), milliseconds in reports.
//!
//! It must never add samples that were not measured, and never let a failure improve a percentile:
//! `TimeToGood` counts failures as infinitely late.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

const VALUE_US_MAX: u64 = 60_000_000;
const DIGITS: u8 = 3;

/// Latencies of one kind. Longer ones than 60 s count as 60 s.
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Self(
            Histogram::new_with_bounds(1, VALUE_US_MAX, DIGITS).expect("constant bounds are valid"),
        )
    }

    /// Adds one value.
    pub(crate) fn record(&mut self, value: Duration) {
        self.record_us(u64::try_from(value.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds one value in µs.
    pub(crate) fn record_us(&mut self, value_us: u64) {
        self.0.saturating_record(value_us.clamp(1, VALUE_US_MAX));
    }

    /// Adds the values of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// How many values there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value at `quantile` in ms; `None` without values.
    pub(crate) fn at_ms(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// What a report says of it.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            mean_ms: (!self.0.is_empty()).then(|| self.0.mean() / 1e3),
            p50_ms: self.at_ms(0.5),
            p50_interval_ms: self.interval_ms(0.5),
            p90_ms: self.at_ms(0.9),
            p99_ms: self.at_ms(0.99),
            p99_interval_ms: self.interval_ms(0.99),
            p99_9_ms: self.at_ms(0.999),
            p99_9_interval_ms: self.interval_ms(0.999),
            max_ms: (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e3),
        }
    }

    /// The 95 % interval of a quantile by order statistics: the ranks n·q ± 1.96·√(n·q·(1-q)).
    /// `None` where the upper rank lies beyond the last value: there are too few to bound it.
    fn interval_ms(&self, quantile: f64) -> Option<(f64, f64)> {
        let count = self.count() as f64;
        let reach = 1.96 * (count * quantile * (1.0 - quantile)).sqrt();
        let (low, high) = (count * quantile - reach, count * quantile + reach);
        if low < 1.0 || high > count {
            return None;
        }
        Some((self.at_ms(low / count)?, self.at_ms(high / count)?))
    }
}

/// Percentiles in ms; absent where there are no values.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) mean_ms: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p50_interval_ms: Option<(f64, f64)>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) p99_interval_ms: Option<(f64, f64)>,
    pub(crate) p99_9_ms: Option<f64>,
    pub(crate) p99_9_interval_ms: Option<(f64, f64)>,
    pub(crate) max_ms: Option<f64>,
}

/// How long it takes to get a good answer, with failures infinitely late: `None` is infinity.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct TimeToGood {
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) p99_9_ms: Option<f64>,
}

impl TimeToGood {
    /// Of `total` requests, `good` were answered well.
    pub(crate) fn of(good: &Latency, total: u64) -> Self {
        let at = |quantile: f64| {
            let rank = (quantile * total as f64).ceil();
            let share = rank / good.count() as f64;
            if good.count() > 0 && share <= 1.0 { good.at_ms(share) } else { None }
        };
        Self { p50_ms: at(0.5), p90_ms: at(0.9), p99_ms: at(0.99), p99_9_ms: at(0.999) }
    }
}

/// A share and its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Share {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Share {
    /// `part` of `total`, with the score interval of E. B. Wilson (1927).
    pub(crate) fn of(part: u64, total: u64) -> Self {
        if total == 0 {
            return Self { ratio: 0.0, low: 0.0, high: 1.0 };
        }
        const Z: f64 = 1.96;
        let (n, p) = (total as f64, part as f64 / total as f64);
        let scale = 1.0 + Z * Z / n;
        let centre = (p + Z * Z / (2.0 * n)) / scale;
        let reach = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        Self { ratio: p, low: (centre - reach).max(0.0), high: (centre + reach).min(1.0) }
    }
}

/// A number of ms for people; `absent` where there is none.
pub(crate) fn shown(ms: Option<f64>, absent: &str) -> String {
    ms.map_or_else(|| absent.to_owned(), |ms| format!("{ms:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ms(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        for ms in values {
            latency.record(Duration::from_millis(ms));
        }
        latency
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let summary = of_ms(1..=1000).summary();
        near(summary.p50_ms, 500.0);
        near(summary.p99_ms, 990.0);
        near(summary.max_ms, 1000.0);
        let (low, high) = summary.p99_interval_ms.expect("enough values");
        assert!(low < 985.0 && high > 995.0);
        assert!(summary.p99_9_interval_ms.is_none(), "one value does not bound a p99.9");
        assert!(Latency::new().summary().p50_ms.is_none());
    }

    #[test]
    fn merged_values_are_as_if_measured_together() {
        let mut latency = of_ms(1..=500);
        latency.merge(&of_ms(501..=1000));
        assert_eq!(latency.count(), 1000);
        near(latency.summary().p99_ms, 990.0);
    }

    #[test]
    fn failures_are_infinitely_late() {
        let good = of_ms(1..=950);
        let time = TimeToGood::of(&good, 1000);
        near(time.p50_ms, 500.0);
        near(time.p90_ms, 900.0);
        assert_eq!((time.p99_ms, time.p99_9_ms), (None, None));
        assert_eq!(TimeToGood::of(&Latency::new(), 10).p50_ms, None);
    }

    #[test]
    fn values_beyond_the_range_are_kept_at_its_end() {
        let latency = of_ms([0, 100_000_000]);
        assert_eq!(latency.count(), 2);
        near(latency.at_ms(1.0), 60_000.0);
    }

    #[test]
    fn no_failure_in_many_is_still_not_certainly_none() {
        let share = Share::of(0, 1000);
        assert!(share.low == 0.0 && share.high > 0.003 && share.high < 0.004);
    }
}
