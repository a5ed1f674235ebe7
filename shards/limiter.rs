//! How many requests one core holds at once, adapted every interval to *our own* queueing.
//!
//! `next = limit * clamp(baseline / sample, 0.5, 1) + sqrt(limit)`, within its bounds. Both
//! quantities are the median of our own time: stage time and reactor lateness, never an engine's.
//! (Comparing the least latency seen with the 90th percentile of all latency, natural variance
//! alone holds the gradient below 0.5, and the limit settles at 4. The median, because a core that
//! is saturated delays every request, while one that its machine takes away for some milliseconds
//! delays a few.) `sample` is that of the interval, `baseline` its slow past while uncongested,
//! between 10 ms (a third of the 30 ms that own code may take of a request) and 20 ms (more is
//! congestion, whatever the past was).
//!
//! The limit grows only when arrivals find half of it in use, so fast failures, which leave at
//! once, do not raise it. Batch has a limit of its own, at most the interactive one, and yields
//! while the interactive lane is busy. Nothing queues here: no room is an answer.

use crate::Lane;
use crate::buckets::{BucketIndex, Counts};
use runtime::Instant;
use std::time::Duration;

/// The quantile of own time that is compared.
const QUANTILE: f64 = 0.5;
/// The least baseline: shorter waits are the machine's, not congestion.
const BASELINE_MIN: Duration = Duration::from_millis(10);
/// The greatest: own code has about 30 ms of a request.
const BASELINE_MAX: Duration = Duration::from_millis(20);
/// How slowly the baseline follows.
const BASELINE_MEMORY: Duration = Duration::from_secs(60);
/// Samples without which an interval says nothing; they are kept for the next one.
const SAMPLES_MIN: u64 = 10;
/// How many intervals samples are kept for when there are too few.
const INTERVALS_KEPT: u32 = 4;

/// A limiter's bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How often the limit changes.
    pub interval: Duration,
    /// The least limit; 0 counts as 1.
    pub limit_min: u32,
    /// The limit to begin with.
    pub limit_initial: u32,
    /// The greatest limit.
    pub limit_max: u32,
    /// The greatest limit of the batch lane.
    pub batch_limit_max: u32,
    /// The share of the limit (0..=1) above which interactive requests shut batch out.
    pub batch_yields_above_ratio: f64,
}

/// Admission of one core.
#[derive(Clone, Debug)]
pub struct Limiter {
    settings: Settings,
    limit: f64,
    baseline: Duration,
    own: Counts,
    intervals_kept: u32,
    due: Instant,
    interactive: Occupancy,
    batch: Occupancy,
}

/// Requests of one lane that are in, and how many the arrivals of this interval found in.
#[derive(Clone, Copy, Debug, Default)]
struct Occupancy {
    in_flight: u32,
    found_sum: u64,
    arrivals: u64,
}

impl Limiter {
    /// Nothing in flight, and the initial limit.
    pub fn new(settings: Settings) -> Self {
        let limit_min = settings.limit_min.max(1);
        let settings =
            Settings { limit_min, limit_max: settings.limit_max.max(limit_min), ..settings };
        Self {
            limit: f64::from(settings.limit_initial.clamp(limit_min, settings.limit_max)),
            settings,
            baseline: BASELINE_MIN,
            own: Counts::new(),
            intervals_kept: 0,
            due: Instant::ZERO,
            interactive: Occupancy::default(),
            batch: Occupancy::default(),
        }
    }

    /// Whether there is room; if so the request is in, until `leave`.
    #[must_use]
    pub fn enter(&mut self, lane: Lane) -> bool {
        let has_room = match lane {
            Lane::Interactive => self.interactive.in_flight < self.limit(),
            Lane::Batch => self.batch.in_flight < self.batch_limit() && !self.batch_yields(),
        };
        self.occupancy(lane).arrive(has_room);
        self.check_in_debug();
        has_room
    }

    /// A request that was let in is done, however it ended.
    pub fn leave(&mut self, lane: Lane) {
        let occupancy = self.occupancy(lane);
        debug_assert!(occupancy.in_flight > 0);
        occupancy.in_flight = occupancy.in_flight.saturating_sub(1);
    }

    /// Counts time that something waited or worked on this core: a request's own stages, or by how
    /// much the reactor woke a timer too late. Never an engine's time.
    pub fn observe_own(&mut self, _now: Instant, own: Duration) {
        self.own.add(BucketIndex::of(own), 1);
    }

    /// Recomputes the limit, once an interval has passed since the last time; else does nothing.
    pub fn tick(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + self.settings.interval;
        let is_used = self.is_used();
        self.interactive.begin_interval();
        self.batch.begin_interval();
        let Some(sample) = self.take_sample() else {
            return;
        };
        self.follow(sample, is_used);
        let gradient = (self.baseline.as_secs_f64() / sample.as_secs_f64()).clamp(0.5, 1.0);
        let next = self.limit * gradient + self.limit.sqrt();
        let ceiling = if is_used { f64::from(self.settings.limit_max) } else { self.limit };
        self.limit = next.min(ceiling).max(f64::from(self.settings.limit_min));
        self.check_in_debug();
    }

    /// Requests the interactive lane holds at most.
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Requests the batch lane holds at most, while it does not yield.
    pub fn batch_limit(&self) -> u32 {
        self.limit().min(self.settings.batch_limit_max)
    }

    /// Requests of that lane that are in.
    pub fn in_flight(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Interactive => self.interactive.in_flight,
            Lane::Batch => self.batch.in_flight,
        }
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        let bounds = self.settings.limit_min..=self.settings.limit_max;
        assert!(bounds.contains(&self.limit()), "{} of {bounds:?}", self.limit);
        assert!((BASELINE_MIN..=BASELINE_MAX).contains(&self.baseline));
        assert!(self.interactive.in_flight <= self.settings.limit_max);
        assert!(self.batch.in_flight <= self.settings.batch_limit_max);
    }

    fn batch_yields(&self) -> bool {
        let threshold = self.settings.batch_yields_above_ratio * self.limit;
        f64::from(self.interactive.in_flight) > threshold
    }

    /// Whether more room would be of use: arrivals found half of it taken.
    fn is_used(&self) -> bool {
        // Batch asks for a higher limit only as far as it is allowed to profit from it.
        let batch_is_held = self.limit() < self.settings.batch_limit_max;
        self.interactive.found() >= self.limit / 2.0
            || (batch_is_held && self.batch.found() >= self.limit / 2.0)
    }

    /// The interval's own time; none if too little was seen.
    fn take_sample(&mut self) -> Option<Duration> {
        let is_enough = self.own.total() >= SAMPLES_MIN;
        let sample = if is_enough { self.own.quantile(QUANTILE) } else { None };
        self.intervals_kept += 1;
        if sample.is_some() || self.intervals_kept >= INTERVALS_KEPT {
            self.own.clear();
            self.intervals_kept = 0;
        }
        sample
    }

    /// Moves the baseline: upwards only while the core is not in use, or load would teach it to
    /// take its own queue for normal.
    fn follow(&mut self, sample: Duration, is_used: bool) {
        let sample = sample.clamp(BASELINE_MIN, BASELINE_MAX);
        if is_used && sample > self.baseline {
            return;
        }
        let share = self.settings.interval.as_secs_f64() / BASELINE_MEMORY.as_secs_f64();
        let share = share.clamp(0.0, 1.0);
        self.baseline = (self.baseline.mul_f64(1.0 - share) + sample.mul_f64(share))
            .clamp(BASELINE_MIN, BASELINE_MAX);
    }

    fn occupancy(&mut self, lane: Lane) -> &mut Occupancy {
        match lane {
            Lane::Interactive => &mut self.interactive,
            Lane::Batch => &mut self.batch,
        }
    }

    fn check_in_debug(&self) {
        if cfg!(debug_assertions) {
            self.check();
        }
    }
}

impl Occupancy {
    fn arrive(&mut self, has_room: bool) {
        self.found_sum += u64::from(self.in_flight);
        self.arrivals += 1;
        self.in_flight += u32::from(has_room);
    }

    /// How many an arrival of this interval found in, on average; 0 without arrivals.
    fn found(&self) -> f64 {
        if self.arrivals == 0 { 0.0 } else { self.found_sum as f64 / self.arrivals as f64 }
    }

    fn begin_interval(&mut self) {
        self.found_sum = 0;
        self.arrivals = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use std::collections::BTreeSet;

    const SETTINGS: Settings = Settings {
        interval: Duration::from_millis(250),
        limit_min: 16,
        limit_initial: 64,
        limit_max: 4_096,
        batch_limit_max: 64,
        batch_yields_above_ratio: 0.8,
    };

    /// A core under steady load, in steps of 1 ms.
    struct Core {
        limiter: Limiter,
        chance: Chance,
        now_ms: u64,
        /// When each request in flight leaves, in microseconds, made unique by a serial number.
        leaving: BTreeSet<(u64, u64)>,
        serial: u64,
        shed: u64,
    }

    /// What arrives, how long it stays, and what it costs us.
    #[derive(Clone, Copy)]
    struct Load {
        per_ms: f64,
        engine_median: Duration,
        sigma: f64,
        own: Duration,
    }

    /// Half a thousand in flight: median 248 ms, 90th percentile 612 ms, 99.9th 2.2 s.
    const HEAVY_TAIL: Load = Load {
        per_ms: 1.5,
        engine_median: Duration::from_millis(248),
        sigma: 0.7048,
        own: Duration::from_micros(400),
    };

    impl Core {
        fn new() -> Self {
            Self {
                limiter: Limiter::new(SETTINGS),
                chance: Chance::new(3),
                now_ms: 1_000,
                leaving: BTreeSet::new(),
                serial: 0,
                shed: 0,
            }
        }

        fn now(&self) -> Instant {
            Instant::ZERO + Duration::from_millis(self.now_ms)
        }

        fn run(&mut self, span_ms: u64, load: Load) {
            for _ in 0..span_ms {
                self.now_ms += 1;
                while self.leaving.first().is_some_and(|(at_us, _)| *at_us <= self.now_ms * 1_000) {
                    self.leaving.pop_first();
                    self.limiter.leave(Lane::Interactive);
                    let own = load.own.mul_f64(0.5 + self.chance.ratio());
                    self.limiter.observe_own(self.now(), own);
                }
                self.limiter.tick(self.now());
                // As many as a Poisson process brings in 1 ms.
                let mut gap = -self.chance.ratio().ln();
                while gap < load.per_ms {
                    self.arrive(load);
                    gap -= self.chance.ratio().ln();
                }
            }
        }

        fn arrive(&mut self, load: Load) {
            if !self.limiter.enter(Lane::Interactive) {
                self.shed += 1;
                return;
            }
            let stay = self.chance.log_normal(load.engine_median, load.sigma);
            self.serial += 1;
            self.leaving.insert((self.now_ms * 1_000 + stay.as_micros() as u64, self.serial));
        }
    }

    #[test]
    fn heavy_tailed_engines_never_shrink_it_nor_shed_one() {
        let mut core = Core::new();
        core.run(30_000, HEAVY_TAIL);
        let (warm, shed) = (core.limiter.limit(), core.shed);
        assert!(warm > 800, "{warm}");
        for _ in 0..120 {
            let before = core.limiter.limit();
            core.run(1_000, HEAVY_TAIL);
            assert!(core.limiter.limit() >= before);
        }
        assert_eq!(core.shed, shed);
        assert!(core.limiter.in_flight(Lane::Interactive) > 300);
    }

    #[test]
    fn own_queueing_of_50_ms_shrinks_it_within_a_second() {
        let mut core = Core::new();
        core.run(30_000, HEAVY_TAIL);
        let (before, shed) = (core.limiter.limit(), core.shed);
        core.run(1_000, Load { own: Duration::from_millis(50), ..HEAVY_TAIL });
        assert!(core.limiter.limit() < before / 4, "{before} to {}", core.limiter.limit());
        assert!(core.shed > shed);
        core.run(5_000, Load { own: Duration::from_millis(50), ..HEAVY_TAIL });
        assert_eq!(core.limiter.limit(), SETTINGS.limit_min);
        // And it comes back by itself once the queue is gone.
        core.run(30_000, HEAVY_TAIL);
        assert!(core.limiter.limit() > 500, "{}", core.limiter.limit());
    }

    #[test]
    fn fast_failures_do_not_raise_it() {
        let mut core = Core::new();
        let failing = Load {
            per_ms: 20.0,
            engine_median: Duration::from_millis(1),
            sigma: 0.1,
            own: Duration::from_micros(100),
        };
        core.run(20_000, failing);
        assert_eq!(core.limiter.limit(), SETTINGS.limit_initial);
        assert_eq!(core.limiter.baseline, BASELINE_MIN);
        // Nor does their own time make ordinary requests look slow afterwards.
        core.run(30_000, HEAVY_TAIL);
        assert!(core.limiter.limit() > 800, "{}", core.limiter.limit());
    }

    #[test]
    fn without_use_it_does_not_grow_and_without_traffic_it_does_not_freeze() {
        let mut core = Core::new();
        let light = Load { per_ms: 0.05, ..HEAVY_TAIL };
        core.run(20_000, light);
        assert_eq!(core.limiter.limit(), SETTINGS.limit_initial);
        core.run(20_000, Load { per_ms: 0.0, ..HEAVY_TAIL });
        assert_eq!(core.limiter.limit(), SETTINGS.limit_initial);
        core.run(30_000, HEAVY_TAIL);
        assert!(core.limiter.limit() > 800, "{}", core.limiter.limit());
    }

    #[test]
    fn a_slow_rise_under_full_load_is_not_learnt_as_normal() {
        let mut core = Core::new();
        core.run(30_000, HEAVY_TAIL);
        let mut own = Duration::from_millis(1);
        for _ in 0..400 {
            own = own.mul_f64(1.01);
            core.run(1_000, Load { own, per_ms: 8.0, ..HEAVY_TAIL });
        }
        assert!(core.limiter.limit() <= 32, "{} at {own:?}", core.limiter.limit());
        assert!(core.limiter.baseline < BASELINE_MIN * 2, "{:?}", core.limiter.baseline);
    }

    #[test]
    fn a_hiccup_with_few_samples_changes_nothing() {
        let mut core = Core::new();
        for _ in 0..40 {
            core.limiter.observe_own(core.now(), Duration::from_millis(80));
            core.now_ms += 250;
            core.limiter.tick(core.now());
        }
        assert_eq!(core.limiter.limit(), SETTINGS.limit_initial);
    }

    /// Batch requests that find room when this many interactive ones are in.
    fn check_batch(settings: Settings, interactive: u32, expected: u32) {
        let mut limiter = Limiter::new(settings);
        assert!((0..interactive).all(|_| limiter.enter(Lane::Interactive)));
        let let_in = (0..200).filter(|_| limiter.enter(Lane::Batch)).count();
        assert_eq!(let_in, expected as usize, "beside {interactive}");
        assert_eq!(limiter.in_flight(Lane::Batch), expected);
        (0..expected).for_each(|_| limiter.leave(Lane::Batch));
        limiter.check();
    }

    #[test]
    fn batch_has_its_own_limit_and_yields() {
        check_batch(SETTINGS, 0, 64);
        check_batch(Settings { batch_limit_max: 10, ..SETTINGS }, 0, 10);
        check_batch(SETTINGS, 51, 64);
        check_batch(SETTINGS, 52, 0);
        check_batch(Settings { limit_initial: 20, ..SETTINGS }, 0, 20);
    }

    #[test]
    fn interactive_never_waits_for_batch() {
        let mut limiter = Limiter::new(SETTINGS);
        assert_eq!((0..200).filter(|_| limiter.enter(Lane::Batch)).count(), 64);
        assert_eq!((0..200).filter(|_| limiter.enter(Lane::Interactive)).count(), 64);
    }

    #[test]
    fn the_limit_stays_within_its_bounds() {
        let narrow = Settings { limit_min: 0, limit_max: 0, ..SETTINGS };
        assert_eq!(Limiter::new(narrow).limit(), 1);
        let mut core = Core::new();
        core.run(200_000, Load { per_ms: 12.0, ..HEAVY_TAIL });
        assert_eq!(core.limiter.limit(), SETTINGS.limit_max);
    }
}
