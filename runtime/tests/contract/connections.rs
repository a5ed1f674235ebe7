//! Listening and connecting.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use runtime::Deadline;

use crate::net::{anywhere, soon};
use crate::support::{beside, on_each, settle};

#[test]
fn shutdown_ends_a_pending_accept_and_refuses_new_peers() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let other = listener.clone();
        let accepting = beside(&reactor, async move { other.accept().await.err() });
        settle(&reactor).await;
        listener.shutdown();
        accepting.await.expect("the pending accept fails");
        listener.accept().await.err().expect("the next accept fails");
        let result = reactor.connect(listener.address(), None, soon(&reactor)).await;
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    });
}

#[test]
fn a_connection_tells_its_peer_and_its_source_address() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        assert_ne!(listener.address().port(), 0);
        let source = "127.0.0.9".parse().unwrap();
        let client =
            reactor.connect(listener.address(), Some(source), soon(&reactor)).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), source);
        drop(client);
    });
}

#[test]
fn nobody_listening_is_refused() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let address = listener.address();
        listener.shutdown();
        drop(listener);
        let result = reactor.connect(address, None, soon(&reactor)).await;
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    });
}

#[test]
fn an_unanswered_connect_ends_at_its_deadline() {
    on_each(|reactor| async move {
        // A full backlog answers nobody.
        let listener = reactor.listen(anywhere(), 1).unwrap();
        let mut connected = Vec::new();
        for _ in 0..8 {
            let started = reactor.now();
            let deadline = Deadline::after(started, Duration::from_millis(300));
            match reactor.connect(listener.address(), None, deadline).await {
                Ok(stream) => connected.push(stream),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    assert!(reactor.now() >= deadline.instant());
                    return;
                }
            }
        }
        panic!("a backlog of 1 took {} connections", connected.len());
    });
}

#[test]
fn a_passed_deadline_connects_nowhere() {
    on_each(|reactor| async move {
        let listener = reactor.listen(anywhere(), 16).unwrap();
        let result = reactor.connect(listener.address(), None, Deadline::at(reactor.now())).await;
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
    });
}

#[test]
fn several_listeners_share_one_port() {
    on_each(|reactor| async move {
        let first = reactor.listen(anywhere(), 64).unwrap();
        let second = reactor.listen(first.address(), 64).unwrap();
        let accepted = Rc::new(Cell::new(0));
        for listener in [first.clone(), second.clone()] {
            let accepted = accepted.clone();
            reactor.spawn(async move {
                while listener.accept().await.is_ok() {
                    accepted.set(accepted.get() + 1);
                }
            });
        }
        for _ in 0..32 {
            reactor.connect(first.address(), None, soon(&reactor)).await.unwrap();
        }
        while accepted.get() < 32 {
            settle(&reactor).await;
        }
        first.shutdown();
        second.shutdown();
    });
}
