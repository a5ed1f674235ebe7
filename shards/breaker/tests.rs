//! The breaker's rules one by one, each with the failure it is there for.

use super::*;

const SETTINGS: Settings = Settings {
    window: Duration::from_secs(10),
    samples_min: 50,
    valid_ratio_min: 0.8,
    consecutive_invalid_max: 10,
    half_open_after: Duration::from_secs(5),
    probe_ratio: 0.05,
    probe_lease: Duration::from_secs(1),
};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(ms)
}

/// One call through the breaker, if it lets one through.
fn call(breaker: &mut Breaker, now: Instant, outcome: Outcome) {
    match breaker.admit(now, 0.0) {
        Admission::Closed(generation) | Admission::Probe(generation) => {
            breaker.observe(now, generation, outcome);
        }
        Admission::Refused { .. } => {}
    }
}

fn admitted(breaker: &mut Breaker, now: Instant) -> Generation {
    match breaker.admit(now, 0.0) {
        Admission::Closed(generation) | Admission::Probe(generation) => generation,
        Admission::Refused { retry_at } => panic!("refused until {retry_at:?}"),
    }
}

/// A call every `pause_ms`, the outcomes repeating `pattern` (`v`, `i`, `n`): after how many calls
/// does the breaker open, if at all?
fn check(pattern: &str, pause_ms: u64, calls: u64, expected: Option<u64>) {
    let mut breaker = Breaker::new(SETTINGS);
    let mut outcomes = pattern.chars().cycle();
    let opened_after = (1..=calls).find(|index| {
        let outcome = match outcomes.next() {
            Some('v') => Outcome::Valid,
            Some('i') => Outcome::Invalid,
            _ => Outcome::Neutral,
        };
        let now = at(index * pause_ms);
        call(&mut breaker, now, outcome);
        breaker.state(now) != State::Closed
    });
    assert_eq!(opened_after, expected, "{pattern} every {pause_ms} ms");
}

/// A breaker that opened at `at(0)`.
fn opened() -> Breaker {
    let mut breaker = Breaker::new(SETTINGS);
    for _ in 0..10 {
        call(&mut breaker, at(0), Outcome::Invalid);
    }
    assert_eq!(breaker.state(at(0)), State::Open { until: at(5_000) });
    breaker
}

#[test]
fn it_opens_below_the_valid_rate_with_enough_samples() {
    check("v", 100, 1_000, None);
    check("vvvvvi", 100, 1_000, None);
    check("vvvi", 100, 1_000, Some(52));
    check("vi", 100, 1_000, Some(50));
}

#[test]
fn a_thin_window_widens_to_the_last_samples_of_two_minutes() {
    // One call in 2.3 s: 50 of them take 115 s.
    check("vi", 2_300, 1_000, Some(50));
    // One in 3 s: two minutes hold 40, so the rate never decides.
    check("vi", 3_000, 1_000, None);
}

#[test]
fn a_run_of_invalid_answers_opens_it_at_any_pace() {
    check("i", 60_000, 100, Some(10));
    check("vvviiiiiiiiii", 60_000, 100, Some(13));
    check("iiiiiiiiiv", 60_000, 100, None);
}

#[test]
fn cancelled_calls_neither_dilute_nor_break_a_run() {
    check("ni", 100, 1_000, Some(20));
    check("nnnnvi", 100, 1_000, Some(150));
    check("n", 100, 1_000, None);
}

#[test]
fn an_engine_that_recovered_is_not_judged_by_what_is_past() {
    let mut breaker = Breaker::new(SETTINGS);
    for index in 0..49 {
        call(
            &mut breaker,
            at(index),
            if index % 2 == 0 { Outcome::Invalid } else { Outcome::Valid },
        );
    }
    // Two minutes later the bad start is out of reach, and 50 samples decide again.
    for index in 0..60 {
        call(&mut breaker, at(125_000 + index), Outcome::Valid);
    }
    call(&mut breaker, at(125_060), Outcome::Invalid);
    assert_eq!(breaker.state(at(125_060)), State::Closed);
}

#[test]
fn three_valid_probes_in_a_row_close_it_and_an_invalid_one_opens_it() {
    let mut breaker = opened();
    assert!(!breaker.is_eligible(at(4_999)));
    assert_eq!(breaker.admit(at(4_999), 0.0), Admission::Refused { retry_at: at(5_000) });
    assert!(breaker.is_eligible(at(5_000)));
    for ms in [5_000, 5_001] {
        call(&mut breaker, at(ms), Outcome::Valid);
        assert_eq!(breaker.state(at(ms)), State::HalfOpen);
    }
    call(&mut breaker, at(5_002), Outcome::Invalid);
    assert_eq!(breaker.state(at(5_002)), State::Open { until: at(10_002) });
    for ms in [10_002, 10_003, 10_004] {
        call(&mut breaker, at(ms), Outcome::Valid);
    }
    assert_eq!(breaker.state(at(10_004)), State::Closed);
    // It starts over: nine invalid answers are one too few again.
    for _ in 0..9 {
        call(&mut breaker, at(10_005), Outcome::Invalid);
    }
    assert_eq!(breaker.state(at(10_005)), State::Closed);
}

#[test]
fn a_lost_probe_is_replaced_when_its_lease_ends() {
    let mut breaker = opened();
    for _ in 0..PROBES_MAX {
        admitted(&mut breaker, at(5_000));
    }
    assert!(!breaker.is_eligible(at(5_999)));
    assert_eq!(breaker.admit(at(5_999), 0.0), Admission::Refused { retry_at: at(6_000) });
    for _ in 0..3 {
        call(&mut breaker, at(6_000), Outcome::Valid);
    }
    assert_eq!(breaker.state(at(6_000)), State::Closed);
}

#[test]
fn a_cancelled_probe_frees_its_lease_and_decides_nothing() {
    let mut breaker = opened();
    for _ in 0..100 {
        call(&mut breaker, at(5_000), Outcome::Neutral);
    }
    assert_eq!(breaker.state(at(5_000)), State::HalfOpen);
    assert!(breaker.is_eligible(at(5_000)));
}

#[test]
fn outcomes_from_before_the_trip_decide_nothing() {
    for outcome in [Outcome::Valid, Outcome::Invalid] {
        let mut breaker = Breaker::new(SETTINGS);
        let old = admitted(&mut breaker, at(0));
        for _ in 0..10 {
            call(&mut breaker, at(0), Outcome::Invalid);
        }
        for _ in 0..5 {
            breaker.observe(at(5_000), old, outcome);
        }
        assert_eq!(breaker.state(at(5_000)), State::HalfOpen);
        assert_eq!(breaker.take_delta(), Some(Tally { valid: 0, invalid: 10 }));
    }
}

#[test]
fn a_probe_of_an_earlier_half_opening_does_not_settle_one_of_this() {
    let mut breaker = opened();
    let old = admitted(&mut breaker, at(5_000));
    call(&mut breaker, at(5_000), Outcome::Invalid);
    admitted(&mut breaker, at(10_000));
    breaker.observe(at(10_000), old, Outcome::Invalid);
    assert_eq!(breaker.state(at(10_000)), State::HalfOpen);
}

#[test]
fn failures_from_before_the_trip_do_not_count_after_the_recovery() {
    let mut breaker = Breaker::new(SETTINGS);
    let old = admitted(&mut breaker, at(0));
    for _ in 0..10 {
        call(&mut breaker, at(0), Outcome::Invalid);
    }
    for _ in 0..3 {
        call(&mut breaker, at(5_000), Outcome::Valid);
    }
    for _ in 0..20 {
        breaker.observe(at(5_001), old, Outcome::Invalid);
    }
    assert_eq!(breaker.state(at(5_001)), State::Closed);
}

#[test]
fn the_outcome_of_an_expired_or_settled_lease_decides_nothing() {
    let mut breaker = opened();
    let late = admitted(&mut breaker, at(5_000));
    let held = admitted(&mut breaker, at(5_500));
    breaker.observe(at(6_000), late, Outcome::Invalid);
    assert_eq!(breaker.state(at(6_000)), State::HalfOpen);
    for _ in 0..5 {
        breaker.observe(at(6_001), held, Outcome::Valid);
    }
    assert_eq!(breaker.state(at(6_001)), State::HalfOpen, "one probe, counted once");
}

#[test]
fn a_crowd_at_half_opening_gets_a_handful_of_probes() {
    let mut breaker = opened();
    let probes = (0..1_000)
        .filter(|index| {
            let draw = f64::from(*index) / 1_000.0;
            matches!(breaker.admit(at(5_000), draw), Admission::Probe(_))
        })
        .count();
    assert_eq!(probes, PROBES_MAX);
}

#[test]
fn probes_are_the_share_of_traffic_that_was_set() {
    let mut breaker = opened();
    let mut probes = 0;
    for index in 0..1_000_u32 {
        if let Admission::Probe(generation) =
            breaker.admit(at(5_000), f64::from(index * 617 % 1_000) / 1_000.0)
        {
            probes += 1;
            breaker.observe(at(5_000), generation, Outcome::Neutral);
        }
    }
    assert_eq!(probes, 50);
}

/// One call a second, none of which is drawn: how many seconds after half-opening is it closed?
fn closes_after(draw: f64) -> Option<u64> {
    let mut breaker = opened();
    (0..60).find(|second| {
        let now = at(5_000 + second * 1_000);
        if let Admission::Probe(generation) = breaker.admit(now, draw) {
            breaker.observe(now, generation, Outcome::Valid);
        }
        breaker.state(now) == State::Closed
    })
}

#[test]
fn little_traffic_probes_from_time_to_time() {
    assert_eq!(closes_after(0.99), Some(35));
    assert_eq!(closes_after(0.01), Some(2));
    assert_eq!(closes_after(1.0), None, "who may not probe does not");
}

#[test]
fn evidence_too_thin_on_each_core_opens_all_of_them_together() {
    let mut cores = vec![Breaker::new(SETTINGS); 4];
    for index in 0..56_usize {
        let now = at(index as u64 * 100);
        let outcome = if index % 3 == 0 { Outcome::Invalid } else { Outcome::Valid };
        call(&mut cores[index % 4], now, outcome);
        let Some(delta) = cores[index % 4].take_delta() else {
            continue;
        };
        for to in (0..4).filter(|to| *to != index % 4) {
            cores[to].merge_delta(now, delta);
            assert_eq!(cores[to].take_delta(), None, "gossip is not passed on");
        }
    }
    let now = at(5_600);
    assert!(cores.iter().all(|core| matches!(core.state(now), State::Open { .. })));
    // One core's three probes close the others too.
    let later = at(12_000);
    for _ in 0..3 {
        call(&mut cores[0], later, Outcome::Valid);
        let delta = cores[0].take_delta().unwrap();
        cores[1..].iter_mut().for_each(|core| core.merge_delta(later, delta));
    }
    assert!(cores.iter().all(|core| core.state(later) == State::Closed));
}

#[test]
fn an_open_breaker_ignores_gossip_and_a_half_open_one_heeds_it() {
    let invalid = Tally { valid: 5, invalid: 1 };
    let mut breaker = opened();
    breaker.merge_delta(at(1), invalid);
    assert_eq!(breaker.state(at(1)), State::Open { until: at(5_000) });
    breaker.merge_delta(at(5_001), invalid);
    assert_eq!(breaker.state(at(5_001)), State::Open { until: at(10_001) });
    breaker.merge_delta(at(10_001), Tally::default());
    assert_eq!(breaker.state(at(10_001)), State::HalfOpen);
}

#[test]
fn senseless_settings_do_not_wedge_it() {
    let settings = Settings {
        samples_min: 0,
        consecutive_invalid_max: 0,
        probe_ratio: 0.0,
        window: Duration::ZERO,
        ..SETTINGS
    };
    let mut breaker = Breaker::new(settings);
    call(&mut breaker, at(0), Outcome::Invalid);
    assert_eq!(breaker.state(at(0)), State::Open { until: at(5_000) });
    for _ in 0..3 {
        call(&mut breaker, at(5_000), Outcome::Valid);
    }
    assert_eq!(breaker.state(at(5_000)), State::Closed);
}
