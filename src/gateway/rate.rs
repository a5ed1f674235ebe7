//! The words that all cores of an instance share: a token bucket per key and endpoint, and a count
//! of the month per key. Each word has a cache line of its own, so that two keys never slow each
//! other down: 192 bytes a key.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use runtime::Instant;
use shards::bucket::{self, Rate};

use crate::config::Settings;
use crate::model::{Endpoint, KeyId, RateState};

/// A word on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Word(AtomicU64);

/// One key's words.
#[derive(Default)]
struct OfKey {
    buckets: [Word; Endpoint::ALL.len()],
    credits: Word,
}

/// The words of an instance, by key. They start full; a restart fills every bucket.
pub struct Words(Vec<OfKey>);

impl Words {
    /// Words for the keys of `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self(settings.keys.iter().map(|_| OfKey::default()).collect())
    }

    /// How many keys have words.
    pub(super) fn keys(&self) -> usize {
        self.0.len()
    }

    /// The word that counts a key's month.
    pub(super) fn credits(&self, key: KeyId) -> Option<&AtomicU64> {
        self.0.get(key.0 as usize).map(|words| &words.credits.0)
    }

    /// Takes a token: where the bucket stands then, or how long until there is one, and the same.
    pub(super) fn take(
        &self,
        key: KeyId,
        endpoint: Endpoint,
        rate: Rate,
        now: Instant,
    ) -> Result<RateState, (Duration, RateState)> {
        let Some(words) = self.0.get(key.0 as usize) else {
            debug_assert!(false, "words are made from the settings that keys come from");
            return Err((Duration::from_secs(1), state(rate, 0, Duration::ZERO)));
        };
        let taken = bucket::take(&words.buckets[endpoint.index()].0, now, rate);
        let state = state(rate, taken.remaining, taken.full_in);
        if taken.allowed { Ok(state) } else { Err((taken.retry_in, state)) }
    }
}

fn state(rate: Rate, remaining: u32, full_in: Duration) -> RateState {
    let window = f64::from(rate.burst) / rate.per_second;
    let window = Duration::try_from_secs_f64(window).unwrap_or(Duration::MAX);
    RateState { burst: rate.burst, remaining, full_in, window }
}
