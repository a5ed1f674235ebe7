//! One connection: requests in, responses out, in order.
//!
//! Between requests it holds a 2 KiB buffer with a read pending, and nothing else: that read *is*
//! the idle state. While an answer is being made one read stays in flight beside it, so that a peer
//! that leaves is noticed. It has a buffer of its own, so that pipelined bytes already here can be
//! used before it returns. A read is never dropped: it is kept for the next request or, at the end,
//! shut down and awaited.
//!
//! The end of the peer's stream counts as leaving while an answer is being made, though the peer
//! may only have closed its sending half: the kernel tells the two apart no sooner than we write
//! (TCP has one FIN for both, RFC 9293 §3.6), and the work for all who hang up would be done for
//! nobody. An answer that is there at once, a hit or a refusal, reaches a half-closed peer.

use std::future::Future;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::{Instant, Stream};

use super::respond::{self, Ending};
use super::route::{Route, route};
use super::serve::Ground;
use super::sweep::{Place, Wait};
use super::{Call, Later, Sent, Service};
use crate::head::Method;
use crate::ids;
use crate::model::Refusal;
use crate::reply::{Content, Reply};
use crate::trail::Trail;
use crate::wire::h1::head::{Persistence, RequestHead};
use crate::wire::h1::intake::{Bounds, Intake, Progress};

/// What an idle connection holds.
const IDLE_BYTES: usize = 2 * 1024;

/// Room for an answer: ten results take 4 to 8 KiB, and a buffer that grew leaves its size class
/// and is lost to the pool.
const ANSWER_BYTES: usize = 16 * 1024;

/// How much of a refused request is read and thrown away, so that its sender gets to read why.
const LINGER_BYTES_MAX: usize = 64 * 1024;

/// How long that may take.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// How a connection's last words end.
const LAST: Ending = Ending { is_head: false, closes: true, tells_keep_alive: false };

type Read = Pin<Box<dyn Future<Output = (std::io::Result<usize>, Vec<u8>)>>>;

/// A connection with its buffers.
pub(super) struct Connection<S> {
    ground: Rc<Ground<S>>,
    stream: Stream,
    place: Place,
    intake: Intake,
    /// Bytes read and not yet used.
    input: Vec<u8>,
    /// The read in flight beside an answer. It has a buffer of its own: what is in `input` may
    /// already be the next request, which must not wait for more bytes.
    pending: Option<Read>,
    /// Whether the request begins with HEAD, known before it is whole: what answers it has no body.
    asks_head: bool,
    /// When the last bytes were read.
    read_at: Instant,
    /// When the last answer was written.
    wrote_at: Instant,
    /// When the first byte of the current request was read.
    arrived: Instant,
    /// Nothing was answered yet.
    is_new: bool,
}

/// What a whole request came to.
struct Exchange {
    call: Call,
    is_head: bool,
    persistence: Persistence,
    /// When it was whole and its turn had come.
    received: Instant,
}

/// How a wait for a peer or an answer ended.
enum Waited<T> {
    Got(T),
    Panicked,
    PeerGone,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(ground: Rc<Ground<S>>, stream: Stream) -> Self {
        let place = ground.sweep.enter(stream.clone());
        let input = Vec::with_capacity(IDLE_BYTES);
        Self {
            ground,
            stream,
            place,
            intake: Intake::default(),
            input,
            pending: None,
            asks_head: false,
            read_at: Instant::ZERO,
            wrote_at: Instant::ZERO,
            arrived: Instant::ZERO,
            is_new: true,
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(mut self) {
        while self.turn().await {}
        self.end().await;
    }

    /// One connection too many: it is told to come back, unasked, and closed.
    pub(super) async fn turn_away(mut self) {
        // Nothing was asked, so there is no request to account for.
        let mut reply = Reply::refused(&Refusal::Overloaded, self.ground.request_id(), None);
        if self.send(&mut reply, LAST).await.is_complete {
            self.linger().await;
        }
        self.end().await;
    }

    async fn end(&mut self) {
        self.stream.shutdown(Shutdown::Both);
        if let Some(pending) = self.pending.take() {
            drop(pending.await);
        }
    }

    /// One step: read, or answer one request. False: the connection ends.
    async fn turn(&mut self) -> bool {
        let limits = self.ground.service.limits();
        let bounds = Bounds {
            header_bytes_max: limits.header_bytes_max,
            body_bytes_max: limits.body_bytes_max,
        };
        let (ground, arrived) = (self.ground.clone(), self.arrived);
        if !self.intake.is_in_body() {
            self.asks_head = self.input.starts_with(b"HEAD ");
        }
        let progress = self.intake.advance(&mut self.input, bounds, |request, body| {
            exchange(&ground, request, body, arrived)
        });
        match progress {
            Progress::NeedMore => self.read().await,
            Progress::Continue => {
                let bytes = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                let is_told = self.write(bytes, self.read_at).await.0;
                if !is_told {
                    self.left_in_body();
                }
                is_told && self.read().await
            }
            Progress::Whole(exchange) => {
                self.ground.service.probe().requests_total.increment();
                self.answer(exchange).await
            }
            Progress::Refused(refusal) => {
                self.ground.service.probe().malformed_total.increment();
                self.refuse(&refusal).await;
                false
            }
        }
    }

    /// Reads more. False: the peer sends no more, or was too slow.
    async fn read(&mut self) -> bool {
        let ground = self.ground.clone();
        let limits = ground.service.limits();
        let is_idle = self.input.is_empty() && !self.intake.is_in_body();
        if is_idle {
            let since = match self.is_new {
                true => ground.service.reactor().now(),
                false => self.wrote_at.max(self.read_at),
            };
            let wait = match self.is_new {
                true => Wait::First,
                false => Wait::Idle,
            };
            if wait == Wait::Idle && ground.service.is_draining() {
                // What has arrived is still read: a request in it is answered.
                self.stream.shutdown(Shutdown::Read);
            }
            self.settle_down();
            self.place.waits(wait, since + limits.idle_timeout);
        } else {
            self.place.waits(Wait::Request, self.arrived + limits.header_timeout);
        }
        let read = match self.pending.take() {
            Some(pending) => {
                let (read, ahead) = pending.await;
                self.append(ahead);
                read
            }
            None => {
                let room = self.room();
                let mut input = std::mem::take(&mut self.input);
                input.reserve(room);
                let (read, input) = self.stream.read(input).await;
                self.input = input;
                read
            }
        };
        match read {
            Ok(count) if count > 0 => {
                self.has_read(count);
                if is_idle {
                    self.arrived = self.read_at;
                }
                true
            }
            _ => {
                let is_begun = !self.input.is_empty() || self.intake.is_in_body();
                if is_begun && self.place.is_overdue() {
                    self.refuse(&Refusal::TooSlow).await;
                } else if self.intake.is_in_body() {
                    self.left_in_body();
                }
                false
            }
        }
    }

    /// How much room the next read wants: what is known of the body, else some, within bounds.
    fn room(&self) -> usize {
        let wanted = self.intake.wanted_bytes().saturating_sub(self.input.len());
        let spare = self.input.capacity() - self.input.len();
        if wanted == 0 && spare >= IDLE_BYTES / 4 {
            return 0;
        }
        wanted.max(self.input.len()).max(IDLE_BYTES)
    }

    fn has_read(&mut self, count: usize) {
        self.read_at = self.ground.service.reactor().now();
        self.ground.service.probe().received_bytes_total.add(count as u64);
    }

    /// Puts what was read ahead behind what is not yet used.
    fn append(&mut self, ahead: Vec<u8>) {
        if self.input.is_empty() {
            self.input = ahead;
        } else {
            self.input.extend_from_slice(&ahead);
        }
    }

    /// An idle connection gives back what a large request made it take.
    fn settle_down(&mut self) {
        if self.pending.is_some() {
            // The read ahead has a buffer already.
            self.input = Vec::new();
        } else if self.input.capacity() != IDLE_BYTES {
            self.input = Vec::with_capacity(IDLE_BYTES);
        }
    }

    /// Waits for the answer and writes it. False: the connection ends.
    async fn answer(&mut self, exchange: Exchange) -> bool {
        let Exchange { call, is_head, persistence, received } = exchange;
        self.is_new = false;
        self.place.waits_for_us();
        let mut reply = match call {
            Call::Done(reply) => reply,
            Call::Later(Later { answer, mut trail, account }) => {
                trail.received = received;
                match self.later(answer).await {
                    Waited::Got(reply) => reply,
                    Waited::Panicked => {
                        let reply = self.ground.panicked();
                        Reply { trail: Some(trail), account, ..reply }
                    }
                    Waited::PeerGone => {
                        self.peer_gone(Reply::peer_gone(Some(trail), account));
                        return false;
                    }
                }
            }
        };
        if let Some(trail) = &mut reply.trail {
            trail.received = received;
        }
        let is_draining = self.ground.service.is_draining();
        let closes = reply.close || is_draining || persistence == Persistence::Closes;
        let tells_keep_alive = persistence == Persistence::StaysIfTold;
        let ending = Ending { is_head, closes, tells_keep_alive };
        let is_sent = self.respond(reply, ending).await;
        if is_sent && closes {
            self.linger().await;
        }
        // What a pipelining peer sent meanwhile came with the last read, or just before it.
        self.arrived = self.read_at;
        is_sent && !closes
    }

    /// Runs the answer's future beside a read that notices when the peer leaves.
    async fn later(&mut self, mut answer: Pin<Box<dyn Future<Output = Reply>>>) -> Waited<Reply> {
        let mut watches = true;
        std::future::poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
            match polled {
                Ok(Poll::Ready(reply)) => return Poll::Ready(Waited::Got(reply)),
                Ok(Poll::Pending) => {}
                Err(_) => return Poll::Ready(Waited::Panicked),
            }
            while watches {
                match self.poll_ahead(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ahead::More) => {}
                    Poll::Ready(Ahead::Full) => watches = false,
                    Poll::Ready(Ahead::PeerGone) => return Poll::Ready(Waited::PeerGone),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads ahead of the current request, up to one more head, into a buffer of its own.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<Ahead> {
        let max = self.ground.service.limits().header_bytes_max;
        let pending = match &mut self.pending {
            Some(pending) => pending,
            None if self.input.len() >= max => return Poll::Ready(Ahead::Full),
            None => {
                let is_spare = self.input.is_empty() && self.input.capacity() == IDLE_BYTES;
                let ahead = match is_spare {
                    true => std::mem::take(&mut self.input),
                    false => Vec::with_capacity(IDLE_BYTES),
                };
                self.pending.insert(Box::pin(self.stream.read(ahead)))
            }
        };
        let Poll::Ready((read, ahead)) = pending.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.pending = None;
        self.append(ahead);
        Poll::Ready(match read {
            Ok(count) if count > 0 => {
                self.has_read(count);
                Ahead::More
            }
            _ => Ahead::PeerGone,
        })
    }

    /// Accounts for a request whose peer left between its head and the end of its body.
    fn left_in_body(&self) {
        self.ground.service.probe().requests_total.increment();
        self.peer_gone(Reply::peer_gone(Some(Trail::new(self.arrived)), None));
    }

    /// Accounts for a request whose peer left before its answer was there.
    fn peer_gone(&self, reply: Reply) {
        let service = &self.ground.service;
        service.probe().peers_gone_total.increment();
        let at = service.reactor().now();
        service.done(&reply, Sent { at, bytes: 0, is_complete: false });
    }

    /// Writes a request's reply and accounts for it. False: it did not all go out.
    async fn respond(&mut self, mut reply: Reply, ending: Ending) -> bool {
        let sent = self.send(&mut reply, ending).await;
        self.ground.service.done(&reply, sent);
        self.ground.buffers.give(reply.body);
        sent.is_complete
    }

    /// Writes a reply.
    async fn send(&mut self, reply: &mut Reply, ending: Ending) -> Sent {
        let ground = self.ground.clone();
        let reactor = ground.service.reactor();
        let mut out = ground.buffers.take(reply.body.len() + 1_024);
        respond::encode(reply, ending, reactor.unix_time(), &ground.dates, &mut out);
        let bytes = out.len();
        let made = reply.trail.map_or_else(|| reactor.now(), |trail| trail.latest());
        let (is_complete, out) = self.write(out, made).await;
        ground.buffers.give(out);
        let at = reactor.now();
        if let Some(trail) = &mut reply.trail {
            trail.written = at;
        }
        self.wrote_at = at;
        let probe = ground.service.probe();
        probe.responded(reply.status);
        if is_complete {
            probe.sent_bytes_total.add(bytes as u64);
        }
        Sent { at, bytes, is_complete }
    }

    /// Writes `bytes`, made at `from`, within the bound for slow readers; gives the buffer back.
    async fn write(&mut self, bytes: Vec<u8>, from: Instant) -> (bool, Vec<u8>) {
        let due = from.max(self.read_at) + self.ground.service.limits().idle_timeout;
        self.place.waits(Wait::Writing, due);
        let (written, bytes) = self.stream.write_all(bytes).await;
        (written.is_ok(), bytes)
    }

    /// Tells the peer why its bytes are refused, and closes.
    ///
    /// Such a reply has no trail: how long a stranger took to send half a request says nothing
    /// about us.
    async fn refuse(&mut self, refusal: &Refusal) {
        let ending = Ending { is_head: self.asks_head, ..LAST };
        self.ground.service.probe().requests_total.increment();
        let reply = Reply::refused(refusal, self.ground.request_id(), None);
        if self.respond(reply, ending).await {
            self.linger().await;
        }
    }

    /// Closes our side and reads the peer's last bytes, so that its stack does not answer them with
    /// a reset that would throw our response away (RFC 9112 §9.6).
    async fn linger(&mut self) {
        self.stream.shutdown(Shutdown::Write);
        let now = self.ground.service.reactor().now();
        self.place.waits(Wait::Lingering, now + LINGER_MAX);
        let mut seen = 0;
        while seen < LINGER_BYTES_MAX && !self.place.is_overdue() {
            let (read, mut thrown_away) = match self.pending.take() {
                Some(pending) => pending.await,
                None => {
                    let mut room = std::mem::take(&mut self.input);
                    room.clear();
                    room.reserve(IDLE_BYTES);
                    self.stream.read(room).await
                }
            };
            thrown_away.clear();
            self.input = thrown_away;
            match read {
                Ok(count) if count > 0 => seen += count,
                _ => return,
            }
        }
    }
}

enum Ahead {
    More,
    Full,
    PeerGone,
}

/// Routes a whole request and calls the service.
fn exchange<S: Service>(
    ground: &Rc<Ground<S>>,
    request: &RequestHead<'_>,
    body: &[u8],
    arrived: Instant,
) -> Exchange {
    let head = &request.head;
    let received = ground.service.reactor().now();
    let request_id = || {
        let own = head.headers.get("x-request-id").and_then(ids::echoable);
        own.map_or_else(|| ground.request_id(), str::to_owned)
    };
    let trail = Some(Trail::new(arrived));
    let call = match route(head) {
        Route::Search(endpoint) => {
            let service = ground.service.clone();
            let buffer = ground.buffers.take(ANSWER_BYTES);
            let called = catch_unwind(AssertUnwindSafe(|| {
                service.call(endpoint, head, body, arrived, buffer)
            }));
            called.unwrap_or_else(|_| Call::Done(Reply { trail, ..ground.panicked() }))
        }
        Route::Options(allow) => {
            let reply = Reply::new(204, Content::Nothing, Vec::new(), request_id());
            Call::Done(Reply { allow: Some(allow), trail, ..reply })
        }
        Route::Refused(refusal) => {
            let buffer = ground.buffers.take(0);
            let reply = Reply::refused_into(buffer, &refusal, request_id(), None);
            Call::Done(Reply { trail, ..reply })
        }
    };
    let is_head = head.method == Method::Head;
    Exchange { call, is_head, persistence: request.persistence, received }
}
