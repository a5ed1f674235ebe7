//! The accept loop of one listener on one core, and the drain.

use std::cell::Cell;
use std::rc::Rc;
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

/// Serves `listener` until the service drains and its connections are gone, or the drain's time is
/// over.
///
/// # Cancel
/// Must run to its end.
pub async fn serve<S: Service>(service: Rc<S>, listener: Listener) {
    let ground = Rc::new(Ground {
        service: service.clone(),
        sweep: Rc::default(),
        buffers: BufPool::new(BUFFERS_BYTES_MAX),
        dates: DateCache::default(),
        turned_away: Cell::new(0),
    });
    let gate = Gate::new();
    let reactor = service.reactor().clone();
    reactor.spawn(accept(ground.clone(), listener.clone(), gate.clone()));
    let mut gives_up: Option<Instant> = None;
    loop {
        reactor.sleep_until(reactor.now() + SWEEP_EVERY).await;
        let now = reactor.now();
        let is_draining = service.is_draining();
        ground.sweep.run(now, is_draining, service.probe());
        if !is_draining {
            continue;
        }
        let gives_up = *gives_up.get_or_insert_with(|| {
            gate.close();
            listener.shutdown();
            now + service.drain_timeout()
        });
        if gate.count() == 0 || gives_up <= now {
            return;
        }
    }
}

/// Accepts until the listener is shut down; each connection is a task of its own.
async fn accept<S: Service>(ground: Rc<Ground<S>>, listener: Listener, gate: Gate) {
    let service = ground.service.clone();
    let (reactor, probe) = (service.reactor(), service.probe());
    loop {
        let accepted = listener.accept().await;
        let Some(pass) = gate.enter() else { return };
        let Ok((stream, _peer)) = accepted else {
            probe.accept_errors_total.increment();
            reactor.sleep_until(reactor.now() + ACCEPT_PAUSE).await;
            continue;
        };
        probe.accepted_total.increment();
        let has_room =
            probe.connections_open.get() < service.limits().connections_per_core_max as u64;
        let connection = Connection::new(ground.clone(), stream);
        if has_room {
            let open = Open::new(&ground);
            reactor.spawn(async move {
                connection.run().await;
                drop((open, pass));
            });
            continue;
        }
        probe.surplus_total.increment();
        if let Some(turned) = TurnedAway::enter(&ground) {
            reactor.spawn(async move {
                connection.turn_away().await;
                drop((turned, pass));
            });
        }
    }
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
