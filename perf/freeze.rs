//! `freeze-test`: the generator's own self-test. A server that always takes 5 ms is frozen for 2 s
//! of 10 s; one that always takes 300 ms is not. Both truths are known, and generators have
//! reported neither: closed loops leave the freeze out, back-filling ones invent short answers.
//!
//! With the freeze f of a run of length t and even arrivals, a share f/t of them falls into it, and
//! one of these waits evenly 0 to f. So the quantile q above 1 - f/t belongs to the request that
//! arrived s = (1 - q)·t into the freeze: f - s, plus 5 ms, plus 5 ms for each round of requests
//! that is ahead of it when all of the few connections are taken.
//!
//! The freeze is a blocked thread: nothing of the server runs, as with a stopped process. The test
//! asserts that the server says it was frozen; without that a green run would prove nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use runtime::{Listener, Reactor, Stream};
use serde::Serialize;

use crate::arrivals::{self, Spacing};
use crate::engine::answer;
use crate::load::tally::Tally;
use crate::load::{self, Good, Run};
use crate::measure::shown;
use crate::queries::Queries;
use crate::target::{Requests, Target};
use crate::{core, sink};

const FREEZE: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(10);
const RATE_PER_S: f64 = 200.0;
/// Enough for every request that arrives within the freeze.
const CONNECTIONS_MANY: usize = 1_000;
/// As a closed loop would have: requests wait for a connection, and only the intended time knows
/// it.
const CONNECTIONS_FEW: usize = 20;
const QUICK: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(300);
/// A reported percentile may be off by this share of the truth, and by what a busy machine's timers
/// and two cores' schedulers add.
const TOLERANCE_RATIO: f64 = 0.05;
const TOLERANCE: Duration = Duration::from_millis(25);

/// Options of `freeze-test`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Multiplies the lengths of run and freeze; 0.2 is a run of 2 s
    #[arg(long, default_value_t = 1.0, value_parser = crate::engine::above_zero)]
    scale: f64,
    /// File the report is written to as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One percentile, as it was and as it was reported.
#[derive(Clone, Debug, Serialize)]
struct Check {
    what: String,
    truth_ms: f64,
    reported_ms: Option<f64>,
    is_met: bool,
}

/// Runs both checks.
///
/// # Errors
/// What failed, in words: a truth that was not reported is a failure.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let span = SPAN.mul_f64(options.scale);
    let freeze = FREEZE.mul_f64(options.scale);
    let mut checks = frozen(span, freeze, CONNECTIONS_MANY)?;
    checks.extend(frozen(span, freeze, CONNECTIONS_FEW)?);
    checks.extend(steady(span / 5)?);
    for check in &checks {
        let verdict = if check.is_met { "met" } else { "MISSED" };
        let reported = shown(check.reported_ms, "-");
        println!(
            "{:<34} truth {:>9.1} ms, reported {reported:>9} ms: {verdict}",
            check.what, check.truth_ms
        );
    }
    sink::write_json(options.json.as_deref(), &checks)?;
    let missed = checks.iter().filter(|check| !check.is_met).count();
    if missed > 0 { Err(format!("{missed} truths were not reported")) } else { Ok(()) }
}

fn frozen(span: Duration, freeze: Duration, connections_max: usize) -> Result<Vec<Check>, String> {
    let server = Server::start(QUICK, Some((span / 2, freeze)))?;
    let tally = ask(&server, span, connections_max)?;
    let frozen = Duration::from_micros(server.stop()?);
    if frozen < freeze {
        return Err(format!("the server was frozen for {frozen:?} only, not {freeze:?}"));
    }
    let quick_s = QUICK.as_secs_f64();
    let truth = |quantile: f64| {
        let into_s = (1.0 - quantile) * span.as_secs_f64();
        let rounds_ahead = (RATE_PER_S * into_s / connections_max as f64).floor();
        frozen.as_secs_f64() - into_s + (1.0 + rounds_ahead) * quick_s
    };
    let what = |name: &str| format!("frozen, {connections_max} connections, {name}");
    Ok(vec![
        check(what("p50"), quick_s, tally.all.at_ms(0.5)),
        check(what("p90"), truth(0.9), tally.all.at_ms(0.9)),
        check(what("p99"), truth(0.99), tally.all.at_ms(0.99)),
    ])
}

fn steady(span: Duration) -> Result<Vec<Check>, String> {
    let server = Server::start(SLOW, None)?;
    let tally = ask(&server, span, CONNECTIONS_MANY)?;
    server.stop()?;
    let slow_s = SLOW.as_secs_f64();
    Ok(vec![
        check("slow, p50".to_owned(), slow_s, tally.all.at_ms(0.5)),
        check("slow, p99".to_owned(), slow_s, tally.all.at_ms(0.99)),
    ])
}

fn check(what: String, truth_s: f64, reported_ms: Option<f64>) -> Check {
    let truth_ms = truth_s * 1e3;
    let tolerance_ms = truth_ms * TOLERANCE_RATIO + TOLERANCE.as_secs_f64() * 1e3;
    let is_met = reported_ms.is_some_and(|ms| (ms - truth_ms).abs() <= tolerance_ms);
    Check { what: what.to_owned(), truth_ms, reported_ms, is_met }
}

fn ask(server: &Server, span: Duration, connections_max: usize) -> Result<Tally, String> {
    let target = Target::parse(&format!("http://{}/", server.address))?;
    let run = Run {
        requests: Requests::new(&target, &[], Queries::None)?,
        target,
        good: Good::new(&[]),
        connections_max,
        warmup: Duration::ZERO,
        span,
        drain: span,
    };
    let plan = arrivals::plan(Spacing::Constant, RATE_PER_S, span.as_secs_f64(), 0)?;
    core::run(None, move |reactor| load::open::run(reactor, run, plan))
        .map_err(|error| error.to_string())?
}

/// A server on a thread of its own.
struct Server {
    address: SocketAddr,
    ringer: runtime::Ringer,
    is_done: Arc<AtomicU64>,
    thread: JoinHandle<std::io::Result<u64>>,
}

impl Server {
    /// Answers after `delay`; `freeze` is how long after the first caller it freezes, and for how
    /// long.
    fn start(delay: Duration, freeze: Option<(Duration, Duration)>) -> Result<Self, String> {
        let (bound, address) = mpsc::channel();
        let (ringer, seed) = runtime::bell().map_err(|error| error.to_string())?;
        let is_done = Arc::new(AtomicU64::new(0));
        let done = Arc::clone(&is_done);
        let main = move |reactor: Reactor| async move {
            let frozen_us = Arc::new(AtomicU64::new(0));
            let mut bell = reactor.attach(seed);
            if let Ok(listener) = reactor.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4096) {
                let _ = bound.send(listener.address());
                reactor.spawn(accept(reactor.clone(), listener, delay));
                if let Some(freeze) = freeze {
                    reactor.spawn(freeze_once(reactor.clone(), freeze, Arc::clone(&frozen_us)));
                }
            }
            while done.load(Relaxed) == 0 {
                bell.wait(|| done.load(Relaxed) != 0).await;
            }
            frozen_us.load(Relaxed)
        };
        let thread = core::thread("frozen", move || core::run(None, main))
            .map_err(|error| error.to_string())?;
        let address = address.recv().map_err(|_| "the server did not start".to_owned())?;
        Ok(Self { address, ringer, is_done, thread })
    }

    /// Ends it. Gives how long it was frozen, in µs.
    fn stop(self) -> Result<u64, String> {
        self.is_done.store(1, Relaxed);
        self.ringer.ring();
        let outcome = self.thread.join().map_err(|_| "the server panicked".to_owned())?;
        outcome.map_err(|error| error.to_string())
    }
}

async fn freeze_once(reactor: Reactor, (after, span): (Duration, Duration), us: Arc<AtomicU64>) {
    reactor.sleep_until(reactor.now() + after).await;
    let began = reactor.now();
    core::block(span);
    let frozen = reactor.now().since(began).as_micros();
    us.store(u64::try_from(frozen).unwrap_or(u64::MAX), Relaxed);
}

async fn accept(reactor: Reactor, listener: Listener, delay: Duration) {
    while let Ok((stream, _)) = listener.accept().await {
        reactor.spawn(serve(reactor.clone(), stream, delay));
    }
}

/// One request a read: the only caller is our own generator, which does not pipeline.
async fn serve(reactor: Reactor, stream: Stream, delay: Duration) {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        buffer.clear();
        let (outcome, back) = stream.read(buffer).await;
        buffer = back;
        if !matches!(outcome, Ok(count) if count > 0) {
            return;
        }
        reactor.sleep_until(reactor.now() + delay).await;
        if stream.write_all(answer::json("200 OK", "{}")).await.0.is_err() {
            return;
        }
    }
}
