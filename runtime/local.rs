//! Waiting for one another within a core, on any reactor: an event, a channel, a one-shot, a
//! timeout, the first of two. No I/O, no thread: plain cells and wakers.
//!
//! Everything here is safe to drop half-way. I/O futures are not, so they must never be given to
//! `timeout` or `select2`: bound them by a deadline, or `shutdown` and await.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::{Deadline, Reactor};

/// Something that happens once and stays happened. A cheap handle.
#[derive(Clone, Default)]
pub struct Event(Rc<EventInner>);

#[derive(Default)]
struct EventInner {
    is_set: Cell<bool>,
    /// Who waits, by a number of its own, so that who gives up can be forgotten: an event that
    /// never happens (a drain) is waited for by every connection.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    number: Cell<u64>,
}

impl Event {
    /// An event that has not happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets it happen; everyone waiting goes on, in the order in which they came. Idempotent.
    pub fn set(&self) {
        self.0.is_set.set(true);
        let waiting = self.0.waiting.take();
        waiting.into_values().for_each(Waker::wake);
    }

    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        self.0.is_set.get()
    }

    /// Returns once it has happened. Holds a handle of its own, so it borrows nothing.
    ///
    /// # Cancel
    /// Safe: dropping it forgets the wait.
    pub fn wait(&self) -> Waiting {
        Waiting { event: self.clone(), number: None }
    }
}

/// Ready once its event has happened.
pub struct Waiting {
    event: Event,
    number: Option<u64>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.event.is_set() {
            return Poll::Ready(());
        }
        let event = self.event.0.clone();
        let number = *self.number.get_or_insert_with(|| {
            event.number.set(event.number.get() + 1);
            event.number.get()
        });
        let mut waiting = event.waiting.borrow_mut();
        match waiting.get_mut(&number) {
            Some(waker) => waker.clone_from(context.waker()),
            None => drop(waiting.insert(number, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.event.0.waiting.borrow_mut().remove(&number);
            // Outside the borrow: the last reference to a task may go with it.
            drop(waker);
        }
    }
}

struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    max: usize,
    senders: Cell<usize>,
    is_received: Cell<bool>,
    receiving: RefCell<Option<Waker>>,
}

/// The sending end of a channel; cloned freely within its core.
pub struct Sender<T>(Rc<Queue<T>>);

/// The receiving end of a channel.
pub struct Receiver<T>(Rc<Queue<T>>);

/// A channel that holds at most `max` items (1 at least).
pub fn channel<T>(max: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Rc::new(Queue {
        items: RefCell::default(),
        max: max.max(1),
        senders: Cell::new(1),
        is_received: Cell::new(true),
        receiving: RefCell::default(),
    });
    (Sender(queue.clone()), Receiver(queue))
}

impl<T> Queue<T> {
    fn wake(&self) {
        let waker = self.receiving.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Sender<T> {
    /// Puts `item` at the end.
    ///
    /// # Errors
    /// Gives `item` back if the channel is full or the receiver is gone.
    pub fn try_send(&self, item: T) -> Result<(), T> {
        let mut items = self.0.items.borrow_mut();
        if items.len() >= self.0.max || !self.0.is_received.get() {
            return Err(item);
        }
        items.push_back(item);
        drop(items);
        self.0.wake();
        Ok(())
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let left = self.0.senders.get() - 1;
        self.0.senders.set(left);
        if left == 0 {
            self.0.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The oldest item; `None` once all senders are gone and nothing is left.
    ///
    /// # Cancel
    /// Safe: no item is taken unless it is given.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// The oldest item if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.items.borrow_mut().pop_front()
    }

    /// As `recv`, for those who poll by hand.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(item) = self.try_recv() {
            return Poll::Ready(Some(item));
        }
        if self.0.senders.get() == 0 {
            return Poll::Ready(None);
        }
        *self.0.receiving.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.is_received.set(false);
        // Outside the borrow: an item's destructor may reach this channel again.
        let items = self.0.items.take();
        drop(items);
    }
}

/// The sending end of a one-shot; used up by sending.
pub struct OnceSender<T>(Sender<T>);

/// The receiving end of a one-shot: a future of the item, or `None` if the sender was dropped.
pub struct OnceReceiver<T>(Receiver<T>);

/// A channel for one item.
pub fn oneshot<T>() -> (OnceSender<T>, OnceReceiver<T>) {
    let (sender, receiver) = channel(1);
    (OnceSender(sender), OnceReceiver(receiver))
}

impl<T> OnceSender<T> {
    /// Hands `item` over.
    ///
    /// # Errors
    /// Gives it back if the receiver is gone.
    pub fn send(self, item: T) -> Result<(), T> {
        self.0.try_send(item)
    }

    /// Whether the receiver is gone, so that making the item is of no use.
    pub fn is_unwanted(&self) -> bool {
        !self.0.0.is_received.get()
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

/// The deadline passed first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

/// Awaits `future` until `deadline`, then drops it. Only for futures that are safe to drop:
/// channels, events, timers, never I/O.
///
/// # Errors
/// `Elapsed` once the deadline passed; a future that is ready at the same time wins.
///
/// # Cancel
/// As `future`.
pub async fn timeout<F: Future>(
    reactor: &Reactor,
    deadline: Deadline,
    future: F,
) -> Result<F::Output, Elapsed> {
    match select2(future, reactor.sleep_until(deadline.instant())).await {
        Either::Left(output) => Ok(output),
        Either::Right(()) => Err(Elapsed),
    }
}

/// One of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// The first of two futures to be ready; the first argument wins a draw. The other is dropped, so
/// both must be safe to drop (or be borrowed: `&mut` of something pinned).
///
/// # Cancel
/// As the two.
pub async fn select2<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        second.as_mut().poll(context).map(Either::Right)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_event_is_latched_for_all_waiters() {
        let event = Event::new();
        let (mut before, mut other) = (pin!(event.wait()), pin!(event.wait()));
        assert!(poll(before.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
        event.set();
        assert!(poll(before).is_ready() && poll(other).is_ready());
        assert!(poll(pin!(event.wait())).is_ready());
    }

    #[test]
    fn who_gives_up_waiting_is_forgotten() {
        let event = Event::new();
        for _ in 0..1_000 {
            let mut waiting = Box::pin(event.wait());
            assert!(poll(waiting.as_mut()).is_pending() && poll(waiting.as_mut()).is_pending());
            assert_eq!(event.0.waiting.borrow().len(), 1);
        }
        assert_eq!(event.0.waiting.borrow().len(), 0);
    }

    #[test]
    fn a_full_channel_gives_the_item_back() {
        let (sender, mut receiver) = channel(2);
        assert_eq!([1, 2, 3].map(|item| sender.try_send(item)), [Ok(()), Ok(()), Err(3)]);
        assert_eq!(poll(pin!(receiver.recv())), Poll::Ready(Some(1)));
        assert_eq!(sender.try_send(4), Ok(()));
        assert_eq!(sender.len(), 2);
    }

    #[test]
    fn a_channel_ends_after_the_last_sender_and_item() {
        let (sender, mut receiver) = channel(2);
        let other = sender.clone();
        drop(sender);
        assert_eq!(other.try_send(1), Ok(()));
        drop(other);
        assert_eq!(poll(pin!(receiver.recv())), Poll::Ready(Some(1)));
        assert_eq!(poll(pin!(receiver.recv())), Poll::Ready(None));
    }

    #[test]
    fn sending_to_nobody_gives_the_item_back() {
        let (sender, receiver) = channel(2);
        drop(receiver);
        assert_eq!(sender.try_send(1), Err(1));
        let (sender, receiver) = oneshot();
        assert!(!sender.is_unwanted());
        drop(receiver);
        assert!(sender.is_unwanted());
        assert_eq!(sender.send(1), Err(1));
    }

    #[test]
    fn a_oneshot_tells_that_its_sender_is_gone() {
        let (sender, receiver) = oneshot::<u32>();
        let mut receiver = pin!(receiver);
        assert!(poll(receiver.as_mut()).is_pending());
        drop(sender);
        assert_eq!(poll(receiver), Poll::Ready(None));
    }

    #[test]
    fn the_first_of_two_wins_a_draw() {
        let both = pin!(select2(async { 1 }, async { 2 }));
        assert_eq!(poll(both), Poll::Ready(Either::Left(1)));
        let second = pin!(select2(std::future::pending::<()>(), async { 2 }));
        assert_eq!(poll(second), Poll::Ready(Either::Right(2)));
    }
}
