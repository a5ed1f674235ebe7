//! Connections for tests, on whatever backend.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use runtime::{Deadline, Reactor, Stream};

/// Any free port of this host.
pub(crate) fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// A deadline that does not matter.
pub(crate) fn soon(reactor: &Reactor) -> Deadline {
    Deadline::after(reactor.now(), Duration::from_secs(60))
}

/// Both ends of a connection.
pub(crate) async fn pair(reactor: &Reactor) -> io::Result<(Stream, Stream)> {
    let listener = reactor.listen(anywhere(), 16)?;
    let client = reactor.connect(listener.address(), None, soon(reactor)).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

/// Reads until `count` bytes are there or the peer has no more.
pub(crate) async fn read_up_to(stream: &Stream, count: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(count);
    while buffer.len() < count {
        let (result, given_back) = stream.read(buffer).await;
        buffer = given_back;
        if result? == 0 {
            break;
        }
    }
    Ok(buffer)
}
