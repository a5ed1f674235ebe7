//! The clients of a simulated world: an open loop. Every request has its time from the plan; it
//! goes out on a connection that is idle, or on a new one. Its latency is from that time to the
//! answer's last byte, whatever the world did meanwhile.

use std::cell::{Cell, RefCell};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use memchr::memmem;
use runtime::{Deadline, Instant, Reactor, Stream};

use super::question::Question;
use super::tally::{Came, Kind, Tally};

/// Idle connections that are kept.
const IDLE_MAX: usize = 1_024;

/// Longer than any request lives.
const CONNECT_MAX: Duration = Duration::from_secs(60);

/// An answer and its head fit, or the buffer grows.
const BUFFER_BYTES: usize = 8 * 1024;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The interactive lane.
    Person,
    /// The batch lane.
    Batch,
}

impl Caller {
    /// Its API key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Batch => "batch",
        }
    }
}

/// One request of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// When, after the start of the traffic; never before an earlier one.
    pub at: Duration,
    /// What.
    pub question: Question,
    /// By whom.
    pub caller: Caller,
}

/// The clients of one instance.
pub struct Clients {
    reactor: Reactor,
    to: SocketAddr,
    idle: RefCell<Vec<(Stream, Vec<u8>)>>,
    /// What came back.
    pub tally: RefCell<Tally>,
    outstanding: Cell<u64>,
    is_planned_out: Cell<bool>,
}

impl Clients {
    /// Clients on `reactor` of the instance at `to`.
    pub fn new(reactor: Reactor, to: SocketAddr, tally: Tally) -> Rc<Self> {
        Rc::new(Self {
            reactor,
            to,
            idle: RefCell::default(),
            tally: RefCell::new(tally),
            outstanding: Cell::new(0),
            is_planned_out: Cell::new(false),
        })
    }

    /// Sends the requests of `plan`, each at its time after `start`.
    pub fn begin(self: &Rc<Self>, start: Instant, plan: impl Iterator<Item = Asked> + 'static) {
        let clients = self.clone();
        self.reactor.spawn(async move {
            for asked in plan {
                clients.reactor.sleep_until(start + asked.at).await;
                clients.outstanding.set(clients.outstanding.get() + 1);
                let one = clients.clone();
                clients.reactor.spawn(async move { one.ask(start, asked).await });
            }
            clients.is_planned_out.set(true);
        });
    }

    /// Whether every request of the plan was sent.
    pub fn is_planned_out(&self) -> bool {
        self.is_planned_out.get()
    }

    /// Whether every request of the plan has ended.
    pub fn is_over(&self) -> bool {
        self.is_planned_out.get() && self.outstanding.get() == 0
    }

    async fn ask(self: Rc<Self>, start: Instant, asked: Asked) {
        let ended = self.exchange(asked).await;
        let took = self.reactor.now().since(start + asked.at);
        self.outstanding.set(self.outstanding.get() - 1);
        let came = ended.unwrap_or(Came { status: 0, kind: Kind::Refused, code: "broken" });
        self.tally.borrow_mut().add(&asked, &came, took);
    }

    /// One request and its answer; none: the connection broke.
    async fn exchange(&self, asked: Asked) -> Option<Came> {
        let (stream, mut buffer) = self.connection().await?;
        let request = request(asked);
        stream.write_all(request).await.0.ok()?;
        loop {
            buffer.reserve(BUFFER_BYTES);
            let (read, filled) = stream.read(buffer).await;
            buffer = filled;
            if !matches!(read, Ok(count) if count > 0) {
                return None;
            }
            if let Some((came, stays)) = whole(&buffer) {
                if stays && self.idle.borrow().len() < IDLE_MAX {
                    buffer.clear();
                    self.idle.borrow_mut().push((stream, buffer));
                } else {
                    stream.shutdown(Shutdown::Both);
                }
                return Some(came);
            }
        }
    }

    async fn connection(&self) -> Option<(Stream, Vec<u8>)> {
        while let Some((stream, buffer)) = self.idle.borrow_mut().pop() {
            if stream.is_quiet() {
                return Some((stream, buffer));
            }
        }
        let deadline = Deadline::after(self.reactor.now(), CONNECT_MAX);
        let stream = self.reactor.connect(self.to, None, deadline).await.ok()?;
        Some((stream, Vec::with_capacity(BUFFER_BYTES)))
    }
}

fn request(asked: Asked) -> Vec<u8> {
    let mut request = Vec::with_capacity(192);
    request.extend_from_slice(b"GET /search/fast?q=");
    asked.question.write(&mut request);
    request.extend_from_slice(b" HTTP/1.1\r\nHost: x\r\nX-API-Key: ");
    request.extend_from_slice(asked.caller.key().as_bytes());
    request.extend_from_slice(b"\r\n\r\n");
    request
}

/// What the response in `input` says, once it is whole; and whether the connection stays.
fn whole(input: &[u8]) -> Option<(Came, bool)> {
    let head_end = memmem::find(input, b"\r\n\r\n")? + 4;
    let (head, body) = input.split_at(head_end);
    let length = field(head, b"Content-Length: ").and_then(|length| length.parse().ok());
    if body.len() < length.unwrap_or(0) {
        return None;
    }
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    let status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let kind = match field(head, b"X-Cache: ") {
        Some("hit") if status == 200 => Kind::Hit,
        // Its request waited for engines, so it was no stored answer at once.
        Some("stale") if status == 200 && memmem::find(head, b", engine;dur=").is_some() => {
            Kind::Spare
        }
        Some("stale") if status == 200 => Kind::Stale,
        Some("coalesced") if status == 200 => Kind::Coalesced,
        Some(_) if status == 200 => Kind::Miss,
        _ if status >= 500 => Kind::Unanswered,
        _ => Kind::Refused,
    };
    let code = if status == 200 { "" } else { code_of(body) };
    let kind = if code == "overloaded" { Kind::Refused } else { kind };
    let stays = memmem::find(head, b"Connection: close").is_none();
    Some((Came { status, kind, code }, stays))
}

fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let value = head.get(memmem::find(head, name)? + name.len()..)?;
    let end = memchr::memchr(b'\r', value)?;
    std::str::from_utf8(value.get(..end)?).ok()
}

/// The code of a refusal, as a word that lives on.
fn code_of(body: &[u8]) -> &'static str {
    const CODES: [&str; 6] = [
        "deadline_exceeded",
        "no_valid_answer",
        "engines_unavailable",
        "overloaded",
        "rate_limited",
        "quota_exceeded",
    ];
    let is_it =
        |code: &&&str| memmem::find(body, format!("\"code\":\"{code}\"").as_bytes()).is_some();
    CODES.iter().find(is_it).copied().unwrap_or("other")
}
