//! Stages 0 and 7: bytes in, bytes out. Per core: one accept loop per listener, one task per
//! connection, one coarse sweep for all timeouts.
//!
//! The edge reads a whole request (head and body, both bounded) before it calls the service, so no
//! later stage waits for a caller's bytes, and no refusal leaves half a body to be read as the next
//! request. Where framing is in doubt it answers and closes. It knows no stage: it calls a
//! `Service`.

mod probe;
mod respond;
mod sweep;
mod connection;
mod serve;
pub mod route;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Reactor};

pub use crate::head::{Head, Headers, Method};
pub use probe::{Counter, Probe};
pub use serve::serve;

use crate::config::settings::Limits;
use crate::model::{Account, Endpoint};
use crate::reply::Reply;
use crate::trail::Trail;

/// What the edge serves. The one on the path is a core's shard; the edge's tests have another.
pub trait Service: 'static {
    /// The limits of connections and requests.
    fn limits(&self) -> &Limits;

    /// The core's reactor.
    fn reactor(&self) -> &Reactor;

    /// The edge's counters of this core: one probe for all its listeners.
    fn probe(&self) -> &Probe;

    /// Whether the process is going away: looked at 20 times a second and after each response.
    fn is_draining(&self) -> bool;

    /// How long `serve` waits for the last requests once the drain has begun.
    fn drain_timeout(&self) -> Duration;

    /// Answers a request: at once where it can (hits, refusals), else later. `body` is whole and
    /// within `limits`; `arrived` is when the request's first byte was read; `reply_buffer` is
    /// empty and meant for `Reply::body`. A panic in here or in the future is answered with 500.
    ///
    /// # Cancel
    /// The future is dropped when the caller leaves; what it holds must be given back on drop.
    fn call(
        self: Rc<Self>,
        endpoint: Endpoint,
        head: &Head<'_>,
        body: &[u8],
        arrived: Instant,
        reply_buffer: Vec<u8>,
    ) -> Call;

    /// Called once per request (`Probe::requests_total`): after its answer's last byte, or the
    /// failure to send it; or when the caller left before its answer was there, with a reply of
    /// status `reply::PEER_GONE`, of which nothing is sent. `reply.trail`, where there is one, is
    /// complete; `reply.body` is what was sent, or would have been to a HEAD.
    fn done(&self, reply: &Reply, sent: Sent);
}

/// When a request is answered.
pub enum Call {
    /// Now.
    Done(Reply),
    /// Later.
    Later(Later),
}

/// An answer that is not there yet.
pub struct Later {
    /// Makes it; borrows nothing of the connection.
    pub answer: Pin<Box<dyn Future<Output = Reply>>>,
    /// The stages passed so far, for the account of a caller that leaves, or of a panic.
    pub trail: Trail,
    /// Whom the request is accounted to, for the same.
    pub account: Option<Account>,
}

/// How a response went out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// When the last byte was handed to the kernel, or when that failed or became needless.
    pub at: Instant,
    /// Bytes of head and body.
    pub bytes: usize,
    /// Whether all of them went out.
    pub is_complete: bool,
}
