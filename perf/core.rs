//! Running a future on a reactor of its own, on this thread or on another: the one place where
//! threads start and the clock of the standard library is read.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use runtime::{Backend, CoreOptions, Reactor};

/// Operations a ring takes before it is submitted.
const RING_ENTRIES: u32 = 1024;

/// Runs `main` on a reactor on this thread, pinned to `cpu` if given, and gives its result.
///
/// # Errors
/// The reactor could not be built.
pub(crate) fn run<T, M, F>(cpu: Option<usize>, main: M) -> io::Result<T>
where
    T: 'static,
    M: FnOnce(Reactor) -> F,
    F: Future<Output = T> + 'static,
{
    let options =
        CoreOptions { backend: Backend::Monoio, cpu, entries: RING_ENTRIES, seed: Some(0) };
    let slot = Rc::new(RefCell::new(None));
    let filled = Rc::clone(&slot);
    runtime::run(options, move |reactor| {
        let task = main(reactor);
        async move {
            let result = task.await;
            *filled.borrow_mut() = Some(result);
        }
    })?;
    let result = slot.borrow_mut().take();
    result.ok_or_else(|| io::Error::other("the reactor ended before its task"))
}

/// Starts a thread named `name`. It inherits this thread's pinning.
///
/// # Errors
/// The operating system's.
pub(crate) fn thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Blocks this thread, and with it all of a core, for `span`.
#[expect(clippy::disallowed_methods, reason = "the pacer's thread and a frozen server do block")]
pub(crate) fn block(span: Duration) {
    std::thread::sleep(span);
}

/// The standard library's clock, for threads without a reactor.
#[expect(clippy::disallowed_methods, reason = "a thread without a reactor has no other clock")]
pub(crate) fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
