//! Reads one HTTP/1.1 answer off a stream of bytes: the head (httparse), then the body by length,
//! by chunks or to the end (RFC 9112 §6.3), keeping nothing of the body but its size.
//!
//! The bytes are a stranger's: nothing here may panic, and every size has a maximum.

/// A longer head is an error.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// `X-Cache` values are cut to this length.
const LABEL_BYTES_MAX: usize = 16;

/// What a head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status code.
    pub(crate) status: u16,
    /// Whether the connection may carry another request.
    pub(crate) is_reusable: bool,
    /// `own;dur=` of `Server-Timing`, in µs: what the answer spent in the server's own code.
    pub(crate) own_us: Option<u64>,
    /// `X-Cache`.
    pub(crate) cache: Option<String>,
}

/// Why an answer could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Not HTTP/1.1.
    Malformed,
    /// The head is longer than `HEAD_BYTES_MAX`.
    HeadTooLarge,
    /// More bytes than the answer has: the next answer to nobody.
    Surplus,
    /// The peer ended the stream within the answer.
    CutShort,
}

/// The state of one answer being read.
#[derive(Debug)]
pub(crate) struct Reader {
    head_bytes: Vec<u8>,
    head: Option<Head>,
    body: Body,
    is_complete: bool,
    /// Size of head and body so far.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
enum Body {
    Length(u64),
    Chunks(Chunks),
    ToEnd,
}

impl Reader {
    /// Before the first byte.
    pub(crate) fn new() -> Self {
        Self { head_bytes: Vec::new(), head: None, body: Body::ToEnd, is_complete: false, bytes: 0 }
    }

    /// Takes the next bytes. Gives the head once the answer is complete.
    ///
    /// # Errors
    /// See `Broken`.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Head>, Broken> {
        self.bytes += bytes.len() as u64;
        if self.is_complete {
            return Err(Broken::Surplus);
        }
        if self.head.is_some() {
            return self.feed_body(bytes);
        }
        if self.head_bytes.is_empty()
            && let Some(length) = self.parse_head(bytes)?
        {
            return self.feed_body(bytes.get(length..).unwrap_or_default());
        }
        self.head_bytes.extend_from_slice(bytes);
        let whole = std::mem::take(&mut self.head_bytes);
        if let Some(length) = self.parse_head(&whole)? {
            return self.feed_body(whole.get(length..).unwrap_or_default());
        }
        if whole.len() > HEAD_BYTES_MAX {
            return Err(Broken::HeadTooLarge);
        }
        self.head_bytes = whole;
        Ok(None)
    }

    /// The peer sent its last byte. Gives the head of an answer that ends so.
    ///
    /// # Errors
    /// `CutShort` within an answer.
    pub(crate) fn finish(&mut self) -> Result<Head, Broken> {
        match (self.head.take(), &self.body) {
            (Some(head), Body::ToEnd) => Ok(head),
            _ => Err(Broken::CutShort),
        }
    }

    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Broken::Malformed),
        };
        let status = response.code.ok_or(Broken::Malformed)?;
        let mut head =
            Head { status, is_reusable: response.version == Some(1), own_us: None, cache: None };
        self.body =
            if matches!(status, 100..=199 | 204 | 304) { Body::Length(0) } else { Body::ToEnd };
        for header in response.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            match header.name {
                name if name.eq_ignore_ascii_case("content-length") => {
                    let length = value.parse().map_err(|_| Broken::Malformed)?;
                    if !matches!(self.body, Body::Chunks(_)) {
                        self.body = Body::Length(length);
                    }
                }
                name if name.eq_ignore_ascii_case("transfer-encoding") => {
                    self.body = Body::Chunks(Chunks::default());
                }
                name if name.eq_ignore_ascii_case("connection") => {
                    head.is_reusable &= !value.eq_ignore_ascii_case("close");
                }
                name if name.eq_ignore_ascii_case("server-timing") => {
                    head.own_us = own_us(value).or(head.own_us);
                }
                name if name.eq_ignore_ascii_case("x-cache") => {
                    head.cache = Some(value.chars().take(LABEL_BYTES_MAX).collect());
                }
                _ => {}
            }
        }
        head.is_reusable &= !matches!(self.body, Body::ToEnd);
        self.head = Some(head);
        Ok(Some(length))
    }

    fn feed_body(&mut self, bytes: &[u8]) -> Result<Option<Head>, Broken> {
        self.is_complete = match &mut self.body {
            Body::ToEnd => false,
            Body::Length(left) => {
                *left = left.checked_sub(bytes.len() as u64).ok_or(Broken::Surplus)?;
                *left == 0
            }
            Body::Chunks(chunks) => chunks.feed(bytes)?,
        };
        Ok(if self.is_complete { self.head.take() } else { None })
    }
}

/// `own;dur=0.321` (ms, at most 3 decimals are kept) out of a `Server-Timing` value, as µs.
fn own_us(value: &str) -> Option<u64> {
    let metric = value
        .split(',')
        .map(str::trim)
        .find(|metric| metric.split(';').next().is_some_and(|name| name.trim() == "own"))?;
    let ms: f64 =
        metric.split(';').find_map(|part| part.trim().strip_prefix("dur="))?.parse().ok()?;
    (ms.is_finite() && ms >= 0.0).then_some((ms * 1e3).round() as u64)
}

/// RFC 9112 §7.1, without interest in extensions and trailers.
#[derive(Debug, Default)]
struct Chunks {
    at: ChunkAt,
    size: u64,
    digits: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ChunkAt {
    #[default]
    Size,
    SizeTail,
    Data,
    DataEnd,
    TrailerStart,
    Trailer,
    End,
}

impl Chunks {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<bool, Broken> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.at == ChunkAt::Data {
                let taken = usize::try_from(self.size).unwrap_or(usize::MAX).min(bytes.len());
                self.size -= taken as u64;
                bytes = bytes.get(taken..).unwrap_or_default();
                if self.size == 0 {
                    self.at = ChunkAt::DataEnd;
                }
                continue;
            }
            self.step(byte)?;
            bytes = rest;
        }
        Ok(self.at == ChunkAt::End)
    }

    fn step(&mut self, byte: u8) -> Result<(), Broken> {
        self.at = match (self.at, byte) {
            (ChunkAt::Size, _) if byte.is_ascii_hexdigit() && self.digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.size = self.size * 16 + u64::from(digit);
                self.digits += 1;
                ChunkAt::Size
            }
            (ChunkAt::Size, b'\r' | b';' | b' ') if self.digits > 0 => ChunkAt::SizeTail,
            (ChunkAt::SizeTail, b'\n') => {
                self.digits = 0;
                if self.size == 0 { ChunkAt::TrailerStart } else { ChunkAt::Data }
            }
            (ChunkAt::SizeTail, _) => ChunkAt::SizeTail,
            (ChunkAt::DataEnd, b'\r') => ChunkAt::DataEnd,
            (ChunkAt::DataEnd, b'\n') => ChunkAt::Size,
            (ChunkAt::TrailerStart, b'\r') => ChunkAt::TrailerStart,
            (ChunkAt::TrailerStart, b'\n') => ChunkAt::End,
            (ChunkAt::Trailer, b'\n') => ChunkAt::TrailerStart,
            (ChunkAt::TrailerStart | ChunkAt::Trailer, _) => ChunkAt::Trailer,
            (ChunkAt::End, _) => return Err(Broken::Surplus),
            _ => return Err(Broken::Malformed),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` whole and byte by byte; both ways give the same.
    fn check(text: &str, expected: Result<Option<(u16, bool)>, Broken>) {
        let short = |head: Option<Head>| head.map(|head| (head.status, head.is_reusable));
        let whole = Reader::new().feed(text.as_bytes()).map(short);
        assert_eq!(whole, expected, "{text:?}");
        let mut reader = Reader::new();
        let mut last = Ok(None);
        for byte in text.as_bytes() {
            last = reader.feed(&[*byte]).map(short);
            if last.is_err() {
                break;
            }
        }
        assert_eq!(last, expected, "{text:?}, byte by byte");
    }

    #[test]
    fn bodies_end_where_they_say() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Ok(Some((200, true))));
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Ok(None));
        check("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", Ok(Some((302, true))));
        check("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n", Ok(Some((204, false))));
        check("HTTP/1.0 404 No\r\nContent-Length: 1\r\n\r\nx", Ok(Some((404, false))));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(
            &format!("{chunked}3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\n\r\n"),
            Ok(Some((200, true))),
        );
        check(&format!("{chunked}0\r\nTrailer: x\r\n\r\n"), Ok(Some((200, true))));
        check(&format!("{chunked}3\r\nabc\r\n"), Ok(None));
    }

    #[test]
    fn broken_answers_are_told_apart() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", Err(Broken::Surplus));
        check("SSH-2.0-OpenSSH\r\n", Err(Broken::Malformed));
        check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err(Broken::Malformed));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{chunked}zz\r\n"), Err(Broken::Malformed));
        check(&format!("{chunked}0\r\n\r\nHTTP"), Err(Broken::Surplus));
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        check(&long, Err(Broken::HeadTooLarge));
    }

    #[test]
    fn an_end_completes_only_a_body_that_runs_to_it() {
        let mut reader = Reader::new();
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nabc"), Ok(None));
        assert!(reader.finish().is_ok_and(|head| !head.is_reusable));
        let mut reader = Reader::new();
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), Ok(None));
        assert_eq!(reader.finish(), Err(Broken::CutShort));
        assert_eq!(Reader::new().finish(), Err(Broken::CutShort));
    }

    #[test]
    fn own_time_and_cache_are_read() {
        let text = b"HTTP/1.1 200 OK\r\nServer-Timing: total;dur=12.345, own;dur=0.321\r\n\
                     X-Cache: hit\r\nContent-Length: 0\r\n\r\n";
        let head = Reader::new().feed(text).expect("sound").expect("complete");
        assert_eq!((head.own_us, head.cache.as_deref()), (Some(321), Some("hit")));
        for value in ["own", "own;dur=x", "town;dur=1", "own;dur=-1", "own;dur=inf", ""] {
            assert_eq!(own_us(value), None, "{value}");
        }
    }
}
