//! What cores say to each other: leases (who makes an answer) and gossip (what was seen of an
//! engine). Every letter is small, owned by its reader once sent, and may be lost: a lane that is
//! full refuses it, and each exchange has a time after which its sender goes on alone.

use std::time::Duration;

use runtime::Instant;
use shards::placement::CoreId;

use crate::model::{Key, LegReport, Page, Refusal};

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
/// asker ── Ask ──▶ home         asker ◀── Granted | Queued | Answer ── home
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
    /// "Here it is." From the home core.
    Answer(Key, Shipped),
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
}

/// How long a core waits for its home core's first word before it goes on alone.
pub const LEASE_REPLY_MAX: Duration = Duration::from_millis(25);

/// How long a holder may keep a lease before the home core gives it to the next who asks, beyond
/// the request's own total: a lost `Done` never wedges a key.
pub const LEASE_GRACE: Duration = Duration::from_millis(100);

/// Cores whose answer a lease owes, in order of asking.
pub type Queue = Vec<CoreId>;
