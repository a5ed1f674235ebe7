//! Connections in a world, as a program holds them.

use std::cell::Cell;
use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::net::{EndId, Packet};
use super::trace::Kind;
use super::world::Inner;

/// A connection.
#[derive(Clone)]
pub(crate) struct Stream(Rc<Handle>);

pub(crate) struct Handle {
    world: Rc<Inner>,
    id: EndId,
    is_reading: Cell<bool>,
    is_writing: Cell<bool>,
    is_abandoned: Cell<bool>,
}

/// The two directions, as a program sees them.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl Stream {
    /// Takes hold of an end.
    pub(crate) fn hold(world: Rc<Inner>, id: EndId) -> Self {
        if let Some(end) = world.net.borrow_mut().end(id) {
            end.is_held = true;
        }
        let (is_reading, is_writing) = (Cell::new(false), Cell::new(false));
        let is_abandoned = Cell::new(false);
        Self(Rc::new(Handle { world, id, is_reading, is_writing, is_abandoned }))
    }

    pub(crate) async fn read(self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        if buffer.capacity() == buffer.len() {
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        let Some(operation) = self.begin(Direction::Read) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), buffer);
        };
        let result = std::future::poll_fn(|context| self.0.poll_read(context, &mut buffer)).await;
        self.0.flag(Direction::Read).set(false);
        operation.end();
        (result, buffer)
    }

    pub(crate) async fn write_all(self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let Some(operation) = self.begin(Direction::Write) else {
            return (Err(io::ErrorKind::ResourceBusy.into()), bytes);
        };
        let mut from = 0;
        let result =
            std::future::poll_fn(|context| self.0.poll_write(context, &bytes, &mut from)).await;
        self.0.flag(Direction::Write).set(false);
        operation.end();
        (result, bytes)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        self.0.world.shutdown(self.0.id, how);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_reading.get() || self.0.is_writing.get()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let mut net = self.0.world.net.borrow_mut();
        let Some(end) = net.end(self.0.id) else {
            return false;
        };
        let is_over = end.pipe.is_finished || end.is_read_shut || end.is_reset;
        !self.is_busy() && !is_over && end.error.is_none() && end.pipe.arrived.is_empty()
    }

    /// Makes a pending read return `Interrupted` and leaves what arrives where it is.
    pub(crate) fn abandon_read(&self) {
        self.0.is_abandoned.set(true);
        let mut net = self.0.world.net.borrow_mut();
        let reader = net.end(self.0.id).and_then(|end| end.pipe.reader.take());
        drop(net);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn begin(&self, direction: Direction) -> Option<Operation> {
        if self.0.flag(direction).replace(true) {
            return None;
        }
        Some(Operation::begin(self.0.world.clone(), Some(self.clone())))
    }
}

impl Handle {
    fn flag(&self, direction: Direction) -> &Cell<bool> {
        match direction {
            Direction::Read => &self.is_reading,
            Direction::Write => &self.is_writing,
        }
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let world = &self.world;
        if self.is_abandoned.replace(false) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        let mut net = world.net.borrow_mut();
        let Some(end) = net.end(self.id) else {
            return Poll::Ready(Ok(0));
        };
        let spare_bytes = buffer.capacity() - buffer.len();
        let count = self.cut(spare_bytes.min(end.pipe.arrived.len()), Direction::Read);
        if count > 0 {
            end.pipe.take(count, buffer);
            world.note(Kind::Read, self.id.code(), count as u64);
            let writer = end.pipe.writer.take();
            drop(net);
            if let Some(writer) = writer {
                writer.wake();
            }
            return Poll::Ready(Ok(count));
        }
        if let Some(error) = end.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        if end.pipe.is_finished || end.is_read_shut || end.is_reset {
            return Poll::Ready(Ok(0));
        }
        end.pipe.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
        from: &mut usize,
    ) -> Poll<io::Result<()>> {
        let world = &self.world;
        let mut net = world.net.borrow_mut();
        let peer = self.id.peer();
        while let Some(rest) = bytes.get(*from..).filter(|rest| !rest.is_empty()) {
            let broken = || Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            let Some(end) = net.end(self.id) else {
                return broken();
            };
            if let Some(error) = end.error.take() {
                return Poll::Ready(Err(error.into()));
            }
            if end.is_write_shut || end.is_reset {
                return broken();
            }
            let Some(other) = net.end(peer) else {
                return broken();
            };
            let room_bytes = other.pipe.room(world.options.socket_buffer_bytes);
            if room_bytes == 0 {
                other.pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = self.cut(rest.len().min(room_bytes), Direction::Write);
            other.pipe.in_flight_bytes += count;
            let segment = rest.get(..count).unwrap_or(rest).to_vec();
            world.send(&mut net, peer, Packet::Data(peer, segment));
            world.note(Kind::Write, self.id.code(), count as u64);
            *from += count;
        }
        Poll::Ready(Ok(()))
    }

    /// How many of `count` bytes go now, by the world's faults. Never 0 of more.
    fn cut(&self, count: usize, direction: Direction) -> usize {
        let (faults, generator) = (&self.world.options.faults, self.world.generator());
        if count < 2 {
            return count;
        }
        if matches!(direction, Direction::Read) && generator.happens(faults.short_read_ratio) {
            return 1;
        }
        if generator.happens(faults.split_ratio) {
            return 1 + generator.below(count as u64) as usize;
        }
        count
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.world.is_over.get() {
            self.world.close(&mut self.world.net.borrow_mut(), self.id);
        }
    }
}

/// An operation in flight. Dropped before its end, which the contract forbids, it is counted and
/// its connection shut down, as the real backends do.
pub(crate) struct Operation {
    world: Rc<Inner>,
    stream: Option<Stream>,
    has_ended: bool,
}

impl Operation {
    pub(crate) fn begin(world: Rc<Inner>, stream: Option<Stream>) -> Self {
        world.operations_in_flight.set(world.operations_in_flight.get() + 1);
        Self { world, stream, has_ended: false }
    }

    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let world = &self.world;
        world.operations_in_flight.set(world.operations_in_flight.get() - 1);
        if self.has_ended || world.is_over.get() {
            return;
        }
        world.operations_dropped.set(world.operations_dropped.get() + 1);
        if let Some(stream) = &self.stream {
            stream.shutdown(Shutdown::Both);
        }
    }
}
