//! A caller on an ordinary blocking socket that hides nothing: it sends bytes as they are and reads
//! responses one at a time, framed by their own `Content-Length`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything a healthy server needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// One response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A request with a key, for `query`, with `more` lines of its head.
pub(crate) fn get(query: &str, more: &str) -> String {
    format!(
        "GET /search/fast?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer demo\r\n{more}\r\n"
    )
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        stream.set_write_timeout(Some(PATIENCE)).expect("an option");
        Self { stream, unread: Vec::new() }
    }

    /// Sends; the server may have closed already, which its answer tells.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    pub(crate) fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("still open");
    }

    /// The next response; to a HEAD, its head alone.
    pub(crate) fn read(&mut self, is_head: bool) -> Response {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more(PATIENCE), "the server closed before it answered");
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).expect("text");
        let length =
            field(&head, "content-length").map_or(0, |text| text.parse().expect("a number"));
        let length = if is_head { 0 } else { length };
        while self.unread.len() < length {
            assert!(self.more(PATIENCE), "the server closed in a body");
        }
        let body = String::from_utf8(self.unread.drain(..length).collect()).expect("text");
        let status = head.get(9..12).and_then(|digits| digits.parse().ok()).expect("a status");
        Response { status, head, body }
    }

    /// A GET and its answer.
    pub(crate) fn ask(&mut self, query: &str) -> Response {
        self.send(get(query, "")).read(false)
    }

    /// Waits until the server closes; gives what it said before, which is text.
    pub(crate) fn read_to_end(&mut self) -> String {
        while self.more(PATIENCE) {}
        String::from_utf8(std::mem::take(&mut self.unread)).expect("text")
    }

    /// Whether anything was said, or the connection closed, within `span`.
    pub(crate) fn hears_within(&mut self, span: Duration) -> bool {
        self.stream.set_read_timeout(Some(span)).expect("an option");
        let mut byte = [0];
        let peeked = self.stream.peek(&mut byte);
        self.stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        !matches!(peeked, Err(error)
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Reads once. False: closed, by an end or by a reset.
    fn more(&mut self, patience: Duration) -> bool {
        let mut bytes = [0; 65_536];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came within {patience:?}: {error}"),
        }
    }
}

/// The value of a field, whose name is given in lower case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
