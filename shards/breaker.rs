//! Whether an engine is asked at all: a breaker that trips on the share of *valid* answers, so that
//! an engine which is up but empty, blocked or malformed is caught.
//!
//! It opens when the valid rate of the window is below `valid_ratio_min` with `samples_min` answers
//! in it. An engine asked once in three seconds never gets there, so a thin window widens, slice by
//! slice, to the last `samples_min` answers within twelve windows; and a run of
//! `consecutive_invalid_max` invalid answers opens it alone. Evidence is pooled over cores
//! (`take_delta`, `merge_delta`), counts and not states.
//!
//! After `half_open_after` it lets a share of `probe_ratio` through, and where that is too few, one
//! call after `PROBE_FIRST` and then `PROBE_EVERY`: at a call a second, 5 % would take minutes. A
//! probe is a lease: settled by its outcome, or else expired, so that no lost probe wedges the
//! breaker. Three valid probes in a row close it, an invalid one opens it again. Every admission
//! carries a generation, and an outcome of another era, or of an expired lease, is ignored: a slow
//! answer from before the trip decides nothing. Cancelled calls are no evidence and dilute nothing.

use runtime::Instant;
use std::time::Duration;

/// Valid probes in a row that close a half-open breaker.
const PROBES_TO_CLOSE: u32 = 3;
/// Probes out at once, per core: bounds a burst at the moment of half-opening.
const PROBES_MAX: usize = 4;
/// How long after a probe a half-open core sends the next one at the latest, if there is a call.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How long after half-opening it sends the first one at the latest: longer, because an engine
/// that is still ill fails it, and is then probed once in this time.
const PROBE_FIRST: Duration = Duration::from_secs(25);
/// The least share of traffic that probes; less would never close again.
const PROBE_RATIO_MIN: f64 = 0.01;
/// Slices of one window.
const WINDOW_SLICES: u64 = 10;
/// How many windows a thin one may widen to.
const AGE_WINDOWS: u64 = 12;
const SLICES: u64 = WINDOW_SLICES * AGE_WINDOWS;

/// When a breaker opens and how it closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The window of the valid rate.
    pub window: Duration,
    /// Answers without which the rate decides nothing; 0 counts as 1.
    pub samples_min: u32,
    /// The valid rate (0..=1) below which it opens.
    pub valid_ratio_min: f64,
    /// Invalid answers in a row that open it; 0 counts as 1.
    pub consecutive_invalid_max: u32,
    /// From opening until probes are let through.
    pub half_open_after: Duration,
    /// The share of traffic (0.01..=1) that probes while half-open.
    pub probe_ratio: f64,
    /// How long a probe may be out before another takes its place: the longest call and a margin.
    pub probe_lease: Duration,
}

/// What an admission was made under; goes back with its outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation {
    era: u64,
    /// Number of the probe within its era; 0 for a call through a closed breaker.
    lease: u64,
}

/// Whether a call may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Yes, as an ordinary call.
    Closed(Generation),
    /// Yes, as a probe: it holds a lease until its outcome is observed or it expires.
    Probe(Generation),
    /// No.
    Refused {
        /// When it is worth asking again.
        retry_at: Instant,
    },
}

/// How a call ended, from its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With a valid answer.
    Valid,
    /// Without one, and that was the engine's doing.
    Invalid,
    /// Cancelled, or ended by something else: no evidence, but a probe's lease is free again.
    Neutral,
}

/// Where the breaker stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Every call goes through.
    Closed,
    /// None does.
    Open {
        /// When probes will be let through.
        until: Instant,
    },
    /// Probes go through.
    HalfOpen,
}

/// Answers counted here and not yet told to the other cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Valid answers.
    pub valid: u32,
    /// Invalid answers.
    pub invalid: u32,
}

/// One engine's breaker on one core; 2.2 KiB.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: Settings,
    /// Counts the changes of phase.
    era: u64,
    phase: Phase,
    history: History,
    /// Invalid answers since the last valid one.
    invalid_run: u32,
    pending: Tally,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen { leases: Leases, valid_run: u32 },
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: Settings) -> Self {
        let settings = Settings {
            samples_min: settings.samples_min.max(1),
            consecutive_invalid_max: settings.consecutive_invalid_max.max(1),
            probe_ratio: settings.probe_ratio.max(PROBE_RATIO_MIN),
            ..settings
        };
        Self {
            settings,
            era: 0,
            phase: Phase::Closed,
            history: History::new(settings.window),
            invalid_run: 0,
            pending: Tally::default(),
        }
    }

    /// Whether a call may be made now. `draw` is uniform in 0..1 and decides who probes; a draw of
    /// 1 never does.
    pub fn admit(&mut self, now: Instant, draw: f64) -> Admission {
        self.half_open_when_due(now);
        let era = self.era;
        let admission = match &mut self.phase {
            Phase::Closed => Admission::Closed(Generation { era, lease: 0 }),
            Phase::Open { until } => Admission::Refused { retry_at: *until },
            Phase::HalfOpen { leases, .. } => {
                let until = now + self.settings.probe_lease;
                let is_overdue = draw < 1.0 && leases.due_at <= now;
                let is_chosen = is_overdue || draw < self.settings.probe_ratio;
                match is_chosen.then(|| leases.grant(now, until)).flatten() {
                    Some(lease) => Admission::Probe(Generation { era, lease }),
                    None => Admission::Refused { retry_at: leases.free_at(now).min(until) },
                }
            }
        };
        self.check_in_debug();
        admission
    }

    /// Whether `admit` could let a call through now; changes nothing.
    pub fn is_eligible(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Closed => true,
            Phase::Open { until } => *until <= now,
            Phase::HalfOpen { leases, .. } => leases.has_room(now),
        }
    }

    /// Counts how the call admitted under `generation` ended, unless that is no longer of interest.
    pub fn observe(&mut self, now: Instant, generation: Generation, outcome: Outcome) {
        self.half_open_when_due(now);
        if generation.era != self.era {
            return;
        }
        if let Phase::HalfOpen { leases, .. } = &mut self.phase
            && !leases.settle(now, generation.lease)
        {
            return;
        }
        let tally = match outcome {
            Outcome::Valid => Tally { valid: 1, invalid: 0 },
            Outcome::Invalid => Tally { valid: 0, invalid: 1 },
            Outcome::Neutral => return,
        };
        self.pending.add(tally);
        self.weigh(now, tally);
    }

    /// Where the breaker stands.
    pub fn state(&self, now: Instant) -> State {
        match &self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { until } if *until > now => State::Open { until: *until },
            Phase::Open { .. } | Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// The answers counted on this core since the last delta; none when there were none.
    pub fn take_delta(&mut self) -> Option<Tally> {
        let delta = std::mem::take(&mut self.pending);
        (delta != Tally::default()).then_some(delta)
    }

    /// Weighs answers that another core counted: in a half-open breaker as probes of its own, in an
    /// open one not at all. They are not passed on by `take_delta`.
    pub fn merge_delta(&mut self, now: Instant, delta: Tally) {
        self.half_open_when_due(now);
        if delta != Tally::default() {
            self.weigh(now, delta);
        }
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        self.history.check();
        match &self.phase {
            Phase::Closed => assert!(self.invalid_run < self.settings.consecutive_invalid_max),
            Phase::Open { .. } => {}
            Phase::HalfOpen { leases, valid_run } => {
                assert!(*valid_run < PROBES_TO_CLOSE);
                leases.check();
            }
        }
    }

    fn weigh(&mut self, now: Instant, tally: Tally) {
        match &mut self.phase {
            Phase::Closed => {
                self.history.add(now, tally);
                self.invalid_run = match tally.valid {
                    0 => self.invalid_run.saturating_add(tally.invalid),
                    _ => 0,
                };
                if tally.invalid > 0 && self.is_sick(now) {
                    self.open(now);
                }
            }
            Phase::Open { .. } => {}
            Phase::HalfOpen { .. } if tally.invalid > 0 => self.open(now),
            Phase::HalfOpen { valid_run, .. } => {
                *valid_run = valid_run.saturating_add(tally.valid);
                if *valid_run >= PROBES_TO_CLOSE {
                    self.close();
                }
            }
        }
        self.check_in_debug();
    }

    fn is_sick(&self, now: Instant) -> bool {
        if self.invalid_run >= self.settings.consecutive_invalid_max {
            return true;
        }
        let (valid, all) = self.history.evidence(now, u64::from(self.settings.samples_min));
        let has_evidence = all >= u64::from(self.settings.samples_min);
        has_evidence && (valid as f64) < self.settings.valid_ratio_min * all as f64
    }

    fn open(&mut self, now: Instant) {
        self.era += 1;
        self.phase = Phase::Open { until: now + self.settings.half_open_after };
    }

    fn half_open_when_due(&mut self, now: Instant) {
        if let Phase::Open { until } = self.phase
            && until <= now
        {
            self.era += 1;
            self.phase = Phase::HalfOpen { leases: Leases::new(now), valid_run: 0 };
        }
    }

    /// Starts over: what was seen before the trip opens nothing again.
    fn close(&mut self) {
        self.era += 1;
        self.phase = Phase::Closed;
        self.history.clear();
        self.invalid_run = 0;
    }

    fn check_in_debug(&self) {
        if cfg!(debug_assertions) {
            self.check();
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.valid = self.valid.saturating_add(other.valid);
        self.invalid = self.invalid.saturating_add(other.invalid);
    }
}

/// The probes that are out, at most `PROBES_MAX`.
#[derive(Clone, Debug)]
struct Leases {
    granted: u64,
    /// From when on the next is granted whatever the draw.
    due_at: Instant,
    out: [Option<Probe>; PROBES_MAX],
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    lease: u64,
    until: Instant,
}

impl Leases {
    fn new(now: Instant) -> Self {
        Self { granted: 0, due_at: now + PROBE_FIRST, out: Default::default() }
    }

    /// The new lease's number, from 1; none if all are out.
    fn grant(&mut self, now: Instant, until: Instant) -> Option<u64> {
        let slot = self.out.iter_mut().find(|slot| !is_out(slot, now))?;
        self.granted += 1;
        self.due_at = now + PROBE_EVERY;
        *slot = Some(Probe { lease: self.granted, until });
        Some(self.granted)
    }

    /// Whether the lease was still out; it no longer is.
    fn settle(&mut self, now: Instant, lease: u64) -> bool {
        let mut slots = self.out.iter_mut();
        let found = slots.find(|slot| is_out(slot, now) && slot.is_some_and(|p| p.lease == lease));
        found.is_some_and(|slot| slot.take().is_some())
    }

    fn has_room(&self, now: Instant) -> bool {
        self.out.iter().any(|slot| !is_out(slot, now))
    }

    /// When the first lease ends; far away if none is out.
    fn free_at(&self, now: Instant) -> Instant {
        let out = self.out.iter().filter(|slot| is_out(slot, now)).flatten();
        out.map(|probe| probe.until).min().unwrap_or(Instant::from_nanos(u64::MAX))
    }

    fn check(&self) {
        let numbers = self.out.iter().flatten().map(|probe| probe.lease);
        assert!(numbers.clone().all(|lease| (1..=self.granted).contains(&lease)));
        assert!(numbers.clone().all(|lease| numbers.clone().filter(|n| *n == lease).count() == 1));
    }
}

fn is_out(slot: &Option<Probe>, now: Instant) -> bool {
    slot.is_some_and(|probe| probe.until > now)
}

/// Answers by slice of time, over the longest span a window may widen to.
#[derive(Clone, Debug)]
struct History {
    slice_ns: u64,
    slices: Box<[Slice]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    tally: Tally,
}

impl History {
    fn new(window: Duration) -> Self {
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Self {
            slice_ns: (window_ns / WINDOW_SLICES).max(1),
            slices: vec![Slice::default(); SLICES as usize].into_boxed_slice(),
        }
    }

    fn add(&mut self, now: Instant, tally: Tally) {
        let number = now.as_nanos() / self.slice_ns;
        let Some(slice) = self.slices.get_mut((number % SLICES) as usize) else {
            return;
        };
        if slice.number < number {
            *slice = Slice { number, tally: Tally::default() };
        }
        if slice.number == number {
            slice.tally.add(tally);
        }
    }

    /// Valid answers and all answers: of the window, or of as many slices before it as it takes to
    /// have `samples_min`.
    fn evidence(&self, now: Instant, samples_min: u64) -> (u64, u64) {
        let newest = now.as_nanos() / self.slice_ns;
        let (mut valid, mut all) = (0, 0);
        for age in 0..SLICES.min(newest + 1) {
            if age >= WINDOW_SLICES && all >= samples_min {
                break;
            }
            let number = newest - age;
            let slice = self.slices.get((number % SLICES) as usize);
            if let Some(slice) = slice.filter(|slice| slice.number == number) {
                valid += u64::from(slice.tally.valid);
                all += u64::from(slice.tally.valid) + u64::from(slice.tally.invalid);
            }
        }
        (valid, all)
    }

    fn clear(&mut self) {
        self.slices.fill(Slice::default());
    }

    fn check(&self) {
        assert_eq!(self.slices.len() as u64, SLICES);
        for (place, slice) in self.slices.iter().enumerate() {
            assert!(slice.number == 0 || slice.number % SLICES == place as u64);
        }
    }
}

#[cfg(test)]
mod exploration;
#[cfg(test)]
mod tests;
