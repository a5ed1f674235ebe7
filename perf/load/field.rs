//! The connections of a run and the requests on them, shared by the tasks of one core.
//!
//! Every request in flight is on a list with its stream, so that a run that gives up can end it and
//! count it as censored instead of waiting for ever.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use runtime::{Instant, Reactor, Stream};

use crate::connection::{Connection, Failure};
use crate::load::Run;
use crate::load::tally::{Outcome, Tally, Times};
use crate::target::Requests;

/// How often the end of the last requests is looked for.
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// One request to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) intended: Instant,
}

/// The state of a run.
pub(super) struct Field {
    pub(super) reactor: Reactor,
    address: SocketAddr,
    connections_max: usize,
    tally: RefCell<Tally>,
    requests: RefCell<Requests>,
    idle: RefCell<Vec<Connection>>,
    /// At most as many as the plan has arrivals.
    waiting: RefCell<VecDeque<Job>>,
    /// Connections that are idle or have a task: at most `connections_max`.
    open: Cell<usize>,
    live: RefCell<BTreeMap<u64, (Job, Option<Stream>)>>,
    ended: Cell<u64>,
    /// Requests intended before are sent, but not recorded.
    record_from: Instant,
    is_over: Cell<bool>,
}

impl Field {
    /// A field on which nothing is open yet.
    pub(super) fn new(reactor: Reactor, run: Run, record_from: Instant) -> Rc<Self> {
        Rc::new(Self {
            reactor,
            address: run.target.address,
            connections_max: run.connections_max,
            tally: RefCell::new(Tally::new(run.good)),
            requests: RefCell::new(run.requests),
            idle: RefCell::default(),
            waiting: RefCell::default(),
            open: Cell::new(0),
            live: RefCell::default(),
            ended: Cell::new(0),
            record_from,
            is_over: Cell::new(false),
        })
    }

    /// Sends `job` on the connection that was idle for the shortest time, on a new one if none is
    /// idle, or, with `connections_max` taken, on the next that is free.
    pub(super) fn arrive(self: &Rc<Self>, job: Job) {
        let idle = self.idle.borrow_mut().pop();
        if idle.is_none() && self.open.get() >= self.connections_max {
            self.waiting.borrow_mut().push_back(job);
            self.tally.borrow_mut().waited += 1;
            return;
        }
        if idle.is_none() {
            self.open.set(self.open.get() + 1);
        }
        self.reactor.spawn(Rc::clone(self).work(job, idle));
    }

    async fn work(self: Rc<Self>, mut job: Job, mut connection: Option<Connection>) {
        loop {
            connection = self.exchange(job, connection).await;
            let next = self.waiting.borrow_mut().pop_front();
            match next {
                Some(next) if !self.is_over.get() => job = next,
                _ => break,
            }
        }
        match connection {
            Some(connection) => self.idle.borrow_mut().push(connection),
            None => self.open.set(self.open.get().saturating_sub(1)),
        }
    }

    /// Sends `job` on `connection`, or on a new one, and records what comes of it. Gives back the
    /// connection if it can carry another request.
    pub(super) async fn exchange(
        &self,
        job: Job,
        mut connection: Option<Connection>,
    ) -> Option<Connection> {
        let request = self.requests.borrow_mut().next(job.number);
        self.live.borrow_mut().insert(job.number, (job, None));
        loop {
            let opened = match connection.take() {
                Some(connection) => Ok(connection),
                None => self.connect().await,
            };
            let sent = self.reactor.now();
            let Ok(mut opened) = opened else {
                self.end(job, sent, &Err(Failure::Connect));
                return None;
            };
            self.live.borrow_mut().insert(job.number, (job, Some(opened.line())));
            let outcome = opened.exchange(request.clone()).await;
            // Only a connection that had served before is stale, so this happens once.
            if matches!(outcome, Err(Failure::Stale)) && !self.is_over.get() {
                self.tally.borrow_mut().repeated += 1;
                continue;
            }
            self.end(job, sent, &outcome);
            return outcome.is_ok_and(|answer| answer.head.is_reusable).then_some(opened);
        }
    }

    async fn connect(&self) -> std::io::Result<Connection> {
        let connection = Connection::open(&self.reactor, self.address, None).await?;
        self.tally.borrow_mut().connections += 1;
        Ok(connection)
    }

    fn end(&self, job: Job, sent: Instant, outcome: &Outcome) {
        self.live.borrow_mut().remove(&job.number);
        self.ended.set(self.ended.get() + 1);
        if job.intended >= self.record_from && !self.is_over.get() {
            let times = Times { intended: job.intended, sent, ended: self.reactor.now() };
            self.tally.borrow_mut().record(times, outcome);
        }
    }

    /// Requests that ended so far, recorded or not.
    pub(super) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Waits at most `drain` for the requests in flight, ends those that are left, and gives what
    /// was counted. Nothing is counted afterwards.
    pub(super) async fn finish(&self, drain: Duration) -> Tally {
        let give_up = self.reactor.now() + drain;
        let is_busy = || !self.live.borrow().is_empty() || !self.waiting.borrow().is_empty();
        while is_busy() && self.reactor.now() < give_up {
            self.reactor.sleep_until(self.reactor.now() + DRAIN_STEP).await;
        }
        self.is_over.set(true);
        let now = self.reactor.now();
        let live = std::mem::take(&mut *self.live.borrow_mut());
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        let mut tally = self.tally.replace(Tally::new(crate::load::Good::new(&[])));
        let unsent = waiting.into_iter().map(|job| (job, None));
        for (job, stream) in live.into_values().chain(unsent) {
            if job.intended >= self.record_from {
                tally.record_censored(now.since(job.intended));
            }
            if let Some(stream) = stream {
                stream.shutdown(Shutdown::Both);
            }
        }
        tally.ended = self.ended.get();
        tally
    }
}
