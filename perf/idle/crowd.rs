//! The idle connections themselves: opened a few at a time, held by a pending read each, ended from
//! our side.
//!
//! Sources are spread over 127.0.0.2 and following, 10,000 connections each: one address has about
//! 28,000 ports. Connections that we end keep their ports for a minute, so each crowd has sources
//! other than the last one's.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::rc::Rc;
use std::time::Duration;

use runtime::{Reactor, Stream};

use crate::connection::Connection;
use crate::queries::Queries;
use crate::target::{Requests, Target};

const CONNECTIONS_PER_SOURCE: usize = 10_000;
/// 127.0.0.2 to 127.0.0.255.
const SOURCES_MAX: usize = 254;
/// Connections being opened at one time: fewer than any listener's backlog.
const OPENING_MAX: usize = 64;
/// A held connection reads into so much: only its end is of interest.
const BUFFER_BYTES: usize = 64;
/// A server that has not closed its ends of ended connections by then never will.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(20);
/// Time for the server to settle after the last connection was opened, or ended.
const SETTLE: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);

/// What a crowd is made of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) connections: usize,
    /// Whether each makes one request first.
    pub(super) is_warm: bool,
    /// The headers of that request.
    pub(super) headers: Vec<String>,
}

/// How many connections became what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) opened: usize,
    pub(super) failed: usize,
    /// Ended by the server while they were held.
    pub(super) closed: usize,
}

impl Count {
    /// Asked for, and not held to the end.
    pub(super) fn lost(self) -> usize {
        self.failed + self.closed
    }
}

/// What the tasks count.
#[derive(Default)]
struct Counters {
    opening: Cell<usize>,
    opened: Cell<usize>,
    failed: Cell<usize>,
    closed: Cell<usize>,
}

/// Connections that are held.
pub(super) struct Crowd {
    reactor: Reactor,
    counters: Rc<Counters>,
    streams: Rc<RefCell<Vec<Stream>>>,
}

impl Crowd {
    /// Opens the `number`-th crowd of a run, and lets the server settle.
    ///
    /// # Errors
    /// A header that cannot be sent.
    ///
    /// # Cancel
    /// Must not be dropped half-way.
    pub(super) async fn open(reactor: Reactor, plan: &Plan, number: usize) -> Result<Self, String> {
        let mut requests = Requests::new(&plan.target, &plan.headers, Queries::None)?;
        let crowd = Self {
            reactor: reactor.clone(),
            counters: Rc::default(),
            streams: Rc::new(RefCell::new(Vec::with_capacity(plan.connections))),
        };
        let sources = plan.connections.div_ceil(CONNECTIONS_PER_SOURCE);
        let opening = &crowd.counters.opening;
        for index in 0..plan.connections {
            while opening.get() >= OPENING_MAX {
                reactor.sleep_until(reactor.now() + Duration::from_millis(1)).await;
            }
            opening.set(opening.get() + 1);
            let request = plan.is_warm.then(|| requests.next(index as u64));
            let source = source(&plan.target, number * sources + index % sources);
            let open = open_one(reactor.clone(), plan.target.clone(), source, request);
            let (counters, streams) = (Rc::clone(&crowd.counters), Rc::clone(&crowd.streams));
            reactor.spawn(async move {
                let stream = open.await;
                counters.opening.set(counters.opening.get() - 1);
                let Some(stream) = stream else {
                    return counters.failed.set(counters.failed.get() + 1);
                };
                counters.opened.set(counters.opened.get() + 1);
                streams.borrow_mut().push(stream.clone());
                let _ = stream.read(Vec::with_capacity(BUFFER_BYTES)).await;
                counters.closed.set(counters.closed.get() + 1);
            });
        }
        while opening.get() > 0 {
            reactor.sleep_until(reactor.now() + STEP).await;
        }
        reactor.sleep_until(reactor.now() + SETTLE).await;
        Ok(crowd)
    }

    /// How many are held, and how many were lost so far.
    pub(super) fn count(&self) -> Count {
        let counters = &self.counters;
        Count {
            opened: counters.opened.get(),
            failed: counters.failed.get(),
            closed: counters.closed.get(),
        }
    }

    /// Ends them, waits until the server has closed all its ends, and lets it settle. Gives the
    /// count as it was before.
    ///
    /// # Errors
    /// The server still had some open after `CLOSE_TIME_MAX`.
    ///
    /// # Cancel
    /// Must not be dropped half-way.
    pub(super) async fn close(self) -> Result<Count, String> {
        let (reactor, count) = (&self.reactor, self.count());
        let give_up = reactor.now() + CLOSE_TIME_MAX;
        // Our half only: the read that is pending then ends with the server's half, and so says
        // when the server is done.
        for stream in self.streams.borrow().iter() {
            stream.shutdown(Shutdown::Write);
        }
        while self.count().closed < count.opened && reactor.now() < give_up {
            reactor.sleep_until(reactor.now() + STEP).await;
        }
        let left = count.opened.saturating_sub(self.count().closed);
        for stream in self.streams.take() {
            stream.shutdown(Shutdown::Both);
        }
        if left > 0 {
            let waited = CLOSE_TIME_MAX.as_secs();
            return Err(format!(
                "the server had not closed {left} ended connections in {waited} s"
            ));
        }
        reactor.sleep_until(reactor.now() + SETTLE).await;
        Ok(count)
    }
}

async fn open_one(
    reactor: Reactor,
    target: Target,
    source: Option<IpAddr>,
    request: Option<Vec<u8>>,
) -> Option<Stream> {
    let mut connection = Connection::open(&reactor, target.address, source).await.ok()?;
    if let Some(request) = request {
        let answer = connection.exchange(request).await.ok()?;
        if !answer.head.is_reusable {
            return None;
        }
    }
    Some(connection.line())
}

/// The `index`-th source of a loopback target, in turns; the kernel's choice for any other.
fn source(target: &Target, index: usize) -> Option<IpAddr> {
    let last = u8::try_from(index % SOURCES_MAX + 2).ok()?;
    let is_loopback = target.address.is_ipv4() && target.address.ip().is_loopback();
    is_loopback.then(|| Ipv4Addr::new(127, 0, 0, last).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_loopback_addresses_in_turn() {
        let target = Target::parse("http://127.0.0.1:80/").expect("a target");
        let text = |index| source(&target, index).map(|address| address.to_string());
        assert_eq!(text(0).as_deref(), Some("127.0.0.2"));
        assert_eq!(text(7).as_deref(), Some("127.0.0.9"));
        assert_eq!(text(253).as_deref(), Some("127.0.0.255"));
        assert_eq!(text(254).as_deref(), Some("127.0.0.2"));
        let far = Target::parse("http://192.0.2.1:80/").expect("a target");
        assert_eq!(source(&far, 0), None);
    }
}
