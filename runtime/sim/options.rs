//! What a world is told: delays, the grain of timers, which faults how often; and what it answers
//! when it is counted.

use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of a world. `Default` is a healthy network: 50 to 500 us, monoio's timers, no
/// fault.
#[derive(Clone, Debug)]
pub struct Options {
    /// The least and the most time a segment takes, one way.
    pub network_delay: (Duration, Duration),
    /// The most a bell takes to wake its core.
    pub bell_delay_max: Duration,
    /// What one direction of a connection holds, in flight and unread, before writes wait.
    pub socket_buffer_bytes: usize,
    /// How timers are rounded.
    pub timers: Timers,
    /// What goes wrong.
    pub faults: Faults,
    /// Whether to keep the trace as text (`World::trace`), about 40 bytes per event. The hash is
    /// always kept.
    pub trace: bool,
}

/// The resolution of timers. `Default` is as measured on monoio: a grain of 1 ms, up to 1 ms late.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// Timers fire at multiples of this, rounded up.
    pub grain: Duration,
    /// And later than that by up to this.
    pub late_max: Duration,
}

/// How often what goes wrong: each ratio (0..=1) is a chance per connection, read or write.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Connection attempts refused though somebody listens.
    pub refuse_ratio: f64,
    /// Connection attempts that are never answered.
    pub connect_stall_ratio: f64,
    /// Connections reset in both directions at some moment of their first `within`.
    pub reset_ratio: f64,
    /// Connections that carry nothing more from some moment of their first `within`.
    pub stall_ratio: f64,
    /// The span over which resets and stalls spread.
    pub within: Duration,
    /// Reads that give one byte.
    pub short_read_ratio: f64,
    /// Reads and writes that are cut at a random place.
    pub split_ratio: f64,
    /// Calls of `accept` answered `EMFILE` though a connection waits (it stays waiting).
    pub accept_error_ratio: f64,
}

/// What is alive in a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Tasks that have not ended, by core name.
    pub tasks: BTreeMap<String, usize>,
    /// Ends of connections that somebody holds.
    pub streams_open: usize,
    /// Listeners that somebody holds.
    pub listeners: usize,
    /// Timers that are armed.
    pub timers: usize,
    /// Reads, writes, accepts and connects that have not returned.
    pub operations_in_flight: usize,
    /// Those dropped half-way, which the contract forbids, since the start.
    pub operations_dropped: u64,
    /// Panics caught in tasks, over all cores, since the start.
    pub panics: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            network_delay: (Duration::from_micros(50), Duration::from_micros(500)),
            bell_delay_max: Duration::from_micros(100),
            socket_buffer_bytes: 64 * 1024,
            timers: Timers::default(),
            faults: Faults::default(),
            trace: false,
        }
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self { grain: Duration::from_millis(1), late_max: Duration::from_millis(1) }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            refuse_ratio: 0.0,
            connect_stall_ratio: 0.0,
            reset_ratio: 0.0,
            stall_ratio: 0.0,
            within: Duration::from_secs(1),
            short_read_ratio: 0.0,
            split_ratio: 0.0,
            accept_error_ratio: 0.0,
        }
    }
}
