//! The accept loop of one listener on one core, and the drain.
//!
//! A drain loses no request that reached the process before the listener was shut down: what waits
//! to be accepted is accepted, and a connection that has not asked anything yet gets `FIRST_GRACE`
//! to do so. Connections that were answered before are closed at once, but for what has arrived; a
//! request that crosses that close on its way is lost, as with any close of an idle connection.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use runtime::buf::BufPool;
use runtime::gate::Gate;
use runtime::{Instant, Listener};

use super::Service;
use super::connection::Connection;
use super::respond::DateCache;
use super::sweep::{SWEEP_EVERY, Sweep};
use crate::ids;
use crate::model::Refusal;
use crate::reply::Reply;

/// How long accepting pauses after an error: descriptors come back when connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How often a drain looks whether it is over.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How long a connection without any request so far is kept open once the drain has begun; the
/// drain's own time where that is shorter. A caller that connects sends within a round trip.
const FIRST_GRACE: Duration = Duration::from_millis(250);

/// Rounds of all tasks, in each of which the kernel is asked too, without a new connection after
/// which none waits to be accepted. One is enough where an accept is pending.
const QUIET_ROUNDS: usize = 4;

/// Surplus connections that are told so at one time; those beyond are closed without a word.
const TURNED_AWAY_MAX: usize = 256;

/// Free buffers kept per size class and listener.
const BUFFERS_BYTES_MAX: usize = 1 << 20;

/// What the connections of one listener share.
pub(super) struct Ground<S> {
    pub(super) service: Rc<S>,
    pub(super) sweep: Rc<Sweep>,
    pub(super) buffers: BufPool,
    pub(super) dates: DateCache,
    turned_away: Cell<usize>,
    /// Connections accepted so far.
    accepted: Cell<u64>,
    /// The listener was shut down.
    is_shut: Cell<bool>,
}

impl<S: Service> Ground<S> {
    /// A new request's name.
    pub(super) fn request_id(&self) -> String {
        let reactor = self.service.reactor();
        ids::request_id(reactor.unix_time(), reactor.draw(), reactor.draw())
    }

    /// The answer to a request whose handling panicked.
    pub(super) fn panicked(&self) -> Reply {
        self.service.probe().panics_total.increment();
        Reply::refused(&Refusal::Internal, self.request_id(), None)
    }
}

/// When a drain's stages end.
#[derive(Clone, Copy)]
struct Drain {
    /// A connection that has not asked anything by then is closed.
    first_until: Instant,
    /// What is not done by then is left behind.
    gives_up: Instant,
}

/// Serves `listener` until the service drains and its connections are gone, or the drain's time is
/// over.
///
/// A panic in here costs the connection being accepted or the sweep being made, and is counted:
/// were it to end the loop, a core would run on without accepting, or without timeouts and without
/// noticing a drain.
///
/// # Cancel
/// Must run to its end.
pub async fn serve<S: Service>(service: Rc<S>, listener: Listener) {
    let reactor = service.reactor().clone();
    let ground = Rc::new(Ground {
        service,
        sweep: Rc::default(),
        buffers: BufPool::new(BUFFERS_BYTES_MAX),
        dates: DateCache::default(),
        turned_away: Cell::new(0),
        accepted: Cell::new(0),
        is_shut: Cell::new(false),
    });
    let gate = Gate::new();
    reactor.spawn(accept(ground.clone(), listener.clone(), gate.clone()));
    let drain = Cell::new(None);
    loop {
        let every = if drain.get().is_some() { DRAIN_EVERY } else { SWEEP_EVERY };
        reactor.sleep_until(reactor.now() + every).await;
        caught(&ground, look(&ground, &listener, &drain)).await;
        let is_over = |drain: Drain| {
            (gate.is_closed() && gate.count() == 0) || drain.gives_up <= reactor.now()
        };
        if drain.get().is_some_and(is_over) {
            return;
        }
    }
}

/// Looks for timeouts, and whether the service drains; if so, stops listening.
async fn look<S: Service>(ground: &Ground<S>, listener: &Listener, drain: &Cell<Option<Drain>>) {
    let service = &ground.service;
    if drain.get().is_none() && service.is_draining() {
        let (now, most) = (service.reactor().now(), service.drain_timeout());
        let (first_until, gives_up) = (now + FIRST_GRACE.min(most), now + most);
        drain.set(Some(Drain { first_until, gives_up }));
    }
    if let Some(drain) = drain.get()
        && !ground.is_shut.get()
    {
        empty_backlog(ground, drain.first_until).await;
        ground.is_shut.set(true);
        listener.shutdown();
    }
    let first_until = drain.get().map(|drain| drain.first_until);
    ground.sweep.run(service.reactor().now(), first_until, service.probe());
}

/// Lets `accept` take what the kernel has connected already, which would be reset otherwise, until
/// nothing more comes or it is `until`.
async fn empty_backlog<S: Service>(ground: &Ground<S>, until: Instant) {
    let reactor = ground.service.reactor();
    loop {
        let before = ground.accepted.get();
        for _ in 0..QUIET_ROUNDS {
            reactor.yield_now().await;
        }
        if ground.accepted.get() == before || reactor.now() >= until {
            return;
        }
    }
}

/// Accepts until the listener is shut down.
async fn accept<S: Service>(ground: Rc<Ground<S>>, listener: Listener, gate: Gate) {
    let reactor = ground.service.reactor().clone();
    loop {
        let accepted = match caught(&ground, accept_one(&ground, &listener, &gate)).await {
            Some(accepted) => accepted,
            None => Accepted::Failed,
        };
        match accepted {
            Accepted::Connection => {}
            Accepted::Failed if ground.is_shut.get() => return gate.close(),
            Accepted::Failed => reactor.sleep_until(reactor.now() + ACCEPT_PAUSE).await,
        }
    }
}

/// What became of an accept.
enum Accepted {
    Connection,
    Failed,
}

/// Accepts a connection and starts its task.
async fn accept_one<S: Service>(
    ground: &Rc<Ground<S>>,
    listener: &Listener,
    gate: &Gate,
) -> Accepted {
    let accepted = listener.accept().await;
    let service = &ground.service;
    let (reactor, probe) = (service.reactor(), service.probe());
    let Some((pass, (stream, _peer))) = gate.enter().zip(accepted.ok()) else {
        if !ground.is_shut.get() {
            probe.accept_errors_total.increment();
        }
        return Accepted::Failed;
    };
    ground.accepted.set(ground.accepted.get() + 1);
    probe.accepted_total.increment();
    let has_room = probe.connections_open.get() < service.limits().connections_per_core_max as u64;
    let connection = Connection::new(ground.clone(), stream);
    if has_room {
        let open = Open::new(ground);
        reactor.spawn(async move {
            connection.run().await;
            drop((open, pass));
        });
        return Accepted::Connection;
    }
    probe.surplus_total.increment();
    if let Some(turned) = TurnedAway::enter(ground) {
        reactor.spawn(async move {
            connection.turn_away().await;
            drop((turned, pass));
        });
    }
    Accepted::Connection
}

/// Runs `step`. A panic in it is told and counted, and ends it: then there is no result.
async fn caught<S: Service, T>(ground: &Ground<S>, step: impl Future<Output = T>) -> Option<T> {
    let mut step = pin!(step);
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| step.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => {
                tracing::error!("a panic in accepting or in a sweep; its listener is served on");
                ground.service.probe().panics_total.increment();
                Poll::Ready(None)
            }
        }
    })
    .await
}

/// Counts a connection as open until dropped.
struct Open<S: Service>(Rc<Ground<S>>);

impl<S: Service> Open<S> {
    fn new(ground: &Rc<Ground<S>>) -> Self {
        ground.service.probe().connections_open.increment();
        Self(ground.clone())
    }
}

impl<S: Service> Drop for Open<S> {
    fn drop(&mut self) {
        self.0.service.probe().connections_open.decrement();
    }
}

/// Counts a surplus connection until dropped. It is not one of the open ones: a flood of them must
/// not take the place of connections that would be served.
struct TurnedAway<S>(Rc<Ground<S>>);

impl<S> TurnedAway<S> {
    fn enter(ground: &Rc<Ground<S>>) -> Option<Self> {
        let count = ground.turned_away.get();
        (count < TURNED_AWAY_MAX).then(|| {
            ground.turned_away.set(count + 1);
            Self(ground.clone())
        })
    }
}

impl<S> Drop for TurnedAway<S> {
    fn drop(&mut self) {
        self.0.turned_away.set(self.0.turned_away.get() - 1);
    }
}
