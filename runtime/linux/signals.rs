//! Signal handlers that do no more than POSIX lets them: raise a flag, ring a bell (a load, a swap
//! and a write(2)).

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Ringer;

/// Raised by SIGTERM and SIGINT.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// Raised by SIGHUP.
pub(crate) static RELOAD: AtomicBool = AtomicBool::new(false);

static RINGER: OnceLock<Ringer> = OnceLock::new();

/// Installs the handlers, which ring `ringer`. Once per process.
///
/// # Errors
/// `AlreadyExists` the second time; the operating system's.
pub(crate) fn install(ringer: Ringer) -> io::Result<()> {
    if RINGER.set(ringer).is_err() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "handlers are installed already"));
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        handle(signal)?;
    }
    Ok(())
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: sigaction is plain data, for which all zeroes is a valid value: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is initialised and outlives the call, and `on_signal` does only what a
    // handler may: atomics, and write(2) by way of `Ringer::ring`.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: errno belongs to this thread; the code that was interrupted must find it unchanged.
    let errno = unsafe { *libc::__errno_location() };
    let flag = if signal == libc::SIGHUP { &RELOAD } else { &STOP };
    flag.store(true, Ordering::Release);
    if let Some(ringer) = RINGER.get() {
        ringer.ring();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
