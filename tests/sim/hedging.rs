//! Faults that other programs had with hedged requests, as worlds: which leg wins, what a loser
//! leaves behind, when a hedge starts and when it must not.

use std::time::Duration;

use hedgerow::config;
use runtime::sim::Options;

use super::client::End;
use super::engine::{Kind, Manner};
use super::world::{self, Ran, Sim};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A hedge after 120 ms, for every request.
const SOON: &str = "[hedge]\ndelay_initial_ms = 120\ndelay_min_ms = 120\nbudget_ratio = 1.0\n\
                    budget_target_ratio = 1.0\n";

const FAILS: Kind = Kind::Raw(500, "", "a fault");

/// One question on one core.
fn one(seed: u64, engines: &[Manner], more: &str) -> (Ran, Vec<usize>) {
    let sim = world::start(seed, Options::default(), 1, engines, more);
    sim.ask(ms(0), "what is a hedge");
    let engines = sim.engines.clone();
    let ran = sim.run(1);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    (ran, engines.iter().map(super::engine::Engine::count).collect())
}

fn valid_ratio(sim: &Sim, engine: usize) -> f64 {
    sim.instance.gauges()[0].engines[engine].valid_ratio
}

#[test]
fn a_late_error_is_outlived_by_whichever_leg_is_valid() {
    let (late_error, valid) = (Manner::after(200).with(FAILS), Manner::after(130));
    for engines in
        [[late_error.best(), valid], [Manner::after(250).best(), Manner::after(80).with(FAILS)]]
    {
        let (ran, calls) = one(21, &engines, SOON);
        assert_eq!((ran.statuses(), calls), (vec![200], vec![1, 1]));
    }
}

#[test]
fn two_late_errors_are_one_refusal_once_both_are_in() {
    let engines = [Manner::after(200).with(FAILS).best(), Manner::after(130).with(FAILS)];
    let (ran, calls) = one(22, &engines, SOON);
    assert_eq!(calls, [1, 1]);
    let End::Answered(503, body) = &ran.exchanges[0].end else { panic!("{:?}", ran.exchanges) };
    assert!(body.contains("\"no_valid_answer\""), "{body}");
    assert!((ms(250)..ms(300)).contains(&ran.slowest()), "{:?}", ran.slowest());
}

/// The leg's own end and the race's deadline fall on the same moment, and on each beside it.
#[test]
fn a_reset_at_the_deadline_is_counted_once() {
    for delay in 562..585 {
        let engines =
            [Manner::after(delay).with(Kind::Reset), Manner::after(delay - 120).with(Kind::Reset)];
        let (ran, calls) = one(23, &engines, SOON);
        assert_eq!(ran.statuses(), [503], "reset after {delay} ms");
        assert!(calls.iter().all(|count| *count == 1), "{calls:?}, {delay} ms");
    }
}

#[test]
fn the_first_answer_does_not_win_unless_it_is_valid() {
    for kind in [Kind::Empty, Kind::Block, Kind::HalfGzip, Kind::Raw(200, "", "{\"results\":[]}")] {
        let engines = [Manner::after(20).with(kind).best(), Manner::after(250)];
        let sim = world::start(24, Options::default(), 1, &engines, "");
        sim.ask(ms(0), "what is a hedge");
        sim.ask(ms(1_000), "what is a hedge");
        sim.pass(ms(900));
        let seen = (valid_ratio(&sim, 0), valid_ratio(&sim, 1));
        assert!(seen.0 < 0.01 && seen.1 > 0.99, "{kind:?}: {seen:?}");
        let ran = sim.run(2);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new(), "{kind:?}");
        assert_eq!((ran.statuses(), ran.calls.len()), (vec![200, 200], 2), "{kind:?}");
    }
}

/// The question may have no results: two empty lists are an answer, not a failure.
#[test]
fn a_legitimate_empty_list_is_an_answer() {
    let engines = [Manner::after(20).with(Kind::Empty).best(), Manner::after(20).with(Kind::Empty)];
    let sim = world::start(25, Options::default(), 1, &engines, "");
    sim.ask(ms(0), "site:example.com hedge");
    let ran = sim.run(1);
    assert_eq!((ran.leaks.clone(), ran.statuses(), ran.calls.len()), (vec![], vec![200], 1));
    let End::Answered(_, body) = &ran.exchanges[0].end else { panic!("{:?}", ran.exchanges) };
    assert!(body.contains("\"results\":[]"), "{body}");
}

/// The cancellation of the loser must not cut the winner's body.
#[test]
fn the_hedges_long_answer_is_read_to_its_end() {
    let engines =
        [Manner::after(0).with(Kind::Never).best(), Manner::after(5).with(Kind::Long(512 << 10))];
    let sim = world::start(26, Options::default(), 1, &engines, SOON);
    let open = sim.world.census().streams_open;
    for index in 0..4 {
        sim.ask(ms(700 * index), &format!("what is number {index}"));
    }
    let world = sim.world.clone();
    let ran = sim.run(4);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert_eq!((ran.statuses(), ran.calls.len()), (vec![200; 4], 8));
    world.run_until(world.now() + ms(2_000), || false);
    assert_eq!(world.census().streams_open, open, "losers are closed and replaced");
}

#[test]
fn a_fast_failure_waits_for_nobody() {
    let broke = "[hedge]\nbudget_ratio = 0.0\nlast_chance_budget_ratio = 0.0\n";
    let failing = Manner::after(5).with(FAILS).best();
    let (ran, calls) = one(27, &[failing, Manner::after(20)], broke);
    assert_eq!((ran.statuses(), calls), (vec![200], vec![1, 1]));
    assert!(ran.slowest() < ms(50), "{:?}", ran.slowest());
    let (ran, calls) = one(27, &[failing], broke);
    assert_eq!((ran.statuses(), calls), (vec![503], vec![1]));
    assert!(ran.slowest() < ms(30), "{:?}", ran.slowest());
}

#[test]
fn a_fast_failure_does_not_wait_for_the_hedge_delay() {
    let engines = [Manner::after(5).with(Kind::Raw(503, "", "")).best(), Manner::after(20)];
    let sim = world::start(28, Options::default(), 1, &engines, "");
    sim.ask(ms(0), "what is a hedge");
    let asked = sim.engines.clone();
    assert_eq!(sim.run(1).statuses(), [200]);
    let gap = asked[1].calls()[0].at.since(asked[0].calls()[0].at);
    assert!((ms(5)..ms(11)).contains(&gap), "{gap:?}");
}

/// Half of its legs lose their race, the other half fail: the engine has no valid answer to show,
/// and looks like it.
#[test]
fn lost_races_do_not_make_a_sick_engine_look_better() {
    let (fails, loses) = (Manner::after(10).with(FAILS), Manner::after(400));
    let sim = world::start(29, Options::default(), 1, &[Manner::after(160).best(), fails], SOON);
    for index in 0..16 {
        sim.engines[1].behave(if index % 2 == 0 { fails } else { loses });
        sim.ask(ms(0), &format!("what is number {index}"));
        sim.pass(ms(600));
    }
    assert_eq!(sim.engines[1].count(), 16);
    assert!(valid_ratio(&sim, 1) < 0.01, "{}", valid_ratio(&sim, 1));
    let ran = sim.run(16);
    assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200; 16]));
}

#[test]
fn with_nobody_else_to_ask_there_is_no_hedge() {
    let trips = "[breaker]\nconsecutive_invalid_max = 1\nhalf_open_after_s = 3600\n";
    let more = format!("{SOON}{trips}");
    for engines in
        [vec![Manner::after(300)], vec![Manner::after(300).best(), Manner::after(5).with(FAILS)]]
    {
        let sim = world::start(30, Options::default(), 1, &engines, &more);
        for index in 0..30 {
            sim.ask(ms(400 * index), &format!("what is number {index}"));
        }
        let asked = sim.engines.clone();
        let ran = sim.run(30);
        assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200; 30]));
        assert_eq!(asked[0].count(), 30);
        // The first hedge opened the other's breaker.
        assert!(asked[1..].iter().all(|engine| engine.count() == 1));
    }
}

/// Ninety-nine answers are one too few to know what late is; two windows later they are forgotten.
#[test]
fn without_enough_samples_the_initial_delay_stands() {
    let slow = Manner { fast: ms(150), slow: ms(300), ..Manner::GOOD };
    let more = "[hedge]\nwindow_s = 2\nrefresh_s = 0.5\n[router]\nexploration_ratio = 0.0\n";
    let sim = world::start(31, Options::default(), 1, &[slow.best(), Manner::GOOD], more);
    let mut asked = 0;
    let mut wave = |count: u64, pause: Duration| {
        for index in 0..count {
            sim.ask(ms(10 * index), &format!("what is number {asked} {index}"));
        }
        asked += count;
        sim.pass(ms(10 * count) + pause);
        sim.engines[1].count()
    };
    assert_eq!(wave(99, ms(10_000)), 0, "hedges after a cold start");
    assert_eq!(wave(99, ms(10_000)), 0, "hedges after a lull");
    assert!(wave(300, ms(1_000)) > 0, "enough samples changed nothing: nothing was tested");
    let ran = sim.run(498);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
}

/// Beyond what any histogram of ours resolves.
#[test]
fn an_engine_that_takes_a_minute_breaks_no_statistics() {
    let endless = Manner { fast: ms(12_000), slow: ms(60_000), ..Manner::GOOD };
    let sim = world::start(32, Options::default(), 1, &[endless.best(), Manner::GOOD], SOON);
    for index in 0..150 {
        sim.ask(ms(20 * index), &format!("what is number {index}"));
    }
    sim.pass(ms(20_000));
    let gauges = sim.instance.gauges();
    for late_after in gauges[0].engines.iter().flat_map(|engine| engine.late_after) {
        assert!(late_after.is_zero() || (ms(120)..ms(1_000)).contains(&late_after));
    }
    let ran = sim.run(150);
    assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200; 150]));
}

#[test]
fn answers_of_a_minute_are_given_where_the_deadline_allows() {
    let slow = Manner { fast: ms(12_000), slow: ms(50_000), ..Manner::GOOD };
    let more = "[deadline]\ntotal_ms = 60000\n[hedge]\nmode = \"percentile\"\n\
                samples_min = 5\nrefresh_s = 1\n\
                delay_max_ms = 60000\nbudget_ratio = 1.0\n";
    let sim = world::start(33, Options::default(), 1, &[slow, slow], more);
    for index in 0..40 {
        sim.ask(ms(100 * index), &format!("what is number {index}"));
    }
    let ledger = sim.ledger.clone();
    sim.world.run_until(sim.world.now() + ms(70_000), || ledger.count() == 40);
    sim.ask(ms(0), "what is another");
    sim.pass(ms(1_000));
    let delays = sim.instance.gauges()[0].engines.iter().flat_map(|engine| engine.late_after).max();
    assert!((ms(12_000)..ms(60_000)).contains(&delays.expect("engines")), "{delays:?}");
    let ran = sim.run(41);
    assert_eq!((ran.findings(ms(60_000)), ran.statuses()), (vec![], vec![200; 41]));
}

#[test]
fn hedging_is_off_by_its_switch_and_never_by_a_delay_of_zero() {
    let off = "[hedge]\nenabled = false\ndelay_initial_ms = 120\ndelay_min_ms = 120\n";
    let (ran, calls) = one(34, &[Manner::after(400).best(), Manner::GOOD], off);
    assert_eq!((ran.statuses(), calls), (vec![200], vec![1, 0]));
    for key in ["delay_initial_ms", "delay_min_ms", "delay_max_ms"] {
        let text = format!("[hedge]\n{key} = 0\n");
        let problems = config::parse(&text, "sim.toml", &|_| None).expect_err("zero is no delay");
        assert!(problems.to_string().contains(key), "{problems}");
    }
}

/// What is open once all is quiet: ends of connections, and idle connections by core and engine.
fn open(sim: &Sim) -> (usize, Vec<usize>) {
    let gauges = sim.instance.gauges();
    let idle = gauges.iter().flat_map(|core| core.engines.iter().map(|engine| engine.idle));
    (sim.world.census().streams_open, idle.collect())
}

#[test]
fn losers_cancelled_at_any_point_leave_no_connection_behind() {
    for phase in ["connecting", "before the head", "in the body"] {
        let kind = if phase == "in the body" { Kind::Half } else { Kind::Never };
        let slow = Manner::after(0).with(kind).best();
        let more = SOON.replace("120", "60");
        let sim = world::start(35, Options::default(), 2, &[slow, Manner::after(10)], &more);
        let before = open(&sim);
        for wave in 0..10 {
            let address = sim.engines[0].address();
            sim.world.stall(address, phase == "connecting");
            for index in 0..60 {
                sim.ask(ms(80 * index), &format!("what is number {index} of {wave}"));
            }
            sim.pass(ms(6_000));
            sim.world.stall(address, false);
        }
        assert!(sim.engines[1].count() >= 600, "{phase}: no hedges, nothing was tested");
        sim.pass(ms(5_000));
        assert_eq!(open(&sim), before, "{phase}");
        let ran = sim.run(600);
        assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200; 600]), "{phase}");
    }
}

/// The core is held up while a hedge falls due: what is started afterwards is started in time.
#[test]
fn a_core_held_up_past_the_deadline_starts_no_leg() {
    for (held_up, status, hedges) in [(ms(300), 200, 1), (ms(600), 503, 0)] {
        let engines = [Manner::after(0).with(Kind::Never).best(), Manner::after(20)];
        let sim = world::start(36, Options::default(), 1, &engines, SOON);
        sim.ask(ms(0), "what is a hedge");
        sim.pass(ms(100));
        sim.world.freeze(&sim.instance.reactors[0], held_up);
        let asked = sim.engines.clone();
        let ran = sim.run(1);
        assert_eq!(ran.findings(ms(300)), Vec::<String>::new());
        assert_eq!((ran.statuses(), asked[1].count()), (vec![status], hedges), "{held_up:?}");
    }
}

#[test]
fn a_question_that_everybody_fails_costs_three_legs() {
    let failing = Manner::after(10).with(FAILS);
    let sim = world::start(37, Options::default(), 1, &[failing; 5], SOON);
    for index in 0..5 {
        sim.ask(ms(100 * index), &format!("what is number {index}"));
    }
    let ran = sim.run(5);
    assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![503; 5]));
    assert_eq!(ran.calls.len(), 15);
}

/// The third leg is not sent with less time left than is of use to it.
#[test]
fn a_leg_that_could_not_be_of_use_is_not_sent() {
    let failing = Manner::after(260).with(FAILS);
    let engines =
        [failing.best(), Manner { quality: 1.0, ..failing }, Manner { quality: 0.01, ..failing }];
    let more = "[hedge]\nenabled = false\n";
    let (ran, calls) = one(38, &engines, more);
    assert_eq!((ran.statuses(), calls), (vec![503], vec![1, 1, 0]));
    assert!(ran.slowest() < ms(540), "{:?}", ran.slowest());
}

/// A burst opens more connections than the configured number; those are closed once they were idle.
#[test]
fn connections_beyond_their_number_age_out() {
    let sim = world::start(1, Options::default(), 1, &[Manner::after(50)], "");
    for index in 0..40 {
        sim.ask(ms(0), &format!("what is number {index}"));
    }
    sim.pass(ms(1_000));
    assert!(sim.instance.gauges()[0].engines[0].idle > 2, "no burst, nothing was tested");
    sim.pass(ms(60_000));
    assert_eq!(sim.instance.gauges()[0].engines[0].idle, 2);
}
