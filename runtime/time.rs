//! Time as the whole program sees it: nanoseconds on one monotonic line per process (or per
//! simulated world). Nothing outside `runtime` reads a clock; a stage is handed an `Instant`.
//!
//! Resolution: `now` is exact to the clock's own resolution (1 ns units, about 30 ns to read).
//! Timers are coarser and belong to the backend: see `Reactor::sleep_until`.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on the process's monotonic line, in nanoseconds since its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of the line.
    pub const ZERO: Self = Self(0);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant less `span`, not before the start.
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// Saturates: a span of more than 584 years is no span of ours.
const fn nanos(span: Duration) -> u64 {
    let ns = span.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.0 as f64 / 1e9)
    }
}

/// The instant by which something must have happened. It only shrinks on its way down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline at `instant`.
    pub const fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// The deadline `span` from `now`.
    pub fn after(now: Instant, span: Duration) -> Self {
        Self(now + span)
    }

    /// When it is.
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// What is left at `now`; zero once passed.
    pub const fn left(self, now: Instant) -> Duration {
        self.0.since(now)
    }

    /// Whether nothing is left at `now`.
    pub fn passed(self, now: Instant) -> bool {
        self.0 <= now
    }

    /// This deadline less a reserve of `span` for what comes after.
    pub const fn less(self, span: Duration) -> Self {
        Self(self.0.before(span))
    }

    /// The earlier of the two.
    pub fn earlier(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_only_shrinks() {
        let now = Instant::from_nanos(1_000);
        let whole = Deadline::after(now, Duration::from_millis(600));
        assert_eq!(whole.left(now), Duration::from_millis(600));
        assert_eq!(whole.less(Duration::from_millis(15)).left(now), Duration::from_millis(585));
        assert_eq!(whole.earlier(Deadline::at(now)).left(now), Duration::ZERO);
        assert_eq!(whole.less(Duration::from_secs(9)).left(now), Duration::ZERO);
    }
}
