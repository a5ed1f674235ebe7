//! A request's trail: one stamp per stage it has passed. The stages' times become `Server-Timing`
//! and, after the last byte, metrics.
//!
//! A stamp of `Instant::ZERO` means that the stage was not reached; stamps never go backwards.
//! Spans are measured from the latest earlier stage that was reached, so a hit in L1 shows no
//! engine.

use std::time::Duration;

use runtime::Instant;

/// The name of the last span, which waits for the peer.
const WRITE: &str = "write";

/// When a request left each stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trail {
    /// Its first byte was read.
    pub arrived: Instant,
    /// Its last byte was there and its turn had come: set by the edge. What lies between is the
    /// caller's doing, by sending slowly or by pipelining.
    pub received: Instant,
    /// The gateway let it through.
    pub admitted: Instant,
    /// Its plan was made.
    pub compiled: Instant,
    /// The caches had been asked.
    pub consulted: Instant,
    /// Its legs were chosen.
    pub routed: Instant,
    /// A valid answer was there.
    pub answered: Instant,
    /// The page was made.
    pub merged: Instant,
    /// Its last byte was handed to the kernel.
    pub written: Instant,
    /// How long the winning leg took: not our own time.
    pub upstream: Duration,
}

impl Trail {
    /// The trail of a request whose first byte was read at `arrived`.
    pub fn new(arrived: Instant) -> Self {
        Self { arrived, received: arrived, ..Self::default() }
    }

    /// The latest stamp.
    pub fn latest(&self) -> Instant {
        self.stamps().into_iter().map(|(_, at)| at).fold(self.received, Instant::max)
    }

    /// From the first byte read to the latest stamp.
    pub fn total(&self) -> Duration {
        self.stamps().into_iter().map(|(_, at)| at.since(self.arrived)).max().unwrap_or_default()
    }

    /// The time that this process is to blame for: from `received` to the last stage, less
    /// `upstream`. Neither slow senders nor slow readers are in it, so that no stranger can make
    /// the limiter believe that a core is congested.
    pub fn own(&self) -> Duration {
        let stages = self.stamps().into_iter().filter(|(name, _)| *name != WRITE);
        let last = stages.map(|(_, at)| at).max().unwrap_or_default();
        last.since(self.received).saturating_sub(self.upstream)
    }

    /// The stages reached and the time spent in each, in their order.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, Duration)> + use<> {
        let mut earlier = self.arrived;
        self.stamps().into_iter().filter(|(_, at)| *at != Instant::ZERO).map(move |(name, at)| {
            let span = at.since(earlier);
            earlier = earlier.max(at);
            (name, span)
        })
    }

    fn stamps(&self) -> [(&'static str, Instant); 7] {
        [
            ("gateway", self.admitted),
            ("compile", self.compiled),
            ("cache", self.consulted),
            ("route", self.routed),
            ("engine", self.answered),
            ("merge", self.merged),
            (WRITE, self.written),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn a_stage_not_reached_takes_no_time_and_is_not_named() {
        let mut trail = Trail::new(at(100));
        assert_eq!(trail.total(), Duration::ZERO);
        trail.admitted = at(103);
        trail.consulted = at(110);
        trail.merged = at(111);
        trail.upstream = Duration::from_micros(4);
        let stages: Vec<_> = trail.stages().map(|(name, span)| (name, span.as_micros())).collect();
        assert_eq!(stages, [("gateway", 3), ("cache", 7), ("merge", 1)]);
        assert_eq!(trail.total(), Duration::from_micros(11));
        assert_eq!(trail.own(), Duration::from_micros(7));
    }

    #[test]
    fn slow_senders_and_readers_are_not_our_own_time() {
        let mut trail = Trail::new(at(100));
        trail.received = at(4_000);
        trail.admitted = at(4_001);
        trail.merged = at(4_030);
        trail.written = at(60_000);
        assert_eq!(trail.own(), Duration::from_micros(30));
        assert_eq!(trail.total(), Duration::from_micros(59_900));
    }

    #[test]
    fn more_upstream_time_than_total_leaves_no_own_time() {
        let mut trail = Trail::new(at(100));
        trail.merged = at(110);
        trail.upstream = Duration::from_secs(1);
        assert_eq!(trail.own(), Duration::ZERO);
    }
}
