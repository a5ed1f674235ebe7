//! How long a simulated engine takes: laws by percentiles, and engines that switch between a normal
//! and a slow state.
//!
//! `quoted` is the law of one engine as published, `warm` the same times 0.66 (behind warm
//! connections and routing: the published sweep is reproduced with such engines only). Between two
//! percentiles either ln(1 - q) is linear in ln t (`Body::Pareto`, as `hedgerow-perf engine` has
//! it) or the normal score of q is (`Body::Lognormal`). Below the first one the body is lognormal.
//! `States` are two lognormals fitted so that the law of a random engine at a random time has the
//! quoted percentiles exactly.
//!
//! Units: milliseconds. Quantiles are 0..1, both ends excluded.

/// The law of one engine as published: quantile and milliseconds.
const QUOTED: [(f64, f64); 4] = [(0.5, 248.0), (0.9, 612.0), (0.99, 1480.0), (0.999, 2950.0)];

/// The same behind warm connections and routing.
const WARM_SCALE: f64 = 0.66;

/// No draw is longer.
const LATENCY_MAX_MS: f64 = 60_000.0;

/// What is linear between two percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// ln(1 - q) in ln t.
    Pareto,
    /// The normal score of q in ln t.
    Lognormal,
}

/// A latency law that does not change.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    body: Body,
    scale: f64,
}

impl Law {
    /// One engine as published.
    pub const fn quoted(body: Body) -> Self {
        Self { body, scale: 1.0 }
    }

    /// The same times 0.66.
    pub const fn warm(body: Body) -> Self {
        Self { body, scale: WARM_SCALE }
    }

    /// The time at `quantile`, in ms: a draw, if the quantile is drawn.
    pub fn at(&self, quantile: f64) -> f64 {
        let last = QUOTED.len() - 2;
        let index = (0..last).find(|&i| quantile < QUOTED[i + 1].0).unwrap_or(last);
        let (from, to) = (QUOTED[index], QUOTED[index + 1]);
        let is_lognormal = self.body == Body::Lognormal || quantile < QUOTED[0].0;
        let position = |q: f64| if is_lognormal { normal_at(q) } else { (1.0 - q).ln() };
        let share = (position(quantile) - position(from.0)) / (position(to.0) - position(from.0));
        let ln_ms = from.1.ln() + share * (to.1 / from.1).ln();
        (ln_ms.exp() * self.scale).min(LATENCY_MAX_MS)
    }
}

/// An engine's two states: lognormal each, by median in ms and spread of the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct States {
    /// Most of the time.
    pub normal: (f64, f64),
    /// In episodes.
    pub slow: (f64, f64),
    /// The share of time in episodes.
    pub slow_ratio: f64,
}

impl States {
    /// Five engines of equal speed, slow 20 % of the time. The fits of all four are least squares
    /// of the logarithms of the quoted tail (misfit below 1e-29), over the engines' speeds.
    pub const EQUAL: Self = Self {
        normal: (226.723_890_2, 0.609_782_281),
        slow: (401.873_761_2, 0.772_820_221),
        slow_ratio: 0.2,
    };

    /// Five engines of speeds 0.7, 0.85, 1, 1.2 and 1.4.
    pub const UNEQUAL: Self = Self {
        normal: (226.597_145_2, 0.558_328_591),
        slow: (401.913_764_2, 0.735_618_744),
        slow_ratio: 0.2,
    };

    /// The same, slow 35 % of the time.
    pub const OFTEN: Self = Self {
        normal: (228.929_086_9, 0.532_936_824),
        slow: (305.199_247_3, 0.785_525_424),
        slow_ratio: 0.35,
    };

    /// Three engines of speeds 0.75, 1 and 1.3, slow 20 % of the time.
    pub const THREE: Self = Self {
        normal: (228.550_835_2, 0.566_595_278),
        slow: (405.370_538_6, 0.741_381_207),
        slow_ratio: 0.2,
    };

    /// The time in ms for the normal score `z`.
    pub fn at(&self, is_slow: bool, z: f64) -> f64 {
        let (median_ms, sigma) = if is_slow { self.slow } else { self.normal };
        (median_ms * (sigma * z).exp()).min(LATENCY_MAX_MS)
    }
}

/// The standard normal quantile. Rational approximation by P. J. Acklam (2003), relative error
/// below 1.15e-9.
pub fn normal_at(quantile: f64) -> f64 {
    const LOW: f64 = 0.024_25;
    if quantile > 0.5 {
        return -normal_at(1.0 - quantile);
    }
    if quantile < LOW {
        let q = (-2.0 * quantile.max(1e-300).ln()).sqrt();
        return horner(q, &TAIL_TOP) / horner(q, &TAIL_BOTTOM);
    }
    let q = quantile - 0.5;
    let r = q * q;
    horner(r, &CENTRE_TOP) * q / horner(r, &CENTRE_BOTTOM)
}

const TAIL_TOP: [f64; 6] = [
    -7.784_894_002_430_293e-3,
    -3.223_964_580_411_365e-1,
    -2.400_758_277_161_838,
    -2.549_732_539_343_734,
    4.374_664_141_464_968,
    2.938_163_982_698_783,
];
const TAIL_BOTTOM: [f64; 5] = [
    7.784_695_709_041_462e-3,
    3.224_671_290_700_398e-1,
    2.445_134_137_142_996,
    3.754_408_661_907_416,
    1.0,
];
const CENTRE_TOP: [f64; 6] = [
    -3.969_683_028_665_376e1,
    2.209_460_984_245_205e2,
    -2.759_285_104_469_687e2,
    1.383_577_518_672_69e2,
    -3.066_479_806_614_716e1,
    2.506_628_277_459_239,
];
const CENTRE_BOTTOM: [f64; 6] = [
    -5.447_609_879_822_406e1,
    1.615_858_368_580_409e2,
    -1.556_989_798_598_866e2,
    6.680_131_188_771_972e1,
    -1.328_068_155_288_572e1,
    1.0,
];

fn horner(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(law: &Law, quantile: f64, expected_ms: f64) {
        let ms = law.at(quantile);
        assert!((ms / expected_ms - 1.0).abs() < 0.002, "{law:?} at {quantile}: {ms}");
    }

    #[test]
    fn the_published_percentiles_are_met_exactly() {
        for (quantile, ms) in QUOTED {
            for body in [Body::Pareto, Body::Lognormal] {
                check(&Law::quoted(body), quantile, ms);
                check(&Law::warm(body), quantile, ms * 0.66);
            }
        }
    }

    #[test]
    fn between_and_beyond_them_each_body_is_its_own() {
        let pareto = Law::quoted(Body::Pareto);
        check(&pareto, 0.7, 248.0 * (612f64 / 248.0).powf((0.5f64 / 0.3).ln() / 5f64.ln()));
        check(&pareto, 0.9999, 2950.0 * (2950f64 / 1480.0));
        check(&pareto, 0.1, 248.0 * 248.0 / 612.0);
        // S(420) of the lognormal body is 0.227: the extra load of a delay of 420 ms.
        check(&Law::quoted(Body::Lognormal), 1.0 - 0.2273, 420.0);
    }

    #[test]
    fn a_random_engine_at_a_random_time_has_the_quoted_tail() {
        let speeds: [(States, &[f64]); 4] = [
            (States::EQUAL, &[1.0]),
            (States::UNEQUAL, &[0.7, 0.85, 1.0, 1.2, 1.4]),
            (States::OFTEN, &[0.7, 0.85, 1.0, 1.2, 1.4]),
            (States::THREE, &[0.75, 1.0, 1.3]),
        ];
        for (states, speeds) in speeds {
            let steps = 100_000;
            for (quantile, ms) in QUOTED {
                let mut slower = 0.0;
                for (is_slow, weight) in
                    [(false, 1.0 - states.slow_ratio), (true, states.slow_ratio)]
                {
                    for &speed in speeds {
                        // The share of normal scores whose time exceeds `ms`, by bisection.
                        let exceeds = |i: i32| {
                            let z = normal_at((f64::from(i) + 0.5) / f64::from(steps));
                            states.at(is_slow, z) * speed > ms
                        };
                        let first = partition(steps, exceeds);
                        let share = f64::from(steps - first) / f64::from(steps);
                        slower += weight * share / speeds.len() as f64;
                    }
                }
                let error = slower / (1.0 - quantile) - 1.0;
                assert!(error.abs() < 0.02, "{states:?} at {ms}: {slower}");
            }
        }
    }

    /// The first of `0..count` that holds; they hold from one on.
    fn partition(count: i32, holds: impl Fn(i32) -> bool) -> i32 {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = i32::midpoint(low, high);
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    #[test]
    fn the_normal_quantile_is_right_to_six_digits() {
        for (q, z) in [(0.5, 0.0), (0.9, 1.281_551_6), (0.99, 2.326_347_9), (0.001, -3.090_232_3)] {
            assert!((normal_at(q) - z).abs() < 1e-6, "{q}");
        }
    }
}
