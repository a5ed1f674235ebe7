//! One world: cores, engines, clients, and a run to its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hedgerow::config;
use hedgerow::simulate::{self, Instance};
use runtime::sim::{Options, World};
use runtime::{Instant, Reactor};

use super::checks;
use super::client::{self, Ask, End, Exchange, Ledger};
use super::engine::{self, Called, Engine, Manner};

/// How long pools may take to warm and listeners to listen.
const START_MAX: Duration = Duration::from_secs(5);

/// After the last client: the longest flight, and leases' grace.
const SETTLE: Duration = Duration::from_millis(1_500);

/// A running world.
pub(crate) struct Sim {
    pub(crate) world: World,
    pub(crate) instance: Instance,
    pub(crate) clients: Reactor,
    pub(crate) ledger: Ledger,
    /// In the order of their manners.
    pub(crate) engines: Vec<Engine>,
    before: BTreeMap<String, usize>,
}

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) calls: Vec<Called>,
    pub(crate) leaks: Vec<String>,
    pub(crate) trace: u64,
}

impl Ran {
    /// What clients got, in the order of their ends; 0: nothing.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let status = |exchange: &Exchange| match exchange.end {
            End::Answered(status, _) => status,
            End::Left | End::Broken(_) => 0,
        };
        self.exchanges.iter().map(status).collect()
    }

    /// How long the longest wait was.
    pub(crate) fn slowest(&self) -> Duration {
        let took = self.exchanges.iter().map(|exchange| exchange.ended.since(exchange.sent));
        took.max().unwrap_or_default()
    }

    /// Everything that must hold in any world.
    pub(crate) fn findings(&self, slack: Duration) -> Vec<String> {
        let mut findings = checks::answers(&self.exchanges, slack);
        findings.extend(self.leaks.iter().cloned());
        findings
    }
}

/// `more` is TOML that follows the engines.
pub(crate) fn start(
    seed: u64,
    options: Options,
    cores: usize,
    manners: &[Manner],
    more: &str,
) -> Sim {
    let world = World::new(seed, options);
    let mut text = String::from(
        "[plans.pro.fast]\nburst = 100000\nper_second = 100000.0\n\
         [plans.pro.lite]\nburst = 100000\nper_second = 100000.0\n\
         [[key]]\nname = \"demo\"\nplan = \"pro\"\n\
         sha256 = \"2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea\"\n",
    );
    let mut engines = Vec::new();
    for (index, manner) in manners.iter().enumerate() {
        let address: SocketAddr = format!("10.0.1.{}:80", index + 1).parse().expect("an address");
        let reactor = world.core(&format!("engine-{index}"), address.ip());
        engines.push(engine::start(&reactor, address, *manner));
        text.push_str(&format!(
            "[[engine]]\nname = \"e{index}\"\nadapter = \"searxng\"\nurl = \"http://{address}\"\n\
             connections_per_core = 2\nquality = {:?}\n",
            manner.quality
        ));
    }
    text.push_str(more);
    let settings = config::parse(&text, "sim.toml", &|_| None).expect("a right configuration");
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    let instance = simulate::start(&world, settings, cores, address);
    let clients = world.core("clients", "10.0.2.1".parse().expect("an address"));
    let listening = cores + manners.len();
    let is_up =
        world.run_until(Instant::ZERO + START_MAX, || world.census().listeners >= listening);
    assert!(is_up, "the instance does not listen");
    world.run_until(world.now() + Duration::from_millis(100), || false);
    let before = world.census().tasks;
    Sim { world, instance, clients, ledger: Ledger::default(), engines, before }
}

impl Sim {
    /// Sends `ask` in `after` from now.
    pub(crate) fn send(&self, after: Duration, ask: Ask) {
        let at = self.world.now() + after;
        client::send(&self.clients, self.instance.address, at, ask, &self.ledger);
    }

    /// Asks `question` in `after` from now.
    pub(crate) fn ask(&self, after: Duration, question: &str) {
        let ask = Ask { question: question.to_owned(), ..Ask::default() };
        self.send(after, ask);
    }

    /// Lets `span` pass.
    pub(crate) fn pass(&self, span: Duration) {
        self.world.run_until(self.world.now() + span, || false);
    }

    /// Runs until `count` exchanges ended and everything settled.
    pub(crate) fn run(self, count: usize) -> Ran {
        let limit = self.world.now() + Duration::from_secs(60);
        let ledger = self.ledger.clone();
        let is_over = self.world.run_until(limit, || ledger.count() >= count);
        self.pass(SETTLE);
        let mut leaks = checks::leaks(&self.world, &self.instance, &self.before);
        if !is_over {
            leaks.push(format!("{} of {count} requests ended", ledger.count()));
        }
        Ran {
            exchanges: ledger.exchanges(),
            calls: self.engines.iter().flat_map(Engine::calls).collect(),
            leaks,
            trace: self.world.trace_hash(),
        }
    }
}
