//! Faults that other programs had where many callers share one answer: leaders and waiters that
//! leave, deadlines shorter than the making, answers that may not be kept, refreshes that overtake
//! each other.

use std::time::Duration;

use runtime::sim::Options;

use super::client::{Ask, End};
use super::engine::{Called, Kind, Manner};
use super::world;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A crowd is let in.
const ROOM: &str = "[admission]\nlimit_initial = 4000\nlimit_min = 4000\n";

fn ask(question: &str) -> Ask {
    Ask { question: question.to_owned(), ..Ask::default() }
}

/// The lifetimes of all classes but news, in seconds.
fn lifetimes(fresh_s: u64, usable_s: u64) -> String {
    let classes = ["navigational", "evergreen", "product", "longtail"];
    let of =
        |class| format!("[search.classes.{class}]\nfresh_s = {fresh_s}\nusable_s = {usable_s}\n");
    classes.map(of).concat()
}

#[test]
fn a_leader_that_leaves_costs_its_hundred_waiters_nothing() {
    for cores in [1, 4] {
        let sim = world::start(41, Options::default(), cores, &[Manner::after(100)], ROOM);
        sim.send(ms(0), Ask { leaves_after: Some(ms(5)), ..ask("the same question") });
        for _ in 0..100 {
            sim.ask(ms(2), "the same question");
        }
        let ran = sim.run(101);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
        let good = ran.statuses().iter().filter(|status| **status == 200).count();
        assert_eq!((good, ran.calls.len()), (100, 1), "{cores} cores");
    }
}

/// A waiter leaves at each moment of a flight's life, and nobody who stays notices.
#[test]
fn a_waiter_that_leaves_at_any_moment_holds_nothing_up() {
    let sim = world::start(42, Options::default(), 2, &[Manner::after(20)], "");
    for moment in 0..40_u64 {
        let question = format!("what is number {moment}");
        let at = ms(100 * moment);
        sim.ask(at, &question);
        let after = Duration::from_micros(700 * moment);
        sim.send(at, Ask { leaves_after: Some(after), ..ask(&question) });
        sim.ask(at + ms(60), &question);
    }
    let ran = sim.run(120);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    let stayed = ran.exchanges.iter().filter(|exchange| exchange.ask.leaves_after.is_none());
    assert!(stayed.into_iter().all(|exchange| matches!(exchange.end, End::Answered(200, _))));
    // A core that makes an answer for the leaver alone stops, and the other core makes it.
    assert!((40..=80).contains(&ran.calls.len()), "{} calls", ran.calls.len());
}

/// All leave, one after another; the key is as good as new.
#[test]
fn a_key_that_everybody_left_can_be_asked_again() {
    let sim = world::start(43, Options::default(), 2, &[Manner::after(100)], "");
    for index in 0..20 {
        sim.send(ms(0), Ask { leaves_after: Some(ms(2 + 3 * index)), ..ask("the same question") });
    }
    sim.ask(ms(90), "the same question");
    let ran = sim.run(21);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert!(matches!(&ran.exchanges[20].end, End::Answered(200, _)), "{:?}", ran.exchanges[20]);
}

/// Every caller's time is shorter than the making: it goes on without them, and serves the next.
#[test]
fn callers_that_all_run_out_of_time_leave_a_full_cache() {
    for cores in [1, 4] {
        let sim = world::start(44, Options::default(), cores, &[Manner::after(400)], ROOM);
        for wave in 0..2 {
            for _ in 0..40 {
                let at = ms(1_000 * wave);
                sim.send(at, Ask { timeout_ms: Some(200), ..ask("the same question") });
            }
        }
        let ran = sim.run(80);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
        let expected = [vec![503; 40], vec![200; 40]].concat();
        assert_eq!(ran.statuses(), expected, "{cores} cores");
        // A core that waits for another leaves in time to make a call of its own.
        assert!((1..=cores).contains(&ran.calls.len()), "{cores} cores: {}", ran.calls.len());
    }
}

/// The answer may not be kept: those who wait share it all the same, instead of asking one after
/// another.
#[test]
fn waiters_for_an_answer_that_is_not_kept_do_not_queue_up() {
    let never_fresh = lifetimes(0, 0);
    for cores in [1, 4] {
        let more = format!("{ROOM}{never_fresh}");
        let sim = world::start(45, Options::default(), cores, &[Manner::after(100)], &more);
        for _ in 0..1_000 {
            sim.ask(ms(0), "what is a hedge");
        }
        let ran = sim.run(1_000);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
        assert_eq!(ran.statuses(), vec![200; 1_000]);
        assert!(ran.slowest() < ms(250), "{cores} cores: {:?}", ran.slowest());
        assert!(ran.calls.len() <= 2 * cores, "{cores} cores: {} calls", ran.calls.len());
    }
}

/// The times of calls must be at least `span` apart.
fn check_apart(calls: &[Called], span: Duration) {
    for pair in calls.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        assert!(gap >= span, "two calls within {gap:?}");
    }
}

/// Fresh for 1 s, usable for 10 s more, and a refresh takes 1.5 s: one at a time over all cores,
/// and none while the answer is fresh.
#[test]
fn one_refresh_at_a_time_over_all_cores() {
    let lives = lifetimes(1, 11);
    let more = format!("[deadline]\ntotal_ms = 3000\n[hedge]\nenabled = false\n{lives}");
    let sim = world::start(46, Options::default(), 4, &[Manner::after(1_500)], &more);
    for index in 0..600 {
        sim.ask(ms(25 * index), "what is a hedge");
    }
    let asked = sim.engines[0].clone();
    let ran = sim.run(600);
    assert_eq!(ran.findings(ms(2_400)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![200; 600]);
    assert!(asked.count() >= 5, "{} calls: no refresh was tested", asked.count());
    check_apart(&asked.calls(), ms(2_400));
    let late = ran.exchanges.iter().filter(|exchange| {
        exchange.sent.since(ran.exchanges[0].ended) > ms(1)
            && exchange.ended.since(exchange.sent) > ms(20)
    });
    assert_eq!(late.count(), 0, "a stale answer is given at once");
}

/// An empty list, a challenge, a fault: none is kept, and the next caller gets a page.
#[test]
fn an_outage_is_not_cached() {
    for kind in [Kind::Empty, Kind::Block, Kind::Reset, Kind::Raw(500, "", ""), Kind::HalfGzip] {
        let sim = world::start(47, Options::default(), 2, &[Manner::after(5).with(kind)], "");
        sim.ask(ms(0), "the same question");
        sim.pass(ms(200));
        sim.engines[0].behave(Manner::GOOD);
        for index in 0..8 {
            sim.ask(ms(50 * index), "the same question");
        }
        let ran = sim.run(9);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new(), "{kind:?}");
        let expected = [vec![503], vec![200; 8]].concat();
        assert_eq!(ran.statuses(), expected, "{kind:?}");
    }
}

/// How many results an answer has.
fn results(end: &End) -> usize {
    let End::Answered(200, body) = end else { panic!("{end:?}") };
    let answer: serde_json::Value = serde_json::from_str(body).expect("JSON");
    answer["results"].as_array().expect("a list").len()
}

/// A short answer is cut from the long one and never kept in its place.
#[test]
fn callers_that_want_fewer_results_leave_the_others_theirs() {
    let sim = world::start(48, Options::default(), 2, &[Manner::GOOD], "");
    let wants = ["&max_results=5", "&max_results=10", "&max_results=50", "&max_results=3", ""];
    for (index, query) in (0..).zip(wants) {
        sim.send(ms(200 * index), Ask { query, ..ask("the same question") });
        sim.send(ms(200 * index), Ask { query: "&max_results=1", ..ask("the same question") });
    }
    let ran = sim.run(10);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    for exchange in &ran.exchanges {
        let wanted = match exchange.ask.query.rsplit('=').next() {
            Some("") | None => 10,
            Some(count) => count.parse::<usize>().expect("a number").min(10),
        };
        assert_eq!(results(&exchange.end), wanted, "{}", exchange.ask.query);
    }
    assert_eq!(ran.calls.len(), 2, "one page of ten, one of fifty");
}

/// The core that keeps a key's lease hangs: the others answer by their deadlines all the same.
#[test]
fn a_home_core_that_hangs_holds_no_other_core_up() {
    let sim = world::start(49, Options::default(), 4, &[Manner::after(50)], ROOM);
    sim.world.freeze(&sim.instance.reactors[0], ms(3_000));
    for index in 0..40 {
        sim.ask(ms(10 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(40);
    assert_eq!(ran.leaks, Vec::<String>::new());
    // Connections that the kernel gave to the core that hangs wait for it.
    let (quick, slow): (Vec<_>, Vec<_>) =
        ran.exchanges.iter().partition(|exchange| exchange.ended.since(exchange.sent) < ms(600));
    assert!(quick.len() >= 20, "{} answered while one of four cores hung", quick.len());
    for exchange in &quick {
        assert!(matches!(exchange.end, End::Answered(200, _)), "{exchange:?}");
        assert!(exchange.ended.since(exchange.sent) < ms(150), "{exchange:?}");
    }
    assert!(!slow.is_empty(), "no connection met the core that hung");
}

/// A judge that panics on an answer costs that call: whoever waits is told once, and the next
/// question is answered.
#[test]
fn a_panic_while_judging_is_a_failed_call() {
    let sim = world::start(50, Options::default(), 1, &[Manner::after(20)], "");
    for _ in 0..30 {
        sim.ask(ms(0), "the same question");
    }
    sim.ask(ms(100), "another question");
    let engine = sim.instance.shards[0].engines[0].clone();
    let world = sim.world.clone();
    {
        // The judge wants this for itself: it panics.
        let _held = engine.echo.borrow_mut();
        world.run_until(world.now() + ms(60), || false);
    }
    assert_eq!(world.census().panics, 1, "no panic was planted");
    let ran = sim.run(31);
    let expected = [vec![503; 30], vec![200]].concat();
    assert_eq!((ran.statuses(), ran.calls.len()), (expected, 2));
    assert_eq!(ran.leaks, ["0 operations dropped half-way, 1 panics"]);
}

/// The task that makes the answer dies: one of those who wait takes over, and all are answered.
#[test]
fn a_maker_that_panics_is_followed_by_one_waiter() {
    for cores in [1, 2] {
        let sim = world::start(51, Options::default(), cores, &[Manner::after(100)], "");
        for _ in 0..30 {
            sim.ask(ms(0), "the same question");
        }
        let world = sim.world.clone();
        let asked = sim.engines[0].clone();
        world.run_until(world.now() + ms(1_000), || asked.count() == 1);
        world.run_until(world.now() + ms(99), || false);
        {
            // Whichever core makes it wants its counters to end the race: it panics.
            let _held: Vec<_> =
                sim.instance.shards.iter().map(|shard| shard.metrics.borrow_mut()).collect();
            world.run_until(world.now() + ms(20), || world.census().panics > 0);
        }
        assert_eq!(world.census().panics, 1, "no panic was planted");
        let ran = sim.run(30);
        assert_eq!((ran.statuses(), ran.calls.len()), (vec![200; 30], 2), "{cores} cores");
        assert!(ran.slowest() < ms(300), "{:?}", ran.slowest());
        assert_eq!(ran.leaks, ["0 operations dropped half-way, 1 panics"], "{cores} cores");
    }
}

/// A thousand calls are in flight when their engine's connections are reset: each is asked again
/// or refused, none is forgotten, and no stack grows with their number.
#[test]
fn a_reset_of_all_connections_loses_no_caller() {
    let more = format!("{ROOM}[limits]\nconnections_per_core_max = 5000\n");
    let sim = world::start(52, Options::default(), 2, &[Manner::after(200)], &more);
    for index in 0..1_000 {
        sim.ask(ms(0), &format!("what is number {index}"));
    }
    sim.pass(ms(100));
    assert_eq!(sim.engines[0].count(), 1_000);
    sim.world.reset(sim.engines[0].address());
    let ran = sim.run(1_000);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
}

/// Whatever makes the answer panics each time: the question is not asked without end.
#[test]
fn a_maker_that_always_panics_costs_a_bounded_number_of_calls() {
    let sim = world::start(3, Options::default(), 1, &[Manner::after(5)], "");
    sim.ask(ms(20), "what is a hedge");
    let world = sim.world.clone();
    let (shard, engine) = (sim.instance.shards[0].clone(), sim.engines[0].clone());
    let limit = world.now() + ms(800);
    let mut seen = 0;
    while world.now() < limit {
        world.run_until(limit, || engine.count() > seen);
        if engine.count() == seen {
            break;
        }
        seen = engine.count();
        let panics = world.census().panics;
        let _held = shard.metrics.borrow_mut();
        world.run_until(limit, || world.census().panics > panics);
    }
    assert!(world.census().panics >= 1, "no panic was planted");
    assert!(seen <= 3, "{seen} calls for one question");
}
