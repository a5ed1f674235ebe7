//! Log buckets for durations: 24 to the doubling, from 100 us to 120 s, 486 in all.
//!
//! Integer arithmetic only, so that every machine puts a value into the same bucket. A bucket is
//! given back as its middle, which is within 2.1 % (1/48) of any value in it. Values outside the
//! range saturate: a stalled upstream of ten minutes counts as 120 s and is never an error.
//! Unit: nanoseconds inside, `Duration` outside.

use std::time::Duration;

/// The least value told apart; what is below counts as this.
pub const VALUE_MIN: Duration = Duration::from_micros(100);
/// The greatest value told apart; what is above counts as this.
pub const VALUE_MAX: Duration = Duration::from_secs(120);
/// How many buckets there are.
pub const BUCKETS: usize = raw(VALUE_MAX.as_nanos() as u64) - FIRST + 1;

/// Buckets to the doubling: one is at most 1/24 = 4.2 % wide.
const PER_DOUBLING: u64 = 24;
const FIRST: usize = raw(VALUE_MIN.as_nanos() as u64);

const _: () = assert!(BUCKETS <= u16::MAX as usize);

/// A bucket's number, 0..`BUCKETS`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BucketIndex(u16);

impl BucketIndex {
    /// The bucket of `value`, saturating at both ends.
    pub fn of(value: Duration) -> Self {
        let value = value.clamp(VALUE_MIN, VALUE_MAX);
        let bucket = Self((raw(value.as_nanos() as u64) - FIRST) as u16);
        debug_assert!(bucket.index() < BUCKETS);
        bucket
    }

    /// The bucket of that number, as a peer sent it; none if there is no such bucket.
    pub fn from_u16(number: u16) -> Option<Self> {
        (usize::from(number) < BUCKETS).then_some(Self(number))
    }

    /// The bucket's number, for sending.
    pub const fn as_u16(self) -> u16 {
        self.0
    }

    /// The middle of the bucket, within 2.1 % of every value in it.
    pub fn value(self) -> Duration {
        let raw = (self.index() + FIRST) as u64;
        let (doubling, step) = (raw / PER_DOUBLING, raw % PER_DOUBLING + PER_DOUBLING);
        let middle_ns = ((2 * step + 1) << doubling) / (2 * PER_DOUBLING);
        Duration::from_nanos(middle_ns).clamp(VALUE_MIN, VALUE_MAX)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..BUCKETS as u16).map(Self)
    }
}

/// The bucket's number counted from 1 ns: the doubling gives the high part, and what lies between
/// two doublings is cut into `PER_DOUBLING` equal steps. `value_ns` is 1..=2^59.
const fn raw(value_ns: u64) -> usize {
    let doubling = value_ns.ilog2() as u64;
    let step = (value_ns * PER_DOUBLING) >> doubling;
    (doubling * PER_DOUBLING + step - PER_DOUBLING) as usize
}

/// One count to the bucket, saturating at `u32::MAX` each; 1.9 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    by_bucket: Box<[u32]>,
    total: u64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self { by_bucket: vec![0; BUCKETS].into_boxed_slice(), total: 0 }
    }

    pub(crate) fn add(&mut self, bucket: BucketIndex, count: u32) {
        if let Some(slot) = self.by_bucket.get_mut(bucket.index()) {
            let before = *slot;
            *slot = before.saturating_add(count);
            self.total += u64::from(*slot - before);
        }
    }

    pub(crate) fn get(&self, bucket: BucketIndex) -> u32 {
        self.by_bucket.get(bucket.index()).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn clear(&mut self) {
        if self.total > 0 {
            self.by_bucket.fill(0);
            self.total = 0;
        }
    }

    /// The least bucket with at least `q` of all counts at or below it; none without counts.
    pub(crate) fn quantile(&self, q: f64) -> Option<Duration> {
        let wanted = (self.total as f64 * q).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = BucketIndex::all().find(|bucket| {
            below += u64::from(self.get(*bucket));
            below >= wanted
        });
        found.map(BucketIndex::value)
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        assert_eq!(self.by_bucket.len(), BUCKETS);
        assert_eq!(self.by_bucket.iter().copied().map(u64::from).sum::<u64>(), self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: Duration, expected: Duration) {
        let found = BucketIndex::of(value).value();
        let error = found.as_secs_f64() / expected.as_secs_f64() - 1.0;
        assert!(error.abs() <= 0.021, "{value:?} came back as {found:?}, expected {expected:?}");
    }

    #[test]
    fn values_outside_the_range_saturate() {
        for (value, expected) in [
            (Duration::ZERO, VALUE_MIN),
            (Duration::from_nanos(1), VALUE_MIN),
            (VALUE_MIN, VALUE_MIN),
            (VALUE_MAX, VALUE_MAX),
            (Duration::from_secs(600), VALUE_MAX),
            (Duration::MAX, VALUE_MAX),
        ] {
            check(value, expected);
        }
    }

    #[test]
    fn buckets_rise_and_there_are_486() {
        let middles: Vec<_> = BucketIndex::all().map(BucketIndex::value).collect();
        assert_eq!(middles.len(), 486);
        assert!(middles.is_sorted_by(|a, b| a < b));
        assert_eq!(BucketIndex::from_u16(485).map(BucketIndex::as_u16), Some(485));
        assert_eq!(BucketIndex::from_u16(486), None);
    }

    #[test]
    fn counts_saturate_and_give_quantiles() {
        let mut counts = Counts::new();
        assert_eq!(counts.quantile(0.9), None);
        let (low, high) = (BucketIndex::of(VALUE_MIN), BucketIndex::of(VALUE_MAX));
        counts.add(low, 9);
        counts.add(high, 1);
        assert_eq!(counts.quantile(0.9), Some(low.value()));
        assert_eq!(counts.quantile(0.91), Some(high.value()));
        counts.add(high, u32::MAX);
        counts.check();
        assert_eq!(counts.get(high), u32::MAX);
        counts.clear();
        counts.check();
        assert_eq!(counts.total(), 0);
    }

    proptest! {
        #[test]
        fn a_value_comes_back_within_a_fortieth(us in 100_u64..=120_000_000) {
            let value = Duration::from_micros(us);
            check(value, value);
            let bucket = BucketIndex::of(value);
            prop_assert_eq!(BucketIndex::of(bucket.value()), bucket);
        }
    }
}
