//! One lane: a bounded queue from one core to one other, without a lock. The one file with
//! `unsafe`.
//!
//! A ring of slots and two counters that only rise: `sent` is written by the sender alone, `taken`
//! by the receiver alone, each on a cache line of its own, and each end keeps a copy of the other's
//! counter that it refreshes only when the copy says full, or empty (Lamport's queue with the index
//! caching of Lee, Bu and Chandranmenon, "MCRingBuffer", 2010). A full lane hands the letter back
//! at once. Both ends take `&self`, so that a letter may be answered from within its own handling;
//! they are not `Sync`, so each is still used by one thread at a time.
//!
//! Checked by `lane_survives_a_stress` in ordinary tests, and in every order of memory operations
//! by `RUSTFLAGS="--cfg loom" cargo test -p shards --release mailbox`.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::{cell::UnsafeCell, sync::Arc, sync::atomic::AtomicUsize};
#[cfg(not(loom))]
use std::sync::{Arc, atomic::AtomicUsize};

/// A lane that holds at most `capacity` letters (1..=2^20), all allocated here.
///
/// # Panics
/// If the capacity is out of bounds: a mistake at start-up.
pub fn lane<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!((1..=1 << 20).contains(&capacity), "a lane of {capacity} letters");
    let slots = (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
    let ring = Arc::new(Ring {
        slots: slots.collect(),
        capacity,
        sent: CachePadded::new(AtomicUsize::new(0)),
        taken: CachePadded::new(AtomicUsize::new(0)),
    });
    let sender = Sender { ring: Arc::clone(&ring), sent: Cell::new(0), taken: Cell::new(0) };
    (sender, Receiver { ring, sent: Cell::new(0), taken: Cell::new(0) })
}

/// The end that sends; moves to its thread and stays there.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    sent: Cell<usize>,
    /// A copy of the receiver's counter, never ahead of it.
    taken: Cell<usize>,
}

/// The end that receives; moves to its thread and stays there.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    /// A copy of the sender's counter, never ahead of it.
    sent: Cell<usize>,
    taken: Cell<usize>,
}

/// Slots `taken..sent`, modulo their number (a power of two), hold letters; the others do not.
struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    capacity: usize,
    sent: CachePadded<AtomicUsize>,
    taken: CachePadded<AtomicUsize>,
}

// SAFETY: a slot is touched by the sender only while it is free and by the receiver only while it
// holds a letter; the release store of a counter and the acquire load of it hand it over, so no
// slot is ever touched by two threads at once. Letters change threads, hence `T: Send`. Held to it
// by `loom_models::*`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; the ring owns its letters.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Sender<T> {
    /// Puts a letter into the lane.
    ///
    /// # Errors
    /// The letter itself, if the lane is full.
    pub fn push(&self, letter: T) -> Result<(), T> {
        let sent = self.sent.get();
        if sent.wrapping_sub(self.taken.get()) >= self.ring.capacity {
            // Acquire: what the receiver read from the slots it freed happened before.
            self.taken.set(self.ring.taken.load(Ordering::Acquire));
            if sent.wrapping_sub(self.taken.get()) >= self.ring.capacity {
                return Err(letter);
            }
        }
        self.ring.slot(sent).with_mut(|slot| {
            // SAFETY: fewer than `capacity` letters are in the lane, so slot `sent` is free and the
            // receiver does not touch it before the store below. This is the only sender.
            unsafe { (*slot).write(letter) };
        });
        let sent = sent.wrapping_add(1);
        self.sent.set(sent);
        // Release: the letter is written before the receiver can see it.
        self.ring.sent.store(sent, Ordering::Release);
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// The oldest letter in the lane.
    pub fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let taken = self.taken.get();
        let letter = self.ring.slot(taken).with(|slot| {
            // SAFETY: `taken` is before `sent`, so the slot holds a letter whose writing the
            // acquire load in `is_empty` has seen; the counter moves on, so it is read out once
            // only.
            unsafe { (*slot).assume_init_read() }
        });
        let taken = taken.wrapping_add(1);
        self.taken.set(taken);
        // Release: the letter is read out before the sender can use the slot again.
        self.ring.taken.store(taken, Ordering::Release);
        Some(letter)
    }

    /// Whether there is no letter in the lane; a letter sent before this call is seen once its
    /// sender's thread was synchronised with, as by its bell.
    pub fn is_empty(&self) -> bool {
        if self.sent.get() == self.taken.get() {
            // Acquire: pairs with the release store in `push`.
            self.sent.set(self.ring.sent.load(Ordering::Acquire));
        }
        self.sent.get() == self.taken.get()
    }
}

impl<T> Ring<T> {
    fn slot(&self, counter: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // The length is a power of two, so the counter may wrap around `usize`.
        &self.slots[counter & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    /// Drops the letters that nobody took.
    fn drop(&mut self) {
        let (mut taken, sent) =
            (self.taken.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed));
        debug_assert!(sent.wrapping_sub(taken) <= self.capacity);
        while taken != sent {
            self.slot(taken).with_mut(|slot| {
                // SAFETY: both ends are gone (`&mut self`), and slots `taken..sent` hold letters.
                unsafe { (*slot).assume_init_drop() };
            });
            taken = taken.wrapping_add(1);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("taken", &self.taken).finish_non_exhaustive()
    }
}

/// The standard cell under the interface that loom's has.
#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// Pushes `letters` into a lane of `capacity`: how many fit?
    fn check(capacity: usize, letters: u32, expected: u32) {
        let (sender, receiver) = lane(capacity);
        assert!(receiver.is_empty());
        let fit = (0..letters).filter(|letter| sender.push(*letter) == Ok(())).count();
        assert_eq!(fit, expected as usize, "of {letters} into {capacity}");
        assert!((0..expected).all(|letter| receiver.pop() == Some(letter)));
        assert_eq!(receiver.pop(), None);
    }

    #[test]
    fn a_full_lane_hands_the_letter_back() {
        for (capacity, letters, expected) in
            [(1, 0, 0), (1, 2, 1), (2, 3, 2), (3, 3, 3), (3, 9, 3), (64, 65, 64)]
        {
            check(capacity, letters, expected);
        }
        let (sender, receiver) = lane(1);
        assert_eq!(sender.push("first"), Ok(()));
        assert_eq!(sender.push("second"), Err("second"));
        assert_eq!(receiver.pop(), Some("first"));
        assert_eq!(sender.push("third"), Ok(()));
    }

    #[test]
    fn letters_nobody_took_are_dropped_with_the_lane() {
        let letter = Rc::new(());
        let (sender, receiver) = lane(4);
        for _ in 0..3 {
            assert!(sender.push(Rc::clone(&letter)).is_ok());
        }
        drop(receiver.pop());
        assert_eq!(Rc::strong_count(&letter), 3);
        drop(sender);
        assert!(!receiver.is_empty(), "the other end outlives it");
        drop(receiver);
        assert_eq!(Rc::strong_count(&letter), 1);
    }

    #[test]
    fn lane_survives_a_stress() {
        const LETTERS: u64 = 200_000;
        let (sender, receiver) = lane(7);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..LETTERS {
                    // Boxed, so that a letter read twice or not at all is a crash or a leak.
                    let mut letter = Box::new(number);
                    while let Err(back) = sender.push(letter) {
                        letter = back;
                        std::thread::yield_now();
                    }
                }
            });
            for expected in 0..LETTERS {
                let letter = loop {
                    match receiver.pop() {
                        Some(letter) => break letter,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(*letter, expected);
            }
        });
    }

    proptest! {
        #[test]
        fn a_lane_is_a_bounded_queue(capacity in 1_usize..9, pushes: Vec<bool>) {
            let (sender, receiver) = lane(capacity);
            let mut model = VecDeque::new();
            for (number, is_push) in pushes.into_iter().enumerate() {
                if is_push {
                    let has_room = model.len() < capacity;
                    prop_assert_eq!(sender.push(number).is_ok(), has_room);
                    if has_room {
                        model.push_back(number);
                    }
                } else {
                    prop_assert_eq!(receiver.pop(), model.pop_front());
                }
                prop_assert_eq!(receiver.is_empty(), model.is_empty());
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::thread;

    /// One thread pushes `letters` one after the other, spinning when the lane is full; this one
    /// takes them. Boxed, so that loom sees a letter that is lost or read twice.
    fn check(capacity: usize, letters: u32) {
        loom::model(move || {
            let (sender, receiver) = lane(capacity);
            let pushing = thread::spawn(move || {
                for number in 0..letters {
                    let mut letter = Box::new(number);
                    while let Err(back) = sender.push(letter) {
                        letter = back;
                        thread::yield_now();
                    }
                }
            });
            for expected in 0..letters {
                let letter = loop {
                    match receiver.pop() {
                        Some(letter) => break letter,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(*letter, expected);
            }
            assert!(receiver.pop().is_none());
            assert!(pushing.join().is_ok());
        });
    }

    #[test]
    fn letters_arrive_once_and_in_order() {
        check(1, 3);
        check(2, 3);
        check(3, 3);
    }

    #[test]
    fn a_refused_letter_is_not_in_the_lane() {
        loom::model(|| {
            let (sender, receiver) = lane(1);
            let pushing = thread::spawn(move || (0..3).filter(|n| sender.push(*n).is_ok()).count());
            let mut taken = usize::from(receiver.pop().is_some());
            taken += usize::from(receiver.pop().is_some());
            let pushed = pushing.join();
            while receiver.pop().is_some() {
                taken += 1;
            }
            assert_eq!(pushed.ok(), Some(taken));
        });
    }

    #[test]
    fn either_end_may_go_first() {
        loom::model(|| {
            let (sender, receiver) = lane(2);
            let letter = Arc::new(());
            let copy = Arc::clone(&letter);
            let pushing = thread::spawn(move || drop(sender.push(copy)));
            drop(receiver.pop());
            drop(receiver);
            assert!(pushing.join().is_ok());
            assert_eq!(Arc::strong_count(&letter), 1);
        });
    }
}
