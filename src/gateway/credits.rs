//! Monthly credits, counted per instance in one word per key: the month in its upper 24 bits, the
//! credits used in the lower 40. A word of an earlier month counts as unused, so nothing has to be
//! reset when a month ends. Months are UTC.
//!
//! Counted per instance, a plan's credits are multiplied by the number of instances, and a restart
//! forgets them: the price of having no shared store.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

const USED_BITS: u32 = 40;
const USED_MAX: u64 = (1 << USED_BITS) - 1;

/// A month, counted from the year 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Month(u32);

impl Month {
    fn word(self, used: u64) -> u64 {
        (u64::from(self.0) << USED_BITS) | used.min(USED_MAX)
    }

    /// The month of a word.
    fn of(word: u64) -> Self {
        Self((word >> USED_BITS) as u32)
    }

    /// Credits used in this month, of a word.
    fn used(self, word: u64) -> u64 {
        if word >> USED_BITS == u64::from(self.0) { word & USED_MAX } else { 0 }
    }
}

/// Takes one credit, if fewer than `most` are used in `month`.
pub(super) fn take(word: &AtomicU64, month: Month, most: u64) -> bool {
    let next = |word: u64| {
        // Another core's calendar may be a moment ahead: then it is that month here too, or the
        // two would reset each other's count in turn.
        let month = month.max(Month::of(word));
        let used = month.used(word);
        (used < most.min(USED_MAX)).then(|| month.word(used + 1))
    };
    // Relaxed: the word orders nothing but itself.
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}

/// Gives back a credit taken in `month`; of no effect once another month has begun.
pub(super) fn give_back(word: &AtomicU64, month: Month) {
    let next = |word: u64| month.used(word).checked_sub(1).map(|used| month.word(used));
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Which month it is, as last told.
#[derive(Default)]
pub(super) struct Calendar {
    month: Cell<Month>,
    begins: Cell<Duration>,
    ends: Cell<Duration>,
    unix_time: Cell<Duration>,
}

impl Calendar {
    /// Tells the time since the Unix epoch. Works out the month only when another one has begun.
    pub(super) fn set(&self, unix_time: Duration) {
        self.unix_time.set(unix_time);
        if (self.begins.get()..self.ends.get()).contains(&unix_time) {
            return;
        }
        if let Some((month, begins, ends)) = month_of(unix_time) {
            self.month.set(month);
            self.begins.set(begins);
            self.ends.set(ends);
        }
    }

    /// This month.
    pub(super) fn month(&self) -> Month {
        self.month.get()
    }

    /// Until it ends; at least a second.
    pub(super) fn left(&self) -> Duration {
        self.ends.get().saturating_sub(self.unix_time.get()).max(Duration::from_secs(1))
    }
}

/// The month that a time lies in, when it began and when it ends.
fn month_of(unix_time: Duration) -> Option<(Month, Duration, Duration)> {
    let seconds = i64::try_from(unix_time.as_secs()).ok()?;
    let date = Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?).date();
    let at = |date: Date| {
        let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
        u64::try_from(midnight.as_second()).ok().map(Duration::from_secs)
    };
    let begins = at(date.first_of_month())?;
    let ends = at(date.last_of_month().tomorrow().ok()?)?;
    let index = u32::try_from(date.year()).ok()? * 12 + u32::try_from(date.month()).ok()? - 1;
    Some((Month(index), begins, ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_month_begins_unused() {
        let word = AtomicU64::new(0);
        let (one, other) = (Month(24_000), Month(24_001));
        assert_eq!(
            [take(&word, one, 2), take(&word, one, 2), take(&word, one, 2)],
            [true, true, false]
        );
        assert!(take(&word, other, 1));
        assert!(!take(&word, other, 1));
        assert!(!take(&word, one, 1), "a core whose month has not ended yet resets nothing");
        assert!(!take(&word, other, 1));
    }

    #[test]
    fn a_credit_is_given_back_in_its_month_only() {
        let word = AtomicU64::new(0);
        let (one, other) = (Month(24_000), Month(24_001));
        give_back(&word, one);
        assert!(take(&word, one, 1));
        give_back(&word, other);
        assert!(!take(&word, one, 1));
        give_back(&word, one);
        assert!(take(&word, one, 1));
    }

    #[test]
    fn threads_share_a_month_exactly() {
        let word = AtomicU64::new(0);
        let taken: usize = std::thread::scope(|scope| {
            let greedy = || (0..5_000).filter(|_| take(&word, Month(7), 7_001)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(greedy)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
        });
        assert_eq!(taken, 7_001);
    }

    #[test]
    fn months_end_where_the_calendar_says() {
        let check = |unix_s: u64, index: u32, left_s: u64| {
            let calendar = Calendar::default();
            calendar.set(Duration::from_secs(unix_s));
            assert_eq!(
                (calendar.month(), calendar.left()),
                (Month(index), Duration::from_secs(left_s))
            );
        };
        check(0, 1970 * 12, 31 * 86_400);
        check(1_709_251_199, 2024 * 12 + 1, 1);
        check(1_709_251_200, 2024 * 12 + 2, 31 * 86_400);
        check(1_798_761_599, 2026 * 12 + 11, 1);
    }
}
