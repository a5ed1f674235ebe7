//! The generator seen from outside: known truths and costs.

use crate::common::{Engine, perf, printed, report};

/// The freeze that closed loops leave out, five times shorter than the full self-test.
#[test]
fn a_frozen_server_is_reported_frozen_and_a_slow_one_slow() {
    let output = perf(&["freeze-test", "--scale", "0.2"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_request_that_never_ends_is_censored_and_spoils_the_percentiles() {
    let engine = Engine::start(&["--law", "fixed:50000"]);
    let target = format!("http://{}/search?q=x", engine.address);
    let load = ["load", "--target", &target, "--rate=50", "--seconds=0.4", "--drain-s=0.2"];
    let (report, output) = report("censored", &[&load[..], &["--constant"]].concat());
    assert_eq!(report["censored"], 20, "{}", printed(&output));
    assert_eq!(report["requests"], 20);
    assert!(report["time_to_good"]["p50_ms"].is_null());
    assert!(report["response_all"]["p50_ms"].as_f64() > Some(200.0), "at least so long");
    // Ending their connections is what tells the engine.
    engine.stats_when(|stats| stats["cancelled"] == 20);
    engine.quit();
}

#[test]
fn a_wait_for_a_connection_is_in_the_latency_and_marks_the_run() {
    let engine = Engine::start(&["--law", "fixed:100"]);
    let target = format!("http://{}/search?q=x", engine.address);
    let load = ["load", "--target", &target, "--constant", "--rate=100", "--seconds=0.5"];
    let (report, output) = report("waiting", &[&load[..], &["--connections-max=1"]].concat());
    // 50 requests in turn take 5 s; the last was intended at 0.5 s.
    assert!(report["response_all"]["max_ms"].as_f64() > Some(4_000.0), "{}", printed(&output));
    assert!(report["service"]["p50_ms"].as_f64() < Some(150.0));
    assert_eq!(report["generator_suspect"], true);
    assert_eq!(report["waited_for_connection"], 49);
    engine.quit();
}

#[test]
fn a_server_compared_with_itself_costs_the_same() {
    let engine = Engine::start(&["--law", "fixed:0.1"]);
    let side = format!("engine=http://{}/stats", engine.address);
    let pid = engine.pid();
    let compare = ["compare", "--a", &side, "--b", &side, "--pid-a", &pid, "--pid-b", &pid];
    let short = ["--rounds=4", "--seconds=0.3", "--warmup-s=0.1", "--connections=8"];
    let (report, output) = report("same", &[&compare[..], &short].concat());
    assert!(output.status.success(), "{}", printed(&output));
    let ratio = report["ratio"]["median"].as_f64().expect("a number");
    assert!((0.5..2.0).contains(&ratio), "{}", printed(&output));
    assert!(report["a"]["cpu_us_median"].as_f64() > Some(1.0));
    let limit = ["--max-ratio", "0.01"];
    let above = perf(&[&compare[..], &short, &limit].concat());
    assert_eq!(above.status.code(), Some(3), "{}", printed(&above));
    engine.quit();
}

#[test]
fn a_status_that_was_not_told_ends_a_comparison() {
    let engine = Engine::start(&["--law", "fixed:0.1"]);
    let side = format!("engine=http://{}/search", engine.address);
    let pid = engine.pid();
    let compare = ["compare", "--a", &side, "--b", &side, "--pid-a", &pid, "--pid-b", &pid];
    let output = perf(&[&compare[..], &["--rounds=2", "--seconds=0.1"]].concat());
    assert!(!output.status.success() && printed(&output).contains("400"), "{}", printed(&output));
    engine.quit();
}

#[test]
fn a_process_that_did_not_answer_is_not_compared() {
    let [engine, other] = [(), ()].map(|()| Engine::start(&["--law", "fixed:0.1"]));
    let side = format!("engine=http://{}/stats", engine.address);
    let (pid, wrong) = (engine.pid(), other.pid());
    let compare = ["compare", "--a", &side, "--b", &side, "--pid-a", &pid, "--pid-b", &wrong];
    let output = perf(&[&compare[..], &["--rounds=2", "--seconds=0.1"]].concat());
    assert!(!output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("another one answered"), "{}", printed(&output));
    engine.quit();
    other.quit();
}
