//! What cores say to each other: leases (who makes an answer) and gossip (what was seen of an
//! engine). Every letter is owned by its reader once sent, and may be lost: a lane that is
//! full refuses it, and each exchange has a time after which its sender goes on alone.

use std::rc::Rc;
use std::time::Duration;

use runtime::Bell;
use shards::CoreId;
use shards::flight::FlightId;

use crate::cache::Stored;
use crate::cache::lease::{Asker, Spare, Word};
use crate::engines::evidence::Evidence;
use crate::model::Key;
use crate::shard::Shard;
use crate::shipped::Shipped;

/// One letter between two cores.
#[derive(Debug)]
pub enum Letter {
    /// About who makes an answer.
    Lease(Lease),
    /// About what was seen of the engines.
    Gossip(Gossip),
}

/// The lease of one key, between a flight that wants the answer and the key's home core.
///
/// ```text
/// asker ── Ask ──▶ home         asker ◀── Spare?, Granted | Queued | Found ── home
/// holder ── Done ──▶ home       queued ◀── Answer ── home
/// ```
#[derive(Debug)]
pub enum Lease {
    /// "Who makes this answer?" To the home core.
    Ask(Key, FlightId, Spare),
    /// The home core's word to the flight that asked.
    Word(Key, FlightId, Word),
    /// "I am done with it." From the holder to the home core.
    Done(Key, FlightId, Shipped),
}

/// What one core has to tell of the engines. A lost letter costs freshness only.
#[derive(Clone, Debug)]
pub struct Gossip {
    /// Legs in flight, by engine: absolute.
    pub in_flight: Vec<u32>,
    /// What was learned since the last letter.
    pub evidence: Vec<Evidence>,
}

/// What this core does on receipt of `letter` from core `from`.
pub fn receive(shard: &Shard, from: CoreId, letter: Letter) {
    match letter {
        Letter::Gossip(gossip) => shard.hear_gossip(from, gossip),
        Letter::Lease(Lease::Ask(key, flight, spare)) => {
            shard.answer_lease(Asker { core: from, flight }, key, spare);
        }
        Letter::Lease(Lease::Word(key, flight, word)) => shard.hear(key, flight, word),
        Letter::Lease(Lease::Done(key, flight, shipped)) => {
            if let Shipped::Page(page) = &shipped
                && page.is_kept
            {
                shard.cache.keep(key, Stored::shipped(page));
            }
            shard.lease_done(key, Asker { core: from, flight }, &shipped);
        }
    }
}

/// Reads this core's mail until the process ends: at most `LETTERS_PER_TURN` before others run. A
/// letter that cannot be read without a panic is lost, and only that one.
pub async fn read(shard: Rc<Shard>, mut bell: Bell) {
    loop {
        bell.wait(|| shard.post().has_mail()).await;
        shard.post().drain(LETTERS_PER_TURN, |from, letter| {
            shard.guarded(|| receive(&shard, from, letter));
        });
        if shard.post().has_mail() {
            shard.reactor.yield_now().await;
        }
    }
}

/// Letters read before other tasks of the core run: some 10 µs of work.
const LETTERS_PER_TURN: usize = 64;

/// How long a core waits for its home core's first word before it goes on alone.
pub const LEASE_REPLY_MAX: Duration = Duration::from_millis(25);

/// How long a holder may keep a lease before the home core gives it to the next who asks, beyond
/// the request's own total: a lost `Done` never wedges a key.
pub const LEASE_GRACE: Duration = Duration::from_millis(100);
