//! What one core owns: pure structures. No `async`, no I/O, no clock: time and chance come in as
//! arguments, so that a test or a simulation decides both. A structure never outgrows the maximum
//! it was made with, and says what happens there. Times are `Instant` and `Duration`, sizes bytes,
//! ratios 0..=1.
//!
//! In the order a request meets them: admission (`bucket`, `limiter`), cache and coalescing (`l1`,
//! `flight`, `placement`), routing (`score`, `breaker`, `latency` over `buckets`), the call itself
//! (`budget`, `steering`, `pool`), and letters between cores (`mailbox`, `mesh`).

#![deny(unsafe_code)]

pub mod bucket;
pub mod limiter;
pub mod l1;
pub mod flight;
pub mod placement;
pub mod score;
pub mod breaker;
pub mod buckets;
pub mod latency;
pub mod budget;
pub mod steering;
pub mod pool;
#[allow(unsafe_code, reason = "the one lock-free structure; checked by loom")]
pub mod mailbox;
pub mod mesh;
#[cfg(test)]
mod chance;

pub use placement::CoreId;

/// Which admission lane a request travels in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Somebody waits for the answer.
    Interactive,
    /// Nobody does: batch keys and the traffic of slow endpoints.
    Batch,
}
