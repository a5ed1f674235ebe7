//! One flight per key within a core.
//!
//! A flight is shared by three parties that may each go first: the maker (`Lead`, owned by its
//! task), the waiters, and the table. Dropping a `Lead` without `settle` — a panic, a cancelled
//! task — settles the flight as abandoned, so nobody is stranded. When the last waiter leaves
//! because its caller hung up, the maker is told to stop (`Lead::cancelled`); a waiter that leaves
//! because its time is over lets the maker go on and fill the cache.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use foldhash::fast::FixedState;
use runtime::local::Event;

use super::Consulted;
use super::lease::Reply;
use crate::model::{Key, Outcome};

/// The flights of one core, at most `max`.
pub struct Flights {
    table: RefCell<std::collections::HashMap<Key, Rc<Flight>, FixedState>>,
    max: usize,
}

/// The making of one answer.
pub struct Flight {
    key: Key,
    outcome: RefCell<Option<Outcome>>,
    settled: Event,
    waiters: Cell<usize>,
    /// Set once a waiter left for lack of time, or for a refresh: the flight no longer depends on
    /// anybody waiting.
    detached: Cell<bool>,
    cancelled: Event,
    lease_reply: RefCell<Option<Reply>>,
    lease_news: RefCell<Event>,
}

/// The maker's end. Exactly one exists per flight.
pub struct Lead {
    flight: Rc<Flight>,
    table: Rc<Flights>,
}

/// A caller's end.
pub struct Waiter {
    flight: Rc<Flight>,
}

impl Flights {
    /// An empty table of at most `max` flights.
    pub fn new(max: usize) -> Rc<Self> {
        Rc::new(Self {
            table: RefCell::new(std::collections::HashMap::with_hasher(FixedState::default())),
            max,
        })
    }

    /// Waits for the flight of `key`, or begins it.
    pub fn join_or_lead(self: &Rc<Self>, key: Key) -> Consulted {
        if let Some(flight) = self.table.borrow().get(&key) {
            return Consulted::Joined(Waiter::new(flight.clone()));
        }
        match self.begin(key) {
            Some(lead) => {
                let waiter = Waiter::new(lead.flight.clone());
                Consulted::Lead(lead, waiter)
            }
            None => Consulted::Full,
        }
    }

    /// The permit to refresh `key` behind a stale answer; none if somebody does already, or if
    /// there are as many flights as there may be.
    pub fn refresh(self: &Rc<Self>, key: Key) -> Option<Lead> {
        if self.table.borrow().contains_key(&key) {
            return None;
        }
        let lead = self.begin(key)?;
        lead.flight.detached.set(true);
        Some(lead)
    }

    fn begin(self: &Rc<Self>, key: Key) -> Option<Lead> {
        let mut table = self.table.borrow_mut();
        if table.len() >= self.max {
            return None;
        }
        let flight = Rc::new(Flight {
            key,
            outcome: RefCell::new(None),
            settled: Event::new(),
            waiters: Cell::new(0),
            detached: Cell::new(false),
            cancelled: Event::new(),
            lease_reply: RefCell::new(None),
            lease_news: RefCell::new(Event::new()),
        });
        let previous = table.insert(key, flight.clone());
        debug_assert!(previous.is_none(), "two flights of one key");
        Some(Lead { flight, table: self.clone() })
    }

    /// Hands the home core's word to the flight of `key`; false if there is none.
    pub fn tell(&self, key: Key, reply: Reply) -> bool {
        let Some(flight) = self.table.borrow().get(&key).cloned() else {
            return false;
        };
        *flight.lease_reply.borrow_mut() = Some(reply);
        flight.lease_news.borrow().set();
        true
    }

    /// How many answers are being made.
    pub fn len(&self) -> usize {
        self.table.borrow().len()
    }

    /// Whether none is being made.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many callers wait, over all flights.
    pub fn waiters(&self) -> usize {
        self.table.borrow().values().map(|flight| flight.waiters.get()).sum()
    }
}

impl Lead {
    /// What is being made.
    pub fn key(&self) -> Key {
        self.flight.key
    }

    /// Ends the flight: every waiter gets `outcome`, the key is free.
    pub fn settle(self, outcome: Outcome) {
        self.flight.end(outcome);
        // Drop removes the flight from the table.
    }

    /// Set once nobody wants the answer any more.
    pub fn cancelled(&self) -> Event {
        self.flight.cancelled.clone()
    }

    /// Whether somebody waits.
    pub fn is_wanted(&self) -> bool {
        self.flight.detached.get() || self.flight.waiters.get() > 0
    }

    /// The home core's next word, once there is one.
    ///
    /// # Cancel
    /// Safe: a word that came stays until it is taken.
    pub async fn lease_reply(&self) -> Reply {
        loop {
            if let Some(reply) = self.flight.lease_reply.borrow_mut().take() {
                return reply;
            }
            let fresh = Event::new();
            *self.flight.lease_news.borrow_mut() = fresh.clone();
            if self.flight.lease_reply.borrow().is_none() {
                fresh.wait().await;
            }
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.table.table.borrow_mut().remove(&self.flight.key);
        self.flight.end(Outcome::Abandoned);
    }
}

impl Flight {
    /// The first outcome counts.
    fn end(&self, outcome: Outcome) {
        let mut slot = self.outcome.borrow_mut();
        if slot.is_none() {
            *slot = Some(outcome);
            drop(slot);
            self.settled.set();
        }
    }
}

impl Waiter {
    fn new(flight: Rc<Flight>) -> Self {
        flight.waiters.set(flight.waiters.get() + 1);
        Self { flight }
    }

    /// How the flight ended.
    ///
    /// # Cancel
    /// Safe. Dropping the waiter leaves the flight; the last one to leave stops it.
    pub async fn outcome(&self) -> Outcome {
        self.flight.settled.wait().await;
        match &*self.flight.outcome.borrow() {
            Some(outcome) => outcome.clone(),
            None => Outcome::Abandoned,
        }
    }

    /// Leaves for lack of time: the flight goes on and fills the cache for whoever asks next.
    pub fn out_of_time(self) {
        self.flight.detached.set(true);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let left = self.flight.waiters.get() - 1;
        self.flight.waiters.set(left);
        if left == 0 && !self.flight.detached.get() {
            self.flight.cancelled.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn key(n: u8) -> Key {
        Key([n; 32])
    }

    fn poll<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn lead(flights: &Rc<Flights>, n: u8) -> (Lead, Waiter) {
        match flights.join_or_lead(key(n)) {
            Consulted::Lead(lead, waiter) => (lead, waiter),
            _ => panic!("expected to lead"),
        }
    }

    fn join(flights: &Rc<Flights>, n: u8) -> Waiter {
        match flights.join_or_lead(key(n)) {
            Consulted::Joined(waiter) => waiter,
            _ => panic!("expected to join"),
        }
    }

    #[test]
    fn a_lead_that_is_dropped_strands_nobody() {
        let flights = Flights::new(8);
        let (maker, first) = lead(&flights, 1);
        let second = join(&flights, 1);
        assert!(poll(second.outcome()).is_none());
        drop(maker);
        assert!(matches!(poll(first.outcome()), Some(Outcome::Abandoned)));
        assert!(matches!(poll(second.outcome()), Some(Outcome::Abandoned)));
        assert!(flights.is_empty(), "the key is free for the next leader");
    }

    #[test]
    fn the_last_caller_to_hang_up_stops_the_maker() {
        let flights = Flights::new(8);
        let (maker, first) = lead(&flights, 1);
        let second = join(&flights, 1);
        let cancelled = maker.cancelled();
        drop(first);
        assert!(!cancelled.is_set(), "one caller is still there");
        drop(second);
        assert!(cancelled.is_set());
        assert!(!maker.is_wanted());
    }

    #[test]
    fn a_caller_out_of_time_lets_the_maker_fill_the_cache() {
        let flights = Flights::new(8);
        let (maker, first) = lead(&flights, 1);
        first.out_of_time();
        assert!(!maker.cancelled().is_set());
        assert!(maker.is_wanted());
    }

    #[test]
    fn one_refresh_at_a_time_and_it_needs_no_waiter() {
        let flights = Flights::new(8);
        let refresh = flights.refresh(key(1)).expect("the first refresh");
        assert!(flights.refresh(key(1)).is_none());
        drop(join(&flights, 1));
        assert!(!refresh.cancelled().is_set(), "a refresh does not depend on callers");
    }

    #[test]
    fn a_full_table_refuses_new_keys_only() {
        let flights = Flights::new(1);
        let (_maker, _first) = lead(&flights, 1);
        assert!(matches!(flights.join_or_lead(key(2)), Consulted::Full));
        assert!(matches!(flights.join_or_lead(key(1)), Consulted::Joined(_)));
    }

    #[test]
    fn words_of_the_home_core_are_kept_until_taken() {
        let flights = Flights::new(1);
        let (maker, _first) = lead(&flights, 1);
        assert!(!flights.tell(key(2), Reply::Granted));
        assert!(flights.tell(key(1), Reply::Queued));
        assert!(matches!(poll(maker.lease_reply()), Some(Reply::Queued)));
        assert!(poll(maker.lease_reply()).is_none());
        assert!(flights.tell(key(1), Reply::Granted));
        assert!(matches!(poll(maker.lease_reply()), Some(Reply::Granted)));
    }
}
