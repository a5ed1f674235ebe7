//! The edge on a thread of its own, over a real ring, on a free port of loopback.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow::config::settings::Limits;
use hedgerow::edge::{self, Probe};
use runtime::CoreOptions;

use crate::toy::{Shown, Told, Toy};

/// Limits with which no test waits for a timeout by accident.
pub(crate) const PATIENT: Limits = Limits {
    header_bytes_max: 16_384,
    body_bytes_max: 65_536,
    header_timeout: Duration::from_secs(30),
    idle_timeout: Duration::from_secs(30),
    connections_per_core_max: 1_000,
};

/// A running edge.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shown: Arc<Shown>,
    thread: Option<JoinHandle<()>>,
    past: mpsc::Receiver<Past>,
}

/// What was counted while it ran.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) probe: Probe,
    pub(crate) told: Vec<Told>,
    pub(crate) calls: u64,
}

impl Server {
    pub(crate) fn start(limits: Limits) -> Self {
        let shown = Arc::new(Shown::default());
        let (address, told_address) = mpsc::channel();
        let (past, told_past) = mpsc::channel();
        let shown_there = shown.clone();
        let thread = spawn(move || run(limits, shown_there, &address, &past));
        let address = told_address.recv().expect("the edge listens");
        Self { address, shown, thread: Some(thread), past: told_past }
    }

    pub(crate) fn begin_drain(&self) {
        self.shown.is_draining.store(true, Ordering::SeqCst);
    }

    /// Drains, waits for the end, and tells what was.
    pub(crate) fn stop(mut self) -> Past {
        self.begin_drain();
        let past = self.past.recv_timeout(Duration::from_secs(10)).expect("the drain ends");
        self.thread.take().expect("joined once").join().expect("the core ends well");
        past
    }
}

fn run(
    limits: Limits,
    shown: Arc<Shown>,
    address: &mpsc::Sender<SocketAddr>,
    past: &mpsc::Sender<Past>,
) {
    let (address, past) = (address.clone(), past.clone());
    let options = CoreOptions { entries: 256, ..CoreOptions::default() };
    let ran = runtime::run(options, move |reactor| async move {
        let listener = reactor.listen("127.0.0.1:0".parse().expect("an address"), 128);
        let listener = listener.expect("a free port");
        address.send(listener.address()).expect("the test waits");
        let toy = Rc::new(Toy {
            reactor,
            limits,
            probe: Probe::default(),
            shown,
            told: RefCell::default(),
            calls: Cell::new(0),
        });
        edge::serve(toy.clone(), listener).await;
        let probe = Probe::default();
        copy(&toy.probe, &probe);
        let told = toy.told.take();
        past.send(Past { probe, told, calls: toy.calls.get() }).expect("the test waits");
    });
    ran.expect("a ring");
}

/// The counters that tests look at.
fn copy(from: &Probe, to: &Probe) {
    for (from, to) in [
        (&from.connections_open, &to.connections_open),
        (&from.accepted_total, &to.accepted_total),
        (&from.surplus_total, &to.surplus_total),
        (&from.malformed_total, &to.malformed_total),
        (&from.slow_requests_total, &to.slow_requests_total),
        (&from.idle_timeouts_total, &to.idle_timeouts_total),
        (&from.slow_readers_total, &to.slow_readers_total),
        (&from.peers_gone_total, &to.peers_gone_total),
        (&from.panics_total, &to.panics_total),
    ] {
        to.add(from.get());
    }
}

/// A thread for a peer or a server.
#[expect(clippy::disallowed_methods, reason = "peers are ordinary programs, on threads")]
pub(crate) fn spawn(task: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(task)
}
