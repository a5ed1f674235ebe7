//! What happens between two rounds of tasks: due timers fire and tasks that yielded become ready.
//!
//! It is the future that monoio's `block_on` polls between rounds; `request` makes it do so. A task
//! that wakes itself while it runs is put in front of monoio's queue, so `yield_now` leaves its
//! waker here instead, to be woken when the round is over: then it goes to the back. After that,
//! monoio submits and harvests the ring before the next round, so a yield lets the kernel in too.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use monoio::time::Sleep as Alarm;

use super::Core;
use crate::Instant;
use crate::linux::clock;

/// The longest the alarm is set for; monoio's wheel holds 2.2 years at most.
const ALARM_MAX: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// The part of a core that its tasks talk to.
#[derive(Default)]
pub(super) struct Turn {
    /// Wakes the future below; monoio's own waker for it only sets a flag of this thread.
    waker: RefCell<Option<Waker>>,
    yielded: RefCell<Vec<Waker>>,
    /// Set once the main task has ended.
    is_over: Cell<bool>,
}

impl Turn {
    /// Has the turn run after this round of tasks.
    pub(super) fn request(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Makes the task of `waker` ready after this round: to the back of the queue.
    pub(super) fn put_back(&self, waker: Waker) {
        self.yielded.borrow_mut().push(waker);
        self.request();
    }

    pub(super) fn end(&self) {
        self.is_over.set(true);
        self.request();
    }
}

/// Runs turns until the main task has ended.
pub(super) async fn turns(core: Rc<Core>) {
    let mut alarm: Option<(Instant, Pin<Box<Alarm>>)> = None;
    std::future::poll_fn(move |context| {
        if core.turn.waker.borrow().is_none() {
            *core.turn.waker.borrow_mut() = Some(context.waker().clone());
        }
        core.timers.fire(clock::now());
        let yielded = std::mem::take(&mut *core.turn.yielded.borrow_mut());
        for waker in yielded {
            waker.wake();
        }
        if core.turn.is_over.get() {
            return Poll::Ready(());
        }
        set_alarm(&core, &mut alarm, context);
        Poll::Pending
    })
    .await;
}

/// Sets the alarm to the next timer. An alarm that is too early is left alone: it costs one look.
fn set_alarm(
    core: &Rc<Core>,
    alarm: &mut Option<(Instant, Pin<Box<Alarm>>)>,
    context: &mut Context<'_>,
) {
    while let Some(next) = core.timers.next() {
        let next = next.min(clock::now() + ALARM_MAX);
        let at = (clock::start() + next.since(Instant::ZERO)).into();
        match alarm {
            Some((set, alarm)) if next < *set => {
                *set = next;
                alarm.as_mut().reset(at);
            }
            Some(_) => {}
            None => *alarm = Some((next, Box::pin(monoio::time::sleep_until(at)))),
        }
        let Some((_, set)) = alarm else { return };
        if set.as_mut().poll(context).is_pending() {
            return;
        }
        *alarm = None;
        core.timers.fire(clock::now());
    }
}

/// To the back of the queue.
pub(crate) struct YieldNow {
    core: Rc<Core>,
    has_yielded: bool,
}

impl YieldNow {
    pub(super) fn new(core: Rc<Core>) -> Self {
        Self { core, has_yielded: false }
    }
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        self.core.turn.put_back(context.waker().clone());
        Poll::Pending
    }
}
