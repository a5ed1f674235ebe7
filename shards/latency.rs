//! A rolling histogram of an engine's latency that knows what it did not see to the end.
//!
//! A call that lost its race is cancelled: its time is a lower bound, a *censored* sample. Left
//! out, the 90th percentile drifts down and hedging feeds itself; taken as exact, it drifts to the
//! hedge delay. So quantiles come from the product-limit estimate over log buckets (Kaplan and
//! Meier, "Nonparametric Estimation from Incomplete Observations", 1958), which a fixed or
//! independent delay leaves unbiased. With no exact sample there is no quantile, and never a zero.
//!
//! The window is a ring of slices: between `slices - 1` and `slices` slices' worth of samples
//! count. Memory: 3.9 KiB to the slice. Gossip: `take_delta` gives what was recorded here since the
//! last time, `merge_delta` adds what others saw and never sends it on.

use runtime::Instant;
use std::time::Duration;

pub use crate::buckets::BucketIndex;
use crate::buckets::{BUCKETS, Counts};

/// Entries one delta carries at most; what is left over goes into the next.
pub const DELTA_ENTRIES_MAX: usize = 15;

/// A survival of 0.1 made by ten factors must still meet 1 - 0.9.
const ROUNDING: f64 = 1e-9;

/// Whether a sample is the whole time or only what was seen of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Sample {
    /// The call ended by itself after this time.
    #[default]
    Exact,
    /// The call was cancelled at this time; it would have taken at least as long.
    Censored,
}

/// A rolling histogram of latencies, exact and censored.
#[derive(Clone, Debug)]
pub struct Latency {
    window: Duration,
    slice_ns: u64,
    slices: Box<[Slice]>,
    /// What was recorded here and not yet taken; sorted, at most one entry to a bucket and kind.
    pending: Vec<DeltaEntry>,
    pending_since: Instant,
}

#[derive(Clone, Debug)]
struct Slice {
    /// Which slice of time this is, counted from the start of the line.
    number: u64,
    exact: Counts,
    censored: Counts,
}

/// Samples recorded since the last delta, by bucket: a letter between cores (at most 128 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    entries: [DeltaEntry; DELTA_ENTRIES_MAX],
    len: u8,
}

const _: () = assert!(size_of::<Delta>() <= 128);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct DeltaEntry {
    bucket: BucketIndex,
    sample: Sample,
    count: u32,
}

impl Latency {
    /// An empty histogram over the last `window`, in `slices` slices (at least 1, at most 1,024).
    pub fn new(window: Duration, slices: usize) -> Self {
        let slices = slices.clamp(1, 1_024);
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let slice = Slice { number: 0, exact: Counts::new(), censored: Counts::new() };
        Self {
            window,
            slice_ns: (window_ns / slices as u64).max(1),
            slices: vec![slice; slices].into_boxed_slice(),
            pending: Vec::new(),
            pending_since: Instant::ZERO,
        }
    }

    /// Counts one call that took `value` (100 us to 120 s, saturating).
    pub fn record(&mut self, now: Instant, value: Duration, sample: Sample) {
        let bucket = BucketIndex::of(value);
        self.add(now, bucket, sample, 1);
        if now.since(self.pending_since) > self.window {
            self.pending.clear();
        }
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        let place = self.pending.binary_search_by_key(&(bucket, sample), DeltaEntry::key);
        match place {
            Ok(at) => {
                if let Some(entry) = self.pending.get_mut(at) {
                    entry.count = entry.count.saturating_add(1);
                }
            }
            Err(at) => self.pending.insert(at, DeltaEntry { bucket, sample, count: 1 }),
        }
        debug_assert!(self.pending.len() <= 2 * BUCKETS);
    }

    /// The latency that a share of `q` (0..=1) of calls does not exceed, within 2.1 %; none if no
    /// call in the window was seen to its end. Where the longest calls were all cancelled, the
    /// estimate ends at the longest time seen, which is a lower bound (Efron's convention).
    /// Costs one pass over `slices` times 486 counts.
    pub fn quantile(&self, now: Instant, q: f64) -> Option<Duration> {
        let live = || self.live(now);
        if live().all(|slice| slice.exact.total() == 0) {
            return None;
        }
        let mut at_risk: u64 = live().map(Slice::total).sum();
        let mut survival = 1.0;
        let mut longest = None;
        for bucket in BucketIndex::all() {
            let exact: u64 = live().map(|slice| u64::from(slice.exact.get(bucket))).sum();
            let censored: u64 = live().map(|slice| u64::from(slice.censored.get(bucket))).sum();
            if exact + censored == 0 {
                continue;
            }
            longest = Some(bucket);
            // A call cancelled within this bucket was still running when the others ended in it.
            survival *= 1.0 - exact as f64 / at_risk as f64;
            if survival <= 1.0 - q + ROUNDING {
                break;
            }
            at_risk -= exact + censored;
        }
        longest.map(BucketIndex::value)
    }

    /// How many samples the window holds, both kinds, merged ones included.
    pub fn count(&self, now: Instant) -> u64 {
        self.live(now).map(Slice::total).sum()
    }

    /// What was recorded here since the last delta, at most `DELTA_ENTRIES_MAX` buckets of it; none
    /// when there is nothing left. What nobody took for a whole window is forgotten.
    pub fn take_delta(&mut self) -> Option<Delta> {
        if self.pending.is_empty() {
            return None;
        }
        let mut delta = Delta::default();
        for entry in self.pending.drain(self.pending.len().saturating_sub(DELTA_ENTRIES_MAX)..) {
            delta.push(entry.bucket, entry.sample, entry.count);
        }
        self.check_in_debug();
        Some(delta)
    }

    /// Counts what another core recorded, as of `now`. It is not passed on by `take_delta`.
    pub fn merge_delta(&mut self, now: Instant, delta: &Delta) {
        for (bucket, sample, count) in delta.entries() {
            self.add(now, bucket, sample, count);
        }
        self.check_in_debug();
    }

    /// Asserts the invariants; a sweep of everything.
    pub fn check(&self) {
        for slice in &self.slices {
            slice.exact.check();
            slice.censored.check();
        }
        assert!(self.pending.is_sorted_by(|a, b| a.key() < b.key()));
        assert!(self.pending.iter().all(|entry| entry.count > 0));
        assert!(self.pending.len() <= 2 * BUCKETS);
    }

    fn add(&mut self, now: Instant, bucket: BucketIndex, sample: Sample, count: u32) {
        let number = now.as_nanos() / self.slice_ns;
        let place = (number % self.slices.len() as u64) as usize;
        let Some(slice) = self.slices.get_mut(place) else {
            return;
        };
        if slice.number < number {
            slice.number = number;
            slice.exact.clear();
            slice.censored.clear();
        }
        if slice.number == number {
            match sample {
                Sample::Exact => slice.exact.add(bucket, count),
                Sample::Censored => slice.censored.add(bucket, count),
            }
        }
    }

    /// The slices that are within the window at `now`.
    fn live(&self, now: Instant) -> impl Iterator<Item = &Slice> {
        let newest = now.as_nanos() / self.slice_ns;
        let oldest = (newest + 1).saturating_sub(self.slices.len() as u64);
        self.slices.iter().filter(move |slice| (oldest..=newest).contains(&slice.number))
    }

    fn check_in_debug(&self) {
        if cfg!(debug_assertions) {
            self.check();
        }
    }
}

impl Slice {
    fn total(&self) -> u64 {
        self.exact.total() + self.censored.total()
    }
}

impl Delta {
    /// Adds a bucket's count; false, and nothing is added, when the delta is full.
    pub fn push(&mut self, bucket: BucketIndex, sample: Sample, count: u32) -> bool {
        let Some(entry) = self.entries.get_mut(usize::from(self.len)) else {
            return false;
        };
        *entry = DeltaEntry { bucket, sample, count };
        self.len += 1;
        true
    }

    /// The buckets with their counts.
    pub fn entries(&self) -> impl Iterator<Item = (BucketIndex, Sample, u32)> {
        let entries = self.entries.iter().take(usize::from(self.len));
        entries.map(|entry| (entry.bucket, entry.sample, entry.count))
    }
}

impl DeltaEntry {
    fn key(&self) -> (BucketIndex, Sample) {
        (self.bucket, self.sample)
    }
}

#[cfg(test)]
mod tests {
    use super::Sample::{Censored, Exact};
    use super::*;
    use crate::chance::Chance;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const WINDOW: Duration = Duration::from_secs(60);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Records `(second, ms, kind)` and compares the quantile at `now`, within a bucket's error.
    fn check(samples: &[(u64, u64, Sample)], now: u64, q: f64, expected_ms: Option<u64>) {
        let mut latency = Latency::new(WINDOW, 6);
        for (second, value, sample) in samples {
            latency.record(at(*second), ms(*value), *sample);
        }
        latency.check();
        let found = latency.quantile(at(now), q);
        assert_eq!(found.is_some(), expected_ms.is_some(), "{found:?}");
        if let (Some(found), Some(expected_ms)) = (found, expected_ms) {
            let error = found.as_secs_f64() / ms(expected_ms).as_secs_f64() - 1.0;
            assert!(error.abs() <= 0.021, "{found:?} instead of {expected_ms} ms");
        }
    }

    #[test]
    fn without_an_exact_sample_there_is_no_quantile() {
        check(&[], 0, 0.9, None);
        check(&[(0, 200, Censored), (0, 300, Censored)], 0, 0.9, None);
        check(&[(0, 200, Exact)], 0, 0.9, Some(200));
        check(&[(0, 200, Exact)], 61, 0.9, None);
    }

    #[test]
    fn a_censored_sample_counts_until_it_was_cut() {
        let half = [(0, 100, Exact), (0, 200, Censored), (0, 300, Exact), (0, 400, Exact)];
        check(&half, 0, 0.25, Some(100));
        // Of three still running at 100 ms two are seen to end: 3/4 * (1 - 1/2) = 3/8 outlast 300.
        check(&half, 0, 0.6, Some(300));
        check(&half, 0, 0.7, Some(400));
        check(&half, 0, 1.0, Some(400));
    }

    #[test]
    fn where_the_longest_were_all_cut_the_longest_seen_is_the_answer() {
        check(&[(0, 100, Exact), (0, 400, Censored), (0, 900, Censored)], 0, 0.9, Some(900));
    }

    #[test]
    fn ten_equal_samples_reach_their_ninth_tenth() {
        let samples: Vec<_> = (1..=10).map(|tenth| (0, tenth * 100, Exact)).collect();
        for tenth in 1..=10 {
            check(&samples, 0, tenth as f64 / 10.0, Some(tenth * 100));
        }
    }

    #[test]
    fn a_stalled_upstream_saturates_and_still_has_a_quantile() {
        check(&[(0, 12_000, Exact), (0, 600_000, Exact)], 0, 0.5, Some(12_000));
        check(&[(0, 600_000, Exact), (0, 600_000, Exact)], 0, 0.9, Some(120_000));
    }

    #[test]
    fn the_window_rolls_by_slices() {
        let samples = [(5, 100, Exact), (15, 200, Exact), (64, 300, Exact)];
        check(&samples[..2], 59, 0.5, Some(100));
        check(&samples, 64, 0.5, Some(200));
        check(&samples, 69, 0.5, Some(200));
        check(&samples, 70, 0.5, Some(300));
        // A slot used again keeps nothing of its last use, and an old sample does not come in late.
        check(&[(5, 100, Exact), (65, 300, Exact), (5, 100, Exact)], 65, 0.1, Some(300));
    }

    /// Calls whose primary is cancelled when a hedge sent after `delay` answers first, both after
    /// the same law: (exact, ms) for each.
    fn hedged(chance: &mut Chance, delay: Duration, calls: u32) -> Vec<(Sample, Duration)> {
        let law = |chance: &mut Chance| chance.log_normal(ms(248), SIGMA);
        let call = |chance: &mut Chance| {
            let (primary, hedge) = (law(chance), delay + law(chance));
            if primary <= hedge { (Exact, primary) } else { (Censored, hedge) }
        };
        (0..calls).map(|_| call(chance)).collect()
    }

    /// The law of the tests: median 248 ms, 90th percentile 612 ms.
    const SIGMA: f64 = 0.7048;
    const P90_MS: f64 = 612.0;

    fn p90_ms(samples: impl Iterator<Item = (Sample, Duration)>) -> f64 {
        let mut latency = Latency::new(WINDOW, 6);
        samples.for_each(|(sample, value)| latency.record(at(1), value, sample));
        latency.quantile(at(1), 0.9).unwrap().as_secs_f64() * 1e3
    }

    fn is_off(found_ms: f64) -> bool {
        (found_ms / P90_MS - 1.0).abs() > 0.05
    }

    #[test]
    fn hedging_does_not_bias_the_estimate_as_it_does_naive_ones() {
        let mut chance = Chance::new(7);
        for (delay_ms, censored_ratio) in [(0, 0.5), (100, 0.34), (200, 0.22), (330, 0.12)] {
            let samples = hedged(&mut chance, ms(delay_ms), 20_000);
            let censored = samples.iter().filter(|(sample, _)| *sample == Censored).count();
            let ratio = censored as f64 / samples.len() as f64;
            assert!((ratio - censored_ratio).abs() < 0.02, "{delay_ms} ms cuts {ratio}");
            let all = || samples.iter().copied();
            let found = p90_ms(all());
            let dropped = p90_ms(all().filter(|(sample, _)| *sample == Exact));
            let taken_as_exact = p90_ms(all().map(|(_, value)| (Exact, value)));
            assert!(!is_off(found), "{delay_ms} ms: {found}");
            assert!(is_off(dropped), "{delay_ms} ms: {dropped}");
            assert!(is_off(taken_as_exact), "{delay_ms} ms: {taken_as_exact}");
        }
    }

    #[test]
    fn a_delay_that_follows_its_own_estimate_stays() {
        let mut chance = Chance::new(11);
        let mut latency = Latency::new(WINDOW, 6);
        let mut delay = ms(420);
        for second in 0..600 {
            for (sample, value) in hedged(&mut chance, delay, 40) {
                latency.record(at(second), value, sample);
            }
            if second % 10 == 9 {
                delay = latency.quantile(at(second), 0.9).unwrap();
            }
            if second >= 60 {
                let error = delay.as_secs_f64() * 1e3 / P90_MS - 1.0;
                assert!(error.abs() < 0.1, "{delay:?} after {second} s");
            }
        }
    }

    #[test]
    fn a_delta_is_bounded_taken_once_and_not_passed_on() {
        let mut ours = Latency::new(WINDOW, 6);
        let mut theirs = Latency::new(WINDOW, 6);
        let values = (0..100).map(|step| ms(100 + 10 * step));
        let buckets: BTreeSet<_> = values.clone().map(BucketIndex::of).collect();
        values.for_each(|value| ours.record(at(1), value, Exact));
        let mut deltas = 0;
        while let Some(delta) = ours.take_delta() {
            assert!((1..=DELTA_ENTRIES_MAX).contains(&delta.entries().count()));
            theirs.merge_delta(at(1), &delta);
            deltas += 1;
        }
        assert_eq!(deltas, buckets.len().div_ceil(DELTA_ENTRIES_MAX));
        assert_eq!(theirs.count(at(1)), 100);
        assert_eq!(theirs.quantile(at(1), 0.9), ours.quantile(at(1), 0.9));
        assert_eq!(theirs.take_delta(), None);
        let mut full = Delta::default();
        let bucket = BucketIndex::of(ms(1));
        assert!((0..DELTA_ENTRIES_MAX).all(|_| full.push(bucket, Exact, 1)));
        assert!(!full.push(bucket, Exact, 1));
    }

    #[test]
    fn what_nobody_takes_is_forgotten_after_a_window() {
        let mut latency = Latency::new(WINDOW, 6);
        latency.record(at(0), ms(100), Exact);
        latency.record(at(61), ms(200), Censored);
        let delta = latency.take_delta().unwrap();
        let expected = [(BucketIndex::of(ms(200)), Censored, 1)];
        assert!(delta.entries().eq(expected));
    }

    proptest! {
        // Debug builds sweep the whole histogram at each merge: 32 cases take about a second.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn evidence_gathered_by_gossip_equals_evidence_seen(
            samples in prop::collection::vec((0_usize..3, 1_u64..5_000, any::<bool>()), 1..200)
        ) {
            let mut whole = Latency::new(WINDOW, 6);
            let mut cores = vec![Latency::new(WINDOW, 6); 3];
            for (index, (core, value, is_exact)) in samples.iter().enumerate() {
                let now = at(index as u64 / 10);
                let sample = if *is_exact { Exact } else { Censored };
                whole.record(now, ms(*value), sample);
                cores[*core].record(now, ms(*value), sample);
                for from in 0..3 {
                    while let Some(delta) = cores[from].take_delta() {
                        (0..3).filter(|to| *to != from).for_each(|to| {
                            cores[to].merge_delta(now, &delta);
                        });
                    }
                }
            }
            let now = at(samples.len() as u64 / 10);
            whole.check();
            for core in cores {
                prop_assert_eq!(core.count(now), samples.len() as u64);
                for q in [0.1, 0.5, 0.9, 0.99] {
                    prop_assert_eq!(core.quantile(now, q), whole.quantile(now, q));
                }
            }
        }

        #[test]
        fn quantiles_rise_and_lie_among_the_samples(
            samples in prop::collection::vec((1_u64..5_000, any::<bool>()), 1..100)
        ) {
            let mut latency = Latency::new(WINDOW, 6);
            for (value, is_exact) in &samples {
                let sample = if *is_exact { Exact } else { Censored };
                latency.record(at(0), ms(*value), sample);
            }
            let quantiles: Vec<_> =
                (0..=20).map(|q| latency.quantile(at(0), f64::from(q) / 20.0)).collect();
            prop_assert_eq!(quantiles[0].is_some(), samples.iter().any(|(_, is_exact)| *is_exact));
            prop_assert!(quantiles.is_sorted());
            let longest = samples.iter().map(|(value, _)| *value).max().unwrap_or(0);
            prop_assert!(quantiles[20] <= Some(ms(longest).mul_f64(1.021)));
        }
    }
}
