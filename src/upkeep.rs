//! What a core does beside requests: it keeps connections to engines open, notices when its reactor
//! is late, tells other cores what it has in flight, and publishes its counters. All off the path:
//! one task that wakes every `BEAT`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::gate::{Gate, Pass};
use runtime::{Deadline, Instant, Stream};
use shards::CoreId;
use shards::breaker::State;

use crate::engines::evidence::Evidence;
use crate::engines::state::EngineState;
use crate::metrics::Published;
use crate::shard::Shard;

/// How often the task wakes. The limiter looks every 250 ms, gossip goes every 100 ms.
const BEAT: Duration = Duration::from_millis(50);

/// How often the number of calls in flight is told to other cores, when it changed.
const GOSSIP_EVERY: Duration = Duration::from_millis(100);

/// How often connections are looked after and counters published.
const LONG_BEAT: Duration = Duration::from_secs(1);

/// How long one connection may take to open while pools are warmed.
const WARM_CONNECT_MAX: Duration = Duration::from_secs(2);

/// How late a timer of the reactor always may be (`Reactor::sleep_until`): not lateness of ours.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

/// Opens connections to every engine; done when each has its full number or failed to open one.
pub async fn warm(shard: &Rc<Shard>) {
    refresh_addresses(shard);
    let filled = Gate::new();
    for engine in &shard.engines {
        spawn_filling(shard, engine, filled.enter());
    }
    filled.close();
    filled.closed().await;
}

/// Runs until the process ends. A panic in one of its duties costs that beat of it.
pub async fn run(shard: Rc<Shard>, published: Arc<Published>) {
    let mut next_gossip = Instant::ZERO;
    let mut next_long_beat = Instant::ZERO;
    let mut told = Vec::new();
    let mut open = vec![false; shard.engines.len()];
    loop {
        let due = shard.reactor.now() + BEAT;
        shard.reactor.sleep_until(due).await;
        let now = shard.reactor.now();
        shard.was_late(now.since(due).saturating_sub(TIMER_GRAIN));
        shard.guarded(|| shard.tick(now));
        if now >= next_gossip {
            next_gossip = now + GOSSIP_EVERY;
            shard.guarded(|| gossip(&shard, &mut told));
        }
        if now >= next_long_beat {
            next_long_beat = now + LONG_BEAT;
            shard.guarded(|| refresh_addresses(&shard));
            shard.guarded(|| look_after_pools(&shard, now));
            shard.guarded(|| shard.publish(&published, now));
            shard.guarded(|| tell_breakers(&shard, now, &mut open));
        }
    }
}

/// Tells every other core what was learned since last told, and what is in flight; nothing when
/// there is no news. Evidence that a full lane refuses is lost to that core, not repeated to all.
fn gossip(shard: &Rc<Shard>, told: &mut Vec<u32>) {
    if shard.cores() == 1 {
        return;
    }
    let evidence = shard.engines.iter().filter_map(|engine| Evidence::take(engine)).collect();
    let gossip = shard.gossip(evidence);
    if gossip.in_flight == *told && gossip.evidence.is_empty() {
        return;
    }
    // Whoever's lane was full is told again, with the others.
    if shard.tell_all(&gossip) {
        *told = gossip.in_flight;
    }
}

/// One line when an engine's breaker opens and one when it has closed again. Evidence is shared, so
/// the first core speaks for all.
fn tell_breakers(shard: &Shard, now: Instant, was_open: &mut [bool]) {
    if shard.me() != CoreId(0) {
        return;
    }
    for (engine, was_open) in shard.engines.iter().zip(was_open) {
        let is_open = engine.breaker_state(now) != State::Closed;
        let name = engine.settings().name.as_str();
        match (*was_open, is_open) {
            (false, true) => tracing::warn!(
                engine = name,
                "its breaker is open: too few of its answers are valid; it is probed from time to \
                 time"
            ),
            (true, false) => tracing::info!(engine = name, "its breaker is closed again"),
            _ => {}
        }
        *was_open = is_open;
    }
}

fn refresh_addresses(shard: &Rc<Shard>) {
    let table = shard.commons.dns.load();
    for engine in &shard.engines {
        if let Some(addresses) = table.addresses(&engine.settings().url) {
            engine.set_addresses(addresses.to_vec());
        }
    }
}

/// Closes what was idle too long or was closed by the engine, and opens as many as are missing.
fn look_after_pools(shard: &Rc<Shard>, now: Instant) {
    for engine in &shard.engines {
        drop(engine.pool.borrow_mut().expire(now));
        drop(engine.pool.borrow_mut().remove_unless(Stream::is_quiet));
        let held = engine.pool.borrow().idle() + engine.in_flight() as usize;
        if held < engine.settings().connections_per_core {
            spawn_filling(shard, engine, None);
        }
    }
}

/// Fills the engine's pool in a task, one at a time, that holds `pass` until it is done.
fn spawn_filling(shard: &Rc<Shard>, engine: &Rc<EngineState>, pass: Option<Pass>) {
    let Some(filling) = engine.begin_filling() else { return };
    let (shard, engine) = (shard.clone(), engine.clone());
    let reactor = shard.reactor.clone();
    reactor.spawn(async move {
        fill_pool(&shard, &engine).await;
        drop((filling, pass));
    });
}

/// Opens connections until the engine has its number, or one cannot be opened.
async fn fill_pool(shard: &Rc<Shard>, engine: &Rc<EngineState>) {
    for _ in 0..engine.settings().connections_per_core {
        let held = engine.pool.borrow().idle() + engine.in_flight() as usize;
        if held >= engine.settings().connections_per_core {
            return;
        }
        let Some(address) = engine.address() else {
            return;
        };
        let deadline = Deadline::after(shard.reactor.now(), WARM_CONNECT_MAX);
        let Ok(stream) = shard.reactor.connect(address, None, deadline).await else {
            return;
        };
        engine.opened();
        drop(engine.pool.borrow_mut().give(shard.reactor.now(), stream));
    }
}
