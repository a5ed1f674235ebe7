//! Faults that other programs had with engines that fall ill and heal: probes that never end, late
//! answers of another era, crowds at half-opening, and what is left when everybody is ill.

use std::time::Duration;

use runtime::sim::Options;
use shards::breaker::State;

use super::client::{Ask, End};
use super::engine::{Kind, Manner};
use super::world::{self, Sim};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three failures open a breaker, for a second; then every request is a probe.
const TOUCHY: &str = "[breaker]\nconsecutive_invalid_max = 3\nhalf_open_after_s = 1\n\
                      probe_ratio = 1.0\n";

const FAILS: Kind = Kind::Raw(500, "", "a fault");

fn state(sim: &Sim, engine: usize) -> State {
    sim.instance.gauges()[0].engines[engine].breaker
}

/// Asks `count` questions, `gap` apart, and lets them end.
fn ask(sim: &Sim, count: u64, gap: Duration, name: &str) {
    for index in 0..count {
        sim.ask(gap * index as u32, &format!("what is {name} {index}"));
    }
    sim.pass(gap * count as u32 + ms(650));
}

/// One core and one engine, whose breaker has just opened.
fn tripped(seed: u64, more: &str) -> Sim {
    let sim = world::start(seed, Options::default(), 1, &[Manner::after(5).with(FAILS)], more);
    ask(&sim, 3, ms(20), "a failure");
    assert!(matches!(state(&sim, 0), State::Open { .. }), "nothing was tripped");
    sim
}

/// Every way in which a probe may end, or not end: once the engine has healed, it is asked again.
#[test]
fn a_probe_is_settled_however_it_ends() {
    for kind in [
        Kind::Never,
        Kind::Half,
        Kind::Reset,
        Kind::Empty,
        Kind::Block,
        Kind::HalfGzip,
        Kind::Raw(401, "", "{}"),
        Kind::Raw(403, "", "{}"),
        Kind::Raw(404, "", ""),
        Kind::Raw(429, "Retry-After: 1\r\n", ""),
        Kind::Raw(302, "Location: https://consent.google.fr/m\r\n", ""),
        Kind::Raw(200, "", "not JSON"),
    ] {
        let sim = tripped(61, TOUCHY);
        sim.engines[0].behave(Manner::after(5).with(kind));
        sim.pass(ms(1_000));
        let before = sim.engines[0].count();
        ask(&sim, 4, ms(700), "a probe");
        assert!(sim.engines[0].count() > before, "{kind:?}: no probe was sent");
        sim.engines[0].behave(Manner::GOOD);
        // A refused key is for a person to mend: such an engine is left alone for an hour.
        sim.pass(if matches!(kind, Kind::Raw(401 | 403, ..)) { ms(3_600_000) } else { ms(10_000) });
        ask(&sim, 3, ms(100), "a recovery");
        assert_eq!(state(&sim, 0), State::Closed, "{kind:?}");
        assert_eq!(sim.run(10).findings(ms(0)), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn a_probe_whose_caller_leaves_frees_its_place() {
    let sim = tripped(62, TOUCHY);
    sim.engines[0].behave(Manner::after(0).with(Kind::Never));
    sim.pass(ms(1_000));
    for index in 0..12 {
        let question = format!("who leaves number {index}");
        let leaves_after = Some(ms(30));
        sim.send(ms(50 * index), Ask { question, leaves_after, ..Ask::default() });
    }
    sim.pass(ms(800));
    assert_eq!(sim.engines[0].count(), 3 + 12, "each leaver's place was free for the next");
    sim.engines[0].behave(Manner::GOOD);
    ask(&sim, 3, ms(100), "a recovery");
    assert_eq!(state(&sim, 0), State::Closed);
    assert_eq!(sim.run(18).findings(ms(0)), Vec::<String>::new());
}

#[test]
fn a_probe_whose_judge_panics_is_settled() {
    let sim = tripped(63, TOUCHY);
    sim.engines[0].behave(Manner::GOOD);
    sim.pass(ms(1_000));
    let engine = sim.instance.shards[0].engines[0].clone();
    {
        let _held = engine.echo.borrow_mut();
        ask(&sim, 1, ms(0), "a probe");
    }
    assert_eq!(sim.world.census().panics, 1, "no panic was planted");
    sim.pass(ms(1_000));
    ask(&sim, 3, ms(100), "a recovery");
    assert_eq!(state(&sim, 0), State::Closed);
}

/// A call from before the trip ends while probes are out, well or badly: it decides nothing.
#[test]
fn a_late_answer_of_another_era_decides_nothing() {
    for late in [Kind::Page, FAILS] {
        let more = TOUCHY.replace("half_open_after_s = 1", "half_open_after_s = 0.1");
        let sim = world::start(64, Options::default(), 1, &[Manner::after(500).with(late)], &more);
        sim.ask(ms(0), "what takes long");
        sim.pass(ms(20));
        sim.engines[0].behave(Manner::after(5).with(FAILS));
        for index in 0..3 {
            sim.ask(ms(10 * index), &format!("what fails {index}"));
        }
        sim.pass(ms(60));
        assert!(matches!(state(&sim, 0), State::Open { .. }));
        sim.engines[0].behave(Manner::GOOD);
        sim.pass(ms(150));
        for index in 0..3 {
            assert_eq!(state(&sim, 0), State::HalfOpen, "{late:?}, after {index} probes");
            sim.ask(ms(0), &format!("what is a probe {index}"));
            sim.pass(if index == 0 { ms(500) } else { ms(60) });
        }
        assert_eq!(state(&sim, 0), State::Closed, "{late:?}");
        assert_eq!(sim.run(7).findings(ms(0)), Vec::<String>::new());
    }
}

/// A thousand questions meet an engine that may be probed: it gets a handful per core, and the
/// others go elsewhere.
#[test]
fn a_crowd_at_half_opening_sends_a_handful_of_probes() {
    let more = format!("{TOUCHY}[admission]\nlimit_initial = 4000\nlimit_min = 4000\n");
    let sick = Manner::after(5).with(FAILS).best();
    let sim = world::start(65, Options::default(), 4, &[sick, Manner::after(100)], &more);
    ask(&sim, 100, ms(5), "a failure");
    let is_open = |core: &hedgerow::metrics::Gauges| {
        matches!(core.engines[0].breaker, State::Open { .. } | State::HalfOpen)
    };
    assert!(sim.instance.gauges().iter().all(is_open), "nothing was tripped");
    sim.engines[0].behave(Manner::after(300));
    sim.pass(ms(1_000));
    let before = sim.engines[0].count();
    for index in 0..1_000 {
        sim.ask(ms(0), &format!("what is number {index}"));
    }
    sim.pass(ms(250));
    let probes = sim.engines[0].count() - before;
    assert!((1..=16).contains(&probes), "{probes} probes of four cores");
    let ran = sim.run(1_100);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![200; 1_100]);
}

/// All engines fall ill at one moment, on all cores: callers are told at once, and once the engines
/// have healed each is asked again.
#[test]
fn when_everybody_is_ill_callers_are_told_and_everybody_comes_back() {
    let sim = world::start(66, Options::default(), 3, &[Manner::GOOD; 3], TOUCHY);
    ask(&sim, 30, ms(10), "a start");
    for engine in &sim.engines {
        engine.behave(Manner::after(1).with(FAILS));
    }
    ask(&sim, 90, ms(2), "an outage");
    for core in sim.instance.gauges() {
        assert!(core.engines.iter().all(|e| matches!(e.breaker, State::Open { .. })));
    }
    for engine in &sim.engines {
        engine.behave(Manner::GOOD);
    }
    sim.pass(ms(1_000));
    ask(&sim, 300, ms(10), "a recovery");
    for core in sim.instance.gauges() {
        assert!(core.engines.iter().all(|engine| engine.breaker == State::Closed));
    }
    let ran = sim.run(420);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    for exchange in &ran.exchanges {
        let is_refused = matches!(exchange.end, End::Answered(503, _));
        assert!(!is_refused || exchange.ended.since(exchange.sent) < ms(50), "{exchange:?}");
    }
    assert_eq!(ran.statuses()[330..], vec![200; 90], "the last ninety");
}

/// An engine that fell ill twice, with a healthy minute between, stays out as long as the first
/// time.
#[test]
fn a_relapse_is_judged_like_the_first_illness() {
    let sim = tripped(67, TOUCHY);
    let until = |sim: &Sim| match state(sim, 0) {
        State::Open { until } => until.since(sim.world.now()),
        other => panic!("{other:?}"),
    };
    let first = until(&sim);
    for relapse in 0..5 {
        sim.engines[0].behave(Manner::GOOD);
        sim.pass(ms(1_000));
        ask(&sim, 3, ms(100), &format!("recovery {relapse}"));
        sim.pass(ms(60_000));
        assert_eq!(state(&sim, 0), State::Closed);
        sim.engines[0].behave(Manner::after(5).with(FAILS));
        ask(&sim, 3, ms(20), &format!("relapse {relapse}"));
        assert!(until(&sim) < first + ms(20), "{:?} after {first:?}", until(&sim));
    }
}

/// One of five refuses connections faster than the others can answer: it must not look quick.
#[test]
fn an_engine_that_refuses_at_once_does_not_attract_calls() {
    let sim = world::start(68, Options::default(), 2, &[Manner::after(40); 5], "");
    let address = sim.engines[4].address();
    sim.world.refuse(address, true);
    sim.world.reset(address);
    for index in 0..300 {
        sim.ask(ms(10 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(300);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!(ran.statuses(), vec![200; 300]);
    let asked = |from: usize, to: usize| {
        let in_time = ran.exchanges[from..to].iter();
        in_time
            .filter(|e| matches!(&e.end, End::Answered(_, body) if body.contains("\"e4\"")))
            .count()
    };
    let (first, later) = (asked(0, 100), asked(200, 300));
    assert!((1..=25).contains(&first), "{first} of a hundred in the first second");
    // What is left are requests that explore, until the breaker of each core has its evidence.
    assert!(later <= 3, "{later} of a hundred in the third");
}

/// Too many requests, it says, come back in two seconds: until then it is not asked at all.
#[test]
fn a_throttled_engine_is_left_alone_for_as_long_as_it_says() {
    let throttled = Manner::after(5).with(Kind::Raw(429, "Retry-After: 2\r\n", ""));
    let sim = world::start(69, Options::default(), 1, &[throttled.best(), Manner::GOOD], "");
    sim.ask(ms(0), "what is the first");
    sim.pass(ms(100));
    for index in 0..90 {
        sim.ask(ms(20 * index), &format!("what is number {index}"));
    }
    sim.pass(ms(1_850));
    assert_eq!(sim.engines[0].count(), 1, "asked again before its time");
    sim.engines[0].behave(Manner::GOOD.best());
    sim.pass(ms(200));
    ask(&sim, 5, ms(20), "a return");
    assert!(sim.engines[0].count() > 1, "never asked again");
    let ran = sim.run(96);
    assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200; 96]));
}

/// The request that finds out that every engine wants to be left alone says for how long, as those
/// after it do.
#[test]
fn a_refusal_that_throttled_engines_make_says_when_the_first_may_be_asked() {
    let throttled = |fields| Manner::after(5).with(Kind::Raw(429, fields, ""));
    let engines = [throttled("Retry-After: 200\r\n"), throttled("Retry-After: 90\r\n")];
    for (more, code, least_s) in [(&engines[..], "no_valid_answer", 90), (&engines[..1], "", 200)] {
        let sim = world::start(70, Options::default(), 1, more, "");
        sim.ask(ms(0), "what is the first");
        sim.ask(ms(100), "what is the second");
        let ran = sim.run(2);
        for (exchange, code) in ran.exchanges.iter().zip([code, "engines_unavailable"]) {
            let End::Answered(503, body) = &exchange.end else { panic!("{:?}", exchange.end) };
            let told: serde_json::Value = serde_json::from_str(body).expect("JSON");
            assert!(body.contains(code), "{body}");
            assert_eq!(told["retry_after_s"], least_s, "{body}");
        }
    }
    // One that may be asked is no reason to wait.
    let failed = Manner::after(5).with(Kind::Raw(500, "", ""));
    let sim = world::start(70, Options::default(), 1, &[engines[0], failed], "");
    sim.ask(ms(0), "what is the first");
    let ran = sim.run(1);
    let End::Answered(503, body) = &ran.exchanges[0].end else { panic!("answered") };
    assert!(body.contains("\"no_valid_answer\"") && body.contains("\"retry_after_s\":1"), "{body}");
}

/// All engines were ill and have healed: ten seconds later callers are answered again.
#[test]
fn a_total_outage_ends_when_the_engines_heal() {
    let sim = world::start(2, Options::default(), 4, &[Manner::GOOD; 3], "");
    for engine in &sim.engines {
        engine.behave(Manner::after(1).with(FAILS));
    }
    for index in 0..600 {
        sim.ask(ms(5 * index), &format!("what fails {index}"));
    }
    sim.pass(ms(4_000));
    for engine in &sim.engines {
        engine.behave(Manner::GOOD);
    }
    for index in 0..800 {
        sim.ask(ms(50 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(1_400);
    let since_healed = &ran.exchanges[600..];
    let second = |from: usize| {
        let of = &since_healed[from * 20..(from + 5) * 20];
        of.iter().filter(|e| matches!(e.end, End::Answered(200, _))).count()
    };
    let answered: Vec<usize> = (0..8).map(|five| second(five * 5)).collect();
    assert!(answered[2] >= 95, "answered of each hundred, every 5 s: {answered:?}");
}

/// What one core sees fail, eight need not see fail.
#[test]
fn cores_share_their_evidence_of_an_engine() {
    let sick = Manner::after(5).with(FAILS).best();
    let sim = world::start(4, Options::default(), 8, &[sick, Manner::GOOD], "");
    for index in 0..400 {
        sim.ask(ms(10 * index), &format!("what is number {index}"));
    }
    let asked = sim.engines[0].clone();
    sim.run(400);
    assert!(asked.count() <= 30, "{} calls to an engine that fails each", asked.count());
}
