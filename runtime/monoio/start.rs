//! Building a core's ring and running its main task.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::rc::Rc;
use std::task::Waker;

use monoio::time::TimeDriver;
use monoio::{IoUringDriver, Runtime, RuntimeBuilder};

use super::{Core, Reactor, turn};
use crate::linux::memlock;
use crate::task::{Guarded, Host};

/// Runs `main` on this thread. See `crate::run`.
pub(crate) fn run<M, F>(entries: u32, seed: u64, main: M) -> io::Result<()>
where
    M: FnOnce(crate::Reactor) -> F,
    F: Future<Output = ()> + 'static,
{
    let mut runtime = memlock::patiently(|| build(entries))?;
    let core = Rc::new(Core::new(seed));
    let reactor = Reactor(core.clone());
    let host = Main { core: core.clone(), has_panicked: Rc::default() };
    let has_panicked = host.has_panicked.clone();
    runtime.block_on(async {
        let task = main(crate::Reactor(crate::ReactorKind::Monoio(reactor)));
        let core_of_main = core.clone();
        drop(monoio::spawn(async move {
            Guarded::new(task, host).await;
            core_of_main.turn.end();
        }));
        turn::turns(core.clone()).await;
    });
    if core.in_flight.get() > 0 {
        tracing::debug!(operations = core.in_flight.get(), "the ring is left to the process's end");
        mem::forget(runtime);
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

/// The flags a ring is asked for. A kernel that does not know one answers `EINVAL`.
#[derive(Clone, Copy)]
enum Flags {
    /// Linux 6.0: only this thread submits.
    SingleIssuer,
    /// Linux 5.19: completions wait for the next system call instead of interrupting this thread.
    Cooperative,
    /// Linux 5.11, for timeouts as an argument of io_uring_enter(2).
    Plain,
}

fn build(entries: u32) -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    let mut result = build_with(entries, Flags::SingleIssuer);
    for flags in [Flags::Cooperative, Flags::Plain] {
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                tracing::debug!("the kernel lacks a ring flag; trying with fewer");
                result = build_with(entries, flags);
            }
            _ => break,
        }
    }
    result
}

fn build_with(entries: u32, flags: Flags) -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    let mut ring = io_uring::IoUring::builder();
    match flags {
        Flags::SingleIssuer => {
            ring.setup_single_issuer().setup_coop_taskrun();
        }
        Flags::Cooperative => {
            ring.setup_coop_taskrun();
        }
        Flags::Plain => {}
    }
    RuntimeBuilder::<IoUringDriver>::new()
        .uring_builder(ring)
        .with_entries(entries)
        .enable_timer()
        .build()
}
