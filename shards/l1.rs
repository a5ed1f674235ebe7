//! A core's own cache, bounded in bytes.
//!
//! Two times per entry: fresh until, usable until. Between them it is stale: served at once, and
//! refreshed once in the background. An entry is never replaced by one that was made earlier, so a
//! refresh that was overtaken does no harm. Eviction is `quick_cache`'s Clock-PRO variant: a scan
//! of keys seen once does not push out what is asked for again, and a key that returns is admitted.
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
        if self.entry(key).is_some_and(|there| there.made_at > entry.made_at) {
            return false;
        }
        let weight_bytes = Self::ENTRY_BYTES + u64::from(entry.value.weight_bytes());
        let is_stored = weight_bytes <= self.entry_bytes_max;
        if is_stored {
            self.cache.insert(*key, Stored { entry, weight_bytes });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use proptest::prelude::*;
    use std::rc::Rc;
    use std::time::Duration;

    impl Weigh for Rc<Vec<u8>> {
        fn weight_bytes(&self) -> u32 {
            u32::try_from(self.capacity()).unwrap_or(u32::MAX)
        }
    }

    type Cache = L1<Rc<Vec<u8>>>;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn key(number: u64) -> Key {
        Chance::new(number).key()
    }

    /// An entry made at that second, fresh for 10 s and usable for 30 s.
    fn entry(made: u64, bytes: usize) -> Entry<Rc<Vec<u8>>> {
        Entry {
            value: Rc::new(vec![made as u8; bytes]),
            made_at: at(made),
            fresh_until: at(made + 10),
            usable_until: at(made + 30),
        }
    }

    /// Inserts entries made at these seconds in turn; what is found at `now`, by when it was made?
    fn check(made: &[(u64, bool)], now: u64, expected: Found<u8>) {
        let mut cache = Cache::new(1 << 20, 100);
        for (second, is_stored) in made {
            assert_eq!(cache.insert(&key(1), entry(*second, 10)), *is_stored);
        }
        let found = match cache.get(&key(1), at(now)) {
            Found::Fresh(value) => Found::Fresh(value[0]),
            Found::Stale(value) => Found::Stale(value[0]),
            Found::Miss => Found::Miss,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn an_entry_is_fresh_then_stale_then_gone() {
        check(&[], 0, Found::Miss);
        check(&[(5, true)], 14, Found::Fresh(5));
        check(&[(5, true)], 15, Found::Stale(5));
        check(&[(5, true)], 34, Found::Stale(5));
        check(&[(5, true)], 35, Found::Miss);
    }

    #[test]
    fn an_older_answer_never_replaces_a_newer_one() {
        check(&[(5, true), (4, false)], 6, Found::Fresh(5));
        check(&[(5, true), (6, true)], 15, Found::Fresh(6));
        check(&[(5, true), (5, true)], 6, Found::Fresh(5));
        // Not even when the newer one is past its time.
        check(&[(5, true), (4, false)], 40, Found::Miss);
    }

    #[test]
    fn an_entry_too_heavy_is_not_stored_and_what_it_replaces_is_gone() {
        let mut cache = Cache::new(10_000, 10);
        assert!(cache.insert(&key(1), entry(1, 100)));
        assert!(!cache.insert(&key(1), entry(2, 9_900)));
        assert_eq!(cache.get(&key(1), at(2)), Found::Miss);
        assert!(cache.is_empty());
    }

    #[test]
    fn removed_and_cleared_is_gone() {
        let mut cache = Cache::new(1 << 20, 100);
        assert!(cache.insert(&key(1), entry(1, 10)) && cache.insert(&key(2), entry(1, 10)));
        assert!(cache.remove(&key(1)));
        assert!(!cache.remove(&key(1)));
        assert_eq!((cache.len(), cache.bytes()), (1, Cache::ENTRY_BYTES + 10));
        assert_eq!(cache.entry(&key(2)).map(|entry| entry.made_at), Some(at(1)));
        cache.clear();
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
    }

    #[test]
    fn reading_shares_the_value() {
        let mut cache = Cache::new(1 << 20, 100);
        let shared = entry(1, 10);
        let value = Rc::clone(&shared.value);
        assert!(cache.insert(&key(1), shared));
        assert!(
            matches!(cache.get(&key(1), at(1)), Found::Fresh(found) if Rc::ptr_eq(&found, &value))
        );
    }

    fn is_there(cache: &Cache, number: u64) -> bool {
        cache.get(&key(number), at(1)) != Found::Miss
    }

    /// A cache for 1,000 entries in which 500 keys are read again and again.
    fn warm() -> Cache {
        let mut cache = Cache::new(1_000 * (Cache::ENTRY_BYTES + 100), 1_000);
        for round in 0..10 {
            for number in 0..500 {
                if !is_there(&cache, number) {
                    assert!(cache.insert(&key(number), entry(round, 100)));
                }
            }
        }
        cache
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
        let mut cache = warm();
        for number in 1_000..11_000 {
            assert!(cache.insert(&key(number), entry(1, 100)));
            is_there(&cache, number % 500);
        }
        let kept = (0..500).filter(|number| is_there(&cache, *number)).count();
        assert!(kept >= 490, "{kept} of 500 kept");
    }

    #[test]
    fn a_key_that_turns_popular_is_admitted_to_a_full_cache() {
        let mut cache = warm();
        for number in 1_000..3_000 {
            assert!(cache.insert(&key(number), entry(1, 100)));
        }
        // 1 of 10 requests is for the viral key, the others are for a stream of new ones.
        let mut misses = 0;
        for number in 10_000..10_200 {
            if !is_there(&cache, 9_999) {
                misses += 1;
                assert!(cache.insert(&key(9_999), entry(1, 100)));
            }
            for stranger in 0..9 {
                assert!(cache.insert(&key(number * 10 + stranger), entry(1, 100)));
            }
        }
        assert!(misses <= 2, "{misses} misses of 200");
    }

    proptest! {
        #[test]
        fn the_bytes_never_exceed_their_maximum(
            steps in prop::collection::vec((0_u64..200, 0_usize..3_000, any::<bool>()), 1..400)
        ) {
            let mut cache = Cache::new(40_000, 50);
            for (second, (number, bytes, is_removal)) in (0..).zip(steps) {
                if is_removal {
                    cache.remove(&key(number));
                } else {
                    cache.insert(&key(number), entry(second, bytes));
                }
                cache.check();
                cache.get(&key(number / 2), at(second));
            }
            prop_assert!(cache.bytes() <= 40_000);
        }

        #[test]
        fn what_was_made_last_is_what_is_served(made in prop::collection::vec(0_u64..100, 1..20)) {
            let mut cache = Cache::new(1 << 20, 10);
            let mut newest = None;
            for second in made {
                let is_stored = cache.insert(&key(1), entry(second, 1));
                prop_assert_eq!(is_stored, newest <= Some(second));
                newest = newest.max(Some(second));
                prop_assert_eq!(cache.entry(&key(1)).map(|entry| entry.made_at), newest.map(at));
            }
        }
    }
}
