//! What an engine costs to ask, as one number to compare: its pace, how often its answers are
//! valid, and how busy it is.
//!
//! The pace is a geometric mean (latencies are heavy-tailed: one call of 3 s says little) that
//! remembers about twenty calls, so that an engine's slow episode of seconds shows while it lasts,
//! and that loses half of its weight every half-life: what is left to go by is the usual pace, over
//! the last two hundred calls. A call counts as old at `OLD_AFTER`, not when
//! it ends: many a slow call never ends, because it loses its race and is cancelled. Its end only
//! corrects what was counted. An invalid answer never makes an engine look fast: it counts as at
//! least the mean so far (a refused connection takes 0.1 ms, and a balancer that believes it sends
//! everything there). A structure of this kind must never be fed cancelled calls: their time is a
//! bound, not a sample. Evidence is pooled over cores (`take_delta`, `merge_delta`). Units: `cost`
//! is in milliseconds, weighted; only its order matters.

use runtime::Instant;
use std::time::Duration;

/// The age at which a call counts before its end.
pub const OLD_AFTER: Duration = Duration::from_millis(250);

/// What a call that became old is taken to need in the end, as a multiple of its age.
const OLD_FACTOR: f64 = 1.4;
/// What is left of a call's weight in the pace after the next call.
const PACE_KEPT: f64 = 0.95;
/// What the share of old calls adds to the logarithm of the cost: an engine all of whose calls are
/// old costs e^3 times its pace, so that a few old calls in a row turn traffic away.
const OLD_SHARE: f64 = 3.0;
/// What is left of a call in the usual pace after the next one: it remembers 200.
const USUAL_KEPT: f64 = 0.995;
/// How many calls the usual pace counts as beside the recent ones.
const USUAL_WEIGHT: f64 = 1.0;
/// The least valid ratio a cost is divided by: an engine that never answers validly costs twenty
/// times its latency and stays comparable.
const VALID_RATIO_MIN: f64 = 0.05;
/// What each call in flight adds, as a share of the pace.
const IN_FLIGHT_SHARE: f64 = 0.1;
/// With less evidence than this (one sample after six half-lives) there are no statistics.
const WEIGHT_MIN: f64 = 1.0 / 64.0;
/// What an invalid answer counts as, at least, where no mean exists.
const INVALID_LATENCY_MIN: Duration = Duration::from_millis(500);

/// Decayed means of latency and of valid answers.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    half_life: Duration,
    updated: Instant,
    /// Calls, decayed by time and by later calls; the sum of ln ms is over the same weights.
    pace_weight: f64,
    pace_sum: f64,
    /// The same over a long memory, which time alone does not fade: what the pace goes back to.
    usual_weight: f64,
    usual_sum: f64,
    /// Those of the recent calls that became old.
    old_sum: f64,
    /// Answers, decayed by time; the valid ones over the same weights.
    weight: f64,
    valid_sum: f64,
    /// What was observed here and not yet taken.
    pending: Delta,
}

/// What was observed since the last delta: a letter between cores.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Delta {
    answers: u32,
    valid: u32,
    /// Calls that count in the pace, and the sum of their ln ms.
    paces: u32,
    pace_sum: f64,
    /// Those of them that became old.
    old: u32,
    /// What the ends of old calls correct: a sum of differences of ln ms.
    correction: f64,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answered {
    /// How long it took.
    pub latency: Duration,
    /// Whether its answer was valid.
    pub is_valid: bool,
    /// Whether it was counted by `observe_old` before.
    pub was_old: bool,
}

impl Score {
    /// No statistics yet. A `half_life` of zero counts as 1 ns.
    pub fn new(half_life: Duration) -> Self {
        Self {
            half_life: half_life.max(Duration::from_nanos(1)),
            updated: Instant::ZERO,
            pace_weight: 0.0,
            pace_sum: 0.0,
            usual_weight: 0.0,
            usual_sum: 0.0,
            old_sum: 0.0,
            weight: 0.0,
            valid_sum: 0.0,
            pending: Delta::default(),
        }
    }

    /// Counts an answer.
    pub fn observe(&mut self, now: Instant, answered: Answered) {
        let latency = match (answered.is_valid, self.pace(now)) {
            (true, _) => answered.latency,
            (false, mean) => answered.latency.max(mean.unwrap_or(INVALID_LATENCY_MIN)),
        };
        let pace = ln_ms(latency);
        let mut seen =
            Delta { answers: 1, valid: u32::from(answered.is_valid), ..Delta::default() };
        if answered.was_old {
            seen.correction = pace - old_pace();
        } else {
            (seen.paces, seen.pace_sum) = (1, pace);
        }
        self.count(now, seen);
    }

    /// Counts a call that is still running `OLD_AFTER` after its start.
    pub fn observe_old(&mut self, now: Instant) {
        self.count(now, Delta { paces: 1, pace_sum: old_pace(), old: 1, ..Delta::default() });
    }

    /// What was observed here since the last delta; none when that is nothing.
    pub fn take_delta(&mut self) -> Option<Delta> {
        let delta = std::mem::take(&mut self.pending);
        (delta != Delta::default()).then_some(delta)
    }

    /// Counts what another core observed, as of `now`. It is not passed on by `take_delta`.
    pub fn merge_delta(&mut self, now: Instant, delta: Delta) {
        self.add(now, delta);
    }

    fn count(&mut self, now: Instant, seen: Delta) {
        self.pending.answers = self.pending.answers.saturating_add(seen.answers);
        self.pending.valid = self.pending.valid.saturating_add(seen.valid);
        self.pending.paces = self.pending.paces.saturating_add(seen.paces);
        self.pending.pace_sum += seen.pace_sum;
        self.pending.old = self.pending.old.saturating_add(seen.old);
        self.pending.correction += seen.correction;
        self.add(now, seen);
    }

    fn add(&mut self, now: Instant, delta: Delta) {
        let keep = self.decay(now);
        self.weight = self.weight * keep + f64::from(delta.answers);
        self.valid_sum = self.valid_sum * keep + f64::from(delta.valid);
        if delta.paces > 0 {
            // Of several calls told at once the order is not known: each has the mean weight.
            let paces = f64::from(delta.paces);
            let kept = keep * PACE_KEPT.powf(paces);
            let weight = (1.0 - PACE_KEPT.powf(paces)) / (1.0 - PACE_KEPT);
            self.pace_weight = self.pace_weight * kept + weight;
            self.pace_sum = self.pace_sum * kept + delta.pace_sum / paces * weight;
            self.old_sum = self.old_sum * kept + f64::from(delta.old) / paces * weight;
            let kept = USUAL_KEPT.powf(paces);
            self.usual_weight = self.usual_weight * kept + paces;
            self.usual_sum = self.usual_sum * kept + delta.pace_sum;
        } else {
            self.pace_weight *= keep;
            self.pace_sum *= keep;
            self.old_sum *= keep;
        }
        if self.pace_weight >= WEIGHT_MIN {
            self.pace_sum += delta.correction.clamp(-self.pace_weight, self.pace_weight);
            self.usual_sum += delta.correction;
        }
        self.updated = self.updated.max(now);
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// The geometric mean of latency; none without evidence.
    pub fn pace(&self, now: Instant) -> Option<Duration> {
        let keep = self.decay(now);
        let is_known = self.pace_weight * keep >= WEIGHT_MIN;
        let prior = if self.usual_weight > 0.0 { USUAL_WEIGHT } else { 0.0 };
        let usual = self.usual_sum / self.usual_weight.max(f64::MIN_POSITIVE);
        let sum = self.pace_sum * keep + usual * prior;
        let ln_ms = sum / (self.pace_weight * keep + prior);
        // The bounds of what was counted: a correction may overshoot them.
        let ln_ms = ln_ms.clamp(LN_MS_MIN, LN_MS_MAX);
        is_known.then(|| Duration::from_secs_f64(ln_ms.exp() / 1e3))
    }

    /// The share of answers that were valid; 1 without evidence.
    pub fn valid_ratio(&self, now: Instant) -> f64 {
        let is_known = self.weight * self.decay(now) >= WEIGHT_MIN;
        if is_known { (self.valid_sum / self.weight).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// `pace_ms * e^(3 * old_ratio) * (1 / max(0.05, valid_ratio) + 0.1 * in_flight)`; none without
    /// evidence, where quality decides. One young call and one valid answer are added to the
    /// ratios, so that an engine that nobody asks is forgiven. `in_flight` is that of the whole
    /// instance.
    pub fn cost(&self, now: Instant, in_flight: u32) -> Option<f64> {
        let keep = self.decay(now);
        let old_ratio = self.old_sum * keep / (self.pace_weight * keep + USUAL_WEIGHT);
        let pace_ms = self.pace(now)?.as_secs_f64() * 1e3 * (old_ratio * OLD_SHARE).exp();
        let valid_ratio = (self.valid_sum * keep + 1.0) / (self.weight * keep + 1.0);
        let waiting = f64::from(in_flight) * pace_ms * IN_FLIGHT_SHARE;
        Some(pace_ms / valid_ratio.max(VALID_RATIO_MIN) + waiting)
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.weight.is_finite() && self.weight >= 0.0);
        assert!(self.pace_weight.is_finite() && self.pace_weight >= 0.0);
        assert!(self.pace_sum.is_finite());
        assert!((0.0..=self.weight * (1.0 + 1e-9)).contains(&self.valid_sum));
    }

    /// What is left at `now` of a weight of 1.
    fn decay(&self, now: Instant) -> f64 {
        let half_lives = now.since(self.updated).as_secs_f64() / self.half_life.as_secs_f64();
        (-half_lives).exp2()
    }
}

/// The pace's bounds, ln ms: 10 us and 120 s.
const LN_MS_MIN: f64 = -4.605_170_185_988_091;
const LN_MS_MAX: f64 = 11.695_247_021_764_184;

fn ln_ms(latency: Duration) -> f64 {
    (latency.as_secs_f64() * 1e3).ln().clamp(LN_MS_MIN, LN_MS_MAX)
}

/// What a call that became old counts as.
fn old_pace() -> f64 {
    ln_ms(OLD_AFTER.mul_f64(OLD_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF_LIFE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn answered(ms: u64, is_valid: bool) -> Answered {
        Answered { latency: Duration::from_millis(ms), is_valid, was_old: false }
    }

    /// Observes `(second, latency in ms, valid)` and compares mean (ms) and ratio at `now`.
    fn check(samples: &[(u64, u64, bool)], now: u64, expected: Option<(f64, f64)>) {
        let mut score = Score::new(HALF_LIFE);
        for (second, ms, valid) in samples {
            score.observe(at(*second), answered(*ms, *valid));
        }
        let pace_ms = score.pace(at(now)).map(|mean| mean.as_secs_f64() * 1e3);
        let Some((mean_ms, ratio)) = expected else {
            assert_eq!(pace_ms, None);
            assert_eq!(score.cost(at(now), 0), None);
            return;
        };
        assert!((pace_ms.unwrap() - mean_ms).abs() < 1e-3, "{pace_ms:?}, expected {mean_ms}");
        assert!((score.valid_ratio(at(now)) - ratio).abs() < 1e-6);
    }

    #[test]
    fn a_sample_loses_half_of_its_weight_in_a_half_life() {
        check(&[], 0, None);
        check(&[(1, 200, true)], 1, Some((200.0, 1.0)));
        // A later call leaves 0.95 of that, and one call is of the usual pace.
        check(&[(0, 100, true), (30, 400, true)], 30, Some((231.841, 1.0)));
        check(&[(0, 100, true), (60, 400, true)], 60, Some((253.485, 1.0)));
        check(&[(0, 100, true), (0, 100, false)], 0, Some((100.0, 0.5)));
    }

    #[test]
    fn evidence_is_forgotten_after_six_half_lives() {
        check(&[(0, 200, true)], 180, Some((200.0, 1.0)));
        check(&[(0, 200, true)], 181, None);
    }

    #[test]
    fn failures_never_make_an_engine_look_fast() {
        let mut healthy = Score::new(HALF_LIFE);
        let mut refusing = Score::new(HALF_LIFE);
        let mut never_valid = Score::new(HALF_LIFE);
        for _ in 0..100 {
            healthy.observe(at(0), answered(200, true));
            refusing.observe(at(0), answered(200, true));
        }
        for _ in 0..20 {
            healthy.observe(at(1), answered(200, true));
            refusing.observe(at(1), answered(0, false));
            never_valid.observe(at(1), answered(0, false));
        }
        let cost = |score: Score| score.cost(at(1), 0).unwrap();
        assert!(cost(refusing) > cost(healthy) * 1.15);
        assert!((cost(never_valid) - 10_000.0).abs() < 1.0);
        let forgiven = never_valid.cost(at(121), 0).unwrap();
        assert!(forgiven < 2_000.0, "after four half-lives it costs {forgiven}");
    }

    /// The pace in ms after a hundred calls of 100 ms, and then `old` calls that became old.
    fn pace_after(old: u32, ends: Option<u64>) -> f64 {
        let mut score = Score::new(HALF_LIFE);
        for _ in 0..100 {
            score.observe(at(1), answered(100, true));
        }
        for _ in 0..old {
            score.observe_old(at(1));
            if let Some(ms) = ends {
                score.observe(at(1), Answered { was_old: true, ..answered(ms, true) });
            }
        }
        score.pace(at(1)).unwrap().as_secs_f64() * 1e3
    }

    #[test]
    fn a_call_that_became_old_counts_before_its_end_and_once() {
        assert!((pace_after(0, None) - 100.0).abs() < 1e-6);
        let early = pace_after(12, None);
        assert!((160.0..350.0).contains(&early), "{early}");
        // What took 350 ms was foreseen; a longer one counts for more, a shorter one for less.
        assert!((pace_after(12, Some(350)) - early).abs() < 1e-6);
        assert!(pace_after(12, Some(1_000)) > early * 1.2);
        assert!(pace_after(12, Some(260)) < early);
    }

    #[test]
    fn calls_in_flight_cost_a_tenth_each() {
        let mut score = Score::new(HALF_LIFE);
        score.observe(at(0), answered(200, true));
        assert!((score.cost(at(0), 0).unwrap() - 200.0).abs() < 1e-6);
        assert!((score.cost(at(0), 10).unwrap() - 400.0).abs() < 1e-6);
    }

    #[test]
    fn cores_that_tell_each_other_agree() {
        let mut cores = [Score::new(HALF_LIFE); 3];
        for (core, ms) in [(0, 100), (1, 300), (2, 500), (1, 700)] {
            cores[core].observe(at(1), answered(ms, ms != 700));
        }
        for from in 0..3 {
            let Some(delta) = cores[from].take_delta() else { panic!("it observed something") };
            assert_eq!(cores[from].take_delta(), None);
            for to in (0..3).filter(|to| *to != from) {
                cores[to].merge_delta(at(1), delta);
            }
        }
        for mut core in cores {
            // Each remembers the others' calls as the later ones: 320 ms within a tenth.
            let pace_ms = core.pace(at(1)).unwrap().as_secs_f64() * 1e3;
            assert!((pace_ms / 320.1 - 1.0).abs() < 0.1, "{pace_ms}");
            assert!((core.valid_ratio(at(1)) - 0.75).abs() < 1e-9);
            assert_eq!(core.take_delta(), None, "gossip is not passed on");
        }
    }

    proptest! {
        #[test]
        fn the_mean_of_valid_answers_lies_between_them(
            samples in prop::collection::vec((0_u64..200, 1_u64..5_000), 1..50)
        ) {
            let mut score = Score::new(HALF_LIFE);
            let (mut second, mut least, mut most) = (0, u64::MAX, 0);
            for (pause, ms) in samples {
                second += pause;
                (least, most) = (least.min(ms), most.max(ms));
                score.observe(at(second), answered(ms, true));
                let mean = score.pace(at(second)).unwrap().as_secs_f64() * 1e3;
                prop_assert!(mean >= least as f64 - 1e-3 && mean <= most as f64 + 1e-3);
            }
        }
    }
}
