//! How many extra calls (hedges, last chances) may be made, as a share of primary ones: one atomic
//! word for all cores of an instance.
//!
//! Every primary call deposits `ratio` tokens, every extra one withdraws a whole token when it is
//! launched, and the word never holds more than the burst. Integer micro-tokens, because a budget
//! that divides 1 by its ratio and truncates makes 0.7 behave as 1. There is no clock in it:
//! without traffic nothing flows, so an idle hour saves up no storm. Withdrawals in any span are at
//! most `ratio` times the deposits in it, plus the burst.
//!
//! The burst is at least 2, or the part of a deposit above the last token would be lost: with room
//! for 1, a ratio of 0.3 spends 0.25.

use std::sync::atomic::{AtomicI64, Ordering};

/// Micro-tokens to the token.
const TOKEN: i64 = 1_000_000;
/// The least burst with which every ratio is spent in full.
const BURST_MIN: u32 = 2;

/// A budget, shared by reference; starts with its burst.
#[derive(Debug)]
pub struct Budget {
    word: AtomicI64,
    deposit: i64,
    tokens_max: i64,
}

impl Budget {
    /// A budget of `ratio` (0..=1, anything else counts as the nearest of these) extra calls to
    /// each primary one, and `burst` (at least 2) on top. A ratio of 0 spends nothing, no burst
    /// either.
    pub fn new(ratio: f64, burst: u32) -> Self {
        // NaN fails the comparison and so spends nothing.
        let ratio = if ratio > 0.0 { ratio.min(1.0) } else { 0.0 };
        let deposit = (ratio * TOKEN as f64).round() as i64;
        let tokens_max = if deposit > 0 { i64::from(burst.max(BURST_MIN)) * TOKEN } else { 0 };
        Self { word: AtomicI64::new(tokens_max), deposit, tokens_max }
    }

    /// A primary call was made: adds `ratio` tokens, up to the burst.
    pub fn deposit(&self) {
        self.change(|tokens| {
            let after = (tokens + self.deposit).min(self.tokens_max);
            (after != tokens).then_some(after)
        });
    }

    /// An extra call is to be launched: takes a token; false, and nothing is taken, without one.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        self.change(|tokens| (tokens >= TOKEN).then(|| tokens - TOKEN))
    }

    /// Tokens there are, for display.
    pub fn tokens(&self) -> f64 {
        self.word.load(Ordering::Relaxed) as f64 / TOKEN as f64
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        let tokens = self.word.load(Ordering::Relaxed);
        assert!((0..=self.tokens_max).contains(&tokens), "{tokens} micro-tokens");
    }

    /// Relaxed: the word orders nothing but itself.
    fn change(&self, next: impl FnMut(i64) -> Option<i64>) -> bool {
        let is_changed = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        if cfg!(debug_assertions) {
            self.check();
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every one of 10,000 primaries wants an extra call; how many get one?
    fn check(ratio: f64, burst: u32, expected_ratio: f64) {
        let budget = Budget::new(ratio, burst);
        let extra = (0..10_000)
            .filter(|_| {
                budget.deposit();
                budget.withdraw()
            })
            .count();
        let spent = extra as f64 / 10_000.0;
        assert!((spent - expected_ratio).abs() <= 0.02, "{ratio} spent {spent}");
    }

    #[test]
    fn every_ratio_is_spent_as_given() {
        for ratio in [0.0, 0.02, 0.1, 0.15, 0.3, 0.5, 0.7, 0.95, 1.0] {
            check(ratio, 10, ratio);
            check(ratio, 0, ratio);
        }
    }

    #[test]
    fn senseless_ratios_count_as_the_nearest_sensible_one() {
        for (ratio, expected) in [(f64::NAN, 0.0), (-1.0, 0.0), (f64::INFINITY, 1.0), (7.0, 1.0)] {
            check(ratio, 1, expected);
        }
    }

    #[test]
    fn a_ratio_of_zero_spends_nothing() {
        let budget = Budget::new(0.0, 10);
        budget.deposit();
        assert!(!budget.withdraw());
    }

    #[test]
    fn a_lull_saves_up_no_more_than_the_burst() {
        let budget = Budget::new(0.5, 3);
        for _ in 0..1_000 {
            budget.deposit();
        }
        assert_eq!((0..1_000).filter(|_| budget.withdraw()).count(), 3);
        assert!(budget.tokens() < 1.0);
    }

    #[test]
    fn threads_never_overdraw() {
        let budget = Budget::new(0.15, 10);
        let spent: usize = std::thread::scope(|scope| {
            let storm = || {
                (0..5_000)
                    .filter(|_| {
                        budget.deposit();
                        budget.withdraw()
                    })
                    .count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(storm)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let left = budget.tokens();
        assert!(spent as f64 <= 0.15 * 20_000.0 + 10.0 - left + 1e-6, "{spent} spent");
        // Deposits above the burst are lost, never more than the threads could hold back.
        assert!(spent >= 2_990, "{spent} spent");
    }

    proptest! {
        #[test]
        fn no_span_spends_more_than_its_share_and_the_burst(
            ratio in 0.0_f64..=1.0,
            burst in 0_u32..20,
            wants in prop::collection::vec((any::<bool>(), 0_u8..4), 1..300),
        ) {
            let budget = Budget::new(ratio, burst);
            // (deposits, withdrawals) so far, after each step.
            let mut history = vec![(0_u32, 0_u32)];
            for (deposits, withdrawals) in wants {
                let (mut made, mut spent) = history.last().copied().unwrap_or_default();
                if deposits {
                    budget.deposit();
                    made += 1;
                }
                for _ in 0..withdrawals {
                    spent += u32::from(budget.withdraw());
                }
                history.push((made, spent));
            }
            let burst = f64::from(burst.max(BURST_MIN));
            for (index, from) in history.iter().enumerate() {
                for to in history.iter().skip(index) {
                    let (made, spent) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
                    prop_assert!(spent <= ratio * made + burst + 1e-3);
                }
            }
        }
    }
}
