//! Connecting in a world: a request travels, an answer travels back, or the deadline passes.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::events::{Event, Sleep};
use super::net::{Attempt, EndId, Id, Packet, Side};
use super::stream::{Operation, Stream};
use super::world::Inner;
use crate::Deadline;

/// The first ephemeral port; they go round at the end.
const EPHEMERAL_FIRST: u64 = 32_768;
const EPHEMERAL_COUNT: u64 = 28_232;

pub(crate) async fn connect(
    world: Rc<Inner>,
    core: usize,
    to: SocketAddr,
    from: Option<IpAddr>,
    deadline: Deadline,
) -> io::Result<Stream> {
    if deadline.passed(world.now()) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let operation = Operation::begin(world.clone(), None);
    let attempt = Attempting { id: begin(&world, core, to, from), world: world.clone() };
    let timers = world.exec.borrow().cores[core].timers;
    let mut alarm = pin!(Sleep::new(world.clone(), deadline.instant(), timers));
    let result = std::future::poll_fn(|context| {
        if let Poll::Ready(answer) = attempt.poll(context) {
            return Poll::Ready(answer);
        }
        alarm.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await;
    operation.end();
    result.map(|()| Stream::hold(world, EndId { connection: attempt.id, side: Side::Client }))
}

fn begin(world: &Rc<Inner>, core: usize, to: SocketAddr, from: Option<IpAddr>) -> Id {
    let host = world.exec.borrow().cores[core].address;
    let mut net = world.net.borrow_mut();
    let id = net.number();
    let port = EPHEMERAL_FIRST + id % EPHEMERAL_COUNT;
    // Below 2^16 by the constants above.
    let from = SocketAddr::new(from.unwrap_or(host), port as u16);
    net.attempts.insert(id, Attempt { to, from, answer: None, waker: None });
    world.after(world.network_delay(), Event::Packet(Packet::Attempt(id)));
    id
}

/// An attempt that is forgotten when this is dropped.
struct Attempting {
    world: Rc<Inner>,
    id: Id,
}

impl Attempting {
    fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut net = self.world.net.borrow_mut();
        let Some(attempt) = net.attempts.get_mut(&self.id) else {
            return Poll::Pending;
        };
        match attempt.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                attempt.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Attempting {
    fn drop(&mut self) {
        self.world.net.borrow_mut().attempts.remove(&self.id);
    }
}
