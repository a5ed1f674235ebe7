//! Stage 5: the race. The primary is asked now; a hedge when it is late, if the budget has a token;
//! another engine at once when an answer is invalid; a last chance when both are late. The first
//! *valid* answer wins and the losers are cancelled. At most `LEGS_MAX` legs a request.

use std::rc::Rc;
use std::time::Duration;

use runtime::local::{self, Either, Event, Receiver, Sender};
use runtime::{Deadline, Instant, Reactor};
use shards::breaker::Generation;
use shards::budget::Budget;
use shards::score::OLD_AFTER;

use super::leg::{self, Done, Leg};
use super::state::{EngineState, Observed};
use crate::model::{Answer, EngineId, LegReport, Plan, Refusal, Role, Verdict};

/// The most legs a request has: primary, hedge or retry, last chance.
pub const LEGS_MAX: usize = 3;

/// How soon a caller may come back when nobody answered: the engines need a moment.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A leg that may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Whom to ask.
    pub engine: EngineId,
    /// Why.
    pub role: Role,
    /// The breaker's generation when it let the leg through.
    pub generation: Option<Generation>,
}

/// Who is asked, decided by the router as the race goes on.
pub trait Route {
    /// The engine to ask next, other than those in `asked`, if `left` is enough for one.
    fn next(&self, asked: &[EngineId], left: Duration) -> Option<Chosen>;

    /// When a call to `engine` counts as late.
    fn delay(&self, engine: EngineId) -> Duration;
}

/// What the race needs of its core.
pub struct Ground<'a> {
    /// The reactor of this core.
    pub reactor: &'a Reactor,
    /// The engines, by id.
    pub engines: &'a [Rc<EngineState>],
    /// Tokens for hedges; none: hedging is off.
    pub hedges: Option<&'a Budget>,
    /// Tokens for last chances.
    pub last_chances: &'a Budget,
    /// Told of each leg and each decision.
    pub witness: &'a dyn Witness,
}

/// Counts what the race does.
pub trait Witness {
    /// A leg ended.
    fn leg(&self, report: &LegReport, detail: &'static str);
    /// A hedge was due: granted by the budget, or not.
    fn hedge(&self, engine: EngineId, was_granted: bool);
    /// A leg is about to start (the simulator plants its faults here).
    fn starts(&self, leg: &Leg);
}

/// How the race ended.
pub struct Asked {
    /// The winner's answer.
    pub answer: Result<Answer, Refusal>,
    /// What was asked of whom, in order of asking.
    pub legs: Vec<LegReport>,
    /// Time for which the engines are to blame: from the first leg's start to the winner's, and
    /// the winner's own.
    pub upstream: Duration,
}

struct Running {
    chosen: Chosen,
    handle: Leg,
    started: Instant,
    given: Duration,
    /// Its engine was told that it is old.
    is_old: bool,
    report: Option<LegReport>,
}

struct Race<'a> {
    ground: Ground<'a>,
    plan: &'a Rc<Plan>,
    deadline: Deadline,
    legs: Vec<Running>,
    done: Sender<Done>,
    results: Receiver<Done>,
    /// The next leg for lateness is not wanted any more: sent, or refused by the budget.
    is_hedge_settled: bool,
    is_last_chance_settled: bool,
}

/// Asks until somebody answers validly, the deadline passes, or `cancelled` is set.
///
/// # Cancel
/// Set `cancelled` to have its account. Dropped, it cancels its legs and settles each as cancelled.
pub async fn ask(
    ground: Ground<'_>,
    route: &dyn Route,
    first: Chosen,
    plan: &Rc<Plan>,
    deadline: Deadline,
    cancelled: &Event,
) -> Asked {
    let (done, results) = local::channel(LEGS_MAX);
    let mut race = Race {
        ground,
        plan,
        deadline,
        legs: Vec::with_capacity(LEGS_MAX),
        done,
        results,
        is_hedge_settled: false,
        is_last_chance_settled: false,
    };
    race.start(first);
    let answer = race.run(route, cancelled).await;
    race.finish(answer)
}

impl Race<'_> {
    async fn run(&mut self, route: &dyn Route, cancelled: &Event) -> Result<Done, Refusal> {
        loop {
            if self.deadline.passed(self.ground.reactor.now()) {
                return self.last_look().await;
            }
            let wakes = [self.next_late_at(route), self.next_old_at()];
            let wake = wakes.into_iter().flatten().fold(self.deadline.instant(), Instant::min);
            let timer = self.ground.reactor.sleep_until(wake);
            let news = local::select2(self.results.recv(), local::select2(timer, cancelled.wait()));
            match news.await {
                Either::Left(Some(done)) if done.verdict.is_valid() => return Ok(done),
                Either::Left(Some(done)) => {
                    self.record(done);
                    self.retry(route);
                    if self.legs.iter().all(|leg| leg.report.is_some()) {
                        return Err(Refusal::NoValidAnswer(RETRY_AFTER));
                    }
                }
                Either::Left(None) => return Err(Refusal::NoValidAnswer(RETRY_AFTER)),
                Either::Right(Either::Left(())) => {
                    self.note_old();
                    self.hedge(route);
                }
                Either::Right(Either::Right(())) => return Err(Refusal::DeadlineExceeded),
            }
        }
    }

    /// The deadline passed. On a core that was held up, an answer that came in time may not have
    /// been read yet: each leg has one more turn to tell. Nothing is started.
    async fn last_look(&mut self) -> Result<Done, Refusal> {
        self.ground.reactor.yield_now().await;
        while let Some(done) = self.results.try_recv() {
            if done.verdict.is_valid() {
                return Ok(done);
            }
            self.record(done);
        }
        Err(Refusal::DeadlineExceeded)
    }

    /// The leg is in flight from here on, not from its first turn: whoever chooses next in this
    /// turn sees it. After the deadline it is not sent, and what it was let through by given back.
    fn start(&mut self, chosen: Chosen) {
        let now = self.ground.reactor.now();
        let Some(engine) = self.ground.engines.get(chosen.engine.index()) else {
            return;
        };
        let (index, given) = (self.legs.len(), self.deadline.left(now));
        let handle = Leg::default();
        self.legs.push(Running {
            chosen,
            handle: handle.clone(),
            started: now,
            given,
            is_old: false,
            report: None,
        });
        debug_assert!(self.legs.len() <= LEGS_MAX, "more legs than a request may have");
        if self.deadline.passed(now) {
            return self.settle(index, Verdict::Skipped, None, "no_time");
        }
        self.ground.witness.starts(&handle);
        let call = leg::Call {
            in_flight: engine.enter(),
            engine: engine.clone(),
            plan: self.plan.clone(),
            deadline: self.deadline,
            index,
            reactor: self.ground.reactor.clone(),
        };
        self.ground.reactor.spawn(leg::run(call, handle, self.done.clone()));
    }

    /// When the newest leg still running counts as late, if a leg for lateness may still be sent.
    fn next_late_at(&self, route: &dyn Route) -> Option<Instant> {
        if self.legs.len() >= LEGS_MAX || self.ground.hedges.is_none() {
            return None;
        }
        let is_settled = match self.legs.len() {
            1 => self.is_hedge_settled,
            _ => self.is_last_chance_settled,
        };
        if is_settled {
            return None;
        }
        let newest = self.legs.iter().rev().find(|leg| leg.report.is_none())?;
        Some(newest.started + route.delay(newest.chosen.engine))
    }

    /// When the next leg still running becomes old.
    fn next_old_at(&self) -> Option<Instant> {
        let young = self.legs.iter().filter(|leg| leg.report.is_none() && !leg.is_old);
        young.map(|leg| leg.started + OLD_AFTER).min()
    }

    /// Legs that became old count at once: as losers they would be cancelled and never count.
    fn note_old(&mut self) {
        let now = self.ground.reactor.now();
        for leg in self.legs.iter_mut().filter(|leg| leg.report.is_none() && !leg.is_old) {
            if leg.started + OLD_AFTER <= now
                && let Some(engine) = self.ground.engines.get(leg.chosen.engine.index())
            {
                leg.is_old = true;
                engine.learn_old(now);
            }
        }
    }

    /// The newest leg is late: the next engine is asked beside it, if that is still useful and the
    /// budget allows it. The clock is read anew: a core that was held up starts nothing too late.
    fn hedge(&mut self, route: &dyn Route) {
        let now = self.ground.reactor.now();
        let is_first = self.legs.len() == 1;
        let due = self.next_late_at(route).is_some_and(|at| at <= now);
        if !due || self.deadline.passed(now) {
            return;
        }
        let settled =
            if is_first { &mut self.is_hedge_settled } else { &mut self.is_last_chance_settled };
        *settled = true;
        let Some(chosen) = route.next(&self.asked(), self.deadline.left(now)) else {
            return;
        };
        let is_granted = match self.ground.hedges {
            Some(hedges) if is_first => hedges.withdraw(),
            Some(_) => self.ground.last_chances.withdraw(),
            None => false,
        };
        self.ground.witness.hedge(chosen.engine, is_granted);
        if is_granted {
            let role = if is_first { chosen.role } else { Role::LastChance };
            self.start(Chosen { role, ..chosen });
        }
    }

    /// An answer was invalid: another engine is asked at once. It needs no hedge budget, but time.
    fn retry(&mut self, route: &dyn Route) {
        let now = self.ground.reactor.now();
        if self.legs.len() < LEGS_MAX
            && !self.deadline.passed(now)
            && let Some(chosen) = route.next(&self.asked(), self.deadline.left(now))
        {
            self.start(chosen);
        }
    }

    fn asked(&self) -> Vec<EngineId> {
        self.legs.iter().map(|leg| leg.chosen.engine).collect()
    }

    /// A leg's verdict becomes evidence, once.
    fn record(&mut self, done: Done) {
        let (verdict, retry_after) = (done.verdict, done.retry_after);
        self.settle(done.leg, verdict, retry_after, done.detail);
    }

    fn settle(
        &mut self,
        index: usize,
        verdict: Verdict,
        retry_after: Option<Duration>,
        detail: &'static str,
    ) {
        let now = self.ground.reactor.now();
        let Some(leg) = self.legs.get_mut(index).filter(|leg| leg.report.is_none()) else {
            return;
        };
        let took = now.since(leg.started);
        let chosen = leg.chosen;
        let report = LegReport { engine: chosen.engine, role: chosen.role, verdict, took };
        leg.report = Some(report);
        let observed = Observed {
            verdict,
            took,
            given: leg.given,
            was_old: leg.is_old,
            class: self.plan.class,
            generation: chosen.generation,
            retry_after,
        };
        if let Some(engine) = self.ground.engines.get(chosen.engine.index()) {
            engine.learn(&observed, now);
        }
        self.ground.witness.leg(&report, detail);
    }

    /// Cancels what still runs and draws up the account.
    fn finish(mut self, ended: Result<Done, Refusal>) -> Asked {
        let loser = match &ended {
            Err(Refusal::DeadlineExceeded) if self.deadline.passed(self.ground.reactor.now()) => {
                Verdict::Timeout
            }
            _ => Verdict::Cancelled,
        };
        let first_started = self.legs.first().map_or(Instant::ZERO, |leg| leg.started);
        let mut upstream = self.ground.reactor.now().since(first_started);
        let answer = ended.map(|mut done| {
            let items = std::mem::take(&mut done.items);
            let leg = &self.legs[done.leg];
            upstream = leg.started.since(first_started) + done.waited;
            let engine = leg.chosen.engine;
            self.record(done);
            Answer { engine, items }
        });
        self.settle_rest(loser);
        let legs = self.legs.iter().filter_map(|leg| leg.report).collect();
        Asked { answer, legs, upstream }
    }

    /// Legs that ended and were not heard yet count as what they were; the others are cancelled.
    fn settle_rest(&mut self, loser: Verdict) {
        while let Some(done) = self.results.try_recv() {
            self.record(done);
        }
        for index in 0..self.legs.len() {
            if self.legs[index].report.is_none() {
                self.legs[index].handle.cancel();
                self.settle(index, loser, None, "race_over");
            }
        }
    }
}

/// A race that ends before its end, by a panic or because its task is dropped, leaves no leg
/// running and no probe out.
impl Drop for Race<'_> {
    fn drop(&mut self) {
        self.settle_rest(Verdict::Cancelled);
    }
}

#[cfg(all(test, feature = "sim"))]
mod rig;
#[cfg(all(test, feature = "sim"))]
mod tests;
