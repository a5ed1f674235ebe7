//! An eventfd: a counter in the kernel that one thread adds to and another reads through its ring.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};

/// The counter. Adding to it is one system call; reading takes all of it at once.
pub(crate) struct EventFd(File);

impl EventFd {
    /// A counter of zero, close-on-exec. Blocking, so that a read through a ring waits.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two integers and touches no memory of ours.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        let owned = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self(File::from(owned)))
    }

    /// Adds one, which wakes the reader. Never blocks in practice: the counter would have to reach
    /// 2^64 - 2, and it is reset by each read.
    pub(crate) fn add_one(&self) {
        // No logging here: this runs in signal handlers too. The descriptor is open and the value
        // is 8 bytes, so the one error left is EINTR, and the signal's own ring covers that.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// A descriptor of its own for the reading side.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn reader(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}
