//! The compiler as the spine sees it: whole requests in, plans or refusals out.

use super::*;
use crate::head::{Field, Headers};
use crate::model::{CacheMode, EngineId, SafeSearch, TimeRange};
use std::time::Duration;

fn compiler() -> Compiler {
    let engines =
        ["alpha", "beta"].map(|name| Served { name: name.into(), endpoints: [true, true] }).into();
    Compiler { engines, classifier: Classifier::new(), memo: Memo::new() }
}

fn get(endpoint: Endpoint, query: &str) -> Result<Plan, Refusal> {
    let asked = Asked {
        is_post: false,
        query: query.as_bytes(),
        body: b"",
        content_type: None,
        deadline_ms: None,
        cache_control: Vec::new(),
    };
    compiler().compile_asked(endpoint, &asked)
}

fn post(body: &str) -> Result<Plan, Refusal> {
    let asked = Asked {
        is_post: true,
        query: b"",
        body: body.as_bytes(),
        content_type: Some(b"application/json"),
        deadline_ms: None,
        cache_control: Vec::new(),
    };
    compiler().compile_asked(Endpoint::Fast, &asked)
}

fn with_headers(deadline_ms: Option<&str>, cache_control: &[&str]) -> Result<Plan, Refusal> {
    let asked = Asked {
        is_post: false,
        query: b"q=x&timeout_ms=300",
        body: b"",
        content_type: None,
        deadline_ms: deadline_ms.map(str::as_bytes),
        cache_control: cache_control.iter().map(|line| line.as_bytes()).collect(),
    };
    compiler().compile_asked(Endpoint::Fast, &asked)
}

fn pointers(result: Result<Plan, Refusal>) -> Vec<String> {
    match result {
        Err(Refusal::Invalid(errors)) => errors.into_iter().map(|error| error.pointer).collect(),
        other => vec![format!("{other:?}")],
    }
}

/// Whether the two query strings share an entry.
fn share(one: &str, other: &str) -> bool {
    let key = |query| get(Endpoint::Fast, query).unwrap().key;
    key(one) == key(other)
}

/// Checks that a query string is refused with exactly these fields named.
fn check_refused(query: &str, expected: &[&str]) {
    assert_eq!(pointers(get(Endpoint::Fast, query)), expected, "{query}");
}

#[test]
fn defaults_are_those_of_the_endpoint() {
    let lite = get(Endpoint::Lite, "q=x").unwrap();
    let fast = get(Endpoint::Fast, "query=x").unwrap();
    assert_eq!((lite.max_results, fast.max_results), (5, 10));
    assert_eq!((fast.bucket, fast.safe_search), (10, SafeSearch::Moderate));
    assert_eq!((fast.country, fast.lang, fast.engines), (None, None, None));
    assert_eq!((fast.timeout, fast.cache, fast.time_range), (None, CacheMode::Default, None));
    assert!(!fast.include_media && !fast.may_be_empty && fast.warnings.is_empty());
}

#[test]
fn every_field_is_read_under_its_aliases() {
    let plan = get(
        Endpoint::Fast,
        "q=X&num=15&gl=de&hl=de-at&freshness=pw&safesearch=2&includeDomains=B.org,a.org\
         &exclude_domains=c.org&include_images=1&engines=beta&timeout_ms=200&cache=no-cache",
    )
    .unwrap();
    assert_eq!((plan.query.as_str(), plan.normalised.as_str()), ("X", "x"));
    assert_eq!((plan.max_results, plan.bucket), (15, 20));
    assert_eq!((plan.country, plan.lang.as_deref()), (Some(*b"DE"), Some("de-AT")));
    assert_eq!((plan.time_range, plan.safe_search), (Some(TimeRange::Week), SafeSearch::Strict));
    assert_eq!(plan.include_domains, ["a.org", "b.org"]);
    assert_eq!(plan.exclude_domains, ["c.org"]);
    assert_eq!(plan.engines, Some(vec![EngineId(1)]));
    assert_eq!((plan.timeout, plan.cache), (Some(Duration::from_millis(200)), CacheMode::NoCache));
    assert!(plan.include_media && plan.may_be_empty);
}

#[test]
fn a_body_is_read_with_its_types() {
    let plan = post(
        r#"{"query":"posted","numResults":3,"topic":"general","safe_search":0,
            "include_domains":["a.org"],"include_media":true,"lang":null}"#,
    )
    .unwrap();
    assert_eq!((plan.max_results, plan.safe_search), (3, SafeSearch::Off));
    assert!(plan.warnings.iter().any(|warning| warning.contains("topic")));
    for (body, pointer) in [
        ("{nope", "#"),
        ("", "#"),
        ("{}", "#/query"),
        (r#"{"query":null}"#, "#/query"),
        (r#"{"query":42}"#, "#/query"),
        (r#"{"q":"x","max_results":"5"}"#, "#/max_results"),
        (r#"{"q":"x","include_media":1}"#, "#/include_media"),
        (r#"{"q":"x","count":5,"count":6}"#, "#/count"),
        (r#"{"q":"x","engines":["alpha",1]}"#, "#/engines"),
    ] {
        assert_eq!(pointers(post(body)), [pointer], "{body}");
    }
}

#[test]
fn all_errors_are_told_at_once() {
    check_refused(
        "max_results=0&lang=german&region=Germany",
        &["#/max_results", "#/lang", "#/region", "#/query"],
    );
    let many: Vec<String> = (0..99).map(|_| "count=0".to_owned()).collect();
    assert_eq!(pointers(get(Endpoint::Fast, &many.join("&"))).len(), 32);
}

#[test]
fn names_that_disagree_are_refused_and_names_that_agree_are_not() {
    check_refused("q=x&max_results=5&count=6", &["#/count"]);
    check_refused("q=x&q=y", &["#/q"]);
    assert!(get(Endpoint::Fast, "q=x&query=x&max_results=5&count=05&region=DE&gl=de").is_ok());
    let plan = get(Endpoint::Fast, "q=x&include_domains=a.org&include_domains=b.org").unwrap();
    assert_eq!(plan.include_domains, ["a.org", "b.org"]);
}

#[test]
fn bounds_are_kept() {
    for (field, wrong) in [
        ("max_results", "0"),
        ("max_results", "51"),
        ("max_results", "ten"),
        ("timeout_ms", "-1"),
        ("timeout_ms", "49"),
        ("timeout_ms", "601"),
        ("engines", "nobody"),
        ("safe_search", "sometimes"),
        ("time_range", "eon"),
        ("region", "Germany"),
        ("cache", "maybe"),
        ("include_media", "yes"),
        ("include_domains", "https://a.org"),
    ] {
        check_refused(&format!("q=x&{field}={wrong}"), &[&format!("#/{field}")]);
    }
    check_refused(&format!("q={}", "x".repeat(2001)), &["#/q"]);
    check_refused("q=%E2%80%8B", &["#/q"]);
    check_refused("q=%ff%fe", &["#/q"]);
    assert_eq!(get(Endpoint::Fast, "q=a%00b").unwrap().query, "ab");
}

#[test]
fn headers_shorten_and_steer() {
    let timeout = |ms| with_headers(Some(ms), &[]).map(|plan| plan.timeout);
    assert_eq!(timeout("200"), Ok(Some(Duration::from_millis(200))));
    assert_eq!(timeout("400"), Ok(Some(Duration::from_millis(300))));
    assert_eq!(pointers(with_headers(Some("soon"), &[])), ["#/X-Deadline-Ms"]);
    assert_eq!(pointers(with_headers(Some("5000"), &[])), ["#/X-Deadline-Ms"]);
    let cache = |lines: &[&str]| with_headers(None, lines).map(|plan| plan.cache);
    assert_eq!(cache(&["max-age=0, No-Cache"]), Ok(CacheMode::NoCache));
    assert_eq!(cache(&["only-if-cached"]), Ok(CacheMode::OnlyIfCached));
    assert_eq!(cache(&["no-store", "max-age=5"]), Ok(CacheMode::Default));
    assert!(cache(&["no-cache", "only-if-cached"]).is_err());
}

#[test]
fn a_post_must_be_json() {
    for kind in [None, Some(&b"text/plain"[..]), Some(b"application/x-www-form-urlencoded")] {
        let asked = Asked {
            is_post: true,
            query: b"",
            body: b"q=x",
            content_type: kind,
            deadline_ms: None,
            cache_control: Vec::new(),
        };
        let refusal = compiler().compile_asked(Endpoint::Fast, &asked);
        assert_eq!(refusal, Err(Refusal::UnsupportedMediaType));
    }
}

#[test]
fn equivalent_requests_share_a_key() {
    let first = "q=Rust++HTTP++site:b.org+hedging+site:a.org&max_results=5";
    for other in [
        "q=rust+http+hedging+site:a.org+site:b.org&max_results=5",
        "q=++RUST%09http+site:a.org+site:b.org+hedging+&count=8",
        "q=%EF%BD%92%EF%BD%95%EF%BD%93%EF%BD%94+http+hedging+site:b.org+site:a.org",
        "q=rust+http+hedging+site:a.org+site:b.org&timeout_ms=100&engines=alpha,beta",
    ] {
        assert!(share(first, other), "{other}");
    }
    assert!(share("q=caf%C3%A9", "q=cafe%CC%81"));
    assert!(share(
        "q=read+https://x.example/a?utm_source=n%26id=5",
        "q=read+https://x.example/a?id=5"
    ));
}

#[test]
fn what_changes_the_answer_changes_the_key() {
    let base = "q=x+site:a.org";
    for more in [
        "&max_results=15",
        "&max_results=25",
        "&lang=de",
        "&region=de",
        "&engines=alpha",
        "&engines=beta",
        "&safe_search=off",
        "&time_range=day",
        "&include_media=true",
        "&exclude_domains=b.a.org",
        "&include_domains=b.a.org",
    ] {
        assert!(!share(base, &format!("{base}{more}")), "{more}");
    }
    assert!(!share("q=x&include_domains=a.org", "q=x&exclude_domains=a.org"));
    assert!(!share(
        "q=x&include_domains=a.org,b.org",
        "q=x&include_domains=a.org&exclude_domains=b.org"
    ));
    let lite = get(Endpoint::Lite, "q=x&count=10").unwrap();
    assert_ne!(lite.key, get(Endpoint::Fast, "q=x").unwrap().key);
}

#[test]
fn sites_of_the_query_narrow_the_domains() {
    let plan = get(Endpoint::Fast, "q=x+site:docs.a.org&include_domains=a.org,b.org").unwrap();
    assert_eq!(plan.include_domains, ["docs.a.org"]);
    check_refused("q=x+site:c.org&include_domains=a.org", &["#/include_domains"]);
    let plan = get(Endpoint::Fast, "q=x+-site:c.org&exclude_domains=a.org").unwrap();
    assert_eq!(plan.exclude_domains, ["a.org", "c.org"]);
    assert!(!plan.may_be_empty);
    assert!(get(Endpoint::Fast, "q=%22an+exact+phrase%22").unwrap().may_be_empty);
}

#[test]
fn the_echo_is_the_question_as_asked() {
    let plan = get(Endpoint::Fast, "q=+Rust++%22HTTP%22%E2%80%AE+").unwrap();
    assert_eq!(
        (plan.query.as_str(), plan.normalised.as_str()),
        ("Rust  \"HTTP\"", "rust \"http\"")
    );
}

#[test]
fn unknown_fields_are_named_but_not_without_end() {
    let plan = get(Endpoint::Fast, "q=x&api%0Akey=secret").unwrap();
    assert_eq!(plan.warnings, ["unknown field \"api key\" ignored"]);
    let many: Vec<String> = (0..100).map(|n| format!("f{n}=1")).collect();
    let plan = get(Endpoint::Fast, &format!("q=x&{}", many.join("&"))).unwrap();
    assert_eq!(plan.warnings.len(), 17);
}

#[test]
fn the_same_bytes_are_compiled_once_and_only_where_nothing_else_steers() {
    let compiler = compiler();
    let compile = |endpoint, query: &'static [u8], fields: &[Field<'_>]| {
        let head = Head {
            method: Method::Get,
            path: "/search/fast",
            query,
            headers: Headers::new(fields),
            host: b"x",
        };
        compiler.compile(endpoint, &head, b"").expect("a right request")
    };
    let first = compile(Endpoint::Fast, b"q=rust", &[]);
    assert!(Rc::ptr_eq(&first, &compile(Endpoint::Fast, b"q=rust", &[])));
    assert_ne!(first.key, compile(Endpoint::Lite, b"q=rust", &[]).key);
    let fields = [Field { name: "X-Deadline-Ms", value: b"100" }];
    let hurried = compile(Endpoint::Fast, b"q=rust", &fields);
    assert_eq!((first.timeout, hurried.timeout), (None, Some(Duration::from_millis(100))));
    assert!(Rc::ptr_eq(&first, &compile(Endpoint::Fast, b"q=rust", &[])));
}
