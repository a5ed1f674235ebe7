//! The tasks of a world: which exist, which are ready, whose turn it is.
//!
//! Wakers and ringers must be `Send`, so what they say goes through `News`, the one lock here; it
//! is never contended, since a world lives on one thread.

use std::future::Future;
use std::mem;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::{Core, Timers};
use crate::Instant;
use crate::rng::Generator;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A task's place and which of its successive tenants is meant.
pub(crate) type Slot = (usize, u64);

/// What wakers and ringers have to say, until the world listens.
#[derive(Default)]
pub(crate) struct News {
    #[expect(clippy::disallowed_types, reason = "wakers are Send by type; never contended")]
    said: std::sync::Mutex<Said>,
}

#[derive(Default)]
pub(crate) struct Said {
    pub(crate) woken: Vec<Slot>,
    pub(crate) rung: Vec<u32>,
}

impl News {
    pub(crate) fn with<R>(&self, say: impl FnOnce(&mut Said) -> R) -> R {
        // Nothing panics while it holds the lock: pushes and swaps of vectors.
        say(&mut self.said.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

struct TaskWaker {
    news: Arc<News>,
    slot: Slot,
    is_queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.news.with(|said| said.woken.push(self.slot));
        }
    }
}

/// A task between two turns.
pub(crate) struct Resting {
    task: Task,
    waker: Waker,
    flag: Arc<TaskWaker>,
    pub(crate) core: usize,
}

impl Resting {
    /// One turn; whether the task ended. It is dropped by the caller, outside any borrow.
    pub(crate) fn turn(&mut self) -> bool {
        self.flag.is_queued.store(false, Ordering::Relaxed);
        self.task.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
    }
}

struct Place {
    tenancy: u64,
    core: usize,
    resting: Option<Resting>,
}

/// One core's share of the schedule.
pub(crate) struct CoreState {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) timers: Timers,
    pub(crate) generator: Generator,
    pub(crate) panics: u64,
    pub(crate) tasks: usize,
    /// Runs nothing before this instant.
    pub(crate) frozen_until: Instant,
    /// Ready tasks of a frozen core.
    frozen: Vec<Slot>,
    yielded: Vec<Yielded>,
}

/// A task that goes to the back, and what must happen before it is woken.
struct Yielded {
    due: Due,
    before: Vec<Before>,
}

/// A yielded task that is to be woken.
pub(crate) struct Due {
    pub(crate) waker: Waker,
    pub(crate) slot: Slot,
    pub(crate) id: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The turn of a task that is ready.
    Turn(Slot),
    /// The waking of a task that yielded earlier.
    Yielded(u64),
}

#[derive(Default)]
pub(crate) struct Exec {
    places: Vec<Place>,
    free: Vec<usize>,
    ready: Vec<Slot>,
    pub(crate) cores: Vec<CoreState>,
    yields: Vec<(usize, Waker)>,
    yield_id: u64,
}

impl Exec {
    pub(crate) fn add_core(
        &mut self,
        name: &str,
        address: IpAddr,
        seed: u64,
        timers: Timers,
    ) -> usize {
        self.cores.push(CoreState {
            name: name.to_owned(),
            address,
            timers,
            generator: Generator::new(seed),
            panics: 0,
            tasks: 0,
            frozen_until: Instant::ZERO,
            frozen: Vec::new(),
            yielded: Vec::new(),
        });
        self.cores.len() - 1
    }

    pub(crate) fn spawn(&mut self, news: &Arc<News>, core: usize, task: Task) -> Waker {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { tenancy: 0, core, resting: None });
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.tenancy += 1;
        place.core = core;
        let slot = (index, place.tenancy);
        let flag =
            Arc::new(TaskWaker { news: news.clone(), slot, is_queued: AtomicBool::new(false) });
        let waker = Waker::from(flag.clone());
        place.resting = Some(Resting { task, waker: waker.clone(), flag, core });
        self.cores[core].tasks += 1;
        waker
    }

    /// Takes in the tasks that were woken. Wakes of tasks that have ended are void.
    pub(crate) fn admit(&mut self, woken: &mut Vec<Slot>, now: Instant) {
        for slot in woken.drain(..) {
            let place = &self.places[slot.0];
            if place.tenancy != slot.1 {
                continue;
            }
            let core = &mut self.cores[place.core];
            if core.frozen_until > now {
                core.frozen.push(slot);
            } else {
                self.ready.push(slot);
            }
        }
    }

    /// Gives out one ready task, chosen by `draw`, which is below the count it is given.
    pub(crate) fn choose(&mut self, draw: impl FnOnce(u64) -> u64) -> Option<(Slot, Resting)> {
        if self.ready.is_empty() {
            return None;
        }
        let index = draw(self.ready.len() as u64) as usize;
        let slot = self.ready.swap_remove(index);
        // A task is queued at most once and rests while it is, so there is one.
        let resting = self.places[slot.0].resting.take();
        resting.map(|resting| (slot, resting))
    }

    pub(crate) fn put_back(&mut self, slot: Slot, resting: Resting) {
        self.places[slot.0].resting = Some(resting);
    }

    pub(crate) fn end(&mut self, slot: Slot, core: usize) {
        self.places[slot.0].tenancy += 1;
        self.free.push(slot.0);
        self.cores[core].tasks -= 1;
    }

    /// After the turn of `slot`: who yielded in it waits for everyone who is ready now, and who
    /// waited for `slot` waits for one less. Gives those who waited enough: wake each, then `woke`.
    pub(crate) fn settle_yields(&mut self, slot: Slot, core: usize) -> Vec<Due> {
        for (core, waker) in mem::take(&mut self.yields) {
            let of_core = |slot: &&Slot| self.places[slot.0].core == core;
            let mut before: Vec<_> =
                self.ready.iter().filter(of_core).copied().map(Before::Turn).collect();
            let state = &mut self.cores[core];
            before.extend(state.yielded.iter().map(|other| Before::Yielded(other.due.id)));
            let due = Due { waker, slot, id: self.yield_id };
            self.yield_id += 1;
            state.yielded.push(Yielded { due, before });
        }
        let yielded = &mut self.cores[core].yielded;
        for entry in yielded.iter_mut() {
            entry.before.retain(|&before| before != Before::Turn(slot));
        }
        yielded.extract_if(.., |entry| entry.before.is_empty()).map(|entry| entry.due).collect()
    }

    /// After a yielded task was woken: those behind it wait for its turn, if that is what came of
    /// it (its task may have ended, or not be interested any more).
    pub(crate) fn woke(&mut self, core: usize, id: u64, slot: Slot) {
        let resting = self.places[slot.0].resting.as_ref();
        let is_queued = resting.is_some_and(|resting| {
            resting.flag.slot == slot && resting.flag.is_queued.load(Ordering::Relaxed)
        });
        for entry in &mut self.cores[core].yielded {
            if let Some(index) = entry.before.iter().position(|&it| it == Before::Yielded(id)) {
                if is_queued {
                    entry.before[index] = Before::Turn(slot);
                } else {
                    entry.before.swap_remove(index);
                }
            }
        }
    }

    pub(crate) fn freeze(&mut self, core: usize, until: Instant) {
        let state = &mut self.cores[core];
        state.frozen_until = state.frozen_until.max(until);
        let places = &self.places;
        let (stay, go): (Vec<_>, Vec<_>) =
            self.ready.drain(..).partition(|slot| places[slot.0].core != core);
        self.ready = stay;
        state.frozen.extend(go);
    }

    /// Whether the core runs again at `now`; a later freeze may have overtaken this thaw.
    pub(crate) fn thaw(&mut self, core: usize, now: Instant) -> bool {
        let state = &mut self.cores[core];
        if state.frozen_until > now {
            return false;
        }
        self.ready.append(&mut state.frozen);
        true
    }

    /// All tasks, to be dropped by the caller outside any borrow.
    pub(crate) fn take_all(&mut self) -> Vec<Resting> {
        self.ready.clear();
        self.places.iter_mut().filter_map(|place| place.resting.take()).collect()
    }
}

/// To the back of the queue of its core.
pub(crate) struct YieldNow {
    core: Core,
    has_yielded: bool,
}

impl YieldNow {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, has_yielded: false }
    }
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        let waker = context.waker().clone();
        self.core.world.exec.borrow_mut().yields.push((self.core.index, waker));
        Poll::Pending
    }
}
