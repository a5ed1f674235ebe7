//! The engine seen from outside: answers, cancelled calls, its end.

use std::io::Write;

use crate::common::Engine;

#[test]
fn both_forms_of_a_question_are_answered() {
    let engine = Engine::start(&["--law", "fixed:1", "--results", "3"]);
    let (status, body) = engine.get("/search?format=json&q=hello%20world");
    assert!(status.ends_with("200 OK"), "{status}");
    let answer: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(3));
    assert_eq!(answer["results"][0]["title"], "hello world - result 1");
    let form = "POST /search HTTP/1.1\r\nConnection: close\r\nContent-Length: 8\r\n\r\nq=a+form";
    assert!(engine.ask(form).1.contains("a form - result 1"));
    assert!(engine.get("/search").0.contains("400"));
    engine.quit();
}

#[test]
fn a_caller_that_leaves_is_a_cancelled_call_and_saves_time() {
    let engine = Engine::start(&["--law", "fixed:50000"]);
    let mut caller = engine.connect();
    caller.write_all(b"GET /search?q=x HTTP/1.1\r\n\r\n").expect("the engine reads");
    engine.stats_when(|stats| stats["in_flight"] == 1);
    drop(caller);
    let stats = engine.stats_when(|stats| stats["cancelled"] == 1);
    assert_eq!(stats["in_flight"], 0);
    let [spent, saved] = ["engine_seconds", "engine_seconds_saved"]
        .map(|name| stats[name].as_f64().expect("a number"));
    assert!((spent + saved - 50.0).abs() < 0.1, "{spent} spent and {saved} saved of 50 s");
    assert!(spent < 30.0, "{spent}");
    engine.quit();
}

#[test]
fn an_engine_ends_in_band_with_calls_in_flight_and_several_cores() {
    let engine = Engine::start(&["--law", "fixed:50000", "--cores", "2"]);
    let callers: Vec<_> = (0..16).map(|_| engine.connect()).collect();
    for mut caller in &callers {
        caller.write_all(b"GET /search?q=x HTTP/1.1\r\n\r\n").expect("the engine reads");
    }
    engine.stats_when(|stats| stats["in_flight"] == 16);
    engine.quit();
}

#[test]
fn every_kind_of_answer_comes_as_often_as_told() {
    let engine = Engine::start(&[
        "--law=fixed:0.1",
        "--error-ratio=0.2",
        "--empty-ratio=0.2",
        "--block-ratio=0.2",
        "--throttle-ratio=0.2",
    ]);
    let target = format!("http://{}/search", engine.address);
    let load = ["load", "--target", &target, "--unique", "--rate=400", "--seconds=2", "--seed=1"];
    let (report, output) = crate::common::report("kinds", &load);
    let count = |status: &str| report["statuses"][status].as_f64().unwrap_or(0.0);
    let total = report["requests"].as_f64().expect("a number");
    for (status, share) in [("200", 0.6), ("500", 0.2), ("429", 0.2)] {
        let seen = count(status) / total;
        assert!(
            (seen - share).abs() < 0.06,
            "{status}: {seen}\n{}",
            crate::common::printed(&output)
        );
    }
    let not_good = report["failure_ratio"]["ratio"].as_f64().expect("a number");
    assert!((not_good - 0.4).abs() < 0.06, "{not_good}");
    assert!(report["time_to_good"]["p90_ms"].is_null(), "failures are infinitely late");
    let stats = engine.stats_when(|stats| stats["in_flight"] == 0);
    assert!(stats["answered"]["block"].as_u64() > Some(80), "{stats}");
    engine.quit();
}

#[test]
fn a_law_reaches_the_caller() {
    let engine = Engine::start(&["--law", "p50:20,p90:60,p99:150", "--cores", "2"]);
    let target = format!("http://{}/search", engine.address);
    let load = ["load", "--target", &target, "--unique", "--rate=500", "--seconds=2", "--seed=1"];
    let (report, output) = crate::common::report("law", &load);
    // 1,000 draws: the p50 is within 8 % at three sigma; timers and a busy machine add some ms.
    let p50_ms = report["response_all"]["p50_ms"].as_f64().expect("a number");
    assert!((18.0..30.0).contains(&p50_ms), "{}", crate::common::printed(&output));
    assert_eq!(report["statuses"]["200"], report["requests"]);
    engine.quit();
}
