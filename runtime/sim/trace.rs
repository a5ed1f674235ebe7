//! The trace of a world: every scheduling, time and network event, as a running hash and, if asked
//! for, as text.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use crate::Instant;

/// What happened. The numbers beside it mean what the comment says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A task's turn: its slot, its core.
    Turn,
    /// A task ended: its slot, its core.
    End,
    /// A task panicked: its core.
    Panic,
    /// A timer fired: its number.
    Timer,
    /// A bell reached its core: its number.
    Bell,
    /// A core stands still: its index, the nanoseconds.
    Freeze,
    /// A core runs again: its index.
    Thaw,
    /// A connection was accepted into a backlog: its number, the listener's.
    Establish,
    /// A connection attempt failed: its number.
    Refuse,
    /// Bytes arrived: the connection and side, how many.
    Data,
    /// The end of the stream arrived: the connection and side.
    Finish,
    /// A reset arrived: the connection and side.
    Reset,
    /// Something was held back by a stall: the connection or attempt.
    Hold,
    /// A read gave bytes: the connection and side, how many.
    Read,
    /// A write took bytes: the connection and side, how many.
    Write,
    /// An end was closed: the connection and side.
    Close,
}

pub(crate) struct Trace {
    hash: Cell<u64>,
    text: Option<RefCell<String>>,
}

impl Trace {
    pub(crate) fn new(is_kept: bool) -> Self {
        Self { hash: Cell::new(0), text: is_kept.then(RefCell::default) }
    }

    pub(crate) fn note(&self, now: Instant, kind: Kind, first: u64, second: u64) {
        let mut hash = self.hash.get();
        for word in [now.as_nanos(), kind as u64, first, second] {
            hash = mix(hash ^ word);
        }
        self.hash.set(hash);
        if let Some(text) = &self.text {
            // Writing to a string cannot fail.
            let _ = writeln!(text.borrow_mut(), "{} {kind:?} {first} {second}", now.as_nanos());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }

    pub(crate) fn text(&self) -> String {
        self.text.as_ref().map(|text| text.borrow().clone()).unwrap_or_default()
    }
}

/// One round of a multiplicative mix; the constant is that of Knuth's linear generator, "The Art
/// of Computer Programming" 3.3.4.
fn mix(word: u64) -> u64 {
    (word ^ (word >> 29)).wrapping_mul(6_364_136_223_846_793_005).rotate_left(23)
}
