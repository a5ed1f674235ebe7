//! Signals that other programs give a meaning to.

use std::net::TcpStream;

use crate::common::{Hedgerow, ask, until};

#[test]
fn a_signal_that_asks_for_nothing_known_is_refused_and_ends_nothing() {
    let hedgerow = Hedgerow::start("exec serve", "");
    let mut open = TcpStream::connect(hedgerow.search).expect("it listens");
    for name in ["HUP", "USR1", "USR2"] {
        hedgerow.signal(name);
        until(name, || hedgerow.errors().contains(&format!("signal=\"SIG{name}\"")));
    }
    for name in ["PIPE", "XFSZ"] {
        hedgerow.signal(name);
    }
    hedgerow.signal("HUP");
    until("HUP again", || hedgerow.errors().matches("signal=\"SIGHUP\"").count() == 2);
    let told = hedgerow.errors();
    assert!(told.contains("start a new instance and drain this one"), "{told}");
    let answer = ask(&mut open, "/search/fast?q=x").expect("the connection is still served");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(hedgerow.end().code(), Some(0));
}
