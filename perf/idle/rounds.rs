//! What the rounds of `idle --beside-rate` say: both sides merged, and the ratios within rounds
//! with the interval of their median, as `compare` has it. Times in ms.

use serde::Serialize;

use crate::evidence::{Evidence, Pair, Verdict, Weighed, median};
use crate::idle::beside::{Others, Phase, Round};
use crate::load::tally::Tally;
use crate::measure::{Latency, Summary, shown};
use crate::process::Noise;

/// What all rounds say. Times are from the intended send unless they are named service.
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
    p50_ratio: Ratio,
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
        let p99_ratio = Ratio::of(rounds, others.seed, Phase::response_p99);
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
            p50_ratio: Ratio::of(rounds, others.seed, Phase::response_p50),
            service_p99_ratio: Ratio::of(rounds, others.seed, Phase::service_p99),
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
        self.p50_ratio.print("p50 ratio", "for comparison");
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
            for phase in phases.clone() {
                all.merge(of(&phase.tally));
            }
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
            p99_ratio: round.ratio(Phase::response_p99),
            service_p99_ratio: round.ratio(Phase::service_p99),
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
            p50_ms: phase.response_p50(),
            p99_ms: phase.response_p99(),
            service_p99_ms: phase.service_p99(),
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
