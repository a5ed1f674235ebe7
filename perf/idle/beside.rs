//! Whether held connections move the latency of others: the same plan of requests (an open loop) at
//! the same server without and with them, in rounds whose order alternates, so that a machine that
//! is slower for a minute is slower for both sides.
//!
//! The claim is the ratio of the two p99 within a round: both sides share the arrivals, the core and
//! the generator. The generator holds the connections on the core it asks from, so what they cost
//! *it* is in the side with them too: the ratio is an upper bound of what the server adds.
//!
//! It must never let a request without a good answer improve a percentile: one is enough to fail
//! the run.

use std::time::Duration;

use runtime::Reactor;
use serde::Serialize;

use crate::arrivals::{self, Spacing};
use crate::evidence::{Evidence, Pair, Verdict, Weighed, median};
use crate::idle::crowd::{Crowd, Plan};
use crate::load::tally::Tally;
use crate::load::{self, Good, Run};
use crate::measure::{Latency, Summary, shown};
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
struct Phase {
    tally: Tally,
    server_cpu: Option<CpuTime>,
    generator_cpu_ratio: f64,
    noise: Noise,
}

/// Two measurements and what was held during the second.
pub(super) struct Round {
    without: Phase,
    with: Phase,
    held: usize,
    lost: usize,
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
        let p99 = |phase: &Phase| shown(phase.tally.all.at_ms(0.99), "-");
        println!(
            "round {:>3}: p99 {} ms without, {} ms with {} idle connections, ratio {:.3}",
            number + 1,
            p99(&round.without),
            p99(&round.with),
            round.held,
            round.ratio(response_p99)
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
    Ok(Crowded { phase, held, lost: count.failed + count.closed })
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
    let generator = cpu_after.0.since(cpu_before.0).total;
    Ok(Phase {
        tally,
        server_cpu: cpu_after.1.zip(cpu_before.1).map(|(after, before)| after.since(before)),
        generator_cpu_ratio: generator.as_secs_f64() / wall.as_secs_f64().max(1e-9),
        noise: Disturbance::read().since(noise_before, wall),
    })
}

fn response_p99(phase: &Phase) -> Option<f64> {
    phase.tally.all.at_ms(0.99)
}

fn service_p99(phase: &Phase) -> Option<f64> {
    phase.tally.service.at_ms(0.99)
}

impl Phase {
    fn cpu_us(&self) -> Option<f64> {
        let requests = self.tally.ended.max(1) as f64;
        self.server_cpu.map(|cpu| cpu.total.as_secs_f64() * 1e6 / requests)
    }

    fn not_good(&self) -> u64 {
        self.tally.total() - self.tally.good.count()
    }
}

impl Round {
    /// What `of` says of the side with connections by what it says of the side without.
    fn ratio(&self, of: fn(&Phase) -> Option<f64>) -> f64 {
        let (with, without) = (of(&self.with), of(&self.without));
        with.zip(without).map_or(f64::NAN, |(with, without)| with / without)
    }
}

/// What all rounds say. Times in ms, from the intended send unless they are named service.
#[derive(Serialize)]
pub(super) struct Report {
    rate_per_s: f64,
    seconds: f64,
    seed: u64,
    /// The fewest that were held in any round.
    held_min: usize,
    /// Connections that were not opened, or were ended by the server, over all rounds.
    lost: usize,
    /// Requests without a good answer.
    not_good: u64,
    without: Side,
    with: Side,
    p99_ratio: Ratio,
    service_p99_ratio: Ratio,
    /// CPU time of the server's process tree per request.
    server_cpu_ratio: Option<Ratio>,
    max_p99_ratio: Option<f64>,
    pub(super) verdict: Verdict,
    rounds: Vec<Row>,
}

#[derive(Serialize)]
struct Side {
    response: Summary,
    service: Summary,
    lateness: Summary,
    generator_cpu_ratio_max: f64,
    server_cpu_us_median: Option<f64>,
}

/// The ratios of all rounds; the interval is of the median.
#[derive(Serialize)]
struct Ratio {
    #[serde(flatten)]
    evidence: Evidence,
    min: f64,
    max: f64,
    rounds: usize,
    rounds_left_out: usize,
    is_noisy: bool,
}

#[derive(Serialize)]
struct Row {
    held: usize,
    p99_ratio: f64,
    service_p99_ratio: f64,
    without: Cell,
    with: Cell,
}

/// One measurement, in ms.
#[derive(Serialize)]
struct Cell {
    requests: u64,
    not_good: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    service_p99_ms: Option<f64>,
    lateness_p99_ms: Option<f64>,
    server_cpu_us: Option<f64>,
    noise: Noise,
}

impl Report {
    /// Draws the report up.
    pub(super) fn new(others: &Others, max_p99_ratio: Option<f64>, rounds: &[Round]) -> Self {
        let p99_ratio = Ratio::of(rounds, others.seed, response_p99);
        let sides = || rounds.iter().flat_map(|round| [&round.without, &round.with]);
        Self {
            rate_per_s: others.rate_per_s,
            seconds: others.span.as_secs_f64(),
            seed: others.seed,
            held_min: rounds.iter().map(|round| round.held).min().unwrap_or(0),
            lost: rounds.iter().map(|round| round.lost).sum(),
            not_good: sides().map(Phase::not_good).sum(),
            without: Side::of(rounds.iter().map(|round| &round.without)),
            with: Side::of(rounds.iter().map(|round| &round.with)),
            verdict: p99_ratio.evidence.verdict(max_p99_ratio),
            p99_ratio,
            service_p99_ratio: Ratio::of(rounds, others.seed, service_p99),
            server_cpu_ratio: others.pid.map(|_| Ratio::of(rounds, others.seed, Phase::cpu_us)),
            max_p99_ratio,
            rounds: rounds.iter().map(Row::of).collect(),
        }
    }

    /// A table for people.
    pub(super) fn print(&self) {
        println!(
            "{:<24}{:>10}{:>10}{:>22}{:>10}{:>22}{:>10}",
            "ms", "p50", "p99", "95 %", "p99.9", "95 %", "count"
        );
        for (name, side) in [("without", &self.without), ("with", &self.with)] {
            print_row(&format!("{name}, response"), &side.response);
            print_row(&format!("{name}, service"), &side.service);
            print_row(&format!("{name}, lateness"), &side.lateness);
        }
        let (held, rate) = (self.held_min, self.rate_per_s);
        println!("others at {rate}/s with {held} idle connections, by without:");
        self.p99_ratio.print("p99 ratio", self.verdict.words());
        self.service_p99_ratio.print("p99 ratio of service", "for comparison");
        if let Some(ratio) = &self.server_cpu_ratio {
            ratio.print("server CPU ratio", "for comparison");
        }
    }

    /// Whether the rounds were what they claim to be.
    ///
    /// # Errors
    /// Connections were lost, or others were not answered well.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.lost, self.not_good) {
            (0, 0) => Ok(()),
            (0, bad) => Err(format!("{bad} requests of others were not answered well")),
            (lost, _) => Err(format!("{lost} connections were lost beside others")),
        }
    }
}

impl Side {
    fn of<'a>(phases: impl Iterator<Item = &'a Phase> + Clone) -> Self {
        let merged = |of: fn(&Tally) -> &Latency| {
            let mut all = Latency::new();
            phases.clone().for_each(|phase| all.merge(of(&phase.tally)));
            all.summary()
        };
        let cpu: Option<Vec<f64>> = phases.clone().map(Phase::cpu_us).collect();
        Self {
            response: merged(|tally| &tally.all),
            service: merged(|tally| &tally.service),
            lateness: merged(|tally| &tally.lateness),
            generator_cpu_ratio_max: phases
                .clone()
                .map(|phase| phase.generator_cpu_ratio)
                .fold(0.0, f64::max),
            server_cpu_us_median: cpu.map(median),
        }
    }
}

impl Ratio {
    fn of(rounds: &[Round], seed: u64, of: fn(&Phase) -> Option<f64>) -> Self {
        let steal =
            |round: &Round| round.without.noise.steal_ratio.max(round.with.noise.steal_ratio);
        let pairs: Vec<Pair> = rounds
            .iter()
            .map(|round| Pair { ratio: round.ratio(of), steal_ratio: steal(round) })
            .collect();
        let weighed = Weighed::of(&pairs, seed);
        let ratios = || pairs.iter().map(|pair| pair.ratio);
        Self {
            evidence: weighed.evidence,
            min: ratios().fold(f64::INFINITY, f64::min),
            max: ratios().fold(0.0, f64::max),
            rounds: weighed.pairs,
            rounds_left_out: weighed.pairs_left_out,
            is_noisy: weighed.is_noisy,
        }
    }

    fn print(&self, name: &str, words: &str) {
        let Evidence { median, low, high } = self.evidence;
        println!(
            "  {name}: median {median:.3} (95 %: {low:.3} to {high:.3}), {:.3} to {:.3} over {} \
             rounds, {} left out{}: {words}",
            self.min,
            self.max,
            self.rounds,
            self.rounds_left_out,
            if self.is_noisy { ", NOISY" } else { "" },
        );
    }
}

impl Row {
    fn of(round: &Round) -> Self {
        Self {
            held: round.held,
            p99_ratio: round.ratio(response_p99),
            service_p99_ratio: round.ratio(service_p99),
            without: Cell::of(&round.without),
            with: Cell::of(&round.with),
        }
    }
}

impl Cell {
    fn of(phase: &Phase) -> Self {
        Self {
            requests: phase.tally.total(),
            not_good: phase.not_good(),
            p50_ms: phase.tally.all.at_ms(0.5),
            p99_ms: response_p99(phase),
            service_p99_ms: service_p99(phase),
            lateness_p99_ms: phase.tally.lateness.at_ms(0.99),
            server_cpu_us: phase.cpu_us(),
            noise: phase.noise,
        }
    }
}

fn print_row(name: &str, of: &Summary) {
    let interval = |of: Option<(f64, f64)>| {
        of.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"))
    };
    println!(
        "{name:<24}{:>10}{:>10}{:>22}{:>10}{:>22}{:>10}",
        shown(of.p50_ms, "-"),
        shown(of.p99_ms, "-"),
        interval(of.p99_interval_ms),
        shown(of.p99_9_ms, "-"),
        interval(of.p99_9_interval_ms),
        of.count,
    );
}
