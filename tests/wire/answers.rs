//! What callers get: hits, one call for many, limits, hedges, refusals, the drain.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use super::engine::{Engine, Manner};
use super::http::{self, until};
use super::instance::Instance;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs `ask` on `count` threads at once.
fn together<T: Send + 'static>(
    count: usize,
    ask: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let (ask, gate) = (Arc::new(ask), Arc::new(Barrier::new(count)));
    let threads: Vec<_> = (0..count)
        .map(|index| {
            let (ask, gate) = (ask.clone(), gate.clone());
            let thread = std::thread::Builder::new().spawn(move || {
                gate.wait();
                ask(index)
            });
            thread.expect("a thread")
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

#[test]
fn a_miss_then_a_hit_of_the_same_page() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "");
    let (miss, hit) = (instance.ask("what is a hedge"), instance.ask("what is a hedge"));
    assert_eq!((miss.statuses(), hit.statuses()), (vec![200], vec![200]));
    assert_eq!(
        (miss.field("x-cache"), hit.field("x-cache")),
        (Some("miss".into()), Some("hit".into()))
    );
    assert_eq!(miss.json()["results"], hit.json()["results"]);
    assert_eq!(miss.json()["results"].as_array().map(Vec::len), Some(10));
    assert_eq!(miss.json()["engines"][0]["status"], "valid");
    assert_eq!(engine.calls(), 1);
}

#[test]
fn forty_at_once_on_two_cores_make_one_call() {
    let engine = Engine::start(|_| Manner::After(ms(150)));
    let instance = Instance::start(2, &[&engine], "");
    let search = instance.search;
    let came = together(40, move |_| http::get(search, "/search/fast?q=the+same").field("x-cache"));
    let count = |what: &str| came.iter().filter(|c| c.as_deref() == Some(what)).count();
    assert_eq!((count("miss"), count("coalesced")), (1, 39), "{came:?}");
    assert_eq!(engine.calls(), 1);
}

#[test]
fn a_bucket_is_exact_over_cores() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(2, &[&engine], "");
    let search = instance.search;
    let came = together(60, move |_| {
        http::send(search, "GET", "/search/fast?q=x", "X-API-Key: small\r\n", "")
    });
    let good = came.iter().filter(|c| c.statuses() == [200]).count();
    assert!((25..=26).contains(&good), "{good} of a burst of 25");
    let bad = came.iter().find(|c| c.statuses() == [429]).expect("one too many");
    assert_eq!(bad.json()["code"], "rate_limited");
    assert_eq!(bad.field("x-ratelimit-remaining"), Some("0".into()));
    assert!(bad.field("retry-after").is_some());
}

#[test]
fn keys_are_asked_for_and_never_read_from_the_target() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "");
    for (target, fields) in [
        ("/search/fast?q=x", ""),
        ("/search/fast?q=x", "Authorization: Bearer wrong\r\n"),
        ("/search/fast?q=x&api_key=demo", ""),
    ] {
        let came = http::send(instance.search, "GET", target, fields, "");
        assert_eq!(came.statuses(), [401]);
        assert!(came.field("www-authenticate").is_some_and(|v| v.starts_with("Bearer")));
    }
    assert_eq!(engine.calls(), 0);
}

#[test]
fn a_late_primary_is_hedged_and_the_loser_let_go() {
    let slow = Engine::start(|_| Manner::Never);
    let quick = Engine::start(|_| Manner::Page);
    let more = "[hedge]\ndelay_initial_ms = 150\ndelay_min_ms = 150\n";
    let instance = Instance::start(1, &[&slow, &quick], more);
    let came = instance.ask("a slow primary");
    let legs = came.json()["engines"].clone();
    assert_eq!(came.statuses(), [200]);
    assert_eq!((&legs[0]["role"], &legs[0]["status"]), (&"primary".into(), &"cancelled".into()));
    assert_eq!((&legs[1]["role"], &legs[1]["status"]), (&"hedge".into(), &"valid".into()));
    until("the loser is let go", || slow.given_up() == 1);
}

#[test]
fn past_the_deadline_it_is_a_503_and_the_work_is_torn_down() {
    let engine = Engine::start(|_| Manner::Never);
    let instance = Instance::start(1, &[&engine], "");
    let came = instance.ask("never");
    assert_eq!((came.statuses(), &came.json()["code"]), (vec![503], &"deadline_exceeded".into()));
    assert!(came.field("retry-after").is_some());
    until("the call is torn down", || engine.given_up() == engine.calls());
}

#[test]
fn an_empty_list_is_no_answer_but_where_it_may_be() {
    let engine = Engine::start(|_| Manner::Empty);
    let instance = Instance::start(1, &[&engine], "");
    let came = instance.ask("nothing");
    assert_eq!((came.statuses(), &came.json()["code"]), (vec![503], &"no_valid_answer".into()));
    let came = http::get(instance.search, "/search/fast?q=site:example.com+zxcvb");
    assert_eq!((came.statuses(), &came.json()["results"]), (vec![200], &serde_json::json!([])));
}

#[test]
fn a_kept_connection_that_turns_out_closed_costs_no_answer() {
    let engine = Engine::start(|_| Manner::ThenCloses);
    let instance = Instance::start(1, &[&engine], "");
    for index in 0..20 {
        assert_eq!(instance.ask(&format!("question {index}")).statuses(), [200]);
    }
}

#[test]
fn bytes_beyond_an_answer_close_its_connection() {
    let engine = Engine::start(|_| Manner::ThenMore);
    let instance = Instance::start(1, &[&engine], "");
    let warm = engine.connections();
    for index in 0..10 {
        let came = instance.ask(&format!("question {index}"));
        assert_eq!(came.statuses(), [200]);
        let title = format!("question {index} ::");
        assert!(came.json()["results"][0]["title"].as_str().is_some_and(|t| t.starts_with(&title)));
    }
    until("each was replaced", || engine.connections() >= warm + 6);
}

#[test]
fn interim_responses_are_skipped_and_cut_off_ones_are_no_answer() {
    let engine =
        Engine::start(|call| if call == 1 { Manner::InterimFirst } else { Manner::CutOff });
    let instance = Instance::start(1, &[&engine], "");
    assert_eq!(instance.ask("one").statuses(), [200]);
    let came = instance.ask("two");
    assert_eq!((came.statuses(), &came.json()["code"]), (vec![503], &"no_valid_answer".into()));
    assert_eq!(engine.calls(), 2, "what had begun to be answered is not asked again");
}

#[test]
fn a_drain_answers_what_is_in_flight_and_ends_well() {
    let engine = Engine::start(|_| Manner::After(ms(300)));
    let instance = Instance::start(2, &[&engine], "");
    let search = instance.search;
    let asked = std::thread::Builder::new()
        .spawn(move || http::get(search, "/search/fast?q=in+flight").statuses())
        .expect("a thread");
    until("the call is made", || engine.calls() == 1);
    assert!(instance.end().is_ok());
    assert_eq!(asked.join().expect("no panic"), [200]);
}

#[test]
fn the_admin_listener_says_how_it_goes() {
    let engine = Engine::start(|_| Manner::Page);
    let instance = Instance::start(1, &[&engine], "");
    instance.ask("metric");
    let metrics = || http::get(instance.admin, "/metrics").text();
    until("the request is counted", || metrics().contains("hedgerow_"));
    for path in ["/v1/status", "/v1/latency", "/healthz/live", "/"] {
        assert_eq!(http::get(instance.admin, path).statuses(), [200], "{path}");
    }
}
