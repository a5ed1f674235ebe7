//! The reactor layer: everything that can surprise us (time, chance, sockets, tasks, waking another
//! core) behind one small interface, so that the path above runs unchanged on monoio, on glommio
//! and in simulation.
//!
//! Backends are variants of private enums, one per feature. A build with one backend has one
//! variant, so dispatch costs no branch.

pub mod time;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

pub use time::{Deadline, Instant};

/// One core's reactor: a cheap handle, cloned freely within its core, never sent to another.
#[derive(Clone)]
pub struct Reactor(ReactorKind);

#[derive(Clone)]
enum ReactorKind {}

/// A listening socket of one core (SO_REUSEPORT: every core has its own).
#[derive(Clone)]
pub struct Listener(ListenerKind);

#[derive(Clone)]
enum ListenerKind {}

/// A TCP connection: a cheap handle, cloned within its core. The descriptor closes when the last
/// clone and the last operation in flight are gone.
#[derive(Clone)]
pub struct Stream(StreamKind);

#[derive(Clone)]
enum StreamKind {}

/// The end that wakes a core; may be rung from any thread.
#[derive(Clone)]
pub struct Ringer(RingerKind);

#[derive(Clone)]
enum RingerKind {}

/// The end that waits, before it has reached its core.
pub struct BellSeed(RingerKind);

/// The end that waits, on its core.
pub struct Bell(RingerKind);

impl Reactor {
    /// The time now, on the process's monotonic line.
    pub fn now(&self) -> Instant {
        match self.0 {}
    }

    /// Wall-clock time since the Unix epoch. For stamps shown to people only: never for waiting.
    pub fn unix_time(&self) -> Duration {
        match self.0 {}
    }

    /// 64 random bits of this core's own seeded generator.
    pub fn draw(&self) -> u64 {
        match self.0 {}
    }

    /// Runs `task` on this core until it ends. A panic in it is caught, logged and counted
    /// (`panics`); it ends this task only.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let _ = task;
        match self.0 {}
    }

    /// Panics caught on this core so far.
    pub fn panics(&self) -> u64 {
        match self.0 {}
    }

    /// Returns at or after `at`, never before. Resolution: monoio rounds up to its 1 ms wheel and
    /// fires up to 1 ms late; glommio within 0.1 ms; sim as its world was told.
    ///
    /// # Cancel
    /// Safe: dropping it forgets the timer.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + use<> + 'static {
        let kind = self.0.clone();
        let _ = at;
        async move { match kind {} }
    }

    /// Lets every other task that is ready run once first (to the back of the queue).
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> + 'static {
        let kind = self.0.clone();
        async move { match kind {} }
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
        let _ = (to, from, deadline);
        async move { match kind {} }
    }

    /// Binds a listener with SO_REUSEPORT and close-on-exec. Port 0 picks a free one.
    ///
    /// # Errors
    /// The operating system's, e.g. `AddrInUse`.
    pub fn listen(&self, at: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let _ = (at, backlog);
        match self.0 {}
    }

    /// Brings the waiting end of a bell to this core.
    pub fn attach(&self, seed: BellSeed) -> Bell {
        let _ = seed;
        match self.0 {}
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
    pub fn accept(&self) -> impl Future<Output = io::Result<(Stream, SocketAddr)>> + use<> + 'static {
        let kind = self.0.clone();
        async move { match kind {} }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        match self.0 {}
    }

    /// Stops listening: a pending `accept` returns an error, new peers are refused.
    pub fn shutdown(&self) {
        match self.0 {}
    }
}

impl Stream {
    /// Appends what arrives to `buffer`, within its spare capacity (which must not be 0; `buffer` is
    /// never grown). Gives the count (0: the peer will send no more) and the buffer. At most one
    /// read is in flight per stream: a second one is answered `ResourceBusy`.
    ///
    /// # Cancel
    /// Never drop it half-way; end it by `shutdown`, upon which it returns.
    pub fn read(
        &self,
        buffer: Vec<u8>,
    ) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> + use<> + 'static {
        let kind = self.0.clone();
        let _ = buffer;
        async move { match kind {} }
    }

    /// Writes all of `bytes`; gives the buffer back for reuse. At most one write is in flight per
    /// stream: a second one is answered `ResourceBusy`. May run beside a read.
    ///
    /// # Cancel
    /// Never drop it half-way; end it by `shutdown`, upon which it returns.
    pub fn write_all(
        &self,
        bytes: Vec<u8>,
    ) -> impl Future<Output = (io::Result<()>, Vec<u8>)> + use<> + 'static {
        let kind = self.0.clone();
        let _ = bytes;
        async move { match kind {} }
    }

    /// `shutdown(2)`: `Write` sends the end of the stream, `Both` also makes operations in flight
    /// return. The one way to cancel. Idempotent; errors are of no use and dropped.
    pub fn shutdown(&self, how: Shutdown) {
        let _ = how;
        match self.0 {}
    }

    /// Whether a read or write is in flight.
    pub fn is_busy(&self) -> bool {
        match self.0 {}
    }
}

impl Ringer {
    /// Wakes the core that waits on the bell; rings before it wakes are one. Never blocks.
    pub fn ring(&self) {
        match self.0 {}
    }
}

impl Bell {
    /// Returns at once if `has_mail` holds, else when the bell rings (perhaps spuriously). The check
    /// is made after the bell is armed, so a letter posted before its ring is never slept over.
    pub async fn wait(&mut self, has_mail: impl Fn() -> bool) {
        let _ = has_mail;
        match self.0 {}
    }
}
