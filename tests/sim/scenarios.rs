//! Worlds with a name: one thing goes wrong, and what must come of it.

use std::time::Duration;

use runtime::sim::Options;

use super::checks;
use super::client::Ask;
use super::engine::Manner;
use super::world;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const STEADY: Manner = Manner { fast: ms(100), slow: ms(100), ..Manner::GOOD };

#[test]
fn forty_at_once_on_four_cores_make_one_call() {
    let sim = world::start(1, Options::default(), 4, &[STEADY], "");
    for _ in 0..40 {
        sim.ask(ms(0), "the same question");
    }
    let ran = sim.run(40);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!((ran.calls.len(), ran.statuses()), (1, vec![200; 40]));
}

#[test]
fn a_first_caller_that_leaves_takes_nobody_along() {
    let sim = world::start(2, Options::default(), 2, &[STEADY], "");
    let leaver = Ask {
        question: "the same question".to_owned(),
        leaves_after: Some(ms(30)),
        ..Ask::default()
    };
    sim.send(ms(0), leaver);
    for _ in 0..20 {
        sim.ask(ms(10), "the same question");
    }
    let ran = sim.run(21);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses().iter().filter(|status| **status == 200).count(), 20);
    assert!(ran.calls.len() <= 2, "{} calls", ran.calls.len());
}

#[test]
fn callers_that_all_leave_stop_the_work() {
    let sim = world::start(3, Options::default(), 1, &[Manner { fast: ms(500), ..STEADY }], "");
    let leaver =
        Ask { question: "nobody waits".to_owned(), leaves_after: Some(ms(30)), ..Ask::default() };
    sim.send(ms(0), leaver);
    let world = sim.world.clone();
    world.run_until(world.now() + ms(120), || false);
    let flights: usize = sim.instance.gauges().iter().map(|gauges| gauges.flights).sum();
    assert_eq!(flights, 0, "the flight goes on with nobody waiting");
    assert_eq!(sim.run(1).findings(ms(0)), Vec::<String>::new());
}

#[test]
fn impatient_callers_still_fill_the_cache() {
    let sim = world::start(4, Options::default(), 1, &[Manner { fast: ms(300), ..STEADY }], "");
    let impatient =
        Ask { question: "what is a hedge".to_owned(), timeout_ms: Some(150), ..Ask::default() };
    sim.send(ms(0), impatient.clone());
    sim.send(ms(700), impatient);
    let ran = sim.run(2);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!((ran.statuses(), ran.calls.len()), (vec![503, 200], 1));
}

#[test]
fn a_frozen_lease_holder_costs_one_call_more_at_the_most() {
    let sim = world::start(5, Options::default(), 2, &[STEADY], "");
    for index in 0..10 {
        sim.ask(ms(index), "the same question");
    }
    let frozen = sim.instance.reactors[0].clone();
    sim.world.run_until(sim.world.now() + ms(20), || false);
    sim.world.freeze(&frozen, ms(300));
    let ran = sim.run(10);
    assert_eq!(ran.findings(ms(300)), Vec::<String>::new());
    assert!(ran.calls.len() <= 2, "{} calls", ran.calls.len());
    assert_eq!(ran.statuses(), vec![200; 10]);
}

#[test]
fn all_engines_down_is_a_503_at_once() {
    let sim = world::start(6, Options::default(), 2, &[STEADY, STEADY], "");
    for engine in ["10.0.1.1:80", "10.0.1.2:80"] {
        let address = engine.parse().expect("an address");
        sim.world.refuse(address, true);
        sim.world.reset(address);
    }
    for index in 0..20 {
        sim.ask(ms(20 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(20);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![503; 20]);
    assert!(ran.slowest() < ms(100), "{:?}", ran.slowest());
}

#[test]
fn hedges_stay_within_the_budget_in_any_second() {
    let slow = Manner { fast: ms(200), slow: ms(260), ..STEADY };
    let more = "[hedge]\ndelay_initial_ms = 120\ndelay_min_ms = 120\nbudget_ratio = 0.15\n\
                last_chance_budget_ratio = 0.0\n";
    let sim = world::start(7, Options::default(), 3, &[slow; 3], more);
    for index in 0..400 {
        sim.ask(ms(5 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(400);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert!(ran.calls.len() > 400, "no hedge was sent, nothing was tested");
    assert_eq!(checks::hedges(&ran.calls, 0.15), Vec::<String>::new());
}

#[test]
fn engines_that_close_idle_connections_cost_no_answer() {
    let closer = Manner { close_ratio: 1.0, ..Manner::GOOD };
    let sim = world::start(8, Options::default(), 1, &[closer], "");
    for index in 0..50 {
        sim.ask(ms(30 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(50);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![200; 50]);
}

#[test]
fn a_drain_answers_what_is_in_flight() {
    let sim = world::start(9, Options::default(), 2, &[STEADY], "");
    for index in 0..10 {
        sim.ask(ms(0), &format!("what is number {index}"));
    }
    let commons = sim.instance.commons.clone();
    sim.world.run_until(sim.world.now() + ms(50), || false);
    commons.is_draining.store(true, std::sync::atomic::Ordering::Relaxed);
    let ran = sim.run(10);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![200; 10]);
}
