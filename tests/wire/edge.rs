//! Bytes that are requests, and bytes that are not: what each is answered with, and whether the
//! connection lives on. One instance for all; sources are RFC 9112 and the faults of other servers.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::engine::{Engine, Manner};
use super::http::{self, raw};
use super::instance::Instance;

/// After this long without a byte nothing more is expected: answers come from L1.
const SILENCE: Duration = Duration::from_millis(400);

struct Case {
    claim: &'static str,
    sent: Vec<u8>,
    /// The statuses of the responses: one of these.
    statuses: &'static [&'static [u16]],
    /// Whether the connection is closed afterwards; none: either.
    is_closed: Option<bool>,
}

const KEY: &str = "X-API-Key: demo\r\n";
const OK: &[&[u16]] = &[&[200]];
const BAD: &[&[u16]] = &[&[400]];
const CODING: &[&[u16]] = &[&[400], &[501]];
const BODY: &str = "{\"q\":\"v\"}";

fn case(
    claim: &'static str,
    sent: impl Into<Vec<u8>>,
    statuses: &'static [&'static [u16]],
    is_closed: impl Into<Option<bool>>,
) -> Case {
    Case { claim, sent: sent.into(), statuses, is_closed: is_closed.into() }
}

/// A GET with `fields` (CRLF each) after Host and key.
fn get(fields: &str) -> String {
    format!("GET /search/fast?q=v HTTP/1.1\r\nHost: x\r\n{KEY}{fields}\r\n")
}

/// A POST of JSON with `fields` and `body`.
fn post(fields: &str, body: &str) -> String {
    format!(
        "POST /search/fast HTTP/1.1\r\nHost: x\r\n{KEY}Content-Type: application/json\r\n\
         {fields}\r\n{body}"
    )
}

fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked\r\n", body)
}

fn line(line: &str) -> String {
    format!("{line}\r\nHost: x\r\n{KEY}\r\n")
}

fn good() -> Vec<Case> {
    let two = get("").repeat(2);
    let whole = "9\r\n{\"q\":\"v\"}\r\n0\r\n\r\n";
    let trailer = format!("9\r\n{BODY}\r\n0\r\nX-Sum: 1\r\n\r\n{}", get(""));
    vec![
        case("a request is answered", get(""), OK, false),
        case("pipelined requests are answered in order", two, &[&[200, 200]], false),
        case("close is honoured", get("Connection: close\r\n"), OK, true),
        case("blanks around values are not part of them", get("X-A:  \t b \t\r\n"), OK, false),
        case("a body of known length is read", post("Content-Length: 9\r\n", BODY), OK, false),
        case("a chunked body is read", chunked(whole), OK, false),
        case("trailers end a chunked body", chunked(&trailer), &[&[200, 200]], false),
        case("the absolute form is read", line("GET http://x/search/fast?q=v HTTP/1.1"), OK, false),
        case(
            "HTTP/1.0 stays open if asked",
            format!(
                "GET /search/fast?q=v HTTP/1.0\r\nHost: x\r\n{KEY}Connection: keep-alive\r\n\r\n"
            ),
            OK,
            false,
        ),
        case(
            "who waits for 100 gets it",
            post("Expect: 100-continue\r\nContent-Length: 9\r\n", BODY),
            &[&[100, 200], &[200]],
            None,
        ),
        case(
            "a HEAD has no body to shift the next answer",
            format!("HEAD /search/fast?q=v HTTP/1.1\r\nHost: x\r\n{KEY}\r\n{}", get("")),
            &[&[200, 200]],
            false,
        ),
        case("OPTIONS of all", line("OPTIONS * HTTP/1.1"), &[&[200], &[204]], false),
        case("an unknown path", line("GET /nowhere HTTP/1.1"), &[&[404]], false),
        case("an unknown method", line("BREW /search/fast HTTP/1.1"), &[&[405], &[501]], None),
        case("methods have a case", line("get /search/fast HTTP/1.1"), &[&[405], &[501]], None),
        case("nobody is connected", line("CONNECT x:443 HTTP/1.1"), &[&[405], &[400]], None),
        case(
            "an early refusal does not take a body for a request",
            format!(
                "POST /search/fast HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{}",
                get("").len(),
                get("")
            ),
            &[&[401]],
            None,
        ),
    ]
}

fn malformed() -> Vec<Case> {
    let length = |value: &str| post(&format!("Content-Length: {value}\r\n"), BODY);
    vec![
        case("no host", format!("GET /search/fast?q=v HTTP/1.1\r\n{KEY}\r\n"), BAD, true),
        case("two hosts", get("Host: y\r\n"), BAD, true),
        case("a field without a colon", get("nonsense\r\n"), BAD, true),
        case("a field without a name", get(": b\r\n"), BAD, true),
        case("a name with a blank", get("X A: b\r\n"), BAD, true),
        case("a blank before the colon", get("X-A : b\r\n"), BAD, true),
        case("a folded line", get("X-A: b\r\n c\r\n"), BAD, true),
        case("a bare CR in a value", get("X-A: a\rb\r\n"), BAD, true),
        case("a NUL in a value", get("X-A: a\0b\r\n"), BAD, true),
        case("bare LF line ends", get("").replace("\r\n", "\n"), BAD, true),
        case("two blanks in the request line", line("GET  /search/fast  HTTP/1.1"), BAD, true),
        case("a blank in the target", line("GET /search/fast?q=a b HTTP/1.1"), BAD, true),
        case("bytes that are no ASCII in the target", raw_target(), BAD, None),
        case("a relative target", line("GET search/fast HTTP/1.1"), BAD, None),
        case("a method of other characters", line("G<T / HTTP/1.1"), BAD, true),
        case("another version", line("GET / HTTP/2.0"), &[&[505], &[400]], true),
        case(
            "a TLS hello",
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            &[&[400], &[]],
            true,
        ),
        case("a length with a sign", length("+9"), BAD, true),
        case("a negative length", length("-1"), BAD, true),
        case("a length in hex", length("0x9"), BAD, true),
        case("a length beyond 64 bits", length("18446744073709551616"), &[&[400], &[413]], true),
        case("two lengths", length("9\r\nContent-Length: 10"), BAD, true),
        case("a length and a coding", length("9\r\nTransfer-Encoding: chunked"), BAD, true),
    ]
}

fn raw_target() -> Vec<u8> {
    [b"GET /search/fast?q=\xff\xfe HTTP/1.1\r\nHost: x\r\n", KEY.as_bytes(), b"\r\n"].concat()
}

fn codings() -> Vec<Case> {
    let coding = |value: &str| {
        post(&format!("Transfer-Encoding: {value}\r\n"), "9\r\n{\"q\":\"v\"}\r\n0\r\n\r\n")
    };
    let mut cases: Vec<Case> = [
        "chunked,",
        "gzip, chunked",
        "chunked, gzip",
        "\"chunked\"",
        "xchunked",
        "identity",
        "chunked\r\nTransfer-Encoding: chunked",
    ]
    .into_iter()
    .map(|value| case("a coding other than chunked alone", coding(value), CODING, true))
    .collect();
    for body in [
        "g\r\n{\"q\":\"v\"}\r\n0\r\n\r\n",
        "+9\r\n{\"q\":\"v\"}\r\n0\r\n\r\n",
        "0x9\r\n{\"q\":\"v\"}\r\n0\r\n\r\n",
        "9\n{\"q\":\"v\"}\r\n0\r\n\r\n",
        "9\r\n{\"q\":\"v\"}XX0\r\n\r\n",
    ] {
        cases.push(case("a chunk that is none", chunked(body), BAD, true));
    }
    cases
}

fn oversized() -> Vec<Case> {
    let long = "a".repeat(20 * 1024);
    let target = line(&format!("GET /search/fast?q={long} HTTP/1.1"));
    let many: String = (0..300).map(|n| format!("X-{n}: a\r\n")).collect();
    let chunk = format!("19000\r\n{}\r\n0\r\n\r\n", "a".repeat(0x19000));
    vec![
        case("a head of 20 KiB", get(&format!("X-A: {long}\r\n")), &[&[431]], true),
        case("a target of 20 KiB", target, &[&[414], &[431]], true),
        case("300 fields", get(&many), &[&[431], &[400], &[200]], None),
        case("a declared body of 10 MB", post("Content-Length: 10000000\r\n", ""), &[&[413]], true),
        case("a chunked body of 100 KiB", chunked(&chunk), &[&[413]], true),
    ]
}

#[test]
fn each_kind_of_bytes_gets_what_it_deserves() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "");
    assert_eq!(http::get(instance.search, "/search/fast?q=v").statuses(), [200]);
    let mut wrong = Vec::new();
    for case in [good(), malformed(), codings(), oversized()].into_iter().flatten() {
        let came = raw(instance.search, &case.sent, SILENCE);
        let statuses = came.statuses();
        if !case.statuses.contains(&statuses.as_slice()) {
            wrong.push(format!("{}: {statuses:?}, not {:?}", case.claim, case.statuses));
        }
        if case.is_closed.is_some_and(|is_closed| is_closed != came.is_closed) {
            wrong.push(format!("{}: closed {}", case.claim, came.is_closed));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(http::get(instance.search, "/search/fast?q=v").statuses(), [200]);
}

/// Answered from the cache, refused for its key, refused for its fields: what was sent along is
/// read to its end, and the next request is answered as itself.
#[test]
fn an_early_answer_leaves_no_body_to_be_taken_for_a_request() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "");
    assert_eq!(http::get(instance.search, "/search/fast?q=v").statuses(), [200]);
    let body =
        format!("{{\"q\":\"v\",\"more\":\"{}\"}}", get("").repeat(400).replace("\r\n", "  "));
    let length = format!("Content-Length: {}\r\n", body.len());
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let long = line(&format!("GET /search/fast?q={} HTTP/1.1", "v".repeat(8_192)));
    for (first, statuses) in [
        (post(&length, &body), [200, 200]),
        (chunked(&chunk), [200, 200]),
        (post(&length, &body).replace(KEY, ""), [401, 200]),
        (chunked(&chunk).replace(KEY, ""), [401, 200]),
        (post(&length, &body).replace("application/json", "text/plain"), [415, 200]),
        (post(&length, &body).replacen("/search/fast", "/nowhere", 1), [404, 200]),
        (long, [400, 200]),
    ] {
        let came = raw(instance.search, format!("{first}{}", get("")).as_bytes(), SILENCE);
        assert_eq!((came.statuses(), came.is_closed), (statuses.to_vec(), false), "{first:.60}");
    }
    assert_eq!(engine.calls(), 1);
}

#[test]
fn a_dribbled_head_is_told_so_and_a_silent_peer_let_go() {
    let engine = Engine::start(|_| Manner::Page);
    let limits = "[limits]\nheader_timeout_ms = 500\nidle_timeout_ms = 1000\n";
    let instance = Instance::start(1, &[&engine], limits);
    let mut dribbler = TcpStream::connect(instance.search).expect("it listens");
    dribbler.write_all(b"GET /search/fast?q=v HTTP/1.1\r\nX-A: a").expect("a beginning");
    let came = http::drain(&mut dribbler, Duration::from_secs(5));
    assert_eq!((came.statuses(), came.is_closed), (vec![408], true));
    let mut silent = TcpStream::connect(instance.search).expect("it listens");
    let came = http::drain(&mut silent, Duration::from_secs(5));
    assert_eq!((came.statuses(), came.is_closed), (vec![], true));
}

#[test]
fn a_peer_that_leaves_takes_its_call_with_it() {
    let engine = Engine::start(|_| Manner::Never);
    let instance = Instance::start(1, &[&engine], "");
    let mut leaver = TcpStream::connect(instance.search).expect("it listens");
    leaver.write_all(get("").as_bytes()).expect("a request");
    http::until("the call is made", || engine.calls() == 1);
    leaver.shutdown(Shutdown::Both).expect("a hang-up");
    http::until("the call is given up", || engine.given_up() == 1);
}

#[test]
fn one_connection_too_many_is_told_to_come_back() {
    let engine = Engine::start(|_| Manner::Page);
    let limits = "[limits]\nconnections_per_core_max = 4\n";
    let instance = Instance::start(1, &[&engine], limits);
    let held: Vec<TcpStream> =
        (0..4).map(|_| TcpStream::connect(instance.search).expect("it listens")).collect();
    http::until("the next is one too many", || {
        raw(instance.search, b"", Duration::from_millis(300)).statuses() == [503]
    });
    drop(held);
    http::until("there is room again", || instance.ask("again").statuses() == [200]);
}
