//! The network of a world: connections, listeners, what arrives where.
//!
//! Modelled after Linux as a program sees it: bytes that arrived stay readable after a reset or a
//! shutdown; the error of a reset is told once; closing with unread bytes, and bytes for a closed
//! end, make a reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use super::events::Event;
use super::pipe::End;
use super::trace::Kind;
use super::world::Inner;

/// A connection's number.
pub(crate) type Id = u64;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndId {
    pub(crate) connection: Id,
    pub(crate) side: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

impl EndId {
    pub(crate) fn peer(self) -> Self {
        let side = match self.side {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        Self { side, ..self }
    }

    /// As one number for the trace.
    pub(crate) fn code(self) -> u64 {
        self.connection * 2 + self.side as u64
    }
}

/// What travels.
pub(crate) enum Packet {
    /// A request to connect.
    Attempt(Id),
    /// The answer to it: the connection is there, or was refused.
    Answer(Id, io::Result<()>),
    /// Bytes for an end.
    Data(EndId, Vec<u8>),
    /// The end of the stream, for an end.
    Finish(EndId),
    /// A reset, for an end.
    Reset(EndId),
    /// From now on the connection carries nothing.
    Stall(Id),
}

pub(crate) struct Connection {
    pub(crate) server: SocketAddr,
    pub(crate) ends: [End; 2],
    is_stalled: bool,
}

/// A connection attempt that has not been answered.
pub(crate) struct Attempt {
    pub(crate) to: SocketAddr,
    pub(crate) from: SocketAddr,
    pub(crate) answer: Option<io::Result<()>>,
    pub(crate) waker: Option<Waker>,
}

pub(crate) struct ListenerState {
    pub(crate) address: SocketAddr,
    /// The address of its core, for listeners on any address.
    pub(crate) host: IpAddr,
    pub(crate) backlog: usize,
    pub(crate) queue: VecDeque<(Id, SocketAddr)>,
    pub(crate) waiting: Vec<Waker>,
    pub(crate) is_open: bool,
}

#[derive(Default)]
pub(crate) struct Net {
    pub(crate) connections: BTreeMap<Id, Connection>,
    pub(crate) attempts: BTreeMap<Id, Attempt>,
    pub(crate) listeners: BTreeMap<u64, ListenerState>,
    refused: BTreeSet<SocketAddr>,
    /// Silent hosts, and what is held back.
    stalled: BTreeMap<SocketAddr, Vec<Packet>>,
    number: u64,
}

impl Net {
    /// The next number, of whatever: connection, listener, port.
    pub(crate) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn end(&mut self, id: EndId) -> Option<&mut End> {
        self.connections.get_mut(&id.connection).map(|it| &mut it.ends[id.side as usize])
    }

    pub(crate) fn refuse(&mut self, address: SocketAddr, on: bool) {
        if on {
            self.refused.insert(address);
        } else {
            self.refused.remove(&address);
        }
    }

    pub(crate) fn streams_open(&self) -> usize {
        self.connections.values().flat_map(|it| &it.ends).filter(|end| end.is_held).count()
    }

    pub(crate) fn listeners_open(&self) -> usize {
        self.listeners.len()
    }

    /// The address whose silence holds `packet` back.
    fn host_of(&self, packet: &Packet) -> Option<SocketAddr> {
        match packet {
            Packet::Attempt(id) | Packet::Answer(id, _) => {
                self.attempts.get(id).map(|attempt| attempt.to)
            }
            Packet::Data(id, _) | Packet::Finish(id) | Packet::Reset(id) => {
                self.connections.get(&id.connection).map(|it| it.server)
            }
            Packet::Stall(_) => None,
        }
    }

    /// Whether `packet` belongs to a connection that carries nothing any more.
    fn is_lost(&self, packet: &Packet) -> bool {
        match packet {
            Packet::Data(id, _) | Packet::Finish(id) | Packet::Reset(id) => {
                self.connections.get(&id.connection).is_none_or(|it| it.is_stalled)
            }
            _ => false,
        }
    }

    /// The listeners that `to` may reach.
    fn listening(&self, to: SocketAddr) -> Vec<u64> {
        let matches = |it: &ListenerState| {
            let ip = it.address.ip();
            let is_here = ip == to.ip() || (ip.is_unspecified() && it.host == to.ip());
            it.is_open && it.address.port() == to.port() && is_here
        };
        self.listeners.iter().filter(|(_, it)| matches(it)).map(|(&number, _)| number).collect()
    }
}

impl Inner {
    /// Sends `packet` to an end, not before what was sent to it earlier.
    pub(crate) fn send(&self, net: &mut Net, to: EndId, packet: Packet) {
        let earliest = self.now() + self.network_delay();
        let Some(end) = net.end(to) else { return };
        let at = earliest.max(end.pipe.last_arrival);
        end.pipe.last_arrival = at;
        self.events.borrow_mut().add(at, Event::Packet(packet));
    }

    pub(crate) fn arrive(&self, packet: Packet) {
        let mut net = self.net.borrow_mut();
        if net.is_lost(&packet) {
            return;
        }
        if let Some(host) = net.host_of(&packet)
            && let Some(held) = net.stalled.get_mut(&host)
        {
            held.push(packet);
            self.note(Kind::Hold, u64::from(host.port()), 0);
            return;
        }
        let wakers = match packet {
            Packet::Attempt(id) => self.attempt(&mut net, id),
            Packet::Answer(id, answer) => self.answer(&mut net, id, answer),
            Packet::Data(to, bytes) => self.data(&mut net, to, &bytes),
            Packet::Finish(to) => self.finish(&mut net, to),
            Packet::Reset(to) => self.reset(&mut net, to),
            Packet::Stall(id) => {
                if let Some(connection) = net.connections.get_mut(&id) {
                    connection.is_stalled = true;
                    self.note(Kind::Hold, id, 1);
                }
                Vec::new()
            }
        };
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A request to connect reaches its host.
    fn attempt(&self, net: &mut Net, id: Id) -> Vec<Waker> {
        let Some(attempt) = net.attempts.get(&id) else {
            return Vec::new();
        };
        let (to, from) = (attempt.to, attempt.from);
        let faults = &self.options.faults;
        if self.generator().happens(faults.connect_stall_ratio) {
            self.note(Kind::Hold, id, 2);
            return Vec::new();
        }
        let listening = net.listening(to);
        let is_refused = listening.is_empty()
            || net.refused.contains(&to)
            || self.generator().happens(faults.refuse_ratio);
        if is_refused {
            self.note(Kind::Refuse, id, 0);
            let refused = Err(io::ErrorKind::ConnectionRefused.into());
            self.after(self.network_delay(), Event::Packet(Packet::Answer(id, refused)));
            return Vec::new();
        }
        let chosen = listening[self.generator().below(listening.len() as u64) as usize];
        let Some(listener) = net.listeners.get_mut(&chosen) else {
            return Vec::new();
        };
        if listener.queue.len() >= listener.backlog {
            // A full backlog drops the request, as Linux does: the attempt hears nothing.
            self.note(Kind::Hold, id, 3);
            return Vec::new();
        }
        listener.queue.push_back((id, from));
        let wakers = std::mem::take(&mut listener.waiting);
        let ends = [End::new(), End::new()];
        net.connections.insert(id, Connection { server: to, ends, is_stalled: false });
        self.note(Kind::Establish, id, chosen);
        self.after(self.network_delay(), Event::Packet(Packet::Answer(id, Ok(()))));
        self.plan_faults(id);
        wakers
    }

    /// Draws what will go wrong with a connection, and when.
    fn plan_faults(&self, id: Id) {
        let faults = &self.options.faults;
        if self.generator().happens(faults.reset_ratio) {
            let span = self.between(Duration::ZERO, faults.within);
            for side in [Side::Client, Side::Server] {
                self.after(span, Event::Packet(Packet::Reset(EndId { connection: id, side })));
            }
        }
        if self.generator().happens(faults.stall_ratio) {
            let span = self.between(Duration::ZERO, faults.within);
            self.after(span, Event::Packet(Packet::Stall(id)));
        }
    }

    fn answer(&self, net: &mut Net, id: Id, answer: io::Result<()>) -> Vec<Waker> {
        let Some(attempt) = net.attempts.get_mut(&id) else {
            // The attempt was given up; a connection that comes of it is closed.
            self.close(net, EndId { connection: id, side: Side::Client });
            return Vec::new();
        };
        attempt.answer = Some(answer);
        attempt.waker.take().into_iter().collect()
    }

    fn data(&self, net: &mut Net, to: EndId, bytes: &[u8]) -> Vec<Waker> {
        self.note(Kind::Data, to.code(), bytes.len() as u64);
        let Some(end) = net.end(to) else {
            return Vec::new();
        };
        end.pipe.in_flight_bytes -= bytes.len();
        if end.is_closed {
            self.send(net, to.peer(), Packet::Reset(to.peer()));
            return Vec::new();
        }
        if end.is_reset {
            return Vec::new();
        }
        end.pipe.arrived.extend(bytes);
        end.pipe.reader.take().into_iter().collect()
    }

    fn finish(&self, net: &mut Net, to: EndId) -> Vec<Waker> {
        self.note(Kind::Finish, to.code(), 0);
        let Some(end) = net.end(to) else {
            return Vec::new();
        };
        end.pipe.is_finished = true;
        end.pipe.reader.take().into_iter().collect()
    }

    fn reset(&self, net: &mut Net, to: EndId) -> Vec<Waker> {
        let Some(end) = net.end(to) else {
            return Vec::new();
        };
        if end.is_reset || end.is_closed {
            return Vec::new();
        }
        self.note(Kind::Reset, to.code(), 0);
        end.is_reset = true;
        end.error = Some(io::ErrorKind::ConnectionReset);
        let mut wakers: Vec<_> = end.pipe.reader.take().into_iter().collect();
        // Who writes from this end waits at the peer's pipe.
        wakers.extend(net.end(to.peer()).and_then(|peer| peer.pipe.writer.take()));
        wakers
    }

    /// `shutdown(2)`.
    pub(crate) fn shutdown(&self, id: EndId, how: Shutdown) {
        if self.is_over.get() {
            return;
        }
        let mut net = self.net.borrow_mut();
        let Some(end) = net.end(id) else { return };
        let mut wakers = Vec::new();
        if how != Shutdown::Write {
            end.is_read_shut = true;
            wakers.extend(end.pipe.reader.take());
        }
        if how != Shutdown::Read && !end.is_write_shut {
            end.is_write_shut = true;
            if !end.is_reset {
                self.send(&mut net, id.peer(), Packet::Finish(id.peer()));
            }
            wakers.extend(net.end(id.peer()).and_then(|peer| peer.pipe.writer.take()));
        }
        drop(net);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// `close(2)`.
    pub(crate) fn close(&self, net: &mut Net, id: EndId) {
        let Some(end) = net.end(id) else { return };
        if end.is_closed {
            return;
        }
        self.note(Kind::Close, id.code(), 0);
        let has_unread = !end.pipe.arrived.is_empty();
        let (is_reset, is_write_shut) = (end.is_reset, end.is_write_shut);
        end.is_closed = true;
        end.is_held = false;
        if has_unread && !is_reset {
            self.send(net, id.peer(), Packet::Reset(id.peer()));
        } else if !is_reset && !is_write_shut {
            self.send(net, id.peer(), Packet::Finish(id.peer()));
        }
        if net.end(id.peer()).is_none_or(|peer| peer.is_closed) {
            net.connections.remove(&id.connection);
        }
    }

    pub(crate) fn stall(&self, address: SocketAddr, on: bool) {
        let mut net = self.net.borrow_mut();
        if on {
            net.stalled.entry(address).or_default();
            return;
        }
        let held = net.stalled.remove(&address).unwrap_or_default();
        for packet in held {
            self.after(Duration::ZERO, Event::Packet(packet));
        }
    }

    pub(crate) fn reset_all(&self, address: SocketAddr) {
        let net = self.net.borrow();
        let of_address = net.connections.iter().filter(|(_, it)| it.server == address);
        for (&connection, _) in of_address {
            for side in [Side::Client, Side::Server] {
                let packet = Packet::Reset(EndId { connection, side });
                self.after(Duration::ZERO, Event::Packet(packet));
            }
        }
    }
}
