//! When a call counts as late, steered by what hedging may cost: the delay itself is the controlled
//! variable.
//!
//! Each extra call makes the delay a step longer, each primary call makes it shorter by the target
//! ratio of a step; it rests where just the target ratio of calls is late. A fixed delay, or a
//! quantile that is clamped, asks for more hedges than the budget holds, and a bucket then decides
//! at random who gets one, which is the worst shape. One delay for all engines: an engine in a slow
//! episode has more late calls than others, and is where hedges help. Stochastic approximation of a
//! quantile (Robbins and Monro, 1951) on the logarithm, so that a step means the same at any delay.

use std::time::Duration;

/// How much one extra call lengthens the delay, as a logarithm.
const STEP: f64 = 0.003;
/// The same for the first calls, until the delay has found its place.
const STEP_EAGER: f64 = 0.012;
/// Primary calls that are followed eagerly.
const EAGER_CALLS: u32 = 1_000;
/// Bounds of the delay, ln ms: 1 ms and 60 s.
const LN_MS_MAX: f64 = 11.002_099_841_204_238;

/// The delay of one core.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    ln_ms: f64,
    target_ratio: f64,
    calls: u32,
}

impl Steering {
    /// Starts at `initial` (1 ms to 60 s, saturating) and steers for `target_ratio` (0..=1) late
    /// calls to the primary one.
    pub fn new(initial: Duration, target_ratio: f64) -> Self {
        let ln_ms = (initial.as_secs_f64() * 1e3).max(1.0).ln().min(LN_MS_MAX);
        Self { ln_ms, target_ratio: target_ratio.clamp(0.0, 1.0), calls: 0 }
    }

    /// A primary call was made.
    pub fn primary(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.ln_ms = (self.ln_ms - self.step() * self.target_ratio).max(0.0);
    }

    /// A call was late, and an extra one was sent. One that was denied does not count: when all
    /// calls are late, the bucket decides, and the delay stays where it was useful.
    pub fn extra(&mut self) {
        self.ln_ms = (self.ln_ms + self.step()).min(LN_MS_MAX);
    }

    /// After how long a call counts as late.
    pub fn delay(&self) -> Duration {
        Duration::from_secs_f64(self.ln_ms.exp() / 1e3)
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!((0.0..=LN_MS_MAX).contains(&self.ln_ms), "{} ln ms", self.ln_ms);
    }

    fn step(&self) -> f64 {
        if self.calls <= EAGER_CALLS { STEP_EAGER } else { STEP }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// Calls of 1 to 1,000 ms, every one as likely: at which delay, in ms, does it rest, and which
    /// share of the last half of calls was late?
    fn rest(initial_ms: u64, target_ratio: f64, scale: f64) -> (f64, f64) {
        let mut steering = Steering::new(Duration::from_millis(initial_ms), target_ratio);
        let mut chance = Chance::new(7);
        let mut late = 0;
        for call in 0..100_000 {
            steering.primary();
            let took = Duration::from_secs_f64(chance.ratio() * scale);
            if took > steering.delay() {
                steering.extra();
                late += u32::from(call >= 50_000);
            }
            steering.check();
        }
        (steering.delay().as_secs_f64() * 1e3, f64::from(late) / 50_000.0)
    }

    /// The delay, within a tenth, and the share of late calls, within 0.3 points.
    fn check(initial_ms: u64, target_ratio: f64, scale: f64, expected_ms: f64) {
        let (delay_ms, late_ratio) = rest(initial_ms, target_ratio, scale);
        assert!((delay_ms / expected_ms - 1.0).abs() < 0.1, "{delay_ms} ms");
        assert!((late_ratio - target_ratio).abs() < 0.003, "{late_ratio}");
    }

    #[test]
    fn it_rests_where_the_target_ratio_is_late() {
        check(420, 0.10, 1.0, 900.0);
        check(420, 0.30, 1.0, 700.0);
    }

    #[test]
    fn it_finds_its_place_from_afar() {
        check(5, 0.10, 1.0, 900.0);
        check(20_000, 0.10, 0.1, 90.0);
    }

    #[test]
    fn it_starts_at_the_initial_delay_and_keeps_its_bounds() {
        let steering = |ms| Steering::new(Duration::from_millis(ms), 0.5);
        assert!(steering(420).delay().abs_diff(Duration::from_millis(420)).as_micros() < 1);
        let (mut short, mut long) = (steering(0), steering(1_000_000));
        for _ in 0..1_000 {
            short.primary();
            long.extra();
        }
        assert_eq!(short.delay(), Duration::from_millis(1));
        assert!(long.delay().abs_diff(Duration::from_secs(60)).as_micros() < 1_000);
    }
}
