//! Stage 7: a reply becomes bytes, head and body in one buffer. No formatting machinery: numbers
//! are written digit by digit, the date is made once a second.
//!
//! Every response says who it is (`X-Request-Id`) and how long it is; what depends on the key, the
//! cache or the stages is said where it is known. `Cache-Status` is RFC 9211, `RateLimit` and
//! `RateLimit-Policy` are the IETF draft's structured fields, `Server-Timing` is in milliseconds.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::model::{CacheReport, CacheStatus, RateState};
use crate::problem::{retry_after_s, whole_seconds};
use crate::reply::{Content, Reply};
use crate::trail::Trail;

/// How the response ends the exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    /// The request was a HEAD: no body follows.
    pub(super) is_head: bool,
    /// The connection closes after it.
    pub(super) closes: bool,
    /// An HTTP/1.0 caller is told that it stays.
    pub(super) tells_keep_alive: bool,
}

/// The `Date` field's value, made once a second.
#[derive(Default)]
pub(super) struct DateCache {
    second: Cell<u64>,
    text: RefCell<Vec<u8>>,
}

impl DateCache {
    fn write(&self, unix: Duration, out: &mut Vec<u8>) {
        let mut text = self.text.borrow_mut();
        if self.second.get() != unix.as_secs() || text.is_empty() {
            self.second.set(unix.as_secs());
            text.clear();
            write_date(unix.as_secs(), &mut text);
        }
        out.extend_from_slice(&text);
    }
}

/// Writes the whole response.
pub(super) fn encode(
    reply: &Reply,
    ending: Ending,
    unix: Duration,
    dates: &DateCache,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"HTTP/1.1 ");
    number(u64::from(reply.status), out);
    out.push(b' ');
    out.extend_from_slice(reason(reply.status).as_bytes());
    out.extend_from_slice(b"\r\nDate: ");
    dates.write(unix, out);
    let content_type: &[u8] = match reply.content {
        Content::Json => b"\r\nContent-Type: application/json",
        Content::Problem => b"\r\nContent-Type: application/problem+json",
        Content::Text => b"\r\nContent-Type: text/plain; charset=utf-8",
        Content::Nothing => b"",
    };
    out.extend_from_slice(content_type);
    if reply.content != Content::Nothing {
        out.extend_from_slice(b"\r\nContent-Length: ");
        number(reply.body.len() as u64, out);
    }
    out.extend_from_slice(b"\r\nX-Request-Id: ");
    out.extend_from_slice(reply.request_id.as_bytes());
    if let Some(rate) = reply.rate {
        write_rate(rate, out);
    }
    if let Some(cache) = reply.cache {
        write_cache(cache, out);
    }
    if let Some(trail) = &reply.trail {
        write_timing(trail, out);
    }
    if let Some(span) = reply.retry_after {
        out.extend_from_slice(b"\r\nRetry-After: ");
        number(retry_after_s(span), out);
    }
    if let Some(allow) = reply.allow {
        out.extend_from_slice(b"\r\nAllow: ");
        out.extend_from_slice(allow.as_bytes());
    }
    if reply.challenge {
        out.extend_from_slice(b"\r\nWWW-Authenticate: Bearer realm=\"hedgerow\"");
    }
    if ending.closes {
        out.extend_from_slice(b"\r\nConnection: close");
    } else if ending.tells_keep_alive {
        out.extend_from_slice(b"\r\nConnection: keep-alive");
    }
    out.extend_from_slice(b"\r\n\r\n");
    if !ending.is_head && reply.content != Content::Nothing {
        out.extend_from_slice(&reply.body);
    }
}

fn write_rate(rate: RateState, out: &mut Vec<u8>) {
    let reset_s = whole_seconds(rate.full_in);
    for (name, value) in [
        ("\r\nX-RateLimit-Limit: ", u64::from(rate.burst)),
        ("\r\nX-RateLimit-Remaining: ", u64::from(rate.remaining)),
        ("\r\nX-RateLimit-Reset: ", reset_s),
        ("\r\nRateLimit-Policy: \"default\";q=", u64::from(rate.burst)),
        (";w=", whole_seconds(rate.window).max(1)),
        ("\r\nRateLimit: \"default\";r=", u64::from(rate.remaining)),
        (";t=", reset_s),
    ] {
        out.extend_from_slice(name.as_bytes());
        number(value, out);
    }
}

fn write_cache(cache: CacheReport, out: &mut Vec<u8>) {
    let status: &[u8] = match cache.status {
        CacheStatus::Hit => b"hit",
        // How long ago it ceased to be fresh is not known here, so no lifetime is given.
        CacheStatus::Stale => b"hit; detail=stale",
        CacheStatus::Coalesced => b"fwd=miss; collapsed",
        CacheStatus::Miss => b"fwd=miss",
        CacheStatus::Bypass => b"fwd=request",
    };
    out.extend_from_slice(b"\r\nCache-Status: hedgerow; ");
    out.extend_from_slice(status);
    let is_made = matches!(cache.status, CacheStatus::Miss | CacheStatus::Bypass);
    // An answer of an engine that forbids keeping it has no lifetime.
    let has_ttl = cache.status == CacheStatus::Hit || (is_made && !cache.ttl.is_zero());
    if has_ttl && is_made {
        out.extend_from_slice(b"; stored");
    }
    if has_ttl {
        out.extend_from_slice(b"; ttl=");
        number(cache.ttl.as_secs(), out);
    }
    if matches!(cache.status, CacheStatus::Hit | CacheStatus::Stale) {
        // RFC 9111 §5.1: the field says that the answer was not made for this request.
        out.extend_from_slice(b"\r\nAge: ");
        number(cache.age.as_secs(), out);
    }
    out.extend_from_slice(b"\r\nX-Cache: ");
    out.extend_from_slice(cache.status.name().as_bytes());
}

fn write_timing(trail: &Trail, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\nServer-Timing: total;dur=");
    milliseconds(trail.total(), out);
    out.extend_from_slice(b", own;dur=");
    milliseconds(trail.own(), out);
    for (stage, span) in trail.stages() {
        out.extend_from_slice(b", ");
        out.extend_from_slice(stage.as_bytes());
        out.extend_from_slice(b";dur=");
        milliseconds(span, out);
    }
}

/// Milliseconds with three decimals.
fn milliseconds(span: Duration, out: &mut Vec<u8>) {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    number(micros / 1_000, out);
    let rest = micros % 1_000;
    out.push(b'.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        out.push(b'0' + digit as u8);
    }
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        return out.push(b'0' + value as u8);
    }
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// An IMF-fixdate (RFC 9110 §5.6.7), from the days of the civil calendar.
fn write_date(unix_s: u64, out: &mut Vec<u8>) {
    let stamp = jiff::Timestamp::from_second(i64::try_from(unix_s).unwrap_or_default());
    let date = stamp.unwrap_or_default().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    out.extend_from_slice(date.as_bytes());
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Instant;

    const PLAIN: Ending = Ending { is_head: false, closes: false, tells_keep_alive: false };

    fn encoded(reply: &Reply, ending: Ending) -> String {
        let mut out = Vec::new();
        let unix = Duration::from_secs(784_111_777);
        encode(reply, ending, unix, &DateCache::default(), &mut out);
        String::from_utf8(out).expect("text")
    }

    fn reply() -> Reply {
        Reply::new(200, Content::Json, b"{}".to_vec(), "id-1".to_owned())
    }

    #[test]
    fn a_reply_says_its_length_its_date_and_its_name() {
        let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                        Content-Type: application/json\r\nContent-Length: 2\r\n\
                        X-Request-Id: id-1\r\n\r\n{}";
        assert_eq!(encoded(&reply(), PLAIN), expected);
    }

    #[test]
    fn a_head_has_the_length_and_no_body() {
        let text = encoded(&reply(), Ending { is_head: true, ..PLAIN });
        assert!(text.contains("Content-Length: 2") && text.ends_with("\r\n\r\n"));
        let nothing = Reply::new(204, Content::Nothing, Vec::new(), "id".to_owned());
        assert!(!encoded(&nothing, PLAIN).contains("Content-Length"));
    }

    #[test]
    fn limits_and_cache_are_structured_fields() {
        let rate = RateState {
            burst: 25,
            remaining: 24,
            full_in: Duration::from_millis(1_001),
            window: Duration::from_secs(50),
        };
        let (age, ttl) = (Duration::from_secs(3), Duration::from_secs(42));
        let cache = CacheReport { status: CacheStatus::Hit, age, ttl };
        let text = encoded(&Reply { rate: Some(rate), cache: Some(cache), ..reply() }, PLAIN);
        for line in [
            "X-RateLimit-Limit: 25\r\nX-RateLimit-Remaining: 24\r\nX-RateLimit-Reset: 2\r\n",
            "RateLimit-Policy: \"default\";q=25;w=50\r\nRateLimit: \"default\";r=24;t=2\r\n",
            "Cache-Status: hedgerow; hit; ttl=42\r\nAge: 3\r\nX-Cache: hit\r\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn what_the_cache_did_is_told_by_rfc_9211() {
        let check = |status, ttl_s, expected: &str| {
            let (age, ttl) = (Duration::from_secs(3), Duration::from_secs(ttl_s));
            let cache = Some(CacheReport { status, age, ttl });
            let text = encoded(&Reply { cache, ..reply() }, PLAIN);
            let lines = format!("\r\nCache-Status: hedgerow; {expected}");
            assert!(text.contains(&lines), "{lines} in {text}");
        };
        check(CacheStatus::Stale, 0, "hit; detail=stale\r\nAge: 3\r\nX-Cache: stale\r\n");
        check(CacheStatus::Coalesced, 9, "fwd=miss; collapsed\r\nX-Cache: coalesced\r\n");
        check(CacheStatus::Miss, 9, "fwd=miss; stored; ttl=9\r\nX-Cache: miss\r\n");
        check(CacheStatus::Miss, 0, "fwd=miss\r\nX-Cache: miss\r\n");
        check(CacheStatus::Bypass, 9, "fwd=request; stored; ttl=9\r\nX-Cache: bypass\r\n");
    }

    #[test]
    fn timings_have_three_decimals() {
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let mut trail = Trail::new(at(1_000));
        trail.admitted = at(1_007);
        trail.merged = at(13_345);
        let text = encoded(&Reply { trail: Some(trail), ..reply() }, PLAIN);
        let line = "Server-Timing: total;dur=12.345, own;dur=12.345, gateway;dur=0.007, \
                    merge;dur=12.338\r\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn the_ending_is_told_where_it_is_not_implied() {
        assert!(encoded(&reply(), Ending { closes: true, ..PLAIN }).contains("Connection: close"));
        let kept = encoded(&reply(), Ending { tells_keep_alive: true, ..PLAIN });
        assert!(kept.contains("Connection: keep-alive"));
        let refused = Reply { challenge: true, allow: Some("GET"), ..reply() };
        let text = encoded(&refused, PLAIN);
        assert!(text.contains("Allow: GET\r\n") && text.contains("WWW-Authenticate: Bearer"));
    }
}
