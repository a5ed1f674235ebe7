//! Sockets as this project wants them: close-on-exec, without Nagle's delay, listeners shared by
//! port, connections from a chosen source address.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// A bound, listening socket with SO_REUSEPORT, SO_REUSEADDR and TCP_NODELAY, which the
/// connections it accepts inherit. Blocking: io_uring hands `EAGAIN` of a non-blocking socket to
/// the caller instead of waiting for it.
///
/// # Errors
/// The operating system's.
pub(crate) fn listening(at: SocketAddr, backlog: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    if at.is_ipv6() {
        // A port of IPv6 is not silently one of IPv4 too: every family is listed in the settings.
        socket.set_only_v6(true)?;
    }
    socket.bind(&at.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

/// What a call of connect(2) came to.
pub(crate) enum Connecting {
    /// The connection is there (loopback may be that quick).
    Done(Socket),
    /// Wait until the socket is writable, then ask `outcome`.
    Pending(Socket),
}

/// A non-blocking socket that has begun to connect.
///
/// # Errors
/// The operating system's, refusals known at once included.
pub(crate) fn connecting(to: SocketAddr, from: Option<IpAddr>) -> io::Result<Connecting> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(to), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(from) = from {
        bind_address_no_port(&socket)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    match socket.connect(&to.into()) {
        Ok(()) => Ok(Connecting::Done(socket)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            Ok(Connecting::Pending(socket))
        }
        Err(error) => Err(error),
    }
}

/// IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect(2), which knows the peer, so that one
/// source address has 28,000 ports per peer and not in all.
fn bind_address_no_port(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the option is read from `on` with its true size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A view of a descriptor that a backend's type owns and does not lend.
///
/// # Safety
/// `fd` must stay open for as long as the view is used.
unsafe fn view(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: passed on to our caller.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// What became of a connection attempt, once the socket is writable.
///
/// # Errors
/// The connection's.
#[cfg(feature = "monoio")]
pub(crate) fn outcome(owner: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: `owner` keeps the descriptor open until after this call.
    let fd = unsafe { view(owner.as_raw_fd()) };
    match SockRef::from(&fd).take_error()? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Makes calls on the socket wait again.
///
/// # Errors
/// The operating system's.
pub(crate) fn make_blocking(owner: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: `owner` keeps the descriptor open until after this call.
    let fd = unsafe { view(owner.as_raw_fd()) };
    SockRef::from(&fd).set_nonblocking(false)
}

/// Sets close-on-exec, which monoio's accept does not, and glommio's not always.
///
/// # Errors
/// The operating system's.
pub(crate) fn close_on_exec(owner: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an integer; `owner` keeps the descriptor open until after this call.
    let result = unsafe { libc::fcntl(owner.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `shutdown(2)`. Its errors say that the peer is gone already, which the next read tells anyhow.
pub(crate) fn shutdown(owner: &impl AsRawFd, how: Shutdown) {
    // SAFETY: `owner` keeps the descriptor open until after this call.
    let fd = unsafe { view(owner.as_raw_fd()) };
    let _ = SockRef::from(&fd).shutdown(how);
}

/// Whether the connection is open and has nothing to read: one `recv(2)` that peeks and does not
/// wait.
pub(crate) fn is_quiet(owner: &impl AsRawFd) -> bool {
    // SAFETY: `owner` keeps the descriptor open until after this call.
    let fd = unsafe { view(owner.as_raw_fd()) };
    let mut byte = [std::mem::MaybeUninit::uninit()];
    let peeked = SockRef::from(&fd).recv_with_flags(&mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT);
    matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
