//! A core's timers, ordered by time. monoio's own wheel stands still while tasks are ready (its
//! issue 370) and keeps about 200 bytes per timer; here one alarm in that wheel serves all, and a
//! busy core looks between rounds of tasks.
//!
//! Resolution: an idle core wakes by the alarm, which the wheel rounds up to 1 ms and fires up to
//! 1 ms late; a timer never fires early. Arming and forgetting cost O(log n).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Core;
use crate::Instant;
use crate::linux::clock;

/// Timers in order; the number tells those of one instant apart.
#[derive(Default)]
pub(super) struct Timers {
    armed: RefCell<BTreeMap<(Instant, u64), Waker>>,
    number: Cell<u64>,
}

impl Timers {
    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.armed.borrow().keys().next().map(|&(at, _)| at)
    }

    /// Wakes those due at `now`.
    pub(super) fn fire(&self, now: Instant) {
        loop {
            let mut armed = self.armed.borrow_mut();
            let Some(first) = armed.first_entry() else {
                return;
            };
            if first.key().0 > now {
                return;
            }
            let waker = first.remove();
            drop(armed);
            waker.wake();
        }
    }

    fn arm(&self, at: Instant, waker: Waker) -> u64 {
        let number = self.number.get();
        self.number.set(number + 1);
        self.armed.borrow_mut().insert((at, number), waker);
        number
    }
}

/// Ready at or after its instant.
pub(crate) struct Sleep {
    core: Rc<Core>,
    at: Instant,
    number: Option<u64>,
}

impl Sleep {
    pub(super) fn new(core: Rc<Core>, at: Instant) -> Self {
        Self { core, at, number: None }
    }

    fn forget(&mut self) {
        if let Some(number) = self.number.take() {
            let waker = self.core.timers.armed.borrow_mut().remove(&(self.at, number));
            // Outside the borrow: the last reference to a task may go with it.
            drop(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.at {
            self.forget();
            return Poll::Ready(());
        }
        let timers = &self.core.timers;
        if let Some(number) = self.number
            && let Some(waker) = timers.armed.borrow_mut().get_mut(&(self.at, number))
        {
            waker.clone_from(context.waker());
            return Poll::Pending;
        }
        let is_first = timers.next().is_none_or(|next| self.at < next);
        let number = timers.arm(self.at, context.waker().clone());
        if is_first {
            self.core.turn.request();
        }
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
