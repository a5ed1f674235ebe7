//! A rolling histogram of an engine's latency that knows what it did not see to the end.
//!
//! A call that lost its race is cancelled: its time is a lower bound, a *censored* sample. Left out,
//! the 90th percentile drifts down and hedging feeds itself; taken as exact, it drifts to the hedge
//! delay. So quantiles come from the product-limit estimate over log buckets (Kaplan and Meier,
//! "Nonparametric Estimation from Incomplete Observations", 1958), which a fixed or independent
//! delay leaves unbiased. With no exact sample there is no quantile, and never a zero.
//!
//! The window is a ring of slices: between `slices - 1` and `slices` slices' worth of samples count.
//! Memory: 3.9 KiB to the slice. Gossip: `take_delta` gives what was recorded here since the last
//! time, `merge_delta` adds what others saw and never sends it on.

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

/// Samples recorded since the last delta, by bucket: a letter between cores (128 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    entries: [DeltaEntry; DELTA_ENTRIES_MAX],
    len: u8,
}

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
        let slice = Slice {
            number: 0,
            exact: Counts::new(),
            censored: Counts::new(),
        };
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
        let place = self
            .pending
            .binary_search_by_key(&(bucket, sample), DeltaEntry::key);
        match place {
            Ok(at) => {
                if let Some(entry) = self.pending.get_mut(at) {
                    entry.count = entry.count.saturating_add(1);
                }
            }
            Err(at) => self.pending.insert(
                at,
                DeltaEntry {
                    bucket,
                    sample,
                    count: 1,
                },
            ),
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
            let censored: u64 = live()
                .map(|slice| u64::from(slice.censored.get(bucket)))
                .sum();
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
        for entry in self
            .pending
            .drain(self.pending.len().saturating_sub(DELTA_ENTRIES_MAX)..)
        {
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
        self.slices
            .iter()
            .filter(move |slice| (oldest..=newest).contains(&slice.number))
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
        *entry = DeltaEntry {
            bucket,
            sample,
            count,
        };
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
