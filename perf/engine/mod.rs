//! `engine`: a search engine in the shape of SearXNG whose latency follows a law, and whose answers
//! fail as often as told. It stands in for the engines a gateway does not own.
//!
//! It notices when a caller closes its connection before the answer, stops the call and counts the
//! time it saved: what a gateway's cancelled hedges really cost is read from `GET /stats`. A caller
//! that only half-closes counts as gone. `GET /quit` ends the process in-band.
//!
//! A waiting call is one timer and one pending read. Delays are as exact as the reactor's timers:
//! monoio's fire up to 2 ms late, under 1 % of the quoted median.

pub(crate) mod answer;
mod question;
mod serve;
mod stats;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::Args;
use runtime::{BellSeed, Instant, Reactor, Ringer};

use crate::chance::Chance;
use crate::core;
use crate::law::{Episodes, Law};
use answer::Ratios;
use stats::Stats;

/// More cores than any test machine has.
const CORES_MAX: usize = 256;
const BACKLOG: u32 = 1024;
const STREAM_KIND: u64 = 16;
const STREAM_DELAY: u64 = 17;

/// Options of `engine`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Address to listen on; port 0 picks a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:9101")]
    listen: SocketAddr,
    /// quoted, warm (0.66 x quoted), fixed:MS, or percentiles such as p50:248,p90:612,p99:1480
    #[arg(long, default_value = "quoted", value_parser = Law::parse)]
    law: Law,
    /// Multiplies every time of the law
    #[arg(long, default_value_t = 1.0, value_parser = above_zero)]
    scale: f64,
    /// Seed of delays, kinds of answer and episodes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads, each with its own reactor and listener
    #[arg(long, default_value_t = 1)]
    cores: usize,
    /// Share of calls answered 500
    #[arg(long, default_value_t = 0.0, value_parser = ratio)]
    error_ratio: f64,
    /// Share of calls answered by a legitimate empty list
    #[arg(long, default_value_t = 0.0, value_parser = ratio)]
    empty_ratio: f64,
    /// Share of calls answered by an empty list with unresponsive engines
    #[arg(long, default_value_t = 0.0, value_parser = ratio)]
    block_ratio: f64,
    /// Share of calls answered 429
    #[arg(long, default_value_t = 0.0, value_parser = ratio)]
    throttle_ratio: f64,
    /// How much slower calls are that begin within a slow episode
    #[arg(long, default_value_t = 5.0, value_parser = above_zero)]
    slow_factor: f64,
    /// One slow episode in every period of so many seconds; 0: none
    #[arg(long, default_value_t = 0.0, value_parser = zero_or_more)]
    slow_every_s: f64,
    /// Length of a slow episode in seconds
    #[arg(long, default_value_t = 10.0, value_parser = zero_or_more)]
    slow_for_s: f64,
    /// Results in an answer (at most 100)
    #[arg(long, default_value_t = 10)]
    results: u8,
    /// Calls in flight beyond which latency grows in proportion; 0: no such limit
    #[arg(long, default_value_t = 0)]
    slots: u32,
    /// Name the engine has in its answers
    #[arg(long, default_value = "stub")]
    name: String,
}

/// What one core of the engine works with.
pub(crate) struct Core {
    pub(crate) reactor: Reactor,
    pub(crate) options: Options,
    pub(crate) stats: Arc<Stats>,
    /// Rung to end the process.
    ringers: Vec<Ringer>,
    law: Law,
    episodes: Option<Episodes>,
    started: Instant,
    kinds: RefCell<Chance>,
    delays: RefCell<Chance>,
}

/// Runs the engine until `GET /quit`.
///
/// # Errors
/// What failed at start, in words.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if !(1..=CORES_MAX).contains(&options.cores) || options.results > 100 {
        return Err(format!("--cores is 1 to {CORES_MAX}, --results at most 100"));
    }
    let failed = |error: std::io::Error| error.to_string();
    let bells: Vec<(Ringer, BellSeed)> =
        (0..options.cores).map(|_| runtime::bell()).collect::<Result<_, _>>().map_err(failed)?;
    let (ringers, seeds): (Vec<_>, Vec<_>) = bells.into_iter().unzip();
    let stats = Arc::new(Stats::new(options.cores));
    let (bound, addresses) = mpsc::channel();
    let mut threads = Vec::new();
    let mut options = options.clone();
    for (index, seed) in seeds.into_iter().enumerate() {
        let one = Start {
            index,
            seed,
            options: options.clone(),
            stats: Arc::clone(&stats),
            ringers: ringers.clone(),
            bound: bound.clone(),
        };
        threads.push(core::thread("engine", move || one.run()).map_err(failed)?);
        // The first core may have picked the port that all others share.
        options.listen = addresses.recv().map_err(|_| "a core ended at its start".to_owned())??;
    }
    let law = options.law.clone().scaled(options.scale);
    println!("engine on http://{}/search, law {law}, seed {}", options.listen, options.seed);
    for thread in threads {
        thread.join().map_err(|_| "a core panicked".to_owned())?.map_err(failed)?;
    }
    println!("{}", stats.json());
    Ok(())
}

/// Everything a core's thread takes along.
struct Start {
    index: usize,
    seed: BellSeed,
    options: Options,
    stats: Arc<Stats>,
    ringers: Vec<Ringer>,
    bound: mpsc::Sender<Result<SocketAddr, String>>,
}

impl Start {
    fn run(self) -> std::io::Result<()> {
        let refused = self.bound.clone();
        let outcome = core::run(None, move |reactor| self.main(reactor));
        if let Err(error) = &outcome {
            // Nobody listens any more if the core had got as far as binding.
            let _ = refused.send(Err(error.to_string()));
        }
        outcome
    }

    async fn main(self, reactor: Reactor) {
        let listener = match reactor.listen(self.options.listen, BACKLOG) {
            Ok(listener) => listener,
            Err(error) => {
                let _ = self.bound.send(Err(format!("{}: {error}", self.options.listen)));
                return;
            }
        };
        let address = listener.address();
        let (kinds, delays) = (self.chance(STREAM_KIND), self.chance(STREAM_DELAY));
        let mut bell = reactor.attach(self.seed);
        let stats = Arc::clone(&self.stats);
        let core = Rc::new(Core {
            law: self.options.law.clone().scaled(self.options.scale),
            episodes: episodes(&self.options),
            started: reactor.now(),
            kinds: RefCell::new(kinds),
            delays: RefCell::new(delays),
            options: self.options,
            stats: self.stats,
            ringers: self.ringers,
            reactor: reactor.clone(),
        });
        reactor.spawn(serve::accept(Rc::clone(&core), listener.clone()));
        let _ = self.bound.send(Ok(address));
        while !stats.is_quitting() {
            bell.wait(|| stats.is_quitting()).await;
        }
        listener.shutdown();
    }

    fn chance(&self, stream: u64) -> Chance {
        Chance::seeded(self.options.seed, stream + 256 * self.index as u64)
    }
}

fn episodes(options: &Options) -> Option<Episodes> {
    (options.slow_every_s > 0.0).then(|| Episodes {
        factor: options.slow_factor,
        every: Duration::from_secs_f64(options.slow_every_s),
        span: Duration::from_secs_f64(options.slow_for_s),
        seed: options.seed,
    })
}

impl Core {
    /// What the next call is answered with.
    fn draw_kind(&self) -> answer::Kind {
        let options = &self.options;
        Ratios {
            error: options.error_ratio,
            empty: options.empty_ratio,
            block: options.block_ratio,
            throttle: options.throttle_ratio,
        }
        .kind_at(self.kinds.borrow_mut().unit())
    }

    /// How long the next call takes: the law's draw, longer in an episode, longer when the calls in
    /// flight (this one included) exceed the slots.
    fn draw_delay(&self) -> Duration {
        let drawn = self.law.at(self.delays.borrow_mut().unit());
        let elapsed = self.reactor.now().since(self.started);
        let slow = self.episodes.map_or(1.0, |episodes| episodes.factor_at(elapsed));
        let crowd = match self.options.slots {
            0 => 1.0,
            slots => (self.stats.in_flight() as f64 / f64::from(slots)).max(1.0),
        };
        Duration::from_secs_f64(drawn.as_secs_f64() * slow * crowd)
    }

    /// Ends every core.
    fn quit(&self) {
        self.stats.quit();
        for ringer in &self.ringers {
            ringer.ring();
        }
    }
}

fn number(text: &str, is_valid: impl Fn(f64) -> bool, what: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| is_valid(*value)).ok_or_else(|| format!("is not {what}"))
}

/// A number from 0 to 1.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=1.0).contains(&value), "a ratio from 0 to 1")
}

/// A number above 0 and at most 1e6.
pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1e6, "above 0 and at most 1e6")
}

/// A number from 0 to 1e6.
pub(crate) fn zero_or_more(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=1e6).contains(&value), "0 to 1e6")
}
