//! Every core's mailbox: a bounded lane to each other core and one from each.
//!
//! A letter to a full lane comes back at once, and so does one to a core there is not: the caller
//! does without (a lost lease is a second call, a lost piece of gossip is nothing). Draining goes
//! round the lanes, so that one talkative core delays the others by a bounded number of letters.
//! Memory: `cores * (cores - 1) * capacity` letters, allocated at start.

use crate::CoreId;
use crate::mailbox::{Receiver, Sender, lane};
use std::cell::Cell;

/// The mailboxes of `cores` cores, in their order, with lanes of `capacity` letters.
///
/// # Panics
/// If there are more than 1,024 cores, or the capacity is out of a lane's bounds: mistakes at
/// start-up.
pub fn mesh<T: Send>(cores: usize, capacity: usize) -> Vec<Post<T>> {
    assert!(cores <= 1_024, "a mesh of {cores} cores");
    let mut posts: Vec<Post<T>> = (0..cores)
        .map(|core| Post {
            me: CoreId(core as u16),
            to: Vec::with_capacity(cores),
            from: Vec::with_capacity(cores),
            first: Cell::new(0),
        })
        .collect();
    for from in 0..cores {
        for to in 0..cores {
            let (sender, receiver) = match from == to {
                true => (None, None),
                false => {
                    let (sender, receiver) = lane(capacity);
                    (Some(sender), Some(receiver))
                }
            };
            posts[from].to.push(sender);
            posts[to].from.push(receiver);
        }
    }
    posts
}

/// One core's mailbox; moves to its core's thread and stays there.
#[derive(Debug)]
pub struct Post<T> {
    me: CoreId,
    /// By core; none to itself.
    to: Vec<Option<Sender<T>>>,
    from: Vec<Option<Receiver<T>>>,
    /// The lane that the next `drain` begins with.
    first: Cell<usize>,
}

impl<T: Send> Post<T> {
    /// Puts a letter into the lane to that core; its bell is the caller's to ring.
    ///
    /// # Errors
    /// The letter itself, if the lane is full or there is no such core but this one.
    pub fn send(&self, to: CoreId, letter: T) -> Result<(), T> {
        match self.to.get(to.index()).and_then(Option::as_ref) {
            Some(sender) => sender.push(letter),
            None => Err(letter),
        }
    }

    /// Hands at most `budget` letters to `handle`, with the core each is from; gives how many it
    /// were. `handle` may send. Letters of one core keep their order.
    pub fn drain(&self, budget: usize, mut handle: impl FnMut(CoreId, T)) -> usize {
        let cores = self.from.len();
        let mut drained = 0;
        let mut core = self.first.get();
        // How many lanes in a row were found empty.
        let mut empty = 0;
        while drained < budget && empty < cores {
            let receiver = self.from.get(core).and_then(Option::as_ref);
            match receiver.and_then(Receiver::pop) {
                Some(letter) => {
                    handle(CoreId(core as u16), letter);
                    drained += 1;
                    empty = 0;
                }
                None => empty += 1,
            }
            core = if core + 1 < cores { core + 1 } else { 0 };
        }
        self.first.set(core);
        debug_assert!(drained <= budget);
        drained
    }

    /// Whether a letter waits.
    pub fn has_mail(&self) -> bool {
        self.from.iter().flatten().any(|receiver| !receiver.is_empty())
    }

    /// The core whose mailbox this is.
    pub fn me(&self) -> CoreId {
        self.me
    }

    /// How many cores there are, this one included.
    pub fn cores(&self) -> usize {
        self.to.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everybody sends one letter to everybody else; `core` finds exactly these.
    fn check(cores: usize, core: usize, expected: &[(u16, usize)]) {
        let posts = mesh(cores, 2);
        for post in &posts {
            for to in 0..cores {
                let sent = post.send(CoreId(to as u16), to * 10);
                assert_eq!(sent.is_err(), to == post.me().index());
            }
        }
        let mut found = Vec::new();
        assert_eq!(posts[core].has_mail(), !expected.is_empty());
        posts[core].drain(usize::MAX, |from, letter| found.push((from.0, letter)));
        assert_eq!(found, expected);
        assert!(!posts[core].has_mail());
        assert_eq!(posts[core].cores(), cores);
    }

    #[test]
    fn a_letter_reaches_the_core_it_was_sent_to() {
        check(1, 0, &[]);
        check(2, 0, &[(1, 0)]);
        check(3, 1, &[(0, 10), (2, 10)]);
        assert!(mesh::<u8>(0, 1).is_empty());
    }

    #[test]
    fn a_full_lane_and_an_unknown_core_hand_the_letter_back() {
        let posts = mesh(2, 1);
        assert_eq!(posts[0].send(CoreId(1), 'a'), Ok(()));
        assert_eq!(posts[0].send(CoreId(1), 'b'), Err('b'));
        assert_eq!(posts[0].send(CoreId(2), 'c'), Err('c'));
        assert_eq!(posts[1].drain(1, |_, _| ()), 1);
        assert_eq!(posts[0].send(CoreId(1), 'd'), Ok(()));
    }

    #[test]
    fn a_talkative_core_does_not_keep_the_others_waiting() {
        let posts = mesh(3, 64);
        for letter in 0..64 {
            assert_eq!(posts[0].send(CoreId(2), letter), Ok(()));
        }
        assert_eq!(posts[1].send(CoreId(2), 64), Ok(()));
        let mut found = Vec::new();
        posts[2].drain(1, |from, _| found.push(from.0));
        posts[2].drain(1, |from, _| found.push(from.0));
        assert_eq!(found, [0, 1]);
    }

    #[test]
    fn a_letter_may_be_answered_from_within_its_handling() {
        let posts = mesh(2, 4);
        assert_eq!(posts[0].send(CoreId(1), 1), Ok(()));
        posts[1].drain(1, |from, letter| assert_eq!(posts[1].send(from, letter + 1), Ok(())));
        let mut answer = 0;
        posts[0].drain(1, |_, letter| answer = letter);
        assert_eq!(answer, 2);
    }

    proptest! {
        #[test]
        fn letters_keep_their_order_and_none_is_lost(
            steps in prop::collection::vec((0_usize..3, 0_usize..3, 0_usize..4), 1..200)
        ) {
            let posts = mesh(3, 4);
            let mut sent = [[0_u32; 3]; 3];
            let mut found = [[0_u32; 3]; 3];
            for (from, to, budget) in steps {
                if posts[from].send(CoreId(to as u16), sent[from][to]).is_ok() {
                    sent[from][to] += 1;
                }
                posts[to].drain(budget, |sender, letter| {
                    let expected = &mut found[sender.index()][to];
                    assert_eq!(letter, *expected);
                    *expected += 1;
                });
            }
            for (core, post) in posts.iter().enumerate() {
                post.drain(usize::MAX, |sender, _| found[sender.index()][core] += 1);
            }
            prop_assert_eq!(sent, found);
        }
    }
}
