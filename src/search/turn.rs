//! Whose turn it is to make an answer: the part of a search's spine that speaks with the key's home
//! core, and gives the lease back whatever becomes of the making.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Deadline, Instant, local};
use shards::flight::FlightId;

use crate::cache::Lead;
use crate::cache::lease::{Asker, Word};
use crate::mail::{LEASE_REPLY_MAX, Lease, Letter};
use crate::model::{CacheMode, Key, Origin, Plan};
use crate::shard::Shard;
use crate::shipped::{Shipped, ShippedPage};

/// How long before its deadline a core stops waiting for another core's answer, to make its own.
const OWN_CALL_RESERVE: Duration = Duration::from_millis(250);

/// Whose turn it is to make an answer.
pub(super) enum Turn {
    /// Ours; released when it is made, or when dropped.
    Mine(Holding),
    /// Another core made it.
    Theirs(Shipped, Origin),
    /// Nobody wants it any more.
    Cancelled,
}

/// The lease of a key, to be released once: its waiters on other cores get what came of it.
pub(super) struct Holding {
    shard: Rc<Shard>,
    key: Key,
    flight: FlightId,
    is_held: bool,
    /// How long another core's call was waited for before.
    pub(super) waited: Duration,
}

impl Holding {
    pub(super) fn release(&mut self, shipped: &Shipped) {
        if self.is_held {
            self.is_held = false;
            self.shard.done_with(self.key, self.flight, shipped);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.release(&Shipped::Abandoned);
    }
}

/// Asks the key's home core whose turn it is. A home core that does not answer within
/// `LEASE_REPLY_MAX`, or a holder that is still at it when our own call must begin, is not waited
/// for: the worst is one call too many.
pub(super) async fn lease(shard: &Rc<Shard>, plan: &Plan, lead: &Lead, deadline: Deadline) -> Turn {
    let (key, flight) = (lead.key(), lead.id());
    let queued_at = Cell::new(None::<Instant>);
    let mine = |is_held| {
        let waited = queued_at.get().map(|at| shard.reactor.now().since(at)).unwrap_or_default();
        Turn::Mine(Holding { shard: shard.clone(), key, flight, is_held, waited })
    };
    if shard.cores() == 1 || plan.cache == CacheMode::NoCache {
        return mine(false);
    }
    let home = shard.home(key);
    let mut patience = Deadline::after(shard.reactor.now(), LEASE_REPLY_MAX).earlier(deadline);
    if home == shard.me() {
        if shard.lease_here(key, Asker { core: home, flight }) {
            return mine(true);
        }
        queued_at.set(Some(shard.reactor.now()));
        patience = deadline.less(OWN_CALL_RESERVE);
    } else if !shard.send(home, Letter::Lease(Lease::Ask(key, flight, shard.wants_spare(plan)))) {
        return mine(false);
    }
    let cancelled = lead.cancelled();
    loop {
        let word = local::select2(lead.lease_word(), cancelled.wait());
        match local::timeout(&shard.reactor, patience, word).await {
            Ok(local::Either::Left(Word::Granted)) => return mine(true),
            Ok(local::Either::Left(Word::Queued)) => {
                queued_at.set(Some(shard.reactor.now()));
                patience = deadline.less(OWN_CALL_RESERVE);
            }
            // Flights keep this to themselves.
            Ok(local::Either::Left(Word::Awaited | Word::Spare(_))) => {}
            Ok(local::Either::Left(Word::Answer(Shipped::Abandoned))) => return mine(false),
            Ok(local::Either::Left(Word::Answer(shipped))) => {
                return Turn::Theirs(shipped, Origin::OtherCore);
            }
            Ok(local::Either::Left(Word::Found(page))) => {
                return Turn::Theirs(Shipped::Page(page), Origin::OtherCache);
            }
            Ok(local::Either::Right(())) => {
                // The home core may be about to grant it: it must learn that nobody is here.
                drop(mine(true));
                return Turn::Cancelled;
            }
            Err(_elapsed) => {
                shard.metrics.borrow_mut().lease_overdue();
                return mine(true);
            }
        }
    }
}

/// The page that another core sends to a flight that no longer waited for it. Never ready for a
/// flight that never asked.
pub(super) async fn page_from_elsewhere(lead: &Lead) -> (ShippedPage, Origin) {
    loop {
        match lead.lease_word().await {
            Word::Answer(Shipped::Page(page)) => return (page, Origin::OtherCore),
            Word::Found(page) => return (page, Origin::OtherCache),
            Word::Answer(_) | Word::Granted | Word::Queued | Word::Awaited | Word::Spare(_) => {}
        }
    }
}
