//! A core's part in who makes an answer: as the key's home core, which keeps the lease, and as a
//! core that asked for it. Letters may be lost: each exchange has a time after which its sender
//! goes on alone (`mail::LEASE_REPLY_MAX`, `mail::LEASE_GRACE`).

use runtime::Instant;
use shards::flight::FlightId;

use super::Shard;
use crate::cache::lease::{Asker, Spare, Verdict, Word};
use crate::mail::{LEASE_GRACE, Lease, Letter};
use crate::model::Key;
use crate::shipped::Shipped;

impl Shard {
    /// Leases `key`, whose home this core is, to `asker`; false: it waits for another.
    pub fn lease_here(&self, key: Key, asker: Asker) -> bool {
        let now = self.reactor.now();
        match self.ledger.ask(key, asker, now, self.lease_expires(now)) {
            Verdict::Granted { is_awaited } => {
                if is_awaited {
                    self.tell(asker, key, Word::Awaited);
                }
                true
            }
            Verdict::Queued { untold } => {
                if let Some(holder) = untold {
                    self.tell(holder, key, Word::Awaited);
                }
                false
            }
        }
    }

    /// When a lease granted at `now` is anybody's again.
    pub(super) fn lease_expires(&self, now: Instant) -> Instant {
        now + self.settings.deadline.total + LEASE_GRACE
    }

    /// As the home core: `asker` wants the answer of `key`. An old page goes ahead of the word, in
    /// case nothing comes of it.
    pub fn answer_lease(&self, asker: Asker, key: Key, spare: Spare) {
        let now = self.reactor.now();
        let fresh = self.cache.fresh(key, now);
        if fresh.is_none()
            && spare == Spare::Wanted
            && let Some(old) = self.cache.spare(key, now)
        {
            self.tell(asker, key, Word::Spare(old.for_another_core()));
        }
        let word = match fresh {
            Some(stored) => Word::Found(stored.for_another_core()),
            None if self.lease_here(key, asker) => Word::Granted,
            None => Word::Queued,
        };
        self.tell(asker, key, word);
    }

    /// A flight of this core that asked for a lease is done with `key`: its home core is told.
    pub fn done_with(&self, key: Key, flight: FlightId, shipped: &Shipped) {
        let home = self.home(key);
        if home == self.me() {
            self.lease_done(key, Asker { core: home, flight }, shipped);
        } else {
            self.send(home, Letter::Lease(Lease::Done(key, flight, shipped.detached())));
        }
    }

    /// As the home core: `holder` is done with `key`; whoever waits is told.
    pub fn lease_done(&self, key: Key, holder: Asker, shipped: &Shipped) {
        let waiting = match shipped {
            Shipped::Page(_) => self.ledger.answered(key, holder),
            Shipped::Refused(..) => self.ledger.refused(key, holder),
            Shipped::Abandoned => {
                let expires = self.lease_expires(self.reactor.now());
                if let Some((next, is_awaited)) = self.ledger.abandoned(key, holder, expires) {
                    self.grant(key, next, is_awaited);
                }
                return;
            }
        };
        for asker in waiting {
            self.tell(asker, key, Word::Answer(shipped.detached()));
        }
    }

    /// As the home core: `key` is `holder`'s to make from now on.
    pub(super) fn grant(&self, key: Key, holder: Asker, is_awaited: bool) {
        self.tell(holder, key, Word::Granted);
        if is_awaited {
            self.tell(holder, key, Word::Awaited);
        }
    }

    /// The home core's word to a flight that asked.
    fn tell(&self, to: Asker, key: Key, word: Word) {
        if to.core == self.me() {
            self.hear(key, to.flight, word);
        } else {
            self.send(to.core, Letter::Lease(Lease::Word(key, to.flight, word)));
        }
    }

    /// The home core's word to a flight of this core. A lease granted to one that is over goes
    /// back.
    pub fn hear(&self, key: Key, flight: FlightId, word: Word) {
        let is_grant = matches!(word, Word::Granted);
        if !self.cache.flights().tell(flight, word) && is_grant {
            self.done_with(key, flight, &Shipped::Abandoned);
        }
    }
}
