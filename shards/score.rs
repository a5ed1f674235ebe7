//! What an engine costs to ask, as one number to compare: its latency, how often its answers are
//! valid, and how busy it is.
//!
//! Latency and valid ratio are means whose samples lose half of their weight every half-life, so
//! that a burst of calls and a trickle are forgotten at the same pace. An invalid answer never
//! makes an engine look fast: it counts as at least the mean so far (a refused connection takes 0.1
//! ms, and a balancer that believes it sends everything there). A structure of this kind must never
//! be fed cancelled calls: their time is a bound, not a sample. Evidence is pooled over cores
//! (`take_delta`, `merge_delta`). Units: `cost` is in milliseconds,
//! weighted; only its order matters.

use runtime::Instant;
use std::time::Duration;

/// The least valid ratio a cost is divided by: an engine that never answers validly costs twenty
/// times its latency and stays comparable.
const VALID_RATIO_MIN: f64 = 0.05;
/// What each call in flight adds, as a share of the mean latency.
const IN_FLIGHT_SHARE: f64 = 0.1;
/// With less evidence than this (one sample after six half-lives) there are no statistics.
const WEIGHT_MIN: f64 = 1.0 / 64.0;
/// What an invalid answer counts as, at least, where no mean exists.
const INVALID_LATENCY_MIN: Duration = Duration::from_millis(500);

/// A decayed mean of latency and of valid answers.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    half_life: Duration,
    updated: Instant,
    /// Samples, decayed; the two sums below are over the same weights.
    weight: f64,
    latency_sum_ms: f64,
    valid_sum: f64,
    /// What was observed here and not yet taken.
    pending: Delta,
}

/// Answers observed since the last delta: a letter between cores.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Delta {
    answers: u32,
    valid: u32,
    latency_sum_ms: f64,
}

impl Score {
    /// No statistics yet. A `half_life` of zero counts as 1 ns.
    pub fn new(half_life: Duration) -> Self {
        Self {
            half_life: half_life.max(Duration::from_nanos(1)),
            updated: Instant::ZERO,
            weight: 0.0,
            latency_sum_ms: 0.0,
            valid_sum: 0.0,
            pending: Delta::default(),
        }
    }

    /// Counts an answer that took `latency`.
    pub fn observe(&mut self, now: Instant, latency: Duration, valid: bool) {
        let latency = match (valid, self.ewma(now)) {
            (true, _) => latency,
            (false, mean) => latency.max(mean.unwrap_or(INVALID_LATENCY_MIN)),
        };
        let answer = Delta {
            answers: 1,
            valid: u32::from(valid),
            latency_sum_ms: latency.as_secs_f64() * 1e3,
        };
        self.pending.answers = self.pending.answers.saturating_add(answer.answers);
        self.pending.valid = self.pending.valid.saturating_add(answer.valid);
        self.pending.latency_sum_ms += answer.latency_sum_ms;
        self.add(now, answer);
    }

    /// What was observed here since the last delta; none when that is nothing.
    pub fn take_delta(&mut self) -> Option<Delta> {
        let delta = std::mem::take(&mut self.pending);
        (delta.answers > 0).then_some(delta)
    }

    /// Counts what another core observed, as of `now`. It is not passed on by `take_delta`.
    pub fn merge_delta(&mut self, now: Instant, delta: Delta) {
        self.add(now, delta);
    }

    fn add(&mut self, now: Instant, delta: Delta) {
        let keep = self.decay(now);
        self.weight = self.weight * keep + f64::from(delta.answers);
        self.latency_sum_ms = self.latency_sum_ms * keep + delta.latency_sum_ms;
        self.valid_sum = self.valid_sum * keep + f64::from(delta.valid);
        self.updated = self.updated.max(now);
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// The mean latency; none without evidence.
    pub fn ewma(&self, now: Instant) -> Option<Duration> {
        let is_known = self.weight * self.decay(now) >= WEIGHT_MIN;
        is_known.then(|| Duration::from_secs_f64(self.latency_sum_ms / self.weight / 1e3))
    }

    /// The share of answers that were valid; 1 without evidence.
    pub fn valid_ratio(&self, now: Instant) -> f64 {
        let is_known = self.weight * self.decay(now) >= WEIGHT_MIN;
        if is_known { (self.valid_sum / self.weight).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// `ewma_ms / max(0.05, valid_ratio) + in_flight * ewma_ms * 0.1`; none without evidence, where
    /// quality decides. `in_flight` is that of the whole instance.
    pub fn cost(&self, now: Instant, in_flight: u32) -> Option<f64> {
        let ewma_ms = self.ewma(now)?.as_secs_f64() * 1e3;
        let waiting = f64::from(in_flight) * ewma_ms * IN_FLIGHT_SHARE;
        Some(ewma_ms / self.valid_ratio(now).max(VALID_RATIO_MIN) + waiting)
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.weight.is_finite() && self.weight >= 0.0);
        assert!(self.latency_sum_ms.is_finite() && self.latency_sum_ms >= 0.0);
        assert!((0.0..=self.weight * (1.0 + 1e-9)).contains(&self.valid_sum));
    }

    /// What is left at `now` of a weight of 1.
    fn decay(&self, now: Instant) -> f64 {
        let half_lives = now.since(self.updated).as_secs_f64() / self.half_life.as_secs_f64();
        (-half_lives).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF_LIFE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Observes `(second, latency in ms, valid)` and compares mean (ms) and ratio at `now`.
    fn check(samples: &[(u64, u64, bool)], now: u64, expected: Option<(f64, f64)>) {
        let mut score = Score::new(HALF_LIFE);
        for (second, ms, valid) in samples {
            score.observe(at(*second), Duration::from_millis(*ms), *valid);
        }
        let ewma_ms = score.ewma(at(now)).map(|mean| mean.as_secs_f64() * 1e3);
        let Some((mean_ms, ratio)) = expected else {
            assert_eq!(ewma_ms, None);
            assert_eq!(score.cost(at(now), 0), None);
            return;
        };
        assert!((ewma_ms.unwrap() - mean_ms).abs() < 1e-3, "{ewma_ms:?}, expected {mean_ms}");
        assert!((score.valid_ratio(at(now)) - ratio).abs() < 1e-6);
    }

    #[test]
    fn a_sample_loses_half_of_its_weight_in_a_half_life() {
        check(&[], 0, None);
        check(&[(1, 200, true)], 1, Some((200.0, 1.0)));
        check(&[(0, 100, true), (30, 400, true)], 30, Some((300.0, 1.0)));
        check(&[(0, 100, true), (60, 400, true)], 60, Some((340.0, 1.0)));
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
            healthy.observe(at(0), Duration::from_millis(200), true);
            refusing.observe(at(0), Duration::from_millis(200), true);
        }
        for _ in 0..20 {
            healthy.observe(at(1), Duration::from_millis(200), true);
            refusing.observe(at(1), Duration::from_micros(100), false);
            never_valid.observe(at(1), Duration::from_micros(100), false);
        }
        let cost = |score: Score| score.cost(at(1), 0).unwrap();
        assert!(cost(refusing) > cost(healthy) * 1.15);
        assert!((cost(never_valid) - 10_000.0).abs() < 1.0);
    }

    #[test]
    fn calls_in_flight_cost_a_tenth_each() {
        let mut score = Score::new(HALF_LIFE);
        score.observe(at(0), Duration::from_millis(200), true);
        assert!((score.cost(at(0), 0).unwrap() - 200.0).abs() < 1e-6);
        assert!((score.cost(at(0), 10).unwrap() - 400.0).abs() < 1e-6);
    }

    #[test]
    fn cores_that_tell_each_other_agree() {
        let mut cores = [Score::new(HALF_LIFE); 3];
        for (core, ms) in [(0, 100), (1, 300), (2, 500), (1, 700)] {
            cores[core].observe(at(1), Duration::from_millis(ms), ms != 700);
        }
        for from in 0..3 {
            let Some(delta) = cores[from].take_delta() else { panic!("it observed something") };
            assert_eq!(cores[from].take_delta(), None);
            for to in (0..3).filter(|to| *to != from) {
                cores[to].merge_delta(at(1), delta);
            }
        }
        for mut core in cores {
            assert_eq!(core.ewma(at(1)), Some(Duration::from_millis(400)));
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
                score.observe(at(second), Duration::from_millis(ms), true);
                let mean = score.ewma(at(second)).unwrap().as_secs_f64() * 1e3;
                prop_assert!(mean >= least as f64 - 1e-3 && mean <= most as f64 + 1e-3);
            }
        }
    }
}
