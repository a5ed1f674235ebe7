//! A simulated engine: SearXNG-shaped answers of three short results, after a latency by its law.
//! It hears a caller hang up, so that cancelled calls stop costing it; with slots, calls beyond
//! them queue. An answer is a prepared text around the question, which it repeats as SearXNG does.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::{Shutdown, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use memchr::memmem;
use runtime::local::{Either, Event, select2};
use runtime::{Instant, Reactor, Stream};

use super::chance::{Chance, mix};
use super::law::{Law, States, normal_at};

/// A request to an engine is far below it.
const REQUEST_BYTES_MAX: usize = 4 * 1024;

/// Connections completed ahead of `accept`.
const BACKLOG: u32 = 4_096;

/// How an engine's latency comes about.
#[derive(Clone, Debug)]
pub enum Pace {
    /// One law at all times.
    Steady(Law),
    /// Two states, `speed` times as long, in episodes.
    Episodes {
        /// The laws of the states.
        states: States,
        /// What every time is multiplied by.
        speed: f64,
        /// How long a slow episode lasts on average.
        episode: Duration,
        /// The share of time in episodes of its own; the rest is common to all engines.
        own_ratio: f64,
        /// The share of the logarithm's variance that belongs to the question.
        shared_variance: f64,
    },
}

/// What befalls an engine for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Its pages are empty.
    Empty,
    /// It takes that many times as long.
    Times(f64),
    /// It takes that much longer.
    Plus(Duration),
    /// It closes connections instead of answering.
    Dead,
    /// Dead and alive in turn, for that long each.
    Flapping(Duration),
}

/// From when to when, after the start of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// From then on.
    pub from: Duration,
    /// Until then.
    pub until: Duration,
    /// What befalls it.
    pub effect: Effect,
}

/// What an engine is.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Its latency.
    pub pace: Pace,
    /// Calls it works on at once; none: any number.
    pub slots: Option<u32>,
    /// What befalls it.
    pub phases: Vec<Phase>,
}

/// What an engine counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Calls that arrived.
    pub calls: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls whose caller hung up first.
    pub abandoned: u64,
    /// Calls it has now.
    pub in_flight: u32,
    /// The most calls it had at once, queued ones included.
    pub in_flight_max: u32,
    /// The most calls that waited for a slot at once.
    pub queued_max: u32,
    /// Time spent on calls, by one slot each.
    pub busy: Duration,
    /// Time that calls would have taken to their end, of those whose question no engine had at
    /// the time: what would be spent without hedges.
    pub first: Duration,
}

/// Slow and normal times that know nothing of each other (exponential lengths).
pub struct Episodes {
    chance: Chance,
    slow_mean: Duration,
    slow_ratio: f64,
    state: Cell<(bool, Instant)>,
}

impl Episodes {
    /// Slow for `slow_ratio` (below 1) of the time, `slow_mean` on average.
    pub fn new(chance: Chance, slow_mean: Duration, slow_ratio: f64) -> Self {
        let begins_slow = chance.unit() < slow_ratio;
        Self { chance, slow_mean, slow_ratio, state: Cell::new((!begins_slow, Instant::ZERO)) }
    }

    /// Whether `now`, which never goes back, is slow.
    pub fn is_slow(&self, now: Instant) -> bool {
        if self.slow_ratio <= 0.0 {
            return false;
        }
        let (mut is_slow, mut until) = self.state.get();
        while until <= now {
            is_slow = !is_slow;
            let share = if is_slow { 1.0 } else { (1.0 - self.slow_ratio) / self.slow_ratio };
            let mean_s = self.slow_mean.as_secs_f64() * share;
            until += Duration::from_secs_f64(self.chance.exponential(mean_s));
        }
        self.state.set((is_slow, until));
        is_slow
    }
}

/// A running engine.
pub struct Engine {
    reactor: Reactor,
    manner: Manner,
    chance: Chance,
    own: Option<Episodes>,
    common: Rc<Episodes>,
    epoch: Rc<Cell<Instant>>,
    asked: Rc<Asked>,
    counts: Cell<Counts>,
    in_service: Cell<u32>,
    queue: RefCell<VecDeque<Rc<Turn>>>,
    answers: [Answer; 2],
}

/// A call that waits for a slot.
#[derive(Default)]
struct Turn {
    has_come: Event,
    is_given_up: Cell<bool>,
}

/// What an engine is started from.
pub struct Start {
    /// Its host.
    pub reactor: Reactor,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is.
    pub manner: Manner,
    /// The run's seed and the engine's index.
    pub seed: (u64, u64),
    /// Episodes of all engines at once.
    pub common: Rc<Episodes>,
    /// When the traffic starts: phases count from it.
    pub epoch: Rc<Cell<Instant>>,
    /// What all engines of the world have been asked.
    pub asked: Rc<Asked>,
}

/// Questions that engines have been asked and not answered, by hash: how many calls each.
#[derive(Default)]
pub struct Asked(RefCell<BTreeMap<u64, u32>>);

impl Asked {
    /// One call more; whether it is the only one.
    fn begin(&self, hash: u64) -> bool {
        let mut asked = self.0.borrow_mut();
        let calls = asked.entry(hash).or_default();
        *calls += 1;
        *calls == 1
    }

    fn end(&self, hash: u64) {
        let mut asked = self.0.borrow_mut();
        let Some(calls) = asked.get_mut(&hash) else { return };
        *calls -= 1;
        if *calls == 0 {
            asked.remove(&hash);
        }
    }
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// The address is taken.
    pub fn start(start: Start) -> std::io::Result<Rc<Self>> {
        let Start { reactor, address, manner, seed, common, epoch, asked } = start;
        let own = match &manner.pace {
            Pace::Steady(_) => None,
            Pace::Episodes { episode, own_ratio, .. } => {
                let chance = Chance::new(seed.0, 2_000 + seed.1);
                Some(Episodes::new(chance, *episode, *own_ratio))
            }
        };
        let listener = reactor.listen(address, BACKLOG)?;
        let chance = Chance::new(seed.0, 1_000 + seed.1);
        let engine = Rc::new(Self {
            reactor: reactor.clone(),
            manner,
            chance,
            own,
            common,
            epoch,
            asked,
            counts: Cell::default(),
            in_service: Cell::new(0),
            queue: RefCell::default(),
            answers: [Answer::new(3), Answer::new(0)],
        });
        let served = engine.clone();
        reactor.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let engine = served.clone();
                served.reactor.spawn(async move { engine.serve(stream).await });
            }
        });
        Ok(engine)
    }

    /// What it counted so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// One connection, a call after the other. A read is always pending: it brings the next call,
    /// or the news that the caller is gone.
    async fn serve(self: Rc<Self>, stream: Stream) {
        let mut pending = pin!(stream.read(Vec::with_capacity(REQUEST_BYTES_MAX)));
        loop {
            let (read, mut input) = pending.as_mut().await;
            if !matches!(read, Ok(count) if count > 0) {
                return;
            }
            if !input.ends_with(b"\r\n\r\n") {
                pending.set(stream.read(input));
                continue;
            }
            let question = question_of(&input);
            let hash = hash_of(&question);
            input.clear();
            pending.set(stream.read(input));
            let effect = self.effect();
            if effect == Some(Effect::Dead) {
                stream.shutdown(Shutdown::Both);
                drop(pending.await);
                return;
            }
            let call = InFlight::begin(&self, hash);
            let time = self.draw(hash, effect);
            if call.is_first {
                self.count(|counts| counts.first += time);
            }
            if self.work(time, pending.as_mut()).await.is_none() {
                self.count(|counts| counts.abandoned += 1);
                return;
            }
            drop(call);
            self.count(|counts| counts.answered += 1);
            let answer = &self.answers[usize::from(effect == Some(Effect::Empty))];
            if stream.write_all(answer.to(&question, hash)).await.0.is_err() {
                stream.shutdown(Shutdown::Both);
                drop(pending.await);
                return;
            }
        }
    }

    /// Waits for a slot and spends the call's time; none: the caller hung up.
    async fn work<F: Future>(self: &Rc<Self>, time: Duration, mut gone: Pin<&mut F>) -> Option<()> {
        if let Some(turn) = self.queue_up() {
            let waited = select2(turn.has_come.wait(), gone.as_mut()).await;
            if matches!(waited, Either::Right(_)) {
                turn.is_given_up.set(true);
                if turn.has_come.is_set() {
                    self.leave_slot();
                }
                return None;
            }
        }
        let _slot = InSlot { engine: self.clone(), since: self.reactor.now() };
        let until = self.reactor.now() + time;
        match select2(self.reactor.sleep_until(until), gone).await {
            Either::Left(()) => Some(()),
            Either::Right(_) => None,
        }
    }

    /// Takes a slot; or a place in the queue, if there is none.
    fn queue_up(&self) -> Option<Rc<Turn>> {
        let is_full = self.manner.slots.is_some_and(|slots| self.in_service.get() >= slots);
        if !is_full {
            self.in_service.set(self.in_service.get() + 1);
            return None;
        }
        let turn = Rc::<Turn>::default();
        let mut queue = self.queue.borrow_mut();
        queue.retain(|turn| !turn.is_given_up.get());
        queue.push_back(turn.clone());
        let queued = queue.len() as u32;
        self.count(|counts| counts.queued_max = counts.queued_max.max(queued));
        Some(turn)
    }

    /// Gives a slot to the next in the queue, or back.
    fn leave_slot(&self) {
        let mut queue = self.queue.borrow_mut();
        while let Some(turn) = queue.pop_front() {
            if !turn.is_given_up.get() {
                turn.has_come.set();
                return;
            }
        }
        self.in_service.set(self.in_service.get() - 1);
    }

    /// What befalls it now.
    fn effect(&self) -> Option<Effect> {
        if self.manner.phases.is_empty() {
            return None;
        }
        let elapsed = self.reactor.now().since(self.epoch.get());
        let is_now = |phase: &&Phase| phase.from <= elapsed && elapsed < phase.until;
        let phase = self.manner.phases.iter().find(is_now)?;
        match phase.effect {
            Effect::Flapping(every) => {
                let turn = (elapsed - phase.from).as_nanos().checked_div(every.as_nanos());
                turn.unwrap_or(0).is_multiple_of(2).then_some(Effect::Dead)
            }
            effect => Some(effect),
        }
    }

    /// The time a call takes.
    fn draw(&self, hash: u64, effect: Option<Effect>) -> Duration {
        let ms = match &self.manner.pace {
            Pace::Steady(law) => law.at(self.chance.unit()),
            Pace::Episodes { states, speed, shared_variance, .. } => {
                let now = self.reactor.now();
                let is_own = self.own.as_ref().is_some_and(|own| own.is_slow(now));
                let is_slow = self.common.is_slow(now) || is_own;
                let own = (1.0 - shared_variance).sqrt() * self.chance.normal();
                let shared = match *shared_variance > 0.0 {
                    true => shared_variance.sqrt() * question_score(hash),
                    false => 0.0,
                };
                states.at(is_slow, own + shared) * speed
            }
        };
        let time = Duration::from_secs_f64(ms / 1e3);
        match effect {
            Some(Effect::Times(factor)) => time.mul_f64(factor),
            Some(Effect::Plus(more)) => time + more,
            _ => time,
        }
    }
}

/// The normal score of a question, the same for every engine.
fn question_score(hash: u64) -> f64 {
    let unit = runtime::rng::unit(mix(hash, 0)) + 0.5 / (1_u64 << 53) as f64;
    normal_at(unit.min(1.0 - f64::EPSILON))
}

/// Counts a call in and out.
struct InFlight {
    engine: Rc<Engine>,
    hash: u64,
    is_first: bool,
}

impl InFlight {
    fn begin(engine: &Rc<Engine>, hash: u64) -> Self {
        engine.count(|counts| {
            counts.calls += 1;
            counts.in_flight += 1;
            counts.in_flight_max = counts.in_flight_max.max(counts.in_flight);
        });
        Self { engine: engine.clone(), hash, is_first: engine.asked.begin(hash) }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.engine.asked.end(self.hash);
        self.engine.count(|counts| counts.in_flight -= 1);
    }
}

/// A slot in use.
struct InSlot {
    engine: Rc<Engine>,
    since: Instant,
}

impl Drop for InSlot {
    fn drop(&mut self) {
        let spent = self.engine.reactor.now().since(self.since);
        self.engine.count(|counts| counts.busy += spent);
        self.engine.leave_slot();
    }
}

/// The question in a request: the value of `q`, with its blanks. Questions here are of letters and
/// blanks only.
fn question_of(request: &[u8]) -> Vec<u8> {
    let from = memmem::find(request, b"q=").map_or(0, |at| at + 2);
    let mut rest = request.get(from..).unwrap_or_default();
    let mut question = Vec::with_capacity(128);
    while let Some((&first, after)) = rest.split_first() {
        let (byte, coded) = match first {
            b'&' | b' ' => break,
            b'+' => (b' ', 0),
            b'%' => (b' ', 2),
            byte => (byte, 0),
        };
        question.push(byte);
        rest = after.get(coded..).unwrap_or_default();
    }
    question
}

/// FNV-1a (Fowler, Noll, Vo).
fn hash_of(question: &[u8]) -> u64 {
    question.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An answer to any question: what follows the question in the body, with holes for its hash, 16
/// digits each.
struct Answer {
    rest: Vec<u8>,
    holes: Vec<usize>,
}

const HOLE: &str = "0123456789abcdef";
const BODY_START: &[u8] = b"{\"query\":\"";

impl Answer {
    fn new(results: usize) -> Self {
        let rows: Vec<String> = (0..results)
            .map(|row| {
                format!(
                    r#"{{"url":"https://s{row}.example/{HOLE}","title":"{HOLE} {row}","content":"about"}}"#
                )
            })
            .collect();
        let rest = format!(r#"","results":[{}],"unresponsive_engines":[]}}"#, rows.join(","));
        let holes = memmem::find_iter(rest.as_bytes(), HOLE).collect();
        Self { rest: rest.into_bytes(), holes }
    }

    fn to(&self, question: &[u8], hash: u64) -> Vec<u8> {
        let length = BODY_START.len() + question.len() + self.rest.len();
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        bytes.reserve(length);
        bytes.extend_from_slice(BODY_START);
        bytes.extend_from_slice(question);
        let from = bytes.len();
        bytes.extend_from_slice(&self.rest);
        let mut digits = [0; HOLE.len()];
        for (index, digit) in digits.iter_mut().enumerate() {
            *digit = HOLE.as_bytes()[(hash >> (4 * index)) as usize & 15];
        }
        for &at in &self.holes {
            bytes[from + at..][..digits.len()].copy_from_slice(&digits);
        }
        bytes
    }
}
