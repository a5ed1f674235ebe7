//! Idle connections seen from outside: what they weigh, and whether they move others.

use crate::common::{Engine, perf, printed, report};
use crate::planted::Planted;

#[test]
fn idle_connections_are_held_and_weighed() {
    let engine = Engine::start(&["--law", "fixed:0.1"]);
    let target = format!("http://{}/stats", engine.address);
    let pid = engine.pid();
    let idle = ["idle", "--target", &target, "--connections=300", "--seconds=0.2", "--warm"];
    let (report, output) = report("idle", &[&idle[..], &["--pid", &pid]].concat());
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!((&report["opened"], &report["closed_by_server"]), (&300.into(), &0.into()));
    assert!(report["rss_bytes_per_connection"].as_f64() > Some(100.0), "{report}");
    engine.quit();
}

#[test]
fn others_are_measured_beside_held_connections_in_every_round() {
    let engine = Engine::start(&["--law", "fixed:10"]);
    let target = format!("http://{}/search?q=x", engine.address);
    let pid = engine.pid();
    let idle = ["idle", "--target", &target, "--connections=200", "--seconds=0", "--warm"];
    let others = ["--beside-rate=100", "--beside-seconds=1", "--rounds=2", "--pid", &pid];
    let (report, output) = report("beside", &[&idle[..], &others].concat());
    assert!(output.status.success(), "{}", printed(&output));
    let beside = &report["beside"];
    assert_eq!((&beside["held_min"], &beside["lost"]), (&200.into(), &0.into()));
    assert_eq!(beside["not_good"], 0);
    let rounds = beside["rounds"].as_array().expect("rounds");
    assert_eq!(rounds.len(), 2);
    for side in ["without", "with"] {
        let requests = rounds.iter().map(|round| round[side]["requests"].as_u64()).sum();
        assert_eq!(beside[side]["response"]["count"].as_u64(), requests, "merged: {beside}");
        assert!(beside[side]["response"]["p50_ms"].as_f64() > Some(9.0), "{beside}");
        assert!(beside[side]["server_cpu_us_median"].as_f64() > Some(1.0), "{beside}");
    }
    for field in ["min", "median", "max", "low", "high"] {
        assert!(beside["p99_ratio"][field].as_f64() > Some(0.0), "{field}: {beside}");
    }
    // The warm requests of three crowds, and what the others asked with their warm-up.
    let stats = engine.stats_when(|stats| stats["in_flight"] == 0);
    assert!(stats["calls"].as_u64() >= Some(3 * 200 + 4 * 100), "{stats}");
    engine.quit();
}

/// Half of the crowd is what slows the planted server, so each claim is about the crowd and not
/// about the others' own connections.
#[test]
fn a_server_that_idle_connections_slow_is_above_the_limit() {
    let planted = Planted::start(100);
    let target = format!("http://{}/", planted.address);
    let idle = ["idle", "--target", &target, "--connections=200", "--seconds=0"];
    let others = ["--beside-rate=100", "--beside-seconds=1", "--rounds=2"];
    let limit = ["--good-status=404", "--max-p99-ratio=1.01"];
    let (report, output) = report("slowed", &[&idle[..], &others, &limit].concat());
    assert!(planted.slowed() > 100, "the fault was not planted: {}", printed(&output));
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    assert_eq!(report["beside"]["verdict"], "above");
    // The second round's side without comes after a crowd: the server was itself again.
    for round in report["beside"]["rounds"].as_array().expect("rounds") {
        let p50 = |side: &str| round[side]["p50_ms"].as_f64().expect("a number");
        let slow_ms = Planted::SLOW.as_secs_f64() * 1e3;
        assert!(p50("without") < slow_ms && p50("with") >= slow_ms, "{round}");
    }
}

#[test]
fn a_request_of_others_that_is_not_good_fails_the_run() {
    let planted = Planted::start(1_000);
    let target = format!("http://{}/", planted.address);
    let idle = ["idle", "--target", &target, "--connections=10", "--seconds=0", "--rounds=2"];
    let others = ["--beside-rate=50", "--beside-seconds=0.2"];
    let output = perf(&[&idle[..], &others].concat());
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("not answered well"), "{}", printed(&output));
}

#[test]
fn beside_connections_that_were_lost_nobody_is_measured() {
    // A port that was free a moment ago: nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("http://{}/", free.local_addr().expect("an address"));
    drop(free);
    let idle = ["idle", "--target", &target, "--connections=10", "--seconds=0"];
    let (report, output) = report("lost", &[&idle[..], &["--beside-rate=50"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("connections were lost"), "{}", printed(&output));
    assert_eq!((&report["failed"], report.get("beside")), (&10.into(), None));
}

#[test]
fn a_process_that_did_not_answer_is_not_weighed_beside_others() {
    let [engine, other] = [(), ()].map(|()| Engine::start(&["--law", "fixed:0.1"]));
    let target = format!("http://{}/stats", engine.address);
    let wrong = other.pid();
    let idle = ["idle", "--target", &target, "--connections=10", "--seconds=0"];
    let others = ["--beside-rate=50", "--beside-seconds=0.2", "--pid", &wrong];
    let output = perf(&[&idle[..], &others].concat());
    assert!(!output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("another one answered"), "{}", printed(&output));
    engine.quit();
    other.quit();
}
