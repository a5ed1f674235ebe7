//! A service with faults planted in it, which its tests set off: it holds its core while requests
//! and connections pile up, and it panics in the edge's own tasks.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow::config::settings::Limits;
use hedgerow::edge::{self, Call, Head, Probe, Sent, Service};
use hedgerow::model::Endpoint;
use hedgerow::reply::{Content, Reply};
use runtime::{CoreOptions, Instant, Reactor};

use super::http::until;
use crate::peer::{Peer, field, get};
use crate::server::{PATIENT, spawn};

/// What a test sets and sees.
#[derive(Default)]
struct Plants {
    is_draining: AtomicBool,
    /// So many accepts panic from now on, where they ask for the limits.
    accepts_panic: AtomicU64,
    /// So many calls of `is_draining` panic from now on.
    looks_panic: AtomicU64,
    /// A request holds the core.
    is_held: AtomicBool,
    is_released: AtomicBool,
    /// Connections accepted.
    accepted: AtomicU64,
    /// Panics caught in the edge.
    caught: AtomicU64,
}

struct Planted {
    reactor: Reactor,
    limits: Limits,
    probe: Probe,
    plants: Arc<Plants>,
}

/// Panics if `plant` still says so.
fn spring(plant: &AtomicU64) {
    let left = plant.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    assert!(left.is_err(), "planted");
}

impl Service for Planted {
    fn limits(&self) -> &Limits {
        let accepted = self.probe.accepted_total.get();
        if self.plants.accepted.swap(accepted, Ordering::SeqCst) < accepted {
            spring(&self.plants.accepts_panic);
        }
        &self.limits
    }

    fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    fn probe(&self) -> &Probe {
        &self.probe
    }

    fn is_draining(&self) -> bool {
        self.plants.caught.store(self.probe.panics_total.get(), Ordering::SeqCst);
        spring(&self.plants.looks_panic);
        self.plants.is_draining.load(Ordering::SeqCst)
    }

    fn drain_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn call(
        self: Rc<Self>,
        _endpoint: Endpoint,
        head: &Head<'_>,
        _body: &[u8],
        _arrived: Instant,
        reply_buffer: Vec<u8>,
    ) -> Call {
        if head.query == b"q=hold" {
            self.plants.is_held.store(true, Ordering::SeqCst);
            while !self.plants.is_released.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        Call::Done(Reply::new(200, Content::Text, reply_buffer, "planted".to_owned()))
    }

    fn done(&self, _reply: &Reply, _sent: Sent) {}
}

struct Server {
    address: std::net::SocketAddr,
    plants: Arc<Plants>,
    thread: JoinHandle<()>,
    /// Told the connections left open once the drain is over.
    end: mpsc::Receiver<u64>,
}

impl Server {
    fn start(limits: Limits) -> Self {
        let plants = Arc::new(Plants::default());
        let (address, told_address) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let there = plants.clone();
        let main = move |reactor: Reactor| async move {
            let listener = reactor.listen("127.0.0.1:0".parse().expect("an address"), 128);
            let listener = listener.expect("a free port");
            address.send(listener.address()).expect("the test waits");
            let probe = Probe::default();
            let planted = Rc::new(Planted { reactor, limits, probe, plants: there });
            edge::serve(planted.clone(), listener).await;
            ended.send(planted.probe.connections_open.get()).expect("the test waits");
        };
        let options = CoreOptions { entries: 256, ..CoreOptions::default() };
        let thread = spawn(move || runtime::run(options, main).expect("a ring"));
        let address = told_address.recv().expect("the edge listens");
        Self { address, plants, thread, end }
    }

    /// A peer that was accepted and has asked nothing.
    fn silent_peer(&self) -> Peer {
        let before = self.plants.accepted.load(Ordering::SeqCst);
        let peer = Peer::connect(self.address);
        until("it is accepted", || self.plants.accepted.load(Ordering::SeqCst) > before);
        peer
    }

    fn drain(&self) {
        self.plants.is_draining.store(true, Ordering::SeqCst);
    }

    /// Waits for the end of the drain; nothing may be left open.
    fn end(self) {
        self.drain();
        let open = self.end.recv_timeout(Duration::from_secs(10)).expect("the drain ends");
        assert_eq!(open, 0, "connections left open");
        self.thread.join().expect("the core ends well");
    }
}

fn is_answered_last(peer: &mut Peer) {
    let response = peer.read(false);
    assert_eq!((response.status, field(&response.head, "connection")), (200, Some("close")));
    assert_eq!(peer.read_to_end(), "");
}

#[test]
fn a_drain_answers_what_had_reached_the_machine() {
    let server = Server::start(PATIENT);
    let mut idle = Peer::connect(server.address);
    let mut busy = Peer::connect(server.address);
    for peer in [&mut idle, &mut busy] {
        assert_eq!(peer.ask("q=v").status, 200);
    }
    let mut silent = server.silent_peer();
    let mut holder = Peer::connect(server.address);
    holder.send(get("q=hold", ""));
    until("the core is held", || server.plants.is_held.load(Ordering::SeqCst));
    busy.send(get("q=v", ""));
    silent.send(get("q=v", ""));
    let mut waiting: Vec<Peer> = (0..40).map(|_| Peer::connect(server.address)).collect();
    for peer in &mut waiting {
        peer.send(get("q=v", ""));
    }
    server.drain();
    // Longer than the edge's tick: the drain is the first thing it sees once the core is free.
    assert!(!holder.hears_within(Duration::from_millis(150)), "the core is not held");
    server.plants.is_released.store(true, Ordering::SeqCst);
    is_answered_last(&mut holder);
    is_answered_last(&mut busy);
    is_answered_last(&mut silent);
    waiting.iter_mut().for_each(is_answered_last);
    assert_eq!(idle.read_to_end(), "");
    let address = server.address;
    server.end();
    let refused = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
    assert!(refused.is_err(), "the port is closed");
}

#[test]
fn a_silent_connection_does_not_hold_a_drain_up() {
    let server = Server::start(PATIENT);
    let mut silent = server.silent_peer();
    server.drain();
    assert_eq!(silent.read_to_end(), "");
    server.end();
}

#[test]
fn a_panic_in_accepting_costs_one_connection() {
    let server = Server::start(PATIENT);
    let mut before = Peer::connect(server.address);
    assert_eq!(before.ask("q=v").status, 200);
    for count in 1..=3 {
        server.plants.accepts_panic.store(1, Ordering::SeqCst);
        assert_eq!(Peer::connect(server.address).read_to_end(), "");
        assert_eq!(server.plants.accepts_panic.load(Ordering::SeqCst), 0, "it was set off");
        assert_eq!(Peer::connect(server.address).ask("q=v").status, 200);
        until("it is counted", || server.plants.caught.load(Ordering::SeqCst) == count);
    }
    assert_eq!(before.ask("q=v").status, 200);
    server.end();
}

#[test]
fn a_panic_in_a_sweep_costs_that_sweep() {
    let limits = Limits { idle_timeout: Duration::from_millis(300), ..PATIENT };
    let server = Server::start(limits);
    server.plants.looks_panic.store(3, Ordering::SeqCst);
    until("they are set off", || server.plants.looks_panic.load(Ordering::SeqCst) == 0);
    until("they are counted", || server.plants.caught.load(Ordering::SeqCst) == 3);
    let mut silent = Peer::connect(server.address);
    assert_eq!(silent.read_to_end(), "", "timeouts are still looked for");
    assert_eq!(Peer::connect(server.address).ask("q=v").status, 200);
    server.end();
}
