//! The named worlds: which engines, which traffic, which settings. B, W, H, Q and A, C, D, F, G, I
//! are the worlds that the goals of the tail are stated in; `docs/tail.md` says what is known of
//! each.
//!
//! Settings are keys of `hedgerow.toml`; everything not named has its default.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::chance::Chance;
use super::clients::Caller;
use super::engine::{Manner, Pace, Phase};
use super::law::{Body, Law, States};
use super::plan::{Plan, Poisson, agents, merge};
use super::week::Week;

/// The longest deadline there may be: "lifted".
pub const DEADLINE_LIFTED: Duration = Duration::from_secs(60);

/// The shipped deadline.
pub const DEADLINE: Duration = Duration::from_millis(600);

const SPEEDS: [f64; 5] = [0.7, 0.85, 1.0, 1.2, 1.4];

/// What comes beside the requests of people.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A batch job.
    Batch {
        /// Its requests a second.
        rate: f64,
        /// When it begins.
        from: Duration,
        /// When it ends.
        until: Duration,
    },
    /// So many agents that ask the same at the same moment.
    Agents {
        /// How many.
        size: u32,
        /// How often.
        every: Duration,
        /// How many times.
        times: u32,
    },
    /// The published week; people's requests are part of it.
    Week,
}

/// Cores that stand still.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// When, after the start of the traffic.
    pub at: Duration,
    /// For how long.
    pub span: Duration,
    /// Which core; the others go on.
    pub core: usize,
}

/// One world.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its engines.
    pub engines: Vec<Manner>,
    /// The share of time in which all engines are slow at once.
    pub common_ratio: f64,
    /// Requests a second.
    pub rate: f64,
    /// The share of requests that repeat a question.
    pub repeat_ratio: f64,
    /// What comes beside these.
    pub beside: Beside,
    /// When cores stand still.
    pub stalls: Vec<Stall>,
    /// The share of the first requests that no figure counts.
    pub warm_up_ratio: f64,
    /// How many requests, unless told otherwise.
    pub requests: u64,
    /// The deadline of requests.
    pub deadline: Duration,
    /// Cores of the instance.
    pub cores: usize,
    /// Settings by key.
    pub settings: BTreeMap<String, String>,
    /// `engine.in_flight_max`.
    pub in_flight_max: u32,
    /// `engine.connections_per_core`.
    pub connections: u32,
    /// How long a stretch of the figure over time is; zero: there is none.
    pub stretch: Duration,
}

impl Spec {
    /// A world of these engines at 60 requests a second, with the deadline lifted.
    pub fn new(name: &'static str, about: &'static str, engines: Vec<Manner>) -> Self {
        Self {
            name,
            about,
            engines,
            common_ratio: 0.0,
            rate: 60.0,
            repeat_ratio: 0.31,
            beside: Beside::Nothing,
            stalls: Vec::new(),
            warm_up_ratio: 0.03,
            requests: 120_000,
            deadline: DEADLINE_LIFTED,
            cores: 1,
            settings: BTreeMap::new(),
            in_flight_max: 0,
            stretch: Duration::ZERO,
            connections: 16,
        }
    }

    /// Its requests, drawn from `seed`.
    pub fn plan(&self, seed: u64) -> Plan {
        let people =
            |count| Poisson::new(Chance::new(seed, 0), 0, self.rate, self.repeat_ratio, count);
        match self.beside {
            Beside::Nothing => Box::new(people(self.requests)),
            Beside::Batch { rate, from, until } => {
                let batch = Poisson::new(Chance::new(seed, 1), 1, rate, 0.0, u64::MAX);
                Box::new(merge(people(self.requests), batch.batch(from, until)))
            }
            Beside::Agents { size, every, times } => {
                Box::new(merge(people(self.requests), agents(size, every, times)))
            }
            Beside::Week => Box::new(Week::new(seed, self.requests)),
        }
    }

    /// With one setting more.
    pub fn with(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.settings.insert(key.to_owned(), value.to_string());
        self
    }

    /// Hedges that spend `target` attempts per upstream request; the fuse stays above.
    pub fn budget(self, target: f64) -> Self {
        let fuse = (target * 1.5).min(1.0);
        self.with("hedge.budget_target_ratio", target).with("hedge.budget_ratio", fuse)
    }

    /// Hedges after `delay_ms`, all of them, and never a third leg.
    pub fn fixed_delay(self, delay_ms: u64) -> Self {
        self.with("hedge.mode", "\"percentile\"")
            .with("hedge.delay_initial_ms", delay_ms)
            .with("hedge.delay_min_ms", delay_ms)
            .with("hedge.delay_max_ms", delay_ms)
            .with("hedge.budget_ratio", "1.0")
            .with("hedge.last_chance_budget_ratio", "0.0")
    }

    /// Something befalls engine `index`.
    pub fn befalls(mut self, index: usize, phase: Phase) -> Self {
        if let Some(engine) = self.engines.get_mut(index) {
            engine.phases.push(phase);
        }
        self
    }

    /// The instance's configuration, given its engines' addresses.
    pub fn config(&self, addresses: &[std::net::SocketAddr]) -> String {
        let mut text = format!("deadline.total_ms = {}\n", self.deadline.as_millis());
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key} = {value}");
        }
        for caller in [Caller::Person, Caller::Batch] {
            let (key, lane) = match caller {
                Caller::Person => (caller.key(), "interactive"),
                Caller::Batch => (caller.key(), "batch"),
            };
            let hash: String = Sha256::digest(key).iter().map(|b| format!("{b:02x}")).collect();
            let _ = write!(
                text,
                "[plans.{key}]\nlane = \"{lane}\"\n\
                 [plans.{key}.fast]\nburst = 1000000\nper_second = 1000000.0\n\
                 [[key]]\nname = \"{key}\"\nplan = \"{key}\"\nsha256 = \"{hash}\"\n"
            );
        }
        for (index, address) in addresses.iter().enumerate() {
            let _ = write!(
                text,
                "[[engine]]\nname = \"e{index}\"\nadapter = \"searxng\"\n\
                 url = \"http://{address}\"\nconnections_per_core = {}\nin_flight_max = {}\n",
                self.connections, self.in_flight_max
            );
        }
        text
    }
}

/// Engines that switch between two states.
pub fn episodic(
    states: States,
    speeds: &[f64],
    episode_s: u64,
    shared_variance: f64,
) -> Vec<Manner> {
    let engine = |&speed: &f64| Manner {
        pace: Pace::Episodes {
            states,
            speed,
            episode: Duration::from_secs(episode_s),
            own_ratio: states.slow_ratio,
            shared_variance,
        },
        slots: None,
        phases: Vec::new(),
    };
    speeds.iter().map(engine).collect()
}

/// `count` engines of one law.
pub fn steady(law: Law, count: usize) -> Vec<Manner> {
    vec![Manner { pace: Pace::Steady(law), slots: None, phases: Vec::new() }; count]
}

/// World B: the one that most goals are stated in.
pub fn b(name: &'static str, about: &'static str) -> Spec {
    Spec::new(name, about, episodic(States::UNEQUAL, &SPEEDS, 10, 0.0)).budget(0.10)
}

/// The worlds of the goals.
pub fn worlds() -> Vec<Spec> {
    let warm = steady(Law::warm(Body::Pareto), 3);
    let quoted = steady(Law::quoted(Body::Lognormal), 5);
    let three = episodic(States::THREE, &[0.75, 1.0, 1.3], 10, 0.0);
    vec![
        b("B", "five engines x 0.7-1.4, quoted, slow 20 % of the time in 10 s episodes"),
        b("B145", "as B, 14.5 % (10 % per client request)").budget(0.145),
        b("Btime", "as B, hedges at 250 ms: a budget in engine time").fixed_delay(250),
        Spec::new("W", "three equal independent engines, warm", warm).budget(0.145),
        slots(b("H", "as B at 300/s, 20 slots an engine, calls beyond them queue there")),
        Spec::new("Q", "five equal independent engines, quoted lognormal, d = 420", quoted)
            .fixed_delay(420),
        Spec::new("A", "five equal engines", episodic(States::EQUAL, &[1.0; 5], 10, 0.0))
            .budget(0.10),
        Spec::new(
            "C",
            "as B, 40 % of the variance belongs to the question",
            episodic(States::UNEQUAL, &SPEEDS, 10, 0.4),
        )
        .budget(0.10),
        Spec::new("D", "as B, 2 s episodes", episodic(States::UNEQUAL, &SPEEDS, 2, 0.0))
            .budget(0.10),
        Spec::new("F", "three engines x 0.75-1.3", three).budget(0.10),
        Spec::new("G", "as B, slow 35 %", episodic(States::OFTEN, &SPEEDS, 10, 0.0)).budget(0.10),
        common(b("I", "as B, but 6 % of the time all engines are slow at once"), 0.06),
    ]
}

/// The published week, with the engines of world B and the shipped deadline.
pub fn week() -> Spec {
    let mut spec = b("week", "1,084,001 requests as published, engines of world B");
    spec.beside = Beside::Week;
    spec.requests = super::week::REQUESTS;
    spec.deadline = DEADLINE;
    spec.warm_up_ratio = 0.0;
    spec
}

/// 20 slots an engine at 300 requests a second: 65 % busy when spread evenly.
fn slots(mut spec: Spec) -> Spec {
    spec.rate = 300.0;
    spec.in_flight_max = 20;
    for engine in &mut spec.engines {
        engine.slots = Some(20);
    }
    spec.with("admission.limit_initial", 512)
}

/// A share of the slow time is common to all.
fn common(mut spec: Spec, ratio: f64) -> Spec {
    spec.common_ratio = ratio;
    for engine in &mut spec.engines {
        if let Pace::Episodes { own_ratio, .. } = &mut engine.pace {
            *own_ratio = (*own_ratio - ratio) / (1.0 - ratio);
        }
    }
    spec
}
