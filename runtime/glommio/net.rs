//! Sockets on glommio. It lends its buffers to the kernel only inside a call, so nothing here can
//! be left in flight but an accept.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::{TcpListener, TcpStream};
use socket2::Socket;

use super::{Core, InFlight, sleep_until};
use crate::linux::socket::{self, Connecting};
use crate::{Deadline, Instant};

/// A connection.
#[derive(Clone)]
pub(crate) struct Stream(Rc<Inner>);

struct Inner {
    /// glommio reads and writes by `&mut`, but keeps the two directions apart inside; it is
    /// borrowed for one poll at a time.
    tcp: RefCell<TcpStream>,
    is_reading: Cell<bool>,
    is_writing: Cell<bool>,
}

impl Stream {
    fn new(tcp: TcpStream) -> Self {
        let (is_reading, is_writing) = (Cell::new(false), Cell::new(false));
        Self(Rc::new(Inner { tcp: RefCell::new(tcp), is_reading, is_writing }))
    }

    pub(crate) async fn read(self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let start = buffer.len();
        if buffer.capacity() == start {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        let Some(claim) = Claim::take(&self.0, Side::Read) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), buffer);
        };
        // glommio takes initialised memory: one fill per read, against `unsafe`.
        buffer.resize(buffer.capacity(), 0);
        let result = std::future::poll_fn(|context| {
            let mut tcp = self.0.tcp.borrow_mut();
            Pin::new(&mut *tcp).poll_read(context, &mut buffer[start..])
        })
        .await;
        claim.release();
        buffer.truncate(start + result.as_ref().copied().unwrap_or(0));
        (result, buffer)
    }

    pub(crate) async fn write_all(self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let Some(claim) = Claim::take(&self.0, Side::Write) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), bytes);
        };
        let mut from = 0;
        let result = loop {
            if from == bytes.len() {
                break Ok(());
            }
            let written = std::future::poll_fn(|context| {
                let mut tcp = self.0.tcp.borrow_mut();
                Pin::new(&mut *tcp).poll_write(context, &bytes[from..])
            });
            match written.await {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => from += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        claim.release();
        (result, bytes)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        socket::shutdown(&*self.0.tcp.borrow(), how);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_reading.get() || self.0.is_writing.get()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_busy() && socket::is_quiet(&*self.0.tcp.borrow())
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
    is_released: bool,
}

impl Claim {
    fn take(stream: &Rc<Inner>, side: Side) -> Option<Self> {
        if side.flag(stream).replace(true) {
            return None;
        }
        Some(Self { stream: stream.clone(), side, is_released: false })
    }

    fn release(mut self) {
        self.side.flag(&self.stream).set(false);
        self.is_released = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_released {
            socket::shutdown(&*self.stream.tcp.borrow(), Shutdown::Both);
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

/// A listening socket.
#[derive(Clone)]
pub(crate) struct Listener {
    core: Rc<Core>,
    /// glommio does not lend its descriptor; this is another one of the same socket.
    socket: Rc<Socket>,
    tcp: Rc<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    pub(super) fn new(core: Rc<Core>, socket: Socket) -> io::Result<Self> {
        let own = socket.try_clone()?;
        // SAFETY: the descriptor is open, listening, and ours to give away.
        let tcp = unsafe { TcpListener::from_raw_fd(socket.into_raw_fd()) };
        let address = tcp.local_addr()?;
        Ok(Self { core, socket: Rc::new(own), tcp: Rc::new(tcp), address })
    }

    pub(crate) async fn accept(self) -> io::Result<(Stream, SocketAddr)> {
        let flight = InFlight::begin(self.core.clone());
        let result = self.tcp.accept().await;
        flight.end();
        let tcp = result?;
        socket::close_on_exec(&tcp)?;
        let peer = tcp.peer_addr()?;
        Ok((Stream::new(tcp), peer))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn shutdown(&self) {
        socket::shutdown(&*self.socket, Shutdown::Both);
    }
}

/// Connects by connect(2) and a wait for room to write: glommio's own connect cannot be bound to a
/// source address.
pub(super) async fn connect(
    to: SocketAddr,
    from: Option<IpAddr>,
    deadline: Deadline,
) -> io::Result<Stream> {
    let at = deadline.instant();
    if crate::linux::clock::now() >= at {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (socket, is_pending) = match socket::connecting(to, from)? {
        Connecting::Done(socket) => (socket, false),
        Connecting::Pending(socket) => (socket, true),
    };
    // SAFETY: the descriptor is open and ours to give away.
    let mut tcp = unsafe { TcpStream::from_raw_fd(socket.into_raw_fd()) };
    if is_pending {
        connected_in_time(&mut tcp, at).await?;
    }
    socket::make_blocking(&tcp)?;
    Ok(Stream::new(tcp))
}

/// Waits for the connection to be there. A send of nothing tells: it waits while the connection is
/// being made, and then gives its error or none. Giving up drops a poll, which loses nothing.
async fn connected_in_time(tcp: &mut TcpStream, at: Instant) -> io::Result<()> {
    let mut alarm = pin!(sleep_until(at));
    std::future::poll_fn(|context| {
        if let Poll::Ready(result) = Pin::new(&mut *tcp).poll_write(context, &[]) {
            return Poll::Ready(result.map(drop));
        }
        alarm.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await
}
