//! Buffers that are used again: one bounded list of free buffers per size class, per core.
//!
//! Taking gives an empty buffer with at least the capacity asked for; giving back keeps it if its
//! class has room. It must never zero or shrink what it hands out, and never hold more than its
//! maximum.

use std::cell::RefCell;

/// The size classes, in bytes: a request head and small answer; a page; a large page or a batch of
/// TLS records.
pub const CLASSES_BYTES: [usize; 3] = [2 * 1024, 16 * 1024, 64 * 1024];

/// Free buffers of one core.
pub struct BufPool {
    free: [RefCell<Vec<Vec<u8>>>; CLASSES_BYTES.len()],
    free_max_bytes: usize,
}

impl BufPool {
    /// A pool that keeps at most `free_max_bytes` per size class.
    pub fn new(free_max_bytes: usize) -> Self {
        Self { free: Default::default(), free_max_bytes }
    }

    /// An empty buffer with room for `bytes` at least. Above the largest class it is made to
    /// measure, and not kept when it comes back.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        let Some(index) = CLASSES_BYTES.iter().position(|&class| bytes <= class) else {
            return Vec::with_capacity(bytes);
        };
        let kept = self.free[index].borrow_mut().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(CLASSES_BYTES[index]))
    }

    /// Keeps `buffer` for later if its capacity is that of a class with room; drops it otherwise.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let Some(index) = CLASSES_BYTES.iter().position(|&class| buffer.capacity() == class) else {
            return;
        };
        let mut free = self.free[index].borrow_mut();
        if free.len() < self.free_max(index) {
            buffer.clear();
            free.push(buffer);
        }
    }

    /// How many free buffers each class holds.
    pub fn counts(&self) -> [usize; CLASSES_BYTES.len()] {
        std::array::from_fn(|index| self.free[index].borrow().len())
    }

    /// The most free buffers a class holds.
    fn free_max(&self, index: usize) -> usize {
        self.free_max_bytes / CLASSES_BYTES[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked_bytes: usize, capacity_bytes: usize) {
        let pool = BufPool::new(1 << 20);
        let buffer = pool.take(asked_bytes);
        assert_eq!((buffer.len(), buffer.capacity()), (0, capacity_bytes));
    }

    #[test]
    fn a_buffer_has_the_capacity_of_its_class() {
        check(0, 2_048);
        check(2_048, 2_048);
        check(2_049, 16_384);
        check(65_536, 65_536);
        check(65_537, 65_537);
    }

    #[test]
    fn a_buffer_comes_back_empty_and_the_same() {
        let pool = BufPool::new(1 << 20);
        let mut buffer = pool.take(100);
        buffer.extend_from_slice(b"a stranger's bytes");
        let address = buffer.as_ptr();
        pool.give(buffer);
        assert_eq!(pool.counts(), [1, 0, 0]);
        let again = pool.take(100);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }

    #[test]
    fn a_full_class_drops_what_is_given() {
        let pool = BufPool::new(3 * 2_048);
        let taken: Vec<_> = (0..10).map(|_| pool.take(1)).collect();
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        pool.give(Vec::with_capacity(100_000));
        assert_eq!(pool.counts(), [3, 0, 0]);
    }
}
