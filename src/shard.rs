//! What one core owns, assembled. A shard lives on its core's thread and is never sent; what cores
//! share is in `Commons`: words of buckets and budgets, and what `control` publishes.

mod leases;
mod spare;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use runtime::{Instant, Reactor, Ringer};
use shards::breaker::Admission;
use shards::budget::Budget;
use shards::limiter::Limiter;
use shards::mesh::Post;
use shards::steering::Steering;
use shards::{CoreId, Lane, placement};

use crate::cache::Cache;
use crate::cache::lease::Ledger;
use crate::compiler::Compiler;
use crate::config::Settings;
use crate::config::settings::{HedgeMode, Limits};
use crate::control::dns::DnsTable;
use crate::edge::{self, Call, Head, Probe, Sent, Service};
use crate::engines::ask::{Ground, Witness};
use crate::engines::evidence::Evidence;
use crate::engines::leg::Leg;
use crate::engines::state::EngineState;
use crate::gateway::{Gateway, Words};
use crate::mail::{Gossip, Letter};
use crate::metrics::{EdgeCounts, Gauges, Published, ShardMetrics};
use crate::model::{Admitted, Class, Endpoint, EngineId, Key, LegReport, Plan, RateState, Refusal};
use crate::reply::{PEER_GONE, Reply};
use crate::router::{self, Candidate, Chance, Eligibility};

/// Flights of one core at most: the limiter's own maximum, so that it decides and not this.
const FLIGHTS_MAX: usize = 8_192;

/// Keys leased by one home core at most.
const LEASES_MAX: usize = 8_192;

/// Tokens a hedge budget holds at the most: a burst of lateness may spend them at once.
const HEDGE_BURST: u32 = 10;

/// What the cores of an instance share.
pub struct Commons {
    /// The settings, as read at start.
    pub settings: Arc<Settings>,
    /// The words of keys' buckets.
    pub words: Arc<Words>,
    /// Tokens for hedges.
    pub hedges: Budget,
    /// Tokens for last chances.
    pub last_chances: Budget,
    /// Addresses of engines' hosts, as `control` resolved them.
    pub dns: ArcSwap<DnsTable>,
    /// Set once the process is to go away.
    pub is_draining: AtomicBool,
}

impl Commons {
    /// What cores under `settings` share.
    pub fn new(settings: Arc<Settings>) -> Arc<Self> {
        Arc::new(Self {
            words: Arc::new(Words::new(&settings)),
            hedges: Budget::new(settings.hedge.budget_ratio, HEDGE_BURST),
            last_chances: Budget::new(settings.hedge.last_chance_budget_ratio, HEDGE_BURST),
            dns: ArcSwap::from_pointee(DnsTable::default()),
            is_draining: AtomicBool::new(false),
            settings,
        })
    }
}

/// One core's part of the instance.
pub struct Shard {
    /// This core's reactor.
    pub reactor: Reactor,
    /// The settings.
    pub settings: Arc<Settings>,
    /// What the cores share.
    pub commons: Arc<Commons>,
    /// Stage 1.
    gateway: Gateway,
    limiter: RefCell<Limiter>,
    /// Stage 2.
    pub compiler: Compiler,
    /// Stage 3.
    pub cache: Cache,
    ledger: Ledger,
    /// Stages 4 and 5, by engine.
    pub engines: Vec<Rc<EngineState>>,
    /// Engines' names and weights, for stage 6 and the answer.
    pub names: Vec<String>,
    /// As `names`.
    pub weights: Vec<f64>,
    post: Post<Letter>,
    ringers: Vec<Ringer>,
    /// Counters of the path.
    pub metrics: RefCell<ShardMetrics>,
    probe: Probe,
    heard_in_flight: RefCell<Vec<Vec<u32>>>,
    steering: RefCell<Steering>,
    lateness_max: Cell<Duration>,
    panics: Cell<u64>,
    /// A fault planted by a test: losers' connections go back to the pool.
    #[cfg(feature = "sim")]
    pub is_poisoned: Cell<bool>,
}

/// Whether half-open breakers may let a probe through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probes {
    /// A first leg may probe.
    Allowed,
    /// A hedge may not.
    Refused,
}

/// The engines as they stand for one request.
pub struct Field {
    /// For the router.
    pub candidates: Vec<Candidate>,
    /// When the first engine that refuses may be asked again.
    pub retry_at: Instant,
}

impl Shard {
    /// The shard of the core that `post` belongs to.
    pub fn new(
        reactor: Reactor,
        commons: Arc<Commons>,
        post: Post<Letter>,
        ringers: Vec<Ringer>,
    ) -> Rc<Self> {
        let settings = commons.settings.clone();
        let cores = post.cores();
        let ids = (0..settings.engines.len()).map(|index| EngineId(index as u16));
        Rc::new(Self {
            gateway: Gateway::new(&settings, commons.words.clone()),
            limiter: RefCell::new(Limiter::new(settings.admission)),
            compiler: Compiler::new(&settings),
            cache: Cache::new(&settings, cores, FLIGHTS_MAX),
            ledger: Ledger::new(LEASES_MAX),
            engines: ids.map(|id| Rc::new(EngineState::new(id, settings.clone()))).collect(),
            names: settings.engines.iter().map(|engine| engine.name.clone()).collect(),
            weights: settings.engines.iter().map(|engine| engine.quality).collect(),
            metrics: RefCell::new(ShardMetrics::new(&settings)),
            probe: Probe::default(),
            heard_in_flight: RefCell::new(vec![Vec::new(); cores]),
            steering: RefCell::new(router::delay::steering(&settings.hedge)),
            lateness_max: Cell::new(Duration::ZERO),
            panics: Cell::new(0),
            #[cfg(feature = "sim")]
            is_poisoned: Cell::new(false),
            reactor,
            settings,
            commons,
            post,
            ringers,
        })
    }

    /// This core.
    pub fn me(&self) -> CoreId {
        self.post.me()
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.post.cores()
    }

    /// The core that keeps the lease of `key`.
    pub fn home(&self, key: Key) -> CoreId {
        placement::home(&key.0, self.cores())
    }

    /// Stage 1.
    ///
    /// # Errors
    /// The refusal, and where the key's bucket stands if the key is known.
    pub fn admit(
        &self,
        head: &Head<'_>,
        endpoint: Endpoint,
        arrived: Instant,
        now: Instant,
    ) -> Result<Admitted, (Refusal, Option<RateState>)> {
        self.gateway.admit(head, endpoint, arrived, now, &self.limiter)
    }

    /// Posts a letter and wakes its reader; false if the lane is full.
    pub fn send(&self, to: CoreId, letter: Letter) -> bool {
        let is_sent = self.post.send(to, letter).is_ok();
        if is_sent {
            if let Some(ringer) = self.ringers.get(usize::from(to.0)) {
                ringer.ring();
            }
        } else {
            self.metrics.borrow_mut().lane_full();
        }
        is_sent
    }

    /// The lanes that lead here.
    pub fn post(&self) -> &Post<Letter> {
        &self.post
    }

    /// Runs `work`; a panic in it is counted and goes no further.
    pub fn guarded(&self, work: impl FnOnce()) {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            self.panics.set(self.panics.get() + 1);
        }
    }

    /// The least time in which any engine that serves `plan` is asked; none: there is no engine.
    pub fn min_useful(&self, plan: &Plan) -> Option<Duration> {
        let serving = self.engines.iter().filter(|engine| engine.serves(plan));
        serving.map(|engine| engine.settings().min_useful).min()
    }

    /// The engines that serve `plan`, as they stand at `now` with `left` to go. At most one probe
    /// is leased, and only of an engine that a first leg can still be sent to: one that nobody used
    /// would keep its engine waiting until its lease expires.
    pub fn field(&self, plan: &Plan, now: Instant, left: Duration, probes: Probes) -> Field {
        let mut retry_at: Option<Instant> = None;
        let mut may_probe = probes == Probes::Allowed;
        let mut candidates = Vec::with_capacity(self.engines.len());
        for engine in self.engines.iter().filter(|engine| engine.serves(plan)) {
            let draw = match may_probe && engine.settings().min_useful <= left {
                true => self.unit(),
                // No draw lies below it: nobody probes.
                false => 1.0,
            };
            let (is_open_for, generation) = match engine.admit(now, draw) {
                Admission::Closed(generation) => (Eligibility::Yes, Some(generation)),
                Admission::Probe(generation) => {
                    may_probe = false;
                    (Eligibility::Probe, Some(generation))
                }
                Admission::Refused { retry_at: at } => {
                    retry_at = Some(retry_at.map_or(at, |earliest| earliest.min(at)));
                    (Eligibility::No, None)
                }
            };
            let settings = engine.settings();
            candidates.push(Candidate {
                engine: engine.id(),
                role: settings.role,
                quality: settings.quality_by_class[plan.class.index()],
                cost_ms: engine.cost_ms(now),
                min_useful: settings.min_useful,
                is_open_for,
                generation,
            });
        }
        let is_nobody_open = candidates.iter().all(|c| c.is_open_for == Eligibility::No);
        if may_probe && is_nobody_open {
            self.probe_one(&mut candidates, now, left);
        }
        Field { candidates, retry_at: retry_at.unwrap_or(now) }
    }

    /// Where no engine may be asked, a probe costs nobody anything: the first half-open one that
    /// has a lease left is probed whatever the draw.
    fn probe_one(&self, candidates: &mut [Candidate], now: Instant, left: Duration) {
        for candidate in candidates.iter_mut().filter(|c| c.min_useful <= left) {
            let engine = self.engines.get(candidate.engine.index());
            if let Some(Admission::Probe(generation)) = engine.map(|e| e.admit(now, 0.0)) {
                candidate.is_open_for = Eligibility::Probe;
                candidate.generation = Some(generation);
                return;
            }
        }
    }

    /// The delay after which a call to `engine` counts as late.
    pub fn late_after(&self, engine: EngineId, class: Class) -> Duration {
        let hedge = &self.settings.hedge;
        let Some(engine) = self.engines.get(engine.index()) else {
            return hedge.delay_initial;
        };
        let now = self.reactor.now();
        if hedge.mode == HedgeMode::Budget {
            let delay = self.steering.borrow().delay().max(hedge.delay_min);
            return engine.note_late_after(class, now, delay);
        }
        engine.late_after(class, now, |samples, quantile| {
            router::delay::percentile(hedge, samples, quantile)
        })
    }

    /// What the race needs of this core. A request's first leg pays into the budgets.
    pub fn ground(&self) -> Ground<'_> {
        self.steering.borrow_mut().primary();
        self.commons.hedges.deposit();
        self.commons.last_chances.deposit();
        Ground {
            reactor: &self.reactor,
            engines: &self.engines,
            hedges: self.settings.hedge.enabled.then_some(&self.commons.hedges),
            last_chances: &self.commons.last_chances,
            witness: self,
        }
    }

    /// A letter with `evidence` and what is in flight.
    pub fn gossip(&self, evidence: Vec<Evidence>) -> Gossip {
        let in_flight = self.engines.iter().map(|engine| engine.in_flight()).collect();
        Gossip { in_flight, evidence }
    }

    /// Posts `gossip` to every other core; false if a lane was full.
    pub fn tell_all(&self, gossip: &Gossip) -> bool {
        let mut is_told = true;
        for core in 0..self.cores() {
            let to = CoreId(core as u16);
            if to != self.me() {
                is_told &= self.send(to, Letter::Gossip(gossip.clone()));
            }
        }
        is_told
    }

    /// Random numbers for one choice.
    pub fn chance(&self) -> Chance {
        Chance { explore: self.unit(), pick: self.unit(), second: self.unit() }
    }

    /// A random number in 0..1.
    fn unit(&self) -> f64 {
        (self.reactor.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// What another core has in flight, and what it learned.
    pub fn hear_gossip(&self, from: CoreId, gossip: Gossip) {
        let now = self.reactor.now();
        for evidence in &gossip.evidence {
            if let Some(engine) = self.engines.get(usize::from(evidence.engine)) {
                evidence.merge_into(engine, now);
            }
        }
        let mut heard = self.heard_in_flight.borrow_mut();
        if let Some(slot) = heard.get_mut(usize::from(from.0)) {
            *slot = gossip.in_flight;
        }
        for engine in &self.engines {
            let index = engine.id().index();
            let elsewhere = heard.iter().filter_map(|core| core.get(index)).sum();
            engine.hear_in_flight(elsewhere);
        }
    }

    /// Publishes this core's counters and where things stand.
    pub fn publish(&self, to: &Published, now: Instant) {
        let limiter = self.limiter.borrow();
        let (l1_bytes, l1_entries) = self.cache.size();
        let gauges = Gauges {
            at: now,
            edge: EdgeCounts::of(&self.probe),
            limit: limiter.limit(),
            in_flight_interactive: limiter.in_flight(Lane::Interactive),
            in_flight_batch: limiter.in_flight(Lane::Batch),
            flights: self.cache.flights().len(),
            leases: self.ledger.len(),
            l1_bytes,
            l1_bytes_max: self.cache.bytes_max(),
            l1_entries,
            panics_total: self.reactor.panics() + self.panics.get(),
            lateness_max: self.lateness_max.replace(Duration::ZERO),
            hedge_tokens: self.commons.hedges.tokens(),
            last_chance_tokens: self.commons.last_chances.tokens(),
            engines: self.engines.iter().map(|engine| engine.gauges(now)).collect(),
        };
        self.metrics.borrow_mut().publish(gauges, to);
    }

    /// Time a request spent in our own hands, or that the reactor was late: what the limiter
    /// senses.
    pub fn observe_own(&self, now: Instant, own: Duration) {
        self.limiter.borrow_mut().observe_own(now, own);
    }

    /// The gateway's calendar, and the limiter's and the ledger's clock.
    pub fn tick(&self, now: Instant) {
        self.gateway.set_unix_time(self.reactor.unix_time());
        self.limiter.borrow_mut().tick(now);
        for (key, heir, is_awaited) in self.ledger.expire(now, self.lease_expires(now)) {
            self.grant(key, heir, is_awaited);
        }
        self.cache.flights().expire(now);
    }

    /// The reactor was late by this much.
    pub fn was_late(&self, by: Duration) {
        self.lateness_max.set(self.lateness_max.get().max(by));
        self.metrics.borrow_mut().late(by);
        self.observe_own(self.reactor.now(), by);
    }
}

/// A request's place in its lane: left once, whatever becomes of the request.
pub struct Pass {
    shard: Rc<Shard>,
    lane: Lane,
}

impl Pass {
    /// For a request that the gateway let into `lane`.
    pub fn new(shard: &Rc<Shard>, lane: Lane) -> Self {
        Self { shard: shard.clone(), lane }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.shard.limiter.borrow_mut().leave(self.lane);
    }
}

impl Witness for Shard {
    fn leg(&self, report: &LegReport, detail: &'static str) {
        self.metrics.borrow_mut().leg(report, detail);
        // What it asked of one core holds for all, and at once.
        let engine = self.engines.get(report.engine.index());
        if let Some(engine) = engine
            && let Some(until) = engine.take_rest()
            && !self.tell_all(&self.gossip(vec![Evidence::rest(report.engine, until)]))
        {
            engine.tell_rest_again();
        }
    }

    fn hedge(&self, engine: EngineId, was_granted: bool) {
        // One that the budget denies moves nothing: in a storm the bucket is the fuse.
        if was_granted {
            self.steering.borrow_mut().extra();
        }
        self.metrics.borrow_mut().hedge(engine, was_granted);
    }

    fn starts(&self, leg: &Leg) {
        #[cfg(feature = "sim")]
        if self.is_poisoned.get() {
            leg.poison();
        }
        let _ = leg;
    }
}

impl Service for Shard {
    fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    fn probe(&self) -> &Probe {
        &self.probe
    }

    fn is_draining(&self) -> bool {
        self.commons.is_draining.load(Ordering::Relaxed)
    }

    fn drain_timeout(&self) -> Duration {
        self.settings.server.drain_timeout
    }

    fn call(
        self: Rc<Self>,
        endpoint: Endpoint,
        head: &Head<'_>,
        body: &[u8],
        arrived: Instant,
        reply_buffer: Vec<u8>,
    ) -> Call {
        crate::search::call(&self, endpoint, head, body, arrived, reply_buffer)
    }

    fn done(&self, reply: &Reply, sent: Sent) {
        let trail = reply.trail.unwrap_or_default();
        let own = trail.own();
        // A refusal at the door costs next to nothing and says nothing of a queue; nor does a
        // caller that left before it was known how long its answer took.
        if trail.admitted != Instant::ZERO && reply.status != PEER_GONE {
            self.observe_own(sent.at, own);
        }
        let total = reply.trail.map_or(Duration::ZERO, |trail| sent.at.since(trail.arrived));
        self.metrics.borrow_mut().request(reply, sent.is_complete, total, own);
        if let Some(code) = reply.code {
            // Nothing of what was asked, by whom and from where.
            let (status, request_id) = (reply.status, reply.request_id.as_str());
            tracing::debug!(status, code, request_id, own_us = own.as_micros(), "refused");
        }
    }
}

/// Serves every search listener of this core until the drain is over.
pub async fn serve(shard: Rc<Shard>, listeners: Vec<runtime::Listener>) {
    let gate = runtime::gate::Gate::new();
    for listener in listeners {
        let Some(pass) = gate.enter() else { continue };
        let shard = shard.clone();
        let reactor = shard.reactor.clone();
        reactor.spawn(async move {
            edge::serve(shard, listener).await;
            drop(pass);
        });
    }
    gate.close();
    gate.closed().await;
}
