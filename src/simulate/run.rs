//! Runs one world: engines, the shipped instance, clients, in virtual time on this thread.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use runtime::Instant;
use runtime::sim::{Options as WorldOptions, World};
use shards::breaker::State;

use super::chance::Chance;
use super::clients::Clients;
use super::engine::{Asked, Engine, Episodes, Start};
use super::tally::Tally;
use super::worlds::Spec;
use super::{Instance, start};
use crate::config;
use crate::metrics::Seen;

/// How long listeners may take to listen, and pools to warm.
const START_MAX: Duration = Duration::from_secs(5);

/// Between the start of the instance and that of the traffic.
const SETTLE: Duration = Duration::from_millis(200);

/// After the last request: the longest flight.
const DRAIN: Duration = Duration::from_secs(61);

/// One way between two hosts of one place.
const NETWORK_DELAY: (Duration, Duration) = (Duration::from_micros(40), Duration::from_micros(80));

/// How often breakers and loads are looked at. An open breaker stays so for longer.
const TICK: Duration = Duration::from_secs(1);

/// The span over which the extra load is watched.
const WINDOW: Duration = Duration::from_secs(10);

/// Upstream requests without which a window says nothing.
const WINDOW_CHOSEN_MIN: u64 = 50;

/// What was looked at while it ran.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Times that breakers opened, by engine.
    pub openings: Vec<u64>,
    /// When, after the start of the traffic, in seconds: engine and whether it opened.
    pub changes: Vec<(f64, usize, bool)>,
    /// The greatest extra load of any window, as a ratio of attempts per upstream request.
    pub window_extra_max: f64,
    /// Calls of engines by stretch; empty unless there are stretches.
    pub calls: Vec<Vec<u64>>,
}

/// What a run left behind.
pub struct Ran {
    /// What clients got.
    pub clients: Rc<Clients>,
    /// What engines counted.
    pub engines: Vec<Rc<Engine>>,
    /// What the cores counted.
    pub seen: Seen,
    /// What was looked at.
    pub watched: Watched,
    /// How long the traffic took.
    pub span: Duration,
    /// Panics caught, over all cores.
    pub panics: u64,
    /// A hash over every event.
    pub trace: u64,
    // Tasks hold reactors of the world: it goes last.
    _world: World,
}

/// Runs a world to the end of its plan.
///
/// # Errors
/// The settings are wrong, the instance does not start, or requests are left hanging.
pub fn run(spec: &Spec, seed: u64) -> Result<Ran, String> {
    let options = WorldOptions { network_delay: NETWORK_DELAY, ..WorldOptions::default() };
    let world = World::new(seed, options);
    let epoch = Rc::new(Cell::new(Instant::ZERO));
    let (engines, addresses) = start_engines(&world, spec, seed, &epoch)?;
    let settings = config::parse(&spec.config(&addresses), spec.name, &|_| None)
        .map_err(|problems| problems.to_string())?;
    let address = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 8080));
    let instance = start(&world, settings, spec.cores, address);
    let listening = spec.cores + engines.len();
    let is_up =
        world.run_until(Instant::ZERO + START_MAX, || world.census().listeners >= listening);
    if !is_up {
        return Err("the instance does not listen".to_owned());
    }
    world.run_until(world.now() + SETTLE, || false);
    let started = world.now();
    epoch.set(started);
    let host = world.host("clients", IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1)));
    let warm_up = (spec.requests as f64 * spec.warm_up_ratio) as u64;
    let tally = Tally::new(warm_up, spec.deadline, spec.stretch);
    let clients = Clients::new(host, address, tally);
    clients.begin(started, spec.plan(seed));
    let mut watch = Watch::new(spec, started, engines.len());
    let mut stalls = spec.stalls.iter().peekable();
    let mut quiet_until = None;
    while !clients.is_over() {
        let tick = world.now() + TICK;
        let next = stalls.peek().map_or(tick, |stall| tick.min(started + stall.at));
        world.run_until(next, || clients.is_over());
        while let Some(stall) = stalls.next_if(|stall| started + stall.at <= world.now()) {
            if let Some(core) = instance.reactors.get(stall.core) {
                world.freeze(core, stall.span);
            }
        }
        watch.look(world.now(), &instance, &engines);
        let limit = *quiet_until.get_or_insert(world.now() + DRAIN);
        match clients.is_planned_out() {
            true if world.now() > limit => return Err("requests are left hanging".to_owned()),
            true => {}
            false => quiet_until = None,
        }
    }
    let seen = seen_by(&instance);
    let panics = world.census().panics;
    Ok(Ran {
        clients,
        engines,
        seen,
        watched: watch.watched,
        span: world.now().since(started),
        panics,
        trace: world.trace_hash(),
        _world: world,
    })
}

type Engines = (Vec<Rc<Engine>>, Vec<SocketAddr>);

fn start_engines(
    world: &World,
    spec: &Spec,
    seed: u64,
    epoch: &Rc<Cell<Instant>>,
) -> Result<Engines, String> {
    let slow_mean = Duration::from_secs(10);
    let common = Episodes::new(Chance::new(seed, 3_000), slow_mean, spec.common_ratio);
    let common = Rc::new(common);
    let asked = Rc::<Asked>::default();
    let mut engines = Vec::new();
    let mut addresses = Vec::new();
    for (index, manner) in spec.engines.iter().enumerate() {
        let host = Ipv4Addr::new(10, 0, 1, index as u8 + 1);
        let address = SocketAddr::from((host, 80));
        let start = Start {
            reactor: world.host(&format!("engine-{index}"), IpAddr::V4(host)),
            address,
            manner: manner.clone(),
            seed: (seed, index as u64),
            common: common.clone(),
            epoch: epoch.clone(),
            asked: asked.clone(),
        };
        engines.push(Engine::start(start).map_err(|error| error.to_string())?);
        addresses.push(address);
    }
    Ok((engines, addresses))
}

/// What all cores counted together.
fn seen_by(instance: &Instance) -> Seen {
    let settings = &instance.commons.settings;
    let mut seen = Seen::new(settings.engines.len(), settings.keys.len());
    for shard in &instance.shards {
        seen.merge(shard.metrics.borrow().seen());
    }
    seen
}

/// Looks at the instance every tick.
struct Watch {
    started: Instant,
    stretch: Duration,
    is_open: Vec<bool>,
    /// By tick, from the oldest of the window: when, upstream requests, attempts.
    loads: std::collections::VecDeque<(Instant, u64, u64)>,
    calls: Vec<u64>,
    watched: Watched,
}

impl Watch {
    fn new(spec: &Spec, started: Instant, engines: usize) -> Self {
        Self {
            started,
            stretch: spec.stretch,
            is_open: vec![false; engines],
            loads: [(started, 0, 0)].into(),
            calls: vec![0; engines],
            watched: Watched { openings: vec![0; engines], ..Watched::default() },
        }
    }

    fn look(&mut self, now: Instant, instance: &Instance, engines: &[Rc<Engine>]) {
        let elapsed = now.since(self.started);
        for index in 0..self.is_open.len() {
            let is_open = instance.shards.iter().any(|shard| {
                let engine = shard.engines.get(index);
                engine.is_some_and(|engine| engine.breaker_state(now) != State::Closed)
            });
            if std::mem::replace(&mut self.is_open[index], is_open) != is_open {
                self.watched.openings[index] += u64::from(is_open);
                self.watched.changes.push((elapsed.as_secs_f64(), index, is_open));
            }
        }
        self.look_at_load(now, instance);
        self.look_at_calls(elapsed, engines);
    }

    fn look_at_load(&mut self, now: Instant, instance: &Instance) {
        let (mut chosen, mut attempts) = (0, 0);
        for shard in &instance.shards {
            for engine in &shard.metrics.borrow().seen().engines {
                chosen += engine.chosen;
                attempts += engine.attempts();
            }
        }
        self.loads.push_back((now, chosen, attempts));
        while self.loads.get(1).is_some_and(|(at, ..)| now.since(*at) >= WINDOW) {
            self.loads.pop_front();
        }
        let Some(&(from, chosen_then, attempts_then)) = self.loads.front() else {
            return;
        };
        let chosen = chosen.saturating_sub(chosen_then);
        if now.since(from) >= WINDOW && chosen >= WINDOW_CHOSEN_MIN {
            let attempts = attempts.saturating_sub(attempts_then);
            let extra = attempts as f64 / chosen as f64 - 1.0;
            self.watched.window_extra_max = self.watched.window_extra_max.max(extra);
        }
    }

    fn look_at_calls(&mut self, elapsed: Duration, engines: &[Rc<Engine>]) {
        // The tick that ends at a border belongs to what lies before it.
        let elapsed = elapsed.saturating_sub(Duration::from_nanos(1));
        let Some(stretch) = elapsed.as_nanos().checked_div(self.stretch.as_nanos()) else {
            return;
        };
        let stretch = stretch as usize;
        if self.watched.calls.len() <= stretch {
            self.watched.calls.resize(stretch + 1, vec![0; engines.len()]);
        }
        for (index, engine) in engines.iter().enumerate() {
            let calls = engine.counts().calls;
            self.watched.calls[stretch][index] += calls - self.calls[index];
            self.calls[index] = calls;
        }
    }
}
