//! Every request ends once in the metrics, whatever became of it: what was received is the sum of
//! what was answered, refused and left.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use super::engine::{Engine, Manner};
use super::http::{self, raw};
use super::instance::Instance;

use crate::peer::get;

/// The values of the series `name` whose labels contain `labels`, summed.
fn sum(page: &str, name: &str, labels: &str) -> u64 {
    let lines = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(labels)
    });
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Leaves with `bytes` sent and no answer received, once the instance is seen to have them.
fn leave(instance: &Instance, bytes: &str, mut is_there: impl FnMut(&TcpStream) -> bool) {
    let mut stream = TcpStream::connect(instance.search).expect("it listens");
    stream.write_all(bytes.as_bytes()).expect("a request");
    http::until("the request is there", || is_there(&stream));
    stream.shutdown(Shutdown::Both).expect("a hang-up");
}

#[test]
fn every_request_is_counted_once_with_what_became_of_it() {
    let engine = Engine::start(|call| if call == 1 { Manner::Page } else { Manner::Never });
    let limits = "[limits]\nheader_timeout_ms = 300\n";
    let instance = Instance::start(1, &[&engine], limits);
    let metrics = || http::get(instance.admin, "/metrics").text();
    let answered = [
        ("GET /search/fast?q=v HTTP/1.1", 200),
        ("GET /search/fast?q=v HTTP/1.1", 200),
        ("GET /search/fast?q= HTTP/1.1", 400),
        ("GET /nowhere HTTP/1.1", 404),
        ("DELETE /search/fast HTTP/1.1", 405),
        ("OPTIONS * HTTP/1.1", 204),
        ("GET /search/fast?q=v HTTP/2.0", 505),
        ("GET  /search/fast?q=v  HTTP/1.1", 400),
        ("G", 408),
    ];
    for (line, status) in answered {
        let more = if line == "G" { "" } else { "\r\nHost: x\r\nX-API-Key: demo\r\n\r\n" };
        let silence = std::time::Duration::from_millis(800);
        let came = raw(instance.search, format!("{line}{more}").as_bytes(), silence);
        assert_eq!(came.statuses(), [status], "{line}");
    }
    leave(&instance, &get("q=never", ""), |_| engine.calls() == 2);
    let half = "POST /search/fast HTTP/1.1\r\nHost: x\r\nX-API-Key: demo\r\nContent-Length: 9\r\n\
                Expect: 100-continue\r\n\r\n";
    // `100 Continue` says that its head was read.
    leave(&instance, half, |stream| matches!(stream.peek(&mut [0]), Ok(1)));
    let silent = TcpStream::connect(instance.search).expect("it listens");
    drop(silent);
    let received = |page: &str| sum(page, "hedgerow_edge_requests_received_total", "");
    let ended = |page: &str| sum(page, "hedgerow_edge_requests_total", "");
    http::until("all ended", || ended(&metrics()) >= answered.len() as u64 + 2);
    let page = metrics();
    assert_eq!((received(&page), ended(&page)), (11, 11), "{page}");
    let of = |labels: &str| sum(&page, "hedgerow_edge_requests_total", labels);
    assert_eq!(of("endpoint=\"fast\",status=\"499\""), 1);
    assert_eq!(of("endpoint=\"none\",status=\"499\""), 1);
    for (status, count) in [(200, 2), (204, 1), (400, 2), (404, 1), (405, 1), (408, 1), (505, 1)] {
        assert_eq!(of(&format!("status=\"{status}\"")), count, "{status}");
    }
    let of_key = "key=\"demo\",outcome=\"peer_gone\"";
    assert_eq!(sum(&page, "hedgerow_gateway_key_requests_total", of_key), 1);
    assert_eq!(sum(&page, "hedgerow_gateway_admitted_total", "fast"), 4);
    assert_eq!(sum(&page, "hedgerow_edge_peers_gone_total", ""), 2);
    let refused = |code| sum(&page, "hedgerow_edge_refusals_total", code);
    assert_eq!((refused("not_found"), refused("invalid_request")), (1, 2));
    let timed = "hedgerow_edge_request_duration_seconds_count";
    assert_eq!(sum(&page, timed, "outcome=\"peer_gone\""), 1);
}

#[test]
fn a_connection_too_many_is_no_request() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "[limits]\nconnections_per_core_max = 1\n");
    let held = TcpStream::connect(instance.search).expect("it listens");
    let silence = std::time::Duration::from_millis(300);
    http::until("one is too many", || raw(instance.search, b"", silence).statuses() == [503]);
    let metrics = || http::get(instance.admin, "/metrics").text();
    http::until("it is seen", || {
        sum(&metrics(), "hedgerow_edge_connections_surplus_total", "") >= 1
    });
    let page = metrics();
    assert_eq!(sum(&page, "hedgerow_edge_requests_total", ""), 0, "{page}");
    assert_eq!(sum(&page, "hedgerow_edge_requests_received_total", ""), 0, "{page}");
    drop(held);
}
