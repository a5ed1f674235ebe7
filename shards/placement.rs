//! Which core is a key's home: the one that grants the lease to make its answer.
//!
//! The home is read off the key's own bytes, which are a SHA-256 and so already uniform: no second
//! hash, no table. It depends on the number of cores and on nothing else, and must never be used to
//! move a request: only the lease travels.

/// A core of this instance, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CoreId(pub u16);

impl CoreId {
    /// The core's place in a list of all cores.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The home of `key` among `cores` cores (1..=65,535; 0 counts as 1). Multiply-shift of the key's
/// first 64 bits (Lemire, "Fast Random Integer Generation in an Interval", 2019): the share of a
/// core differs from 1 / `cores` by less than 2^-48.
pub fn home(key: &[u8; 32], cores: usize) -> CoreId {
    debug_assert!((1..=usize::from(u16::MAX)).contains(&cores));
    let [a, b, c, d, e, f, g, h, ..] = *key;
    let head = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let cores = cores.clamp(1, usize::from(u16::MAX)) as u128;
    CoreId(((u128::from(head) * cores) >> 64) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use proptest::prelude::*;

    fn check(first_byte: u8, cores: usize, expected: u16) {
        let mut key = [0; 32];
        key[0] = first_byte;
        assert_eq!(home(&key, cores), CoreId(expected));
    }

    #[test]
    fn homes_divide_the_key_space_in_order() {
        for (first_byte, cores, expected) in
            [(0, 1, 0), (255, 1, 0), (0, 4, 0), (63, 4, 0), (64, 4, 1), (128, 4, 2), (255, 4, 3)]
        {
            check(first_byte, cores, expected);
        }
    }

    #[test]
    fn every_core_is_home_to_its_share() {
        let mut chance = Chance::new(1);
        let mut homes = [0_u32; 12];
        for _ in 0..12_000 {
            homes[home(&chance.key(), 12).index()] += 1;
        }
        for share in homes {
            assert!((850..1_150).contains(&share), "{homes:?}");
        }
    }

    proptest! {
        #[test]
        fn the_home_is_one_of_the_cores(key: [u8; 32], cores in 1..=65_535_usize) {
            prop_assert!(home(&key, cores).index() < cores);
        }
    }
}
