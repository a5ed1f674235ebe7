//! The default backend: monoio 0.2.4 over io_uring, with SINGLE_ISSUER and COOP_TASKRUN.
//!
//! What monoio lacks is made up for here, each with a contract test: a panic would end the thread
//! (`task::Guarded`); a task that wakes itself, its `yield_now` among them, goes to the front of
//! its queue (`turn`, `TURNS_IN_A_ROW_MAX`); timers stand still while tasks are ready (`timers`,
//! fired every `TURNS_PER_LOOK` turns of tasks); accepted sockets lack close-on-exec (`net`); a
//! dropped runtime may free memory the kernel still writes to (`run`).
//!
//! Its feature `sync` stays off: a waker used on another thread panics, which is the alarm for a
//! handle that left its core. DEFER_TASKRUN is not used: monoio enters the kernel without
//! GETEVENTS while tasks are ready, and completions would wait.
//!
//! Not made up for: monoio ignores what io_uring_enter(2) answers while it parks, so a lasting
//! error there would show as a core that spins.

mod bell;
mod net;
mod start;
mod timers;
mod turn;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

pub(crate) use bell::Bell;
pub(crate) use net::{Listener, Stream};
pub(crate) use start::run;

use crate::bell::{BellKind, SeedKind};
use crate::linux::{clock, socket};
use crate::rng::Generator;
use crate::task::{Guarded, Host};
use crate::{BellSeed, Deadline, Instant};

/// Turns of tasks after which timers are looked at even if the core never idles. A turn takes 1 to
/// 30 us here, so a busy core looks at its timers about every millisecond at worst.
const TURNS_PER_LOOK: u32 = 32;

/// Turns a task may take in a row. monoio puts a task that wakes itself in front of its queue, so
/// one that always does would starve the rest of its core for ever; after this many it goes to the
/// back. For a lone task that is busy by right, going to the back costs one system call.
const TURNS_IN_A_ROW_MAX: u32 = 64;

/// The handle of one core.
#[derive(Clone)]
pub(crate) struct Reactor(Rc<Core>);

/// What one core keeps beside monoio's own state.
pub(crate) struct Core {
    generator: Generator,
    panics: Cell<u64>,
    turns: Cell<u32>,
    /// The task that had the last turn.
    last_task: Cell<usize>,
    /// Turns `last_task` took since another one had its own.
    in_a_row: Cell<u32>,
    /// Operations the kernel may hold memory of.
    in_flight: Cell<usize>,
    timers: timers::Timers,
    turn: turn::Turn,
}

impl Reactor {
    pub(crate) fn now(&self) -> Instant {
        clock::now()
    }

    pub(crate) fn unix_time(&self) -> Duration {
        clock::unix_time()
    }

    pub(crate) fn draw(&self) -> u64 {
        self.0.generator.draw()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // Dropping monoio's handle leaves the task running.
        drop(monoio::spawn(Guarded::new(task, self.0.clone())));
    }

    pub(crate) fn panics(&self) -> u64 {
        self.0.panics.get()
    }

    pub(crate) fn sleep_until(&self, at: Instant) -> timers::Sleep {
        timers::Sleep::new(self.0.clone(), at)
    }

    pub(crate) fn yield_now(&self) -> turn::YieldNow {
        turn::YieldNow::new(self.0.clone())
    }

    pub(crate) async fn connect(
        self,
        to: SocketAddr,
        from: Option<IpAddr>,
        deadline: Deadline,
    ) -> io::Result<Stream> {
        net::connect(self.0, to, from, deadline).await
    }

    pub(crate) fn listen(&self, at: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let socket = socket::listening(at, backlog)?;
        Listener::new(self.0.clone(), socket)
    }

    pub(crate) fn attach(&self, seed: BellSeed) -> crate::Bell {
        match seed.0 {
            SeedKind::Ring(shared, reader) => {
                crate::Bell(BellKind::Monoio(Bell::new(self.0.clone(), shared, reader)))
            }
            #[cfg(feature = "sim")]
            SeedKind::Sim(_) => panic!("a bell of a simulated world on a real core"),
        }
    }
}

impl Core {
    fn new(seed: u64) -> Self {
        Self {
            generator: Generator::new(seed),
            panics: Cell::new(0),
            turns: Cell::new(0),
            last_task: Cell::new(0),
            in_a_row: Cell::new(0),
            in_flight: Cell::new(0),
            timers: timers::Timers::default(),
            turn: turn::Turn::default(),
        }
    }
}

impl Host for Rc<Core> {
    fn may_take_turn(&self, task: usize, waker: &Waker) -> bool {
        let turns = self.turns.get() + 1;
        if turns == TURNS_PER_LOOK {
            self.turns.set(0);
            self.turn.request();
        } else {
            self.turns.set(turns);
        }
        if self.last_task.replace(task) != task {
            self.in_a_row.set(1);
            return true;
        }
        let in_a_row = self.in_a_row.get() + 1;
        if in_a_row > TURNS_IN_A_ROW_MAX {
            self.in_a_row.set(0);
            self.turn.put_back(waker.clone());
            return false;
        }
        self.in_a_row.set(in_a_row);
        true
    }

    fn caught(&self) {
        self.panics.set(self.panics.get() + 1);
    }
}

/// One operation in the kernel's hands, counted while it lives and for ever if it is dropped
/// half-way: then nobody knows when the kernel is done with it.
struct InFlight {
    core: Rc<Core>,
}

impl InFlight {
    fn begin(core: Rc<Core>) -> Self {
        core.in_flight.set(core.in_flight.get() + 1);
        Self { core }
    }

    fn end(self) {
        self.core.in_flight.set(self.core.in_flight.get() - 1);
    }
}
