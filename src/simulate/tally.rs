//! What clients got, as counts and distributions: nothing grows with the number of requests. The
//! first requests of a run warm it up and are left out.
//!
//! A refusal counts at its time. "Misses" are requests that no stored answer could serve at once:
//! answered by an engine, by another's flight, by an old page after a flight that came to nothing,
//! or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clients::{Asked, Caller};
use crate::metrics::timing::{Digits, Timing};
use crate::model::Class;

/// The published share of hits, and what a hit takes.
pub const HIT_RATIO: f64 = 0.31;
/// In ms.
pub const HIT_MS: f64 = 20.0;

/// The quantiles that are reported.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// A timer may be as late, and the way back takes its time.
const LATE_SLACK: Duration = Duration::from_millis(5);

/// How an answer came about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// From the cache, fresh.
    Hit,
    /// From the cache, refreshed behind.
    Stale,
    /// From the cache, past its time, after a flight that came to nothing.
    Spare,
    /// From another request's flight.
    Coalesced,
    /// From an engine.
    Miss,
    /// Not at all: deadline, no valid answer, no engine.
    Unanswered,
    /// Not worked on.
    Refused,
}

impl Kind {
    /// As in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Spare => "stale_if_error",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
        }
    }
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The status; 0: the connection broke.
    pub status: u16,
    /// How.
    pub kind: Kind,
    /// The refusal's code, else empty.
    pub code: &'static str,
}

/// Requests of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfClass {
    /// All.
    pub requests: u64,
    /// Fresh from the cache.
    pub hits: u64,
    /// Stale from the cache.
    pub stale: u64,
    /// From an engine, asked for them.
    pub misses: u64,
}

/// A stretch of time, for a scenario's figure.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// Requests of people planned in it.
    pub requests: u64,
    /// Those answered validly in time.
    pub valid: u64,
    /// Those that the gateway turned away.
    pub refused: u64,
    /// The times of those that are no hits, in units of 0.1 ms.
    pub times: Vec<u32>,
}

impl Stretch {
    /// The time in ms that a share `quantile` of its misses does not exceed.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let index = (quantile * times.len() as f64).ceil() as usize;
        times.get(index.saturating_sub(1)).map_or(0.0, |&time| f64::from(time) / 10.0)
    }

    /// The share that was answered validly in time; 1 of nothing.
    pub fn valid_ratio(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.valid as f64 / self.requests as f64 }
    }
}

/// What clients got.
pub struct Tally {
    warm_up: u64,
    deadline: Duration,
    stretch: Duration,
    seen: u64,
    /// All requests but those turned away.
    pub all: Timing,
    /// Those that no stored answer served.
    pub misses: Timing,
    /// Hits and stale answers.
    pub hits: Timing,
    /// Requests by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// Refusals by code.
    pub codes: BTreeMap<&'static str, u64>,
    /// By class.
    pub classes: [OfClass; Class::ALL.len()],
    /// Counted requests.
    pub requests: u64,
    /// Answered validly by the deadline.
    pub valid: u64,
    /// Anything later than the deadline and its slack.
    pub late: u64,
    /// Requests in the batch lane, and those of them that were turned away.
    pub batch: (u64, u64),
    /// Stretches of time; empty unless asked for.
    pub stretches: Vec<Stretch>,
}

impl Tally {
    /// Leaves out the first `warm_up`; `stretch` zero keeps no stretches.
    pub fn new(warm_up: u64, deadline: Duration, stretch: Duration) -> Self {
        Self {
            warm_up,
            deadline,
            stretch,
            seen: 0,
            all: Timing::new(Digits::Three),
            misses: Timing::new(Digits::Three),
            hits: Timing::new(Digits::Three),
            kinds: BTreeMap::new(),
            codes: BTreeMap::new(),
            classes: [OfClass::default(); Class::ALL.len()],
            requests: 0,
            valid: 0,
            late: 0,
            batch: (0, 0),
            stretches: Vec::new(),
        }
    }

    /// One request ended.
    pub fn add(&mut self, asked: &Asked, came: &Came, took: Duration) {
        self.seen += 1;
        let is_valid = came.status == 200 && took <= self.deadline + LATE_SLACK;
        self.add_to_stretch(asked, came, took, is_valid);
        if self.seen <= self.warm_up {
            return;
        }
        self.requests += 1;
        self.valid += u64::from(is_valid);
        self.late += u64::from(took > self.deadline + LATE_SLACK);
        *self.kinds.entry(came.kind).or_default() += 1;
        if came.status != 200 {
            *self.codes.entry(came.code).or_default() += 1;
        }
        if asked.caller == Caller::Batch {
            self.batch.0 += 1;
            self.batch.1 += u64::from(came.kind == Kind::Refused);
        }
        let class = &mut self.classes[asked.question.class.index()];
        class.requests += 1;
        class.hits += u64::from(came.kind == Kind::Hit);
        class.stale += u64::from(matches!(came.kind, Kind::Stale | Kind::Spare));
        class.misses += u64::from(came.kind == Kind::Miss);
        match came.kind {
            Kind::Refused => return,
            Kind::Hit | Kind::Stale => self.hits.record(took),
            _ => self.misses.record(took),
        }
        self.all.record(took);
    }

    fn add_to_stretch(&mut self, asked: &Asked, came: &Came, took: Duration, is_valid: bool) {
        let Some(index) = asked.at.as_nanos().checked_div(self.stretch.as_nanos()) else {
            return;
        };
        if asked.caller == Caller::Batch {
            return;
        }
        let index = index as usize;
        if self.stretches.len() <= index {
            self.stretches.resize(index + 1, Stretch::default());
        }
        let stretch = &mut self.stretches[index];
        stretch.requests += 1;
        stretch.valid += u64::from(is_valid);
        match came.kind {
            Kind::Refused => stretch.refused += 1,
            Kind::Hit | Kind::Stale => {}
            _ => stretch.times.push((took.as_secs_f64() * 1e4).round() as u32),
        }
    }

    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    /// A quantile of the whole path as the published one is put together: 31 % hits of 20 ms, and
    /// 69 % misses as measured.
    pub fn mixture_ms(&self, quantile: f64) -> f64 {
        let of_misses = (quantile - HIT_RATIO) / (1.0 - HIT_RATIO);
        if of_misses <= 0.0 { HIT_MS } else { milliseconds(&self.misses, of_misses).max(HIT_MS) }
    }
}

/// A quantile of a distribution in ms; 0 of nothing.
pub fn milliseconds(timing: &Timing, quantile: f64) -> f64 {
    timing.quantile(quantile).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
