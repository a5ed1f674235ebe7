//! The simulated backend: a world of cores on one thread, in virtual time, over an in-memory
//! network that misbehaves by a seed. Same seed, same program: same trace, byte for byte.
//!
//! A world runs one ready task at a time, chosen at random among all cores; tasks take no time.
//! When none is ready, time jumps to the next event: a timer, a segment, a bell. What a world can
//! do to a program: refuse, reset, stall and split connections, read one byte at a time, fill
//! socket buffers, deliver bells and timers late, freeze a core.
//!
//! What it does not have: time spent computing (freeze a core to model it), packet loss as distinct
//! from delay, reordering within a connection, DNS.
//!
//! It must never read a clock, draw chance but from its seed, or depend on addresses in memory.

pub(crate) mod bell;
mod connect;
mod events;
mod exec;
mod listener;
mod net;
mod options;
mod pipe;
mod stream;
mod trace;
mod world;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

pub(crate) use listener::Listener;
pub use options::{Census, Faults, Options, Timers};
pub(crate) use stream::Stream;
pub use world::World;

use crate::bell::{BellKind, SeedKind};
use crate::task::{Guarded, Host};
use crate::{BellSeed, Deadline, Instant};
use world::Inner;

/// The wall clock of every world at its start: 2026-01-01T00:00:00Z.
const UNIX_START: Duration = Duration::from_secs(1_767_225_600);

/// A core (or any host) of a world.
#[derive(Clone)]
pub(crate) struct Core {
    world: Rc<Inner>,
    index: usize,
}

impl Core {
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    pub(crate) fn unix_time(&self) -> Duration {
        UNIX_START + self.now().since(Instant::ZERO)
    }

    pub(crate) fn draw(&self) -> u64 {
        self.world.exec.borrow().cores[self.index].generator.draw()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let task = Box::pin(Guarded::new(task, self.clone()));
        let waker = self.world.exec.borrow_mut().spawn(&self.world.news, self.index, task);
        waker.wake();
    }

    pub(crate) fn panics(&self) -> u64 {
        self.world.exec.borrow().cores[self.index].panics
    }

    pub(crate) fn sleep_until(&self, at: Instant) -> events::Sleep {
        let timers = self.world.exec.borrow().cores[self.index].timers;
        events::Sleep::new(self.world.clone(), at, timers)
    }

    pub(crate) fn yield_now(&self) -> exec::YieldNow {
        exec::YieldNow::new(self.clone())
    }

    pub(crate) async fn connect(
        self,
        to: SocketAddr,
        from: Option<IpAddr>,
        deadline: Deadline,
    ) -> io::Result<Stream> {
        connect::connect(self.world, self.index, to, from, deadline).await
    }

    pub(crate) fn listen(&self, at: SocketAddr, backlog: u32) -> io::Result<Listener> {
        Listener::open(self.world.clone(), self.index, at, backlog)
    }

    pub(crate) fn attach(&self, seed: BellSeed) -> crate::Bell {
        match seed.0 {
            SeedKind::Sim(ringer) => {
                crate::Bell(BellKind::Sim(bell::Bell::new(self.world.clone(), ringer)))
            }
            #[cfg(any(feature = "monoio", feature = "glommio"))]
            SeedKind::Ring(..) => panic!("a bell of a real core in a simulated world"),
        }
    }
}

impl Host for Core {
    fn may_take_turn(&self, _task: usize, _waker: &Waker) -> bool {
        true
    }

    fn caught(&self) {
        self.world.exec.borrow_mut().cores[self.index].panics += 1;
        self.world.note(trace::Kind::Panic, self.index as u64, 0);
    }
}
