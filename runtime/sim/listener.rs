//! Listening in a world.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use super::net::{EndId, ListenerState, Side};
use super::stream::{Operation, Stream};
use super::world::Inner;

/// The first port given to those who ask for any; below the ephemeral ones.
const ANY_PORT_FIRST: u64 = 10_000;
const ANY_PORT_COUNT: u64 = 20_000;

/// Too many open files, as Linux numbers it.
const EMFILE: i32 = 24;

/// A listening socket.
#[derive(Clone)]
pub(crate) struct Listener(Rc<Handle>);

struct Handle {
    world: Rc<Inner>,
    number: u64,
    address: SocketAddr,
}

impl Listener {
    pub(crate) fn open(
        world: Rc<Inner>,
        core: usize,
        at: SocketAddr,
        backlog: u32,
    ) -> io::Result<Self> {
        let host = world.exec.borrow().cores[core].address;
        if at.ip() != host && !at.ip().is_unspecified() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut net = world.net.borrow_mut();
        let number = net.number();
        let mut address = at;
        if at.port() == 0 {
            // Below 2^16 by the constants above.
            address.set_port((ANY_PORT_FIRST + number % ANY_PORT_COUNT) as u16);
        }
        let state = ListenerState {
            address,
            host,
            backlog: backlog as usize,
            queue: Default::default(),
            waiting: Vec::new(),
            is_open: true,
        };
        net.listeners.insert(number, state);
        drop(net);
        Ok(Self(Rc::new(Handle { world, number, address })))
    }

    pub(crate) async fn accept(self) -> io::Result<(Stream, SocketAddr)> {
        let world = &self.0.world;
        let operation = Operation::begin(world.clone(), None);
        let result = std::future::poll_fn(|context| {
            let mut net = world.net.borrow_mut();
            let closed = || Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
            let Some(listener) = net.listeners.get_mut(&self.0.number) else {
                return closed();
            };
            if !listener.is_open {
                return closed();
            }
            if listener.queue.is_empty() {
                if !listener.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    listener.waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            }
            if world.generator().happens(world.options.faults.accept_error_ratio) {
                return Poll::Ready(Err(io::Error::from_raw_os_error(EMFILE)));
            }
            match listener.queue.pop_front() {
                Some(accepted) => Poll::Ready(Ok(accepted)),
                None => Poll::Pending,
            }
        })
        .await;
        operation.end();
        let (connection, peer) = result?;
        Ok((Stream::hold(world.clone(), EndId { connection, side: Side::Server }), peer))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub(crate) fn shutdown(&self) {
        self.0.shutdown();
    }
}

impl Handle {
    fn shutdown(&self) {
        let world = &self.world;
        if world.is_over.get() {
            return;
        }
        let mut net = world.net.borrow_mut();
        let Some(listener) = net.listeners.get_mut(&self.number) else {
            return;
        };
        listener.is_open = false;
        let waiting = std::mem::take(&mut listener.waiting);
        // Connections that nobody accepted are reset, as Linux does.
        for (connection, _) in std::mem::take(&mut listener.queue) {
            let server = EndId { connection, side: Side::Server };
            world.send(&mut net, server.peer(), super::net::Packet::Reset(server.peer()));
            world.close(&mut net, server);
        }
        drop(net);
        waiting.into_iter().for_each(|waker| waker.wake());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shutdown();
        if !self.world.is_over.get() {
            self.world.net.borrow_mut().listeners.remove(&self.number);
        }
    }
}
