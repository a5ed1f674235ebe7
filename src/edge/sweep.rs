//! All timeouts of one core's connections, by one coarse sweep: a connection writes down when it is
//! overdue, and ten times a second the sweep shuts down those that are. No timer is armed per
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
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Far enough to be never.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The first byte of a request.
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

    /// Shuts down what is overdue at `now`; with `closes_idle`, what is idle too.
    pub(super) fn run(&self, now: Instant, closes_idle: bool, probe: &Probe) {
        let mut slots = self.0.borrow_mut();
        let Slots { due, waits, streams, .. } = &mut *slots;
        for (index, due) in due.iter_mut().enumerate() {
            let is_due = *due <= now;
            let goes = is_due || (closes_idle && waits[index] == Wait::Idle);
            if !goes {
                continue;
            }
            let Some(stream) = &streams[index] else {
                continue;
            };
            let how = match waits[index] {
                // The peer is still to be told why: only what it sends is cut off.
                Wait::Request => Shutdown::Read,
                _ => Shutdown::Both,
            };
            match waits[index] {
                Wait::Idle if is_due => probe.idle_timeouts_total.increment(),
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
