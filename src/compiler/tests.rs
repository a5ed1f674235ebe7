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

/// A GET of `query` without any header.
fn asked(query: &str) -> Asked<'_> {
    Asked {
        is_post: false,
        query: query.as_bytes(),
        body: b"",
        content_type: None,
        content_encoding: Vec::new(),
        deadline_ms: Vec::new(),
        cache_control: Vec::new(),
    }
}

/// A POST of `body` as JSON.
fn posted(body: &str) -> Asked<'_> {
    let content_type = Some(&b"application/json"[..]);
    Asked { is_post: true, body: body.as_bytes(), content_type, ..asked("") }
}

fn get(endpoint: Endpoint, query: &str) -> Result<Plan, Refusal> {
    compiler().compile_asked(endpoint, &asked(query))
}

fn post(body: &str) -> Result<Plan, Refusal> {
    compiler().compile_asked(Endpoint::Fast, &posted(body))
}

fn bytes<'a>(lines: &[&'a str]) -> Vec<&'a [u8]> {
    lines.iter().map(|line| line.as_bytes()).collect()
}

fn with_headers(
    query: &str,
    deadline_ms: &[&str],
    cache_control: &[&str],
) -> Result<Plan, Refusal> {
    let asked = Asked {
        deadline_ms: bytes(deadline_ms),
        cache_control: bytes(cache_control),
        ..asked(query)
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

/// Two spellings of each field's values under all its names, of which the first two differ.
#[test]
fn each_pair_of_aliases_must_agree() {
    for (names, one, other) in [
        (&["query", "q"][..], "x", "y"),
        (
            &["max_results", "maxResults", "count", "num", "num_results", "numResults", "limit"],
            "5",
            "6",
        ),
        (&["region", "country", "gl"], "de", "all"),
        (&["lang", "language", "hl"], "de", "de-AT"),
        (&["time_range", "freshness"], "day", "pw"),
        (&["safe_search", "safesearch", "safeSearch"], "off", "1"),
        (&["include_domains", "includeDomains"], "a.org", "b.org"),
        (&["exclude_domains", "excludeDomains"], "a.org", "a.org,b.org"),
        (&["include_media", "includeMedia", "include_images"], "true", "0"),
    ] {
        let rest = if names.contains(&"q") { "" } else { "q=x&" };
        for (place, first) in names.iter().enumerate() {
            for second in names.iter().skip(place + 1) {
                let agreed = format!("{rest}{first}={one}&{second}={one}");
                assert!(get(Endpoint::Fast, &agreed).is_ok(), "{agreed}");
                let query = format!("{rest}{first}={one}&{second}={other}");
                check_disagreement(get(Endpoint::Fast, &query), first, second);
            }
        }
    }
}

/// Checks that a request is refused for one reason, which names both places.
fn check_disagreement(result: Result<Plan, Refusal>, first: &str, second: &str) {
    let Err(Refusal::Invalid(errors)) = result else {
        panic!("{first} and {second}: {result:?}");
    };
    let [error] = errors.as_slice() else {
        panic!("{first} and {second}: {errors:?}");
    };
    assert_eq!(error.pointer, format!("#/{second}"));
    let is_named = error.detail.contains(first) || first == second;
    assert!(is_named, "{first} and {second}: {}", error.detail);
}

#[test]
fn headers_say_what_their_fields_say_or_are_refused() {
    let timeout = |query, lines: &[&str]| with_headers(query, lines, &[]).map(|plan| plan.timeout);
    let of_200 = Ok(Some(Duration::from_millis(200)));
    assert_eq!(timeout("q=x", &["200"]), of_200);
    assert_eq!(timeout("q=x", &["200", "0200"]), of_200);
    assert_eq!(timeout("q=x", &["200, 200"]), of_200);
    assert_eq!(timeout("q=x&timeout_ms=200", &["200"]), of_200);
    let disagree = |query, lines: &[&str], first| {
        check_disagreement(with_headers(query, lines, &[]), first, "X-Deadline-Ms");
    };
    disagree("q=x", &["100", "600"], "X-Deadline-Ms");
    disagree("q=x", &["600, 100"], "X-Deadline-Ms");
    disagree("q=x&timeout_ms=300", &["200"], "timeout_ms");
    disagree("q=x&timeout_ms=300", &["400"], "timeout_ms");
    for wrong in ["soon", "5000", "49", "", "200,", "-5"] {
        let refused = pointers(with_headers("q=x", &[wrong], &[]));
        assert_eq!(refused, ["#/X-Deadline-Ms"], "{wrong}");
    }
    let body = r#"{"q":"x","timeout_ms":300}"#;
    let asked = Asked { deadline_ms: bytes(&["200"]), ..posted(body) };
    let refused = compiler().compile_asked(Endpoint::Fast, &asked);
    check_disagreement(refused, "timeout_ms", "X-Deadline-Ms");
}

#[test]
fn cache_control_steers_and_may_not_contradict() {
    let cache = |query, lines: &[&str]| with_headers(query, &[], lines).map(|plan| plan.cache);
    assert_eq!(cache("q=x", &["max-age=0, No-Cache"]), Ok(CacheMode::NoCache));
    assert_eq!(cache("q=x", &["only-if-cached"]), Ok(CacheMode::OnlyIfCached));
    assert_eq!(cache("q=x", &["no-store", "max-age=5"]), Ok(CacheMode::Default));
    assert_eq!(cache("q=x&cache=no-cache", &["no-cache", "no-cache"]), Ok(CacheMode::NoCache));
    let disagree = |query, lines: &[&str], first| {
        check_disagreement(with_headers(query, &[], lines), first, "Cache-Control");
    };
    disagree("q=x", &["no-cache", "only-if-cached"], "Cache-Control");
    disagree("q=x&cache=default", &["no-cache"], "cache");
    disagree("q=x&cache=only-if-cached", &["no-cache"], "cache");
}

#[test]
fn a_post_must_be_json_as_it_is() {
    let refused = |asked: Asked<'_>| {
        let refusal = compiler().compile_asked(Endpoint::Fast, &asked);
        assert_eq!(refusal, Err(Refusal::UnsupportedMediaType));
    };
    for kind in [None, Some(&b"text/plain"[..]), Some(b"application/x-www-form-urlencoded")] {
        refused(Asked { content_type: kind, ..posted("q=x") });
    }
    let body = r#"{"q":"x"}"#;
    for coding in ["gzip", "br", "identity, gzip", "x"] {
        refused(Asked { content_encoding: bytes(&[coding]), ..posted(body) });
    }
    let same = Asked { content_encoding: bytes(&["identity"]), ..posted(body) };
    assert!(compiler().compile_asked(Endpoint::Fast, &same).is_ok());
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
