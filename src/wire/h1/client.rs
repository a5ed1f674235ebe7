//! One exchange on one connection: a request out, a response in.

use runtime::Stream;

use super::is_value;
pub use super::response::Response;
use super::response::{Fault, Progress, Reader};
use crate::model::Verdict;

/// The first read of an answer: a page of 10 results is rarely longer. A request is encoded into a
/// buffer of this size, because its answer is read into the same.
const READ_BYTES: usize = 16 * 1024;

/// A request to an engine. Its parts come from manifests and percent-encoding, which leave no CR
/// or LF in them.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The `Host` field.
    pub host: &'a str,
    /// All other fields.
    pub headers: &'a [(String, String)],
    /// The body; its length is sent for `POST` and wherever there is one.
    pub body: &'a [u8],
}

/// The request's bytes. Controls are left out of everything but the body: a key with a line's end
/// in it (read from a file, say) must not begin a field or a request of its own.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let length = 512 + request.target.len() + request.body.len();
    let mut bytes = Vec::with_capacity(length.max(READ_BYTES));
    put(request.method, &mut bytes);
    bytes.push(b' ');
    put(request.target, &mut bytes);
    bytes.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    put(request.host, &mut bytes);
    bytes.extend_from_slice(b"\r\n");
    for (name, value) in request.headers {
        put(name, &mut bytes);
        bytes.extend_from_slice(b": ");
        put(value, &mut bytes);
        bytes.extend_from_slice(b"\r\n");
    }
    if request.method != "GET" || !request.body.is_empty() {
        let length = format!("Content-Length: {}\r\n", request.body.len());
        bytes.extend_from_slice(length.as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(request.body);
    bytes
}

fn put(text: &str, bytes: &mut Vec<u8>) {
    if text.bytes().all(is_value) {
        bytes.extend_from_slice(text.as_bytes());
    } else {
        bytes.extend(text.bytes().filter(|byte| is_value(*byte)));
    }
}

/// Why an exchange gave no response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeKind {
    /// The connection broke, or the peer closed it.
    #[error("the connection broke")]
    Broken,
    /// The answer is not HTTP as it should be.
    #[error("{0}")]
    Fault(Fault),
}

impl ExchangeKind {
    /// What it says about the engine.
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Broken | Self::Fault(Fault::CutOff) => Verdict::Failed,
            Self::Fault(_) => Verdict::Malformed,
        }
    }
}

/// A failed exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExchangeError {
    /// Why.
    pub kind: ExchangeKind,
    /// How much of an answer had come: with 0 the request may be repeated on another connection.
    pub bytes_received: usize,
}

/// Sends `request` and reads its response, whose body has at most `body_bytes_max` bytes.
///
/// # Errors
/// The connection's or the response's fault; the connection is of no use afterwards.
///
/// # Cancel
/// Never drop it half-way; shut the stream down, upon which it returns.
pub async fn exchange(
    stream: &Stream,
    request: Vec<u8>,
    body_bytes_max: usize,
) -> Result<Response, ExchangeError> {
    let mut bytes_received = 0;
    let failed = |kind, bytes_received| ExchangeError { kind, bytes_received };
    let (written, mut buffer) = stream.write_all(request).await;
    if written.is_err() {
        return Err(failed(ExchangeKind::Broken, 0));
    }
    buffer.clear();
    let mut reader = Reader::new(body_bytes_max);
    loop {
        buffer.reserve(READ_BYTES);
        let (read, filled) = stream.read(buffer).await;
        buffer = filled;
        let progress = match read {
            Ok(0) => reader.end().map(Progress::Done),
            Ok(count) => {
                bytes_received += count;
                reader.advance(&mut buffer)
            }
            Err(_) => return Err(failed(ExchangeKind::Broken, bytes_received)),
        };
        match progress {
            Ok(Progress::Done(response)) => return Ok(response),
            Ok(Progress::NeedMore) => {}
            Err(fault) => return Err(failed(ExchangeKind::Fault(fault), bytes_received)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_can_begin_another() {
        let headers = [("X-Key".to_owned(), "secret\r\nX-Evil: 1\n".to_owned())];
        let (target, body) = ("/s HTTP/1.1\r\n\r\nGET /", &b""[..]);
        let request = Request { method: "GET", target, host: "h", headers: &headers, body };
        let text = String::from_utf8(encode(&request)).expect("text");
        assert_eq!(text.matches("\r\n").count(), 4, "{text}");
        assert!(text.contains("X-Key: secretX-Evil: 1\r\n"), "{text}");
    }

    #[test]
    fn a_request_is_framed_by_its_length() {
        let headers = [("Accept".to_owned(), "application/json".to_owned())];
        let get =
            Request { method: "GET", target: "/s?q=1", host: "h", headers: &headers, body: b"" };
        let text = String::from_utf8(encode(&get)).expect("text");
        assert_eq!(text, "GET /s?q=1 HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\r\n");
        assert!(encode(&get).capacity() >= READ_BYTES, "its answer is read into the same buffer");
        let post = Request { method: "POST", body: b"{}", headers: &[], ..get };
        let text = String::from_utf8(encode(&post)).expect("text");
        assert_eq!(text, "POST /s?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}");
    }

    #[test]
    fn a_broken_connection_is_not_the_engines_schema() {
        assert_eq!(ExchangeKind::Broken.verdict(), Verdict::Failed);
        assert_eq!(ExchangeKind::Fault(Fault::CutOff).verdict(), Verdict::Failed);
        assert_eq!(ExchangeKind::Fault(Fault::TooLarge).verdict(), Verdict::Malformed);
    }
}
