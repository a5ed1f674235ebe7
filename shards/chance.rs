//! Chance for this crate's tests: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom
//! Number Generators", 2014). The same seed gives the same draws on every machine.

use std::time::Duration;

/// A seeded generator.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Uniform in 0..1, never 0 itself.
    pub(crate) fn ratio(&mut self) -> f64 {
        ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Log-normal with this median and sigma (Box-Muller).
    pub(crate) fn log_normal(&mut self, median: Duration, sigma: f64) -> Duration {
        let radius = (-2.0 * self.ratio().ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.ratio()).cos();
        median.mul_f64((sigma * normal).exp())
    }

    /// A key as uniform as a SHA-256.
    pub(crate) fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&self.draw().to_be_bytes());
        }
        key
    }
}
