//! Sockets on monoio: one recv per read, one send per write (more only if the kernel takes less),
//! no allocation beyond monoio's own.
//!
//! It must never drop an operation the kernel holds: monoio parks the buffer of a dropped one until
//! the kernel is done, but bytes that arrived are lost, and so is a connection just accepted. A
//! dropped one (its task panicked) therefore shuts its connection down.

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use monoio::buf::{IoBuf, IoBufMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent};
use monoio::net::{TcpListener, TcpStream};
use socket2::Socket;

use super::timers::Sleep;
use super::{Core, InFlight};
use crate::linux::socket::{self, Connecting};
use crate::{Deadline, Instant};

/// A connection.
#[derive(Clone)]
pub(crate) struct Stream(Rc<Inner>);

struct Inner {
    tcp: UnsafeCell<TcpStream>,
    core: Rc<Core>,
    is_reading: Cell<bool>,
    is_writing: Cell<bool>,
}

impl Stream {
    fn new(core: Rc<Core>, tcp: TcpStream) -> Self {
        Self(Rc::new(Inner {
            tcp: UnsafeCell::new(tcp),
            core,
            is_reading: Cell::new(false),
            is_writing: Cell::new(false),
        }))
    }

    pub(crate) async fn read(self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        if buffer.capacity() == buffer.len() {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        let Some(claim) = Claim::take(&self.0, Side::Read) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), buffer);
        };
        let (result, spare) = self.0.recv(Spare(buffer)).await;
        claim.release();
        (result, spare.0)
    }

    pub(crate) async fn write_all(self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let Some(claim) = Claim::take(&self.0, Side::Write) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), bytes);
        };
        let mut rest = Rest { bytes, from: 0 };
        let result = loop {
            if rest.from == rest.bytes.len() {
                break Ok(());
            }
            let (result, given_back) = self.0.send(rest).await;
            rest = given_back;
            match result {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest.from += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        claim.release();
        (result, rest.bytes)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        self.0.shutdown(how);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_reading.get() || self.0.is_writing.get()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        // SAFETY: as in `recv`; the reference lives for this call only.
        !self.is_busy() && socket::is_quiet(unsafe { &*self.0.tcp.get() })
    }
}

impl Inner {
    fn shutdown(&self, how: Shutdown) {
        // SAFETY: as in `recv`; the reference lives for this call only.
        socket::shutdown(unsafe { &*self.tcp.get() }, how);
    }

    fn recv(
        &self,
        spare: Spare,
    ) -> impl Future<Output = (io::Result<usize>, Spare)> + use<> + 'static {
        // SAFETY: `read` uses the reference only while it makes the operation, which holds the
        // descriptor by a count of its own and no reference to the stream; no other reference is
        // alive meanwhile, since nothing is called back. monoio's own split halves rest on this.
        let tcp: &'static mut TcpStream = unsafe { &mut *self.tcp.get() };
        tcp.read(spare)
    }

    fn send(
        &self,
        rest: Rest,
    ) -> impl Future<Output = (io::Result<usize>, Rest)> + use<> + 'static {
        // SAFETY: as in `recv`.
        let tcp: &'static mut TcpStream = unsafe { &mut *self.tcp.get() };
        tcp.write(rest)
    }
}

/// The two directions of a connection.
#[derive(Clone, Copy)]
enum Side {
    Read,
    Write,
}

/// The right to the one operation of a direction. Dropped unreleased (half-way), it leaves the
/// direction busy for ever and shuts the connection down.
struct Claim {
    stream: Rc<Inner>,
    side: Side,
    flight: Option<InFlight>,
}

impl Claim {
    fn take(stream: &Rc<Inner>, side: Side) -> Option<Self> {
        if side.flag(stream).replace(true) {
            return None;
        }
        let flight = Some(InFlight::begin(stream.core.clone()));
        Some(Self { stream: stream.clone(), side, flight })
    }

    fn release(mut self) {
        self.side.flag(&self.stream).set(false);
        if let Some(flight) = self.flight.take() {
            flight.end();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.flight.is_some() {
            self.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Side {
    fn flag(self, stream: &Inner) -> &Cell<bool> {
        match self {
            Self::Read => &stream.is_reading,
            Self::Write => &stream.is_writing,
        }
    }
}

/// A buffer of which the kernel fills the part that is free.
struct Spare(Vec<u8>);

// SAFETY: the pointer is that of the vector's allocation, which moving the vector does not move;
// nobody else has the vector while the operation owns it.
unsafe impl IoBufMut for Spare {
    fn write_ptr(&mut self) -> *mut u8 {
        self.0.spare_capacity_mut().as_mut_ptr().cast()
    }

    fn bytes_total(&mut self) -> usize {
        self.0.capacity() - self.0.len()
    }

    // SAFETY: the caller, monoio, vouches for `count` written bytes.
    unsafe fn set_init(&mut self, count: usize) {
        debug_assert!(count <= self.0.capacity() - self.0.len());
        // SAFETY: the kernel wrote `count` bytes from `write_ptr` on, at most `bytes_total`.
        unsafe { self.0.set_len(self.0.len() + count) }
    }
}

/// Bytes of which the kernel still has to take the part after `from`.
struct Rest {
    bytes: Vec<u8>,
    from: usize,
}

// SAFETY: as for `Spare`; the pointer stays within the allocation because `from` is the sum of what
// the kernel took, at most the length.
unsafe impl IoBuf for Rest {
    fn read_ptr(&self) -> *const u8 {
        self.bytes[self.from..].as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.bytes.len() - self.from
    }
}

/// A listening socket.
#[derive(Clone)]
pub(crate) struct Listener {
    core: Rc<Core>,
    tcp: Rc<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    pub(super) fn new(core: Rc<Core>, socket: Socket) -> io::Result<Self> {
        let tcp = TcpListener::from_std(socket.into())?;
        let address = tcp.local_addr()?;
        Ok(Self { core, tcp: Rc::new(tcp), address })
    }

    pub(crate) async fn accept(self) -> io::Result<(Stream, SocketAddr)> {
        let flight = InFlight::begin(self.core.clone());
        let result = self.tcp.accept().await;
        flight.end();
        let (tcp, peer) = result?;
        socket::close_on_exec(&tcp)?;
        Ok((Stream::new(self.core, tcp), peer))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn shutdown(&self) {
        socket::shutdown(&self.tcp, Shutdown::Both);
    }
}

/// Connects by connect(2) and a poll through the ring: monoio's own connect can neither be bound to
/// a source address nor be cancelled without dropping it.
pub(super) async fn connect(
    core: Rc<Core>,
    to: SocketAddr,
    from: Option<IpAddr>,
    deadline: Deadline,
) -> io::Result<Stream> {
    let at = deadline.instant();
    if crate::linux::clock::now() >= at {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let tcp = match socket::connecting(to, from)? {
        Connecting::Done(socket) => TcpStream::from_std(socket.into())?,
        Connecting::Pending(socket) => {
            let tcp = TcpStream::from_std(socket.into())?;
            let flight = InFlight::begin(core.clone());
            let is_in_time = writable_in_time(&core, &tcp, at).await;
            flight.end();
            if !is_in_time? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket::outcome(&tcp)?;
            tcp
        }
    };
    socket::make_blocking(&tcp)?;
    Ok(Stream::new(core, tcp))
}

/// Waits for the connection to be there or to have failed; whether that was before `at`. At `at`
/// the attempt is shut down, which ends the poll: it is awaited, not dropped.
async fn writable_in_time(core: &Rc<Core>, tcp: &TcpStream, at: Instant) -> io::Result<bool> {
    let mut writable = pin!(tcp.writable(false));
    let mut alarm = pin!(Sleep::new(core.clone(), at));
    let mut is_late = false;
    let result = std::future::poll_fn(|context| {
        if let Poll::Ready(result) = writable.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        if !is_late && alarm.as_mut().poll(context).is_ready() {
            is_late = true;
            socket::shutdown(tcp, Shutdown::Both);
        }
        Poll::Pending
    })
    .await;
    if is_late { Ok(false) } else { result.map(|()| true) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::monoio::Reactor;
    use crate::{CoreOptions, ReactorKind};

    use super::*;

    fn check(promise: impl AsyncFnOnce(Reactor) + 'static) {
        let main = |reactor: crate::Reactor| async move {
            #[allow(irrefutable_let_patterns, reason = "a build may have this one variant")]
            let ReactorKind::Monoio(reactor) = reactor.0 else { panic!("another backend") };
            promise(reactor).await;
        };
        crate::run(CoreOptions::default(), main).expect("the promise is kept");
    }

    #[test]
    fn both_ends_send_without_delay() {
        check(async |reactor| {
            let any = "127.0.0.1:0".parse().expect("an address");
            let listener = reactor.listen(any, 16).expect("a port");
            let deadline = Deadline::after(reactor.now(), Duration::from_secs(10));
            let client = reactor.clone().connect(listener.address(), None, deadline).await;
            let client = client.expect("a connection");
            let (server, _) = listener.accept().await.expect("a connection");
            for end in [&client, &server] {
                // SAFETY: as in `recv`; the reference lives for this call only.
                let tcp = unsafe { &*end.0.tcp.get() };
                assert!(tcp.nodelay().expect("an option"));
            }
        });
    }

    #[test]
    fn a_lone_socket_of_ipv6_connects_too() {
        check(async |reactor| {
            let any = "[::1]:0".parse().expect("an address");
            // A machine without IPv6 has nothing to test.
            let Ok(listener) = reactor.listen(any, 16) else {
                return;
            };
            let deadline = Deadline::after(reactor.now(), Duration::from_secs(10));
            let from = Some(any.ip());
            let client = reactor.clone().connect(listener.address(), from, deadline).await;
            client.expect("a connection");
            assert!(listener.accept().await.expect("a connection").1.is_ipv6());
        });
    }
}
