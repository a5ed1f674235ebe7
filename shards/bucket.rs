//! A token bucket in one atomic word, exact over all cores of an instance.
//!
//! The generic cell rate algorithm (ITU-T I.371, annex A): the word is the time at which the bucket
//! will be full again, so an untouched word (0) is a full bucket, and there is nothing to refill.
//! Kept as time and not as tokens, a word survives a change of its rate. It counts 1/32 ns since
//! the start of the line (18 years fit), because 1 / `per_second` is no whole number of
//! nanoseconds: a rate is met within `per_second` * 1.6e-11 of itself (0.16 ppm at 10,000/s).
//!
//! It never waits and takes no lock: a lost race repeats a few instructions, and somebody else made
//! progress each time. `now` may differ a little between cores; an earlier one is merely stricter.

use runtime::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Word units to the nanosecond.
const UNITS_PER_NS: u64 = 32;
const UNITS_PER_SECOND: f64 = 1e9 * UNITS_PER_NS as f64;

/// How much may be taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// Tokens in a full bucket; 0 counts as 1 (a plan that forbids something leaves it out).
    pub burst: u32,
    /// Tokens per second that flow back, 1e-6 to 1e9; anything else counts as the nearest of these.
    pub per_second: f64,
}

/// What taking a token gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Whether there was a token; if not, nothing was taken.
    pub allowed: bool,
    /// Whole tokens that are left.
    pub remaining: u32,
    /// Until the bucket is full, if nothing else is taken.
    pub full_in: Duration,
    /// Until a token is there to take; zero while one remains.
    pub retry_in: Duration,
}

/// Takes one token from the bucket in `word`, if there is one.
pub fn take(word: &AtomicU64, now: Instant, rate: Rate) -> Taken {
    let gauge = Gauge::new(now, rate);
    let mut full_at = word.load(Ordering::Relaxed);
    loop {
        let (next, taken) = gauge.after_take(full_at);
        if !taken.allowed {
            return taken;
        }
        // Relaxed: the word orders nothing but itself.
        let swap = word.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed);
        match swap {
            Ok(_) => return taken,
            Err(current) => full_at = current,
        }
    }
}

/// What the bucket in `word` holds, without taking: `allowed` says whether a token is there.
pub fn peek(word: &AtomicU64, now: Instant, rate: Rate) -> Taken {
    let gauge = Gauge::new(now, rate);
    let debt = gauge.debt(word.load(Ordering::Relaxed));
    gauge.taken(debt.saturating_add(gauge.token) <= gauge.depth, debt)
}

/// A bucket's measures in word units.
struct Gauge {
    now: u64,
    /// Time in which one token flows back.
    token: u64,
    /// Time in which an empty bucket fills.
    depth: u64,
}

impl Gauge {
    fn new(now: Instant, rate: Rate) -> Self {
        // NaN fails every comparison and so ends up at the least rate.
        let per_second = if rate.per_second > 1e-6 { rate.per_second.min(1e9) } else { 1e-6 };
        let token = ((UNITS_PER_SECOND / per_second).round() as u64).max(1);
        Self {
            now: now.as_nanos().saturating_mul(UNITS_PER_NS),
            token,
            depth: token.saturating_mul(u64::from(rate.burst.max(1))),
        }
    }

    /// How long it takes until a bucket that is full at `full_at` is full. No longer than from
    /// empty: what was taken at a slower rate is not held against a faster one.
    fn debt(&self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.now).min(self.depth)
    }

    /// The word after a take, and what the take gave.
    fn after_take(&self, full_at: u64) -> (u64, Taken) {
        let debt = self.debt(full_at);
        let debt_after = debt.saturating_add(self.token);
        if debt_after > self.depth {
            return (full_at, self.taken(false, debt));
        }
        (self.now.saturating_add(debt_after), self.taken(true, debt_after))
    }

    fn taken(&self, allowed: bool, debt: u64) -> Taken {
        let room = self.depth.saturating_sub(debt);
        let retry = debt.saturating_add(self.token).saturating_sub(self.depth);
        Taken {
            allowed,
            remaining: u32::try_from(room / self.token).unwrap_or(u32::MAX),
            full_in: rounded_up(debt),
            retry_in: rounded_up(retry),
        }
    }
}

/// Rounded up to the nanosecond, so that waiting this long is long enough.
fn rounded_up(units: u64) -> Duration {
    Duration::from_nanos(units.div_ceil(UNITS_PER_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(burst: u32, per_second: f64) -> Rate {
        Rate { burst, per_second }
    }

    /// Takes at each of the times (ms) and compares whether it was allowed and what remained.
    fn check(rate: Rate, takes: &[(u64, bool, u32)]) {
        let word = AtomicU64::new(0);
        for (ms, allowed, remaining) in takes {
            let now = Instant::ZERO + Duration::from_millis(*ms);
            let taken = take(&word, now, rate);
            assert_eq!((taken.allowed, taken.remaining), (*allowed, *remaining), "at {ms} ms");
        }
    }

    #[test]
    fn a_bucket_starts_full_and_refills_at_its_rate() {
        check(
            rate(2, 2.0),
            &[
                (0, true, 1),
                (0, true, 0),
                (0, false, 0),
                (499, false, 0),
                (500, true, 0),
                (999, false, 0),
                (2_000, true, 1),
                (9_000, true, 1),
            ],
        );
    }

    #[test]
    fn senseless_rates_count_as_the_nearest_sensible_one() {
        check(rate(0, 1.0), &[(0, true, 0), (0, false, 0), (1_000, true, 0)]);
        check(rate(1, 0.0), &[(0, true, 0), (3_600_000, false, 0)]);
        check(rate(1, -5.0), &[(0, true, 0), (3_600_000, false, 0)]);
        check(rate(1, f64::NAN), &[(0, true, 0), (3_600_000, false, 0)]);
        check(rate(1, f64::INFINITY), &[(0, true, 0), (1, true, 0)]);
        let far = Instant::from_nanos(u64::MAX);
        let full = AtomicU64::new(u64::MAX);
        assert!(take(&AtomicU64::new(0), far, rate(u32::MAX, 1e-6)).allowed);
        assert!(!take(&full, Instant::ZERO, rate(u32::MAX, 1e9)).allowed);
    }

    #[test]
    fn a_word_survives_a_change_of_its_rate() {
        let (fast, slow) = (rate(100, 100.0), rate(20, 2.0));
        let now = Instant::ZERO + Duration::from_secs(100_000);
        let empty = |rate: Rate| {
            let word = AtomicU64::new(0);
            while take(&word, now, rate).allowed {}
            word
        };
        // A second of debt is two tokens of the slow rate; ten seconds are more than the fast
        // knows.
        assert_eq!(peek(&empty(fast), now, slow).remaining, 18);
        assert_eq!(peek(&empty(slow), now, fast).remaining, 0);
        assert_eq!(peek(&empty(slow), now, fast).retry_in, Duration::from_millis(10));
    }

    #[test]
    fn a_rate_is_met_without_drift() {
        for per_second in [0.7, 3.0, 700.0, 3_333.3, 9_999.9] {
            let word = AtomicU64::new(0);
            let mut now = Instant::ZERO;
            let takes = 100_000_u32;
            for _ in 0..takes {
                now += peek(&word, now, rate(1, per_second)).retry_in;
                assert!(take(&word, now, rate(1, per_second)).allowed);
            }
            let met = f64::from(takes - 1) / now.since(Instant::ZERO).as_secs_f64();
            // Each wait is rounded up to 1 ns, hence up to `per_second` * 1e-9 slower.
            let error = met / per_second - 1.0;
            assert!(error.abs() <= per_second * 1.1e-9 + 1e-9, "{per_second}/s met as {met}/s");
        }
    }

    #[test]
    fn a_greedy_caller_is_held_to_the_rate() {
        for per_second in [0.7, 3.0, 700.0, 9_999.9] {
            let word = AtomicU64::new(0);
            let span = Duration::from_secs_f64(50_000.0 / per_second);
            let steps = 200_000_u32;
            let allowed = (0..=steps)
                .map(|step| Instant::ZERO + span * step / steps)
                .filter(|now| take(&word, *now, rate(10, per_second)).allowed)
                .count();
            assert!((50_008..=50_010).contains(&allowed), "{per_second}/s gave {allowed}");
        }
    }

    #[test]
    fn threads_share_a_bucket_exactly() {
        let word = AtomicU64::new(0);
        let now = Instant::ZERO + Duration::from_secs(1);
        let allowed: usize = std::thread::scope(|scope| {
            let greedy =
                || (0..5_000).filter(|_| take(&word, now, rate(7_001, 1.0)).allowed).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(greedy)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(allowed, 7_001);
    }

    proptest! {
        #[test]
        fn what_is_promised_holds(
            burst in 1_u32..500,
            per_second in 0.01_f64..5_000.0,
            pauses in prop::collection::vec(0_u64..3_000_000_000, 1..60),
        ) {
            let rate = rate(burst, per_second);
            let word = AtomicU64::new(0);
            let mut now = Instant::from_nanos(17);
            for pause in pauses {
                now += Duration::from_nanos(pause);
                let before = peek(&word, now, rate);
                let taken = take(&word, now, rate);
                prop_assert_eq!(before.allowed, taken.allowed);
                prop_assert_eq!(taken.remaining, before.remaining - u32::from(taken.allowed));
                prop_assert_eq!(before.retry_in.is_zero(), before.allowed);
                let after = peek(&word, now, rate);
                prop_assert_eq!((after.remaining, after.full_in), (taken.remaining, taken.full_in));
                // At `full_in` the bucket is full; at `retry_in` there is a token, 1 ns before not.
                prop_assert_eq!(peek(&word, now + after.full_in, rate).remaining, burst);
                prop_assert!(peek(&word, now + after.retry_in, rate).allowed);
                if after.retry_in > Duration::from_nanos(1) {
                    let early = now + (after.retry_in - Duration::from_nanos(1));
                    prop_assert!(!peek(&word, early, rate).allowed);
                }
            }
        }
    }
}
