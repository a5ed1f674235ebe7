//! Responses read as they come in (RFC 9112 §4, §6). Pure: bytes are pushed, a response comes out.
//!
//! A connection may be used again only if its response was read exactly to its end: bytes beyond it
//! mean that the peer and we disagree about framing, and such a connection is closed (`reusable`).
//! Interim responses (1xx) are skipped. A body is decoded from gzip within the same bound.

use std::io::Read as _;

use super::chunks::{ChunkFault, Chunks};
use super::scan::{Found, Scan};
use super::{decimal, lists};

const HEAD_BYTES_MAX: usize = 32 * 1024;
const FIELDS_MAX: usize = 128;
const INTERIM_MAX: usize = 8;
/// What a declared length is believed before the bytes are there: a page of 50 results.
const BODY_BYTES_RESERVED_MAX: usize = 200 * 1024;

/// A whole response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// 200..=999.
    pub status: u16,
    /// Names in lower case; values trimmed, bytes outside UTF-8 replaced.
    pub headers: Vec<(String, String)>,
    /// Decoded.
    pub body: Vec<u8>,
    /// Whether the connection may carry another request.
    pub reusable: bool,
}

/// Why bytes are not a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Not HTTP/1.x, or framed in two ways.
    #[error("{0}")]
    Malformed(&'static str),
    /// Longer than the bound.
    #[error("the answer is too large")]
    TooLarge,
    /// The peer closed before the end.
    #[error("the answer was cut off")]
    CutOff,
}

/// How far a response has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More bytes are needed.
    NeedMore,
    /// It is whole.
    Done(Response),
}

enum Framing {
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    framing: Framing,
    is_kept_alive: bool,
}

/// The reader of one response.
pub struct Reader {
    body_bytes_max: usize,
    scan: Scan,
    head: Option<Head>,
    body: Vec<u8>,
    interim: usize,
}

impl Reader {
    /// For a response whose body, encoded and decoded, has at most `body_bytes_max` bytes.
    pub fn new(body_bytes_max: usize) -> Self {
        Self { body_bytes_max, scan: Scan::default(), head: None, body: Vec::new(), interim: 0 }
    }

    /// Takes what it understands from the front of `input`.
    ///
    /// # Errors
    /// The first fault; the connection is of no use afterwards.
    pub fn advance(&mut self, input: &mut Vec<u8>) -> Result<Progress, Fault> {
        while self.head.is_none() {
            let head_bytes = match self.scan.advance(input) {
                Found::End(end) if end <= HEAD_BYTES_MAX => end,
                Found::NeedMore if input.len() <= HEAD_BYTES_MAX => return Ok(Progress::NeedMore),
                Found::End(_) | Found::NeedMore => return Err(Fault::TooLarge),
                Found::Fault(_) => return Err(Fault::Malformed("the head is not HTTP/1.x")),
            };
            let head = parse_head(input.get(..head_bytes).unwrap_or_default())?;
            input.drain(..head_bytes);
            self.scan = Scan::default();
            if head.status >= 200 {
                if let Framing::Length(length) = head.framing {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.body.reserve_exact(length.min(BODY_BYTES_RESERVED_MAX));
                }
                self.head = Some(head);
            } else {
                self.interim += 1;
                if self.interim > INTERIM_MAX || head.status == 101 {
                    return Err(Fault::Malformed("interim responses without end"));
                }
            }
        }
        let Some(head) = &mut self.head else {
            return Ok(Progress::NeedMore);
        };
        let is_whole = match &mut head.framing {
            Framing::Length(length) if *length > self.body_bytes_max as u64 => {
                return Err(Fault::TooLarge);
            }
            Framing::Length(length) => {
                let left = (*length as usize).saturating_sub(self.body.len()).min(input.len());
                self.body.extend_from_slice(input.get(..left).unwrap_or_default());
                input.drain(..left);
                self.body.len() as u64 == *length
            }
            Framing::Chunked(chunks) => {
                let used = chunks.advance(input, &mut self.body, self.body_bytes_max);
                let used = used.map_err(|fault| match fault {
                    ChunkFault::Malformed(what) => Fault::Malformed(what),
                    ChunkFault::TooLarge => Fault::TooLarge,
                })?;
                input.drain(..used);
                chunks.is_done()
            }
            Framing::UntilClose => {
                if self.body.len() + input.len() > self.body_bytes_max {
                    return Err(Fault::TooLarge);
                }
                self.body.append(input);
                false
            }
        };
        if is_whole { self.finish(input.is_empty()) } else { Ok(Progress::NeedMore) }
    }

    /// The peer closed: the end of a body that has no other, else a cut-off response.
    ///
    /// # Errors
    /// `CutOff`, or a body that does not decode.
    pub fn end(&mut self) -> Result<Response, Fault> {
        let is_end = matches!(&self.head, Some(Head { framing: Framing::UntilClose, .. }));
        if !is_end {
            return Err(Fault::CutOff);
        }
        match self.finish(false)? {
            Progress::Done(response) => Ok(response),
            Progress::NeedMore => Err(Fault::CutOff),
        }
    }

    fn finish(&mut self, is_exact: bool) -> Result<Progress, Fault> {
        let Some(head) = self.head.take() else {
            return Ok(Progress::NeedMore);
        };
        let body = std::mem::take(&mut self.body);
        let coding = value(&head.headers, "content-encoding").unwrap_or_default();
        let body = match coding.to_ascii_lowercase().as_str() {
            "" | "identity" => body,
            "gzip" | "x-gzip" => gunzip(&body, self.body_bytes_max)?,
            _ => return Err(Fault::Malformed("a content coding that was not asked for")),
        };
        let reusable = head.is_kept_alive && is_exact;
        Ok(Progress::Done(Response { status: head.status, headers: head.headers, body, reusable }))
    }
}

/// The first field of that name, which is in lower case.
fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Parses a whole head, whose lines all end with CRLF.
fn parse_head(bytes: &[u8]) -> Result<Head, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::TooLarge),
        _ => return Err(Fault::Malformed("the head is not HTTP/1.x")),
    }
    let status = parsed.code.unwrap_or_default();
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|field| {
            let text = String::from_utf8_lossy(field.value.trim_ascii()).into_owned();
            (field.name.to_ascii_lowercase(), text)
        })
        .collect();
    let framing = framing(status, &headers)?;
    let says = |token| {
        let mut named = headers.iter().filter(|(name, _)| name == "connection");
        named.any(|(_, list)| lists(list.as_bytes(), token))
    };
    let is_kept_alive = match parsed.version {
        Some(1) => !says("close"),
        _ => says("keep-alive"),
    };
    let is_kept_alive = is_kept_alive && !matches!(framing, Framing::UntilClose);
    Ok(Head { status, headers, framing, is_kept_alive })
}

/// RFC 9112 §6.3, stricter: a length and a coding together, or two lengths, are refused.
fn framing(status: u16, headers: &[(String, String)]) -> Result<Framing, Fault> {
    let all = |name: &'static str| headers.iter().filter(move |(key, _)| key == name);
    let mut codings = all("transfer-encoding");
    let mut lengths = all("content-length");
    if status < 200 || status == 204 || status == 304 {
        return Ok(Framing::Length(0));
    }
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(Framing::UntilClose),
        (None, Some((_, length))) => {
            if lengths.any(|(_, other)| other != length) {
                return Err(Fault::Malformed("two lengths"));
            }
            let length = decimal(length.as_bytes());
            length.map(Framing::Length).ok_or(Fault::Malformed("a length that is no number"))
        }
        (Some((_, coding)), None)
            if coding.eq_ignore_ascii_case("chunked") && codings.next().is_none() =>
        {
            Ok(Framing::Chunked(Chunks::default()))
        }
        (Some(_), None) => Err(Fault::Malformed("a transfer coding other than chunked")),
        (Some(_), Some(_)) => Err(Fault::Malformed("a length and a transfer coding")),
    }
}

/// One gzip member and nothing after it: an engine has no reason to send more, and what follows a
/// member could be anything.
fn gunzip(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut decoded = Vec::new();
    let mut decoder = flate2::bufread::GzDecoder::new(body).take(bytes_max as u64 + 1);
    if decoder.read_to_end(&mut decoded).is_err() {
        return Err(Fault::Malformed("the body is not the gzip it is said to be"));
    }
    if decoded.len() > bytes_max {
        return Err(Fault::TooLarge);
    }
    if !decoder.into_inner().into_inner().is_empty() {
        return Err(Fault::Malformed("bytes follow the gzip body"));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_MAX: usize = 1 << 16;

    /// Reads `bytes` whole, and again split at every position: both must agree.
    fn read(bytes: &[u8]) -> Result<Option<(Response, usize)>, Fault> {
        let whole = feed(&[bytes]);
        for split in 1..bytes.len() {
            let (one, two) = bytes.split_at(split);
            let parts = feed(&[one, two]);
            let strip = |read: &Result<Option<(Response, usize)>, Fault>| {
                read.clone().map(|got| got.map(|(r, _)| (r.status, r.headers, r.body)))
            };
            assert_eq!(strip(&parts), strip(&whole), "split at {split}");
        }
        whole
    }

    fn feed(parts: &[&[u8]]) -> Result<Option<(Response, usize)>, Fault> {
        let mut reader = Reader::new(BODY_MAX);
        let mut input = Vec::new();
        for part in parts {
            input.extend_from_slice(part);
            if let Progress::Done(response) = reader.advance(&mut input)? {
                return Ok(Some((response, input.len())));
            }
        }
        Ok(None)
    }

    fn check(bytes: &[u8], body: &[u8], reusable: bool) {
        let (response, _) = read(bytes).expect("a response").expect("a whole one");
        assert_eq!((response.body.as_slice(), response.reusable), (body, reusable));
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn lengths_chunks_and_empty_bodies_leave_a_connection_reusable() {
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", true);
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                        3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        check(chunked, b"hello", true);
        check(b"HTTP/1.1 204 None\r\n\r\n", b"", true);
        check(b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", true);
    }

    #[test]
    fn surplus_bytes_and_closing_peers_are_not_reused() {
        let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200";
        let (response, left) = feed(&[surplus]).expect("a response").expect("a whole one");
        assert!(!response.reusable && left > 0);
        check(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", b"x", false);
        check(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", false);
    }

    #[test]
    fn a_body_may_end_with_the_connection_but_not_in_its_middle() {
        let mut reader = Reader::new(BODY_MAX);
        let mut input = b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec();
        assert_eq!(reader.advance(&mut input), Ok(Progress::NeedMore));
        let response = reader.end().expect("whole");
        assert_eq!((response.body.as_slice(), response.reusable), (&b"until the end"[..], false));
        let mut reader = Reader::new(BODY_MAX);
        let mut input = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_vec();
        assert_eq!(reader.advance(&mut input), Ok(Progress::NeedMore));
        assert_eq!(reader.end(), Err(Fault::CutOff));
    }

    #[test]
    fn framing_that_could_be_read_in_two_ways_is_refused() {
        for head in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: +5",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
            assert!(matches!(read(bytes.as_bytes()), Err(Fault::Malformed(_))), "{head}");
        }
    }

    #[test]
    fn gzip_is_decoded_within_the_bound() {
        let with = |body: &[u8]| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            [head.as_bytes(), body].concat()
        };
        check(&with(&gzip(b"hello")), b"hello", true);
        let whole = gzip(b"hello");
        assert!(matches!(feed(&[&with(&whole[..whole.len() - 3])]), Err(Fault::Malformed(_))));
        assert!(matches!(feed(&[&with(b"\x1f\x8b\x08\x00garbage")]), Err(Fault::Malformed(_))));
        assert_eq!(feed(&[&with(&gzip(&vec![0; BODY_MAX + 1]))]), Err(Fault::TooLarge));
        for after in [gzip(b"more"), b"garbage".to_vec()] {
            let two = [gzip(b"hello"), after].concat();
            assert!(matches!(feed(&[&with(&two)]), Err(Fault::Malformed(_))));
        }
    }

    #[test]
    fn a_gzip_body_must_be_what_its_end_says() {
        let text = "results ".repeat(4_000).into_bytes();
        let whole = gzip(&text);
        assert_eq!(gunzip(&whole, BODY_MAX), Ok(text));
        for place in whole.len() - 8..whole.len() {
            let mut wrong = whole.clone();
            wrong[place] ^= 1;
            assert!(gunzip(&wrong, BODY_MAX).is_err(), "byte {place}");
        }
        for end in 0..whole.len() {
            let cut = gunzip(&whole[..end], BODY_MAX);
            assert!(matches!(cut, Err(Fault::Malformed(_))), "cut at {end}");
        }
    }

    #[test]
    fn nothing_grows_without_a_bound() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(feed(&[&long.as_bytes()[..HEAD_BYTES_MAX + 9]]), Err(Fault::TooLarge));
        let declared = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        assert_eq!(feed(&[declared]), Err(Fault::TooLarge));
        let interim = b"HTTP/1.1 103 Hints\r\n\r\n".repeat(INTERIM_MAX + 1);
        assert!(feed(&[&interim]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn strangers_bytes_never_panic(bytes in proptest::collection::vec(0_u8.., 0..400)) {
            let _ = feed(&[&bytes]);
            let _ = feed(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes]);
        }
    }
}
