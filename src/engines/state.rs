//! What one core knows of one engine: its open connections, its statistics, its breaker.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use runtime::{Instant, Stream};
use shards::breaker::{Admission, Breaker, Generation, Outcome, State};
use shards::latency::{Latency, Sample};
use shards::pool::Pool;
use shards::score::{Answered, Score};

use super::verdict::{Echo, REST_MAX};
use crate::config::Settings;
use crate::config::settings::Engine as EngineSettings;
use crate::metrics::EngineGauges;
use crate::model::{Class, EngineId, Plan, Verdict};

/// How long an unused connection is kept: below the shortest keep-alive time of common servers
/// (uvicorn 5 s excepted: its closes are noticed when the connection is taken).
const IDLE_FOR: Duration = Duration::from_secs(50);

/// The slices of a rolling window: a sample leaves at most a sixth of the window late.
const SLICES: usize = 6;

/// One engine as seen by one core.
pub struct EngineState {
    id: EngineId,
    settings: Arc<Settings>,
    /// Open connections that nobody uses.
    pub pool: RefCell<Pool<Stream>>,
    pub(super) latency: RefCell<Latency>,
    pub(super) latency_by_class: Vec<RefCell<Latency>>,
    late_after: [Cell<(Instant, Duration)>; Class::ALL.len()],
    pub(super) score: RefCell<Score>,
    pub(super) breaker: RefCell<Breaker>,
    /// Compares an answer with the previous one to a different question.
    pub echo: RefCell<Echo>,
    in_flight: Cell<u32>,
    in_flight_elsewhere: Cell<u32>,
    rests_until: Cell<Instant>,
    /// Whether other cores are still to be told of it.
    is_rest_untold: Cell<bool>,
    addresses: RefCell<Vec<SocketAddr>>,
    address_turn: Cell<usize>,
    is_filling: Cell<bool>,
    opened_total: Cell<u64>,
    reused_total: Cell<u64>,
}

impl EngineState {
    /// Engine `id` of `settings`, unmeasured.
    pub fn new(id: EngineId, settings: Arc<Settings>) -> Self {
        let hedge = &settings.hedge;
        let latency = || RefCell::new(Latency::new(hedge.window, SLICES));
        let idle_max = settings.engines[id.index()].connections_per_core.max(1) * 4;
        Self {
            id,
            pool: RefCell::new(Pool::new(idle_max, IDLE_FOR)),
            latency: latency(),
            latency_by_class: Class::ALL.iter().map(|_| latency()).collect(),
            late_after: std::array::from_fn(|_| Cell::new((Instant::ZERO, Duration::ZERO))),
            score: RefCell::new(Score::new(settings.router.half_life)),
            breaker: RefCell::new(Breaker::new(settings.breaker)),
            echo: RefCell::new(Echo::default()),
            in_flight: Cell::new(0),
            in_flight_elsewhere: Cell::new(0),
            rests_until: Cell::new(Instant::ZERO),
            is_rest_untold: Cell::new(false),
            addresses: RefCell::new(Vec::new()),
            address_turn: Cell::new(0),
            is_filling: Cell::new(false),
            opened_total: Cell::new(0),
            reused_total: Cell::new(0),
            settings,
        }
    }

    /// Which engine this is.
    pub fn id(&self) -> EngineId {
        self.id
    }

    /// Its configuration.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings.engines[self.id.index()]
    }

    /// Whether it serves `plan` at all.
    pub fn serves(&self, plan: &Plan) -> bool {
        let is_wanted = plan.engines.as_ref().is_none_or(|wanted| wanted.contains(&self.id));
        is_wanted && self.settings().endpoints[plan.endpoint.index()]
    }

    /// Whether a request may be sent now; `draw` in 0..1 decides who probes a half-open breaker.
    pub fn admit(&self, now: Instant, draw: f64) -> Admission {
        let rests_until = self.rests_until.get();
        if rests_until > now {
            return Admission::Refused { retry_at: rests_until };
        }
        if self.settings().in_flight_max.is_some_and(|most| self.load() >= most) {
            return Admission::Refused { retry_at: now + Duration::from_secs(1) };
        }
        self.breaker.borrow_mut().admit(now, draw)
    }

    /// Where its breaker stands.
    pub fn breaker_state(&self, now: Instant) -> State {
        self.breaker.borrow().state(now)
    }

    /// Calls in flight over the cores of this instance, as last heard.
    pub fn load(&self) -> u32 {
        self.in_flight.get() + self.in_flight_elsewhere.get()
    }

    /// Calls in flight of this core.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// What the other cores have in flight.
    pub fn hear_in_flight(&self, elsewhere: u32) {
        self.in_flight_elsewhere.set(elsewhere);
    }

    /// What a call is expected to cost, in milliseconds, load included.
    pub fn cost_ms(&self, now: Instant) -> Option<f64> {
        self.score.borrow().cost(now, self.load())
    }

    /// The delay after which a call of `class` counts as late, as `compute` makes it of the number
    /// of samples and their quantiles: its own class's where they suffice, else the engine's.
    /// Computed anew every `hedge.refresh_s`.
    pub fn late_after(
        &self,
        class: Class,
        now: Instant,
        compute: impl FnOnce(u64, &dyn Fn(f64) -> Option<Duration>) -> Duration,
    ) -> Duration {
        let kept = &self.late_after[class.index()];
        let (made_at, delay) = kept.get();
        if made_at != Instant::ZERO && now.since(made_at) < self.settings.hedge.refresh {
            return delay;
        }
        let of_class = self.latency_by_class[class.index()].borrow();
        let of_engine = self.latency.borrow();
        let is_enough = of_class.count(now) >= self.settings.hedge.samples_min;
        let seen = if is_enough { &of_class } else { &of_engine };
        let delay = compute(seen.count(now), &|q| seen.quantile(now, q));
        kept.set((now, delay));
        delay
    }

    /// Keeps for display that a call of `class` counts as late after `delay`, and gives it back.
    pub fn note_late_after(&self, class: Class, now: Instant, delay: Duration) -> Duration {
        self.late_after[class.index()].set((now, delay));
        delay
    }

    /// Counts a call in; the guard counts it out.
    pub fn enter(self: &std::rc::Rc<Self>) -> InFlight {
        self.in_flight.set(self.in_flight.get() + 1);
        InFlight(self.clone())
    }

    /// The one place where a verdict becomes statistics. A leg that had less than half of the usual
    /// time and did not make it says nothing about the engine.
    pub fn learn(&self, observed: &Observed, now: Instant) {
        let is_valid = observed.verdict.is_valid();
        let sample = if is_valid { Sample::Exact } else { Sample::Censored };
        let was_given_time = observed.given * 2 >= self.settings.deadline.total;
        let is_evidence = match observed.verdict {
            Verdict::Timeout => was_given_time,
            verdict => verdict.is_evidence(),
        };
        let lost_or_late = matches!(observed.verdict, Verdict::Cancelled | Verdict::Timeout);
        if is_valid || lost_or_late {
            self.latency.borrow_mut().record(now, observed.took, sample);
            let of_class = &self.latency_by_class[observed.class.index()];
            of_class.borrow_mut().record(now, observed.took, sample);
        }
        if is_evidence {
            let (latency, was_old) = (observed.took, observed.was_old);
            self.score.borrow_mut().observe(now, Answered { latency, is_valid, was_old });
        }
        let outcome = match (is_evidence, is_valid) {
            (false, _) => Outcome::Neutral,
            (true, true) => Outcome::Valid,
            (true, false) => Outcome::Invalid,
        };
        if let Some(generation) = observed.generation {
            self.breaker.borrow_mut().observe(now, generation, outcome);
        }
        if let Some(rest) = observed.retry_after {
            self.hear_rest(now + rest.min(REST_MAX));
            self.is_rest_untold.set(true);
        }
    }

    /// A call is still running after `shards::score::OLD_AFTER`: that counts before its end.
    pub fn learn_old(&self, now: Instant) {
        self.score.borrow_mut().observe_old(now);
    }

    /// It asked to be left alone until then.
    pub fn hear_rest(&self, until: Instant) {
        self.rests_until.set(self.rests_until.get().max(until));
    }

    /// Until when it asked to be left alone, if other cores are still to be told.
    pub fn take_rest(&self) -> Option<Instant> {
        self.is_rest_untold.replace(false).then(|| self.rests_until.get())
    }

    /// A core could not be told: the next evidence carries it.
    pub fn tell_rest_again(&self) {
        self.is_rest_untold.set(true);
    }

    /// The addresses to connect to, as last resolved.
    pub fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.addresses.borrow_mut() = addresses;
    }

    /// The next address, in turn.
    pub fn address(&self) -> Option<SocketAddr> {
        let addresses = self.addresses.borrow();
        let turn = self.address_turn.get();
        self.address_turn.set(turn.wrapping_add(1));
        addresses.get(turn.checked_rem(addresses.len())?).copied()
    }

    /// A connection was opened.
    pub fn opened(&self) {
        self.opened_total.set(self.opened_total.get() + 1);
    }

    /// A call goes out on a connection that was open already.
    pub fn reused(&self) {
        self.reused_total.set(self.reused_total.get() + 1);
    }

    /// The permit to fill the pool: one at a time, given back when dropped.
    pub fn begin_filling(self: &std::rc::Rc<Self>) -> Option<Filling> {
        (!self.is_filling.replace(true)).then(|| Filling(self.clone()))
    }

    /// Where it stands, for status and metrics.
    pub fn gauges(&self, now: Instant) -> EngineGauges {
        let score = self.score.borrow();
        EngineGauges {
            breaker: self.breaker_state(now),
            ewma: score.pace(now),
            valid_ratio: score.valid_ratio(now),
            in_flight: self.in_flight.get(),
            idle: self.pool.borrow().idle(),
            rests_for: self.rests_until.get().since(now),
            late_after: std::array::from_fn(|class| self.late_after[class].get().1),
            opened_total: self.opened_total.get(),
            reused_total: self.reused_total.get(),
        }
    }
}

/// One leg's end, for the statistics.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// What came of it.
    pub verdict: Verdict,
    /// From its start to its verdict.
    pub took: Duration,
    /// From its start to its deadline.
    pub given: Duration,
    /// Whether `learn_old` was told of it.
    pub was_old: bool,
    /// The class of its question.
    pub class: Class,
    /// The breaker's generation when it was admitted.
    pub generation: Option<Generation>,
    /// How long the engine asked to be left alone.
    pub retry_after: Option<Duration>,
}

/// The permit to fill an engine's pool.
pub struct Filling(std::rc::Rc<EngineState>);

impl Drop for Filling {
    fn drop(&mut self) {
        self.0.is_filling.set(false);
    }
}

/// One call in flight.
pub struct InFlight(std::rc::Rc<EngineState>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// The seconds for which it is not asked that asked for `asked_s`.
    fn check(asked_s: u64, expected_s: u64) {
        let text = "[[engine]]\nname = \"a\"\nadapter = \"searxng\"\nurl = \"http://127.0.0.1:1\"";
        let settings = config::parse(text, "t", &|_| None).unwrap();
        let engine = EngineState::new(EngineId(0), Arc::new(settings));
        let now = Instant::from_nanos(1);
        let observed = Observed {
            verdict: Verdict::Throttled,
            took: Duration::from_millis(5),
            given: Duration::from_millis(500),
            was_old: false,
            class: Class::Evergreen,
            generation: None,
            retry_after: Some(Duration::from_secs(asked_s)),
        };
        engine.learn(&observed, now);
        let until = now + Duration::from_secs(expected_s);
        let is_refused = |at| matches!(engine.admit(at, 1.0), Admission::Refused { .. });
        assert!(
            is_refused(now + Duration::from_secs(expected_s - 1)) && !is_refused(until),
            "{asked_s}"
        );
        assert_eq!(engine.take_rest(), Some(until), "what other cores are told");
    }

    #[test]
    fn an_engine_rests_for_as_long_as_it_says_a_day_at_most() {
        check(2, 2);
        check(3_600, 3_600);
        check(86_400, 86_400);
        check(1_000_000, 86_400);
    }
}
