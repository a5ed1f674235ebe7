//! One file of cases per shipped manifest: what an engine of that kind may send, and the verdict
//! and items it must come to. All texts are made up. The walk below asserts that no manifest
//! lacks a kind of case.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Received, manifest, verdict};
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
            Some((count, row)) => self
                .body
                .replace("@ROWS@", &vec![row.as_str(); *count].join(",")),
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
    let plan = Plan {
        may_be_empty: case.may_be_empty,
        ..plan("rust")
    };
    let body = case.body();
    let received = Received {
        status: case.status,
        headers: &case.headers,
        body: &body,
    };
    let judged = verdict::judge(&engine(adapter), &plan, &received);
    let found = (judged.verdict.name(), judged.detail);
    assert_eq!(
        found,
        (case.verdict.as_str(), case.detail.as_str()),
        "{name}"
    );
    let rest = case.retry_after_s.map(Duration::from_secs);
    assert_eq!(judged.retry_after, rest, "{name}: retry_after");
    match case.items_count {
        Some(count) => assert_eq!(judged.items.len(), count, "{name}: items"),
        None => assert_eq!(judged.items, case.items(), "{name}: items"),
    }
    let has_items = !judged.items.is_empty();
    assert_eq!(
        judged.verdict == Verdict::Valid,
        has_items,
        "{name}: items come with Valid alone"
    );
}

#[test]
fn every_fixture_comes_to_its_verdict() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/engines/fixtures");
    for adapter in manifest::names() {
        let path = folder.join(format!("{adapter}.toml"));
        let text = std::fs::read_to_string(&path).expect("each manifest has fixtures");
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{adapter}: {error}"));
        for kind in KINDS {
            let count = file.case.iter().filter(|case| case.name == kind).count();
            assert_eq!(count, 1, "{adapter} has one case {kind}");
        }
        file.case.iter().for_each(|case| check(adapter, case));
    }
}
