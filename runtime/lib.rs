//! The reactor layer: everything that can surprise us (time, chance, sockets, tasks, waking another
//! core) behind one small interface, so that the path above runs unchanged on monoio, on glommio
//! and in simulation.
//!
//! Backends are variants of private enums, one per feature. A build with one backend has one
//! variant, so dispatch costs no branch. Every promise made here is asserted against every
//! compiled backend by `tests/contract.rs`.
//!
//! It must never import anything of ours, and never name a protocol.

#[cfg(not(any(feature = "monoio", feature = "glommio", feature = "sim")))]
compile_error!("choose at least one backend: cargo feature `monoio`, `glommio` or `sim`");

pub mod time;
pub mod rng;
pub mod buf;
pub mod gate;
pub mod local;

mod task;
mod bell;
mod start;

#[cfg(any(feature = "monoio", feature = "glommio"))]
pub mod signal;

#[cfg(any(feature = "monoio", feature = "glommio"))]
mod linux;

#[cfg(feature = "monoio")]
mod monoio;

#[cfg(feature = "glommio")]
mod glommio;

#[cfg(feature = "sim")]
pub mod sim;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

pub use bell::{Bell, BellSeed, Ringer, bell};
pub use start::{Backend, CoreOptions, run};
pub use time::{Deadline, Instant};

/// Calls the same method of whichever backend a handle belongs to.
macro_rules! each {
    ($kind:ident, $value:expr, $inner:ident => $body:expr) => {
        match $value {
            #[cfg(feature = "monoio")]
            $kind::Monoio($inner) => $body,
            #[cfg(feature = "glommio")]
            $kind::Glommio($inner) => $body,
            #[cfg(feature = "sim")]
            $kind::Sim($inner) => $body,
        }
    };
}

/// One core's reactor: a cheap handle, cloned freely within its core, never sent to another.
#[derive(Clone)]
pub struct Reactor(ReactorKind);

#[derive(Clone)]
enum ReactorKind {
    #[cfg(feature = "monoio")]
    Monoio(monoio::Reactor),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Reactor),
    #[cfg(feature = "sim")]
    Sim(sim::Core),
}

/// A listening socket of one core (SO_REUSEPORT: every core has its own).
#[derive(Clone)]
pub struct Listener(ListenerKind);

#[derive(Clone)]
enum ListenerKind {
    #[cfg(feature = "monoio")]
    Monoio(monoio::Listener),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Listener),
    #[cfg(feature = "sim")]
    Sim(sim::Listener),
}

/// A TCP connection: a cheap handle, cloned within its core. The descriptor closes when the last
/// clone and the last operation in flight are gone.
#[derive(Clone)]
pub struct Stream(StreamKind);

#[derive(Clone)]
enum StreamKind {
    #[cfg(feature = "monoio")]
    Monoio(monoio::Stream),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Stream),
    #[cfg(feature = "sim")]
    Sim(sim::Stream),
}

impl Reactor {
    /// The time now, on the process's monotonic line.
    pub fn now(&self) -> Instant {
        each!(ReactorKind, &self.0, core => core.now())
    }

    /// Wall-clock time since the Unix epoch, at most 10 ms old. For stamps shown to people only:
    /// never for waiting.
    pub fn unix_time(&self) -> Duration {
        each!(ReactorKind, &self.0, core => core.unix_time())
    }

    /// 64 random bits of this core's own seeded generator. Not for secrets.
    pub fn draw(&self) -> u64 {
        each!(ReactorKind, &self.0, core => core.draw())
    }

    /// Runs `task` on this core until it ends. A panic in it is caught, logged and counted
    /// (`panics`); it ends this task only.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        each!(ReactorKind, &self.0, core => core.spawn(task))
    }

    /// Panics caught on this core so far.
    pub fn panics(&self) -> u64 {
        each!(ReactorKind, &self.0, core => core.panics())
    }

    /// Returns at or after `at`, never before. Resolution: monoio rounds up to its 1 ms wheel and
    /// fires up to 1 ms late; glommio within 0.1 ms; sim as its world was told, by default as
    /// monoio does. Measured late on Linux 6.18 with two busy CPUs: monoio 0.2 to 2.0 ms, median
    /// 1.0; glommio 0.04 to 0.07 ms, a few at 4; a world 0.1 to 1.9 ms, median 1.0. By
    /// `cargo test -p runtime --features glommio,sim timers_are_never -- --nocapture`.
    ///
    /// # Cancel
    /// Safe: dropping it forgets the timer.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + use<> + 'static {
        let kind = self.0.clone();
        async move { each!(ReactorKind, kind, core => core.sleep_until(at).await) }
    }

    /// Lets every other task that is ready run once first (to the back of the queue), and due
    /// timers and finished operations be noticed.
    ///
    /// # Cancel
    /// Safe.
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> + 'static {
        let kind = self.0.clone();
        async move { each!(ReactorKind, kind, core => core.yield_now().await) }
    }

    /// Opens a connection to `to`, from the local address `from` if given, with TCP_NODELAY.
    ///
    /// # Errors
    /// The operating system's, or `TimedOut` once `deadline` passed.
    ///
    /// # Cancel
    /// Must not be dropped half-way: bound it by the deadline instead.
    pub fn connect(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        deadline: Deadline,
    ) -> impl Future<Output = io::Result<Stream>> + use<> + 'static {
        let kind = self.0.clone();
        async move {
            each!(ReactorKind, kind, core => {
                core.connect(to, from, deadline).await.map(|stream| Stream(stream.into()))
            })
        }
    }

    /// Binds a listener with SO_REUSEPORT and close-on-exec. Port 0 picks a free one.
    ///
    /// # Errors
    /// The operating system's, e.g. `AddrInUse`.
    pub fn listen(&self, at: SocketAddr, backlog: u32) -> io::Result<Listener> {
        each!(ReactorKind, &self.0, core => {
            core.listen(at, backlog).map(|listener| Listener(listener.into()))
        })
    }

    /// Brings the waiting end of a bell to this core.
    ///
    /// # Panics
    /// If the bell belongs to a world and this reactor does not, or the other way round: a mistake
    /// in assembly, never in running.
    pub fn attach(&self, seed: BellSeed) -> Bell {
        each!(ReactorKind, &self.0, core => core.attach(seed))
    }
}

impl Listener {
    /// The next connection, with TCP_NODELAY and close-on-exec, and its peer's address.
    ///
    /// # Errors
    /// Transient ones (`EMFILE`, `ECONNABORTED`): try again after a pause. After `shutdown`: any.
    ///
    /// # Cancel
    /// Never drop it half-way (a connection could be lost); end it by `shutdown`.
    pub fn accept(
        &self,
    ) -> impl Future<Output = io::Result<(Stream, SocketAddr)>> + use<> + 'static {
        let kind = self.0.clone();
        async move {
            each!(ListenerKind, kind, listener => {
                listener.accept().await.map(|(stream, peer)| (Stream(stream.into()), peer))
            })
        }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        each!(ListenerKind, &self.0, listener => listener.address())
    }

    /// Stops listening: a pending `accept` returns an error, new peers are refused.
    pub fn shutdown(&self) {
        each!(ListenerKind, &self.0, listener => listener.shutdown())
    }
}

impl Stream {
    /// Appends what arrives to `buffer`, within its spare capacity (0 is answered `InvalidInput`;
    /// `buffer` is never grown). Gives the count (0: the peer will send no more) and the buffer. At
    /// most one read is in flight per stream: a second one is answered `ResourceBusy`.
    ///
    /// # Errors
    /// The operating system's, e.g. `ConnectionReset`.
    ///
    /// # Cancel
    /// Never drop it half-way; end it by `shutdown`, upon which it returns. If it is dropped all
    /// the same (its task panicked), memory stays sound and the connection is shut down.
    pub fn read(
        &self,
        buffer: Vec<u8>,
    ) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> + use<> + 'static {
        let kind = self.0.clone();
        async move { each!(StreamKind, kind, stream => stream.read(buffer).await) }
    }

    /// Writes all of `bytes`; gives the buffer back for reuse. At most one write is in flight per
    /// stream: a second one is answered `ResourceBusy`. May run beside a read.
    ///
    /// # Errors
    /// The operating system's, e.g. `BrokenPipe`, `ConnectionReset`; part of `bytes` may be sent.
    ///
    /// # Cancel
    /// As `read`.
    pub fn write_all(
        &self,
        bytes: Vec<u8>,
    ) -> impl Future<Output = (io::Result<()>, Vec<u8>)> + use<> + 'static {
        let kind = self.0.clone();
        async move { each!(StreamKind, kind, stream => stream.write_all(bytes).await) }
    }

    /// `shutdown(2)`: `Write` sends the end of the stream, `Both` also makes operations in flight
    /// return. The one way to cancel. Idempotent; errors are of no use and dropped.
    pub fn shutdown(&self, how: Shutdown) {
        each!(StreamKind, &self.0, stream => stream.shutdown(how))
    }

    /// Whether a read or write is in flight.
    pub fn is_busy(&self) -> bool {
        each!(StreamKind, &self.0, stream => stream.is_busy())
    }

    /// Whether the connection is open, idle, and has nothing to read: fit for another request. One
    /// system call.
    pub fn is_quiet(&self) -> bool {
        each!(StreamKind, &self.0, stream => stream.is_quiet())
    }

    /// Makes a pending read return `Interrupted` and leaves what arrives in the connection, which
    /// no real backend can: only a test that plants the fault of a connection given away too early
    /// needs it. Does nothing outside the simulator.
    #[cfg(feature = "sim")]
    pub fn abandon_read(&self) {
        #[allow(irrefutable_let_patterns, reason = "a build may have this one variant")]
        if let StreamKind::Sim(stream) = &self.0 {
            stream.abandon_read();
        }
    }
}

/// How a backend's own handles become the public ones.
macro_rules! handles {
    ($($feature:literal $variant:ident $backend:ident;)*) => {$(
        #[cfg(feature = $feature)]
        impl From<$backend::Listener> for ListenerKind {
            fn from(listener: $backend::Listener) -> Self {
                Self::$variant(listener)
            }
        }

        #[cfg(feature = $feature)]
        impl From<$backend::Stream> for StreamKind {
            fn from(stream: $backend::Stream) -> Self {
                Self::$variant(stream)
            }
        }
    )*};
}

handles! {
    "monoio" Monoio monoio;
    "glommio" Glommio glommio;
    "sim" Sim sim;
}
