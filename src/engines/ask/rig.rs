//! A race in a world of its own: engines that do as they are told, a route in a fixed order, and a
//! record of what was asked and learned. No timer is late and computing takes no time, so every
//! span is exact.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::local::Event;
use runtime::sim::{Options, Timers, World};
use runtime::{Deadline, Instant, Reactor, Stream};
use shards::budget::Budget;

use super::{Asked, Chosen, Ground, Route, Witness, ask};
use crate::config;
use crate::engines::fixtures;
use crate::engines::leg::Leg;
use crate::engines::state::EngineState;
use crate::model::{EngineId, LegReport, Plan, Role, Verdict};

/// The query of every race.
pub(super) const QUERY: &str = "rust";

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What an engine does with one call, this long after it came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A page of results.
    Page(Duration),
    /// Status 200 and an empty list.
    Empty(Duration),
    /// Status 200 and a wall.
    Wall(Duration),
    /// Status 500.
    Error(Duration),
    /// The connection is closed without a word.
    Close(Duration),
    /// A page of 512 KiB, in eight parts with this pause before each.
    Parts(Duration),
}

/// What a race needs and leaves behind; tasks hold it, so it holds no world.
pub(super) struct Rig {
    pub(super) reactor: Reactor,
    pub(super) engines: Vec<Rc<EngineState>>,
    pub(super) hedges: Budget,
    pub(super) last_chances: Budget,
    pub(super) plan: Rc<Plan>,
    /// When a call counts as late.
    pub(super) delay: Duration,
    /// The delay is asked for this often, then asking panics.
    pub(super) delays_left: Cell<u32>,
    /// Each call to each engine, by index and time.
    pub(super) calls: Rc<RefCell<Vec<(u16, Instant)>>>,
    /// The engines that saw a connection end, one entry each time.
    pub(super) closed: Rc<RefCell<Vec<u16>>>,
    pub(super) learned: RefCell<Vec<(LegReport, &'static str)>>,
    pub(super) hedged: RefCell<Vec<(EngineId, bool)>>,
}

/// How a race went.
pub(super) struct Raced {
    pub(super) asked: Asked,
    pub(super) took: Duration,
}

impl Raced {
    /// The winner, or nobody and why.
    pub(super) fn winner(&self) -> Result<u16, String> {
        let answer = self.asked.answer.as_ref();
        answer.map(|answer| answer.engine.0).map_err(|refusal| format!("{refusal:?}"))
    }

    /// Whom it asked, as what, and what came of it.
    pub(super) fn legs(&self) -> Vec<(u16, Role, Verdict)> {
        self.asked.legs.iter().map(|leg| (leg.engine.0, leg.role, leg.verdict)).collect()
    }
}

impl Route for Rig {
    fn next(&self, asked: &[EngineId], _left: Duration) -> Option<Chosen> {
        let other = self.engines.iter().find(|engine| !asked.contains(&engine.id()))?;
        Some(Chosen { engine: other.id(), role: Role::Hedge, generation: None })
    }

    fn delay(&self, _engine: EngineId) -> Duration {
        let left = self.delays_left.get().checked_sub(1).expect("planted: a panic in mid-race");
        self.delays_left.set(left);
        self.delay
    }
}

impl Witness for Rig {
    fn leg(&self, report: &LegReport, detail: &'static str) {
        self.learned.borrow_mut().push((*report, detail));
    }

    fn hedge(&self, engine: EngineId, was_granted: bool) {
        self.hedged.borrow_mut().push((engine, was_granted));
    }

    fn starts(&self, _leg: &Leg) {}
}

impl Rig {
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground {
            reactor: &self.reactor,
            engines: &self.engines,
            hedges: Some(&self.hedges),
            last_chances: &self.last_chances,
            witness: self,
        }
    }

    /// The first leg of every race.
    pub(super) fn first(&self) -> Chosen {
        Chosen { engine: EngineId(0), role: Role::Primary, generation: None }
    }

    /// One race to its end, within `span`.
    pub(super) async fn race(&self, span: Duration) -> Raced {
        let began = self.reactor.now();
        let deadline = Deadline::after(began, span);
        let cancelled = Event::new();
        let first = self.first();
        let asked = ask(self.ground(), self, first, &self.plan, deadline, &cancelled).await;
        Raced { asked, took: self.reactor.now().since(began) }
    }

    /// How often an engine was called.
    pub(super) fn called(&self, engine: u16) -> usize {
        self.calls.borrow().iter().filter(|(whom, _)| *whom == engine).count()
    }
}

/// A world with a network of `one_way` delay, and in it an engine for each list of acts: its calls
/// in their order, the last for all that follow. `change` is made to the rig before any race.
pub(super) fn rig(
    seed: u64,
    one_way: Duration,
    acts: &[&[Act]],
    change: impl FnOnce(&mut Rig),
) -> (World, Rc<Rig>) {
    let timers = Timers { grain: Duration::ZERO, late_max: Duration::ZERO };
    let options = Options { network_delay: (one_way, one_way), timers, ..Options::default() };
    let world = World::new(seed, options);
    let (calls, closed) = (Rc::<RefCell<_>>::default(), Rc::<RefCell<_>>::default());
    let mut text = String::new();
    let addresses: Vec<SocketAddr> =
        (0..acts.len()).map(|index| SocketAddr::from(([10, 0, 1, index as u8 + 1], 80))).collect();
    for (index, (address, acts)) in addresses.iter().zip(acts).enumerate() {
        text.push_str(&format!(
            "[[engine]]\nname = \"e{index}\"\nadapter = \"searxng\"\nurl = \"http://{address}\"\n"
        ));
        let reactor = world.core(&format!("engine-{index}"), address.ip());
        let listener = reactor.listen(*address, 64).expect("a free address");
        let peer = Peer {
            reactor: reactor.clone(),
            index: index as u16,
            acts: acts.to_vec(),
            calls: Rc::clone(&calls),
            closed: Rc::clone(&closed),
        };
        let peer = Rc::new(peer);
        reactor.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reactor, peer) = (peer.reactor.clone(), peer.clone());
                reactor.spawn(async move { peer.serve(stream).await });
            }
        });
    }
    let settings = config::parse(&text, "rig.toml", &|_| None).expect("a right configuration");
    let settings = Arc::new(settings);
    let engine = |index: usize| Rc::new(EngineState::new(EngineId(index as u16), settings.clone()));
    let engines: Vec<_> = (0..acts.len()).map(engine).collect();
    for (engine, address) in engines.iter().zip(addresses) {
        engine.set_addresses(vec![address]);
    }
    let mut rig = Rig {
        reactor: world.core("core", IpAddr::from([10, 0, 0, 1])),
        engines,
        hedges: Budget::new(1.0, 10),
        last_chances: Budget::new(1.0, 10),
        plan: Rc::new(fixtures::plan(QUERY)),
        delay: ms(10_000),
        delays_left: Cell::new(u32::MAX),
        calls,
        closed,
        learned: RefCell::default(),
        hedged: RefCell::default(),
    };
    change(&mut rig);
    (world, Rc::new(rig))
}

/// Runs `work` on the rig's core until it ends.
pub(super) fn run<T: 'static>(
    world: &World,
    rig: &Rc<Rig>,
    work: impl AsyncFnOnce(Rc<Rig>) -> T + 'static,
) -> T {
    let done = Rc::new(RefCell::new(None));
    let (kept, held) = (done.clone(), rig.clone());
    rig.reactor.spawn(async move {
        let ended = work(held).await;
        *kept.borrow_mut() = Some(ended);
    });
    let limit = world.now() + Duration::from_secs(30);
    world.run_until(limit, || done.borrow().is_some());
    done.take().expect("it ends")
}

/// Lets everything that is still under way end, and asserts that nothing is left of any leg.
pub(super) fn settle(world: &World, rig: &Rig) {
    world.run_idle(world.now() + Duration::from_secs(30));
    let in_flight: Vec<u32> = rig.engines.iter().map(|engine| engine.in_flight()).collect();
    assert_eq!(in_flight, vec![0; rig.engines.len()], "calls in flight");
    let census = world.census();
    assert_eq!(census.tasks.get("core").copied().unwrap_or_default(), 0, "tasks");
    assert_eq!(census.operations_dropped, 0, "operations dropped half-way");
}

struct Peer {
    reactor: Reactor,
    index: u16,
    acts: Vec<Act>,
    calls: Rc<RefCell<Vec<(u16, Instant)>>>,
    closed: Rc<RefCell<Vec<u16>>>,
}

impl Peer {
    async fn serve(&self, stream: Stream) {
        let mut input = Vec::with_capacity(8 * 1024);
        loop {
            let (read, filled) = stream.read(input).await;
            input = filled;
            if !matches!(read, Ok(count) if count > 0) {
                return self.closed.borrow_mut().push(self.index);
            }
            if !input.ends_with(b"\r\n\r\n") {
                continue;
            }
            input.clear();
            let turn = self.note_call();
            let act = self.acts.get(turn).or(self.acts.last()).copied();
            self.play(&stream, act.expect("each engine has an act")).await;
        }
    }

    /// Which of its calls this is.
    fn note_call(&self) -> usize {
        let mut calls = self.calls.borrow_mut();
        let turn = calls.iter().filter(|(whom, _)| *whom == self.index).count();
        calls.push((self.index, self.reactor.now()));
        turn
    }

    async fn play(&self, stream: &Stream, act: Act) {
        let (after, status, body) = match act {
            Act::Page(after) => (after, 200, page(80)),
            Act::Parts(pause) => (pause, 200, page(50_000)),
            Act::Empty(after) => (after, 200, r#"{"query":"rust","results":[]}"#.to_owned()),
            Act::Wall(after) => {
                let wall = "<html><title>Just a moment...</title>\
                            <script>window._cf_chl_opt={}</script></html>";
                (after, 200, wall.to_owned())
            }
            Act::Error(after) => (after, 500, "{}".to_owned()),
            Act::Close(after) => {
                self.reactor.sleep_until(self.reactor.now() + after).await;
                return stream.shutdown(Shutdown::Both);
            }
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        let bytes = [head.into_bytes(), body.into_bytes()].concat();
        let parts = if matches!(act, Act::Parts(_)) { 8 } else { 1 };
        for part in bytes.chunks(bytes.len().div_ceil(parts)) {
            self.reactor.sleep_until(self.reactor.now() + after).await;
            // The peer may be gone: the next read tells.
            let _ = stream.write_all(part.to_vec()).await;
        }
    }
}

/// Ten results with a snippet of `snippet_bytes`.
fn page(snippet_bytes: usize) -> String {
    let rows: Vec<String> = (0..10)
        .map(|row| {
            let snippet = "about rust ".repeat(snippet_bytes.div_ceil(11));
            format!(
                r#"{{"url":"https://site{row}.example/rust","title":"rust {row}","content":"{snippet}"}}"#
            )
        })
        .collect();
    format!(r#"{{"query":"rust","results":[{}],"unresponsive_engines":[]}}"#, rows.join(","))
}
