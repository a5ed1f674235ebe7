//! A request's head: `httparse` splits it, this file decides what it means and refuses what could
//! mean two things (RFC 9112 §3, §6). The head is whole and all its lines end with CRLF (`scan`).
//!
//! Refused with 400: no or two hosts, `Content-Length` beside `Transfer-Encoding`, either of them
//! twice, any coding in HTTP/1.0, targets with bytes outside printable ASCII or with a fragment.
//! Refused with 501: codings other than `chunked` under a final `chunked`.

use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

use super::{decimal, lists};
use crate::head::{Field, Head, Headers, Method};
use crate::model::Refusal;

/// Fields of one head, at most; more are refused with 431. A browser sends about 20.
pub const FIELDS_MAX: usize = 96;

/// Room for a head's fields, on the stack of whoever parses.
pub type FieldSlots<'a> = [MaybeUninit<Field<'a>>; FIELDS_MAX];

/// Empty room.
pub const fn field_slots<'a>() -> FieldSlots<'a> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// How a request's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is none.
    Empty,
    /// So many bytes, at least 1.
    Length(u64),
    /// By chunks.
    Chunked,
}

/// What becomes of the connection after the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// It stays, as HTTP/1.1 implies.
    Stays,
    /// It stays, and an HTTP/1.0 caller must be told so.
    StaysIfTold,
    /// It closes.
    Closes,
}

/// A head that has passed all checks.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// What the stages see.
    pub head: Head<'a>,
    /// What follows it.
    pub framing: Framing,
    /// What the caller wants of the connection.
    pub persistence: Persistence,
    /// Whether the caller waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// Parses a whole head: `bytes` end with its empty line.
///
/// # Errors
/// The refusal that the caller is told; after all of them the connection must close.
pub fn parse<'s, 'b: 's>(
    bytes: &'b [u8],
    slots: &'s mut FieldSlots<'b>,
    header_bytes_max: usize,
) -> Result<RequestHead<'s>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, slots) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(Refusal::BadRequest("The head is not well-formed.")),
        Err(error) => return Err(refusal(error, bytes, header_bytes_max)),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Refusal::BadRequest("The request line is not whole."));
    };
    let fields: &'s [Field<'b>] = request.headers;
    let headers = Headers::new(fields);
    let is_old = version == 0;
    let method = Method::parse(method);
    let target = parse_target(method, target)?;
    let field_host = parse_host(headers, is_old)?;
    Ok(RequestHead {
        head: Head {
            method,
            path: target.path,
            query: target.query,
            headers,
            host: target.authority.unwrap_or(field_host),
        },
        framing: parse_framing(headers, is_old)?,
        persistence: parse_persistence(headers, is_old),
        expects_continue: parse_expectation(headers, is_old)?,
    })
}

struct Target<'a> {
    path: &'a str,
    query: &'a [u8],
    authority: Option<&'a [u8]>,
}

/// The four forms of RFC 9112 §3.2. The authority form is CONNECT's alone, which no route serves;
/// it becomes a path that does not exist.
fn parse_target(method: Method, target: &str) -> Result<Target<'_>, Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !target.bytes().all(is_plain) {
        return Err(Refusal::BadRequest("Percent-encode the request target; send no fragment."));
    }
    if target.starts_with('/') {
        return Ok(split(target, None));
    }
    if target == "*" && method == Method::Options {
        return Ok(Target { path: target, query: b"", authority: None });
    }
    if method == Method::Connect {
        return Ok(Target { path: target, query: b"", authority: None });
    }
    let Some(rest) = strip_scheme(target) else {
        return Err(Refusal::BadRequest("The request target must begin with '/'."));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !is_host(authority.as_bytes()) {
        return Err(Refusal::BadRequest("The target's authority is not a host."));
    }
    Ok(split(path, Some(authority.as_bytes())))
}

fn strip_scheme(target: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

fn split<'a>(target: &'a str, authority: Option<&'a [u8]>) -> Target<'a> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Target { path: if path.is_empty() { "/" } else { path }, query: query.as_bytes(), authority }
}

/// Exactly one host in HTTP/1.1, at most one in HTTP/1.0 (RFC 9112 §3.2).
fn parse_host(headers: Headers<'_>, is_old: bool) -> Result<&[u8], Refusal> {
    let mut hosts = headers.all("host");
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host) => Ok(host),
        (None, None) if is_old => Ok(b""),
        (Some(_), None) => Err(Refusal::BadRequest("The Host field is not a host.")),
        (Some(_), Some(_)) => Err(Refusal::BadRequest("Send one Host field, not more.")),
        (None, _) => Err(Refusal::BadRequest("Send a Host field.")),
    }
}

/// `uri-host [ ":" port ]` (RFC 3986 §3.2.2), without user information: a name by its characters,
/// or an IPv6 address in brackets, and perhaps a port.
fn is_host(host: &[u8]) -> bool {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|byte| *byte == b']').map(|at| at + 1),
        _ => host.iter().position(|byte| *byte == b':').or(Some(host.len())),
    };
    let Some((name, rest)) = end.and_then(|end| host.split_at_checked(end)) else {
        return false;
    };
    let is_named = match name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")) {
        Some(address) => str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
        None => !name.is_empty() && name.iter().all(is_of_name),
    };
    is_named && is_port(rest)
}

fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~' | b'%')
}

/// Nothing, or a colon and a number below 65,536; the number may be left out.
fn is_port(rest: &[u8]) -> bool {
    match rest.strip_prefix(b":") {
        Some(digits) => digits.is_empty() || decimal(digits).is_some_and(|port| port < 1 << 16),
        None => rest.is_empty(),
    }
}

/// RFC 9112 §6.3, where any doubt is a refusal.
fn parse_framing(headers: Headers<'_>, is_old: bool) -> Result<Framing, Refusal> {
    let mut codings = headers.all("transfer-encoding");
    let mut lengths = headers.all("content-length");
    let framing = match (codings.next(), lengths.next()) {
        (None, None) => Framing::Empty,
        (Some(_), Some(_)) => {
            return Err(Refusal::BadRequest("Send Content-Length or Transfer-Encoding, not both."));
        }
        (Some(_), None) if is_old => {
            return Err(Refusal::BadRequest("HTTP/1.0 has no Transfer-Encoding."));
        }
        (Some(coding), None) => parse_coding(coding)?,
        (None, Some(digits)) => match decimal(digits) {
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => return Err(Refusal::BadRequest("Content-Length is not one number.")),
        },
    };
    if codings.next().is_some() || lengths.next().is_some() {
        return Err(Refusal::BadRequest("The body's framing is given twice."));
    }
    Ok(framing)
}

fn parse_coding(coding: &[u8]) -> Result<Framing, Refusal> {
    if coding.eq_ignore_ascii_case(b"chunked") {
        return Ok(Framing::Chunked);
    }
    let last = coding.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    if last.eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal::NotImplemented("Send the body chunked, in no other coding."));
    }
    Err(Refusal::BadRequest("Transfer-Encoding must be 'chunked' and nothing else."))
}

/// RFC 9112 §9.3.
fn parse_persistence(headers: Headers<'_>, is_old: bool) -> Persistence {
    let wants = |option: &str| headers.all("connection").any(|list| lists(list, option));
    match is_old {
        _ if wants("close") => Persistence::Closes,
        false => Persistence::Stays,
        true if wants("keep-alive") => Persistence::StaysIfTold,
        true => Persistence::Closes,
    }
}

/// RFC 9110 §10.1.1; HTTP/1.0 knows no expectations.
fn parse_expectation(headers: Headers<'_>, is_old: bool) -> Result<bool, Refusal> {
    match headers.get("expect") {
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(!is_old),
        Some(_) if !is_old => Err(Refusal::ExpectationFailed),
        _ => Ok(false),
    }
}

fn refusal(error: httparse::Error, bytes: &[u8], header_bytes_max: usize) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal::HeadersTooLarge(header_bytes_max),
        httparse::Error::Version if has_other_version(bytes) => Refusal::VersionNotSupported,
        httparse::Error::HeaderName => Refusal::BadRequest("A field's name is not a token."),
        httparse::Error::HeaderValue => {
            Refusal::BadRequest("A field's value holds a control character.")
        }
        httparse::Error::NewLine => Refusal::BadRequest("A line does not end with CRLF."),
        _ => Refusal::BadRequest("The request line is not 'METHOD TARGET HTTP/1.1'."),
    }
}

/// Whether the first line is well-formed but for a version that is not 1.0 or 1.1.
fn has_other_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let version = words.nth(2).and_then(|word| word.strip_prefix(b"HTTP/"));
    words.next().is_none()
        && matches!(version, Some([major, b'.', minor])
            if major.is_ascii_digit() && minor.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &str, expected: Result<(&str, &str, &str, Framing), u16>) {
        let text = lines.replace('\n', "\r\n") + "\r\n\r\n";
        let mut slots = field_slots();
        let got = parse(text.as_bytes(), &mut slots, 16_384);
        let got = got.as_ref().map_err(Refusal::status).map(|request| {
            let text = |bytes| std::str::from_utf8(bytes).expect("text");
            (request.head.path, text(request.head.query), text(request.head.host), request.framing)
        });
        assert_eq!(got, expected, "{lines}");
    }

    #[test]
    fn targets_come_in_four_forms() {
        let empty = Framing::Empty;
        check("GET /a?b=c?d HTTP/1.1\nHost: x", Ok(("/a", "b=c?d", "x", empty)));
        check("GET hTTp://y:8/a?b HTTP/1.1\nHost: x", Ok(("/a", "b", "y:8", empty)));
        check("GET http://y?b HTTP/1.1\nHost: x", Ok(("/", "b", "y", empty)));
        check("OPTIONS * HTTP/1.1\nHost: x", Ok(("*", "", "x", empty)));
        check("CONNECT x:443 HTTP/1.1\nHost: x", Ok(("x:443", "", "x", empty)));
        for target in
            ["a", "*", "*/a", "x:80", "/a#b", "http://", "http://u@x/", "/\u{e4}", "//a b"]
        {
            check(&format!("GET {target} HTTP/1.1\nHost: x"), Err(400));
        }
    }

    #[test]
    fn there_is_one_host() {
        check("GET / HTTP/1.1\nA: b", Err(400));
        check("GET / HTTP/1.1\nHost:", Err(400));
        check("GET / HTTP/1.1\nHost: x\nHost: x", Err(400));
        check("GET / HTTP/1.1\nHost: x/y", Err(400));
        for host in ["x:y", "x:80:80", "x:65536", ":80", "[::1", "[::1]80", "[x]", "::1", "a b"] {
            check(&format!("GET / HTTP/1.1\nHost: {host}"), Err(400));
            check(&format!("GET http://{host}/ HTTP/1.1\nHost: x"), Err(400));
        }
        for host in ["x:80", "x:", "127.0.0.1:80", "x."] {
            check(&format!("GET / HTTP/1.1\nHost: {host}"), Ok(("/", "", host, Framing::Empty)));
        }
        check("GET / HTTP/1.0\nA: b", Ok(("/", "", "", Framing::Empty)));
        check("GET / HTTP/1.1\nHost: [::1]:80", Ok(("/", "", "[::1]:80", Framing::Empty)));
    }

    #[test]
    fn framing_in_doubt_is_refused() {
        let post = |fields: &str, expected| {
            let expected: Result<Framing, u16> = expected;
            let expected = expected.map(|framing| ("/", "", "x", framing));
            check(&format!("POST / HTTP/1.1\nHost: x\n{fields}"), expected);
        };
        post("Content-Length: 9", Ok(Framing::Length(9)));
        post("Content-Length: 0", Ok(Framing::Empty));
        post("Transfer-Encoding: CHUNKED", Ok(Framing::Chunked));
        post("Content-Length: 9\nTransfer-Encoding: chunked", Err(400));
        post("Content-Length: 9\nContent-Length: 9", Err(400));
        post("Content-Length: 9, 9", Err(400));
        post("Transfer-Encoding: chunked\nTransfer-Encoding: chunked", Err(400));
        post("Transfer-Encoding: gzip, chunked", Err(501));
        for coding in ["chunked,", "chunked, gzip", "\"chunked\"", "xchunked", "identity", ""] {
            post(&format!("Transfer-Encoding: {coding}"), Err(400));
        }
        check("POST / HTTP/1.0\nHost: x\nTransfer-Encoding: chunked", Err(400));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for fields in ["A : b", ": b", "nonsense", "A B: c", " A: b", "A: b\n c: d", "A: \u{0}"] {
            check(&format!("GET / HTTP/1.1\nHost: x\n{fields}"), Err(400));
        }
        check("GET / HTTP/2.0\nHost: x", Err(505));
        for line in
            ["GET  / HTTP/1.1", "GET /a b HTTP/1.1", "GET / HTTP/1.1 ", "GET /", "G<T / HTTP/1.1"]
        {
            check(&format!("{line}\nHost: x"), Err(400));
        }
        let many: String = (0..FIELDS_MAX).map(|index| format!("\nX-{index}: a")).collect();
        check(&format!("GET / HTTP/1.1\nHost: x{many}"), Err(431));
    }

    #[test]
    fn a_connection_stays_unless_told_otherwise() {
        let check = |text: &str, expected| {
            let text = text.replace('\n', "\r\n") + "\r\nHost: x\r\n\r\n";
            let mut slots = field_slots();
            let request = parse(text.as_bytes(), &mut slots, 16_384).expect("well-formed");
            assert_eq!(request.persistence, expected, "{text}");
        };
        check("GET / HTTP/1.1", Persistence::Stays);
        check("GET / HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", Persistence::Stays);
        check("GET / HTTP/1.1\nConnection: x\nConnection: y, Close", Persistence::Closes);
        check("GET / HTTP/1.0", Persistence::Closes);
        check("GET / HTTP/1.0\nConnection: keep-alive", Persistence::StaysIfTold);
    }
}
