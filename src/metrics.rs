//! What one core has seen, in numbers: `ShardMetrics` is written by its core alone and published
//! once a second as an immutable snapshot, which `control` merges. Percentiles are merged from
//! histograms (3 significant digits, 1 us to 60 s), never averaged.
//!
//! Every request is counted once, when it ends: answered, refused, or left by its caller. A request
//! without an answer in time counts at its time (a 503 never improves a percentile); requests that
//! are refused before any work (4xx, overloaded) and those whose callers left have series of their
//! own and are left out of the percentiles by endpoint, class and key.
//!
//! `metrics.txt` lists every exported series; `render` writes them, and a test holds
//! `docs/metrics.md` against the list. Recording allocates only when a series is seen for the first
//! time: 136 KiB for one of 3 digits, 20 KiB for one of 2.

pub mod timing;
pub mod seen;
pub mod gauges;
pub mod table;
pub mod render;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::config::Settings;
use crate::model::{EngineId, LegReport, Refusal};
use crate::reply::Reply;
pub use gauges::{EdgeCounts, EngineGauges, Gauges};
use seen::SPARE_CODES;
pub use seen::{Outcome, Seen};

/// One core's counters and histograms, and how it publishes them.
pub struct ShardMetrics {
    seen: Seen,
    /// The snapshot published before the last one, to be written over: publishing then touches no
    /// fresh memory.
    spare: Option<Arc<Snapshot>>,
}

/// What a core published.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counters and histograms since the core's start.
    pub seen: Seen,
    /// Where things stood at that time.
    pub gauges: Gauges,
}

/// Where a core's newest snapshot is. The core writes, `control` reads; neither waits.
#[derive(Default)]
pub struct Published(ArcSwapOption<Snapshot>);

impl Published {
    /// The newest snapshot; none before the first.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.0.load_full()
    }
}

impl ShardMetrics {
    /// Nothing seen yet, of the engines and keys of `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self { seen: Seen::new(settings.engines.len(), settings.keys.len()), spare: None }
    }

    /// What was seen so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// A request ended: its response is out or could not be sent (`is_complete`), or its caller
    /// left. `total` is from the request's first byte to that moment, `own` the part of it that was
    /// not spent waiting for an engine.
    pub fn request(&mut self, reply: &Reply, is_complete: bool, total: Duration, own: Duration) {
        self.seen.request(reply, is_complete, total, own);
    }

    /// A leg ended. `detail` is a word of a closed set.
    pub fn leg(&mut self, report: &LegReport, detail: &'static str) {
        self.seen.leg(report, detail);
    }

    /// The first engine of an upstream request was chosen.
    pub fn chosen(&mut self, engine: EngineId) {
        if let Some(seen) = self.seen.engines.get_mut(engine.index()) {
            seen.chosen += 1;
        }
    }

    /// A call to `engine` was late and a hedge was wanted: the budget had a token, or not.
    pub fn hedge(&mut self, engine: EngineId, was_granted: bool) {
        if let Some(seen) = self.seen.engines.get_mut(engine.index()) {
            seen.hedges_wanted += 1;
            seen.hedges_denied += u64::from(!was_granted);
        }
    }

    /// A stale answer was served and is refreshed behind.
    pub fn refresh(&mut self) {
        self.seen.refreshes += 1;
    }

    /// An old answer stood in for a refusal of this code.
    pub fn spare(&mut self, refusal: &Refusal) {
        if let Some(code) = SPARE_CODES.iter().position(|code| *code == refusal.code()) {
            self.seen.spares[code] += 1;
        }
    }

    /// A home core did not answer in time, or its holder was too slow: the call was made here.
    pub fn lease_overdue(&mut self) {
        self.seen.leases_overdue += 1;
    }

    /// A letter found its lane full.
    pub fn lane_full(&mut self) {
        self.seen.lanes_full += 1;
    }

    /// The reactor woke a timer this much later than it promises.
    pub fn late(&mut self, by: Duration) {
        self.seen.lateness.record(by);
    }

    /// Publishes what was seen so far, with `gauges`. Copies the histograms that changed since the
    /// last but one time: 9 us each for 3 digits, 0.6 us for 2.
    pub fn publish(&mut self, gauges: Gauges, to: &Published) {
        let mut next = self.spare.take();
        match next.as_mut().and_then(Arc::get_mut) {
            Some(snapshot) => {
                snapshot.seen.copy_from(&self.seen);
                snapshot.gauges = gauges;
            }
            // The first two times, and whenever `control` still reads the old one.
            None => next = Some(Arc::new(Snapshot { seen: self.seen.clone(), gauges })),
        }
        self.spare = to.0.swap(next);
    }
}

#[cfg(test)]
mod tests;
