//! A gate counts who is inside and lets an owner close it and wait until everyone has left: how a
//! core drains. After seastar's `gate`.

use std::cell::Cell;
use std::rc::Rc;

use crate::local::Event;

/// The gate; a cheap handle.
#[derive(Clone, Default)]
pub struct Gate(Rc<Inner>);

#[derive(Default)]
struct Inner {
    count: Cell<usize>,
    is_closed: Cell<bool>,
    /// Happens when the gate is closed and nobody is inside.
    is_empty: Event,
}

/// Being inside; dropping it is leaving.
pub struct Pass(Rc<Inner>);

impl Gate {
    /// An open gate with nobody inside.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes in; `None` once the gate is closed.
    pub fn enter(&self) -> Option<Pass> {
        if self.0.is_closed.get() {
            return None;
        }
        self.0.count.set(self.0.count.get() + 1);
        Some(Pass(self.0.clone()))
    }

    /// Lets nobody in any more. Idempotent; a gate never opens again.
    pub fn close(&self) {
        self.0.is_closed.set(true);
        self.0.tell_if_empty();
    }

    /// Whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed.get()
    }

    /// How many are inside.
    pub fn count(&self) -> usize {
        self.0.count.get()
    }

    /// Returns once the gate is closed and the last `Pass` is gone.
    ///
    /// # Cancel
    /// Safe.
    pub async fn closed(&self) {
        self.0.is_empty.wait().await;
    }
}

impl Inner {
    fn tell_if_empty(&self) {
        if self.is_closed.get() && self.count.get() == 0 {
            self.is_empty.set();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        debug_assert!(self.0.count.get() > 0, "a pass that was never counted");
        self.0.count.set(self.0.count.get().saturating_sub(1));
        self.0.tell_if_empty();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_over(closed: impl Future<Output = ()>) -> bool {
        pin!(closed).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn closed_waits_for_the_last_pass() {
        let gate = Gate::new();
        let (first, second) = (gate.enter().unwrap(), gate.enter().unwrap());
        assert_eq!(gate.count(), 2);
        assert!(!is_over(gate.closed()));
        gate.close();
        drop(first);
        assert!(!is_over(gate.closed()));
        drop(second);
        assert!(is_over(gate.closed()));
    }

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = Gate::new();
        gate.close();
        assert!(gate.enter().is_none());
        assert!(is_over(gate.closed()));
    }

    #[test]
    fn an_empty_open_gate_is_not_closed() {
        assert!(!is_over(Gate::new().closed()));
    }
}
