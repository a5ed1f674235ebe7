//! A simulated engine: SearXNG-shaped answers whose titles carry the question, after a delay, with
//! faults by chance or by order. It records what it was asked.

use std::cell::{Cell, RefCell};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Reactor, Stream};

/// What an engine answers, chance apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A page that does not repeat the question.
    Mute,
    /// A page of ten.
    Page,
    /// A page of at least so many bytes, in pieces of 16 KiB, 1 ms apart.
    Long(usize),
    /// An empty list.
    Empty,
    /// A browser check, with status 200.
    Block,
    /// A connection reset.
    Reset,
    /// Nothing.
    Never,
    /// The head and half of a page, and nothing more.
    Half,
    /// A page in gzip that ends too early.
    HalfGzip,
    /// This status, these fields (each with its CRLF) and this body, in which `@Q@` stands for the
    /// question.
    Raw(u16, &'static str, &'static str),
}

/// How an engine behaves; ratios are chances per call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// What it answers.
    pub(crate) kind: Kind,
    /// How good the configuration says it is.
    pub(crate) quality: f64,
    /// The least delay.
    pub(crate) fast: Duration,
    /// The greatest delay of a slow answer.
    pub(crate) slow: Duration,
    /// How many answers are slow.
    pub(crate) slow_ratio: f64,
    /// Empty lists.
    pub(crate) empty_ratio: f64,
    /// Block pages.
    pub(crate) block_ratio: f64,
    /// Connections closed instead of an answer.
    pub(crate) drop_ratio: f64,
    /// Connections closed after an answer that promised to keep them.
    pub(crate) close_ratio: f64,
}

impl Manner {
    /// 5 to 40 ms, without a fault.
    pub(crate) const GOOD: Self = Self {
        kind: Kind::Page,
        quality: 1.0,
        fast: Duration::from_millis(5),
        slow: Duration::from_millis(40),
        slow_ratio: 1.0,
        empty_ratio: 0.0,
        block_ratio: 0.0,
        drop_ratio: 0.0,
        close_ratio: 0.0,
    };

    /// Half of the answers take up to 160 ms.
    pub(crate) const SLOW: Self =
        Self { slow: Duration::from_millis(160), slow_ratio: 0.5, ..Self::GOOD };

    /// A page after exactly `ms`.
    pub(crate) const fn after(ms: u64) -> Self {
        let delay = Duration::from_millis(ms);
        Self { fast: delay, slow: delay, ..Self::GOOD }
    }

    /// The same manner with another answer.
    pub(crate) const fn with(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same manner, preferred to all others.
    pub(crate) const fn best(self) -> Self {
        Self { quality: 1000.0, ..self }
    }

    /// A little of every fault.
    pub(crate) const BAD: Self = Self {
        slow: Duration::from_millis(900),
        slow_ratio: 0.1,
        empty_ratio: 0.03,
        block_ratio: 0.03,
        drop_ratio: 0.03,
        close_ratio: 0.1,
        ..Self::GOOD
    };
}

/// One call, as the engine saw it.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) at: Instant,
    pub(crate) question: String,
    /// Request line and fields.
    pub(crate) head: String,
}

/// An engine as a test holds it.
#[derive(Clone)]
pub(crate) struct Engine(Rc<Shared>);

struct Shared {
    address: SocketAddr,
    manner: Cell<Manner>,
    calls: RefCell<Vec<Called>>,
}

impl Engine {
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// What it was asked so far.
    pub(crate) fn calls(&self) -> Vec<Called> {
        self.0.calls.borrow().clone()
    }

    /// How often it was asked so far.
    pub(crate) fn count(&self) -> usize {
        self.0.calls.borrow().len()
    }

    /// How it behaves to calls that come from now on.
    pub(crate) fn behave(&self, manner: Manner) {
        self.0.manner.set(manner);
    }
}

/// Starts an engine at `address`.
pub(crate) fn start(reactor: &Reactor, address: SocketAddr, manner: Manner) -> Engine {
    let shared = Shared { address, manner: Cell::new(manner), calls: RefCell::default() };
    let engine = Engine(Rc::new(shared));
    let listener = reactor.listen(address, 4_096).expect("a free address");
    let (served, own) = (reactor.clone(), engine.clone());
    reactor.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (reactor, engine) = (served.clone(), own.clone());
            served.spawn(async move { serve(reactor, stream, engine).await });
        }
    });
    engine
}

/// A random number in 0..1.
pub(crate) fn unit(reactor: &Reactor) -> f64 {
    (reactor.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

async fn serve(reactor: Reactor, stream: Stream, engine: Engine) {
    let mut input = Vec::with_capacity(8 * 1024);
    loop {
        let end = input.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            input.reserve(4 * 1024);
            let (read, filled) = stream.read(input).await;
            input = filled;
            if !matches!(read, Ok(count) if count > 0) {
                return;
            }
            continue;
        };
        let head = String::from_utf8_lossy(&input[..end]).into_owned();
        input.drain(..end + 4);
        let (question, manner) = (question_of(&head), engine.0.manner.get());
        let called = Called { at: reactor.now(), question: question.clone(), head };
        engine.0.calls.borrow_mut().push(called);
        let is_slow = unit(&reactor) < manner.slow_ratio;
        let span = if is_slow { manner.slow.saturating_sub(manner.fast) } else { Duration::ZERO };
        let delay = manner.fast + span.mul_f64(unit(&reactor));
        reactor.sleep_until(reactor.now() + delay).await;
        if unit(&reactor) < manner.drop_ratio || matches!(manner.kind, Kind::Reset) {
            return stream.shutdown(Shutdown::Both);
        }
        let body = body(&reactor, manner, &question);
        if !answer(&reactor, &stream, manner.kind, &question, body).await {
            return;
        }
        if unit(&reactor) < manner.close_ratio {
            return stream.shutdown(Shutdown::Both);
        }
    }
}

/// Sends what `kind` asks for; false: the connection is of no use afterwards.
async fn answer(
    reactor: &Reactor,
    stream: &Stream,
    kind: Kind,
    question: &str,
    body: Vec<u8>,
) -> bool {
    let (status, fields, body) = match kind {
        Kind::Raw(status, fields, body) => {
            (status, fields, body.replace("@Q@", question).into_bytes())
        }
        Kind::HalfGzip => (200, "Content-Encoding: gzip\r\n", half_gzip(&body)),
        _ => (200, "Content-Type: application/json\r\n", body),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n");
    let mut bytes = [head.as_bytes(), &body].concat();
    match kind {
        Kind::Never => bytes.clear(),
        Kind::Half => bytes.truncate(head.len() + length / 2),
        Kind::Long(_) => return send_slowly(reactor, stream, &bytes).await,
        _ => return stream.write_all(bytes).await.0.is_ok(),
    }
    let is_gone = !bytes.is_empty() && stream.write_all(bytes).await.0.is_err();
    while !is_gone && matches!(stream.read(Vec::with_capacity(1)).await.0, Ok(count) if count > 0) {
    }
    false
}

async fn send_slowly(reactor: &Reactor, stream: &Stream, bytes: &[u8]) -> bool {
    for piece in bytes.chunks(16 * 1024) {
        if stream.write_all(piece.to_vec()).await.0.is_err() {
            return false;
        }
        reactor.sleep_until(reactor.now() + Duration::from_millis(1)).await;
    }
    true
}

/// Gzip, by stored blocks, of which the last third is missing.
fn half_gzip(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a page below 64 KiB");
    let mut bytes = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(&body[..body.len() * 2 / 3]);
    bytes
}

/// The `q` of the request line, decoded.
fn question_of(head: &str) -> String {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("q=")).unwrap_or_default();
    let value = value.replace('+', " ");
    percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned()
}

fn body(reactor: &Reactor, manner: Manner, question: &str) -> Vec<u8> {
    let draw = unit(reactor);
    if draw < manner.block_ratio || matches!(manner.kind, Kind::Block) {
        let page = "<html><title>Just a moment...</title>\
                    <script>window._cf_chl_opt={}</script>\
                    <script src=/cdn-cgi/challenge-platform/h></script></html>";
        return page.as_bytes().to_vec();
    }
    let is_empty = draw < manner.block_ratio + manner.empty_ratio;
    let count = if is_empty || matches!(manner.kind, Kind::Empty) { 0 } else { 10 };
    let quoted = serde_json::Value::from(question).to_string();
    let question = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let rows: Vec<String> = (0..count)
        .map(|row| {
            format!(
                r#"{{"url":"https://site{row}.example/{}","title":"{question} :: {row}","content":"about {question}"}}"#,
                question.replace(' ', "-")
            )
        })
        .collect();
    let pad = if let Kind::Long(bytes) = manner.kind { "x".repeat(bytes) } else { String::new() };
    let rows = rows.join(",");
    let repeated = match manner.kind {
        Kind::Mute => "null".to_owned(),
        _ => format!("\"{question}\""),
    };
    format!(r#"{{"query":{repeated},"pad":"{pad}","results":[{rows}],"unresponsive_engines":[]}}"#)
        .into_bytes()
}
