//! The admin listener over a real socket, and the documents behind it.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::*;
use crate::config;
use crate::metrics::{EngineGauges, Gauges, ShardMetrics};
use crate::model::{Class, EngineId, LegReport, Role, Verdict};

const SETTINGS: &str = "
[server]
cores = \"2\"
instance = \"test-1\"
[admin]
address = \"127.0.0.1:0\"
[plans.a.fast]
burst = 1
per_second = 1
[[key]]
name = \"k1\"
sha256 = \"2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea\"
plan = \"a\"
[[engine]]
name = \"alpha\"
adapter = \"searxng\"
url = \"http://127.0.0.1:1\"
";

/// A running control thread without cores, and what cores would do.
struct Running {
    handle: Handle,
    commons: Arc<Commons>,
    published: Vec<Arc<Published>>,
    warm_cores: Arc<AtomicUsize>,
}

impl Running {
    fn new(token: Option<&str>) -> Self {
        let parsed = config::parse(SETTINGS, "t", &|_| None);
        let mut settings = parsed.unwrap_or_else(|problems| panic!("{problems}"));
        settings.admin.token = token.map(str::to_owned);
        let commons = Commons::new(Arc::new(settings));
        commons.dns.store(Arc::new(dns::resolve_now(&commons.settings)));
        let published: Vec<Arc<Published>> = (0..2).map(|_| Arc::default()).collect();
        let warm_cores = Arc::new(AtomicUsize::new(0));
        let inputs = Inputs {
            commons: commons.clone(),
            published: published.clone(),
            warm_cores: warm_cores.clone(),
        };
        let prepared = prepare(&commons.settings).unwrap();
        Self { handle: start(prepared, inputs).unwrap(), commons, published, warm_cores }
    }

    /// Both cores publish; the second has its breaker in `breaker`.
    fn publish(&self, breaker: shards::breaker::State) {
        for (core, published) in self.published.iter().enumerate() {
            let mut metrics = ShardMetrics::new(&self.commons.settings);
            let (engine, took) = (EngineId(0), Duration::from_millis(80));
            let report = LegReport { engine, role: Role::Primary, verdict: Verdict::Valid, took };
            metrics.chosen(engine);
            metrics.leg(&report, "");
            let engine = EngineGauges {
                breaker: if core == 1 { breaker } else { shards::breaker::State::Closed },
                ewma: Some(took),
                valid_ratio: 1.0,
                in_flight: 3,
                idle: 4,
                rests_for: Duration::ZERO,
                late_after: [Duration::from_millis(420); Class::ALL.len()],
                opened_total: 5,
                reused_total: 6,
            };
            let at = runtime::Instant::from_nanos(1 + core as u64);
            metrics.publish(Gauges { at, engines: vec![engine], ..Gauges::default() }, published);
        }
    }

    /// The status and the body of one request.
    fn ask(&self, request_line: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.handle.address()).unwrap();
        let host = if headers.contains("Host:") { "" } else { "Host: 127.0.0.1\r\n" };
        let close = "Connection: close\r\nContent-Length: 0\r\n";
        let text = format!("{request_line} HTTP/1.1\r\n{host}{headers}{close}\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path}"), "")
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).1).unwrap()
    }
}

#[test]
fn it_is_ready_once_every_core_is_warm_and_until_it_drains() {
    let control = Running::new(None);
    let (status, body) = control.get("/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("0 of 2 cores have filled their pools"), "{body}");
    control.warm_cores.store(2, Ordering::Release);
    control.publish(shards::breaker::State::Closed);
    assert_eq!(control.get("/readyz").0, 200);
    assert_eq!(control.get("/healthz/live").0, 200);
    assert_eq!(control.get("/healthz/announce").0, 200);
    assert_eq!(control.ask("GET /drain", "").0, 405);
    assert_eq!(control.ask("POST /drain", "").0, 202);
    assert!(control.commons.is_draining.load(Ordering::Relaxed));
    let (status, body) = control.get("/readyz");
    assert!(status == 503 && body.contains("draining"), "{body}");
    assert_eq!(control.get("/healthz/live").0, 200);
    assert_eq!(control.get("/nothing").0, 404);
    control.handle.stop();
}

#[test]
fn it_is_not_announced_while_every_breaker_is_open() {
    let control = Running::new(None);
    control.warm_cores.store(2, Ordering::Release);
    let until = runtime::Instant::from_nanos(9);
    control.publish(shards::breaker::State::Open { until });
    assert_eq!(control.get("/healthz/announce").0, 200, "one core's breaker is closed");
    let open = control.published[1].newest().unwrap().gauges.clone();
    ShardMetrics::new(&control.commons.settings).publish(open, &control.published[0]);
    let (status, body) = control.get("/healthz/announce");
    assert!(status == 503 && body.contains("every engine's breaker is open"), "{body}");
    assert_eq!(control.get("/readyz").0, 200);
    control.handle.stop();
}

#[test]
fn metrics_status_and_latency_are_merged() {
    let control = Running::new(None);
    control.publish(shards::breaker::State::HalfOpen);
    let (status, text) = control.get("/metrics");
    assert_eq!(status, 200);
    let legs =
        "hedgerow_engine_legs_total{engine=\"alpha\",role=\"primary\",verdict=\"valid\"} 2\n";
    assert!(text.contains(legs), "{text}");
    let status = control.json("/v1/status");
    assert_eq!(status["instance"], "test-1");
    assert_eq!(status["engines"][0]["name"], "alpha");
    assert_eq!(status["engines"][0]["breaker"], "half open", "the worst of the cores");
    assert_eq!(status["engines"][0]["in_flight"], 6);
    assert_eq!(status["cores"][1]["engines"][0]["late_after_ms"]["news"], 420.0);
    let latency = control.json("/v1/latency");
    assert_eq!(latency["engine"][0]["count"], 2);
    assert!((latency["engine"][0]["p99"].as_f64().unwrap() / 80.0 - 1.0).abs() < 0.001);
    control.handle.stop();
}

#[test]
fn a_token_guards_all_but_the_probes_and_the_empty_page() {
    let control = Running::new(Some("hush"));
    for path in ["/metrics", "/v1/status", "/v1/latency"] {
        assert_eq!(control.get(path).0, 401, "{path}");
        let line = format!("GET {path}");
        assert_eq!(control.ask(&line, "Authorization: Bearer wrong\r\n").0, 401, "{path}");
        assert_eq!(control.ask(&line, "Authorization: bearer hush\r\n").0, 200, "{path}");
    }
    assert_eq!(control.ask("POST /drain", "").0, 401);
    assert!(!control.commons.is_draining.load(Ordering::Relaxed));
    assert_eq!(control.get("/").0, 200);
    assert_eq!(control.get("/healthz/live").0, 200);
    assert_eq!(control.ask("GET /metrics", "Host: metrics.example\r\n").0, 401);
    control.handle.stop();
}

#[test]
fn another_sites_page_cannot_ask() {
    let control = Running::new(None);
    let check = |line: &str, headers: &str, expected: u16| {
        assert_eq!(control.ask(line, headers).0, expected, "{headers}");
    };
    check("POST /drain", "Origin: https://evil.example\r\n", 403);
    check("POST /drain", "Origin: null\r\n", 403);
    check("GET /v1/status", "Sec-Fetch-Site: cross-site\r\n", 403);
    check("GET /v1/status", "Host: rebound.example:9090\r\n", 403);
    assert!(!control.commons.is_draining.load(Ordering::Relaxed));
    check("GET /v1/status", "Host: [::1]evil.example\r\n", 403);
    check("GET /v1/status", "Host: \u{e9}.example\r\n", 400);
    check("GET /v1/status", "Host: 127.0.0.1\r\nHost: evil.example\r\n", 400);
    check("GET http://evil.example/v1/status", "Host: 127.0.0.1\r\n", 403);
    check("POST /drain", "Origin: http://\u{e9}.example\r\n", 400);
    for of_form in ["text/plain", "Multipart/Form-Data; boundary=x"] {
        check("POST /drain", &format!("Content-Type: {of_form}\r\n"), 403);
    }
    let of_form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let (status, body) = control.ask("POST /drain", of_form);
    assert!(status == 403 && body.contains("curl -X POST"), "{status} {body}");
    assert!(!control.commons.is_draining.load(Ordering::Relaxed));
    check("GET /v1/status", "Host: localhost:9090\r\n", 200);
    check("GET /v1/status", "Host: [::1]:9090\r\n", 200);
    check("POST /drain", "Host: 127.0.0.1:9\r\nOrigin: http://127.0.0.1:9\r\n", 202);
    control.handle.stop();
}

#[test]
fn beyond_its_most_connections_one_more_is_closed() {
    let control = Running::new(None);
    let connect = || {
        let stream = TcpStream::connect(control.handle.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..connections::CONNECTIONS_MAX).map(|_| connect()).collect();
    let mut surplus = connect();
    let closed = surplus.read(&mut [0]);
    let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    assert!(matches!(closed, Ok(0)) || closed.as_ref().is_err_and(is_reset), "{closed:?}");
    // One that was there in time is served, and its place is free after it.
    let mut first = silent.remove(0);
    first
        .write_all(b"GET /healthz/live HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    control.handle.stop();
}

#[test]
fn a_port_that_is_taken_is_told_with_its_key() {
    let control = Running::new(None);
    let mut settings = (*control.commons.settings).clone();
    settings.admin.address = control.handle.address();
    let error = prepare(&settings).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with("admin.address 127.0.0.1:"), "{error}");
    control.handle.stop();
}

/// The values of an attribute in the page.
fn attributes(name: &str) -> Vec<(&'static str, &'static str)> {
    let start = format!("{name}=\"");
    let found = admin::PAGE.match_indices(&start).map(|(at, _)| {
        let rest = &admin::PAGE[at + start.len()..];
        let end = rest.find('"').unwrap_or(rest.len());
        let columns = rest.split_once("data-columns=\"").map_or("", |(_, columns)| columns);
        (&rest[..end], columns.split('"').next().unwrap_or(""))
    });
    found.collect()
}

#[test]
fn the_page_shows_only_what_the_documents_have() {
    let control = Running::new(None);
    control.publish(shards::breaker::State::Closed);
    let (status, latency) = (control.json("/v1/status"), control.json("/v1/latency"));
    let paths = attributes("data-status");
    assert!(paths.len() > 10);
    for (path, _) in paths {
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(status.pointer(&pointer).is_some(), "{path} is not in /v1/status");
    }
    for (table, columns) in attributes("data-table") {
        for column in columns.split(' ') {
            assert!(status[table][0].get(column).is_some(), "{table}: no {column} in /v1/status");
        }
    }
    for (groups, columns) in attributes("data-latency") {
        for group in groups.split(' ').filter(|group| !["key", "all"].contains(group)) {
            for column in columns.split(' ') {
                let row = &latency[group][0];
                assert!(row.get(column).is_some(), "{group}: no {column} in /v1/latency");
            }
        }
    }
    assert!(!admin::PAGE.contains("http://") && !admin::PAGE.contains("https://"));
    control.handle.stop();
}
