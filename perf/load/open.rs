//! The open loop: request i is sent at its time of the plan, whatever became of the others.

use std::sync::Arc;

use runtime::{Instant, Reactor};

use crate::load::Run;
use crate::load::field::{Field, Job};
use crate::load::pacer;
use crate::load::tally::Tally;

/// Sends requests at `arrivals` (ns after the start, in order).
///
/// # Errors
/// The bell or the pacer could not be had.
pub(crate) async fn run(reactor: Reactor, run: Run, arrivals: Vec<u64>) -> Result<Tally, String> {
    let failed = |error: std::io::Error| error.to_string();
    let (ringer, seed) = runtime::bell().map_err(failed)?;
    let mut bell = reactor.attach(seed);
    let arrivals: Arc<[u64]> = arrivals.into();
    let (start, pacer) = pacer::start(&reactor, Arc::clone(&arrivals), ringer).map_err(failed)?;
    let drain = run.drain;
    let record_from = start + run.warmup;
    let field = Field::new(reactor.clone(), run, record_from);
    for (number, arrival_ns) in (0..).zip(arrivals.iter()) {
        let intended = start + std::time::Duration::from_nanos(*arrival_ns);
        wait_until(&reactor, &mut bell, intended).await;
        field.arrive(Job { number, intended });
    }
    let tally = field.finish(drain).await;
    pacer.join().map_err(|_| "the pacer panicked".to_owned())?;
    Ok(tally)
}

/// Returns at `due`. A ring may come just before it by the skew of the two clocks, and it would not
/// come again: that remainder is spent in turns of the queue.
async fn wait_until(reactor: &Reactor, bell: &mut runtime::Bell, due: Instant) {
    while reactor.now() < due {
        if due.since(reactor.now()) < pacer::SKEW_MAX * 10 {
            reactor.yield_now().await;
        } else {
            bell.wait(|| reactor.now() >= due).await;
        }
    }
}
