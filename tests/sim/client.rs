//! A simulated client: one request on a connection of its own, and what came back. It judges
//! nothing but the framing.

use std::cell::RefCell;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use runtime::{Deadline, Instant, Reactor};

/// What a client does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) question: String,
    /// More of the query string, from its `&` on.
    pub(crate) query: &'static str,
    /// More fields of the head, each with its CRLF.
    pub(crate) fields: &'static str,
    /// Shortens the deadline.
    pub(crate) timeout_ms: Option<u64>,
    /// Hangs up after this long.
    pub(crate) leaves_after: Option<Duration>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A response: its status and its body.
    Answered(u16, String),
    /// The client hung up first.
    Left,
    /// No response, or bytes beyond it.
    Broken(&'static str),
}

/// One exchange.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) ask: Ask,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    pub(crate) end: End,
}

/// The exchanges of all clients.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Rc<RefCell<Vec<Exchange>>>);

impl Ledger {
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.0.borrow().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

/// Sends `ask` at `at`.
pub(crate) fn send(reactor: &Reactor, to: SocketAddr, at: Instant, ask: Ask, ledger: &Ledger) {
    let (own, ledger) = (reactor.clone(), ledger.clone());
    reactor.spawn(async move {
        own.sleep_until(at).await;
        let deadline = Deadline::after(own.now(), Duration::from_secs(2));
        let sent = own.now();
        let end = match own.connect(to, None, deadline).await {
            Ok(stream) => {
                if let Some(span) = ask.leaves_after {
                    let (stream, clock) = (stream.clone(), own.clone());
                    own.spawn(async move {
                        clock.sleep_until(clock.now() + span).await;
                        stream.shutdown(Shutdown::Both);
                    });
                }
                let end = exchange(&stream, &ask).await;
                stream.shutdown(Shutdown::Both);
                end
            }
            Err(_) => End::Broken("no connection"),
        };
        let has_left = ask.leaves_after.is_some() && !matches!(end, End::Answered(..));
        let end = if has_left { End::Left } else { end };
        ledger.0.borrow_mut().push(Exchange { ask, sent, ended: own.now(), end });
    });
}

async fn exchange(stream: &runtime::Stream, ask: &Ask) -> End {
    let timeout = ask.timeout_ms.map_or(String::new(), |ms| format!("&timeout_ms={ms}"));
    let (query, fields) = (ask.query, ask.fields);
    let request = format!(
        "GET /search/fast?q={}{timeout}{query} HTTP/1.1\r\nHost: x\r\nX-API-Key: demo\r\n\
         {fields}\r\n",
        ask.question.replace(' ', "+")
    );
    if stream.write_all(request.into_bytes()).await.0.is_err() {
        return End::Broken("the request could not be written");
    }
    let mut input = Vec::with_capacity(32 * 1024);
    loop {
        if let Some(end) = whole(&input) {
            return end;
        }
        input.reserve(8 * 1024);
        let (read, filled) = stream.read(input).await;
        input = filled;
        if !matches!(read, Ok(count) if count > 0) {
            return End::Broken("closed before the end of the response");
        }
    }
}

/// The response in `input`, once it is whole.
fn whole(input: &[u8]) -> Option<End> {
    let head_end = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(input.get(..head_end)?).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let body = input.get(head_end..)?;
    if body.len() > length {
        return Some(End::Broken("bytes beyond the response"));
    }
    (body.len() == length)
        .then(|| End::Answered(status, String::from_utf8_lossy(body).into_owned()))
}
