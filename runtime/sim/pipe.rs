//! One direction of a connection: what is in flight to an end, what has arrived there unread.

use std::collections::VecDeque;
use std::io;
use std::task::Waker;

use crate::Instant;

/// The receiving half of one direction, and who waits on it.
#[derive(Default)]
pub(crate) struct Pipe {
    /// Bytes that arrived and nobody read.
    pub(crate) arrived: VecDeque<u8>,
    /// Bytes on their way.
    pub(crate) in_flight_bytes: usize,
    /// When the last segment on its way arrives; the next one may not overtake it.
    pub(crate) last_arrival: Instant,
    /// The peer's end of the stream has arrived.
    pub(crate) is_finished: bool,
    /// Waits for bytes.
    pub(crate) reader: Option<Waker>,
    /// Waits for room; it is the peer's.
    pub(crate) writer: Option<Waker>,
}

impl Pipe {
    /// How many more bytes fit.
    pub(crate) fn room(&self, buffer_bytes: usize) -> usize {
        buffer_bytes.saturating_sub(self.arrived.len() + self.in_flight_bytes)
    }

    /// Appends `count` arrived bytes to `buffer`.
    pub(crate) fn take(&mut self, count: usize, buffer: &mut Vec<u8>) {
        let (front, back) = self.arrived.as_slices();
        let of_front = count.min(front.len());
        buffer.extend_from_slice(&front[..of_front]);
        buffer.extend_from_slice(&back[..count - of_front]);
        self.arrived.drain(..count);
    }
}

/// One end of a connection. Its `pipe` is the direction towards it.
pub(crate) struct End {
    pub(crate) pipe: Pipe,
    /// The error of a reset that nobody was told of; the first operation takes it.
    pub(crate) error: Option<io::ErrorKind>,
    pub(crate) is_reset: bool,
    pub(crate) is_read_shut: bool,
    pub(crate) is_write_shut: bool,
    /// Somebody holds a `Stream` of it. Before `accept`, nobody does.
    pub(crate) is_held: bool,
    pub(crate) is_closed: bool,
}

impl End {
    pub(crate) fn new() -> Self {
        Self {
            pipe: Pipe::default(),
            error: None,
            is_reset: false,
            is_read_shut: false,
            is_write_shut: false,
            is_held: false,
            is_closed: false,
        }
    }
}
