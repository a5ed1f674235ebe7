//! Where things stand on one core: filled by the shard when it publishes, and gone with the next
//! publication. Counts that other parts keep themselves (the edge's, connections) come along here.

use std::time::Duration;

use runtime::Instant;
use shards::breaker::State;

use crate::edge::Probe;
use crate::model::Class;

/// Where things stand on one core.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// When.
    pub at: Instant,
    /// The edge's counts.
    pub edge: EdgeCounts,
    /// The concurrency limit.
    pub limit: u32,
    /// Requests in the interactive lane.
    pub in_flight_interactive: u32,
    /// Requests in the batch lane.
    pub in_flight_batch: u32,
    /// Answers being made.
    pub flights: usize,
    /// Keys leased whose home this core is.
    pub leases: usize,
    /// Memory of L1, as weighed.
    pub l1_bytes: u64,
    /// The most it may be.
    pub l1_bytes_max: u64,
    /// Answers in L1.
    pub l1_entries: usize,
    /// Panics caught by the reactor since the start.
    pub panics_total: u64,
    /// The greatest lateness of the reactor since the last publication.
    pub lateness_max: Duration,
    /// Hedges that the budget, shared by all cores, would let through at once.
    pub hedge_tokens: f64,
    /// The same for last chances.
    pub last_chance_tokens: f64,
    /// By engine.
    pub engines: Vec<EngineGauges>,
}

/// Where one engine stands on one core.
#[derive(Clone, Debug)]
pub struct EngineGauges {
    /// Its breaker.
    pub breaker: State,
    /// Its latency, smoothed; none before the first answer.
    pub ewma: Option<Duration>,
    /// Its share of valid answers, smoothed.
    pub valid_ratio: f64,
    /// Calls in flight of this core.
    pub in_flight: u32,
    /// Open connections that nobody uses.
    pub idle: usize,
    /// How long it is still left alone because it asked for it.
    pub rests_for: Duration,
    /// When a call to it counts as late, by class; zero: not worked out yet.
    pub late_after: [Duration; Class::ALL.len()],
    /// Connections opened to it since the start.
    pub opened_total: u64,
    /// Calls sent on a connection that was open already, since the start.
    pub reused_total: u64,
}

/// The edge's counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeCounts {
    /// Open connections, now.
    pub connections_open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections beyond the limit, or during a drain.
    pub surplus: u64,
    /// Errors of accept.
    pub accept_errors: u64,
    /// Requests received.
    pub requests: u64,
    /// Responses by class of status, 1xx first.
    pub responses: [u64; 5],
    /// Bytes read.
    pub received_bytes: u64,
    /// Bytes written.
    pub sent_bytes: u64,
    /// Requests refused for their bytes.
    pub malformed: u64,
    /// Requests that arrived too slowly.
    pub slow_requests: u64,
    /// Idle connections closed.
    pub idle_timeouts: u64,
    /// Responses given up for a slow reader.
    pub slow_readers: u64,
    /// Peers that left before their answer.
    pub peers_gone: u64,
    /// Panics caught in the edge and the service.
    pub panics: u64,
}

impl EdgeCounts {
    /// As the edge's probe has them now.
    pub fn of(probe: &Probe) -> Self {
        Self {
            connections_open: probe.connections_open.get(),
            accepted: probe.accepted_total.get(),
            surplus: probe.surplus_total.get(),
            accept_errors: probe.accept_errors_total.get(),
            requests: probe.requests_total.get(),
            responses: std::array::from_fn(|class| probe.responses_total[class].get()),
            received_bytes: probe.received_bytes_total.get(),
            sent_bytes: probe.sent_bytes_total.get(),
            malformed: probe.malformed_total.get(),
            slow_requests: probe.slow_requests_total.get(),
            idle_timeouts: probe.idle_timeouts_total.get(),
            slow_readers: probe.slow_readers_total.get(),
            peers_gone: probe.peers_gone_total.get(),
            panics: probe.panics_total.get(),
        }
    }
}
