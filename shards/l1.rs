//! A core's own cache, bounded in bytes.
//!
//! Two times per entry: fresh until, usable until. Between them it is stale: served at once, and
//! refreshed once in the background. An entry is never replaced by one that was made earlier, so a
//! refresh that was overtaken does no harm. Eviction is `quick_cache`'s Clock-PRO variant: a scan of
//! keys seen once does not push out what is asked for again, and a key that returns is admitted.
//!
//! An entry weighs its slot twice (key, header and value; the table doubles when it grows) and what
//! the value owns besides. The sum never exceeds `bytes_max`. `get` allocates nothing beyond what
//! cloning the value does, so values are shared (`Rc`, `Bytes`).

use foldhash::fast::FixedState;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use runtime::Instant;

/// The share of the cache for what was used more than once. The rest is where keys that were never
/// seen prove themselves.
const HOT_RATIO: f64 = 0.9;

/// A cache key: a SHA-256.
pub type Key = [u8; 32];

/// What a value owns.
pub trait Weigh {
    /// Bytes the value owns outside of itself (its heap), shared parts included.
    fn weight_bytes(&self) -> u32;
}

/// A value and its times.
#[derive(Clone, Debug)]
pub struct Entry<V> {
    /// What is cached.
    pub value: V,
    /// When it was made, at its source: decides which of two is newer.
    pub made_at: Instant,
    /// Until when it is served as it is.
    pub fresh_until: Instant,
    /// Until when it is served while it is refreshed. Not before `fresh_until`.
    pub usable_until: Instant,
}

/// What a look-up found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found<V> {
    /// A fresh value.
    Fresh(V),
    /// One to serve and to refresh.
    Stale(V),
    /// Nothing that may be served.
    Miss,
}

/// The cache.
pub struct L1<V: Weigh + Clone> {
    cache: Cache<Key, Stored<V>, ByBytes, FixedState>,
    /// The heaviest entry that is stored at all: nearly all of `bytes_max`.
    entry_bytes_max: u64,
}

/// An entry as it lies in the cache; weighed once, because a weight must not change in there.
struct Stored<V> {
    entry: Entry<V>,
    weight_bytes: u64,
}

#[derive(Clone)]
struct ByBytes;

impl<V> Weighter<Key, Stored<V>> for ByBytes {
    fn weight(&self, _key: &Key, stored: &Stored<V>) -> u64 {
        stored.weight_bytes
    }
}

impl<V: Weigh + Clone> L1<V> {
    /// What an entry weighs besides what its value owns: twice a slot of 21 bytes, key and entry.
    pub const ENTRY_BYTES: u64 = 2 * (21 + size_of::<Key>() + size_of::<Stored<V>>()) as u64;

    /// An empty cache of at most `bytes_max`, for about `items_estimate` entries (a factor of ten
    /// off does no harm: it sizes the memory of evicted keys, half as many, 8 bytes each).
    pub fn new(bytes_max: u64, items_estimate: usize) -> Self {
        Self::with_seed(bytes_max, items_estimate, 0)
    }

    /// As `new`, with a hasher seeded from the core's chance, where strangers choose keys.
    pub fn with_seed(bytes_max: u64, items_estimate: usize, seed: u64) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items_estimate.max(16))
            .weight_capacity(bytes_max)
            .hot_allocation(HOT_RATIO)
            .build()
            .expect("both capacities are set");
        let hasher = FixedState::with_seed(seed);
        Self {
            cache: Cache::with_options(options, ByBytes, hasher, DefaultLifecycle::default()),
            entry_bytes_max: (bytes_max as f64 * HOT_RATIO) as u64,
        }
    }

    /// The value for `key`, if it may be served at `now`.
    pub fn get(&self, key: &Key, now: Instant) -> Found<V> {
        match self.cache.get(key).map(|stored| &stored.entry) {
            Some(entry) if now < entry.fresh_until => Found::Fresh(entry.value.clone()),
            Some(entry) if now < entry.usable_until => Found::Stale(entry.value.clone()),
            _ => Found::Miss,
        }
    }

    /// The entry for `key` with its times, servable or not; does not count as a use of it.
    pub fn entry(&self, key: &Key) -> Option<&Entry<V>> {
        self.cache.peek(key).map(|stored| &stored.entry)
    }

    /// Stores `entry`; false, and nothing is stored, if what is there was made later. An entry too
    /// heavy for the cache is not stored either, and what it would have replaced is removed.
    pub fn insert(&mut self, key: &Key, entry: Entry<V>) -> bool {
        debug_assert!(entry.fresh_until <= entry.usable_until);
        if self
            .entry(key)
            .is_some_and(|there| there.made_at > entry.made_at)
        {
            return false;
        }
        let weight_bytes = Self::ENTRY_BYTES + u64::from(entry.value.weight_bytes());
        let is_stored = weight_bytes <= self.entry_bytes_max;
        if is_stored {
            self.cache.insert(
                *key,
                Stored {
                    entry,
                    weight_bytes,
                },
            );
        } else {
            self.cache.remove(key);
        }
        self.check_in_debug();
        is_stored
    }

    /// Forgets `key`; whether there was something to forget.
    pub fn remove(&mut self, key: &Key) -> bool {
        let is_removed = self.cache.remove(key).is_some();
        self.check_in_debug();
        is_removed
    }

    /// Forgets everything: what is to be done when an invalidation may have been missed.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.check_in_debug();
    }

    /// What all entries weigh.
    pub fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// What they may weigh.
    pub fn bytes_max(&self) -> u64 {
        self.cache.capacity()
    }

    /// How many entries there are, those past their time included.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Asserts the invariants; a sweep of every entry.
    pub fn check(&self) {
        let weights = self.cache.iter().map(|(_, stored)| stored.weight_bytes);
        assert_eq!(weights.sum::<u64>(), self.bytes());
        assert!(self.bytes() <= self.bytes_max());
    }

    /// A sweep after each change would make a large cache quadratic in debug builds.
    fn check_in_debug(&self) {
        debug_assert!(self.bytes() <= self.bytes_max());
        if cfg!(debug_assertions) && self.len() <= 64 {
            self.check();
        }
    }
}
