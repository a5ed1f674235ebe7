//! SIGTERM and SIGINT ask the process to drain and end, SIGHUP to read its settings again. A signal
//! raises a flag and rings a bell; whoever waits on the bell (a core, or control by its own means)
//! takes the flags.
//!
//! Handlers belong to the process: `listen` works once.

use std::io;
use std::sync::atomic::Ordering;

use crate::Ringer;
use crate::linux::signals;

/// The flags that signals raise. One per process; may be looked at from any thread.
#[derive(Debug)]
pub struct Signals(());

/// Installs the handlers, which ring `ringer` after they raised a flag.
///
/// # Errors
/// `AlreadyExists` the second time; the operating system's.
pub fn listen(ringer: Ringer) -> io::Result<Signals> {
    signals::install(ringer)?;
    Ok(Signals(()))
}

impl Signals {
    /// Whether SIGTERM or SIGINT came. Stays raised: a process that is told to stop stops.
    pub fn is_stopping(&self) -> bool {
        signals::STOP.load(Ordering::Acquire)
    }

    /// Whether SIGHUP came since the last call.
    pub fn take_reload(&self) -> bool {
        signals::RELOAD.swap(false, Ordering::AcqRel)
    }

    /// Whether there is anything to see, as `Bell::wait` asks.
    pub fn has_any(&self) -> bool {
        self.is_stopping() || signals::RELOAD.load(Ordering::Acquire)
    }
}
