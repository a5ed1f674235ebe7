//! A distribution of times: an HDR histogram from 1 us to 60 s, made when first recorded into, and
//! the exact sum. Longer times count as 60 s in the histogram and as they are in the sum.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart.
const LONGEST_US: u64 = 60_000_000;

/// How finely times are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digits {
    /// Within 1 %: 20 KiB.
    Two,
    /// Within 0.1 %: 136 KiB.
    Three,
}

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Timing {
    digits: Digits,
    histogram: Option<Histogram<u64>>,
    sum: Duration,
}

impl Timing {
    /// Of nothing yet.
    pub const fn new(digits: Digits) -> Self {
        Self { digits, histogram: None, sum: Duration::ZERO }
    }

    /// One time more.
    pub fn record(&mut self, time: Duration) {
        self.sum = self.sum.saturating_add(time);
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.histogram().saturating_record(time_us.clamp(1, LONGEST_US));
    }

    fn histogram(&mut self) -> &mut Histogram<u64> {
        let digits = match self.digits {
            Digits::Two => 2,
            Digits::Three => 3,
        };
        self.histogram.get_or_insert_with(|| {
            #[expect(clippy::expect_used, reason = "constant bounds; a test makes both kinds")]
            Histogram::new_with_bounds(1, LONGEST_US, digits).expect("1 < LONGEST_US / 2")
        })
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// All times together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The time that a share `quantile` (0..=1) of them does not exceed; none of nothing.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(quantile)))
    }

    /// The longest.
    pub fn max(&self) -> Option<Duration> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.max()))
    }

    /// How many do not exceed each of `bounds`, which ascend; a time that the digits do not tell
    /// from a bound does not exceed it.
    pub fn counts_within(&self, bounds: &[Duration]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        let Some(histogram) = &self.histogram else {
            return counts;
        };
        for step in histogram.iter_recorded() {
            let time_us = histogram.lowest_equivalent(step.value_iterated_to());
            let time = Duration::from_micros(time_us);
            let first = bounds.partition_point(|bound| *bound < time);
            if let Some(count) = counts.get_mut(first) {
                *count += step.count_at_value();
            }
        }
        let mut sum = 0;
        for count in &mut counts {
            sum += *count;
            *count = sum;
        }
        counts
    }

    /// Adds what another has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        if let Some(source) = &other.histogram {
            let added = self.histogram().add(source);
            debug_assert!(added.is_ok(), "the bounds are the same");
        }
    }

    /// Becomes `newer`, a later state of the same distribution: without work if nothing was
    /// recorded since.
    pub fn copy_from(&mut self, newer: &Self) {
        if self.count() == newer.count() {
            return;
        }
        self.sum = newer.sum;
        if let Some(source) = &newer.histogram {
            let set = self.histogram().set_to(source);
            debug_assert!(set.is_ok(), "the bounds are the same");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn of(digits: Digits, times: impl IntoIterator<Item = Duration>) -> Timing {
        let mut timing = Timing::new(digits);
        times.into_iter().for_each(|time| timing.record(time));
        timing
    }

    #[test]
    fn quantiles_are_within_their_digits() {
        for (digits, error) in [(Digits::Two, 0.01), (Digits::Three, 0.001)] {
            let timing = of(digits, (1..=1_000).map(MS));
            for (quantile, expected) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
                let found = timing.quantile(quantile).unwrap().as_secs_f64();
                assert!((found / expected - 1.0).abs() <= error, "{quantile}: {found}");
            }
            assert_eq!((timing.count(), timing.sum()), (1_000, MS(500_500)));
        }
    }

    #[test]
    fn times_out_of_range_count_at_its_ends() {
        let timing = of(Digits::Three, [Duration::ZERO, Duration::from_secs(3_600)]);
        assert_eq!(timing.quantile(0.0), Some(Duration::from_micros(1)));
        assert!(timing.max().unwrap() >= Duration::from_secs(60));
        assert_eq!(Timing::new(Digits::Two).quantile(0.5), None);
        assert_eq!(Timing::new(Digits::Two).max(), None);
    }

    #[test]
    fn merged_is_as_if_recorded_into_one() {
        let mut merged = of(Digits::Three, (1..=500).map(MS));
        merged.merge(&of(Digits::Three, (501..=1_000).map(MS)));
        merged.merge(&Timing::new(Digits::Three));
        let one = of(Digits::Three, (1..=1_000).map(MS));
        for quantile in [0.1, 0.5, 0.9, 0.99, 0.999] {
            assert_eq!(merged.quantile(quantile), one.quantile(quantile));
        }
        assert_eq!((merged.count(), merged.sum()), (one.count(), one.sum()));
    }

    #[test]
    fn buckets_are_cumulative() {
        let timing = of(Digits::Three, [MS(1), MS(2), MS(2), MS(100), MS(9_000)]);
        let bounds = [Duration::from_micros(500), MS(2), MS(100), MS(100)];
        assert_eq!(timing.counts_within(&bounds), [0, 3, 4, 4]);
        assert_eq!(Timing::new(Digits::Two).counts_within(&bounds), [0, 0, 0, 0]);
    }

    #[test]
    fn a_copy_is_the_newer_state() {
        let mut live = of(Digits::Two, [MS(5)]);
        let mut copy = Timing::new(Digits::Two);
        copy.copy_from(&live);
        live.record(MS(7));
        assert_eq!(copy.count(), 1);
        copy.copy_from(&live);
        assert_eq!((copy.count(), copy.sum()), (2, MS(12)));
    }
}
