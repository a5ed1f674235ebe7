//! A service that shows what reached it. The question decides how it answers: at once, later, with
//! 8 MiB, or by a panic.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::config::settings::Limits;
use hedgerow::edge::{Call, Head, Later, Method, Probe, Sent, Service};
use hedgerow::model::{Endpoint, Refusal};
use hedgerow::reply::{Content, Reply};
use hedgerow::trail::Trail;
use runtime::{Instant, Reactor};

/// More than the sockets' buffers of both ends hold.
const BIG_BYTES: usize = 16 << 20;

/// How long the drain waits for requests in flight.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// What a test sees of the service while it runs.
#[derive(Default)]
pub(crate) struct Shown {
    /// Set by the test to begin the drain.
    pub(crate) is_draining: AtomicBool,
    /// Answers begun and not at once given.
    pub(crate) begun: AtomicU64,
    /// Of those, dropped before they were made.
    pub(crate) dropped: AtomicU64,
}

/// One response, as `done` was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) is_complete: bool,
    pub(crate) total: Duration,
    pub(crate) own: Duration,
    pub(crate) has_trail: bool,
}

pub(crate) struct Toy {
    pub(crate) reactor: Reactor,
    pub(crate) limits: Limits,
    pub(crate) probe: Probe,
    pub(crate) shown: Arc<Shown>,
    pub(crate) told: RefCell<Vec<Told>>,
    pub(crate) calls: Cell<u64>,
}

/// Counts an answer that is dropped before it is made.
struct Unmade(Arc<Shown>, bool);

impl Drop for Unmade {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Unmade {
    fn settle(mut self) {
        self.1 = true;
    }
}

impl Toy {
    fn answer(&self, head: &Head<'_>, body: &[u8], mut out: Vec<u8>) -> Reply {
        let text = String::from_utf8_lossy;
        out.extend_from_slice(
            format!("{:?} {} {} [{}]", head.method, head.path, text(head.query), text(body))
                .as_bytes(),
        );
        Reply::new(200, Content::Text, out, "toy".to_owned())
    }
}

impl Service for Toy {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    fn probe(&self) -> &Probe {
        &self.probe
    }

    fn is_draining(&self) -> bool {
        self.shown.is_draining.load(Ordering::SeqCst)
    }

    fn drain_timeout(&self) -> Duration {
        DRAIN_TIMEOUT
    }

    fn call(
        self: Rc<Self>,
        _endpoint: Endpoint,
        head: &Head<'_>,
        body: &[u8],
        arrived: Instant,
        reply_buffer: Vec<u8>,
    ) -> Call {
        self.calls.set(self.calls.get() + 1);
        let trail = Some(Trail::new(arrived));
        if head.headers.get("authorization") != Some(b"Bearer demo") {
            let refused = Reply::refused(&Refusal::Unauthorized, "toy".to_owned(), None);
            return Call::Done(Reply { trail, ..refused });
        }
        let wait = match head.query {
            b"q=panic" => panic!("planted"),
            b"q=later" => Duration::from_millis(30),
            b"q=much-later" => Duration::from_millis(400),
            b"q=never" => Duration::from_secs(600),
            b"q=late-panic" => Duration::from_millis(10),
            b"q=big" => {
                let body = vec![b'b'; BIG_BYTES];
                let reply = Reply::new(200, Content::Text, body, "toy".to_owned());
                return Call::Done(Reply { trail, ..reply });
            }
            _ => Duration::ZERO,
        };
        let mut trail = Trail::new(arrived);
        trail.admitted = self.reactor.now();
        let reply = Reply { trail: Some(trail), ..self.answer(head, body, reply_buffer) };
        if wait.is_zero() {
            return Call::Done(reply);
        }
        let panics = head.query == b"q=late-panic" && head.method == Method::Get;
        self.shown.begun.fetch_add(1, Ordering::SeqCst);
        let unmade = Unmade(self.shown.clone(), false);
        let answer = Box::pin(async move {
            self.reactor.sleep_until(self.reactor.now() + wait).await;
            assert!(!panics, "planted");
            unmade.settle();
            reply
        });
        Call::Later(Later { answer, trail, account: None })
    }

    fn done(&self, reply: &Reply, sent: Sent) {
        let trail = reply.trail.unwrap_or_default();
        self.told.borrow_mut().push(Told {
            status: reply.status,
            is_complete: sent.is_complete,
            total: trail.total(),
            own: trail.own(),
            has_trail: reply.trail.is_some(),
        });
    }
}
