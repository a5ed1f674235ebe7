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

use crate::model::Key;
use crate::shipped::{Shipped, ShippedPage};

/// The home core's word to a flight.
#[derive(Debug)]
pub enum Reply {
    /// Make it.
    Granted,
    /// Wait for it.
    Queued,
    /// Here is what came of it.
    Answer(Shipped),
    /// Here it is, from the home core's own L1.
    Found(ShippedPage),
}

/// What became of a request for a lease.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The asker makes it.
    Granted,
    /// The asker waits.
    Queued,
}

struct Lease {
    holder: CoreId,
    expires: Instant,
    queue: Vec<CoreId>,
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
    pub fn ask(&self, key: Key, asker: CoreId, now: Instant, expires: Instant) -> Verdict {
        let mut leases = self.leases.borrow_mut();
        if let Some(lease) = leases.get_mut(&key) {
            if lease.expires > now && lease.holder != asker {
                if !lease.queue.contains(&asker) {
                    lease.queue.push(asker);
                }
                return Verdict::Queued;
            }
            lease.holder = asker;
            lease.expires = expires;
            lease.queue.retain(|core| *core != asker);
            return Verdict::Granted;
        }
        if leases.len() < self.leases_max {
            leases.insert(key, Lease { holder: asker, expires, queue: Vec::new() });
        }
        Verdict::Granted
    }

    /// `holder` is done with `key` and has an outcome to share: who waits for it.
    pub fn answered(&self, key: Key, holder: CoreId) -> Vec<CoreId> {
        let mut leases = self.leases.borrow_mut();
        match leases.get(&key) {
            // A holder whose lease expired still has an answer worth sharing, but the lease and its
            // queue belong to its successor.
            Some(lease) if lease.holder == holder => {
                leases.remove(&key).map(|lease| lease.queue).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// `holder` gave up on `key`: the core that takes over, if one waits. The others stay queued.
    pub fn abandoned(&self, key: Key, holder: CoreId, expires: Instant) -> Option<CoreId> {
        let mut leases = self.leases.borrow_mut();
        let lease = leases.get_mut(&key).filter(|lease| lease.holder == holder)?;
        if lease.queue.is_empty() {
            leases.remove(&key);
            return None;
        }
        lease.holder = lease.queue.remove(0);
        lease.expires = expires;
        Some(lease.holder)
    }

    /// Forgets leases that expired; for the housekeeping tick.
    pub fn expire(&self, now: Instant) {
        self.leases.borrow_mut().retain(|_, lease| lease.expires > now);
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

    const KEY: Key = Key([7; 32]);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ask(ledger: &Ledger, core: u16, now_ms: u64) -> Verdict {
        ledger.ask(KEY, CoreId(core), at(now_ms), at(now_ms + 700))
    }

    #[test]
    fn one_core_makes_it_and_the_others_wait_once_each() {
        let ledger = Ledger::new(8);
        assert_eq!(ask(&ledger, 1, 0), Verdict::Granted);
        assert_eq!(ask(&ledger, 2, 1), Verdict::Queued);
        assert_eq!(ask(&ledger, 2, 2), Verdict::Queued);
        assert_eq!(ask(&ledger, 3, 3), Verdict::Queued);
        assert_eq!(ledger.answered(KEY, CoreId(1)), vec![CoreId(2), CoreId(3)]);
        assert!(ledger.is_empty());
    }

    #[test]
    fn exactly_one_waiter_takes_over_a_dead_lease() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        ask(&ledger, 2, 1);
        ask(&ledger, 3, 2);
        assert_eq!(ledger.abandoned(KEY, CoreId(1), at(700)), Some(CoreId(2)));
        assert_eq!(ledger.abandoned(KEY, CoreId(1), at(700)), None, "not the holder any more");
        assert_eq!(ledger.answered(KEY, CoreId(2)), vec![CoreId(3)]);
    }

    #[test]
    fn a_lost_done_wedges_nobody() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        assert_eq!(ask(&ledger, 2, 699), Verdict::Queued);
        assert_eq!(ask(&ledger, 2, 700), Verdict::Granted);
        assert_eq!(ledger.answered(KEY, CoreId(1)), Vec::new(), "released by its owner only");
        ledger.expire(at(1_400));
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_holder_that_asks_again_holds_it_still() {
        let ledger = Ledger::new(8);
        ask(&ledger, 1, 0);
        assert_eq!(ask(&ledger, 1, 5), Verdict::Granted);
    }

    #[test]
    fn a_full_ledger_grants_and_forgets() {
        let ledger = Ledger::new(0);
        assert_eq!(ask(&ledger, 1, 0), Verdict::Granted);
        assert_eq!(ask(&ledger, 2, 0), Verdict::Granted);
        assert!(ledger.is_empty());
    }
}
