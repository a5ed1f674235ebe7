//! Rings a bell at every arrival of the plan, from a thread of its own that sleeps in the kernel. A
//! reactor's own timer may be a millisecond coarse and as much late (monoio's is), which would be
//! most of what a request from memory takes; a sleeping thread is late by 60 to 150 µs here.
//! Spinning on the reactor was rejected: it burns the core whose use tells whether the generator
//! was the bottleneck.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use runtime::{Instant, Reactor, Ringer};

use crate::core;

/// Readings of both clocks further apart than this are taken again.
pub(super) const SKEW_MAX: Duration = Duration::from_micros(2);
const READINGS_MAX: usize = 1_000;

/// Starts ringing for `arrivals` (ns after the start). Gives the start on the reactor's clock; the
/// thread ends after the last arrival.
///
/// # Errors
/// The operating system starts no thread.
pub(super) fn start(
    reactor: &Reactor,
    arrivals: Arc<[u64]>,
    ringer: Ringer,
) -> std::io::Result<(Instant, JoinHandle<()>)> {
    // The reactor's clock first: the thread's arrivals may be late by the skew, never early.
    let (mut start, mut base) = (reactor.now(), core::clock());
    for _ in 0..READINGS_MAX {
        if reactor.now().since(start) <= SKEW_MAX {
            break;
        }
        (start, base) = (reactor.now(), core::clock());
    }
    let thread = core::thread("pacer", move || {
        for arrival_ns in arrivals.iter() {
            let left = Duration::from_nanos(*arrival_ns).saturating_sub(base.elapsed());
            if !left.is_zero() {
                core::block(left);
            }
            ringer.ring();
        }
    })?;
    Ok((start, thread))
}
