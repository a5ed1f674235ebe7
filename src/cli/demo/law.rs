//! How long an engine of the demo takes. A delay is a fixed function of the demo's seed, the engine
//! and the question: a run repeats, and the same question is slow on the same engine every time.
//! Times are in milliseconds where they are bare numbers.
//!
//! `WARM` is the published law of one engine (p50 248, p90 612, p99 1,480, p99.9 2,950 ms) as seen
//! over warm connections: times 0.66. Between its points the logarithm of the time is linear in the
//! logarithm of the share of slower calls (Pareto pieces); behind the last point the last piece
//! goes on, up to `DELAY_MAX`.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::FixedState;

use super::index::Question;

/// The slowest answer: far behind every deadline, and a bound on what a call can hold.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// A law by its points: the share of calls that are slower, falling; and the time they exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law(&'static [(f64, f64)]);

/// The slow engines' law: p50 164, p90 404, p99 977, p99.9 1,947 ms; 60 ms at the least.
pub(super) const WARM: Law =
    Law(&[(1.0, 60.0), (0.5, 164.0), (0.1, 404.0), (0.01, 977.0), (0.001, 1947.0)]);

/// The quick engine's: 5 to 40 ms, the median in the geometric middle.
pub(super) const BRISK: Law = Law(&[(1.0, 5.0), (0.5, 14.0), (0.01, 40.0), (0.0, 40.0)]);

impl Law {
    /// The time that `slower` (0..=1) of all calls exceed.
    fn exceeded_by(self, slower: f64) -> Duration {
        // A share of zero has no logarithm; a draw has 53 bits, so this is below any drawn one.
        let at = slower.max(1e-18).ln();
        let mut ms = 0.0;
        for pair in self.0.windows(2) {
            let [(above, low_ms), (below, high_ms)] = *pair else {
                continue;
            };
            let (from, to) = (above.ln(), below.max(1e-18).ln());
            let part = (at - from) / (to - from);
            ms = (low_ms.ln() + part * (high_ms / low_ms).ln()).exp();
            if at >= to {
                break;
            }
        }
        Duration::from_secs_f64(ms / 1e3).min(DELAY_MAX)
    }

    /// How long `engine` takes for `question`.
    pub(super) fn delay(self, seed: u64, engine: &str, question: &Question) -> Duration {
        let words: Vec<&str> = question.words().collect();
        let draw = FixedState::with_seed(seed).hash_one((engine, words));
        self.exceeded_by(1.0 - runtime::rng::unit(draw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(law: Law, slower: f64, expected_ms: f64) {
        let ms = law.exceeded_by(slower).as_secs_f64() * 1e3;
        assert!((ms - expected_ms).abs() < 0.01 * expected_ms, "{slower}: {ms}");
    }

    #[test]
    fn the_published_points_are_on_the_law() {
        check(WARM, 1.0, 60.0);
        check(WARM, 0.5, 164.0);
        check(WARM, 0.1, 404.0);
        check(WARM, 0.01, 977.0);
        check(WARM, 0.001, 1_947.0);
    }

    #[test]
    fn between_points_it_is_a_straight_line_of_logarithms() {
        check(WARM, (0.1_f64 * 0.01).sqrt(), (404.0_f64 * 977.0).sqrt());
        check(WARM, 0.0001, 1_947.0 * 1_947.0 / 977.0);
    }

    #[test]
    fn no_delay_is_endless() {
        assert_eq!(WARM.exceeded_by(0.0), DELAY_MAX);
        check(BRISK, 0.0, 40.0);
    }

    #[test]
    fn delays_of_many_questions_follow_the_law() {
        for (law, low_ms, half_ms, high_ms) in [(WARM, 60, 164, 404), (BRISK, 5, 14, 21)] {
            let mut delays: Vec<Duration> = (0..20_000)
                .map(|n| law.delay(1, "beta", &Question::new(&format!("question {n}"))))
                .collect();
            delays.sort_unstable();
            let near = |at: usize, ms: u64| {
                let ratio = delays[at].as_secs_f64() * 1e3 / ms as f64;
                assert!((0.95..1.05).contains(&ratio), "{at}: {:?} for {ms} ms", delays[at]);
            };
            near(0, low_ms);
            near(10_000, half_ms);
            near(18_000, high_ms);
        }
    }

    #[test]
    fn a_question_takes_the_same_time_again_and_another_on_another_engine() {
        let question = Question::new("hedge delay");
        let beta = WARM.delay(7, "beta", &question);
        assert_eq!(WARM.delay(7, "beta", &question), beta);
        assert_ne!(WARM.delay(7, "gamma", &question), beta);
        assert_ne!(WARM.delay(8, "beta", &question), beta);
    }
}
