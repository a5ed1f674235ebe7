//! The client's side of the codec against engines that behave and that do not: each case is what
//! one engine sends to one request, and then closes or keeps the connection open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use hedgerow::wire::h1::client::{self, ExchangeError, ExchangeKind, Request};
use hedgerow::wire::h1::response::Fault;
use runtime::{CoreOptions, Deadline};

use crate::server::spawn;

#[derive(Clone, Copy, PartialEq)]
enum Then {
    KeepsOpen,
    Closes,
}
use Then::{Closes, KeepsOpen};

/// An engine that answers each connection's first request by `answer`.
fn engine(answer: Vec<u8>, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        if answer.is_empty() && then == Closes {
            return;
        }
        read_head(&mut stream);
        let _ = stream.write_all(&answer);
        if then == KeepsOpen {
            let _ = stream.read(&mut [0]);
        }
    }));
    address
}

fn read_head(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        seen.push(byte[0]);
    }
}

/// The status, the body and whether the connection may be used again; or the error.
type Got = Result<(u16, String, bool), ExchangeError>;

fn ask(address: SocketAddr) -> Got {
    let (sender, receiver) = mpsc::channel();
    let options = CoreOptions { entries: 256, ..CoreOptions::default() };
    let ran = runtime::run(options, move |reactor| async move {
        let deadline = Deadline::after(reactor.now(), Duration::from_secs(10));
        let stream = reactor.connect(address, None, deadline).await.expect("it listens");
        let request = Request { method: "GET", target: "/s", host: "h", headers: &[], body: b"" };
        let got = client::exchange(&stream, client::encode(&request), 1_000).await;
        let got = got.map(|response| {
            let body = String::from_utf8_lossy(&response.body).into_owned();
            (response.status, body, response.reusable)
        });
        sender.send(got).expect("the test waits");
    });
    ran.expect("a ring");
    receiver.recv().expect("an outcome")
}

fn check(answer: &str, then: Then, expected: Result<(u16, &str, bool), ExchangeKind>) {
    let got = ask(engine(answer.replace('\n', "\r\n").into_bytes(), then));
    let got = got.map_err(|error| error.kind);
    assert_eq!(got, expected.map(|(status, body, reusable)| (status, body.to_owned(), reusable)));
}

#[test]
fn a_whole_answer_leaves_the_connection_for_the_next() {
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", KeepsOpen, Ok((200, "ok", true)));
    check("HTTP/1.1 204 Nothing\n\n", KeepsOpen, Ok((204, "", true)));
    check("HTTP/1.1 304 As it was\nContent-Length: 2\n\n", KeepsOpen, Ok((304, "", true)));
    check("HTTP/1.1 204 Nothing\nTransfer-Encoding: chunked\n\n", KeepsOpen, Ok((204, "", true)));
    check(
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n",
        KeepsOpen,
        Ok((200, "ok", true)),
    );
}

#[test]
fn what_comes_beyond_an_answer_poisons_the_connection() {
    check(
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nokHTTP/1.1 200",
        KeepsOpen,
        Ok((200, "ok", false)),
    );
    check("HTTP/1.1 204 Nothing\nContent-Length: 2\n\nok", KeepsOpen, Ok((204, "", false)));
    check("HTTP/1.1 304 As it was\nContent-Length: 2\n\nok", KeepsOpen, Ok((304, "", false)));
    check(
        "HTTP/1.1 204 Nothing\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n",
        KeepsOpen,
        Ok((204, "", false)),
    );
    check("HTTP/1.1 200 OK\n\nok", Closes, Ok((200, "ok", false)));
}

#[test]
fn a_kept_connection_that_turns_out_closed_said_nothing() {
    let error = ask(engine(Vec::new(), Closes)).expect_err("no answer");
    assert_eq!(error.bytes_received, 0, "so the request may be repeated on another connection");
    assert!(matches!(error.kind, ExchangeKind::Broken | ExchangeKind::Fault(Fault::CutOff)));
}

#[test]
fn an_answer_cut_off_is_no_answer() {
    let cut = ExchangeKind::Fault(Fault::CutOff);
    check("HTTP/1.1 200 OK\nContent-Length: 9\n\nok", Closes, Err(cut));
    check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n", Closes, Err(cut));
    check("HTTP/1.1 200 OK\nContent-Le", Closes, Err(cut));
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok".to_vec();
    let error = ask(engine(answer, Closes)).expect_err("cut off");
    assert!(error.bytes_received > 0, "so the request must not be repeated blindly");
}

#[test]
fn an_answer_over_its_bound_is_given_up() {
    let large = ExchangeKind::Fault(Fault::TooLarge);
    check("HTTP/1.1 200 OK\nContent-Length: 1001\n\n", KeepsOpen, Err(large));
    check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3e9\n", KeepsOpen, Err(large));
}
