//! Starting a core: pin the thread, build its ring on it, run its main task to the end.
//!
//! It must never drop a ring that has operations in flight: the kernel tears rings down after
//! close(2) has returned, and may still write into buffers that were freed by then. Such a ring is
//! leaked, on the understanding that the process ends soon.

use std::future::Future;
use std::io;

use crate::Reactor;

/// Which reactor a core runs on. Both variants always exist; using one that is not compiled in is
/// an error that names the cargo feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// monoio: completion-based sockets, the default.
    Monoio,
    /// glommio: readiness-based sockets.
    Glommio,
}

/// How a core is started.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// The reactor.
    pub backend: Backend,
    /// The logical CPU this thread is pinned to; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// Entries of the submission queue: 256 at least (fewer are rounded up), 32,768 at most. They
    /// take locked memory, which is counted per user and not for root: about 100 bytes each on
    /// monoio, 350 on glommio (three rings). An RLIMIT_MEMLOCK of 8 MiB holds 20 cores of 4,096
    /// entries on monoio and 5 on glommio; of 1,024, 64 at least and 16 (Linux 6.18). The kernel
    /// gives it back some time after a process ended, so `run` waits up to 2 s for it.
    pub entries: u32,
    /// The seed of the core's generator; `None` takes one from the operating system.
    pub seed: Option<u64>,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self { backend: Backend::Monoio, cpu: None, entries: 1024, seed: None }
    }
}

/// Pins this thread, builds the reactor on it and runs the future that `main` makes. Returns when
/// that future ends; other tasks are abandoned where they are. A reactor with operations in flight
/// is leaked, not dropped.
///
/// # Errors
/// The CPU cannot be pinned; too many entries are asked for; the reactor is not compiled in (the
/// message names the cargo feature); io_uring is missing or forbidden, or locked memory is short
/// (the message says what to change); `main` panicked.
pub fn run<M, F>(options: CoreOptions, main: M) -> io::Result<()>
where
    M: FnOnce(Reactor) -> F,
    F: Future<Output = ()> + 'static,
{
    pin(options.cpu)?;
    #[cfg(any(feature = "monoio", feature = "glommio"))]
    let entries = entries(options.entries)?;
    match options.backend {
        #[cfg(feature = "monoio")]
        Backend::Monoio => crate::monoio::run(entries, seed(options.seed)?, main),
        #[cfg(feature = "glommio")]
        Backend::Glommio => crate::glommio::run(entries, seed(options.seed)?, main),
        #[cfg(not(all(feature = "monoio", feature = "glommio")))]
        backend => {
            drop(main);
            Err(missing(backend))
        }
    }
}

#[cfg(not(all(feature = "monoio", feature = "glommio")))]
fn missing(backend: Backend) -> io::Error {
    let feature = match backend {
        Backend::Monoio => "monoio",
        Backend::Glommio => "glommio",
    };
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("this build lacks the {feature} reactor: compile with cargo feature `{feature}`"),
    )
}

/// The CPUs that glibc's `cpu_set_t` has room for.
const CPUS_MAX: usize = 1024;

fn pin(cpu: Option<usize>) -> io::Result<()> {
    let Some(id) = cpu else { return Ok(()) };
    // core_affinity indexes the C library's fixed set of CPUs, and a panic there aborts.
    if id < CPUS_MAX && core_affinity::set_for_current(core_affinity::CoreId { id }) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cannot pin to CPU {id}")))
}

/// The least that monoio builds a ring of.
#[cfg(any(feature = "monoio", feature = "glommio"))]
const ENTRIES_MIN: u32 = 256;

/// The kernel's IORING_MAX_ENTRIES.
#[cfg(any(feature = "monoio", feature = "glommio"))]
const ENTRIES_MAX: u32 = 32_768;

#[cfg(any(feature = "monoio", feature = "glommio"))]
fn entries(wanted: u32) -> io::Result<u32> {
    if wanted > ENTRIES_MAX {
        let text = format!("a ring of {wanted} entries: the kernel allows {ENTRIES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(wanted.max(ENTRIES_MIN))
}

#[cfg(any(feature = "monoio", feature = "glommio"))]
#[expect(clippy::disallowed_methods, reason = "the one place where a core's seed is made")]
fn seed(given: Option<u64>) -> io::Result<u64> {
    if let Some(seed) = given {
        return Ok(seed);
    }
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_ne_bytes(bytes))
}
