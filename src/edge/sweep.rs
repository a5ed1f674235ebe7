//! All timeouts of one core's connections, by one coarse sweep: a connection writes down when it is
//! overdue, and 20 times a second the sweep shuts down those that are. No timer is armed per
//! request, so a timeout is up to `SWEEP_EVERY` late.
//!
//! The due times lie side by side, 8 bytes each: a sweep over 20,000 idle connections reads 160 KB.

use std::cell::RefCell;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Stream};

use super::Probe;

/// How often connections are looked at.
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// Far enough to be never.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The first byte of its first request.
    First,
    /// The first byte of another request.
    Idle,
    /// The rest of a request.
    Request,
    /// An answer of ours: bounded by the request's own deadline.
    Answer,
    /// The peer, to take what we write.
    Writing,
    /// The peer's last bytes, before the close.
    Lingering,
    /// Nothing any more: it is overdue, and its stream was shut down.
    Overdue,
}

/// The connections of one listener on one core.
#[derive(Default)]
pub(super) struct Sweep(RefCell<Slots>);

#[derive(Default)]
struct Slots {
    due: Vec<Instant>,
    waits: Vec<Wait>,
    streams: Vec<Option<Stream>>,
    free: Vec<usize>,
}

/// One connection's line in the sweep; struck out on drop.
pub(super) struct Place {
    sweep: Rc<Sweep>,
    index: usize,
}

impl Sweep {
    /// A line for `stream`.
    pub(super) fn enter(self: &Rc<Self>, stream: Stream) -> Place {
        let mut slots = self.0.borrow_mut();
        let index = slots.free.pop().unwrap_or(slots.due.len());
        if index == slots.due.len() {
            slots.due.push(NEVER);
            slots.waits.push(Wait::Answer);
            slots.streams.push(Some(stream));
        } else {
            slots.due[index] = NEVER;
            slots.waits[index] = Wait::Answer;
            slots.streams[index] = Some(stream);
        }
        Place { sweep: self.clone(), index }
    }

    /// Shuts down what is overdue at `now`. During a drain also what is idle, and, from
    /// `first_until` on, what has not asked anything yet.
    pub(super) fn run(&self, now: Instant, first_until: Option<Instant>, probe: &Probe) {
        let mut slots = self.0.borrow_mut();
        let Slots { due, waits, streams, .. } = &mut *slots;
        for (index, due) in due.iter_mut().enumerate() {
            let is_due = *due <= now;
            let is_drained = match waits[index] {
                Wait::Idle => first_until.is_some(),
                Wait::First => first_until.is_some_and(|until| until <= now),
                _ => false,
            };
            if !is_due && !is_drained {
                continue;
            }
            let Some(stream) = &streams[index] else {
                continue;
            };
            let how = match waits[index] {
                // Only what is still to be sent is cut off: what has arrived is read and
                // answered, and who was too slow is told so.
                Wait::First | Wait::Idle | Wait::Request => Shutdown::Read,
                _ => Shutdown::Both,
            };
            match waits[index] {
                Wait::First | Wait::Idle if is_due => probe.idle_timeouts_total.increment(),
                Wait::Request => probe.slow_requests_total.increment(),
                Wait::Writing => probe.slow_readers_total.increment(),
                _ => {}
            }
            waits[index] = Wait::Overdue;
            *due = NEVER;
            stream.shutdown(how);
        }
    }
}

impl Place {
    /// From now on the connection waits for this, until `due`.
    pub(super) fn waits(&self, wait: Wait, due: Instant) {
        let mut slots = self.sweep.0.borrow_mut();
        slots.waits[self.index] = wait;
        slots.due[self.index] = due;
    }

    /// From now on the connection waits for an answer of ours.
    pub(super) fn waits_for_us(&self) {
        self.waits(Wait::Answer, NEVER);
    }

    /// Whether the sweep shut it down.
    pub(super) fn is_overdue(&self) -> bool {
        self.sweep.0.borrow().waits[self.index] == Wait::Overdue
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut slots = self.sweep.0.borrow_mut();
        slots.streams[self.index] = None;
        slots.due[self.index] = NEVER;
        slots.waits[self.index] = Wait::Answer;
        slots.free.push(self.index);
    }
}
