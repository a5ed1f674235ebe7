//! The closed loop: each connection sends its next request when the last was answered. It finds
//! what a request costs, not what a caller waits: a slow server slows the questions down too, so
//! its latencies are not to be compared with those of the open loop.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Reactor};

use crate::connection::Connection;
use crate::core;
use crate::load::Run;
use crate::load::field::{Field, Job};
use crate::load::tally::Tally;
use crate::process::{self, CpuTime};

/// After a request without an answer, so that a server that is down is not hammered.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// What happened between the end of the warm-up and the end of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Requests that ended within it.
    pub(crate) requests: u64,
    /// Its length.
    pub(crate) wall: Duration,
    /// CPU time of the server's process tree within it.
    pub(crate) server_cpu: CpuTime,
}

/// Asks on `connections` connections for the run's length, and reads the CPU time of `pid`'s tree.
pub(crate) async fn run(
    reactor: Reactor,
    run: Run,
    connections: usize,
    pid: Option<u32>,
) -> (Tally, Window) {
    let begin = reactor.now() + run.warmup;
    let end = begin + run.span;
    let drain = run.drain;
    let field = Field::new(reactor.clone(), run, begin);
    let numbers = Rc::new(Cell::new(0));
    for _ in 0..connections {
        reactor.spawn(ask(Rc::clone(&field), Rc::clone(&numbers), end));
    }
    reactor.sleep_until(begin).await;
    let first = Mark::take(&field, pid);
    reactor.sleep_until(end).await;
    let window = Mark::take(&field, pid).since(first);
    (field.finish(drain).await, window)
}

async fn ask(field: Rc<Field>, numbers: Rc<Cell<u64>>, end: Instant) {
    let mut connection: Option<Connection> = None;
    loop {
        let intended = field.reactor.now();
        if intended >= end {
            return;
        }
        let number = numbers.get();
        numbers.set(number + 1);
        connection = field.exchange(Job { number, intended }, connection).await;
        if connection.is_none() {
            field.reactor.sleep_until(intended + FAILURE_PAUSE).await;
        }
    }
}

struct Mark {
    ended: u64,
    at: std::time::Instant,
    cpu: CpuTime,
}

impl Mark {
    fn take(field: &Field, pid: Option<u32>) -> Self {
        let cpu = pid.map_or_else(CpuTime::default, process::cpu_of_tree);
        Self { ended: field.ended(), at: core::clock(), cpu }
    }

    fn since(&self, earlier: Self) -> Window {
        Window {
            requests: self.ended - earlier.ended,
            wall: self.at - earlier.at,
            server_cpu: self.cpu.since(earlier.cpu),
        }
    }
}
