//! Faults that other programs had with deadlines: budgets that are not passed on, and budgets that
//! are told to strangers.

use std::time::Duration;

use runtime::sim::Options;

use super::client::{Ask, End};
use super::engine::Manner;
use super::world;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What a caller says about itself and its time stays here.
#[test]
fn engines_learn_nothing_of_the_caller_and_its_time() {
    let sim = world::start(71, Options::default(), 1, &[Manner::GOOD], "");
    let ask = Ask {
        question: "what is a hedge".to_owned(),
        query: "&max_results=7&timeout_ms=333",
        fields: "X-Deadline-Ms: 333\r\nX-Request-Id: a-name-of-theirs\r\nCookie: a=secret\r\n\
                 X-Forwarded-For: 192.0.2.7\r\nTraceparent: 00-abc-def-01\r\n",
        ..Ask::default()
    };
    sim.send(ms(0), ask);
    let ran = sim.run(1);
    assert_eq!((ran.findings(ms(0)), ran.statuses()), (vec![], vec![200]));
    let head = ran.calls[0].head.to_ascii_lowercase();
    for told in [
        "deadline",
        "timeout",
        "budget",
        "333",
        "request-id",
        "theirs",
        "cookie",
        "secret",
        "forwarded",
        "192.0.2.7",
        "traceparent",
        "api-key",
        "demo",
        "authorization",
    ] {
        assert!(!head.contains(told), "an engine is told {told}:\n{head}");
    }
}

/// The hop before us says how much of its time is left, in a header or a field: it only shortens.
#[test]
fn the_time_a_caller_has_left_is_kept_and_never_extended() {
    for (fields, query, at_most) in [
        ("X-Deadline-Ms: 200\r\n", "", ms(200)),
        ("", "&timeout_ms=250", ms(250)),
        ("X-Deadline-Ms: 250\r\n", "&timeout_ms=250", ms(250)),
        ("X-Deadline-Ms: 600\r\n", "", ms(600)),
        ("", "", ms(600)),
    ] {
        let sim = world::start(72, Options::default(), 1, &[Manner::after(2_000)], "");
        let question = "what is a hedge".to_owned();
        sim.send(ms(0), Ask { question, query, fields, ..Ask::default() });
        let ran = sim.run(1);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
        assert!(matches!(ran.exchanges[0].end, End::Answered(503, _)));
        let took = ran.slowest();
        assert!(took > at_most - ms(30) && took < at_most + ms(10), "{took:?} of {at_most:?}");
    }
}

/// A caller that gives less time than it takes to ask any engine is told how much it takes; with
/// that it gets an answer, with a millisecond less it does not.
#[test]
fn a_time_too_short_for_any_engine_is_told_with_the_least_that_is_enough() {
    let ask = |query: &'static str| {
        let sim = world::start(73, Options::default(), 1, &[Manner::after(1)], "");
        sim.send(ms(0), Ask { question: "what is a hedge".to_owned(), query, ..Ask::default() });
        let ran = sim.run(1);
        assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
        let End::Answered(status, body) = &ran.exchanges[0].end else { panic!("no answer") };
        (*status, body.clone(), ran.calls.len())
    };
    let (status, body, calls) = ask("&timeout_ms=50");
    assert!(status == 503 && calls == 0 && body.contains("\"deadline_exceeded\""), "{body}");
    assert!(body.contains("timeout_ms") && body.contains("at least 72,"), "{body}");
    assert_eq!(ask("&timeout_ms=72").0, 200, "60 for an engine and 12 to merge");
    let (status, body, calls) = ask("&timeout_ms=71");
    assert!(status == 503 && calls == 0 && body.contains("at least 72,"), "{body}");
}
