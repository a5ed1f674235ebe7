//! What cores say to each other: leases (who makes an answer) and gossip (what was seen of an
//! engine). Every letter is small, owned by its reader once sent, and may be lost: a lane that is
//! full refuses it, and each exchange has a time after which its sender goes on alone.

use std::rc::Rc;
use std::time::Duration;

use runtime::{Bell, Instant};
use shards::CoreId;

use crate::cache::Stored;
use crate::cache::lease::Reply as Word;
use crate::model::{Key, LegReport, Page, Refusal};
use crate::shard::Shard;

/// One letter between two cores.
#[derive(Debug)]
pub enum Letter {
    /// About who makes an answer.
    Lease(Lease),
    /// About what was seen of the engines.
    Gossip(Gossip),
}

/// The lease of one key, between a core that wants the answer and the key's home core.
///
/// ```text
/// asker ── Ask ──▶ home         asker ◀── Granted | Queued | Found ── home
/// holder ── Done ──▶ home       queued ◀── Answer ── home
/// ```
#[derive(Debug)]
pub enum Lease {
    /// "Who makes this answer?" To the home core.
    Ask(Key),
    /// "You do." From the home core.
    Granted(Key),
    /// "Another core does; its answer will follow." From the home core.
    Queued(Key),
    /// "Here is what came of it." From the home core.
    Answer(Key, Shipped),
    /// "I have it in L1." From the home core.
    Found(Key, ShippedPage),
    /// "I am done with it." From the holder to the home core.
    Done(Key, Shipped),
}

/// How a flight on another core ended.
#[derive(Debug, Clone)]
pub enum Shipped {
    /// A page, copied: the reader owns it.
    Page(ShippedPage),
    /// No page, and why.
    Refused(Refusal, Vec<LegReport>),
    /// The maker went away without an answer.
    Abandoned,
}

/// A page on its way to another core.
#[derive(Debug, Clone)]
pub struct ShippedPage {
    /// Its bytes are this letter's own: no reference count is shared across cores.
    pub page: Page,
    /// What was asked of whom to make it.
    pub legs: Vec<LegReport>,
    /// When it was made.
    pub made_at: Instant,
    /// Until when it is fresh.
    pub fresh_until: Instant,
    /// Until when it may be served stale.
    pub usable_until: Instant,
    /// Whether the reader may keep it.
    pub is_kept: bool,
    /// The time for which the engines are to blame.
    pub upstream: Duration,
}

/// What one core has in flight to each engine, indexed by engine: absolute, so that a lost letter
/// costs freshness only.
#[derive(Debug)]
pub struct Gossip {
    /// Legs in flight, by engine.
    pub in_flight: Vec<u32>,
}

impl ShippedPage {
    /// A copy whose bytes belong to nobody else.
    pub fn detached(&self) -> Self {
        let page = Page {
            results: bytes::Bytes::copy_from_slice(&self.page.results),
            ends: self.page.ends.clone(),
        };
        Self { page, legs: self.legs.clone(), ..*self }
    }

    /// The page as L1 keeps it: a copy.
    pub fn stored(&self) -> Stored {
        Stored {
            page: Rc::new(self.detached().page),
            made_at: self.made_at,
            fresh_until: self.fresh_until,
            usable_until: self.usable_until,
        }
    }
}

impl Shipped {
    /// A copy whose bytes belong to nobody else.
    pub fn detached(&self) -> Self {
        match self {
            Self::Page(page) => Self::Page(page.detached()),
            other => other.clone(),
        }
    }
}

/// What this core does on receipt of `letter` from core `from`.
pub fn receive(shard: &Shard, from: CoreId, letter: Letter) {
    let flights = shard.cache.flights();
    match letter {
        Letter::Gossip(gossip) => shard.hear_in_flight(from, gossip.in_flight),
        Letter::Lease(Lease::Ask(key)) => shard.answer_lease(from, key),
        Letter::Lease(Lease::Granted(key)) => {
            if !flights.tell(key, Word::Granted) {
                // Whoever asked is gone: the next may have it.
                shard.done_with(key, &Shipped::Abandoned);
            }
        }
        Letter::Lease(Lease::Queued(key)) => {
            flights.tell(key, Word::Queued);
        }
        Letter::Lease(Lease::Answer(key, shipped)) => {
            flights.tell(key, Word::Answer(shipped));
        }
        Letter::Lease(Lease::Found(key, page)) => {
            flights.tell(key, Word::Found(page));
        }
        Letter::Lease(Lease::Done(key, shipped)) => {
            if let Shipped::Page(page) = &shipped
                && page.is_kept
            {
                shard.cache.keep(key, page.stored());
            }
            shard.lease_done(key, from, &shipped);
        }
    }
}

/// Reads this core's mail until the process ends: at most `LETTERS_PER_TURN` before others run.
pub async fn read(shard: Rc<Shard>, mut bell: Bell) {
    loop {
        bell.wait(|| shard.post().has_mail()).await;
        shard.post().drain(LETTERS_PER_TURN, |from, letter| receive(&shard, from, letter));
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
