//! One file of cases per shipped manifest: what an engine of that kind may send, and the verdict
//! and items it must come to. All texts are made up. The walk below asserts that no manifest
//! lacks a kind of case.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::{Received, manifest, request, verdict};
use crate::config::settings;
use crate::model::{CacheMode, Class, Endpoint, Item, Key, Plan, SafeSearch, Verdict};

/// The kinds that every manifest has; a file may hold more.
const KINDS: [&str; 17] = [
    "ok_full",
    "ok_min",
    "ok_null_fields",
    "empty_documented",
    "empty_list",
    "unicode",
    "wrong_type",
    "truncated_json",
    "html_instead_of_json",
    "block_page",
    "auth_error",
    "quota_error",
    "rate_limited",
    "api_error",
    "huge_body",
    "gzip_bad",
    "redirect_offsite",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// `@ROWS@` in the body stands for the row this often.
    #[serde(default)]
    row: Option<(usize, String)>,
    /// Bytes that are no text; goes before `body`.
    #[serde(default)]
    body_bytes: Option<Vec<u8>>,
    /// Whether the question allows an empty answer.
    #[serde(default)]
    may_be_empty: bool,
    verdict: String,
    detail: String,
    #[serde(default)]
    retry_after_s: Option<u64>,
    /// How many items there are, where they are not listed.
    #[serde(default)]
    items_count: Option<usize>,
    #[serde(default)]
    item: Vec<ExpectedItem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedItem {
    title: String,
    url: String,
    #[serde(default)]
    snippet: String,
    published_date: Option<String>,
    image: Option<String>,
    score: Option<f64>,
}

const fn ok() -> u16 {
    200
}

/// An engine of that adapter with a key, as the configuration would give it.
pub(super) fn engine(adapter: &str) -> settings::Engine {
    let manifest = manifest::built_in(adapter).expect("tests name shipped adapters");
    settings::Engine {
        name: "alpha".to_owned(),
        manifest: Arc::new(manifest),
        url: url::Url::parse("https://engine.example").expect("a fixed address"),
        endpoints: [true; Endpoint::ALL.len()],
        quality: 1.0,
        quality_by_class: [1.0; Class::ALL.len()],
        min_useful: Duration::from_millis(60),
        cacheable: true,
        api_key: Some(settings::Secret::new("sesame".to_owned())),
        connections_per_core: 4,
        in_flight_max: None,
        role: settings::EngineRole::Primary,
        values: [("index".to_owned(), "pages".to_owned())].into(),
    }
}

/// A plain search for ten results.
pub(super) fn plan(query: &str) -> Plan {
    Plan {
        endpoint: Endpoint::Fast,
        query: query.to_owned(),
        normalised: query.to_owned(),
        max_results: 10,
        bucket: 10,
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

impl Case {
    fn body(&self) -> Vec<u8> {
        let mut body = self.body_bytes.clone().unwrap_or_default();
        let text = match &self.row {
            Some((count, row)) => {
                self.body.replace("@ROWS@", &vec![row.as_str(); *count].join(","))
            }
            None => self.body.clone(),
        };
        body.extend_from_slice(text.as_bytes());
        body
    }

    fn items(&self) -> Vec<Item> {
        let item = |expected: &ExpectedItem| Item {
            title: expected.title.clone(),
            url: expected.url.clone(),
            snippet: expected.snippet.clone(),
            published_date: expected.published_date.clone(),
            image: expected.image.clone(),
            score: expected.score,
        };
        self.item.iter().map(item).collect()
    }
}

fn check(adapter: &str, case: &Case) {
    let name = format!("{adapter} {}", case.name);
    let plan = Plan { may_be_empty: case.may_be_empty, ..plan("rust") };
    let body = case.body();
    let (status, headers) = (case.status, &case.headers);
    let received = Received { status, headers, body: &body, asked: "rust" };
    let judged = verdict::judge(&engine(adapter), &plan, &received);
    let found = (judged.verdict.name(), judged.detail);
    assert_eq!(found, (case.verdict.as_str(), case.detail.as_str()), "{name}");
    let rest = case.retry_after_s.map(Duration::from_secs);
    assert_eq!(judged.retry_after, rest, "{name}: retry_after");
    match case.items_count {
        Some(count) => assert_eq!(judged.items.len(), count, "{name}: items"),
        None => assert_eq!(judged.items, case.items(), "{name}: items"),
    }
    let has_items = !judged.items.is_empty();
    assert_eq!(judged.verdict == Verdict::Valid, has_items, "{name}: items come with Valid alone");
}

/// The cases of one adapter.
fn cases(adapter: &str) -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/engines/fixtures");
    let text = std::fs::read_to_string(folder.join(format!("{adapter}.toml")));
    let text = text.expect("each manifest has fixtures");
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{adapter}: {error}"));
    file.case
}

#[test]
fn every_fixture_comes_to_its_verdict() {
    for adapter in manifest::names() {
        let cases = cases(adapter);
        for kind in KINDS {
            let count = cases.iter().filter(|case| case.name == kind).count();
            assert_eq!(count, 1, "{adapter} has one case {kind}");
        }
        cases.iter().for_each(|case| check(adapter, case));
    }
}

/// The verdict on `body` with status 200, which must come with items if and only if it is valid.
fn verdict_on(engine: &settings::Engine, body: &[u8]) -> Verdict {
    let judged = verdict::judge(
        engine,
        &plan("x"),
        &Received { status: 200, headers: &[], body, asked: "rust" },
    );
    assert_eq!(judged.verdict == Verdict::Valid, !judged.items.is_empty());
    judged.verdict
}

#[test]
fn an_answer_cut_off_anywhere_is_never_valid() {
    for adapter in manifest::names() {
        let engine = engine(adapter);
        let cases = cases(adapter);
        let full = cases.iter().find(|case| case.name == "ok_full").map(Case::body);
        let full = full.expect("each manifest has ok_full");
        assert_eq!(verdict_on(&engine, &full), Verdict::Valid, "{adapter}, whole");
        for end in 0..full.len() {
            assert_eq!(verdict_on(&engine, &full[..end]), Verdict::Malformed, "{adapter} at {end}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_or_pass_for_results(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for adapter in manifest::names() {
            prop_assert_ne!(verdict_on(&engine(adapter), &body), Verdict::Valid);
        }
    }

    /// JSON of the right words in wrong places and types.
    #[test]
    fn no_json_panics(value in nonsense()) {
        let body = value.to_string();
        for adapter in manifest::names() {
            verdict_on(&engine(adapter), body.as_bytes());
        }
    }

    #[test]
    fn no_question_breaks_a_call(query in "\\PC{0,60}", tag in "[a-zA-Z-]{0,12}") {
        for adapter in manifest::names() {
            let plan = Plan { lang: Some(tag.clone()), ..plan(&query) };
            let call = request::build(&engine(adapter), &plan);
            let is_plain = |byte: u8| byte.is_ascii_graphic();
            prop_assert!(call.target.bytes().all(is_plain), "{}", call.target);
            if !call.body.is_empty() {
                prop_assert!(serde_json::from_slice::<Value>(&call.body).is_ok());
            }
        }
    }
}

/// The keys that manifests look for, with values of every kind, four levels deep.
fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from("https://a.example/")),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "results",
        "web",
        "organic",
        "query",
        "search",
        "hits",
        "url",
        "link",
        "title",
        "content",
        "snippet",
        "description",
        "_source",
        "highlight",
        "body",
        "error",
        "code",
        "type",
        "unresponsive_engines",
        "searchParameters",
        "published_date",
        "date",
        "score",
        "general",
    ]);
    leaf.prop_recursive(4, 64, 6, move |inner| {
        let entry = (keys.clone().prop_map(str::to_owned), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Value::from),
            proptest::collection::vec(entry, 0..6)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}
