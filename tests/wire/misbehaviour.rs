//! Peers named for what they do wrong, and what that may cost: their own connection, in bounded
//! time, and nothing to anyone else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::config::settings::Limits;

use crate::peer::{Peer, field, get};
use crate::server::{PATIENT, Server};

const SHORT: Duration = Duration::from_millis(300);

/// Waits until `counter` reaches `count`; the test's own patience is the limit.
fn reaches(counter: &AtomicU64, count: u64) {
    let mut turns = 0_u64;
    while counter.load(Ordering::SeqCst) < count {
        turns += 1;
        assert!(turns < 2_000_000_000, "the count of {count} was never reached");
        std::thread::yield_now();
    }
}

#[test]
fn a_dribbler_is_told_that_it_is_too_slow() {
    let server = Server::start(Limits { header_timeout: SHORT, ..PATIENT });
    let mut peer = Peer::connect(server.address);
    let request = get("q=v", &format!("X-A: {}\r\n", "a".repeat(4_000)));
    let heard = request.bytes().any(|byte| {
        peer.send([byte]);
        peer.hears_within(Duration::from_millis(10))
    });
    assert!(heard, "a request of 40 seconds was borne");
    assert_eq!(peer.read(false).status, 408);
    assert_eq!(peer.read_to_end(), "");
    let past = server.stop();
    assert_eq!((past.probe.slow_requests_total.get(), past.calls), (1, 0));
}

#[test]
fn a_slow_uploader_is_told_so_as_well() {
    let server = Server::start(Limits { header_timeout: SHORT, ..PATIENT });
    let mut peer = Peer::connect(server.address);
    let head = "POST /search/fast HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(peer.send(head).send("{").read(false).status, 408);
    assert_eq!(peer.read_to_end(), "");
    assert_eq!(server.stop().calls, 0);
}

#[test]
fn a_silent_peer_is_closed_without_a_word() {
    let server = Server::start(Limits { idle_timeout: SHORT, ..PATIENT });
    let mut silent = Peer::connect(server.address);
    assert_eq!(silent.read_to_end(), "");
    let mut blank = Peer::connect(server.address);
    assert_eq!(blank.send("\r\n\r\n\r\n").read_to_end(), "");
    let mut once = Peer::connect(server.address);
    assert_eq!(once.ask("q=v").status, 200);
    assert_eq!(once.read_to_end(), "");
    assert_eq!(server.stop().probe.idle_timeouts_total.get(), 3);
}

#[test]
fn an_early_closer_ends_its_request() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    peer.send(get("q=never", ""));
    reaches(&server.shown.begun, 1);
    drop(peer);
    reaches(&server.shown.dropped, 1);
    let past = server.stop();
    assert_eq!(past.probe.peers_gone_total.get(), 1);
    let told: Vec<_> = past.told.iter().map(|told| (told.status, told.is_complete)).collect();
    assert_eq!(told, [(499, false)], "it is accounted for, and nothing was sent");
}

#[test]
fn a_half_closer_is_answered_at_once_or_not_at_all() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    peer.send(get("q=v", ""));
    peer.finish_sending();
    assert_eq!(peer.read(false).status, 200);
    assert_eq!(peer.read_to_end(), "");
    let mut waits = Peer::connect(server.address);
    waits.send(get("q=never", ""));
    reaches(&server.shown.begun, 1);
    waits.finish_sending();
    assert_eq!(waits.read_to_end(), "");
    assert_eq!(server.stop().probe.peers_gone_total.get(), 1);
}

/// Bodies whose end never comes are not taken for whole ones.
#[test]
fn a_peer_that_leaves_in_a_body_has_asked_nothing() {
    let server = Server::start(PATIENT);
    let head = "POST /search/fast HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer demo\r\n";
    for body in [
        "Content-Length: 9\r\n\r\n{\"q\":",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\n",
    ] {
        let mut peer = Peer::connect(server.address);
        peer.send(format!("{head}{body}"));
        peer.finish_sending();
        assert!(!peer.read_to_end().contains(" 200 "), "{body}");
    }
    assert_eq!(server.stop().calls, 0);
}

#[test]
fn a_flooder_gets_its_answers_in_order() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    let flood: String = (0..1_000).map(|index| get(&format!("q={index}"), "")).collect();
    peer.send(flood);
    for index in 0..1_000 {
        let response = peer.read(false);
        assert!(response.body.contains(&format!("q={index} ")), "{index}: {}", response.body);
    }
    assert_eq!(server.stop().calls, 1_000);
}

#[test]
fn pipelined_requests_that_take_time_do_not_wait_for_more_bytes() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    peer.send(get("q=later", "").repeat(3) + &get("q=v", ""));
    for expected in ["q=later", "q=later", "q=later", "q=v"] {
        assert!(peer.read(false).body.contains(expected));
    }
    peer.send(get("q=later", ""));
    reaches(&server.shown.begun, 4);
    peer.send(get("q=late-arrival", ""));
    assert!(peer.read(false).body.contains("q=later"));
    assert!(peer.read(false).body.contains("q=late-arrival"));
    assert_eq!(peer.ask("q=sentinel").status, 200);
    drop(server.stop());
}

#[test]
fn a_flooder_of_slow_requests_is_read_no_further_than_a_head() {
    let server = Server::start(PATIENT);
    let mut peer = Peer::connect(server.address);
    let flood: String = (0..400).map(|index| get(&format!("q={index}"), "")).collect();
    peer.send(get("q=later", "") + &flood);
    assert!(peer.read(false).body.contains("q=later"));
    for index in 0..400 {
        assert!(peer.read(false).body.contains(&format!("q={index} ")), "{index}");
    }
    drop(server.stop());
}

#[test]
fn a_slow_reader_is_let_go() {
    let server = Server::start(Limits { idle_timeout: SHORT, ..PATIENT });
    let mut peer = Peer::connect(server.address);
    peer.send(get("q=big", ""));
    let mut other = Peer::connect(server.address);
    assert_eq!(other.ask("q=v").status, 200);
    assert_eq!(other.read_to_end(), "");
    let past = server.stop();
    assert_eq!(past.probe.slow_readers_total.get(), 1);
    assert_eq!(past.told.iter().filter(|told| !told.is_complete).count(), 1);
    drop(peer);
}

#[test]
fn a_surplus_connection_is_told_to_come_back() {
    let server = Server::start(Limits { connections_per_core_max: 1, ..PATIENT });
    let mut first = Peer::connect(server.address);
    assert_eq!(first.ask("q=v").status, 200);
    for _ in 0..20 {
        let mut surplus = Peer::connect(server.address);
        let response = surplus.send(get("q=v", "")).read(false);
        assert_eq!(response.status, 503);
        assert_eq!(field(&response.head, "retry-after"), Some("1"));
        assert_eq!(field(&response.head, "connection"), Some("close"));
        assert_eq!(surplus.read_to_end(), "");
    }
    assert_eq!(first.ask("q=v").status, 200);
    assert_eq!(server.stop().probe.surplus_total.get(), 20);
}

#[test]
fn what_strangers_do_slowly_is_not_our_own_time() {
    let server = Server::start(Limits { header_timeout: SHORT, ..PATIENT });
    let mut slow = Peer::connect(server.address);
    slow.send("POST /search/fast HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer demo\r\n");
    assert!(!slow.hears_within(Duration::from_millis(120)));
    assert_eq!(slow.send("Content-Length: 2\r\n\r\n{}").read(false).status, 200);
    let mut never = Peer::connect(server.address);
    assert_eq!(never.send("GET /search/fast").read(false).status, 408);
    let mut piper = Peer::connect(server.address);
    piper.send(get("q=later", "").repeat(2) + &get("q=v", ""));
    for _ in 0..3 {
        assert_eq!(piper.read(false).status, 200);
    }
    let past = server.stop();
    let uploaded = past.told.first().expect("a response");
    assert!(uploaded.total >= Duration::from_millis(120), "{uploaded:?}");
    assert!(uploaded.own < Duration::from_millis(60), "{uploaded:?}");
    assert!(past.told.iter().all(|told| told.status != 408 || !told.has_trail));
    let piped = past.told.last().expect("a response");
    assert!(piped.own < Duration::from_millis(25), "{piped:?}");
}
