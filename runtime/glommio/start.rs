//! Building a core's executor and running its main task.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use glommio::{GlommioError, LocalExecutor, LocalExecutorBuilder, Placement, ReactorErrorKind};

use super::{Core, Reactor};
use crate::linux::memlock;
use crate::rng::Generator;
use crate::task::{Guarded, Host};

/// How long tasks may run before glommio looks at its rings and timers; its default is 100 ms.
const PREEMPT_EVERY: Duration = Duration::from_millis(1);

/// Memory registered with the kernel for files, of which this project reads none. glommio's default
/// is 10 MiB per core.
const IO_MEMORY_BYTES: usize = 64 * 1024;

/// Runs `main` on this thread. See `crate::run`.
pub(crate) fn run<M, F>(entries: u32, seed: u64, main: M) -> io::Result<()>
where
    M: FnOnce(crate::Reactor) -> F,
    F: Future<Output = ()> + 'static,
{
    let executor = memlock::patiently(|| build(entries))?;
    let core = Rc::new(Core {
        generator: Generator::new(seed),
        panics: Cell::new(0),
        in_flight: Cell::new(0),
    });
    let reactor = Reactor(core.clone());
    let host = Main { core: core.clone(), has_panicked: Rc::default() };
    let has_panicked = host.has_panicked.clone();
    executor.run(async move {
        let task = main(crate::Reactor(crate::ReactorKind::Glommio(reactor)));
        Guarded::new(task, host).await;
    });
    if core.in_flight.get() > 0 {
        tracing::debug!(operations = core.in_flight.get(), "the ring is left to the process's end");
        mem::forget(executor);
    }
    if has_panicked.get() {
        return Err(io::Error::other("the core's main task panicked"));
    }
    Ok(())
}

/// The host of the main task, whose panic ends the core.
struct Main {
    core: Rc<Core>,
    has_panicked: Rc<Cell<bool>>,
}

impl Host for Main {
    fn may_take_turn(&self, task: usize, waker: &Waker) -> bool {
        self.core.may_take_turn(task, waker)
    }

    fn caught(&self) {
        self.core.caught();
        self.has_panicked.set(true);
    }
}

fn build(entries: u32) -> io::Result<LocalExecutor> {
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .ring_depth(usize::try_from(entries).unwrap_or(usize::MAX))
        .io_memory(IO_MEMORY_BYTES)
        .preempt_timer(PREEMPT_EVERY)
        .make();
    executor.map_err(explain)
}

/// glommio looks at the limit itself, before it asks the kernel, and for root too.
fn explain(error: GlommioError<()>) -> io::Error {
    if let GlommioError::ReactorError(ReactorErrorKind::MemLockLimit(limit, least)) = error {
        let text = format!(
            "locked memory is short for glommio (RLIMIT_MEMLOCK is {} KiB, it wants {} KiB): set \
             LimitMEMLOCK=infinity",
            limit / 1024,
            least / 1024
        );
        return io::Error::new(io::ErrorKind::OutOfMemory, text);
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_says_what_to_change() {
        let kind = ReactorErrorKind::MemLockLimit(256 << 10, 512 << 10);
        let text = explain(GlommioError::ReactorError(kind)).to_string();
        assert!(text.contains("is 256 KiB") && text.contains("LimitMEMLOCK"), "{text}");
    }
}
