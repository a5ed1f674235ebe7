//! Recording, publishing, merging and writing, together.

use runtime::Instant;

use super::render::{Instance, page, render};
use super::*;
use crate::config;
use crate::model::{
    Account, CacheReport, CacheStatus, Class, Endpoint, KeyId, Refusal, Role, Verdict,
};
use crate::reply::Content;
use crate::trail::Trail;

const SETTINGS: &str = "
[plans.a.fast]
burst = 1
per_second = 1
[[key]]
name = \"k\\\"1\"
sha256 = \"2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea\"
plan = \"a\"
[[engine]]
name = \"alpha\"
adapter = \"searxng\"
url = \"http://127.0.0.1:1\"
";

const MS: fn(u64) -> Duration = Duration::from_millis;

fn metrics() -> ShardMetrics {
    let text = SETTINGS.replace("k\\\"1", "k1");
    ShardMetrics::new(&config::parse(&text, "t", &|_| None).unwrap_or_else(|p| panic!("{p}")))
}

fn instance() -> Instance {
    Instance {
        engines: vec!["alpha".to_owned()],
        keys: vec!["k1".to_owned()],
        cores: 2,
        silences: vec![MS(10), MS(20)],
        ..Instance::default()
    }
}

fn account(class: Option<Class>) -> Option<Account> {
    Some(Account { key: KeyId(0), endpoint: Endpoint::Fast, class })
}

fn answered(status: CacheStatus) -> Reply {
    let cache = CacheReport { status, age: Duration::ZERO, ttl: Duration::ZERO };
    let trail = Trail { admitted: Instant::from_nanos(5_000), ..Trail::default() };
    Reply {
        cache: Some(cache),
        account: account(Some(Class::News)),
        trail: Some(trail),
        ..Reply::new(200, Content::Json, Vec::new(), String::new())
    }
}

fn refused(refusal: &Refusal, account: Option<Account>) -> Reply {
    Reply { account, ..Reply::refused(refusal, String::new(), None) }
}

fn leg(role: Role, verdict: Verdict, took: Duration) -> LegReport {
    LegReport { engine: EngineId(0), role, verdict, took }
}

/// A core that has seen one of everything.
fn busy() -> ShardMetrics {
    let mut metrics = metrics();
    for status in CacheStatus::ALL {
        metrics.request(&answered(status), true, MS(100), MS(1));
    }
    let late = refused(&Refusal::DeadlineExceeded, account(Some(Class::News)));
    metrics.request(&late, true, MS(585), MS(3));
    metrics.request(&refused(&Refusal::Unauthorized, None), false, MS(1), MS(1));
    metrics.request(&refused(&Refusal::Overloaded, account(None)), true, MS(1), MS(1));
    metrics.chosen(EngineId(0));
    metrics.leg(&leg(Role::Primary, Verdict::Cancelled, MS(200)), "");
    metrics.leg(&leg(Role::Hedge, Verdict::Valid, MS(50)), "");
    metrics.leg(&leg(Role::Hedge, Verdict::Blocked, MS(50)), "challenge");
    metrics.leg(&leg(Role::LastChance, Verdict::Skipped, MS(0)), "");
    metrics.hedge(EngineId(0), true);
    metrics.hedge(EngineId(0), false);
    metrics.refresh();
    metrics.spare(&Refusal::NoValidAnswer(MS(1_000)));
    metrics.spare(&Refusal::Overloaded);
    metrics.lease_overdue();
    metrics.lane_full();
    metrics.late(MS(3));
    metrics
}

fn gauges() -> Gauges {
    let engine = EngineGauges {
        breaker: shards::breaker::State::HalfOpen,
        ewma: Some(MS(120)),
        valid_ratio: 0.5,
        in_flight: 3,
        idle: 2,
        rests_for: MS(0),
        late_after: [MS(420); Class::ALL.len()],
        opened_total: 4,
        reused_total: 9,
    };
    Gauges { limit: 64, hedge_tokens: f64::NAN, engines: vec![engine], ..Gauges::default() }
}

fn published(metrics: &mut ShardMetrics) -> Option<Arc<Snapshot>> {
    let slot = Published::default();
    metrics.publish(gauges(), &slot);
    slot.newest()
}

#[test]
fn a_request_without_an_answer_counts_at_its_time_and_a_refused_one_does_not() {
    let seen = busy().seen;
    let fast = seen.of_endpoint(Endpoint::Fast);
    assert_eq!(fast.count(), 6);
    assert!(fast.max().unwrap() >= MS(585));
    assert_eq!(seen.by_class[Class::News.index()].count(), 6);
    assert_eq!(seen.keys[0].timing.count(), 6);
    assert_eq!(seen.by_endpoint[1][Outcome::Refused.index()].count(), 1);
    assert_eq!(seen.own[Endpoint::Fast.index()].count(), 5);
    assert_eq!(seen.refusals["overloaded"], 1);
    assert_eq!(seen.requests[2].iter().sum::<u64>(), 1, "before the key was known: no endpoint");
    assert_eq!(seen.incomplete, 1);
}

#[test]
fn an_old_answer_is_counted_by_the_refusal_it_stood_in_for() {
    let mut twice = busy().seen;
    twice.merge(&busy().seen);
    assert_eq!(twice.spares, [0, 2, 0]);
}

#[test]
fn a_caller_that_left_is_counted_and_is_no_sample() {
    let mut metrics = busy();
    let gone = Reply::peer_gone(Some(Trail::default()), account(Some(Class::News)));
    metrics.request(&gone, false, MS(40), MS(1));
    let (before, after) = (busy().seen, metrics.seen);
    let sum = |seen: &Seen| seen.requests.as_flattened().iter().sum::<u64>();
    assert_eq!(sum(&after), sum(&before) + 1);
    let fast = Endpoint::Fast.index();
    assert_eq!(after.by_endpoint[fast][Outcome::PeerGone.index()].count(), 1);
    assert_eq!(after.keys[0].outcomes[Outcome::PeerGone.index()], 1);
    assert_eq!(after.admitted[fast], before.admitted[fast] + 1);
    assert_eq!(after.incomplete, before.incomplete, "nothing was sent");
    assert_eq!(after.refusals, before.refusals, "nothing was refused");
    assert_eq!(after.of_endpoint(Endpoint::Fast).count(), 6);
    assert_eq!(after.keys[0].timing.count(), 6);
    assert_eq!(after.by_class[Class::News.index()].count(), 6);
}

#[test]
fn outcomes_stand_at_their_indexes() {
    for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
        assert_eq!(outcome.index(), index, "{}", outcome.name());
    }
}

#[test]
fn extra_load_is_told_three_ways() {
    let extra = busy().seen.extra_load();
    assert_eq!(extra.per_upstream_request, 2.0);
    assert_eq!(extra.per_request, 2.0 / 7.0);
    assert_eq!(extra.per_engine_second, 0.5);
    assert_eq!(metrics().seen.extra_load().per_engine_second, 0.0);
}

#[test]
fn a_snapshot_is_written_over_once_nobody_reads_it() {
    let slot = Published::default();
    let mut metrics = busy();
    metrics.publish(gauges(), &slot);
    let first = slot.newest().unwrap();
    metrics.refresh();
    metrics.publish(gauges(), &slot);
    metrics.refresh();
    metrics.publish(gauges(), &slot);
    assert_eq!(first.seen.refreshes, 1, "what is being read does not change");
    assert_eq!(slot.newest().unwrap().seen.refreshes, 3);
    drop(first);
    let second = Arc::as_ptr(&slot.newest().unwrap());
    metrics.publish(gauges(), &slot);
    metrics.request(&answered(CacheStatus::Hit), true, MS(7), MS(7));
    metrics.publish(gauges(), &slot);
    let again = slot.newest().unwrap();
    assert_eq!(Arc::as_ptr(&again), second, "two snapshots take turns");
    assert_eq!(again.seen.of_endpoint(Endpoint::Fast).count(), 7);
}

#[test]
fn cores_merge_to_the_sum() {
    let cores = [published(&mut busy()), None, published(&mut busy())];
    let merged = render::merged(&cores).unwrap();
    assert_eq!(merged.of_endpoint(Endpoint::Fast).count(), 12);
    assert_eq!(merged.engines[0].legs[Role::Hedge as usize][Verdict::Valid.index()], 2);
    assert_eq!(merged.engines[0].details["challenge"], 2);
    assert_eq!(merged.engines[0].busy[0], MS(400));
    assert_eq!(merged.lanes_full, 2);
    assert_eq!(merged.extra_load(), busy().seen.extra_load());
    assert!(render::merged(&[None]).is_none());
}

#[test]
fn every_series_of_the_list_is_written_and_no_other() {
    let cores = [published(&mut busy()), published(&mut busy())];
    let (_, mut written) = page(&cores, &instance()).finish();
    let mut listed: Vec<&str> = table::all().iter().map(|series| series.name).collect();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed);
}

#[test]
fn names_follow_the_rule_and_help_is_a_sentence() {
    for table::Series { name, kind, help, .. } in table::all() {
        assert!(name.starts_with("hedgerow_") || name.starts_with("process_"), "{name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}");
        assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}: base units");
        assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        assert!(!["_ms", "_us", "_ratios"].iter().any(|unit| name.contains(unit)), "{name}");
    }
}

#[test]
fn the_text_is_well_formed_and_holds_no_nan() {
    let mut named = instance();
    named.keys = vec!["k\"\\\n".to_owned()];
    let text = render(&[published(&mut busy()), None], &named);
    assert!(!text.contains("NaN") && !text.contains("inf\n"), "{text}");
    assert!(text.contains(r#"hedgerow_gateway_key_requests_total{key="k\"\\\n",outcome="hit"} 1"#));
    assert!(text.contains("hedgerow_engine_breaker_state{core=\"0\",engine=\"alpha\"} 1\n"));
    assert!(text.contains(
        "request_duration_seconds_bucket{endpoint=\"fast\",outcome=\"miss\",le=\"0.1\"} 1\n"
    ));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_default();
        assert!(name.starts_with("hedgerow_") || name.starts_with("process_"), "{line}");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        assert_eq!(name.contains('{'), name.ends_with('}'), "{line}");
    }
}

#[test]
fn nothing_published_is_still_a_page() {
    let text = render(&[None, None], &instance());
    assert!(text.contains("hedgerow_control_cores{state=\"configured\"} 2\n"), "{text}");
}

#[test]
fn the_documentation_is_the_list() {
    let written = include_str!("../../docs/metrics.md");
    assert!(
        written == table::document(),
        "write docs/metrics.md by `hedgerow check --print-metrics`"
    );
}
