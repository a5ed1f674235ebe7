//! The wrapper around every task: a panic ends the task and nothing else, and the reactor is asked
//! before each turn (monoio and glommio themselves lose the core's thread to a panic, and monoio
//! its core to a task that keeps waking itself).
//!
//! One pinned field instead of an `async` block around the task, which would hold it twice and
//! double what an idle connection costs.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

/// What a backend's core does around its tasks.
pub(crate) trait Host {
    /// Called before each turn; `task` tells the tasks that live apart. Whether it may take the
    /// turn: if not, the host wakes it by `waker` once the others have had theirs.
    fn may_take_turn(&self, task: usize, waker: &Waker) -> bool;

    /// Called once for a task that panicked, after what was left of it is gone.
    fn caught(&self);
}

pin_project! {
    /// A task that cannot take its core down.
    pub(crate) struct Guarded<F, H> {
        #[pin]
        task: Option<F>,
        host: H,
    }
}

impl<F: Future<Output = ()>, H: Host> Guarded<F, H> {
    pub(crate) fn new(task: F, host: H) -> Self {
        Self { task: Some(task), host }
    }
}

impl<F: Future<Output = ()>, H: Host> Future for Guarded<F, H> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let address = std::ptr::from_ref(&*self).addr();
        let mut this = self.project();
        if !this.host.may_take_turn(address, context.waker()) {
            return Poll::Pending;
        }
        // The task's own destructors run inside too: they may panic like anything else.
        let turn = catch_unwind(AssertUnwindSafe(|| {
            let Some(task) = this.task.as_mut().as_pin_mut() else {
                return Poll::Ready(());
            };
            let turn = task.poll(context);
            if turn.is_ready() {
                this.task.set(None);
            }
            turn
        }));
        turn.unwrap_or_else(|payload| {
            let dropped = catch_unwind(AssertUnwindSafe(|| this.task.set(None)));
            tracing::error!(panic = text(&*payload), "a task panicked; its core goes on");
            if dropped.is_err() {
                tracing::error!("what was left of the task panicked too");
            }
            this.host.caught();
            Poll::Ready(())
        })
    }
}

/// The message of a panic, as far as it has one.
fn text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Default)]
    struct Counts {
        turns: Cell<u32>,
        panics: Cell<u32>,
    }

    impl Host for Rc<Counts> {
        fn may_take_turn(&self, _task: usize, _waker: &Waker) -> bool {
            self.turns.set(self.turns.get() + 1);
            true
        }

        fn caught(&self) {
            self.panics.set(self.panics.get() + 1);
        }
    }

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("planted, in a destructor");
        }
    }

    fn check(task: impl Future<Output = ()>, panics: u32) {
        let counts = Rc::new(Counts::default());
        let mut guarded = Box::pin(Guarded::new(task, counts.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(guarded.as_mut().poll(&mut context).is_ready());
        assert_eq!((counts.turns.get(), counts.panics.get()), (1, panics));
    }

    #[test]
    fn a_panic_is_caught_and_counted_once() {
        check(async {}, 0);
        check(async { panic!("planted") }, 1);
        check(async { panic!("planted {}", 2) }, 1);
    }

    #[test]
    fn a_panic_in_a_destructor_is_caught_too() {
        let held = PanicsWhenDropped;
        check(
            async move {
                let _held = held;
            },
            1,
        );
    }
}
