//! One caller's connection: request, wait, answer, over and over, with a read always pending, by
//! which a caller that closes is noticed while its call waits.
//!
//! A read is never dropped half-way: `Inbox` keeps it across waits, and ends it by shutdown.

use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use runtime::local::{Either, select2};
use runtime::{Instant, Listener, Stream};

use super::question::{self, Parsed, Question, REQUEST_BYTES_MAX};
use super::stats::Ending;
use super::{Core, answer};

/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// After a failed accept (out of descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Takes callers until the engine ends.
pub(super) async fn accept(core: Rc<Core>, listener: Listener) {
    while !core.stats.is_quitting() {
        match listener.accept().await {
            Ok((stream, _)) => {
                core.stats.connected();
                core.reactor.spawn(serve(Rc::clone(&core), stream));
            }
            Err(_) => core.reactor.sleep_until(core.reactor.now() + ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(core: Rc<Core>, stream: Stream) {
    let mut inbox = Inbox::new(stream.clone());
    loop {
        let question = match question::parse(&inbox.bytes) {
            Parsed::Whole(question, length) => {
                inbox.bytes.drain(..length);
                question
            }
            Parsed::Partial if inbox.more().await => continue,
            Parsed::Partial => break,
            Parsed::Bad => {
                let bytes = answer::json("400 Bad Request", r#"{"error":"no request"}"#);
                let _ = stream.write_all(bytes).await;
                break;
            }
        };
        let is_reusable = question.is_reusable;
        let Some(bytes) = reply(&core, question, &mut inbox).await else {
            break;
        };
        if stream.write_all(bytes).await.0.is_err() || !is_reusable {
            break;
        }
        if core.stats.is_quitting() {
            break;
        }
    }
    inbox.close().await;
}

/// The answer; `None` if the caller went away.
async fn reply(core: &Core, question: Question, inbox: &mut Inbox) -> Option<Vec<u8>> {
    match (question.path.as_str(), question.query) {
        ("/stats", _) => Some(answer::json("200 OK", &core.stats.json().to_string())),
        ("/quit", _) => {
            core.quit();
            Some(answer::json("200 OK", "{}"))
        }
        (_, None) => Some(answer::json("400 Bad Request", r#"{"error":"No query"}"#)),
        (_, Some(query)) => call(core, &query, inbox).await,
    }
}

async fn call(core: &Core, query: &str, inbox: &mut Inbox) -> Option<Vec<u8>> {
    core.stats.begin();
    let began = core.reactor.now();
    let (kind, due) = (core.draw_kind(), began + core.draw_delay());
    let is_there = wait_watching(core, due, inbox).await;
    let now = core.reactor.now();
    let ending = if is_there { Ending::Answered(kind) } else { Ending::Cancelled(due.since(now)) };
    core.stats.end(now.since(began), ending);
    is_there.then(|| answer::whole(kind, query, core.options.results, &core.options.name))
}

/// Waits until `due`; false as soon as the caller is gone.
async fn wait_watching(core: &Core, due: Instant, inbox: &mut Inbox) -> bool {
    let mut timer = pin!(core.reactor.sleep_until(due));
    // A caller that pipelines more than one request's size is no longer watched.
    while inbox.bytes.len() < REQUEST_BYTES_MAX {
        match select2(timer.as_mut(), pin!(inbox.more())).await {
            Either::Left(()) => return true,
            Either::Right(true) => {}
            Either::Right(false) => return false,
        }
    }
    timer.await;
    true
}

type Reading = Pin<Box<dyn Future<Output = (io::Result<usize>, Vec<u8>)>>>;

/// What arrived, and the read that waits for more.
struct Inbox {
    stream: Stream,
    bytes: Vec<u8>,
    spare: Option<Vec<u8>>,
    reading: Option<Reading>,
}

impl Inbox {
    fn new(stream: Stream) -> Self {
        Self { stream, bytes: Vec::new(), spare: None, reading: None }
    }

    /// Waits for more bytes; false once the caller sends no more.
    ///
    /// # Cancel
    /// Safe: the read stays pending and the next call takes it up.
    async fn more(&mut self) -> bool {
        let reading = self.reading.get_or_insert_with(|| {
            let buffer = self.spare.take().unwrap_or_else(|| Vec::with_capacity(READ_BYTES));
            Box::pin(self.stream.read(buffer))
        });
        let (outcome, mut buffer) = reading.as_mut().await;
        self.reading = None;
        self.bytes.extend_from_slice(&buffer);
        buffer.clear();
        self.spare = Some(buffer);
        matches!(outcome, Ok(count) if count > 0)
    }

    /// Ends the connection and the read in flight.
    async fn close(mut self) {
        self.stream.shutdown(Shutdown::Both);
        if let Some(reading) = self.reading.take() {
            let _ = reading.await;
        }
    }
}
