//! Descriptors run out: what still answers, and what is said.

use std::net::TcpStream;

use crate::common::{Hedgerow, ask, get, until};

/// Every descriptor of the process, the reserve of 24 included.
const LIMIT: usize = 192;

/// Most of them are taken from the start, so that clients can take all others.
const TAKEN: &str = "for n in $(seq 20 149); do eval \"exec $n</dev/null\"; done";

#[test]
fn the_admin_listener_answers_while_clients_hold_every_descriptor() {
    let shell = format!("exec bash -c 'ulimit -n {LIMIT}; {TAKEN}; exec serve'");
    let hedgerow = Hedgerow::start(&shell, "");
    let told = hedgerow.errors();
    assert!(told.contains("each core holds fewer connections"), "{told}");
    assert!(told.contains("connections_per_core=126"), "{told}");
    let connect = |_| TcpStream::connect(hedgerow.search).expect("the backlog has room");
    let clients: Vec<TcpStream> = (0..126).map(connect).collect();
    until("it is said", || hedgerow.errors().contains("no descriptor is left"));
    for _ in 0..100 {
        for target in ["/healthz/live", "/readyz", "/metrics"] {
            assert_eq!(get(hedgerow.admin, target), Some(200), "{target}");
        }
    }
    let mut stream = TcpStream::connect(hedgerow.admin).expect("it listens");
    let metrics = ask(&mut stream, "/metrics").expect("an answer");
    let open = metrics.lines().find_map(|line| line.strip_prefix("process_open_fds "));
    let open: usize = open.and_then(|open| open.parse().ok()).expect("a figure");
    assert!((LIMIT - 24..=LIMIT - 12).contains(&open), "{open} are open");
    assert_eq!(hedgerow.errors().matches("no descriptor is left").count(), 1);
    drop(clients);
    until("clients are served again", || get(hedgerow.search, "/") == Some(404));
    assert_eq!(hedgerow.end().code(), Some(0));
}
