//! Descriptors run out: what still answers, and what is said.

use std::net::{SocketAddr, TcpStream};

use crate::common::{Hedgerow, ask, get, until};

/// Every descriptor of the process, the reserve left aside.
const LIMIT: usize = 192;

/// Takes all descriptors: opens connections that ask for nothing until well beyond the limit.
fn flood(at: SocketAddr) -> Vec<TcpStream> {
    (0..2 * LIMIT).map(|_| TcpStream::connect(at).expect("the backlog has room")).collect()
}

#[test]
fn the_admin_listener_answers_while_clients_hold_every_descriptor() {
    let hedgerow = Hedgerow::start(&format!("ulimit -n {LIMIT}; exec serve"), "");
    let told = hedgerow.errors();
    assert!(told.contains("each core holds fewer connections"), "{told}");
    assert!(told.contains("connections_per_core=126"), "{told}");
    let held = flood(hedgerow.search);
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
    assert!(open + 40 > LIMIT && open <= LIMIT, "{open} are open");
    drop(held);
    until("clients are served again", || get(hedgerow.search, "/") == Some(404));
    assert_eq!(hedgerow.end().code(), Some(0));
}
