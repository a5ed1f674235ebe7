//! `idle`: opens connections, holds them without a request, and says what one costs the server in
//! resident memory and how many it closed meanwhile.
//!
//! Sources are spread over 127.0.0.2 and following, 10,000 connections each: one address has about
//! 28,000 ports. Kernel memory of sockets (about 2 KiB each end) is not in a process's resident
//! memory and not in the figure.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use runtime::{Reactor, Stream};
use serde::Serialize;

use crate::connection::Connection;
use crate::process::{self, Host};
use crate::queries::Queries;
use crate::target::{Requests, Target};
use crate::{core, sink};

const CONNECTIONS_MAX: usize = 1_000_000;
const CONNECTIONS_PER_SOURCE: usize = 10_000;
/// Connections being opened at one time: fewer than any listener's backlog.
const OPENING_MAX: usize = 64;
/// Descriptors of this process besides its connections.
const DESCRIPTORS_SPARE: usize = 64;
/// A held connection reads into so much: only its end is of interest.
const BUFFER_BYTES: usize = 64;
/// Time for the server's memory to settle after the last connection.
const SETTLE: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);

/// Options of `idle`.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// http://HOST:PORT/PATH; the path is asked for with --warm
    #[arg(long)]
    target: String,
    /// Connections to hold
    #[arg(long, default_value_t = 20_000)]
    connections: usize,
    /// How long to hold them
    #[arg(long, default_value_t = 10.0, value_parser = crate::engine::zero_or_more)]
    seconds: f64,
    /// Make one request on each connection first
    #[arg(long)]
    warm: bool,
    /// A header of that request, 'Name: value'
    #[arg(long)]
    header: Vec<String>,
    /// Process of the server; its descendants count too
    #[arg(long)]
    pid: Option<u32>,
    /// CPU the generator is pinned to
    #[arg(long)]
    cpu: Option<usize>,
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
    host: Host,
}

/// What the tasks count.
#[derive(Default)]
struct Counters {
    opened: Cell<usize>,
    failed: Cell<usize>,
    closed: Cell<usize>,
}

struct Held {
    opened: usize,
    failed: usize,
    closed: usize,
    rss_after: Option<u64>,
}

/// Opens, holds, reports.
///
/// # Errors
/// What failed, in words: too few descriptors, a connection lost, too much memory.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let count = options.connections;
    if !(1..=CONNECTIONS_MAX).contains(&count) {
        return Err(format!("--connections are 1 to {CONNECTIONS_MAX}"));
    }
    let descriptors = descriptors_max();
    if descriptors < count + DESCRIPTORS_SPARE {
        return Err(format!("only {descriptors} descriptors, see 'ulimit -n'"));
    }
    let target = Target::parse(&options.target)?;
    let requests = Requests::new(&target, &options.header, Queries::None)?;
    let rss_before = options.pid.map(process::rss_bytes_of_tree);
    let plan = options.clone();
    let held = core::run(options.cpu, move |reactor| hold(reactor, plan, target, requests))
        .map_err(|error| error.to_string())?;
    let grown = rss_before.zip(held.rss_after).map(|(before, after)| after.saturating_sub(before));
    let report = Report {
        schema: 1,
        target: options.target.clone(),
        is_warm: options.warm,
        asked: count,
        opened: held.opened,
        failed: held.failed,
        closed_by_server: held.closed,
        seconds: options.seconds,
        rss_bytes_before: rss_before,
        rss_bytes_after: held.rss_after,
        rss_bytes_per_connection: grown.map(|bytes| bytes as f64 / held.opened.max(1) as f64),
        host: Host::here(),
    };
    report.print();
    sink::write_json(options.json.as_deref(), &report)?;
    report.check(options.max_bytes)
}

async fn hold(reactor: Reactor, options: Options, target: Target, mut requests: Requests) -> Held {
    let counters = Rc::new(Counters::default());
    let sources = options.connections.div_ceil(CONNECTIONS_PER_SOURCE);
    let opening = Rc::new(Cell::new(0));
    let held = Rc::new(RefCell::new(Vec::<Stream>::with_capacity(options.connections)));
    for index in 0..options.connections {
        while opening.get() >= OPENING_MAX {
            reactor.sleep_until(reactor.now() + Duration::from_millis(1)).await;
        }
        opening.set(opening.get() + 1);
        let request = options.warm.then(|| requests.next(index as u64));
        let source = source(&target, index % sources);
        let open = open_one(reactor.clone(), target.clone(), source, request);
        let (opening, counters, held) = (opening.clone(), counters.clone(), held.clone());
        reactor.spawn(async move {
            let stream = open.await;
            opening.set(opening.get() - 1);
            let Some(stream) = stream else {
                return counters.failed.set(counters.failed.get() + 1);
            };
            counters.opened.set(counters.opened.get() + 1);
            held.borrow_mut().push(stream.clone());
            let _ = stream.read(Vec::with_capacity(BUFFER_BYTES)).await;
            counters.closed.set(counters.closed.get() + 1);
        });
    }
    while opening.get() > 0 {
        reactor.sleep_until(reactor.now() + STEP).await;
    }
    reactor.sleep_until(reactor.now() + SETTLE).await;
    let rss_after = options.pid.map(process::rss_bytes_of_tree);
    reactor.sleep_until(reactor.now() + Duration::from_secs_f64(options.seconds)).await;
    let closed = counters.closed.get();
    for stream in held.borrow().iter() {
        stream.shutdown(Shutdown::Both);
    }
    Held { opened: counters.opened.get(), failed: counters.failed.get(), closed, rss_after }
}

async fn open_one(
    reactor: Reactor,
    target: Target,
    source: Option<IpAddr>,
    request: Option<Vec<u8>>,
) -> Option<Stream> {
    let mut connection = Connection::open(&reactor, target.address, source).await.ok()?;
    if let Some(request) = request {
        let answer = connection.exchange(request).await.ok()?;
        if !answer.head.is_reusable {
            return None;
        }
    }
    Some(connection.line())
}

/// The `index`-th source of a loopback target; the kernel's choice for any other.
fn source(target: &Target, index: usize) -> Option<IpAddr> {
    let last = u8::try_from(index + 2).ok()?;
    let is_loopback = target.address.is_ipv4() && target.address.ip().is_loopback();
    is_loopback.then(|| Ipv4Addr::new(127, 0, 0, last).into())
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
    }

    fn check(&self, bytes_max: Option<f64>) -> Result<(), String> {
        if self.failed + self.closed_by_server > 0 {
            return Err("connections were lost".into());
        }
        match (self.rss_bytes_per_connection, bytes_max) {
            (Some(bytes), Some(limit)) if bytes > limit => {
                Err(format!("{bytes:.0} bytes per connection are more than {limit}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_loopback_addresses_of_their_own() {
        let target = Target::parse("http://127.0.0.1:80/").expect("a target");
        let text = |index| source(&target, index).map(|address| address.to_string());
        assert_eq!(text(0).as_deref(), Some("127.0.0.2"));
        assert_eq!(text(7).as_deref(), Some("127.0.0.9"));
        assert_eq!(text(1_000), None);
        let far = Target::parse("http://192.0.2.1:80/").expect("a target");
        assert_eq!(source(&far, 0), None);
    }

    #[test]
    fn this_process_may_open_files() {
        assert!(descriptors_max() > 2);
    }
}
