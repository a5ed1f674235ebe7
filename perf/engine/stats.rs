//! Counters of the engine, one set per process, added to by all cores (relaxed atomics: a call
//! takes 100 ms and more, so contention on them costs nothing that shows).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::answer::Kind;

/// All counters.
pub(crate) struct Stats {
    calls: AtomicU64,
    cancelled: AtomicU64,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    by_kind: [AtomicU64; Kind::ALL.len()],
    spent_us: AtomicU64,
    saved_us: AtomicU64,
    connections: AtomicU64,
    cores: usize,
    is_quitting: AtomicBool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// Answered.
    Answered(Kind),
    /// The caller went away when so much of its time was left.
    Cancelled(Duration),
}

impl Stats {
    /// Nothing counted.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            calls: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            in_flight_max: AtomicU64::new(0),
            by_kind: Default::default(),
            spent_us: AtomicU64::new(0),
            saved_us: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            cores,
            is_quitting: AtomicBool::new(false),
        }
    }

    /// A caller connected.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// A call begins.
    pub(crate) fn begin(&self) {
        self.calls.fetch_add(1, Relaxed);
        let in_flight = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.in_flight_max.fetch_max(in_flight, Relaxed);
    }

    /// A call ends after `spent`.
    pub(crate) fn end(&self, spent: Duration, ending: Ending) {
        self.in_flight.fetch_sub(1, Relaxed);
        self.spent_us.fetch_add(micros(spent), Relaxed);
        match ending {
            Ending::Answered(kind) => {
                if let Some(counter) = self.by_kind.get(kind as usize) {
                    counter.fetch_add(1, Relaxed);
                }
            }
            Ending::Cancelled(left) => {
                self.cancelled.fetch_add(1, Relaxed);
                self.saved_us.fetch_add(micros(left), Relaxed);
            }
        }
    }

    /// Calls in flight over all cores.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Whether the process is to end.
    pub(crate) fn is_quitting(&self) -> bool {
        self.is_quitting.load(Relaxed)
    }

    /// The process is to end.
    pub(crate) fn quit(&self) {
        self.is_quitting.store(true, Relaxed);
    }

    /// All counters. `engine_seconds` is what calls took until their answer or their end;
    /// `engine_seconds_saved` what cancelled ones would have taken on top.
    pub(crate) fn json(&self) -> serde_json::Value {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let seconds = |counter: &AtomicU64| counter.load(Relaxed) as f64 / 1e6;
        let kinds: serde_json::Map<_, _> = Kind::ALL
            .iter()
            .zip(&self.by_kind)
            .map(|(kind, counter)| (kind.word().to_owned(), read(counter).into()))
            .collect();
        serde_json::json!({
            "calls": read(&self.calls),
            "answered": kinds,
            "cancelled": read(&self.cancelled),
            "in_flight": read(&self.in_flight),
            "in_flight_max": read(&self.in_flight_max),
            "connections": read(&self.connections),
            "cores": self.cores,
            "engine_seconds": seconds(&self.spent_us),
            "engine_seconds_saved": seconds(&self.saved_us),
        })
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_call_counts_what_it_took_and_what_it_saved() {
        let stats = Stats::new(1);
        stats.begin();
        stats.begin();
        stats.end(Duration::from_millis(250), Ending::Answered(Kind::Valid));
        stats.end(Duration::from_millis(100), Ending::Cancelled(Duration::from_millis(500)));
        let json = stats.json();
        assert_eq!((json["calls"].as_u64(), json["cancelled"].as_u64()), (Some(2), Some(1)));
        assert_eq!(
            (json["in_flight"].as_u64(), json["in_flight_max"].as_u64()),
            (Some(0), Some(2))
        );
        assert_eq!(json["answered"]["valid"].as_u64(), Some(1));
        assert_eq!(json["engine_seconds"].as_f64(), Some(0.35));
        assert_eq!(json["engine_seconds_saved"].as_f64(), Some(0.5));
    }
}
