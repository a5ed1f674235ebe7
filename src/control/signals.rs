//! Signals: SIGTERM and SIGINT drain, those that other programs give a meaning to are refused, and
//! none of them ends the process by surprise. SIGPIPE is ignored from the start, as by every Rust
//! program; SIGQUIT and SIGABRT end it with a core file, which is what they are for.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{State, log};

/// What a shell gives for a process that SIGINT ended.
const STATUS_INTERRUPTED: i32 = 130;

/// SIGXFSZ on all Linux architectures but MIPS: a log file is at its limit of size. The write fails
/// too, and that is all that should come of it.
const FILE_TOO_LARGE: i32 = 25;

/// Signals that end a process by default and must not end this one, held from before the first
/// connection.
pub(super) struct Refused {
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    _file_too_large: Signal,
}

impl Refused {
    /// Holds them. Within a tokio runtime.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn hold() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
            _file_too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Says of each that comes what to do instead.
    pub(super) async fn watch(mut self) {
        loop {
            let name = tokio::select! {
                _ = self.hangup.recv() => "SIGHUP",
                _ = self.user_1.recv() => "SIGUSR1",
                _ = self.user_2.recv() => "SIGUSR2",
            };
            tracing::warn!(
                signal = name,
                "ignored: settings are read at start only, and no log file is held. For new \
                 settings start a new instance and drain this one (SIGTERM or POST /drain)"
            );
        }
    }
}

/// SIGTERM and SIGINT begin the drain. A person who asks again (SIGINT) is not made to wait; a
/// supervisor that repeats SIGTERM is, for it has SIGKILL.
pub(super) async fn watch(state: Arc<State>) {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    let [Ok(mut terminate), Ok(mut interrupt)] = kinds.map(signal) else {
        tracing::error!("signals cannot be watched: SIGTERM will end the process without a drain");
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => state.drain("SIGTERM"),
            _ = interrupt.recv() => {
                if state.is_draining() {
                    tracing::warn!("asked again: ending without waiting for requests");
                    log::flush();
                    std::process::exit(STATUS_INTERRUPTED);
                }
                state.drain("SIGINT");
            }
        }
    }
}
