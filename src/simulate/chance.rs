//! Seeded chance for the actors of a world. Each actor has a stream of its own, so that one more
//! draw of one shifts nobody else's.

use runtime::rng::{Generator, unit};

use super::law::normal_at;

/// One stream of chance.
pub struct Chance(Generator);

impl Chance {
    /// Stream number `stream` of a run's `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Generator::new(mix(seed, stream)))
    }

    /// Uniform in the open interval (0, 1).
    pub fn unit(&self) -> f64 {
        (unit(self.0.draw()) + 0.5 / (1_u64 << 53) as f64).min(1.0 - f64::EPSILON)
    }

    /// Exponential with the given mean.
    pub fn exponential(&self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Standard normal.
    pub fn normal(&self) -> f64 {
        normal_at(self.unit())
    }

    /// Uniform below `bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}

/// A number that looks unrelated for every pair (the finaliser of SplitMix64; Steele, Lea, Flood
/// 2014).
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
