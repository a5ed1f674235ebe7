//! One client connection: opened, then one request and its whole answer at a time, no pipelining.
//!
//! No operation is ever dropped half-way. Who wants to end one shuts the stream down (`line`), upon
//! which the operation returns.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use runtime::{Deadline, Reactor, Stream};

use crate::response::{Broken, Head, Reader};

/// Bytes read at once; larger answers take several reads.
const BUFFER_BYTES: usize = 16 * 1024;
/// A connection that is not open by then is a failure.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// An open connection between two requests.
pub(crate) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    exchanges: u64,
}

/// A whole answer.
pub(crate) struct Answer {
    /// Its head.
    pub(crate) head: Head,
    /// Its size on the wire.
    pub(crate) bytes: u64,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection had served before and ended without a byte: the server closed it while it
    /// was idle, as it may. Ask again on another connection.
    Stale,
    /// No connection.
    Connect,
    /// The stream failed.
    Io,
    /// The answer was broken.
    Broken(Broken),
}

impl Failure {
    /// A word for the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Connect => "connect",
            Self::Io => "io",
            Self::Broken(Broken::Malformed) => "malformed",
            Self::Broken(Broken::HeadTooLarge) => "head_too_large",
            Self::Broken(Broken::Surplus) => "surplus",
            Self::Broken(Broken::CutShort) => "cut_short",
        }
    }
}

impl Connection {
    /// Opens a connection to `to`, from the local address `from` if given.
    ///
    /// # Errors
    /// The operating system's, or `TimedOut` after `CONNECT_TIME_MAX`.
    ///
    /// # Cancel
    /// Must not be dropped half-way.
    pub(crate) async fn open(
        reactor: &Reactor,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<Self> {
        let deadline = Deadline::after(reactor.now(), CONNECT_TIME_MAX);
        let stream = reactor.connect(to, from, deadline).await?;
        Ok(Self { stream, buffer: Vec::with_capacity(BUFFER_BYTES), exchanges: 0 })
    }

    /// A handle by which an exchange can be ended from outside.
    pub(crate) fn line(&self) -> Stream {
        self.stream.clone()
    }

    /// Sends `request` and reads the whole answer. After an error, or an answer that is not
    /// reusable, the connection is of no more use.
    ///
    /// # Errors
    /// See `Failure`.
    ///
    /// # Cancel
    /// Must not be dropped half-way.
    pub(crate) async fn exchange(&mut self, request: Vec<u8>) -> Result<Answer, Failure> {
        let ended = if self.exchanges == 0 { Failure::Io } else { Failure::Stale };
        self.exchanges += 1;
        self.stream.write_all(request).await.0.map_err(|_| ended)?;
        let mut reader = Reader::new();
        loop {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let (outcome, buffer) = self.stream.read(buffer).await;
            self.buffer = buffer;
            match outcome {
                Err(_) | Ok(0) if reader.bytes == 0 => return Err(ended),
                Err(_) => return Err(Failure::Io),
                Ok(0) => {
                    let head = reader.finish().map_err(Failure::Broken)?;
                    return Ok(Answer { head, bytes: reader.bytes });
                }
                Ok(_) => {
                    if let Some(head) = reader.feed(&self.buffer).map_err(Failure::Broken)? {
                        return Ok(Answer { head, bytes: reader.bytes });
                    }
                }
            }
        }
    }
}
