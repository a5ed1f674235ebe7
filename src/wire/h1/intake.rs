//! Requests out of a connection's bytes: one at a time, each whole before anyone sees it.
//!
//! `advance` is handed the bytes not yet used, takes away those of the next request and calls back
//! with it; what follows stays for the next call. The bytes of a body are never taken for a
//! request: a request is used up with its body, or refused and the connection with it.
//!
//! Bounds: a head of `header_bytes_max`, a body of `body_bytes_max` after decoding, 8 empty lines
//! before a request.

use super::chunks::{ChunkFault, Chunks};
use super::head::{self, Framing, RequestHead};
use super::scan::{Found, Scan};
use crate::model::Refusal;

/// Empty lines borne before a request line (RFC 9112 §2.2 asks for one at least).
const EMPTY_LINES_MAX: u8 = 8;

/// The bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Of the request line and all fields, in bytes.
    pub header_bytes_max: usize,
    /// Of the body without its coding, in bytes.
    pub body_bytes_max: usize,
}

/// What a call of `advance` came to.
#[derive(Debug)]
pub enum Progress<R> {
    /// The bytes so far are the beginning of a request, or nothing.
    NeedMore,
    /// As `NeedMore`, and the caller waits for `100 Continue`; said once per request.
    Continue,
    /// A request was whole; this is what the callback gave.
    Whole(R),
    /// The bytes are no acceptable request; the connection must close after this answer.
    Refused(Refusal),
}

/// The reader of one connection's requests.
#[derive(Debug, Default)]
pub struct Intake {
    state: State,
}

#[derive(Debug)]
enum State {
    Head { scan: Scan, empty_lines: u8 },
    Length { head_bytes: usize, total_bytes: usize },
    Chunked { head_bytes: usize, decoder: Box<(Chunks, Vec<u8>)> },
}

impl Default for State {
    fn default() -> Self {
        Self::Head { scan: Scan::default(), empty_lines: 0 }
    }
}

impl Intake {
    /// Whether a head has been read and its body has not.
    pub fn is_in_body(&self) -> bool {
        !matches!(self.state, State::Head { .. })
    }

    /// How long the input's buffer must become to hold the rest of the request: 0 if not known.
    pub fn wanted_bytes(&self) -> usize {
        match self.state {
            State::Length { total_bytes, .. } => total_bytes,
            _ => 0,
        }
    }

    /// Reads on in `input`, which holds all bytes not yet taken away. Once a request is whole,
    /// `whole` is called with it and its body, and its bytes are taken away.
    pub fn advance<R>(
        &mut self,
        input: &mut Vec<u8>,
        bounds: Bounds,
        whole: impl FnOnce(&RequestHead<'_>, &[u8]) -> R,
    ) -> Progress<R> {
        match self.try_advance(input, bounds, whole) {
            Ok(progress) => progress,
            Err(refusal) => Progress::Refused(refusal),
        }
    }

    fn try_advance<R>(
        &mut self,
        input: &mut Vec<u8>,
        bounds: Bounds,
        whole: impl FnOnce(&RequestHead<'_>, &[u8]) -> R,
    ) -> Result<Progress<R>, Refusal> {
        match &mut self.state {
            State::Head { .. } => self.head(input, bounds, whole),
            State::Length { head_bytes, total_bytes } => {
                let (head_bytes, total_bytes) = (*head_bytes, *total_bytes);
                if input.len() < total_bytes {
                    return Ok(Progress::NeedMore);
                }
                self.deliver(input, bounds, (head_bytes, total_bytes), whole)
            }
            State::Chunked { .. } => self.chunked(input, bounds, whole),
        }
    }

    /// Waits for the end of the head, then learns how the body is framed.
    fn head<R>(
        &mut self,
        input: &mut Vec<u8>,
        bounds: Bounds,
        whole: impl FnOnce(&RequestHead<'_>, &[u8]) -> R,
    ) -> Result<Progress<R>, Refusal> {
        let Some(head_bytes) = self.find_head(input, bounds)? else {
            return Ok(Progress::NeedMore);
        };
        let mut slots = head::field_slots();
        let bytes = input.get(..head_bytes).unwrap_or_default();
        let request = head::parse(bytes, &mut slots, bounds.header_bytes_max)?;
        let has_body_bytes = input.len() > head_bytes;
        match request.framing {
            Framing::Empty => {
                let given = whole(&request, b"");
                self.finish(input, head_bytes);
                return Ok(Progress::Whole(given));
            }
            Framing::Length(length) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > bounds.body_bytes_max {
                    return Err(Refusal::BodyTooLarge(bounds.body_bytes_max));
                }
                let total_bytes = head_bytes.saturating_add(length);
                if input.len() >= total_bytes {
                    let body = input.get(head_bytes..total_bytes).unwrap_or_default();
                    let given = whole(&request, body);
                    self.finish(input, total_bytes);
                    return Ok(Progress::Whole(given));
                }
                self.state = State::Length { head_bytes, total_bytes };
            }
            Framing::Chunked => {
                self.state = State::Chunked { head_bytes, decoder: Box::default() };
            }
        }
        if request.expects_continue && !has_body_bytes {
            return Ok(Progress::Continue);
        }
        if request.framing == Framing::Chunked && has_body_bytes {
            return self.chunked(input, bounds, whole);
        }
        Ok(Progress::NeedMore)
    }

    /// The head's length, once its end is there.
    fn find_head(&mut self, input: &mut Vec<u8>, bounds: Bounds) -> Result<Option<usize>, Refusal> {
        let State::Head { scan, empty_lines } = &mut self.state else {
            debug_assert!(false, "only called before the head is whole");
            return Ok(None);
        };
        while input.starts_with(b"\r\n") {
            *empty_lines = empty_lines.saturating_add(1);
            if *empty_lines > EMPTY_LINES_MAX {
                return Err(Refusal::BadRequest("Too many empty lines before the request line."));
            }
            input.drain(..2);
        }
        if input == b"\r" {
            return Ok(None);
        }
        let end = match scan.advance(input) {
            Found::Fault(what) => return Err(Refusal::BadRequest(what)),
            Found::End(end) => end,
            Found::NeedMore => input.len(),
        };
        let max = bounds.header_bytes_max;
        if end > max {
            let line = memchr::memchr(b'\n', input).unwrap_or(input.len());
            return Err(match line >= max {
                true => Refusal::TargetTooLong(max),
                false => Refusal::HeadersTooLarge(max),
            });
        }
        Ok(input.get(..end).filter(|head| head.ends_with(b"\r\n\r\n")).map(<[u8]>::len))
    }

    /// Decodes what is there of a chunked body, and takes its bytes out of `input`.
    fn chunked<R>(
        &mut self,
        input: &mut Vec<u8>,
        bounds: Bounds,
        whole: impl FnOnce(&RequestHead<'_>, &[u8]) -> R,
    ) -> Result<Progress<R>, Refusal> {
        let State::Chunked { head_bytes, decoder } = &mut self.state else {
            debug_assert!(false, "only called in a chunked body");
            return Ok(Progress::NeedMore);
        };
        let head_bytes = *head_bytes;
        let (chunks, body) = &mut **decoder;
        let raw = input.get(head_bytes..).unwrap_or_default();
        let used =
            chunks.advance(raw, body, bounds.body_bytes_max).map_err(|fault| match fault {
                ChunkFault::Malformed(what) => Refusal::BadRequest(what),
                ChunkFault::TooLarge => Refusal::BodyTooLarge(bounds.body_bytes_max),
            })?;
        input.drain(head_bytes..head_bytes.saturating_add(used));
        if !chunks.is_done() {
            return Ok(Progress::NeedMore);
        }
        let body = std::mem::take(body);
        let mut slots = head::field_slots();
        let bytes = input.get(..head_bytes).unwrap_or_default();
        let request = head::parse(bytes, &mut slots, bounds.header_bytes_max)?;
        let given = whole(&request, &body);
        self.finish(input, head_bytes);
        Ok(Progress::Whole(given))
    }

    fn deliver<R>(
        &mut self,
        input: &mut Vec<u8>,
        bounds: Bounds,
        (head_bytes, total_bytes): (usize, usize),
        whole: impl FnOnce(&RequestHead<'_>, &[u8]) -> R,
    ) -> Result<Progress<R>, Refusal> {
        let mut slots = head::field_slots();
        let bytes = input.get(..head_bytes).unwrap_or_default();
        let request = head::parse(bytes, &mut slots, bounds.header_bytes_max)?;
        let given = whole(&request, input.get(head_bytes..total_bytes).unwrap_or_default());
        self.finish(input, total_bytes);
        Ok(Progress::Whole(given))
    }

    fn finish(&mut self, input: &mut Vec<u8>, used: usize) {
        debug_assert!(used <= input.len());
        input.drain(..used.min(input.len()));
        self.state = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { header_bytes_max: 256, body_bytes_max: 16 };

    /// What came of a connection's bytes: each request as `path:body`, then a refusal's status.
    fn read(parts: &[&[u8]]) -> (Vec<String>, Option<u16>, usize) {
        let (mut intake, mut input, mut seen) = (Intake::default(), Vec::new(), Vec::new());
        for part in parts {
            input.extend_from_slice(part);
            loop {
                let progress = intake.advance(&mut input, BOUNDS, |request, body| {
                    format!("{}:{}", request.head.path, String::from_utf8_lossy(body))
                });
                match progress {
                    Progress::Whole(request) => seen.push(request),
                    Progress::Refused(refusal) => return (seen, Some(refusal.status()), 0),
                    Progress::NeedMore => break,
                    Progress::Continue => {}
                }
            }
        }
        (seen, None, input.len())
    }

    /// The same whole, split anywhere in two, and byte by byte.
    fn check(text: &str, requests: &[&str], status: Option<u16>) {
        let text = text.replace('\n', "\r\n");
        let bytes = text.as_bytes();
        for split in 0..=bytes.len() {
            let (seen, refused, _) = read(&[&bytes[..split], &bytes[split..]]);
            assert_eq!((seen, refused), (requests.iter().map(|r| (*r).into()).collect(), status));
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let (seen, refused, _) = read(&single);
        assert_eq!((seen, refused), (requests.iter().map(|r| (*r).into()).collect(), status));
    }

    const GET: &str = "GET /a HTTP/1.1\nHost: x\n\n";

    #[test]
    fn pipelined_requests_come_in_order() {
        check(&GET.repeat(3), &["/a:", "/a:", "/a:"], None);
        let post = "POST /p HTTP/1.1\nHost: x\nContent-Length: 4\n\nbody";
        check(&format!("{GET}{post}{GET}"), &["/a:", "/p:body", "/a:"], None);
    }

    #[test]
    fn a_chunked_body_ends_where_it_says() {
        let post =
            "POST /c HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n1\nd\n0\nT: v\n\n";
        check(&format!("{post}{GET}"), &["/c:abcd", "/a:"], None);
    }

    #[test]
    fn a_body_that_looks_like_a_request_is_a_body() {
        let post = "POST /p HTTP/1.1\nHost: x\nContent-Length: 7\n\nGET /xx";
        check(&format!("{post}{GET}"), &["/p:GET /xx", "/a:"], None);
    }

    #[test]
    fn bounds_are_refusals() {
        check("POST / HTTP/1.1\nHost: x\nContent-Length: 17\n\n", &[], Some(413));
        check("POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n11\n", &[], Some(413));
        let long = "a".repeat(300);
        check(&format!("GET /{long} HTTP/1.1\nHost: x\n\n"), &[], Some(414));
        check(&format!("GET / HTTP/1.1\nHost: x\nX: {long}\n\n"), &[], Some(431));
        check(&"\n".repeat(9), &[], Some(400));
        check(&format!("\n\n{GET}"), &["/a:"], None);
        check("GET / HTTP/1.1\nHost: x\nExpect: tea\n\n", &[], Some(417));
    }

    #[test]
    fn a_caller_that_waits_is_told_to_go_on_once() {
        let head =
            b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        let (mut intake, mut input) = (Intake::default(), head.to_vec());
        let mut advance = |input: &mut Vec<u8>| intake.advance(input, BOUNDS, |_, _| ());
        assert!(matches!(advance(&mut input), Progress::Continue));
        assert!(matches!(advance(&mut input), Progress::NeedMore));
        input.extend_from_slice(b"ok");
        assert!(matches!(advance(&mut input), Progress::Whole(())));
        input.extend_from_slice(head);
        input.extend_from_slice(b"ok");
        assert!(matches!(advance(&mut input), Progress::Whole(())));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_splits_do_not_matter(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            at in 0_usize..400,
        ) {
            let (start, end) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(read(&[&bytes]), read(&[start, end]));
        }

        #[test]
        fn nearly_right_bytes_neither(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..14),
            at in 0_usize..400,
        ) {
            let bytes = pieces.concat();
            let (start, end) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(read(&[&bytes]), read(&[start, end]));
        }
    }

    const PIECES: &[&[u8]] = &[
        b"GET /a HTTP/1.1\r\n",
        b"POST /b HTTP/1.1\r\n",
        b"HEAD * HTTP/1.0\r\n",
        b"Host: x\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"3\r\nabc\r\n",
        b"0\r\n",
        b"abc",
        b" ",
        b":",
        b"\0",
    ];
}
