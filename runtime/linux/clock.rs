//! The process's two clocks, read here and nowhere else. All cores share one start, so an
//! `Instant` of one core means the same on another.

use std::sync::OnceLock;
use std::time::Duration;

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

/// Wall-clock time since the Unix epoch, as of the kernel's last tick (1 to 10 ms): it is for names
/// and dates that people read, and costs a fifth of the exact one. Zero if the clock is set before
/// the epoch.
pub(crate) fn unix_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one `timespec`, and nothing else is touched. A kernel
    // that refused the clock would leave the epoch, which is what the caller gets then.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0).min(999_999_999))
}
