//! From a plan to the bytes of one call, by the engine's manifest. Pure: the same plan gives the
//! same call.
//!
//! Nothing of the caller's own request travels but the question and its filters: no header, no
//! address, no key. Texts become parameters by percent-encoding and JSON values by the serialiser,
//! never by pasting. Units: query caps in characters and words.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::manifest::Manifest;
use super::schema::{Case, Scalar, Sites, Spelling};
use super::template::{Slot, Template, as_text};
use crate::config::settings;
use crate::model::{Plan, SafeSearch, TimeRange};

/// Sent where a manifest names no other.
const USER_AGENT: &str = concat!("hedgerow/", env!("CARGO_PKG_VERSION"));
/// RFC 3986 §2.3: what is never encoded.
const PARAMETER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &PARAMETER.remove(b'/');

/// One call, but for what the connection adds (`Host`, `Content-Length`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Path and query. May hold an API key: never for logs.
    pub target: String,
    /// Names as on the wire, values without control characters.
    pub headers: Vec<(String, String)>,
    /// Empty for a GET.
    pub body: Vec<u8>,
    /// The question's text as it is sent, before it is encoded.
    pub question: String,
}

/// The call that asks `engine` for `plan`.
pub fn build(engine: &settings::Engine, plan: &Plan) -> Upstream {
    let manifest = &*engine.manifest;
    let request = &manifest.request;
    let query = query_text(manifest, plan);
    let value_of = |slot: &Slot| value_of(engine, plan, &query, slot);
    let mut target = engine.url.path().trim_end_matches('/').to_owned();
    let path = request.path.fill(&|slot| {
        let text = as_text(&value_of(slot)).unwrap_or_default();
        utf8_percent_encode(&text, PATH).to_string().into()
    });
    target.push_str(path.as_str().unwrap_or_default());
    let parameters = encode(&request.query, &value_of);
    if !parameters.is_empty() {
        target.push('?');
        target.push_str(&parameters);
    }
    let (content_type, body) = match &request.json {
        Some(json) => (Some("application/json"), json.fill(&value_of).to_string().into_bytes()),
        None if request.form.is_empty() => (None, Vec::new()),
        None => {
            let form = encode(&request.form, &value_of);
            (Some("application/x-www-form-urlencoded"), form.into_bytes())
        }
    };
    let headers = headers(manifest, content_type, &value_of);
    Upstream { method: request.method.name(), target, headers, body, question: query }
}

/// The value of `Host`: the port only where it is not the scheme's own (RFC 9110 §7.2).
pub fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Ours, then the manifest's, which go before ours of the same name.
fn headers(
    manifest: &Manifest,
    content_type: Option<&str>,
    value_of: &dyn Fn(&Slot) -> Value,
) -> Vec<(String, String)> {
    let ours = [
        ("User-Agent", Some(USER_AGENT)),
        ("Accept", Some("application/json")),
        ("Accept-Encoding", Some("gzip")),
        ("Content-Type", content_type),
    ];
    let mut headers: Vec<(String, String)> = ours
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    for (name, template) in &manifest.request.headers {
        let Some(mut value) = as_text(&template.fill(value_of)) else {
            continue;
        };
        value.retain(|c| !c.is_control());
        headers.retain(|(ours, _)| !ours.eq_ignore_ascii_case(name));
        headers.push((name.clone(), value));
    }
    headers
}

/// `application/x-www-form-urlencoded`, with `%20` for a space; what is absent is left out, a list
/// template repeats its parameter.
fn encode(parameters: &BTreeMap<String, Template>, value_of: &dyn Fn(&Slot) -> Value) -> String {
    let mut encoded = String::new();
    for (name, template) in parameters {
        let values = match (template, template.fill(value_of)) {
            (Template::List(_), Value::Array(values)) => values,
            (_, value) => vec![value],
        };
        for value in values.iter().filter_map(as_text) {
            if !encoded.is_empty() {
                encoded.push('&');
            }
            encoded.extend(utf8_percent_encode(name, PARAMETER));
            encoded.push('=');
            encoded.extend(utf8_percent_encode(&value, PARAMETER));
        }
    }
    encoded
}

/// A placeholder's value as this engine spells it; `Null` is absent.
fn value_of(engine: &settings::Engine, plan: &Plan, query: &str, slot: &Slot) -> Value {
    let manifest = &*engine.manifest;
    let raw = match slot {
        Slot::Query => query.into(),
        Slot::Count => match manifest.caps.count_max {
            0 => plan.bucket.into(),
            count_max => plan.bucket.min(count_max).into(),
        },
        Slot::Country => plan
            .country
            .map_or(Value::Null, |code| String::from_utf8_lossy(&code).into_owned().into()),
        Slot::Lang => plan.lang.clone().into(),
        Slot::Language => plan.lang.as_deref().and_then(|tag| tag.split('-').next()).into(),
        Slot::Locale => locale(plan).into(),
        Slot::TimeRange => plan.time_range.map(time_range_name).into(),
        Slot::SafeSearch => safe_search_name(plan.safe_search).into(),
        Slot::IncludeDomains => list_value(&plan.include_domains),
        Slot::ExcludeDomains => list_value(&plan.exclude_domains),
        Slot::IncludeMedia => plan.include_media.into(),
        Slot::ApiKey => engine.api_key.as_ref().map(settings::Secret::reveal).into(),
        Slot::Value(name) => {
            let given = engine.values.get(name).or_else(|| manifest.values.get(name));
            given.filter(|value| !value.is_empty()).cloned().into()
        }
    };
    match manifest.request.spell.get(slot.name()) {
        Some(spelling) => spell(spelling, raw),
        None => raw,
    }
}

fn list_value(domains: &[String]) -> Value {
    if domains.is_empty() { Value::Null } else { domains.into() }
}

const fn time_range_name(range: TimeRange) -> &'static str {
    match range {
        TimeRange::Day => "day",
        TimeRange::Week => "week",
        TimeRange::Month => "month",
        TimeRange::Year => "year",
    }
}

const fn safe_search_name(safe_search: SafeSearch) -> &'static str {
    match safe_search {
        SafeSearch::Off => "off",
        SafeSearch::Moderate => "moderate",
        SafeSearch::Strict => "strict",
    }
}

/// `de-AT` from the tag's language and its region, or else the plan's country.
fn locale(plan: &Plan) -> Option<String> {
    let tag = plan.lang.as_deref()?;
    let mut subtags = tag.split('-');
    let language = subtags.next()?;
    let is_region = |subtag: &&str| subtag.len() == 2 && subtag.is_ascii();
    let region = subtags.find(is_region).map(str::to_ascii_uppercase);
    let country = || plan.country.map(|code| String::from_utf8_lossy(&code).into_owned());
    match region.or_else(country) {
        Some(region) => Some(format!("{language}-{region}")),
        None => Some(language.to_owned()),
    }
}

/// A tag that the engine does not know is tried again without its last part (RFC 4647 §3.4).
fn spell(spelling: &Spelling, raw: Value) -> Value {
    if matches!(raw, Value::Array(_) | Value::Object(_)) {
        return raw;
    }
    let text = as_text(&raw).map(|text| match spelling.case {
        Case::Keep => text,
        Case::Lower => text.to_lowercase(),
        Case::Upper => text.to_uppercase(),
    });
    let mut rest = text.as_deref();
    while let Some(ours) = rest {
        let mapped = spelling.map.get(ours).map(|Scalar(value)| value);
        let theirs = match mapped.map(|value| as_text(value).unwrap_or_default()) {
            Some(theirs) => Some(theirs),
            None => (!spelling.is_closed).then(|| ours.to_owned()),
        };
        if let Some(theirs) =
            theirs.filter(|t| spelling.only.is_empty() || spelling.only.contains(t))
        {
            return match mapped {
                Some(value) => value.clone(),
                None if raw.is_string() => theirs.into(),
                None => raw,
            };
        }
        rest = ours.rsplit_once('-').map(|(shorter, _)| shorter);
    }
    spelling.absent.as_ref().map_or(Value::Null, |Scalar(value)| value.clone())
}

/// The question as this engine gets it: `site:` words as it knows them, then its hooks, then its
/// caps.
fn query_text(manifest: &Manifest, plan: &Plan) -> String {
    let caps = &manifest.caps;
    let is_site = |word: &&str| {
        let domain = |prefix: &str| {
            let start = word.get(..prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then(|| word.get(prefix.len()..))?
        };
        let is_in = |list: &[String], domain: Option<&str>| {
            domain.is_some_and(|domain| list.iter().any(|d| d.eq_ignore_ascii_case(domain)))
        };
        is_in(&plan.include_domains, domain("site:"))
            || is_in(&plan.exclude_domains, domain("-site:"))
    };
    let words: Vec<&str> =
        plan.normalised.split_whitespace().filter(|word| !is_site(word)).collect();
    let mut query = words.join(" ");
    for hook in &manifest.request.query_hooks {
        query = hook.apply(&query);
    }
    let sites = manifest.request.sites.as_ref().map(|sites| sites_text(sites, plan));
    let sites = sites.unwrap_or_default();
    let left = |cap: usize, used: usize| match cap {
        0 => usize::MAX,
        cap => cap.saturating_sub(used),
    };
    let characters_max = left(caps.query_characters_max, sites.chars().count());
    let words_max = left(caps.query_words_max, sites.split_whitespace().count());
    let mut text = cut(&query, characters_max, words_max).to_owned();
    text.push_str(if text.is_empty() { sites.trim_start() } else { &sites });
    text
}

/// The `site:` words, each part with a space before it.
fn sites_text(sites: &Sites, plan: &Plan) -> String {
    let mut text = String::new();
    let fits = |domains: &[String]| (1..=sites.domains_max).contains(&domains.len());
    if fits(&plan.include_domains) {
        let words: Vec<String> =
            plan.include_domains.iter().map(|d| sites.include.replace("{domain}", d)).collect();
        match words.as_slice() {
            [word] => text = format!(" {word}"),
            _ => text = format!(" ({})", words.join(&sites.join)),
        }
    }
    if let Some(exclude) = sites.exclude.as_ref().filter(|_| fits(&plan.exclude_domains)) {
        for domain in &plan.exclude_domains {
            text.push(' ');
            text.push_str(&exclude.replace("{domain}", domain));
        }
    }
    text
}

/// The words that fit into both caps; a first word that is too long by itself is cut.
fn cut(query: &str, characters_max: usize, words_max: usize) -> &str {
    let mut end = 0;
    let mut characters = 0;
    for (index, word) in query.split(' ').enumerate() {
        let separator = usize::from(index > 0);
        characters += word.chars().count() + separator;
        if index >= words_max || characters > characters_max {
            break;
        }
        end += word.len() + separator;
    }
    if end == 0 && words_max > 0 {
        return crate::text::cut(query.split(' ').next().unwrap_or_default(), characters_max);
    }
    query.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::fixtures::{engine, plan};

    /// The target of a search of `adapter` for `query`, after `change`.
    fn target(adapter: &str, query: &str, change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan(query);
        change(&mut plan);
        build(&engine(adapter), &plan).target
    }

    fn body(adapter: &str, query: &str, change: impl FnOnce(&mut Plan)) -> Value {
        let mut plan = plan(query);
        change(&mut plan);
        serde_json::from_slice(&build(&engine(adapter), &plan).body).expect("the body is JSON")
    }

    #[test]
    fn searxng_gets_a_get() {
        assert_eq!(
            target("searxng", "rust & \"http\" hedging", |_| ()),
            "/search?categories=general&format=json&language=all&pageno=1\
             &q=rust%20%26%20%22http%22%20hedging&safesearch=1"
        );
        let full = target("searxng", "privé !!w", |plan| {
            plan.lang = Some("zh-Hant-TW".to_owned());
            plan.time_range = Some(TimeRange::Month);
            plan.safe_search = SafeSearch::Strict;
        });
        assert_eq!(
            full,
            "/search?categories=general&format=json&language=zh-TW&pageno=1\
             &q=priv%C3%A9%20%22%21%21w%22&safesearch=2&time_range=month"
        );
    }

    #[test]
    fn country_fills_the_locale_but_never_makes_one() {
        let austria = |lang: Option<&str>| {
            target("searxng", "x", |plan| {
                plan.country = Some(*b"AT");
                plan.lang = lang.map(str::to_owned);
            })
        };
        assert!(austria(Some("de")).contains("language=de-AT&"));
        assert!(austria(Some("de-CH")).contains("language=de-CH&"));
        assert!(austria(None).contains("language=all&"));
    }

    #[test]
    fn brave_spells_countries_and_languages_its_own_way() {
        let check = |country: &[u8; 2], lang: &str, expected: &str| {
            let target = target("brave", "x", |plan| {
                plan.country = Some(*country);
                plan.lang = Some(lang.to_owned());
                plan.bucket = 50;
            });
            assert!(target.contains(expected), "{target}");
        };
        check(b"DE", "ja", "country=DE&");
        check(b"DE", "ja", "search_lang=jp&");
        check(b"AQ", "pt-BR", "country=ALL&");
        check(b"AQ", "pt-BR", "search_lang=pt-br&");
        check(b"DE", "de", "count=20&");
        assert!(!target("brave", "x", |plan| plan.lang = Some("tlh".to_owned())).contains("_lang"));
    }

    #[test]
    fn json_is_built_of_values() {
        let query = "\"}],\"x\":[{\"\\ $(id)";
        let sent = body("tavily", query, |plan| {
            plan.country = Some(*b"DE");
            plan.include_domains = vec!["a.org".to_owned()];
            plan.include_media = true;
            plan.time_range = Some(TimeRange::Week);
        });
        assert_eq!(sent["query"], query);
        assert_eq!(sent["max_results"], 10);
        assert_eq!(sent["country"], "germany");
        assert_eq!(sent["include_domains"], serde_json::json!(["a.org"]));
        assert_eq!(sent["include_images"], true);
        assert_eq!(sent["time_range"], "week");
        assert!(sent.get("exclude_domains").is_none());
        let sent = body("serper", "x", |plan| plan.time_range = Some(TimeRange::Day));
        assert_eq!((&sent["tbs"], &sent["num"]), (&"qdr:d".into(), &10.into()));
    }

    #[test]
    fn sites_become_what_the_engine_knows() {
        let sites = |plan: &mut Plan| {
            plan.include_domains = vec!["a.org".to_owned(), "b.org".to_owned()];
            plan.exclude_domains = vec!["c.org".to_owned()];
        };
        let query = "rust site:a.org site:b.org -site:c.org";
        let q = body("serper", query, sites)["q"].clone();
        assert_eq!(q, "rust (site:a.org OR site:b.org) -site:c.org");
        assert_eq!(body("tavily", query, sites)["query"], "rust");
        let one = |plan: &mut Plan| plan.include_domains = vec!["a.org".to_owned()];
        assert_eq!(body("serper", "site:a.org", one)["q"], "site:a.org");
        let wiki = target("mediawiki", "rust site:a.org", one);
        assert!(wiki.ends_with("&srsearch=rust"), "{wiki}");
        let many = |plan: &mut Plan| {
            plan.exclude_domains = (0..40).map(|n| format!("x{n}.org")).collect();
        };
        assert_eq!(body("serper", "rust", many)["q"], "rust");
    }

    #[test]
    fn a_long_question_is_cut_at_a_word() {
        let check = |query: &str, characters_max: usize, words_max: usize, expected: &str| {
            assert_eq!(cut(query, characters_max, words_max), expected);
        };
        check("one two three", 100, 100, "one two three");
        check("one two three", 12, 100, "one two");
        check("one two three", 7, 100, "one two");
        check("one two three", 100, 1, "one");
        check("überlänge", 4, 9, "über");
        check("", 4, 9, "");
        let long = body("tavily", &"wörter ".repeat(200), |_| ());
        assert_eq!(long["query"].as_str().map(|text| text.chars().count()), Some(398));
    }

    #[test]
    fn the_key_is_sent_where_the_engine_wants_it_and_nowhere_else() {
        let check = |adapter: &str, name: &str, expected: &str| {
            let call = build(&engine(adapter), &plan("x"));
            let sent: Vec<_> = call.headers.iter().filter(|(_, v)| v.contains("sesame")).collect();
            assert_eq!(sent, [&(name.to_owned(), expected.to_owned())], "{adapter}");
            assert!(!call.target.contains("sesame"));
        };
        check("brave", "X-Subscription-Token", "sesame");
        check("serper", "X-API-KEY", "sesame");
        check("tavily", "Authorization", "Bearer sesame");
    }

    #[test]
    fn every_adapter_asks_for_gzipped_json_under_our_name() {
        for adapter in crate::engines::manifest::names() {
            let call = build(&engine(adapter), &plan("x"));
            let value = |name: &str| {
                call.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
            };
            assert_eq!(value("Accept"), Some("application/json"), "{adapter}");
            assert_eq!(value("Accept-Encoding"), Some("gzip"), "{adapter}");
            assert!(value("User-Agent").is_some_and(|name| name.starts_with("hedgerow")));
            assert_eq!(call.method == "POST", !call.body.is_empty(), "{adapter}");
            assert!(call.target.starts_with('/') && call.target.is_ascii(), "{}", call.target);
        }
    }

    #[test]
    fn the_base_path_and_values_make_the_path() {
        let mut searxng = engine("searxng");
        searxng.url = Url::parse("http://127.0.0.1:1/meta/?ignored=1").expect("an address");
        assert!(build(&searxng, &plan("x")).target.starts_with("/meta/search?"));
        let mut opensearch = engine("opensearch");
        opensearch.values.insert("index".to_owned(), "web pages/ü?".to_owned());
        let target = build(&opensearch, &plan("x")).target;
        assert!(target.starts_with("/web%20pages/%C3%BC%3F/_search?"), "{target}");
    }

    #[test]
    fn host_names_a_port_only_where_it_must() {
        let check = |url: &str, expected: &str| {
            assert_eq!(host(&Url::parse(url).expect("an address")), expected);
        };
        check("http://127.0.0.1:9101/x", "127.0.0.1:9101");
        check("https://engine.example:443", "engine.example");
        check("https://engine.example:80", "engine.example:80");
        check("http://[::1]:9101", "[::1]:9101");
    }

    #[test]
    fn a_header_never_breaks_its_line() {
        let mut brave = engine("brave");
        brave.api_key = Some(settings::Secret::new("a\r\nX-Evil: 1".to_owned()));
        let call = build(&brave, &plan("x"));
        assert!(call.headers.iter().all(|(_, value)| !value.contains(['\r', '\n'])));
    }
}
