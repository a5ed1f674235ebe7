//! Panics, drains, and what every response carries.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::peer::{Peer, field, get};
use crate::server::{PATIENT, Server};

#[test]
fn a_panic_costs_one_connection() {
    let server = Server::start(PATIENT);
    let mut other = Peer::connect(server.address);
    assert_eq!(other.ask("q=v").status, 200);
    for query in ["q=panic", "q=late-panic"] {
        let mut peer = Peer::connect(server.address);
        let response = peer.ask(query);
        assert_eq!(response.status, 500);
        assert!(response.body.contains("\"code\":\"internal\""), "{}", response.body);
        assert_eq!(peer.read_to_end(), "");
        assert_eq!(other.ask("q=v").status, 200);
    }
    assert_eq!(server.stop().probe.panics_total.get(), 2);
}

#[test]
fn a_drain_finishes_what_it_began_and_closes_the_rest() {
    let server = Server::start(PATIENT);
    let mut idle = Peer::connect(server.address);
    assert_eq!(idle.ask("q=v").status, 200);
    let mut busy = Peer::connect(server.address);
    busy.send(get("q=much-later", ""));
    while server.shown.begun.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    server.begin_drain();
    assert_eq!(idle.read_to_end(), "");
    let response = busy.read(false);
    assert_eq!(response.status, 200);
    assert_eq!(field(&response.head, "connection"), Some("close"));
    assert_eq!(busy.read_to_end(), "");
    let address = server.address;
    let past = server.stop();
    assert_eq!(past.probe.connections_open.get(), 0);
    assert_eq!(past.probe.idle_timeouts_total.get(), 0, "a drain is not a timeout");
    let refused = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
    assert!(refused.is_err(), "the port is closed");
}

#[test]
fn a_drain_does_not_wait_for_ever() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    peer.send(get("q=never", ""));
    while server.shown.begun.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let past = server.stop();
    assert_eq!(past.probe.connections_open.get(), 1, "what was begun is left behind");
}

#[test]
fn every_response_names_its_request_and_its_length() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    let named = "GET /nowhere HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc-1\r\n\r\n";
    let response = peer.send(named).read(false);
    assert_eq!(response.status, 404);
    assert_eq!(field(&response.head, "x-request-id"), Some("abc-1"));
    assert!(response.body.contains("\"request_id\":\"abc-1\""), "{}", response.body);
    let hostile = "OPTIONS * HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\r\n\r\n";
    let response = peer.send(hostile).read(false);
    assert_eq!(field(&response.head, "x-request-id").map(str::len), Some(26));
    assert_eq!(field(&response.head, "content-length"), None);
    let named = "OPTIONS * HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc-2\r\n\r\n";
    let response = peer.send(named).read(false);
    assert_eq!(field(&response.head, "x-request-id"), Some("abc-2"));
    assert!(field(&response.head, "date").is_some_and(|date| date.ends_with(" GMT")));
    drop(server.stop());
}

#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    let head = get("q=v", "").replacen("GET", "HEAD", 1);
    let response = peer.send(head).read(true);
    let expected = "Head /search/fast q=v []";
    let length = field(&response.head, "content-length").map(str::to_owned);
    assert_eq!(length, Some(expected.len().to_string()));
    assert_eq!(peer.ask("q=v").status, 200);
    drop(server.stop());
}

#[test]
fn a_caller_that_waits_to_send_its_body_is_told_to_go_on() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    let head = "POST /search/fast HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer demo\r\n\
                Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    assert_eq!(peer.send(head).read(false).status, 100);
    let response = peer.send("body").read(false);
    assert_eq!((response.status, response.body.ends_with("[body]")), (200, true));
    drop(server.stop());
}
