//! The merge as the spine sees it: answers in, a page out.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::model::{CacheMode, Class, Endpoint, EngineId, Item, Key, SafeSearch};

fn plan(endpoint: Endpoint, bucket: usize) -> Plan {
    Plan {
        endpoint,
        query: "x".into(),
        normalised: "x".into(),
        max_results: bucket,
        bucket,
        country: None,
        lang: None,
        time_range: None,
        safe_search: SafeSearch::Moderate,
        include_domains: Vec::new(),
        exclude_domains: Vec::new(),
        include_media: false,
        engines: None,
        timeout: None,
        cache: CacheMode::Default,
        class: Class::Evergreen,
        key: Key([0; 32]),
        may_be_empty: false,
        warnings: Vec::new(),
    }
}

fn item(url: &str) -> Item {
    Item { title: format!("title {url}"), url: url.into(), snippet: "s".into(), ..Item::default() }
}

fn answer(engine: u16, urls: &[&str]) -> Answer {
    Answer { engine: EngineId(engine), items: urls.iter().map(|url| item(url)).collect() }
}

fn merged(plan: &Plan, answers: &[Answer]) -> Vec<Value> {
    let names = ["alpha".to_owned(), "beta".to_owned()];
    let page = merge(plan, answers, &names, &[1.0, 1.0]);
    let list = [b"[", page.first(page.count()), b"]"].concat();
    let rows: Vec<Value> = serde_json::from_slice(&list).unwrap();
    assert_eq!(rows.len(), page.count());
    rows
}

/// Checks which addresses are shown, in order.
fn check(plan: &Plan, answers: &[Answer], expected: &[&str]) {
    let rows = merged(plan, answers);
    let urls: Vec<&str> = rows.iter().filter_map(|row| row["url"].as_str()).collect();
    assert_eq!(urls, expected);
}

#[test]
fn ten_addresses_of_seven_pages_make_seven_results() {
    check(
        &plan(Endpoint::Fast, 10),
        &[answer(
            0,
            &[
                "http://www.a.example/x/?utm_source=n&id=5",
                "https://a.example/x?id=5",
                "https://a.example/x?id=6",
                "https://b.example/#/one",
                "https://b.example/#/two",
                "https://c.example/p#sec1",
                "https://c.example/p#sec2",
                "https://D.example:443/q",
                "https://d.example/q",
                "https://d.example:8443/q",
            ],
        )],
        &[
            "https://a.example/x?id=5",
            "https://a.example/x?id=6",
            "https://b.example/#/one",
            "https://b.example/#/two",
            "https://c.example/p#sec1",
            "https://D.example:443/q",
            "https://d.example:8443/q",
        ],
    );
}

#[test]
fn rows_have_the_shape_of_the_api() {
    let mut first = item("https://a.example/1");
    first.published_date = Some("2026-08-01T00:00:00Z".into());
    first.image = Some("https://a.example/1.png".into());
    let mut second = item("https://a.example/2");
    second.image = Some("javascript:alert(1)".into());
    let answers = [Answer { engine: EngineId(0), items: vec![first, second] }];
    let page = merge(&plan(Endpoint::Fast, 10), &answers, &["alpha".into()], &[1.0]);
    assert_eq!(
        std::str::from_utf8(page.first(1)).unwrap(),
        "{\"position\":1,\"title\":\"title https://a.example/1\",\"url\":\"https://a.example/1\",\
         \"snippet\":\"s\",\"score\":1.0,\"engine\":\"alpha\",\"engines\":[\"alpha\"],\
         \"published_date\":\"2026-08-01T00:00:00Z\",\"image\":\"https://a.example/1.png\"}"
    );
    let rows = merged(&plan(Endpoint::Fast, 10), &answers);
    assert_eq!(rows[1]["image"], Value::Null);
    let rows = merged(&plan(Endpoint::Lite, 10), &answers);
    assert!(rows[0].get("image").is_none() && rows[0].get("engines").is_some());
}

#[test]
fn agreement_of_engines_ranks_higher() {
    let answers = [
        answer(0, &["https://a.example/", "https://b.example/", "http://c.example/"]),
        answer(1, &["https://c.example/", "https://d.example/"]),
    ];
    check(
        &plan(Endpoint::Fast, 10),
        &answers,
        &["https://c.example/", "https://a.example/", "https://b.example/", "https://d.example/"],
    );
    let rows = merged(&plan(Endpoint::Fast, 10), &answers);
    assert_eq!(rows[0]["engines"], serde_json::json!(["alpha", "beta"]));
    assert_eq!(rows[0]["engine"], "beta");
}

#[test]
fn what_one_item_lacks_another_gives() {
    let bare = Item { url: "https://a.example/".into(), ..Item::default() };
    let mut full = item("http://www.a.example");
    full.published_date = Some("2026-01-01T00:00:00Z".into());
    let answers = [
        Answer { engine: EngineId(0), items: vec![bare] },
        Answer { engine: EngineId(1), items: vec![full] },
    ];
    let rows = merged(&plan(Endpoint::Fast, 10), &answers);
    assert_eq!(rows[0]["title"], "title http://www.a.example");
    assert_eq!(rows[0]["published_date"], "2026-01-01T00:00:00Z");
    assert_eq!(rows[0]["url"], "https://a.example/");
}

#[test]
fn domains_are_enforced_on_label_boundaries() {
    let answers = [answer(
        0,
        &[
            "https://x.com/1",
            "https://sub.X.com/2",
            "https://notx.com/3",
            "https://x.com.evil.org/4",
            "https://xn--a.example.com/5",
            "https://www.google.com/url?q=https://x.com/6",
        ],
    )];
    let mut wanted = plan(Endpoint::Fast, 10);
    wanted.exclude_domains = vec!["x.com".into()];
    check(&wanted, &answers, &["https://notx.com/3", "https://x.com.evil.org/4"]);
    wanted.exclude_domains = vec!["sub.x.com".into()];
    wanted.include_domains = vec!["x.com".into()];
    check(&wanted, &answers, &["https://x.com/1", "https://x.com/6"]);
}

#[test]
fn the_bucket_bounds_the_page_and_nothing_is_an_empty_page() {
    let urls: Vec<String> = (0..30).map(|n| format!("https://h{n}.example/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    assert_eq!(merged(&plan(Endpoint::Fast, 20), &[answer(0, &urls)]).len(), 20);
    let page = merge(&plan(Endpoint::Fast, 10), &[], &[], &[]);
    assert_eq!((page.count(), page.first(10)), (0, &b""[..]));
}

proptest! {
    #[test]
    fn scores_fall_and_stay_within_0_and_1(
        lists in prop::collection::vec(prop::collection::vec(0_u8..20, 0..15), 0..4),
        weights in prop::collection::vec(any::<f64>(), 0..4),
        endpoint in prop::sample::select(&Endpoint::ALL[..]),
    ) {
        let answers: Vec<Answer> = lists
            .iter()
            .zip(0_u16..)
            .map(|(list, engine)| Answer {
                engine: EngineId(engine),
                items: list.iter().map(|n| item(&format!("https://h{n}.example/"))).collect(),
            })
            .collect();
        let page = merge(&plan(endpoint, 10), &answers, &["alpha".into()], &weights);
        let list = [b"[", page.first(10), b"]"].concat();
        let rows: Vec<Value> = serde_json::from_slice(&list).unwrap();
        let scores: Vec<f64> = rows.iter().filter_map(|row| row["score"].as_f64()).collect();
        prop_assert_eq!(scores.len(), rows.len());
        prop_assert!(scores.iter().all(|score| *score > 0.0 && *score <= 1.0));
        prop_assert!(scores.is_sorted_by(|one, next| one >= next));
        prop_assert_eq!(page, merge(&plan(endpoint, 10), &answers, &["alpha".into()], &weights));
    }
}
