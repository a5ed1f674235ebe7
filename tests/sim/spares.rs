//! When no engine gives an answer: an old page, marked as stale, where there is one that may be
//! used (`search.stale_if_error_s`), and a 503 where there is none.

use std::time::Duration;

use hedgerow::metrics::Seen;
use runtime::sim::Options;
use shards::breaker::State;

use super::client::{Ask, End};
use super::engine::{Kind, Manner};
use super::world::{self, Sim};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const FAILS: Kind = Kind::Raw(500, "", "a fault");

const QUESTION: &str = "how does a hedge grow";

/// A page is usable for 2 s, and may stand in for `spare_s` more. Breakers stay closed.
fn settings(spare_s: u64) -> String {
    let classes = ["navigational", "evergreen", "product", "longtail", "news"];
    let of = |class| format!("[search.classes.{class}]\nfresh_s = 2\nusable_s = 2\n");
    format!(
        "[search]\nstale_if_error_s = {spare_s}\n{}[breaker]\nsamples_min = 1000\n\
         consecutive_invalid_max = 1000\n",
        classes.map(of).concat()
    )
}

/// Asks `question` of a good engine; then, `later`, when it behaves as `ill`, once more.
fn asked_again(cores: usize, spare_s: u64, ill: Manner, later: Duration, again: Ask) -> (End, u64) {
    let sim = world::start(71, Options::default(), cores, &[Manner::after(5)], &settings(spare_s));
    sim.ask(ms(0), &again.question);
    sim.pass(ms(200));
    sim.engines[0].behave(ill);
    sim.pass(later);
    sim.send(ms(0), again);
    sim.pass(ms(1_000));
    let spares = spares(&sim);
    let ran = sim.run(2);
    assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
    assert!(matches!(ran.exchanges[0].end, End::Answered(200, _)), "{:?}", ran.exchanges[0]);
    (ran.exchanges[1].end.clone(), spares)
}

fn spares(sim: &Sim) -> u64 {
    let of = |seen: &Seen| seen.spares.iter().sum::<u64>();
    sim.instance.shards.iter().map(|shard| of(shard.metrics.borrow().seen())).sum()
}

fn again() -> Ask {
    Ask { question: QUESTION.to_owned(), ..Ask::default() }
}

fn check_stale((end, spares): (End, u64)) {
    let End::Answered(200, body) = &end else { panic!("{end:?}") };
    let told: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&told["cache"]["status"], &told["cache"]["ttl_ms"]), (&"stale".into(), &0.into()));
    assert!(told["cache"]["age_ms"].as_u64() >= Some(2_000), "{body}");
    assert_eq!(told["results"].as_array().map(Vec::len), Some(10), "{body}");
    assert_eq!(told["engines"], serde_json::json!([]), "nobody made it now");
    assert_eq!(spares, 1);
}

fn check_refused(code: &str, (end, spares): (End, u64)) {
    let End::Answered(503, body) = &end else { panic!("{end:?}") };
    assert!(body.contains(&format!("\"{code}\"")), "{body}");
    assert_eq!(spares, 0);
}

/// Each way in which engines give nothing.
const ILLS: [(&str, Manner); 3] = [
    ("no_valid_answer", Manner::after(5).with(FAILS)),
    ("no_valid_answer", Manner::after(5).with(Kind::Empty)),
    ("deadline_exceeded", Manner::after(0).with(Kind::Never)),
];

#[test]
fn an_old_page_stands_in_while_it_may_and_no_longer() {
    for (code, ill) in ILLS {
        check_stale(asked_again(1, 10, ill, ms(4_000), again()));
        check_stale(asked_again(1, 10, ill, ms(11_000), again()));
        check_refused(code, asked_again(1, 10, ill, ms(12_000), again()));
        check_refused(code, asked_again(1, 0, ill, ms(4_000), again()));
    }
}

#[test]
fn news_is_never_old() {
    for (code, ill) in ILLS {
        let news = Ask { question: "breaking news today".to_owned(), ..Ask::default() };
        check_refused(code, asked_again(1, 600, ill, ms(4_000), news));
    }
}

#[test]
fn who_wants_no_cached_answer_gets_no_old_one() {
    for (code, ill) in ILLS {
        let bypass = Ask { fields: "Cache-Control: no-cache\r\n", ..again() };
        check_refused(code, asked_again(1, 600, ill, ms(4_000), bypass));
    }
}

/// Whoever gave too little time is told so: it would never see another page.
#[test]
fn a_timeout_too_short_for_any_engine_stays_a_refusal() {
    let hasty = Ask { timeout_ms: Some(50), ..again() };
    check_refused("deadline_exceeded", asked_again(1, 600, Manner::GOOD, ms(4_000), hasty));
}

/// A core that never had the page gets it from the key's home core, with the lease's word; whoever
/// waits for another core's flight likewise.
#[test]
fn the_page_comes_from_the_home_core() {
    for (code, ill) in ILLS {
        for spare_s in [600, 0] {
            let more = settings(spare_s);
            let sim = world::start(72, Options::default(), 4, &[Manner::after(5)], &more);
            sim.ask(ms(0), QUESTION);
            sim.pass(ms(200));
            let holders = sim.instance.shards.iter().filter(|shard| shard.cache.size().1 > 0);
            assert!(holders.count() <= 2, "maker and home only");
            sim.engines[0].behave(ill);
            sim.pass(ms(4_000));
            for _ in 0..40 {
                sim.ask(ms(0), QUESTION);
            }
            sim.pass(ms(1_000));
            let of = |shard: &std::rc::Rc<hedgerow::shard::Shard>| {
                shard.metrics.borrow().seen().spares.iter().sum::<u64>()
            };
            let by_core: Vec<u64> = sim.instance.shards.iter().map(of).collect();
            let ran = sim.run(41);
            assert_eq!(ran.findings(ms(0)), Vec::<String>::new());
            let status = if spare_s == 0 { 503 } else { 200 };
            assert_eq!(ran.statuses()[1..], [status; 40], "{code} {spare_s}");
            let is_everywhere = by_core.iter().all(|count| *count > 0);
            assert_eq!(is_everywhere, spare_s > 0, "{by_core:?}");
        }
    }
}

/// All breakers open: what is old is given at once; what was never asked is refused, with the time
/// of the next probe.
#[test]
fn while_all_breakers_are_open_old_pages_are_given_at_once() {
    let more =
        settings(600).replace("= 1000", "= 3").replace("samples_min = 3", "samples_min = 50");
    let more = format!("{more}half_open_after_s = 30\n");
    let sim = world::start(73, Options::default(), 1, &[Manner::after(5); 2], &more);
    sim.ask(ms(0), QUESTION);
    sim.pass(ms(3_000));
    for engine in &sim.engines {
        engine.behave(Manner::after(5).with(FAILS));
    }
    for index in 0..10 {
        sim.ask(ms(20 * index), &format!("what is a failure {index}"));
    }
    sim.pass(ms(1_000));
    let gauges = sim.instance.gauges();
    let is_open =
        |engine: &hedgerow::metrics::EngineGauges| matches!(engine.breaker, State::Open { .. });
    assert!(gauges[0].engines.iter().all(is_open), "nothing was tripped");
    let calls: usize = sim.engines.iter().map(super::engine::Engine::count).sum();
    sim.ask(ms(0), QUESTION);
    sim.ask(ms(10), "what was never asked");
    sim.pass(ms(500));
    assert_eq!(spares(&sim), 1);
    let ran = sim.run(13);
    assert_eq!(ran.calls.len(), calls, "nobody was asked");
    let [.., old, new] = &ran.exchanges[..] else { panic!("thirteen") };
    let End::Answered(200, body) = &old.end else { panic!("{old:?}") };
    assert!(body.contains("\"status\":\"stale\""), "{body}");
    assert!(old.ended.since(old.sent) < ms(20), "{old:?}");
    let End::Answered(503, body) = &new.end else { panic!("{new:?}") };
    let told: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(told["code"], "engines_unavailable");
    let wait = told["retry_after_s"].as_u64().unwrap_or_default();
    assert!((25..=30).contains(&wait), "{body}");
}

/// Engines that have healed are asked again: an old page does not outlive the illness.
#[test]
fn an_old_page_gives_way_to_a_new_one() {
    let sim = world::start(74, Options::default(), 2, &[Manner::after(5)], &settings(600));
    sim.ask(ms(0), QUESTION);
    sim.pass(ms(200));
    sim.engines[0].behave(Manner::after(5).with(FAILS));
    sim.ask(ms(4_000), QUESTION);
    sim.pass(ms(5_000));
    sim.engines[0].behave(Manner::after(5));
    sim.ask(ms(0), QUESTION);
    let ran = sim.run(3);
    let statuses = ran.exchanges.iter().map(|exchange| match &exchange.end {
        End::Answered(200, body) => {
            let told: serde_json::Value = serde_json::from_str(body).expect("JSON");
            told["cache"]["status"].as_str().unwrap_or_default().to_owned()
        }
        other => format!("{other:?}"),
    });
    assert_eq!(statuses.collect::<Vec<_>>(), ["miss", "stale", "miss"]);
}
