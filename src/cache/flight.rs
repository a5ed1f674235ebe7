//! One flight per key within a core.
//!
//! A flight is shared by three parties that may each go first: the maker (`Lead`, owned by its
//! task), the waiters, and the table. Dropping a `Lead` without `settle` — a panic, a cancelled
//! task — settles the flight as abandoned, so nobody is stranded. When the last waiter leaves
//! because its caller hung up, the maker is told to stop (`Lead::cancelled`); a waiter that leaves
//! because its time is over lets the maker go on and fill the cache.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use runtime::Instant;
use runtime::local::Event;
use shards::flight::{Begin, FlightId};

use super::lease::Word;
use super::{Consulted, Stored};
use crate::model::{Key, Outcome};

/// The flights of one core, at most `flights_max`.
pub struct Flights {
    table: RefCell<shards::flight::Flights<Key, Rc<Flight>>>,
    flights_max: usize,
    /// Keys whose refresh failed, and until when it is not tried again.
    resting: RefCell<BTreeMap<Key, Instant>>,
}

/// The making of one answer, as its leader and its waiters share it.
#[derive(Default)]
pub struct Flight {
    outcome: RefCell<Option<Outcome>>,
    settled: Event,
    /// Set once a waiter left for lack of time, another core waits, or for a refresh: the flight no
    /// longer depends on anybody waiting here.
    is_detached: Cell<bool>,
    cancelled: Event,
    lease_word: RefCell<Option<Word>>,
    lease_news: RefCell<Event>,
    /// An old page that came with the lease's word.
    spare: RefCell<Option<Stored>>,
}

/// The maker's end. Exactly one exists per flight.
pub struct Lead {
    key: Key,
    id: FlightId,
    is_refresh: bool,
    flight: Rc<Flight>,
    flights: Rc<Flights>,
}

/// A caller's end.
pub struct Waiter {
    id: FlightId,
    flight: Rc<Flight>,
    flights: Rc<Flights>,
}

impl Flights {
    /// An empty table.
    pub fn new(flights_max: usize) -> Rc<Self> {
        let table = RefCell::new(shards::flight::Flights::new());
        Rc::new(Self { table, flights_max, resting: RefCell::default() })
    }

    /// Waits for the flight of `key`, or begins it and waits for it.
    pub fn join_or_lead(self: &Rc<Self>, key: Key) -> Consulted {
        match self.begin(key) {
            Begin::Joined(id) => match self.waiter(id) {
                Some(waiter) => Consulted::Joined(waiter),
                None => Consulted::Full,
            },
            Begin::Lead(id) => {
                let lead = self.lead(key, id, false);
                match self.begin(key) {
                    Begin::Joined(id) => match self.waiter(id) {
                        Some(waiter) => Consulted::Lead(lead, waiter),
                        None => Consulted::Full,
                    },
                    Begin::Lead(_) | Begin::Full => Consulted::Full,
                }
            }
            Begin::Full => Consulted::Full,
        }
    }

    /// The permit to refresh `key` behind a stale answer; none if somebody does already, if the
    /// last refresh failed a moment ago, or if there are as many flights as there may be.
    pub fn refresh(self: &Rc<Self>, key: Key, now: Instant) -> Option<Lead> {
        let is_resting = self.resting.borrow().get(&key).is_some_and(|until| *until > now);
        if is_resting || self.table.borrow().get(&key).is_some() {
            return None;
        }
        match self.begin(key) {
            Begin::Lead(id) => {
                let lead = self.lead(key, id, true);
                lead.flight.is_detached.set(true);
                Some(lead)
            }
            Begin::Joined(_) | Begin::Full => None,
        }
    }

    /// A refresh of `key` failed: none is permitted until `until`.
    pub fn rest(&self, key: Key, until: Instant) {
        let mut resting = self.resting.borrow_mut();
        if resting.len() < self.flights_max {
            resting.insert(key, until);
        }
    }

    /// Forgets what has rested long enough; for the housekeeping tick.
    pub fn expire(&self, now: Instant) {
        self.resting.borrow_mut().retain(|_, until| *until > now);
    }

    fn begin(&self, key: Key) -> Begin {
        self.table.borrow_mut().begin(key, self.flights_max)
    }

    fn lead(self: &Rc<Self>, key: Key, id: FlightId, is_refresh: bool) -> Lead {
        let flight = Rc::new(Flight::default());
        let is_led = self.table.borrow_mut().publish(id, flight.clone());
        debug_assert!(is_led, "a flight just begun has its leader");
        Lead { key, id, is_refresh, flight, flights: self.clone() }
    }

    fn waiter(self: &Rc<Self>, id: FlightId) -> Option<Waiter> {
        let flight = self.table.borrow().value(id)?;
        Some(Waiter { id, flight, flights: self.clone() })
    }

    /// Hands the home core's word to the flight that asked; false if that is over.
    pub fn tell(&self, id: FlightId, word: Word) -> bool {
        let table = self.table.borrow();
        let Some(flight) = table.value(id).filter(|_| table.leads(id)) else {
            return false;
        };
        match word {
            Word::Awaited => {
                flight.is_detached.set(true);
                return true;
            }
            Word::Spare(page) => {
                *flight.spare.borrow_mut() = Some(Stored::shipped(&page));
                return true;
            }
            Word::Granted | Word::Queued | Word::Answer(_) | Word::Found(_) => {}
        }
        *flight.lease_word.borrow_mut() = Some(word);
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
}

impl Lead {
    /// What is being made.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The flight, for those who are to answer it by name.
    pub fn id(&self) -> FlightId {
        self.id
    }

    /// Whether it is made behind a stale answer, for nobody in particular.
    pub fn is_refresh(&self) -> bool {
        self.is_refresh
    }

    /// Ends the flight: every waiter gets `outcome`, the key is free.
    pub fn settle(self, outcome: Outcome) {
        self.flights.table.borrow_mut().settle(self.id);
        self.flight.end(outcome);
    }

    /// Set once nobody wants the answer any more.
    pub fn cancelled(&self) -> Event {
        self.flight.cancelled.clone()
    }

    /// The home core's next word, once there is one.
    ///
    /// # Cancel
    /// Safe: a word that came stays until it is taken.
    pub async fn lease_word(&self) -> Word {
        loop {
            let word = self.flight.lease_word.borrow_mut().take();
            if let Some(word) = word {
                return word;
            }
            let news = Event::default();
            *self.flight.lease_news.borrow_mut() = news.clone();
            news.wait().await;
        }
    }
}

impl Drop for Lead {
    /// After `settle` this does nothing. Without it the flight stays in the table, leaderless, for
    /// as long as its waiters do: the first of them to consult again leads it.
    fn drop(&mut self) {
        self.flights.table.borrow_mut().abandon(self.id);
        self.flight.end(Outcome::Abandoned);
    }
}

impl Flight {
    /// The first outcome counts.
    fn end(&self, outcome: Outcome) {
        let is_first = self.outcome.borrow().is_none();
        if is_first {
            *self.outcome.borrow_mut() = Some(outcome);
            self.settled.set();
        }
    }
}

impl Waiter {
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

    /// The old page that came to the flight from its home core, if one did.
    pub fn spare(&self) -> Option<Stored> {
        self.flight.spare.borrow().clone()
    }

    /// Leaves for lack of time: the flight goes on and fills the cache for whoever asks next.
    pub fn out_of_time(self) {
        self.flight.is_detached.set(true);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut table = self.flights.table.borrow_mut();
        table.leave(self.id);
        if table.waiters(self.id) > 0 {
            return;
        }
        // Of the flight as it is led now: the term this waiter joined may be over.
        let led = table.value(self.id).unwrap_or_else(|| self.flight.clone());
        drop(table);
        if !led.is_detached.get() {
            led.cancelled.set();
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

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
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
        let (_next, _waiter) = lead(&flights, 1);
        assert_eq!(flights.len(), 1, "the first to consult again leads the same flight");
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
    }

    #[test]
    fn a_caller_out_of_time_lets_the_maker_fill_the_cache() {
        let flights = Flights::new(8);
        let (maker, first) = lead(&flights, 1);
        first.out_of_time();
        assert!(!maker.cancelled().is_set());
    }

    #[test]
    fn one_refresh_at_a_time_and_it_needs_no_waiter() {
        let flights = Flights::new(8);
        let refresh = flights.refresh(key(1), at(0)).expect("the first refresh");
        assert!(flights.refresh(key(1), at(0)).is_none());
        drop(join(&flights, 1));
        assert!(!refresh.cancelled().is_set(), "a refresh does not depend on callers");
    }

    #[test]
    fn a_refresh_that_failed_is_not_tried_again_at_once() {
        let flights = Flights::new(8);
        drop(flights.refresh(key(1), at(0)));
        flights.rest(key(1), at(1_000));
        assert!(flights.refresh(key(1), at(999)).is_none());
        assert!(flights.refresh(key(2), at(999)).is_some(), "others go on");
        flights.expire(at(999));
        assert!(flights.refresh(key(1), at(999)).is_none());
        flights.expire(at(1_000));
        assert!(flights.resting.borrow().is_empty());
        assert!(flights.refresh(key(1), at(1_000)).is_some());
    }

    #[test]
    fn the_last_to_leave_stops_the_heir_whichever_term_it_joined() {
        let flights = Flights::new(8);
        let (dead, early) = lead(&flights, 1);
        drop(dead);
        let (heir, late) = lead(&flights, 1);
        drop(late);
        assert!(!heir.cancelled().is_set(), "one caller is still there");
        drop(early);
        assert!(heir.cancelled().is_set());
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
        assert!(flights.tell(maker.id(), Word::Queued));
        assert!(matches!(poll(maker.lease_word()), Some(Word::Queued)));
        assert!(poll(maker.lease_word()).is_none());
        assert!(flights.tell(maker.id(), Word::Granted));
        assert!(matches!(poll(maker.lease_word()), Some(Word::Granted)));
    }

    #[test]
    fn a_word_for_an_earlier_flight_of_the_key_reaches_nobody() {
        let flights = Flights::new(1);
        let (maker, _first) = lead(&flights, 1);
        let earlier = maker.id();
        drop(maker);
        let (next, _second) = lead(&flights, 1);
        assert!(!flights.tell(earlier, Word::Granted));
        assert!(poll(next.lease_word()).is_none());
    }
}
