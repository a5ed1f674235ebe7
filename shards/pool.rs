//! Idle connections of one core to one address: what the next call takes instead of a handshake.
//!
//! The newest goes first, so that in a lull the oldest age out together and a warm one stays warm.
//! A connection belongs in here only after its answer was read to the last byte: one with an unread
//! answer would hand a stranger's results to the next caller, so the caller closes that one
//! instead. The pool holds at most `idle_max`; what does not fit is handed back to be closed. It
//! closes nothing by itself, because closing is I/O.

use runtime::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Idle connections, oldest first.
#[derive(Debug)]
pub struct Pool<C> {
    idle: VecDeque<Idle<C>>,
    idle_max: usize,
    idle_for: Duration,
}

#[derive(Debug)]
struct Idle<C> {
    connection: C,
    since: Instant,
}

impl<C> Pool<C> {
    /// An empty pool of at most `idle_max` connections, each kept for `idle_for`, which should be
    /// shorter than the peer's own idle timeout.
    pub fn new(idle_max: usize, idle_for: Duration) -> Self {
        Self { idle: VecDeque::new(), idle_max, idle_for }
    }

    /// The connection that was given last, unless even that one has been idle for too long.
    pub fn take(&mut self, now: Instant) -> Option<C> {
        let newest = self.idle.pop_back_if(|idle| now.since(idle.since) < self.idle_for);
        self.check_in_debug();
        newest.map(|idle| idle.connection)
    }

    /// Keeps `connection` for the next call; hands it back, to be closed, if the pool is full.
    #[must_use = "a connection that does not fit must be closed"]
    pub fn give(&mut self, now: Instant, connection: C) -> Option<C> {
        if self.idle.len() >= self.idle_max {
            return Some(connection);
        }
        // A clock that two tasks read in turn may not run backwards in here: `expire` relies on it.
        let since = self.idle.back().map_or(now, |newest| newest.since.max(now));
        self.idle.push_back(Idle { connection, since });
        self.check_in_debug();
        None
    }

    /// The connections that have been idle for too long, to be closed. Allocates only if any are.
    pub fn expire(&mut self, now: Instant) -> Vec<C> {
        let mut expired = Vec::new();
        while let Some(idle) = self.idle.pop_front_if(|idle| now.since(idle.since) >= self.idle_for)
        {
            expired.push(idle.connection);
        }
        self.check_in_debug();
        expired
    }

    /// Takes out the connections that `keep` refuses, to be closed; the others stay as old as they
    /// are.
    pub fn remove_unless(&mut self, mut keep: impl FnMut(&C) -> bool) -> Vec<C> {
        let mut removed = Vec::new();
        for _ in 0..self.idle.len() {
            match self.idle.pop_front() {
                Some(idle) if keep(&idle.connection) => self.idle.push_back(idle),
                gone => removed.extend(gone.map(|idle| idle.connection)),
            }
        }
        self.check_in_debug();
        removed
    }

    /// How many connections are idle.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.idle.len() <= self.idle_max);
        assert!(self.idle.iter().is_sorted_by_key(|idle| idle.since));
    }

    fn check_in_debug(&self) {
        if cfg!(debug_assertions) {
            self.check();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn pool(given: &[(u64, u32)]) -> Pool<u32> {
        let mut pool = Pool::new(3, Duration::from_secs(10));
        for (second, connection) in given {
            assert_eq!(pool.give(at(*second), *connection), None);
        }
        pool
    }

    /// Takes and expires at `now` from a pool that was given connections at these seconds.
    fn check(given: &[(u64, u32)], now: u64, taken: Option<u32>, expired: &[u32]) {
        assert_eq!(pool(given).take(at(now)), taken);
        assert_eq!(pool(given).expire(at(now)), expired);
    }

    #[test]
    fn the_newest_is_taken_and_the_oldest_expires() {
        check(&[], 0, None, &[]);
        check(&[(0, 1), (1, 2), (2, 3)], 2, Some(3), &[]);
        check(&[(0, 1), (1, 2), (2, 3)], 10, Some(3), &[1]);
        check(&[(0, 1), (1, 2), (2, 3)], 12, None, &[1, 2, 3]);
    }

    #[test]
    fn a_full_pool_hands_back() {
        let mut pool = pool(&[(0, 1), (0, 2), (0, 3)]);
        assert_eq!(pool.give(at(0), 4), Some(4));
        assert_eq!(pool.idle(), 3);
        assert_eq!(Pool::new(0, Duration::from_secs(1)).give(at(0), 5), Some(5));
    }

    #[test]
    fn looking_through_it_makes_no_connection_younger() {
        let mut pool = pool(&[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(pool.remove_unless(|connection| *connection != 2), [2]);
        assert_eq!(pool.expire(at(10)), [1]);
        assert_eq!(pool.idle(), 1);
    }

    proptest! {
        #[test]
        fn every_connection_is_somewhere(
            steps in prop::collection::vec((0_u8..4, 0_u64..5), 1..80)
        ) {
            let mut pool = Pool::new(4, Duration::from_secs(6));
            let (mut now, mut made, mut out) = (0, 0_usize, 0_usize);
            for (step, pause) in steps {
                now += pause;
                match step {
                    0 | 1 => {
                        made += 1;
                        out += usize::from(pool.give(at(now), made).is_some());
                    }
                    2 => out += usize::from(pool.take(at(now)).is_some()),
                    _ => out += pool.expire(at(now)).len(),
                }
                prop_assert_eq!(made, out + pool.idle());
            }
        }
    }
}
