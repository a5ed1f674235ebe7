//! Stage 3: an answer we have, one that is on its way, or the permit to make it.
//!
//! `consult` never awaits. A *flight* is the making of one answer on this core: its maker runs as a
//! task of its own, so no caller that leaves takes it along, and everybody, the first caller
//! included, waits for it as a *waiter* with a deadline of its own. Which core makes the answer is
//! settled by `lease`.
//!
//! A flight that ends without an answer for a reason that is not its waiters' (its maker died, or
//! its own deadline passed before theirs) is `Abandoned`: each waiter consults again, and the
//! first to do so leads.

pub mod flight;
pub mod lease;

use std::cell::RefCell;
use std::rc::Rc;

use runtime::Instant;
use shards::l1::{Entry, Found, L1, Weigh};

use crate::config::Settings;
use crate::model::{CacheMode, Key, Making, Page, Plan};
use crate::shipped::ShippedPage;

pub use flight::{Flight, Flights, Lead, Waiter};

/// A page as L1 keeps it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The page, shared by the requests of this core.
    pub page: Rc<Page>,
    /// When it was made.
    pub made_at: Instant,
    /// Until when it is fresh.
    pub fresh_until: Instant,
    /// Until when it may be served while it is refreshed.
    pub usable_until: Instant,
    /// Until when it may stand in for an answer that nobody gives; the past: never.
    pub spare_until: Instant,
}

impl Weigh for Stored {
    /// The page's own memory; `Stored` itself is counted by the cache.
    fn weight_bytes(&self) -> u32 {
        let bytes = self.page.results.len() + self.page.ends.len() * size_of::<u32>();
        let header = size_of::<Page>() + 2 * size_of::<usize>();
        u32::try_from(bytes + header).unwrap_or(u32::MAX)
    }
}

impl Stored {
    /// A page that another core made; it shares the letter's bytes.
    pub fn shipped(shipped: &ShippedPage) -> Self {
        Self {
            page: Rc::new(shipped.page.clone()),
            made_at: shipped.made_at,
            fresh_until: shipped.fresh_until,
            usable_until: shipped.usable_until,
            spare_until: shipped.spare_until,
        }
    }

    /// A copy whose bytes belong to nobody else.
    pub fn for_another_core(&self) -> ShippedPage {
        ShippedPage {
            page: self.page.detached(),
            legs: Vec::new(),
            made_at: self.made_at,
            fresh_until: self.fresh_until,
            usable_until: self.usable_until,
            spare_until: self.spare_until,
            is_kept: true,
            making: Making::default(),
        }
    }
}

/// What `consult` found.
pub enum Consulted {
    /// A fresh page.
    Hit(Stored),
    /// A usable page, and, for one caller at a time, the permit to refresh it.
    Stale(Stored, Option<Lead>),
    /// Somebody makes it on this core.
    Joined(Waiter),
    /// The caller's flight now: `Lead` goes to the task that makes the answer.
    Lead(Lead, Waiter),
    /// As many flights as there may be.
    Full,
    /// `only-if-cached`, and it is not.
    NotCached,
}

/// L1 and the flights of one core.
pub struct Cache {
    l1: RefCell<L1<Stored>>,
    flights: Rc<Flights>,
}

/// The least a core's share of L1 may be: below it a single page of 50 results would not fit.
const L1_BYTES_MIN: u64 = 1 << 20;

/// The expected size of a page, from which L1 sizes its tables.
const PAGE_BYTES_TYPICAL: u64 = 6 * 1024;

impl Cache {
    /// One core's share of `settings.search.l1_bytes`; at most `flights_max` answers are made at
    /// once.
    pub fn new(settings: &Settings, cores: usize, flights_max: usize) -> Self {
        let share = (settings.search.l1_bytes / cores.max(1) as u64).max(L1_BYTES_MIN);
        let items = usize::try_from(share / PAGE_BYTES_TYPICAL).unwrap_or(usize::MAX).max(64);
        Self { l1: RefCell::new(L1::new(share, items)), flights: Flights::new(flights_max) }
    }

    /// L1, then the flights. Never awaits.
    pub fn consult(&self, plan: &Plan, now: Instant) -> Consulted {
        if plan.cache != CacheMode::NoCache {
            match self.l1.borrow().get(&plan.key.0, now) {
                Found::Fresh(stored) => return Consulted::Hit(stored),
                Found::Stale(stored) => {
                    return Consulted::Stale(stored, self.flights.refresh(plan.key, now));
                }
                Found::Miss => {}
            }
        }
        if plan.cache == CacheMode::OnlyIfCached {
            return Consulted::NotCached;
        }
        self.flights.join_or_lead(plan.key)
    }

    /// A fresh page of `key`, for a core that asks for its lease.
    pub fn fresh(&self, key: Key, now: Instant) -> Option<Stored> {
        match self.l1.borrow().get(&key.0, now) {
            Found::Fresh(stored) => Some(stored),
            Found::Stale(_) | Found::Miss => None,
        }
    }

    /// A page of `key` that may stand in at `now`, for want of another. L1 forgets no page for its
    /// age, only for want of room.
    pub fn spare(&self, key: Key, now: Instant) -> Option<Stored> {
        let l1 = self.l1.borrow();
        let old = l1.entry(&key.0).filter(|entry| now < entry.value.spare_until)?;
        Some(old.value.clone())
    }

    /// Keeps `stored`, unless what is there is newer.
    pub fn keep(&self, key: Key, stored: Stored) -> bool {
        let (made_at, fresh_until, usable_until) =
            (stored.made_at, stored.fresh_until, stored.usable_until);
        let entry = Entry { value: stored, made_at, fresh_until, usable_until };
        self.l1.borrow_mut().insert(&key.0, entry)
    }

    /// The flights of this core.
    pub fn flights(&self) -> &Rc<Flights> {
        &self.flights
    }

    /// The most bytes that L1 may hold.
    pub fn bytes_max(&self) -> u64 {
        self.l1.borrow().bytes_max()
    }

    /// Bytes and entries in L1.
    pub fn size(&self) -> (u64, usize) {
        let l1 = self.l1.borrow();
        (l1.bytes(), l1.len())
    }
}
