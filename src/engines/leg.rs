//! One upstream call, as a task of its own: it alone touches its connection, so nothing is dropped
//! half-way. The race cancels it by `Leg::cancel`, which shuts the connection down; a call that was
//! cancelled before its request was written hands the connection back unused.

use std::cell::{Cell, RefCell};
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use runtime::local::Sender;
use runtime::{Deadline, Instant, Reactor, Stream};

use super::request;
use super::state::{EngineState, InFlight};
use super::verdict::{Judged, Received, judge};
use crate::model::{Item, Plan, Verdict};
use crate::wire::h1::client;

/// The largest answer that is read, decoded: 1 MiB. A page of 50 results is below 200 KiB, and
/// judging is one piece of work: at this size it holds its core up for some 40 ms at the worst.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A kept connection that ends without a byte within this time had timed out as the request
/// arrived; one that ends later had taken it, and a second try would be a call more.
const STALE_AFTER_MAX: Duration = Duration::from_millis(200);

/// How a leg ended.
#[derive(Debug)]
pub struct Done {
    /// Which leg of its race.
    pub leg: usize,
    /// What came of it.
    pub verdict: Verdict,
    /// Its results, if valid.
    pub items: Vec<Item>,
    /// How long the engine asked to be left alone.
    pub retry_after: Option<Duration>,
    /// The time spent waiting for the engine and the way to it: connecting, a first try that came
    /// to nothing, and the answer to its last byte.
    pub waited: Duration,
    /// Why, from a closed set.
    pub detail: &'static str,
}

/// The race's handle on a leg.
#[derive(Clone, Default)]
pub struct Leg(Rc<Shared>);

#[derive(Default)]
struct Shared {
    is_cancelled: Cell<bool>,
    stream: RefCell<Option<Stream>>,
    #[cfg(feature = "sim")]
    is_poisonous: Cell<bool>,
}

impl Leg {
    /// Stops the call: its connection is shut down and closed, never pooled.
    pub fn cancel(&self) {
        self.0.is_cancelled.set(true);
        if let Some(stream) = self.0.stream.borrow_mut().take() {
            #[cfg(feature = "sim")]
            if self.0.is_poisonous.get() {
                stream.abandon_read();
                return;
            }
            stream.shutdown(Shutdown::Both);
        }
    }

    /// Plants the fault that trap 9 of the design is about: a loser's connection, its answer
    /// unread, goes back to the pool. For the simulator's own test.
    #[cfg(feature = "sim")]
    pub fn poison(&self) {
        self.0.is_poisonous.set(true);
    }

    fn hold(&self, stream: &Stream) {
        *self.0.stream.borrow_mut() = Some(stream.clone());
    }

    fn let_go(&self) {
        self.0.stream.borrow_mut().take();
    }
}

/// What a leg needs.
pub struct Call {
    /// Whom to ask.
    pub engine: Rc<EngineState>,
    /// Counts the call among the engine's until it ends.
    pub in_flight: InFlight,
    /// What to ask.
    pub plan: Rc<Plan>,
    /// By when.
    pub deadline: Deadline,
    /// Its place in the race.
    pub index: usize,
    /// The reactor of this core.
    pub reactor: Reactor,
}

/// Runs the call and reports to `done` exactly once, even if it panics.
pub async fn run(call: Call, leg: Leg, done: Sender<Done>) {
    let mut report = Report { leg: call.index, done, is_sent: false };
    let ended = exchange(&call, &leg).await;
    leg.let_go();
    let done = match ended {
        Ok((judged, waited)) => Done {
            leg: call.index,
            verdict: judged.verdict,
            items: judged.items,
            retry_after: judged.retry_after,
            waited,
            detail: judged.detail,
        },
        Err(verdict) => Done::without_answer(call.index, verdict),
    };
    report.send(done);
}

impl Done {
    fn without_answer(leg: usize, verdict: Verdict) -> Self {
        let detail = match verdict {
            Verdict::Cancelled => "cancelled",
            Verdict::Timeout => "timed_out",
            Verdict::Skipped => "no_resources",
            _ => "connection",
        };
        let (items, retry_after) = (Vec::new(), None);
        Self { leg, verdict, items, retry_after, waited: Duration::ZERO, detail }
    }
}

/// Sends `Failed` when dropped unsent: the race is never left waiting.
struct Report {
    leg: usize,
    done: Sender<Done>,
    is_sent: bool,
}

impl Report {
    fn send(&mut self, done: Done) {
        self.is_sent = true;
        // The race may be over: then nobody wants to know.
        let _ = self.done.try_send(done);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.is_sent {
            self.send(Done { detail: "panic", ..Done::without_answer(self.leg, Verdict::Failed) });
        }
    }
}

/// One request and its answer; on a kept connection that turns out closed before it said
/// anything, once more on a fresh one (RFC 9112 §9.3.1: the request is safe to repeat).
async fn exchange(call: &Call, leg: &Leg) -> Result<(Judged, Duration), Verdict> {
    let engine = call.engine.settings();
    let upstream = request::build(engine, &call.plan);
    let host = request::host(&engine.url);
    let request = client::Request {
        method: upstream.method,
        target: &upstream.target,
        host: &host,
        headers: &upstream.headers,
        body: &upstream.body,
    };
    let mut first = Some(client::encode(&request));
    // From here on all time is the engine's or the network's, a first try in vain included.
    let began = call.reactor.now();
    let mut kept = take(call);
    loop {
        let is_kept = kept.is_some();
        let stream = match kept.take() {
            Some(stream) => stream,
            None => connect(call).await?,
        };
        if leg.0.is_cancelled.get() {
            give(call, stream);
            return Err(Verdict::Cancelled);
        }
        leg.hold(&stream);
        // An exchange reads into the buffer it wrote, so the rare second try encodes anew.
        let bytes = first.take().unwrap_or_else(|| client::encode(&request));
        let sent = call.reactor.now();
        let answer = client::exchange(&stream, bytes, ANSWER_BYTES_MAX).await;
        let now = call.reactor.now();
        leg.let_go();
        if leg.0.is_cancelled.get() {
            #[cfg(feature = "sim")]
            if leg.0.is_poisonous.get() {
                give(call, stream);
            }
            return Err(Verdict::Cancelled);
        }
        match answer {
            Ok(response) => {
                let judged = received(call, &response, &upstream.question);
                // Out of step, it would answer the next question with this one's answer.
                if response.reusable && judged.is_in_step {
                    give(call, stream);
                }
                return Ok((judged, now.since(began)));
            }
            Err(error)
                if is_kept
                    && error.bytes_received == 0
                    && now.since(sent) <= STALE_AFTER_MAX
                    && !call.deadline.passed(now) => {}
            Err(error) => return Err(error.kind.verdict()),
        }
    }
}

/// Judges an answer, once more against the engine's previous one.
fn received(call: &Call, response: &client::Response, asked: &str) -> Judged {
    let engine = call.engine.settings();
    let (status, headers, body) = (response.status, &response.headers, &response.body);
    let received = Received { status, headers, body, asked };
    let judged = judge(engine, &call.plan, &received);
    let is_echo = judged.verdict == Verdict::Valid
        && call.engine.echo.borrow_mut().check(&call.plan.normalised, judged.body_hash);
    if is_echo {
        return Judged {
            verdict: Verdict::Blocked,
            items: Vec::new(),
            detail: "same_page",
            ..judged
        };
    }
    judged
}

/// The newest kept connection that is still open and has nothing to say.
fn take(call: &Call) -> Option<Stream> {
    let now = call.reactor.now();
    let mut pool = call.engine.pool.borrow_mut();
    while let Some(stream) = pool.take(now) {
        if stream.is_quiet() {
            call.engine.reused();
            return Some(stream);
        }
    }
    None
}

/// Keeps a connection whose last answer was read to its end.
pub fn give(call: &Call, stream: Stream) {
    let now: Instant = call.reactor.now();
    // A full pool hands it back, and dropping it closes it.
    drop(call.engine.pool.borrow_mut().give(now, stream));
}

/// Whether this process or machine is out of descriptors, ports or memory.
fn is_own_want(error: &std::io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const EADDRNOTAVAIL: i32 = 99;
    const ENOBUFS: i32 = 105;
    let ours = [ENOMEM, ENFILE, EMFILE, EADDRNOTAVAIL, ENOBUFS];
    error.raw_os_error().is_some_and(|code| ours.contains(&code))
}

async fn connect(call: &Call) -> Result<Stream, Verdict> {
    let Some(address) = call.engine.address() else {
        return Err(Verdict::Failed);
    };
    match call.reactor.connect(address, None, call.deadline).await {
        Ok(stream) => {
            call.engine.opened();
            Ok(stream)
        }
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(Verdict::Timeout),
        // For want of something of ours: no evidence about the engine.
        Err(error) if is_own_want(&error) => Err(Verdict::Skipped),
        Err(_) => Err(Verdict::Failed),
    }
}
