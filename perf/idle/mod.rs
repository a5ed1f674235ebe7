//! `idle`: opens connections, holds them without a request, and says what one costs the server in
//! resident memory and how many it closed meanwhile; with `--beside-rate` also whether they move
//! the latency of others.
//!
//! Kernel memory of sockets (about 2 KiB each end) is not in a process's resident memory and not in
//! the figure.

mod beside;
mod crowd;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use runtime::Reactor;
use serde::Serialize;

use crate::load::Good;
use crate::process::{self, Host};
use crate::target::Target;
use crate::{core, sink};
use beside::{Others, Round};
use crowd::{Count, Crowd, Plan};

const CONNECTIONS_MAX: usize = 1_000_000;
const ROUNDS_MAX: usize = 1_000;
/// Descriptors of this process besides its connections.
const DESCRIPTORS_SPARE: usize = 64;

/// Options of `idle`.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// http://HOST:PORT/PATH; the path is asked for with --warm and --beside-rate
    #[arg(long)]
    target: String,
    /// Connections to hold
    #[arg(long, default_value_t = 20_000)]
    connections: usize,
    /// How long to hold them before others are measured
    #[arg(long, default_value_t = 10.0, value_parser = crate::engine::zero_or_more)]
    seconds: f64,
    /// Make one request on each connection first
    #[arg(long)]
    warm: bool,
    /// A header of every request, 'Name: value'; may be given several times
    #[arg(long)]
    header: Vec<String>,
    /// Process of the server; its descendants count too
    #[arg(long)]
    pid: Option<u32>,
    /// CPU the generator is pinned to
    #[arg(long)]
    cpu: Option<usize>,
    /// Requests of others, a second (open loop), measured without and with the connections
    #[arg(long, value_parser = crate::engine::above_zero)]
    beside_rate: Option<f64>,
    /// Length of one measurement of others; a round has two
    #[arg(long, default_value_t = 5.0, value_parser = crate::engine::above_zero)]
    beside_seconds: f64,
    /// Rounds: without and with, then with and without
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Statuses of others that are good, separated by commas; without it 200 to 399
    #[arg(long, value_delimiter = ',')]
    good_status: Vec<u16>,
    /// Exit with 3 if the p99 of others with the connections is more than so many times the p99
    /// without, with the whole interval
    #[arg(long, value_parser = crate::engine::above_zero, requires = "beside_rate")]
    max_p99_ratio: Option<f64>,
    /// Seed of the arrivals of others and of the bootstrap
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Exit with an error if a connection costs more resident memory than this
    #[arg(long)]
    max_bytes: Option<f64>,
    /// File the report is written to as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    target: String,
    is_warm: bool,
    asked: usize,
    opened: usize,
    failed: usize,
    closed_by_server: usize,
    seconds: f64,
    rss_bytes_before: Option<u64>,
    rss_bytes_after: Option<u64>,
    rss_bytes_per_connection: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<rounds::Report>,
    /// What the operating system lets the generator open, which bounds `asked`.
    descriptors_max: usize,
    host: Host,
}

/// What the connections did while nobody else asked.
struct Held {
    count: Count,
    rss_before: Option<u64>,
    rss_after: Option<u64>,
}

/// Opens, holds, measures others, reports, and gives the exit code.
///
/// # Errors
/// What failed, in words: too few descriptors, a connection lost, too much memory.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    let descriptors = descriptors_max();
    options.check(descriptors)?;
    let plan = Plan {
        target: Target::parse(&options.target)?,
        connections: options.connections,
        is_warm: options.warm,
        headers: options.header.clone(),
    };
    let others = options.others();
    let (all, asked) = (options.clone(), others.clone());
    let (held, rounds) = core::run(options.cpu, move |reactor| measure(reactor, all, plan, asked))
        .map_err(|error| error.to_string())??;
    let grown =
        held.rss_before.zip(held.rss_after).map(|(before, after)| after.saturating_sub(before));
    let report = Report {
        schema: 1,
        target: options.target.clone(),
        is_warm: options.warm,
        asked: options.connections,
        opened: held.count.opened,
        failed: held.count.failed,
        closed_by_server: held.count.closed,
        seconds: options.seconds,
        rss_bytes_before: held.rss_before,
        rss_bytes_after: held.rss_after,
        rss_bytes_per_connection: grown.map(|bytes| bytes as f64 / held.count.opened.max(1) as f64),
        beside: others
            .filter(|_| !rounds.is_empty())
            .map(|others| rounds::Report::new(&others, options.max_p99_ratio, &rounds)),
        descriptors_max: descriptors,
        host: Host::here(),
    };
    report.print();
    sink::write_json(options.json.as_deref(), &report)?;
    report.check(options.max_bytes)
}

/// Holds one crowd alone, then measures others without and with crowds like it.
async fn measure(
    reactor: Reactor,
    options: Options,
    plan: Plan,
    others: Option<Others>,
) -> Result<(Held, Vec<Round>), String> {
    let rss = || options.pid.map(process::rss_bytes_of_tree);
    let rss_before = rss();
    let crowd = Crowd::open(reactor.clone(), &plan, 0).await?;
    let rss_after = rss();
    reactor.sleep_until(reactor.now() + Duration::from_secs_f64(options.seconds)).await;
    let held = Held { count: crowd.close().await?, rss_before, rss_after };
    // Beside connections that were lost there is nothing to measure: the report says so.
    let rounds = match others.filter(|_| held.count.lost() == 0) {
        Some(others) => beside::run(reactor, &plan, &others).await?,
        None => Vec::new(),
    };
    Ok((held, rounds))
}

impl Options {
    fn check(&self, descriptors: usize) -> Result<(), String> {
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(format!("--connections are 1 to {CONNECTIONS_MAX}"));
        }
        if !(2..=ROUNDS_MAX).contains(&self.rounds) {
            return Err(format!("--rounds are 2 to {ROUNDS_MAX}"));
        }
        if let Some(pid) = self.pid.filter(|pid| !process::is_alive(*pid)) {
            return Err(format!("there is no process {pid}"));
        }
        let others = self.beside_rate.map_or(0, |_| beside::CONNECTIONS_MAX);
        if descriptors < self.connections + others + DESCRIPTORS_SPARE {
            return Err(format!("only {descriptors} descriptors, see 'ulimit -n'"));
        }
        Ok(())
    }

    fn others(&self) -> Option<Others> {
        self.beside_rate.map(|rate_per_s| Others {
            rate_per_s,
            span: Duration::from_secs_f64(self.beside_seconds),
            rounds: self.rounds,
            good: Good::new(&self.good_status),
            pid: self.pid,
            seed: self.seed,
        })
    }
}

/// The soft limit of open files, from /proc/self/limits.
fn descriptors_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let word = line.and_then(|line| line.split_ascii_whitespace().nth(3));
    word.and_then(|word| word.parse().ok()).unwrap_or(usize::MAX)
}

impl Report {
    fn print(&self) {
        println!(
            "{} of {} connections held for {} s, {} failed to open, {} closed by the server",
            self.opened, self.asked, self.seconds, self.failed, self.closed_by_server
        );
        if let Some(bytes) = self.rss_bytes_per_connection {
            println!("{bytes:.0} bytes of the server's resident memory per connection");
        }
        if let Some(beside) = &self.beside {
            beside.print();
        }
    }

    fn check(&self, bytes_max: Option<f64>) -> Result<ExitCode, String> {
        if self.failed + self.closed_by_server > 0 {
            return Err("connections were lost".into());
        }
        match (self.rss_bytes_per_connection, bytes_max) {
            (Some(bytes), Some(limit)) if bytes > limit => {
                return Err(format!("{bytes:.0} bytes per connection are more than {limit}"));
            }
            _ => {}
        }
        let Some(beside) = &self.beside else {
            return Ok(ExitCode::SUCCESS);
        };
        beside.check()?;
        Ok(beside.verdict.exit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_open_files() {
        assert!(descriptors_max() > 2);
    }
}
