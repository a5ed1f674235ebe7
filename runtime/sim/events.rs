//! What will happen, ordered by time; and timers, which are events that wake a task.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Timers;
use super::net::Packet;
use super::world::Inner;
use crate::Instant;

/// An event's place in time; the number orders those of one instant.
pub(crate) type Key = (Instant, u64);

pub(crate) enum Event {
    /// A timer fires.
    Timer(Waker),
    /// A bell reaches its core.
    Bell(u32),
    /// A frozen core may run again.
    Thaw(usize),
    /// Something arrives over the network.
    Packet(Packet),
}

#[derive(Default)]
pub(crate) struct Events {
    queue: BTreeMap<Key, Event>,
    number: u64,
    timers: usize,
}

impl Events {
    pub(crate) fn add(&mut self, at: Instant, event: Event) -> Key {
        let key = (at, self.number);
        self.number += 1;
        self.timers += usize::from(matches!(event, Event::Timer(_)));
        self.queue.insert(key, event);
        key
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Event> {
        let event = self.queue.remove(&key);
        self.timers -= usize::from(matches!(event, Some(Event::Timer(_))));
        event
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.keys().next().map(|&(at, _)| at)
    }

    /// The next event if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(u64, Event)> {
        let first = self.queue.first_key_value().map(|(&key, _)| key)?;
        if first.0 > now {
            return None;
        }
        self.remove(first).map(|event| (first.1, event))
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.timers = 0;
    }
}

/// Ready at or after its instant, rounded and late as the world's timers are.
pub(crate) struct Sleep {
    world: Rc<Inner>,
    at: Instant,
    timers: Timers,
    armed: Option<Key>,
}

impl Sleep {
    pub(crate) fn new(world: Rc<Inner>, at: Instant, timers: Timers) -> Self {
        Self { world, at, timers, armed: None }
    }

    fn fires_at(&self) -> Instant {
        let timers = self.timers;
        let grain = u64::try_from(timers.grain.as_nanos()).unwrap_or(u64::MAX).max(1);
        let rounded = self.at.as_nanos().div_ceil(grain).saturating_mul(grain);
        Instant::from_nanos(rounded)
            + self.world.between(std::time::Duration::ZERO, timers.late_max)
    }

    fn forget(&mut self) {
        if let Some(key) = self.armed.take() {
            self.world.events.borrow_mut().remove(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.at {
            self.forget();
            return Poll::Ready(());
        }
        let armed = self.armed;
        let mut events = self.world.events.borrow_mut();
        if let Some(key) = armed
            && let Some(Event::Timer(waker)) = events.queue.get_mut(&key)
        {
            waker.clone_from(context.waker());
            return Poll::Pending;
        }
        let key = events.add(self.fires_at(), Event::Timer(context.waker().clone()));
        drop(events);
        self.armed = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
