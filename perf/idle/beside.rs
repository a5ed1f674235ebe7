//! Whether held connections move the latency of others: the same plan of requests (an open loop) at
//! the same server without and with them, in rounds whose order alternates, so that a machine that
//! is slower for a minute is slower for both sides.
//!
//! The claim is the ratio of the two p99 within a round: both sides share the arrivals, the core
//! and the generator. The generator holds the connections on the core it asks from, so what they
//! cost *it* is in the side with them too.
//!
//! It must never let a request without a good answer improve a percentile: one is enough to fail
//! the run.

use std::time::Duration;

use runtime::Reactor;

use crate::arrivals::{self, Spacing};
use crate::idle::crowd::{Crowd, Plan};
use crate::load::tally::Tally;
use crate::load::{self, Good, Run};
use crate::measure::shown;
use crate::process::{self, CpuTime, Disturbance, Noise};
use crate::queries::Queries;
use crate::target::Requests;
use crate::{chance, core};

/// Asked before each measurement, not counted: connections are opened meanwhile.
const WARMUP: Duration = Duration::from_millis(500);
/// Requests in flight when a measurement ends are waited for as long.
const DRAIN: Duration = Duration::from_secs(5);
/// Connections of the others. Beyond them requests wait, and the wait counts.
pub(super) const CONNECTIONS_MAX: usize = 256;

/// How the others ask.
#[derive(Clone, Debug)]
pub(super) struct Others {
    pub(super) rate_per_s: f64,
    /// Length of one measurement, after its warm-up.
    pub(super) span: Duration,
    pub(super) rounds: usize,
    pub(super) good: Good,
    /// Process of the server.
    pub(super) pid: Option<u32>,
    /// Of the arrivals and of the bootstrap.
    pub(super) seed: u64,
}

/// One measurement of the others.
pub(super) struct Phase {
    pub(super) tally: Tally,
    server_cpu: Option<CpuTime>,
    pub(super) generator_cpu_ratio: f64,
    pub(super) noise: Noise,
}

/// Two measurements and what was held during the second.
pub(super) struct Round {
    pub(super) without: Phase,
    pub(super) with: Phase,
    pub(super) held: usize,
    /// Not opened, or ended by the server.
    pub(super) lost: usize,
}

/// Measures all rounds.
///
/// # Errors
/// What failed, in words: no reactor's bell, no request in a plan, a server that keeps connections.
///
/// # Cancel
/// Must not be dropped half-way.
pub(super) async fn run(
    reactor: Reactor,
    plan: &Plan,
    others: &Others,
) -> Result<Vec<Round>, String> {
    let mut rounds = Vec::with_capacity(others.rounds);
    for number in 0..others.rounds {
        // Without, with, then with, without: drift within a round cancels over two.
        let round = if number % 2 == 0 {
            let without = measure(&reactor, plan, others, number).await?;
            crowded(&reactor, plan, others, number).await?.beside(without)
        } else {
            let crowded = crowded(&reactor, plan, others, number).await?;
            crowded.beside(measure(&reactor, plan, others, number).await?)
        };
        let p99 = |phase: &Phase| shown(phase.response_p99(), "-");
        println!(
            "round {:>3}: p99 {} ms without, {} ms with {} idle connections, ratio {:.3}",
            number + 1,
            p99(&round.without),
            p99(&round.with),
            round.held,
            round.ratio(Phase::response_p99)
        );
        rounds.push(round);
    }
    Ok(rounds)
}

struct Crowded {
    phase: Phase,
    held: usize,
    lost: usize,
}

impl Crowded {
    fn beside(self, without: Phase) -> Round {
        Round { without, with: self.phase, held: self.held, lost: self.lost }
    }
}

async fn crowded(
    reactor: &Reactor,
    plan: &Plan,
    others: &Others,
    number: usize,
) -> Result<Crowded, String> {
    // The first crowd was held, and weighed, without others.
    let crowd = Crowd::open(reactor.clone(), plan, number + 1).await?;
    let phase = measure(reactor, plan, others, number).await?;
    let count = crowd.close().await?;
    let held = count.opened.saturating_sub(count.closed);
    Ok(Crowded { phase, held, lost: count.lost() })
}

/// One measurement. Both of a round have one plan of arrivals: what chance crowds together there is
/// crowded on both sides.
async fn measure(
    reactor: &Reactor,
    plan: &Plan,
    others: &Others,
    number: usize,
) -> Result<Phase, String> {
    let seed = chance::mix(others.seed, number as u64);
    let span_s = (WARMUP + others.span).as_secs_f64();
    let arrivals = arrivals::plan(Spacing::Poisson, others.rate_per_s, span_s, seed)?;
    let run = Run {
        requests: Requests::new(&plan.target, &plan.headers, Queries::None)?,
        target: plan.target.clone(),
        good: others.good.clone(),
        connections_max: CONNECTIONS_MAX,
        warmup: WARMUP,
        span: others.span,
        drain: DRAIN,
    };
    let own = std::process::id();
    let cpu = || (process::cpu_of_tree(own), others.pid.map(process::cpu_of_tree));
    let (noise_before, cpu_before, began) = (Disturbance::read(), cpu(), core::clock());
    let tally = load::open::run(reactor.clone(), run, arrivals).await?;
    let (wall, cpu_after) = (began.elapsed(), cpu());
    if tally.total() == 0 {
        return Err(format!("{}/s for {:?} are no request", others.rate_per_s, others.span));
    }
    let server_cpu = cpu_after.1.zip(cpu_before.1).map(|(after, before)| after.since(before));
    if let (Some(cpu), Some(pid)) = (server_cpu, others.pid)
        && cpu.total.is_zero()
    {
        return Err(format!("process {pid} spent no time, so another one answered"));
    }
    let generator = cpu_after.0.since(cpu_before.0).total;
    Ok(Phase {
        tally,
        server_cpu,
        generator_cpu_ratio: generator.as_secs_f64() / wall.as_secs_f64().max(1e-9),
        noise: Disturbance::read().since(noise_before, wall),
    })
}

impl Phase {
    /// In ms, from the intended send.
    pub(super) fn response_p50(&self) -> Option<f64> {
        self.tally.all.at_ms(0.5)
    }

    /// In ms, from the intended send.
    pub(super) fn response_p99(&self) -> Option<f64> {
        self.tally.all.at_ms(0.99)
    }

    /// In ms, from the actual send.
    pub(super) fn service_p99(&self) -> Option<f64> {
        self.tally.service.at_ms(0.99)
    }

    /// CPU time of the server's process tree per request, in µs.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        let requests = self.tally.ended.max(1) as f64;
        self.server_cpu.map(|cpu| cpu.total.as_secs_f64() * 1e6 / requests)
    }

    /// Requests without a good answer.
    pub(super) fn not_good(&self) -> u64 {
        self.tally.total() - self.tally.good.count()
    }
}

impl Round {
    /// What `of` says of the side with connections by what it says of the side without.
    pub(super) fn ratio(&self, of: fn(&Phase) -> Option<f64>) -> f64 {
        let (with, without) = (of(&self.with), of(&self.without));
        with.zip(without).map_or(f64::NAN, |(with, without)| with / without)
    }
}
