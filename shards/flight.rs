//! Who makes an answer: at most one flight per key in a core, and who waits for it.
//!
//! A table and nothing else. The leader of a flight is known by its `FlightId`; the value a flight
//! carries is what its waiters share (a handle to wait on, or the answer itself). If the leader
//! dies it *abandons* the flight, and the first to `begin` it again leads in its place, under a
//! new id: exactly one takes over, nobody is stranded, and whatever the dead leader's remains still
//! do to the flight has no effect. A waiter that leaves takes nobody with it.
//!
//! Keys are ordered and not hashed, so that a stranger's choice of keys cannot slow a look-up.

use std::collections::BTreeMap;

/// Waiters of one flight at most; the next caller finds it full.
pub const WAITERS_MAX: u32 = 4_096;

/// A flight under its present leader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlightId {
    flight: u64,
    /// Counts the flight's leaders.
    term: u32,
}

/// What a caller that missed is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Make the answer, then `settle`; or `abandon`.
    Lead(FlightId),
    /// Wait for it, then `leave`; once it is abandoned, `begin` again.
    Joined(FlightId),
    /// Neither: there are as many flights, or waiters of this one, as may be.
    Full,
}

/// The flights of a core by key.
#[derive(Clone, Debug)]
pub struct Flights<K, V> {
    by_key: BTreeMap<K, u64>,
    flights: BTreeMap<u64, Flight<K, V>>,
    begun: u64,
}

#[derive(Clone, Debug)]
struct Flight<K, V> {
    key: K,
    term: u32,
    has_leader: bool,
    waiters: u32,
    value: Option<V>,
}

impl<K: Ord + Clone, V: Clone> Flights<K, V> {
    /// No flights.
    pub fn new() -> Self {
        Self { by_key: BTreeMap::new(), flights: BTreeMap::new(), begun: 0 }
    }

    /// Leads a new flight for `key`, unless there are `flights_max`, or joins the one there is. Who
    /// meets an abandoned flight leads it.
    pub fn begin(&mut self, key: K, flights_max: usize) -> Begin {
        let begin = match self.by_key.get(&key).copied() {
            Some(flight) => self.join(flight),
            None if self.flights.len() >= flights_max => Begin::Full,
            None => self.lead(key),
        };
        self.check_in_debug();
        begin
    }

    /// Ends the flight; false if `id` does not lead it (any more).
    pub fn settle(&mut self, id: FlightId) -> bool {
        let is_led = self.led(id).is_some();
        if is_led {
            self.remove(id.flight);
        }
        self.check_in_debug();
        is_led
    }

    /// The leader is gone without an answer: the flight is there to be led anew, or ends if nobody
    /// waits. False if `id` does not lead it.
    pub fn abandon(&mut self, id: FlightId) -> bool {
        let waiters = self.led(id).map(|flight| {
            flight.has_leader = false;
            flight.waiters
        });
        if waiters == Some(0) {
            self.remove(id.flight);
        }
        self.check_in_debug();
        waiters.is_some()
    }

    /// A waiter waits no more. An abandoned flight ends with its last waiter.
    pub fn leave(&mut self, id: FlightId) {
        if let Some(flight) = self.flights.get_mut(&id.flight) {
            debug_assert!(flight.waiters > 0);
            flight.waiters = flight.waiters.saturating_sub(1);
            if flight.waiters == 0 && !flight.has_leader {
                self.remove(id.flight);
            }
        }
        self.check_in_debug();
    }

    /// Gives the flight the value its waiters share; false if `id` does not lead it.
    pub fn publish(&mut self, id: FlightId, value: V) -> bool {
        let flight = self.led(id);
        flight.map(|flight| flight.value = Some(value)).is_some()
    }

    /// Whether `id` leads its flight still.
    pub fn leads(&self, id: FlightId) -> bool {
        let flight = self.flights.get(&id.flight);
        flight.is_some_and(|flight| flight.has_leader && flight.term == id.term)
    }

    /// The value the flight carries, for leader and waiters alike.
    pub fn value(&self, id: FlightId) -> Option<V> {
        self.flights.get(&id.flight)?.value.clone()
    }

    /// The flight for `key`, whoever leads it.
    pub fn get(&self, key: &K) -> Option<FlightId> {
        let flight = *self.by_key.get(key)?;
        Some(FlightId { flight, term: self.flights.get(&flight)?.term })
    }

    /// How many wait for the flight; 0 if it ended.
    pub fn waiters(&self, id: FlightId) -> u32 {
        self.flights.get(&id.flight).map_or(0, |flight| flight.waiters)
    }

    /// How many flights there are.
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Asserts the invariants; a sweep of every flight.
    pub fn check(&self) {
        assert_eq!(self.by_key.len(), self.flights.len());
        for (number, flight) in &self.flights {
            assert_eq!(self.by_key.get(&flight.key), Some(number));
            assert!(*number <= self.begun);
            assert!(flight.has_leader || flight.waiters > 0, "a flight nobody is on");
            assert!(flight.waiters <= WAITERS_MAX);
        }
    }

    fn lead(&mut self, key: K) -> Begin {
        self.begun += 1;
        let flight =
            Flight { key: key.clone(), term: 0, has_leader: true, waiters: 0, value: None };
        self.by_key.insert(key, self.begun);
        self.flights.insert(self.begun, flight);
        Begin::Lead(FlightId { flight: self.begun, term: 0 })
    }

    fn join(&mut self, number: u64) -> Begin {
        let Some(flight) = self.flights.get_mut(&number) else {
            return Begin::Full;
        };
        if !flight.has_leader {
            flight.begin_term();
            return Begin::Lead(FlightId { flight: number, term: flight.term });
        }
        if flight.waiters >= WAITERS_MAX {
            return Begin::Full;
        }
        flight.waiters += 1;
        Begin::Joined(FlightId { flight: number, term: flight.term })
    }

    /// The flight, if `id` leads it.
    fn led(&mut self, id: FlightId) -> Option<&mut Flight<K, V>> {
        let flight = self.flights.get_mut(&id.flight)?;
        (flight.has_leader && flight.term == id.term).then_some(flight)
    }

    fn remove(&mut self, number: u64) {
        if let Some(flight) = self.flights.remove(&number) {
            self.by_key.remove(&flight.key);
        }
    }

    /// A sweep after each change would make a core of many flights quadratic in debug builds.
    fn check_in_debug(&self) {
        if cfg!(debug_assertions) && self.flights.len() <= 64 {
            self.check();
        }
    }
}

impl<K, V> Flight<K, V> {
    /// The value stays: waiters that hold a handle from it are still served.
    fn begin_term(&mut self) {
        self.term += 1;
        self.has_leader = true;
    }
}

impl<K: Ord + Clone, V: Clone> Default for Flights<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Table = Flights<u8, &'static str>;

    fn lead(table: &mut Table, key: u8) -> FlightId {
        match table.begin(key, 8) {
            Begin::Lead(id) => id,
            other => panic!("{other:?} instead of the lead"),
        }
    }

    fn join(table: &mut Table, key: u8) -> FlightId {
        match table.begin(key, 8) {
            Begin::Joined(id) => id,
            other => panic!("{other:?} instead of a wait"),
        }
    }

    /// Flights and waiters of key 1 that are left.
    fn check(table: &Table, flights: usize, waiters: u32) {
        assert_eq!(table.len(), flights);
        assert_eq!(table.get(&1).map_or(0, |id| table.waiters(id)), waiters);
    }

    #[test]
    fn one_leads_and_the_others_join() {
        let mut table = Table::new();
        let leader = lead(&mut table, 1);
        for waiters in 1..=99 {
            assert_eq!(join(&mut table, 1), leader);
            check(&table, 1, waiters);
        }
        assert!(table.publish(leader, "answer"));
        assert_eq!(table.value(leader), Some("answer"));
        assert!(table.settle(leader));
        assert!(!table.settle(leader));
        check(&table, 0, 0);
    }

    #[test]
    fn exactly_one_takes_over_an_abandoned_flight() {
        let mut table = Table::new();
        let dead = lead(&mut table, 1);
        let waiter = join(&mut table, 1);
        join(&mut table, 1);
        assert!(table.leads(dead));
        assert!(table.abandon(dead));
        assert!(!table.leads(dead));
        let heir = lead(&mut table, 1);
        assert_ne!(heir, dead);
        table.leave(waiter);
        join(&mut table, 1);
        check(&table, 1, 2);
        assert!(table.leads(heir) && !table.leads(dead));
        assert!(!table.settle(dead));
        assert!(!table.abandon(dead));
        assert!(!table.publish(dead, "late"));
        assert_eq!(table.value(heir), None);
        assert!(table.settle(heir));
        assert!(!table.leads(heir));
    }

    #[test]
    fn a_leaving_waiter_takes_nobody_with_it() {
        let mut table = Table::new();
        let leader = lead(&mut table, 1);
        let waiter = join(&mut table, 1);
        table.leave(waiter);
        check(&table, 1, 0);
        assert!(table.settle(leader));
        let leader = lead(&mut table, 1);
        let waiter = join(&mut table, 1);
        table.abandon(leader);
        table.leave(waiter);
        check(&table, 0, 0);
    }

    #[test]
    fn full_is_an_answer() {
        let mut table = Table::new();
        for key in 0..8 {
            lead(&mut table, key);
        }
        assert_eq!(table.begin(8, 8), Begin::Full);
        for _ in 0..WAITERS_MAX {
            join(&mut table, 1);
        }
        assert_eq!(table.begin(1, 8), Begin::Full);
        check(&table, 8, WAITERS_MAX);
    }

    proptest! {
        /// Callers begin, die, begin again, leave and settle at random; each key has at most one
        /// leader, and once everybody is done nothing is left.
        #[test]
        fn there_is_one_leader_and_nobody_is_stranded(
            steps in prop::collection::vec((0_u8..5, 0_u8..3, any::<prop::sample::Index>()), 1..120)
        ) {
            let mut table = Table::new();
            let (mut leaders, mut waiters) = (Vec::<(u8, FlightId)>::new(), Vec::new());
            for (step, key, pick) in steps {
                match step {
                    0 => match table.begin(key, 2) {
                        Begin::Lead(id) => leaders.push((key, id)),
                        Begin::Joined(id) => waiters.push((key, id)),
                        Begin::Full => prop_assert!(table.get(&key).is_none() && table.len() == 2),
                    },
                    1 if !leaders.is_empty() => {
                        let (_, id) = leaders.swap_remove(pick.index(leaders.len()));
                        prop_assert!(table.settle(id));
                        waiters.retain(|(_, waiter)| waiter.flight != id.flight);
                    }
                    2 if !leaders.is_empty() => {
                        let (_, id) = leaders.swap_remove(pick.index(leaders.len()));
                        prop_assert!(table.abandon(id));
                    }
                    3 if !waiters.is_empty() => {
                        let (_, id) = waiters.swap_remove(pick.index(waiters.len()));
                        table.leave(id);
                    }
                    4 if !waiters.is_empty() => {
                        let (key, id) = waiters[pick.index(waiters.len())];
                        let is_abandoned = !leaders.iter().any(|(led, _)| *led == key);
                        match table.begin(key, 8) {
                            Begin::Lead(heir) => {
                                prop_assert!(is_abandoned);
                                leaders.push((key, heir));
                            }
                            Begin::Joined(_) => table.leave(id),
                            Begin::Full => prop_assert!(false, "there is room"),
                        }
                    }
                    _ => {}
                }
                for key in 0..3 {
                    prop_assert!(leaders.iter().filter(|(led, _)| *led == key).count() <= 1);
                }
            }
            for (_, id) in waiters {
                table.leave(id);
            }
            for (_, id) in leaders {
                prop_assert!(table.settle(id));
            }
            prop_assert!(table.is_empty());
        }
    }
}
