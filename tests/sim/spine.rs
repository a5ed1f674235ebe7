//! Worlds where the stages of a search meet across cores: who waits for whom, and for how long.

use std::time::Duration;

use runtime::Deadline;
use runtime::sim::Options;

use super::client::{Ask, End};
use super::engine::{Kind, Manner};
use super::world::{self, Sim};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const STEADY: Manner = Manner { fast: ms(100), slow: ms(100), ..Manner::GOOD };

fn is_answered(end: &End) -> bool {
    matches!(end, End::Answered(200, _))
}

#[test]
fn a_page_that_another_core_makes_late_but_in_time_serves_everybody() {
    let slow = Manner { fast: ms(400), slow: ms(400), ..STEADY };
    let sim = world::start(21, Options::default(), 2, &[slow], "[hedge]\nenabled = false\n");
    for _ in 0..40 {
        sim.ask(ms(0), "the same question");
    }
    let ran = sim.run(40);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert!(ran.calls.len() <= 2, "{} calls", ran.calls.len());
    let answered = ran.exchanges.iter().filter(|exchange| is_answered(&exchange.end)).count();
    assert_eq!(answered, 40);
}

/// Whoever wants no cached answer gets none, on whichever core it is kept: each answer was made by
/// a call that went out after the page in the caches was there.
#[test]
fn no_cache_is_not_answered_from_another_cores_cache() {
    for (seed, frozen) in (22..30).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let sim = world::start(seed, Options::default(), 2, &[STEADY], "");
        sim.ask(ms(0), "the same question");
        let kept_by = sim.world.now() + ms(500);
        sim.world.run_until(kept_by, || false);
        // A core that holds its breath makes others wait for its word, and join each other.
        sim.world.freeze(&sim.instance.reactors[frozen].clone(), ms(15));
        for turn in 0..12 {
            sim.ask(Duration::from_micros(200 * turn), "the same question");
            sim.ask(Duration::from_micros(200 * turn), "the same question&cache=no-cache");
        }
        let ran = sim.run(25);
        let uncached = |e: &&super::client::Exchange| e.ask.question.ends_with("no-cache");
        for exchange in ran.exchanges.iter().filter(uncached) {
            assert!(is_answered(&exchange.end), "{exchange:?}");
            let end = exchange.ended;
            let made = ran.calls.iter().any(|call| call.at >= kept_by && call.at + ms(100) <= end);
            assert!(made, "answered at {end:?} from a page made before {kept_by:?}");
        }
    }
}

/// A request that is whole so late that its answer could hardly be merged is refused once, and does
/// not begin one flight after the other until its time is over.
#[test]
fn a_caller_with_hardly_any_time_left_does_not_spin() {
    for late in [500, 505, 510, 515, 520, 525] {
        let sim = world::start(23, Options::default(), 1, &[STEADY], "");
        let status = send_in_two(&sim, ms(late));
        let limit = sim.world.now() + ms(1_500);
        assert!(sim.world.run_until(limit, || status.borrow().is_some()), "{late} ms: no answer");
        assert_eq!(status.borrow().as_deref(), Some("503"), "whole after {late} ms");
    }
}

/// Sends a request's first bytes now and the rest `late`; its status once it is answered.
fn send_in_two(sim: &Sim, late: Duration) -> std::rc::Rc<std::cell::RefCell<Option<String>>> {
    let status = std::rc::Rc::new(std::cell::RefCell::new(None));
    let (own, to, told) = (sim.clients.clone(), sim.instance.address, status.clone());
    sim.clients.spawn(async move {
        let deadline = Deadline::after(own.now(), ms(1_000));
        let stream = own.connect(to, None, deadline).await.expect("a connection");
        stream.write_all(b"GET /search/fast?q=late HTTP/1.1\r\n".to_vec()).await.0.expect("open");
        own.sleep_until(own.now() + late).await;
        let rest = b"Host: x\r\nX-API-Key: demo\r\n\r\n".to_vec();
        stream.write_all(rest).await.0.expect("open");
        let (read, input) = stream.read(Vec::with_capacity(4_096)).await;
        read.expect("an answer");
        let head = String::from_utf8_lossy(&input).into_owned();
        *told.borrow_mut() = head.split(' ').nth(1).map(str::to_owned);
    });
    status
}

#[test]
fn a_probe_of_one_engine_costs_another_none_of_its_own() {
    let more =
        "[breaker]\nconsecutive_invalid_max = 2\nhalf_open_after_s = 1.0\nprobe_ratio = 1.0\n";
    let brisk = Manner { fast: ms(10), slow: ms(10), ..STEADY };
    let sim = world::start(24, Options::default(), 1, &[brisk; 3], more);
    let engines =
        ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"].map(|at| at.parse().expect("an address"));
    for engine in engines {
        sim.world.refuse(engine, true);
        sim.world.reset(engine);
    }
    for index in 0..12 {
        sim.ask(ms(20 * index), &format!("while they are down {index}"));
    }
    sim.world.run_until(sim.world.now() + ms(400), || false);
    for engine in engines {
        sim.world.refuse(engine, false);
    }
    for index in 0..9 {
        sim.ask(ms(1_500 + 30 * index), &format!("when they are back {index}"));
    }
    sim.world.run_until(sim.world.now() + ms(1_900), || false);
    let probed: Vec<String> =
        sim.instance.gauges()[0].engines.iter().map(|e| format!("{:?}", e.breaker)).collect();
    assert_eq!(probed, ["Closed"; 3], "three probes each, nine requests");
    let ran = sim.run(21);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
}

/// What one core saw, every core knows a moment later.
#[test]
fn every_core_works_with_the_evidence_of_all() {
    let failing = Manner { empty_ratio: 0.5, ..STEADY };
    let sim = world::start(25, Options::default(), 4, &[failing], "");
    for index in 0..40 {
        sim.ask(ms(200 * index), &format!("what is number {index}"));
    }
    sim.world.run_until(sim.world.now() + ms(8_500), || false);
    let seen: Vec<_> = sim.instance.gauges().iter().map(|core| core.engines[0].clone()).collect();
    let asked: u64 = sim.instance.gauges().iter().map(|core| core.engines[0].reused_total).sum();
    assert!(asked >= 40, "{asked} calls");
    for core in &seen {
        let (mean, first) = (core.ewma.expect("evidence"), seen[0].ewma.expect("evidence"));
        assert!(mean.abs_diff(first) < ms(5), "{mean:?} on one core, {first:?} on another");
        assert!((core.valid_ratio - seen[0].valid_ratio).abs() < 0.02, "{seen:?}");
        assert!(core.valid_ratio < 0.8, "{seen:?}");
    }
}

/// One leaves after 200 ms, another stays, each on a core of its own: one call answers the other.
#[test]
fn a_leader_that_leaves_does_not_take_its_call_from_other_cores() {
    for seed in 0..12 {
        let sim = world::start(seed, Options::default(), 2, &[Manner::after(300)], "");
        let question = "what is a hedge".to_owned();
        sim.send(ms(0), Ask { question, leaves_after: Some(ms(200)), ..Ask::default() });
        sim.ask(ms(20), "what is a hedge");
        let ran = sim.run(2);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new(), "seed {seed}");
        assert_eq!(ran.calls.len(), 1, "seed {seed}: {:?}", ran.slowest());
    }
}

/// It said when to come back, to one core.
#[test]
fn a_throttled_engine_is_left_alone_by_all_cores() {
    let throttled = Manner::after(5).with(Kind::Raw(429, "Retry-After: 30\r\n", ""));
    let sim = world::start(5, Options::default(), 8, &[throttled.best(), Manner::GOOD], "");
    for index in 0..200 {
        sim.ask(ms(20 * index), &format!("what is number {index}"));
    }
    let asked = sim.engines[0].clone();
    sim.run(200);
    assert!(asked.count() <= 2, "{} calls within its 30 s", asked.count());
}

/// A kept connection that is closed after 250 ms is no connection that had timed out: the call was
/// read and failed, and is not made twice within one leg.
#[test]
fn a_call_that_was_pending_for_long_is_not_repeated_within_its_leg() {
    let sim = world::start(6, Options::default(), 1, &[Manner::after(250).with(Kind::Reset)], "");
    sim.ask(ms(0), "what is a hedge");
    let ran = sim.run(1);
    assert_eq!(ran.calls.len(), 1);
}

/// Where nobody may be asked, a probe costs nobody anything: a trickle of requests is answered as
/// soon as the engines are, and not when a twentieth of it has probed.
#[test]
fn after_an_outage_of_all_a_trickle_is_answered_at_once() {
    let more = "[breaker]\nconsecutive_invalid_max = 2\nhalf_open_after_s = 1.0\n";
    let sim = world::start(26, Options::default(), 1, &[STEADY, STEADY], more);
    let engines = ["10.0.1.1:80", "10.0.1.2:80"].map(|at| at.parse().expect("an address"));
    for engine in engines {
        sim.world.refuse(engine, true);
        sim.world.reset(engine);
    }
    for index in 0..8 {
        sim.ask(ms(20 * index), &format!("while they are down {index}"));
    }
    sim.world.run_until(sim.world.now() + ms(1_500), || false);
    for engine in engines {
        sim.world.refuse(engine, false);
    }
    for index in 0..8 {
        sim.ask(ms(1_000 * index), &format!("when they are back {index}"));
    }
    let ran = sim.run(16);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    let answered = ran.exchanges.iter().filter(|exchange| is_answered(&exchange.end)).count();
    assert_eq!(answered, 8, "{:?}", ran.statuses());
}
