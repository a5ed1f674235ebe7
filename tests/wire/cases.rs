//! What the edge makes of requests, right and wrong. The cases are data (`cases.jsonl`): bytes as
//! characters up to U+00FF, the statuses in order, and what becomes of the connection. Each is sent
//! whole and once more byte by byte; the answers must be the same. Where the connection stays, one
//! more request proves that it does, and that nothing was left over to be taken for a request.

use serde::Deserialize;

use crate::peer::{Peer, get};
use crate::server::{PATIENT, Server};

/// Longer cases are not sent byte by byte.
const SINGLE_BYTES_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    group: String,
    name: String,
    send: String,
    statuses: Vec<u16>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Then {
    Stays,
    Closes,
}

/// Runs the cases of `group`, of which there are `count`.
fn check(group: &str, count: usize) {
    let lines = include_str!("cases.jsonl").lines();
    let cases = lines.map(|line| serde_json::from_str::<Case>(line).expect("a case"));
    let cases: Vec<Case> = cases.filter(|case| case.group == group).collect();
    assert_eq!(cases.len(), count, "cases of {group}");
    run(&cases);
}

fn run(cases: &[Case]) {
    let server = Server::start(PATIENT);
    for case in cases {
        let bytes = latin1(&case.send);
        exchange(&server, case, &[&bytes]);
        if bytes.len() < SINGLE_BYTES_MAX {
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            exchange(&server, case, &single);
        }
    }
    let past = server.stop();
    assert_eq!((past.probe.connections_open.get(), past.probe.panics_total.get()), (0, 0));
}

fn exchange(server: &Server, case: &Case, parts: &[&[u8]]) {
    let mut peer = Peer::connect(server.address);
    for part in parts {
        peer.send(part);
    }
    let mut got: Vec<u16> = Vec::new();
    while got.len() < case.statuses.len() {
        let response = peer.read(case.send.starts_with("HEAD") && got.is_empty());
        // An interim answer depends on when the body comes; a test of its own counts it.
        if response.status != 100 {
            got.push(response.status);
        }
    }
    let name = format!("{}, in {} parts", case.name, parts.len());
    assert_eq!(got, case.statuses, "{name}");
    match case.then {
        Then::Stays => assert!(peer.ask("q=sentinel").body.contains("q=sentinel"), "{name}"),
        Then::Closes => assert_eq!(peer.read_to_end(), "", "{name}: more than was asked for"),
    }
}

/// Characters up to U+00FF as single bytes.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).expect("latin-1")).collect()
}

#[test]
fn well_formed_requests_are_answered_in_order() {
    check("well_formed", 23);
}

#[test]
fn bodies_end_where_their_framing_says() {
    check("bodies", 16);
}

#[test]
fn framing_in_doubt_is_refused_and_the_connection_closed() {
    check("framing_in_doubt", 38);
}

#[test]
fn malformed_heads_are_refused_and_the_connection_closed() {
    check("malformed", 42);
}

#[test]
fn other_methods_are_told_what_is_allowed() {
    check("methods", 6);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let long = "a".repeat(20_000);
    let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
    let fields: String = (0..300).map(|index| format!("X-{index}: a\r\n")).collect();
    let post = |field: &str, body: &str| {
        get("", &format!("{field}\r\n")).replacen("GET", "POST", 1) + body
    };
    let length = |bytes: usize| post(&format!("Content-Length: {bytes}"), &"b".repeat(bytes));
    let extended = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(20_000));
    let case = |name: &str, send: String, status, then| Case {
        group: "too_large".to_owned(),
        name: name.to_owned(),
        send,
        statuses: vec![status],
        then,
    };
    run(&[
        case("a target of 20,000", get(&format!("q={long}"), ""), 414, Then::Closes),
        case("a field of 20,000", get("q=v", &format!("X: {long}\r\n")), 431, Then::Closes),
        case("300 fields", get("q=v", &fields), 431, Then::Closes),
        case("10 MB declared", post("Content-Length: 10000000", ""), 413, Then::Closes),
        case(
            "100 kB in chunks",
            post("Transfer-Encoding: chunked", &chunk.repeat(25)),
            413,
            Then::Closes,
        ),
        case(
            "a chunk's extension of 20,000",
            post("Transfer-Encoding: chunked", &extended),
            400,
            Then::Closes,
        ),
        case("the largest body", length(65_536), 200, Then::Stays),
        case("one byte more", length(65_537), 413, Then::Closes),
    ]);
}
