//! The second backend: glommio 0.9, cargo feature `glommio`. It proves that the interface is not
//! shaped by monoio; it is not the faster one: its sockets wait for readiness through the ring and
//! then call recv(2) or send(2), its rings take none of the newer flags, and before each sleep it
//! interrupts every core that runs a thread of this process (membarrier).
//!
//! What glommio lacks is made up for here: a panic would end the executor (`task::Guarded`); its
//! accept may leave out close-on-exec; its connect has no source address (`net`).

mod bell;
mod net;
mod start;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use glommio::timer::Timer;

pub(crate) use bell::Bell;
pub(crate) use net::{Listener, Stream};
pub(crate) use start::run;

use crate::bell::{BellKind, SeedKind};
use crate::linux::{clock, socket};
use crate::rng::Generator;
use crate::task::{Guarded, Host};
use crate::{BellSeed, Deadline, Instant};

/// The handle of one core.
#[derive(Clone)]
pub(crate) struct Reactor(Rc<Core>);

/// What one core keeps beside glommio's own state.
pub(crate) struct Core {
    generator: Generator,
    panics: Cell<u64>,
    /// Operations the kernel may hold memory of.
    in_flight: Cell<usize>,
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
        // Dropping glommio's handle would cancel the task; detached, it runs.
        drop(glommio::spawn_local(Guarded::new(task, self.0.clone())).detach());
    }

    pub(crate) fn panics(&self) -> u64 {
        self.0.panics.get()
    }

    pub(crate) async fn sleep_until(self, at: Instant) {
        sleep_until(at).await;
    }

    pub(crate) async fn yield_now(self) {
        glommio::executor().yield_now().await;
    }

    pub(crate) async fn connect(
        self,
        to: SocketAddr,
        from: Option<IpAddr>,
        deadline: Deadline,
    ) -> io::Result<Stream> {
        net::connect(to, from, deadline).await
    }

    pub(crate) fn listen(&self, at: SocketAddr, backlog: u32) -> io::Result<Listener> {
        Listener::new(self.0.clone(), socket::listening(at, backlog)?)
    }

    pub(crate) fn attach(&self, seed: BellSeed) -> crate::Bell {
        match seed.0 {
            SeedKind::Ring(shared, reader) => {
                crate::Bell(BellKind::Glommio(Bell::new(self.0.clone(), shared, reader)))
            }
            #[cfg(feature = "sim")]
            SeedKind::Sim(_) => panic!("a bell of a simulated world on a real core"),
        }
    }
}

/// Waits until `at`: glommio's timer counts from its own reading of the clock, so it may have to be
/// asked again for the last microsecond.
async fn sleep_until(at: Instant) {
    loop {
        let left = at.since(clock::now());
        if left.is_zero() {
            return;
        }
        Timer::new(left).await;
    }
}

impl Host for Rc<Core> {
    fn may_take_turn(&self, _task: usize, _waker: &Waker) -> bool {
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
