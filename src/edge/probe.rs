//! What the edge counts, per core: plain cells, read by the metrics after the fact.
//!
//! Counts only ever grow, but for `connections_open`. All counters of one core are written by that
//! core alone.

use std::cell::Cell;

/// A counter of one core.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// `count` more.
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// One fewer, not below zero; for `connections_open` only.
    pub(super) fn decrement(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }

    /// Where it stands.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The edge's counters.
#[derive(Debug, Default)]
pub struct Probe {
    /// Connections open now.
    pub connections_open: Counter,
    /// Connections accepted.
    pub accepted_total: Counter,
    /// Connections refused: over `connections_per_core_max`.
    pub surplus_total: Counter,
    /// Errors of accept (out of descriptors and the like).
    pub accept_errors_total: Counter,
    /// Requests that `Service::done` was or will be told of: whole, refused for their bytes or
    /// their slowness, or left by their peer between head and body.
    pub requests_total: Counter,
    /// Responses by class of status: index 0 is 1xx, 4 is 5xx.
    pub responses_total: [Counter; 5],
    /// Bytes read.
    pub received_bytes_total: Counter,
    /// Bytes written.
    pub sent_bytes_total: Counter,
    /// Requests whose bytes were refused before they became a request.
    pub malformed_total: Counter,
    /// Requests that did not arrive within `header_timeout`.
    pub slow_requests_total: Counter,
    /// Idle connections closed after `idle_timeout`.
    pub idle_timeouts_total: Counter,
    /// Responses given up because the peer read too slowly.
    pub slow_readers_total: Counter,
    /// Requests whose peer left before the answer was there.
    pub peers_gone_total: Counter,
    /// Panics caught: in a request, each answered with 500; in accepting a connection, which is
    /// lost; in a sweep, which is made up for by the next.
    pub panics_total: Counter,
}

impl Probe {
    /// Counts a response.
    pub(super) fn responded(&self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1);
        if let Some(counter) = self.responses_total.get(class) {
            counter.increment();
        }
    }
}
