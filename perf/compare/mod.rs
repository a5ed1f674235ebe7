//! `compare`: what a request costs on two running servers, by rounds in the order ABBA, so that a
//! machine that is slower for a minute is slower for both.
//!
//! Both servers run all the time; each round is a closed loop on one of them, and counts the CPU
//! time of its whole process tree between the end of the round's warm-up and its end. Requests per
//! second are reported, but they measure the generator as much as the server; the claim is CPU µs
//! per request, and the statistic the median of the ratios within pairs.
//!
//! On loopback the kernel delivers a packet within the sender's system call, so a server's time has
//! the receiving side of its answers in it: the same for both servers, as long as answers are
//! alike.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::evidence::{Evidence, Pair, Verdict, Weighed, median};
use crate::load::{CONNECTIONS_MAX, Good, Run, closed};
use crate::process::{self, Disturbance, Host, Noise};
use crate::queries::Queries;
use crate::target::{Requests, Target};
use crate::{core, sink};

/// Requests in flight when a round ends are waited for as long.
const DRAIN: Duration = Duration::from_secs(5);

/// Options of `compare`.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// NAME=http://HOST:PORT/PATH
    #[arg(long)]
    a: String,
    /// NAME=http://HOST:PORT/PATH
    #[arg(long)]
    b: String,
    /// Process of A; its descendants count too
    #[arg(long)]
    pid_a: u32,
    /// Process of B; its descendants count too
    #[arg(long)]
    pid_b: u32,
    /// A header for A, 'Name: value'; may be given several times
    #[arg(long)]
    header_a: Vec<String>,
    /// A header for B
    #[arg(long)]
    header_b: Vec<String>,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Pairs of rounds
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Length of a round
    #[arg(long, default_value_t = 2.0, value_parser = crate::engine::above_zero)]
    seconds: f64,
    /// Asked before each round, not counted
    #[arg(long, default_value_t = 0.2, value_parser = crate::engine::zero_or_more)]
    warmup_s: f64,
    /// The status every answer must have
    #[arg(long, default_value_t = 200)]
    status: u16,
    /// Exit with 3 if A costs more than so many times B, with the whole interval
    #[arg(long, value_parser = crate::engine::above_zero)]
    max_ratio: Option<f64>,
    /// CPU the generator is pinned to
    #[arg(long)]
    cpu: Option<usize>,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File the report is written to as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One of the two servers.
struct Side {
    name: String,
    target: Target,
    pid: u32,
    headers: Vec<String>,
}

/// One round on one server.
#[derive(Clone, Debug, Serialize)]
struct Round {
    cpu_us: f64,
    user_us: f64,
    system_us: f64,
    requests: u64,
    requests_per_s: f64,
    answer_bytes: f64,
    service_p50_ms: Option<f64>,
    service_p99_ms: Option<f64>,
    noise: Noise,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    a: Column,
    b: Column,
    connections: usize,
    pairs: usize,
    pairs_left_out: usize,
    is_noisy: bool,
    ratio: Evidence,
    max_ratio: Option<f64>,
    verdict: Verdict,
    host: Host,
}

#[derive(Serialize)]
struct Column {
    name: String,
    cpu_us_median: f64,
    user_us_median: f64,
    system_us_median: f64,
    requests_per_s_median: f64,
    answer_bytes: f64,
    rounds: Vec<Round>,
}

/// Compares, prints, and gives the exit code.
///
/// # Errors
/// What failed, in words: a server that is not there or answers otherwise than told.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    let is_sound = (1..=CONNECTIONS_MAX).contains(&options.connections)
        && (2..=1000).contains(&options.rounds);
    if !is_sound {
        return Err(format!("--connections are 1 to {CONNECTIONS_MAX}, --rounds 2 to 1000"));
    }
    let a = Side::new(&options.a, options.pid_a, &options.header_a)?;
    let b = Side::new(&options.b, options.pid_b, &options.header_b)?;
    let mut pairs = Vec::with_capacity(options.rounds);
    for number in 0..options.rounds {
        // A B, then B A: drift within a pair cancels over two.
        let pair = if number % 2 == 0 {
            let first = a.round(options)?;
            (first, b.round(options)?)
        } else {
            let first = b.round(options)?;
            (a.round(options)?, first)
        };
        println!(
            "pair {:>3}: {} {:.2} µs, {} {:.2} µs, ratio {:.3}",
            number + 1,
            a.name,
            pair.0.cpu_us,
            b.name,
            pair.1.cpu_us,
            pair.0.cpu_us / pair.1.cpu_us
        );
        pairs.push(pair);
    }
    let report = draw_up(options, (a.name, b.name), pairs);
    report.print();
    sink::write_json(options.json.as_deref(), &report)?;
    Ok(report.verdict.exit())
}

impl Side {
    fn new(text: &str, pid: u32, headers: &[String]) -> Result<Self, String> {
        let (name, url) = text.split_once('=').ok_or("a server is given as NAME=URL")?;
        if !process::is_alive(pid) {
            return Err(format!("{name}: there is no process {pid}"));
        }
        let target = Target::parse(url)?;
        Ok(Self { name: name.to_owned(), target, pid, headers: headers.to_vec() })
    }

    fn round(&self, options: &Options) -> Result<Round, String> {
        let run = Run {
            requests: Requests::new(&self.target, &self.headers, Queries::None)?,
            target: self.target.clone(),
            good: Good::new(&[options.status]),
            connections_max: options.connections,
            warmup: Duration::from_secs_f64(options.warmup_s),
            span: Duration::from_secs_f64(options.seconds),
            drain: DRAIN,
        };
        let (connections, pid) = (options.connections, self.pid);
        let before = Disturbance::read();
        let began = core::clock();
        let (tally, window) = core::run(options.cpu, move |reactor| {
            closed::run(reactor, run, connections, Some(pid))
        })
        .map_err(|error| error.to_string())?;
        if tally.good.count() != tally.total() || window.requests == 0 {
            let (statuses, failures) = (&tally.statuses, &tally.failures);
            return Err(format!(
                "{}: not every answer was a {}: statuses {statuses:?}, failures {failures:?}",
                self.name, options.status
            ));
        }
        if window.server_cpu.total.is_zero() {
            let (name, pid) = (&self.name, self.pid);
            return Err(format!("{name}: process {pid} spent no time, so another one answered"));
        }
        let requests = window.requests as f64;
        let us = |span: Duration| span.as_secs_f64() * 1e6 / requests;
        Ok(Round {
            cpu_us: us(window.server_cpu.total),
            user_us: us(window.server_cpu.user),
            system_us: us(window.server_cpu.system),
            requests: window.requests,
            requests_per_s: requests / window.wall.as_secs_f64(),
            answer_bytes: tally.bytes as f64 / tally.total() as f64,
            service_p50_ms: tally.service.at_ms(0.5),
            service_p99_ms: tally.service.at_ms(0.99),
            noise: Disturbance::read().since(before, began.elapsed()),
        })
    }
}

fn draw_up(options: &Options, names: (String, String), pairs: Vec<(Round, Round)>) -> Report {
    let of_pair = |pair: &(Round, Round)| Pair {
        ratio: pair.0.cpu_us / pair.1.cpu_us,
        steal_ratio: pair.0.noise.steal_ratio.max(pair.1.noise.steal_ratio),
    };
    let weighed = Weighed::of(&pairs.iter().map(of_pair).collect::<Vec<_>>(), options.seed);
    let (rounds_a, rounds_b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    Report {
        schema: 1,
        a: Column::new(names.0, rounds_a),
        b: Column::new(names.1, rounds_b),
        connections: options.connections,
        pairs: weighed.pairs,
        pairs_left_out: weighed.pairs_left_out,
        is_noisy: weighed.is_noisy,
        verdict: weighed.evidence.verdict(options.max_ratio),
        ratio: weighed.evidence,
        max_ratio: options.max_ratio,
        host: Host::here(),
    }
}

impl Column {
    fn new(name: String, rounds: Vec<Round>) -> Self {
        let of = |field: fn(&Round) -> f64| median(rounds.iter().map(field).collect());
        Self {
            name,
            cpu_us_median: of(|round| round.cpu_us),
            user_us_median: of(|round| round.user_us),
            system_us_median: of(|round| round.system_us),
            requests_per_s_median: of(|round| round.requests_per_s),
            answer_bytes: of(|round| round.answer_bytes),
            rounds,
        }
    }

    fn print(&self) {
        println!(
            "{:<16}{:>10.2}{:>10.2}{:>10.2}{:>12.0}{:>12.0}",
            self.name,
            self.cpu_us_median,
            self.user_us_median,
            self.system_us_median,
            self.requests_per_s_median,
            self.answer_bytes,
        );
    }
}

impl Report {
    fn print(&self) {
        println!(
            "{:<16}{:>10}{:>10}{:>10}{:>12}{:>12}",
            "CPU µs/request", "all", "user", "system", "requests/s", "bytes"
        );
        self.a.print();
        self.b.print();
        println!(
            "{} / {}: {:.3} (95 %: {:.3} to {:.3}) over {} pairs, {} left out{}: {}",
            self.a.name,
            self.b.name,
            self.ratio.median,
            self.ratio.low,
            self.ratio.high,
            self.pairs,
            self.pairs_left_out,
            if self.is_noisy { ", NOISY" } else { "" },
            self.verdict.words(),
        );
    }
}
