//! Reads one request of a caller: the head (httparse) and a body by length, and out of them the
//! path and the query `q` of a query string or a form. The bytes are a stranger's: nothing may
//! panic.

/// A longer head is refused.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// Requests with a longer body are refused.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// The most a request can take.
pub(super) const REQUEST_BYTES_MAX: usize = HEAD_BYTES_MAX + BODY_BYTES_MAX;

/// One request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The path, without the query string.
    pub(super) path: String,
    /// `q`, decoded.
    pub(super) query: Option<String>,
    /// Whether the connection may carry another request.
    pub(super) is_reusable: bool,
}

/// What `bytes` begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A request of so many bytes.
    Whole(Question, usize),
    /// More bytes are needed.
    Partial,
    /// No request.
    Bad,
}

/// Parses the first request in `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Parsed::Partial,
        _ => return Parsed::Bad,
    };
    let (mut body_bytes, mut is_reusable) = (0, request.version == Some(1));
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            match value.parse() {
                Ok(length) if length <= BODY_BYTES_MAX => body_bytes = length,
                _ => return Parsed::Bad,
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Parsed::Bad;
        } else if header.name.eq_ignore_ascii_case("connection") {
            is_reusable &= !value.eq_ignore_ascii_case("close");
        }
    }
    let total = head_bytes + body_bytes;
    let Some(body) = bytes.get(head_bytes..total) else {
        return Parsed::Partial;
    };
    let target = request.path.unwrap_or("/");
    let (path, form) = target.split_once('?').unwrap_or((target, ""));
    let body = std::str::from_utf8(body).unwrap_or_default();
    let query = field(form).or_else(|| field(body));
    Parsed::Whole(Question { path: path.to_owned(), query, is_reusable }, total)
}

/// The value of `q` in a form (WHATWG URL, application/x-www-form-urlencoded).
fn field(form: &str) -> Option<String> {
    let value = form.split('&').find_map(|pair| pair.strip_prefix("q="))?;
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                decoded.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                rest = after;
            }
            _ => decoded.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, Option<&str>, bool)>) {
        let expected = expected.map(|(path, query, is_reusable)| {
            let query = query.map(str::to_owned);
            Parsed::Whole(Question { path: path.into(), query, is_reusable }, text.len())
        });
        assert_eq!(parse(text.as_bytes()), expected.unwrap_or(Parsed::Bad), "{text}");
    }

    #[test]
    fn queries_come_from_the_path_or_the_form() {
        check(
            "GET /search?x=1&q=a+b%20%C3%BC%2 HTTP/1.1\r\n\r\n",
            Some(("/search", Some("a b ü%2"), true)),
        );
        check("GET /stats HTTP/1.1\r\nConnection: close\r\n\r\n", Some(("/stats", None, false)));
        let form = "format=json&q=hello%21";
        check(
            &format!("POST /search HTTP/1.1\r\nContent-Length: {}\r\n\r\n{form}", form.len()),
            Some(("/search", Some("hello!"), true)),
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        check("nonsense\r\n\r\n", None);
        check("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", None);
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", None);
        check(&format!("GET /{} HTTP/1.1", "x".repeat(HEAD_BYTES_MAX)), None);
    }

    #[test]
    fn half_a_request_needs_more() {
        for text in ["", "GET / HT", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"] {
            assert_eq!(parse(text.as_bytes()), Parsed::Partial, "{text}");
        }
    }
}
