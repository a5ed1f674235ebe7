//! Which core makes an answer: the home core's ledger.
//!
//! A key's home core (`shards::placement::home`) keeps who holds its lease and who waits for its
//! answer. The ledger is pure: every event gives the letters to send. A lease expires, so a holder
//! that died, or a letter that was lost, costs the next asker nothing but a second call upstream.
//! At most `leases_max` keys are kept; beyond it everybody is granted and nothing is remembered.

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use runtime::Instant;
use shards::CoreId;
use shards::flight::FlightId;

use crate::model::Key;
use crate::shipped::{Shipped, ShippedPage};

/// Who asks for a lease: one flight of one core. A later flight of the same key on the same core is
/// somebody else: words meant for the one never reach the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Its core.
    pub core: CoreId,
    /// Its flight there.
    pub flight: FlightId,
}

/// Whether a core that asks for a lease wants an old page with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spare {
    /// It has none, and its caller may get one.
    Wanted,
    /// It has one, or none may be used.
    Unwanted,
}

/// The home core's word to a flight.
#[derive(Debug)]
pub enum Word {
    /// Make it.
    Granted,
    /// Wait for it.
    Queued,
    /// Here is what came of it.
    Answer(Shipped),
    /// Here it is, from the home core's own L1.
    Found(ShippedPage),
    /// An old page, to stand in should no other come; ahead of the word that says whose turn it is.
    Spare(ShippedPage),
    /// To the holder: another core waits, so make it even if your own callers leave.
    Awaited,
}

/// What became of a request for a lease.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The asker makes it.
    Granted {
        /// Whether others wait for it already.
        is_awaited: bool,
    },
    /// The asker waits; for the first to do so the holder is to be told.
    Queued {
        /// The holder, if it is not known to it that anybody waits.
        untold: Option<Asker>,
    },
}

struct Lease {
    holder: Asker,
    expires: Instant,
    /// One flight per core at the most.
    queue: Vec<Asker>,
    /// Whether the holder knows that others wait.
    is_told: bool,
}

impl Lease {
    /// The first in the queue, which must not be empty, holds it from now on.
    fn pass_on(&mut self, expires: Instant) {
        self.holder = self.queue.remove(0);
        self.expires = expires;
        self.is_told = !self.queue.is_empty();
    }
}

/// The leases of the keys whose home is this core.
pub struct Ledger {
    leases: RefCell<HashMap<Key, Lease, FixedState>>,
    leases_max: usize,
}

impl Ledger {
    /// An empty ledger of at most `leases_max` keys.
    pub fn new(leases_max: usize) -> Self {
        let leases = RefCell::new(HashMap::with_hasher(FixedState::default()));
        Self { leases, leases_max }
    }

    /// `asker` wants the answer of `key`; a lease granted now expires at `expires`.
    pub fn ask(&self, key: Key, asker: Asker, now: Instant, expires: Instant) -> Verdict {
        let mut leases = self.leases.borrow_mut();
        if let Some(lease) = leases.get_mut(&key) {
            // An earlier flight of that core is over, or goes on without the lease.
            lease.queue.retain(|waiting| waiting.core != asker.core);
            if lease.expires > now && lease.holder.core != asker.core {
                lease.queue.push(asker);
                let untold = (!lease.is_told).then_some(lease.holder);
                lease.is_told = true;
                return Verdict::Queued { untold };
            }
            lease.holder = asker;
            lease.expires = expires;
            lease.is_told = !lease.queue.is_empty();
            return Verdict::Granted { is_awaited: lease.is_told };
        }
        if leases.len() < self.leases_max {
            let queue = Vec::new();
            leases.insert(key, Lease { holder: asker, expires, queue, is_told: false });
        }
        Verdict::Granted { is_awaited: false }
    }

    /// `maker` made a page of `key`: who waits for it. A maker whose lease expired made a page all
    /// the same: whoever waits is served by it, and the lease stays its successor's.
    pub fn answered(&self, key: Key, maker: Asker) -> Vec<Asker> {
        let mut leases = self.leases.borrow_mut();
        let Some(lease) = leases.get_mut(&key) else {
            return Vec::new();
        };
        let mut waiting = std::mem::take(&mut lease.queue);
        // An overdue asker that went on alone is in the queue itself.
        waiting.retain(|asker| *asker != maker);
        if lease.holder == maker {
            leases.remove(&key);
        }
        waiting
    }

    /// `holder` was refused a page of `key`: who waits for the same refusal; nobody if the lease is
    /// another's by now.
    pub fn refused(&self, key: Key, holder: Asker) -> Vec<Asker> {
        let mut leases = self.leases.borrow_mut();
        let Some(lease) = leases.get_mut(&key) else {
            return Vec::new();
        };
        if lease.holder == holder {
            return leases.remove(&key).map(|lease| lease.queue).unwrap_or_default();
        }
        // It went on alone and is over: nothing is to be granted to it any more.
        lease.queue.retain(|waiting| *waiting != holder);
        Vec::new()
    }

    /// `holder` gave up on `key`: the flight that takes over, if one waits, and whether others wait
    /// for it. Those stay queued.
    pub fn abandoned(&self, key: Key, holder: Asker, expires: Instant) -> Option<(Asker, bool)> {
        let mut leases = self.leases.borrow_mut();
        let lease = leases.get_mut(&key)?;
        lease.queue.retain(|waiting| *waiting != holder);
        if lease.holder != holder {
            return None;
        }
        if lease.queue.is_empty() {
            leases.remove(&key);
            return None;
        }
        lease.pass_on(expires);
        Some((lease.holder, lease.is_told))
    }

    /// Ends leases that expired: where flights wait, the first of them holds the lease from now on,
    /// until `expires`. Gives those and whether others wait for them; for the housekeeping tick.
    pub fn expire(&self, now: Instant, expires: Instant) -> Vec<(Key, Asker, bool)> {
        let mut heirs = Vec::new();
        self.leases.borrow_mut().retain(|key, lease| {
            if lease.expires > now {
                return true;
            }
            if lease.queue.is_empty() {
                return false;
            }
            lease.pass_on(expires);
            heirs.push((*key, lease.holder, lease.is_told));
            true
        });
        heirs
    }

    /// How many keys are leased.
    pub fn len(&self) -> usize {
        self.leases.borrow().len()
    }

    /// Whether no key is leased.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shards::flight::{Begin, Flights};

    const KEY: Key = Key([7; 32]);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// The `turn`-th flight of `core`.
    fn flight(core: u16, turn: u8) -> Asker {
        let mut flights = Flights::<u8, ()>::new();
        let begun = (0..=turn).map(|key| flights.begin(key, usize::MAX)).last();
        let Some(Begin::Lead(flight)) = begun else { panic!("{begun:?}") };
        Asker { core: CoreId(core), flight }
    }

    const GRANTED: Verdict = Verdict::Granted { is_awaited: false };

    /// The verdict for one who waits where the holder knows it.
    const WAITS: Verdict = Verdict::Queued { untold: None };

    fn ask(ledger: &Ledger, core: u16, now_ms: u64) -> Verdict {
        ledger.ask(KEY, flight(core, 0), at(now_ms), at(now_ms + 700))
    }

    #[test]
    fn one_core_makes_it_and_the_others_wait_once_each() {
        let ledger = Ledger::new(8);
        assert_eq!(ask(&ledger, 1, 0), GRANTED);
        assert_eq!(ask(&ledger, 2, 1), Verdict::Queued { untold: Some(flight(1, 0)) });
        assert_eq!(ask(&ledger, 2, 2), WAITS);
        assert_eq!(ask(&ledger, 3, 3), WAITS);
        assert_eq!(ledger.answered(KEY, flight(1, 0)), vec![flight(2, 0), flight(3, 0)]);
        assert!(ledger.is_empty());
    }

    #[test]
    fn exactly_one_waiter_takes_over_a_dead_lease() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 1);
        ask(&ledger, 3, 2);
        assert_eq!(ledger.abandoned(KEY, flight(1, 0), at(700)), Some((flight(2, 0), true)));
        assert_eq!(ledger.abandoned(KEY, flight(1, 0), at(700)), None, "not the holder any more");
        assert_eq!(ledger.answered(KEY, flight(2, 0)), vec![flight(3, 0)]);
    }

    #[test]
    fn a_lost_done_wedges_nobody() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        assert_ne!(ask(&ledger, 2, 699), GRANTED);
        assert_eq!(ask(&ledger, 2, 700), GRANTED);
        assert_eq!(ledger.refused(KEY, flight(1, 0)), Vec::new(), "released by its owner only");
        assert_eq!(ledger.abandoned(KEY, flight(1, 0), at(701)), None);
        assert_eq!(ledger.len(), 1);
        assert_eq!(ledger.expire(at(1_400), at(2_100)), Vec::new());
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_page_from_an_overdue_holder_serves_whoever_waits() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 700);
        assert_eq!(ask(&ledger, 3, 701), Verdict::Queued { untold: Some(flight(2, 0)) });
        assert_eq!(ledger.answered(KEY, flight(1, 0)), vec![flight(3, 0)]);
        assert_eq!(ledger.len(), 1, "the lease is core 2's, which is at it");
        assert_eq!(ledger.answered(KEY, flight(2, 0)), Vec::new(), "nobody twice");
    }

    #[test]
    fn a_flight_that_left_the_queue_is_granted_nothing() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 1);
        ask(&ledger, 3, 2);
        assert_eq!(ledger.abandoned(KEY, flight(2, 0), at(700)), None);
        assert_eq!(ledger.abandoned(KEY, flight(1, 0), at(700)), Some((flight(3, 0), false)));
    }

    #[test]
    fn a_core_that_asks_again_holds_it_under_its_new_flight() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        let second = flight(1, 1);
        assert_eq!(ledger.ask(KEY, second, at(5), at(705)), GRANTED);
        assert_eq!(ledger.refused(KEY, flight(1, 0)), Vec::new(), "its first flight has no say");
        assert_eq!(ask(&ledger, 2, 6), Verdict::Queued { untold: Some(second) });
        assert_eq!(ledger.refused(KEY, second), vec![flight(2, 0)]);
    }

    #[test]
    fn whoever_waits_behind_a_dead_holder_inherits() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 1);
        ask(&ledger, 3, 2);
        assert_eq!(ledger.expire(at(699), at(1_399)), Vec::new());
        assert_eq!(ledger.expire(at(700), at(1_400)), vec![(KEY, flight(2, 0), true)]);
        assert_eq!(ledger.expire(at(1_400), at(2_100)), vec![(KEY, flight(3, 0), false)]);
        assert_eq!(ledger.expire(at(2_100), at(2_800)), Vec::new());
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_flight_that_went_on_alone_is_sent_nothing() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 1);
        ask(&ledger, 3, 2);
        assert_eq!(ledger.refused(KEY, flight(2, 0)), Vec::new());
        assert_eq!(ledger.answered(KEY, flight(3, 0)), Vec::new(), "not its own page");
        assert_eq!(ledger.abandoned(KEY, flight(1, 0), at(700)), None);
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_full_ledger_grants_and_forgets() {
        let ledger = Ledger::new(0);
        assert_eq!(ask(&ledger, 1, 0), GRANTED);
        assert_eq!(ask(&ledger, 2, 0), GRANTED);
        assert!(ledger.is_empty());
    }
}
