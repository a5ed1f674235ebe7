//! A core's generator of chance: xoshiro256++, small, seedable, repeatable. Public because the
//! simulation's actors want one too; the path draws through `Reactor::draw`.
//!
//! It must never make secrets: keys and tokens come from the operating system.

use std::cell::RefCell;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded generator. Same seed, same draws.
pub struct Generator(RefCell<Xoshiro256PlusPlus>);

impl Generator {
    /// The generator of `seed`; any seed will do, neighbours are unlike (SplitMix64 spreads it).
    pub fn new(seed: u64) -> Self {
        Self(RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    /// 64 random bits.
    pub fn draw(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }

    /// A number in `0..bound`; 0 for a bound of 0. By Lemire's multiplication ("Fast Random Integer
    /// Generation in an Interval", 2019) without its rejection: the bias is below `bound / 2^64`.
    pub fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// Whether an event of probability `ratio` (0..=1) happens. Draws nothing for 0.
    pub fn happens(&self, ratio: f64) -> bool {
        ratio > 0.0 && unit(self.draw()) < ratio
    }
}

/// A draw as a number in `0.0..1.0`, with 53 bits.
pub fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_draws() {
        let (left, right, other) = (Generator::new(7), Generator::new(7), Generator::new(8));
        let draws = |generator: &Generator| (0..32).map(|_| generator.draw()).collect::<Vec<_>>();
        let first = draws(&left);
        assert_eq!(first, draws(&right));
        assert_ne!(first, draws(&other));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let generator = Generator::new(1);
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[generator.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "{seen:?}");
        assert_eq!(generator.below(0), 0);
    }

    #[test]
    fn a_ratio_of_zero_never_happens_and_of_one_always() {
        let generator = Generator::new(2);
        assert!((0..1_000).all(|_| !generator.happens(0.0) && generator.happens(1.0)));
    }
}
