//! The process's two clocks, read here and nowhere else. All cores share one start, so an
//! `Instant` of one core means the same on another.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::Instant;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// The monotonic time since the first call in this process.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(crate) fn now() -> Instant {
    let since = std::time::Instant::now().saturating_duration_since(start());
    Instant::ZERO + since
}

/// The start of the line as the standard library names it, for backends whose timers want that.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(crate) fn start() -> std::time::Instant {
    *START.get_or_init(std::time::Instant::now)
}

/// Wall-clock time since the Unix epoch; zero if the clock is set before it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
