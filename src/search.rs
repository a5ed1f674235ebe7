//! SPINE: one search, start to finish. The only place where the stages of a search meet.
//!
//! ```text
//! call ── admit ── compile ── consult ──┬── hit, stale ─────────────────── answer, at once
//!                                       └── joined, lead ── wait ───────── answer, later
//! fill (a task per flight) ── lease ── choose ── ask ── merge ── keep ── settle
//! ```
//!
//! A caller never makes an answer itself: it waits for a flight, with its own deadline, and what it
//! holds is given back when it leaves (`Pass`, `Waiter`).

mod route;
mod turn;

use std::rc::Rc;
use std::time::Duration;

use runtime::{Deadline, Instant, local};

use crate::answer::{self, AnswerParts};
use crate::cache::{Consulted, Lead, Stored, Waiter};
use crate::edge::{Call, Head, Later};
use crate::engines::ask;
use crate::head::Method;
use crate::ids;
use crate::merge;
use crate::model::{
    Account, CacheMode, CacheReport, CacheStatus, Endpoint, LegReport, Made, Making, Origin,
    Outcome, Page, Plan, RateState, Refusal, Unmade,
};
use crate::reply::{Content, Reply};
use crate::shard::{Pass, Shard};
use crate::shipped::{Shipped, ShippedPage};
use crate::trail::Trail;
use route::RouteOf;
use turn::{Turn, lease, page_from_elsewhere};

/// How often a caller whose flight failed for a reason of its own begins or joins another.
const TRIES_MORE: u32 = 2;

/// After a refresh that failed, the stale answer is served for this long before the next.
const REFRESH_REST: Duration = Duration::from_secs(1);

/// What the answer needs of its request.
struct Asker {
    request_id: String,
    plan: Rc<Plan>,
    rate: RateState,
    deadline: Deadline,
    trail: Trail,
    account: Account,
    buffer: Vec<u8>,
    /// What it waited for flights that came to nothing.
    earlier: Duration,
    _pass: Pass,
}

/// One search.
pub fn call(
    shard: &Rc<Shard>,
    endpoint: Endpoint,
    head: &Head<'_>,
    body: &[u8],
    arrived: Instant,
    buffer: Vec<u8>,
) -> Call {
    let mut asker = match begin(shard, endpoint, head, body, arrived, buffer) {
        Ok(asker) => asker,
        Err(reply) => return Call::Done(*reply),
    };
    let consulted = shard.cache.consult(&asker.plan, asker.trail.compiled);
    let now = shard.reactor.now();
    asker.trail.consulted = now;
    match consulted {
        Consulted::Hit(stored) => {
            Call::Done(stored_answer(shard, asker, now, CacheStatus::Hit, &stored))
        }
        Consulted::Stale(stored, refresh) => {
            if let Some(lead) = refresh {
                shard.metrics.borrow_mut().refresh();
                start_fill(shard, &asker, lead);
            }
            Call::Done(stored_answer(shard, asker, now, CacheStatus::Stale, &stored))
        }
        Consulted::NotCached => Call::Done(refuse(asker, &Refusal::NotCached)),
        Consulted::Full => Call::Done(refuse(asker, &Refusal::Overloaded)),
        Consulted::Joined(waiter) => later(shard, asker, waiter, CacheStatus::Coalesced),
        Consulted::Lead(_, _) if !has_time(shard, &asker, now) => {
            Call::Done(late(shard, asker, None))
        }
        Consulted::Lead(lead, waiter) => {
            let status = led(&asker.plan);
            start_fill(shard, &asker, lead);
            later(shard, asker, waiter, status)
        }
    }
}

fn later(shard: &Rc<Shard>, asker: Asker, waiter: Waiter, status: CacheStatus) -> Call {
    let (trail, account) = (asker.trail, Some(asker.account));
    let answer = Box::pin(wait(shard.clone(), asker, waiter, status));
    Call::Later(Later { answer, trail, account })
}

/// Stages 1 and 2: who asks, and what.
fn begin(
    shard: &Rc<Shard>,
    endpoint: Endpoint,
    head: &Head<'_>,
    body: &[u8],
    arrived: Instant,
    buffer: Vec<u8>,
) -> Result<Asker, Box<Reply>> {
    let request_id = request_id(shard, head);
    let mut trail = Trail::new(arrived);
    let now = shard.reactor.now();
    let admitted = match shard.admit(head, endpoint, arrived, now) {
        Ok(admitted) => admitted,
        Err((refusal, rate)) => {
            let reply = Reply::refused_into(buffer, &refusal, request_id, rate);
            return Err(Box::new(Reply { trail: Some(trail), ..reply }));
        }
    };
    let pass = Pass::new(shard, admitted.lane);
    trail.admitted = now;
    let mut account = Account { key: admitted.key, endpoint, class: None };
    let body = if head.method == Method::Post { body } else { b"" };
    let plan = match shard.compiler.compile(endpoint, head, body) {
        Ok(plan) => plan,
        Err(refusal) => {
            let rate = Some(admitted.rate);
            let reply = Reply::refused_into(buffer, &refusal, request_id, rate);
            let (trail, account) = (Some(trail), Some(account));
            return Err(Box::new(Reply { trail, account, ..reply }));
        }
    };
    trail.compiled = shard.reactor.now();
    account.class = Some(plan.class);
    let own_limit = plan.timeout.map(|span| Deadline::after(arrived, span));
    let deadline = own_limit.map_or(admitted.deadline, |own| own.earlier(admitted.deadline));
    let rate = admitted.rate;
    let (earlier, _pass) = (Duration::ZERO, pass);
    Ok(Asker { request_id, plan, rate, deadline, trail, account, buffer, earlier, _pass })
}

/// The caller's own name for its request where it may be repeated, else a new one.
fn request_id(shard: &Shard, head: &Head<'_>) -> String {
    match head.headers.get("x-request-id").and_then(ids::echoable) {
        Some(own) => own.to_owned(),
        None => {
            let reactor = &shard.reactor;
            ids::request_id(reactor.unix_time(), reactor.draw(), reactor.draw())
        }
    }
}

/// The status of an answer that was made for the one who asked.
fn led(plan: &Plan) -> CacheStatus {
    match plan.cache {
        CacheMode::NoCache => CacheStatus::Bypass,
        CacheMode::Default | CacheMode::OnlyIfCached => CacheStatus::Miss,
    }
}

/// Whether an answer made for `asker` alone could still be in time.
fn has_time(shard: &Shard, asker: &Asker, now: Instant) -> bool {
    let left = asker.deadline.left(now).saturating_sub(shard.settings.deadline.merge_reserve);
    shard.min_useful(&asker.plan).is_none_or(|least| least <= left)
}

/// Why nothing valid came in time: the engines were late, or the caller gave less time than it
/// takes to ask the quickest of them, which it must change before it asks again.
fn out_of_time(shard: &Shard, asker: &Asker) -> Refusal {
    let settings = &shard.settings.deadline;
    let spent = asker.trail.consulted.since(asker.trail.arrived);
    let useful = shard.min_useful(&asker.plan).unwrap_or_default();
    let least = useful + settings.merge_reserve + spent;
    let is_too_short = asker.plan.timeout.is_some_and(|given| given < least);
    if is_too_short && least + settings.write_margin <= settings.total {
        return Refusal::TimeoutTooShort(least);
    }
    Refusal::DeadlineExceeded
}

/// Waits for a flight, for as long as the caller may. A flight that ended for a reason of its own
/// is begun anew by whoever consults first, `TRIES_MORE` times.
async fn wait(
    shard: Rc<Shard>,
    mut asker: Asker,
    mut waiter: Waiter,
    mut status: CacheStatus,
) -> Reply {
    let mut tries_left = TRIES_MORE;
    loop {
        let outcome = local::timeout(&shard.reactor, asker.deadline, waiter.outcome()).await;
        let now = shard.reactor.now();
        let may_try_again = tries_left > 0 && has_time(&shard, &asker, now);
        tries_left = tries_left.saturating_sub(1);
        match outcome {
            Err(_elapsed) => {
                let spare = waiter.spare();
                waiter.out_of_time();
                return late(&shard, asker, spare);
            }
            // Who wants no cached answer does not get another core's either.
            Ok(Outcome::Page(made))
                if made.origin == Origin::OtherCache && asker.plan.cache == CacheMode::NoCache =>
            {
                if !may_try_again {
                    return late(&shard, asker, None);
                }
            }
            Ok(Outcome::Page(made)) => return made_answer(&shard, asker, status, &made),
            Ok(Outcome::Refused(unmade)) => {
                if !(unmade.refusal == Refusal::DeadlineExceeded && may_try_again) {
                    return unanswered(&shard, asker, &unmade.refusal, waiter.spare());
                }
            }
            Ok(Outcome::Abandoned) if may_try_again => {}
            Ok(Outcome::Abandoned) => return late(&shard, asker, waiter.spare()),
        }
        asker.earlier = now.since(asker.trail.consulted);
        match shard.cache.consult(&asker.plan, now) {
            Consulted::Hit(stored) => {
                return kept_meanwhile(&shard, asker, CacheStatus::Coalesced, &stored);
            }
            Consulted::Stale(stored, refresh) => {
                if let Some(lead) = refresh {
                    shard.metrics.borrow_mut().refresh();
                    start_fill(&shard, &asker, lead);
                }
                return kept_meanwhile(&shard, asker, CacheStatus::Stale, &stored);
            }
            Consulted::Joined(next) => {
                status = CacheStatus::Coalesced;
                waiter = next;
            }
            Consulted::Lead(lead, next) => {
                status = led(&asker.plan);
                start_fill(&shard, &asker, lead);
                waiter = next;
            }
            Consulted::Full | Consulted::NotCached => {
                return refuse(asker, &Refusal::Overloaded);
            }
        }
    }
}

/// The answer from a page in L1 after `asker` waited for another: it came in meanwhile, or is old.
fn kept_meanwhile(
    shard: &Rc<Shard>,
    mut asker: Asker,
    status: CacheStatus,
    stored: &Stored,
) -> Reply {
    let now = shard.reactor.now();
    asker.trail.answered = now;
    asker.trail.upstream = now.since(asker.trail.consulted);
    stored_answer(shard, asker, now, status, stored)
}

/// Begins the task that makes the answer. It has the whole of the time that its asker's request
/// had at the most: an impatient first caller does not shorten it for those who join.
fn start_fill(shard: &Rc<Shard>, asker: &Asker, lead: Lead) {
    let settings = &shard.settings.deadline;
    let whole = Deadline::after(asker.trail.arrived, settings.total - settings.write_margin);
    let deadline = match lead.is_refresh() {
        // A refresh began now, and nobody waits for it.
        true => Deadline::after(shard.reactor.now(), settings.total - settings.write_margin),
        false => whole,
    };
    let deadline = deadline.less(settings.merge_reserve);
    shard.reactor.spawn(fill(shard.clone(), asker.plan.clone(), lead, deadline));
}

/// Makes one answer: here, or on the core that holds the lease.
async fn fill(shard: Rc<Shard>, plan: Rc<Plan>, lead: Lead, deadline: Deadline) {
    let mut holding = match lease(&shard, &plan, &lead, deadline).await {
        Turn::Mine(holding) => holding,
        Turn::Cancelled => return,
        Turn::Theirs(shipped, origin) => return land(&shard, lead, shipped, origin),
    };
    let cancelled = lead.cancelled();
    let made = make(&shard, &plan, deadline, &cancelled);
    // A holder that was overdue may still come first: its page is as good as ours.
    let made = match local::select2(made, page_from_elsewhere(&lead)).await {
        local::Either::Left(made) => made,
        local::Either::Right((page, origin)) => {
            return land(&shard, lead, Shipped::Page(page), origin);
        }
    };
    let shipped = match made {
        Ok(mut page) => {
            page.making.upstream += holding.waited;
            Shipped::Page(page)
        }
        Err(_) if cancelled.is_set() => Shipped::Abandoned,
        Err((refusal, legs)) => Shipped::Refused(refusal, legs),
    };
    holding.release(&shipped);
    land(&shard, lead, shipped, Origin::Made);
}

/// Ends a flight with what was made, here or elsewhere.
fn land(shard: &Rc<Shard>, lead: Lead, shipped: Shipped, origin: Origin) {
    let key = lead.key();
    if lead.is_refresh() && !matches!(shipped, Shipped::Page(_)) {
        shard.cache.flights().rest(key, shard.reactor.now() + REFRESH_REST);
    }
    match shipped {
        Shipped::Page(shipped) => {
            let page = Rc::new(shipped.page);
            if shipped.is_kept {
                let (made_at, fresh_until) = (shipped.made_at, shipped.fresh_until);
                let (usable_until, spare_until) = (shipped.usable_until, shipped.spare_until);
                let page = page.clone();
                let stored = Stored { page, made_at, fresh_until, usable_until, spare_until };
                shard.cache.keep(key, stored);
            }
            let (legs, made_at) = (shipped.legs, shipped.made_at);
            let (fresh_until, making) = (shipped.fresh_until, shipped.making);
            let made = Made { page, legs, made_at, fresh_until, making, origin };
            lead.settle(Outcome::Page(Rc::new(made)));
        }
        Shipped::Refused(refusal, legs) => {
            lead.settle(Outcome::Refused(Rc::new(Unmade { refusal, legs })));
        }
        Shipped::Abandoned => drop(lead),
    }
}

/// Stages 4 to 6: choose, ask, merge.
async fn make(
    shard: &Rc<Shard>,
    plan: &Rc<Plan>,
    deadline: Deadline,
    cancelled: &local::Event,
) -> Result<ShippedPage, (Refusal, Vec<LegReport>)> {
    let route = RouteOf { shard, plan };
    let first = route.first(deadline).map_err(|refusal| (refusal, Vec::new()))?;
    let routed = shard.reactor.now();
    let asked = ask::ask(shard.ground(), &route, first, plan, deadline, cancelled).await;
    let answer = asked.answer.map_err(|refusal| (route.dated(refusal), asked.legs.clone()))?;
    let answered = shard.reactor.now();
    let is_kept = shard.engines[answer.engine.index()].settings().cacheable;
    let page = merge::merge(plan, &[answer], &shard.names, &shard.weights);
    let made_at = shard.reactor.now();
    let life = shard.settings.search.classes[plan.class.index()];
    // What may not be kept is never fresh for anybody else.
    let (fresh, usable) = if is_kept { (life.fresh, life.usable) } else { Default::default() };
    Ok(ShippedPage {
        page,
        legs: asked.legs,
        made_at,
        fresh_until: made_at + fresh,
        usable_until: made_at + usable,
        spare_until: shard.spare_until(plan.class, made_at + usable),
        is_kept,
        making: Making { routed, answered, upstream: asked.upstream },
    })
}

/// The answer from a page in L1, found at `now`.
fn stored_answer(
    shard: &Rc<Shard>,
    mut asker: Asker,
    now: Instant,
    status: CacheStatus,
    stored: &Stored,
) -> Reply {
    let (age, ttl) = (now.since(stored.made_at), stored.fresh_until.since(now));
    asker.trail.merged = now;
    respond(shard, asker, CacheReport { status, age, ttl }, &stored.page, &[])
}

/// The answer from a flight.
fn made_answer(shard: &Rc<Shard>, mut asker: Asker, status: CacheStatus, made: &Made) -> Reply {
    let now = shard.reactor.now();
    let status = match (status, made.origin) {
        (CacheStatus::Miss, Origin::OtherCore) => CacheStatus::Coalesced,
        (CacheStatus::Miss | CacheStatus::Coalesced, Origin::OtherCache) => CacheStatus::Hit,
        _ => status,
    };
    let (age, ttl) = (now.since(made.made_at), made.fresh_until.since(now));
    asker.trail.merged = now;
    // What a flight's first caller waited for the engines is not our time; nor is, for those who
    // joined, the whole of their wait.
    match status {
        CacheStatus::Coalesced => {
            asker.trail.answered = made.made_at;
            asker.trail.upstream = now.since(asker.trail.consulted);
        }
        CacheStatus::Hit => {}
        _ => {
            asker.trail.routed = made.making.routed;
            asker.trail.answered = made.making.answered;
            asker.trail.upstream = asker.earlier + made.making.upstream;
        }
    }
    let is_own = matches!(status, CacheStatus::Miss | CacheStatus::Bypass);
    let legs: &[LegReport] = if is_own { &made.legs } else { &[] };
    respond(shard, asker, CacheReport { status, age, ttl }, &made.page, legs)
}

fn respond(
    shard: &Rc<Shard>,
    asker: Asker,
    cache: CacheReport,
    page: &Page,
    legs: &[LegReport],
) -> Reply {
    let mut body = asker.buffer;
    body.clear();
    let latency = asker.trail.merged.since(asker.trail.arrived);
    let parts = AnswerParts {
        plan: &asker.plan,
        request_id: &asker.request_id,
        latency,
        cache,
        page,
        legs,
        names: &shard.names,
    };
    answer::write(&parts, &mut body);
    Reply {
        rate: Some(asker.rate),
        cache: Some(cache),
        trail: Some(asker.trail),
        account: Some(asker.account),
        ..Reply::new(200, Content::Json, body, asker.request_id)
    }
}

/// The refusal of a request that was let in. Its time counts like any other's.
fn refuse(asker: Asker, refusal: &Refusal) -> Reply {
    let reply = Reply::refused_into(asker.buffer, refusal, asker.request_id, Some(asker.rate));
    Reply { trail: Some(asker.trail), account: Some(asker.account), ..reply }
}

/// The reply to a request whose time is up.
fn late(shard: &Rc<Shard>, asker: Asker, carried: Option<Stored>) -> Reply {
    let refusal = out_of_time(shard, &asker);
    unanswered(shard, asker, &refusal, carried)
}

/// The reply where no answer came: an old page, marked as stale, if one may stand in (the shard's,
/// or one `carried` here by the lease); else the refusal.
fn unanswered(
    shard: &Rc<Shard>,
    asker: Asker,
    refusal: &Refusal,
    carried: Option<Stored>,
) -> Reply {
    match shard.spare(&asker.plan, refusal, carried) {
        Some(old) => kept_meanwhile(shard, asker, CacheStatus::Stale, &old),
        None => refuse(asker, refusal),
    }
}
