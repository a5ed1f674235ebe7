//! The world itself: its clock, its steps, what a test can ask of it and do to it.

use std::cell::{Cell, RefCell};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::events::{Event, Events};
use super::exec::{Exec, News, Said};
use super::net::Net;
use super::trace::{Kind, Trace};
use super::{Census, Core, Options, Timers, bell};
use crate::bell::{RingerKind, SeedKind};
use crate::rng::Generator;
use crate::{BellSeed, Instant, Reactor, ReactorKind, Ringer};

/// Turns without time passing after which a world is taken to spin. A burst of all tasks of a large
/// world takes some ten thousand.
const TURNS_PER_INSTANT_MAX: u64 = 10_000_000;

/// A simulated world, on one thread; a cheap handle. Its tasks are dropped with the last handle: a
/// task that holds a `World` itself keeps the world alive for ever, so tasks hold `Reactor`s.
#[derive(Clone)]
pub struct World(Rc<Owner>);

struct Owner(Rc<Inner>);

/// What cores, handles and futures share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) news: Arc<News>,
    pub(crate) exec: RefCell<Exec>,
    pub(crate) events: RefCell<Events>,
    pub(crate) net: RefCell<Net>,
    pub(crate) bells: RefCell<Vec<bell::State>>,
    pub(crate) operations_in_flight: Cell<usize>,
    pub(crate) operations_dropped: Cell<u64>,
    /// Set while the world is taken down: handles that are dropped then do nothing.
    pub(crate) is_over: Cell<bool>,
    now: Cell<Instant>,
    generator: Generator,
    trace: Trace,
    turns_at_instant: Cell<u64>,
    heard: RefCell<Said>,
}

impl World {
    /// An empty world at instant zero.
    pub fn new(seed: u64, options: Options) -> Self {
        let trace = Trace::new(options.trace);
        Self(Rc::new(Owner(Rc::new(Inner {
            options,
            news: Arc::default(),
            exec: RefCell::default(),
            events: RefCell::default(),
            net: RefCell::default(),
            bells: RefCell::default(),
            operations_in_flight: Cell::new(0),
            operations_dropped: Cell::new(0),
            is_over: Cell::new(false),
            now: Cell::new(Instant::ZERO),
            generator: Generator::new(seed),
            trace,
            turns_at_instant: Cell::new(0),
            heard: RefCell::default(),
        }))))
    }

    /// Adds a core, or any host, with a generator of its own. Several may share an address: then a
    /// connection goes to a random one of their listeners, as SO_REUSEPORT does.
    pub fn core(&self, name: &str, address: IpAddr) -> Reactor {
        self.add(name, address, self.inner().options.timers)
    }

    /// Adds a host that is no part of the program: its timers fire when they are due. What it
    /// waits for, an engine's latency or a request's hour, is then as it was drawn.
    pub fn host(&self, name: &str, address: IpAddr) -> Reactor {
        let exact = Timers { grain: Duration::from_nanos(1), late_max: Duration::ZERO };
        self.add(name, address, exact)
    }

    fn add(&self, name: &str, address: IpAddr, timers: Timers) -> Reactor {
        let world = self.inner();
        let seed = world.generator.draw();
        let index = world.exec.borrow_mut().add_core(name, address, seed, timers);
        Reactor(ReactorKind::Sim(Core { world: world.clone(), index }))
    }

    /// A bell between two cores of this world.
    pub fn bell(&self) -> (Ringer, BellSeed) {
        let world = self.inner();
        let mut bells = world.bells.borrow_mut();
        // Bells are made at assembly, some per pair of cores: far below 2^32.
        let ringer = bell::Ringer::new(world.news.clone(), bells.len() as u32);
        bells.push(bell::State::default());
        (Ringer(RingerKind::Sim(ringer.clone())), BellSeed(SeedKind::Sim(ringer)))
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.inner().now()
    }

    /// Runs until `done` holds, asked before every step, or until `limit`. False: the limit was
    /// reached first, and the time is `limit`.
    pub fn run_until(&self, limit: Instant, mut done: impl FnMut() -> bool) -> bool {
        let world = self.inner();
        loop {
            if done() {
                return true;
            }
            if !world.step(limit) {
                world.now.set(world.now().max(limit));
                return done();
            }
        }
    }

    /// Runs until nothing is left to do at or before `limit`. The time is that of the last event.
    pub fn run_idle(&self, limit: Instant) {
        while self.inner().step(limit) {}
    }

    /// A hash over every scheduling, time and network event so far.
    pub fn trace_hash(&self) -> u64 {
        self.inner().trace.hash()
    }

    /// The same as text, one event a line: nanoseconds, what, two numbers. Empty unless
    /// `Options::trace`.
    pub fn trace(&self) -> String {
        self.inner().trace.text()
    }

    /// Lets `core` run nothing for `span` from now: its sockets fill and its timers fall due, but
    /// its tasks wait. Called by a task of that core, it models time spent computing.
    ///
    /// # Panics
    /// If `core` is not of this world.
    pub fn freeze(&self, core: &Reactor, span: Duration) {
        let world = self.inner();
        let index = self.index(core);
        let until = world.now() + span;
        // Those woken but not yet heard of are caught by the world's next step.
        world.exec.borrow_mut().freeze(index, until);
        world.events.borrow_mut().add(until, Event::Thaw(index));
        world.note(Kind::Freeze, index as u64, until.since(world.now()).as_nanos() as u64);
    }

    /// Whether connection attempts to `address` are refused though somebody listens.
    pub fn refuse(&self, address: SocketAddr, on: bool) {
        self.inner().net.borrow_mut().refuse(address, on);
    }

    /// Whether the host at `address` is silent: nothing passes to or from it, new connections
    /// included. What was held back goes on when this ends.
    pub fn stall(&self, address: SocketAddr, on: bool) {
        self.inner().stall(address, on);
    }

    /// Resets every connection that `address` accepted, in both directions, now.
    pub fn reset(&self, address: SocketAddr) {
        self.inner().reset_all(address);
    }

    /// What is alive.
    pub fn census(&self) -> Census {
        let world = self.inner();
        let (exec, net) = (world.exec.borrow(), world.net.borrow());
        let mut census = Census {
            streams_open: net.streams_open(),
            listeners: net.listeners_open(),
            timers: world.events.borrow().timers(),
            operations_in_flight: world.operations_in_flight.get(),
            operations_dropped: world.operations_dropped.get(),
            ..Census::default()
        };
        for core in &exec.cores {
            *census.tasks.entry(core.name.clone()).or_default() += core.tasks;
            census.panics += core.panics;
        }
        census
    }

    fn inner(&self) -> &Rc<Inner> {
        &self.0.0
    }

    fn index(&self, reactor: &Reactor) -> usize {
        match &reactor.0 {
            ReactorKind::Sim(core) => {
                assert!(Rc::ptr_eq(&core.world, self.inner()), "a core of another world");
                core.index
            }
            #[cfg(any(feature = "monoio", feature = "glommio"))]
            _ => panic!("a real core in a simulated world"),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let world = &self.0;
        world.is_over.set(true);
        // Tasks hold handles of the world, and dropping one may spawn another.
        loop {
            let tasks = world.exec.borrow_mut().take_all();
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        world.events.borrow_mut().clear();
    }
}

impl Inner {
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn note(&self, kind: Kind, first: u64, second: u64) {
        self.trace.note(self.now(), kind, first, second);
    }

    pub(crate) fn generator(&self) -> &Generator {
        &self.generator
    }

    /// A random span from `least` to `most`.
    pub(crate) fn between(&self, least: Duration, most: Duration) -> Duration {
        let width = most.saturating_sub(least).as_nanos() as u64;
        if width == 0 {
            return least;
        }
        least + Duration::from_nanos(self.generator.below(width.saturating_add(1)))
    }

    /// How long a segment takes.
    pub(crate) fn network_delay(&self) -> Duration {
        let (least, most) = self.options.network_delay;
        self.between(least, most)
    }

    pub(crate) fn after(&self, span: Duration, event: Event) {
        self.events.borrow_mut().add(self.now() + span, event);
    }

    /// One event or one turn. False: nothing is left at or before `limit`.
    fn step(&self, limit: Instant) -> bool {
        self.listen();
        let due = self.events.borrow_mut().pop_due(self.now());
        if let Some((number, event)) = due {
            self.happen(number, event);
            return true;
        }
        if self.turn() {
            return true;
        }
        let next = self.events.borrow().next();
        match next {
            Some(at) if at <= limit => {
                self.now.set(at);
                self.turns_at_instant.set(0);
                true
            }
            _ => false,
        }
    }

    /// Takes in what wakers and ringers said.
    fn listen(&self) {
        let mut heard = self.heard.borrow_mut();
        self.news.with(|said| mem::swap(said, &mut heard));
        self.exec.borrow_mut().admit(&mut heard.woken, self.now());
        for id in heard.rung.drain(..) {
            let delay = self.between(Duration::ZERO, self.options.bell_delay_max);
            self.after(delay, Event::Bell(id));
        }
    }

    fn happen(&self, number: u64, event: Event) {
        match event {
            Event::Timer(waker) => {
                self.note(Kind::Timer, number, 0);
                waker.wake();
            }
            Event::Bell(id) => {
                self.note(Kind::Bell, u64::from(id), 0);
                let waker = self.bells.borrow_mut()[id as usize].ring();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Event::Thaw(core) => {
                if self.exec.borrow_mut().thaw(core, self.now()) {
                    self.note(Kind::Thaw, core as u64, 0);
                }
            }
            Event::Packet(packet) => self.arrive(packet),
        }
    }

    /// One task's turn, if any is ready.
    fn turn(&self) -> bool {
        let chosen = self.exec.borrow_mut().choose(|count| self.generator.below(count));
        let Some((slot, mut resting)) = chosen else {
            return false;
        };
        let core = resting.core;
        self.note(Kind::Turn, slot.0 as u64, core as u64);
        if resting.turn() {
            drop(resting);
            self.note(Kind::End, slot.0 as u64, core as u64);
            self.exec.borrow_mut().end(slot, core);
        } else {
            self.exec.borrow_mut().put_back(slot, resting);
        }
        self.listen();
        let due = self.exec.borrow_mut().settle_yields(slot, core);
        for due in due {
            due.waker.wake();
            self.exec.borrow_mut().woke(core, due.id, due.slot);
        }
        let turns = self.turns_at_instant.get() + 1;
        self.turns_at_instant.set(turns);
        assert!(
            turns < TURNS_PER_INSTANT_MAX,
            "the world spins: no time passes at {:?}",
            self.now()
        );
        true
    }
}
