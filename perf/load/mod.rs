//! `load`: requests by a plan (open loop) or as fast as the answers come (closed loop), and what
//! can be said of their times.
//!
//! In the open loop latency counts from the intended send, so a server that stalls is charged for
//! everybody who would have asked meanwhile. The generator measures itself too: how late it sent
//! (lateness) and how much of its core it used; a run in which it was the bottleneck is marked
//! `generator_suspect` and not to be cited.

pub(crate) mod closed;
mod field;
pub(crate) mod open;
mod pacer;
pub(crate) mod report;
pub(crate) mod tally;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::arrivals::{self, Spacing};
use crate::engine::{above_zero, ratio, zero_or_more};
use crate::process::{self, Disturbance};
use crate::queries::Queries;
use crate::target::{Requests, Target};
use crate::{core, sink};
use report::Report;

/// More connections than one address has ports for.
pub(crate) const CONNECTIONS_MAX: usize = 20_000;

/// Options of `load`.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// http://HOST:PORT/PATH; {n} is the request's number, {q} its query
    #[arg(long)]
    target: String,
    /// Requests a second (open loop)
    #[arg(long, value_parser = above_zero, required_unless_present = "closed")]
    rate: Option<f64>,
    /// As many requests as the answers allow, on --connections (closed loop)
    #[arg(long, conflicts_with = "rate")]
    closed: bool,
    /// Connections of the closed loop
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Most connections of the open loop; beyond them requests wait, and the wait counts
    #[arg(long, default_value_t = 2_000)]
    connections_max: usize,
    /// Length of the run, after the warm-up
    #[arg(long, default_value_t = 10.0, value_parser = above_zero)]
    seconds: f64,
    /// Sent before, not recorded
    #[arg(long, default_value_t = 0.0, value_parser = zero_or_more)]
    warmup_s: f64,
    /// How long requests in flight at the end are waited for; the rest is reported as censored
    #[arg(long, default_value_t = 10.0, value_parser = zero_or_more)]
    drain_s: f64,
    /// Independent arrivals (the default)
    #[arg(long, conflicts_with = "constant")]
    poisson: bool,
    /// Evenly spaced arrivals
    #[arg(long)]
    constant: bool,
    /// Queries, one a line
    #[arg(long, conflicts_with_all = ["unique", "repeat_ratio"])]
    queries: Option<PathBuf>,
    /// Every request asks something else
    #[arg(long, conflicts_with = "repeat_ratio")]
    unique: bool,
    /// Share of requests that ask again what this run asked before
    #[arg(long, value_parser = ratio)]
    repeat_ratio: Option<f64>,
    /// A header, 'Name: value'; may be given several times
    #[arg(long)]
    header: Vec<String>,
    /// Statuses that are good, separated by commas; without it 200 to 399
    #[arg(long, value_delimiter = ',')]
    good_status: Vec<u16>,
    /// Also report the own time of answers, from Server-Timing (own;dur=MS)
    #[arg(long)]
    own_time: bool,
    /// Process whose CPU time (with its children's) is reported per request
    #[arg(long)]
    pid: Option<u32>,
    /// CPU the generator is pinned to
    #[arg(long)]
    cpu: Option<usize>,
    /// Seed of arrivals and queries; drawn and printed if not given
    #[arg(long)]
    seed: Option<u64>,
    /// File the report is written to as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Which answers are good.
#[derive(Clone, Debug)]
pub(crate) struct Good(BTreeSet<u16>);

impl Good {
    /// The given statuses; all from 200 to 399 if there are none.
    pub(crate) fn new(statuses: &[u16]) -> Self {
        Self(statuses.iter().copied().collect())
    }

    /// Whether `status` is good.
    pub(crate) fn holds(&self, status: u16) -> bool {
        if self.0.is_empty() { (200..400).contains(&status) } else { self.0.contains(&status) }
    }
}

/// What every kind of run needs.
pub(crate) struct Run {
    pub(crate) target: Target,
    pub(crate) requests: Requests,
    pub(crate) good: Good,
    pub(crate) connections_max: usize,
    pub(crate) warmup: Duration,
    pub(crate) span: Duration,
    pub(crate) drain: Duration,
}

/// Runs `load` and prints its report.
///
/// # Errors
/// What failed, in words.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let report = measure(options)?;
    print!("{}", report.text());
    for reason in &report.generator_suspect_reasons {
        eprintln!("WARNING: the generator is suspect, do not cite this run: {reason}");
    }
    sink::write_json(options.json.as_deref(), &report)
}

fn measure(options: &Options) -> Result<Report, String> {
    let connections = options.connections.max(options.connections_max);
    if !(1..=CONNECTIONS_MAX).contains(&connections) {
        return Err(format!("connections are 1 to {CONNECTIONS_MAX}"));
    }
    let seed = options.seed.unwrap_or_else(drawn_seed);
    let run = prepare(options, seed)?;
    let mode = options.mode();
    println!("{mode} on {}, seed {seed}", options.target);
    let before =
        (Disturbance::read(), cpu_of(options.pid), process::cpu_of_tree(std::process::id()));
    let began = core::clock();
    let tally = if options.closed {
        core::run(options.cpu, {
            let connections = options.connections;
            move |reactor| async move { Ok(closed::run(reactor, run, connections, None).await.0) }
        })
    } else {
        let arrivals = plan(options, seed)?;
        core::run(options.cpu, move |reactor| open::run(reactor, run, arrivals))
    }
    .map_err(|error| error.to_string())??;
    let wall = began.elapsed();
    Ok(Report::new(report::Facts {
        target: &options.target,
        mode,
        seed,
        span: Duration::from_secs_f64(options.seconds),
        wall,
        noise: Disturbance::read().since(before.0, wall),
        server_cpu: options.pid.map(|_| cpu_of(options.pid).since(before.1)),
        own_cpu: process::cpu_of_tree(std::process::id()).since(before.2),
        is_closed: options.closed,
        with_own_time: options.own_time,
        tally,
    }))
}

fn cpu_of(pid: Option<u32>) -> process::CpuTime {
    pid.map_or_else(process::CpuTime::default, process::cpu_of_tree)
}

fn plan(options: &Options, seed: u64) -> Result<Vec<u64>, String> {
    let spacing = if options.constant { Spacing::Constant } else { Spacing::Poisson };
    let rate = options.rate.ok_or("the open loop needs --rate")?;
    arrivals::plan(spacing, rate, options.warmup_s + options.seconds, seed)
}

fn prepare(options: &Options, seed: u64) -> Result<Run, String> {
    let target = Target::parse(&options.target)?;
    let queries = match (&options.queries, options.unique, options.repeat_ratio) {
        (Some(path), ..) => Queries::listed(path)?,
        (None, true, _) => Queries::Unique { seed },
        (None, false, Some(ratio)) => Queries::repeating(seed, ratio),
        (None, false, None) => Queries::None,
    };
    Ok(Run {
        requests: Requests::new(&target, &options.header, queries)?,
        target,
        good: Good::new(&options.good_status),
        connections_max: options.connections_max,
        warmup: Duration::from_secs_f64(options.warmup_s),
        span: Duration::from_secs_f64(options.seconds),
        drain: Duration::from_secs_f64(options.drain_s),
    })
}

impl Options {
    fn mode(&self) -> String {
        match self.rate {
            Some(rate) => {
                let spacing = if self.constant { "constant" } else { "poisson" };
                format!("open loop, {rate}/s {spacing}")
            }
            None => format!("closed loop, {} connections", self.connections),
        }
    }
}

/// A seed nobody chose: the address space and the process id differ from run to run.
fn drawn_seed() -> u64 {
    let hasher = std::hash::RandomState::new();
    std::hash::BuildHasher::hash_one(&hasher, std::process::id())
}
