//! Seeded chance: everything drawn by a run follows from one printed seed, so that a run can be
//! repeated arrival by arrival. Streams keep the parts apart: one more draw for the engine's kind
//! of answer must not shift the delays.
//!
//! It must never be seeded from the clock without the seed being printed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One stream of chance.
pub(crate) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// Stream number `stream` of the run's `seed`.
    pub(crate) fn seeded(seed: u64, stream: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(mix(seed, stream)))
    }

    /// Uniform in the open interval (0, 1), in steps of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with the given mean: the gap between arrivals that know nothing of each other.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Uniform below `bound`; 0 if `bound` is 0. The bias, under 2^-32 for bounds below 2^32, is
    /// far under what any run can see.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A number that looks unrelated for every pair (the finaliser of SplitMix64; Steele, Lea, Flood
/// 2014).
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed, stream| {
            let mut chance = Chance::seeded(seed, stream);
            (0..8).map(|_| chance.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }

    #[test]
    fn the_exponential_has_its_mean() {
        let mut chance = Chance::seeded(1, 0);
        let mean = (0..100_000).map(|_| chance.exponential(3.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 3.0).abs() < 0.05, "mean {mean}");
    }

    #[test]
    fn below_nothing_is_zero() {
        assert_eq!(Chance::seeded(1, 0).below(0), 0);
    }
}
