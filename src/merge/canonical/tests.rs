//! Which addresses are one page and which are not.

use proptest::prelude::*;

use super::*;

fn key_of(url: &str) -> String {
    canonical(url).map(|found| found.key).unwrap_or_default()
}

/// Checks that all of these are one page.
fn check_same(urls: &[&str]) {
    let first = key_of(urls.first().unwrap());
    assert!(!first.is_empty());
    for url in urls {
        assert_eq!(key_of(url), first, "{url}");
    }
}

/// Checks that no two of these are one page.
fn check_apart(urls: &[&str]) {
    for (place, one) in urls.iter().enumerate() {
        for other in urls.iter().skip(place + 1) {
            assert_ne!(key_of(one), key_of(other), "{one} {other}");
        }
    }
}

fn check_shown(raw: &str, expected: &str) {
    assert_eq!(canonical(raw).map(|found| found.shown).as_deref(), Some(expected), "{raw}");
}

#[test]
fn spellings_of_one_page_share_a_key() {
    check_same(&["https://m-labs.hk/artiq/manual", "https://m-labs.hk/artiq/manual/"]);
    check_same(&[
        "HTTP://WWW.Example.COM:80/a/../b/./c?b=2&a=1#frag",
        "https://example.com/b/c?a=1&b=2",
        "https://example.com:443/b/c/?utm_source=x&a=1&b=2&fbclid=y",
        "https://example.com./b/c?a=1&b=2",
    ]);
    check_same(&["http://example.com", "https://example.com/", "https://example.com/?"]);
    check_same(&["https://en.m.wikipedia.org/wiki/Rust", "https://en.wikipedia.org/wiki/Rust"]);
    check_same(&[
        "https://en.wikipedia.org/wiki/Caf%C3%A9",
        "https://en.wikipedia.org/wiki/Café",
        "https://en.wikipedia.org/wiki/Cafe%CC%81",
    ]);
    check_same(&["https://example.com/%7Euser", "https://example.com/~user"]);
    check_same(&["https://example.com/a%2fb", "https://example.com/a%2Fb"]);
    check_same(&["https://xn--strung-xxa.de/", "https://störung.de/"]);
    check_same(&[
        "https://www.youtube.com/watch?v=abc&si=xyz&t=10",
        "https://youtu.be/abc?t=10",
        "https://m.youtube.com/watch?t=10&v=abc",
    ]);
    check_same(&[
        "https://www.google.com/amp/s/www.latimes.com/local/story.html",
        "https://www-latimes-com.cdn.ampproject.org/c/s/www.latimes.com/local/story.html",
        "https://www.latimes.com/local/story.html",
    ]);
    check_same(&["https://twitter.com/a/status/1?s=20", "https://mobile.twitter.com/a/status/1"]);
    check_same(&["https://old.reddit.com/r/x/", "https://www.reddit.com/r/x"]);
    check_same(&["https://127.1/", "http://127.0.0.1", "https://0x7f.1/"]);
    check_same(&["https://example.com/a b?q=c d", "https://example.com/a%20b?q=c%20d"]);
    check_same(&["https://e.com/p#a", "https://e.com/p#b:~:text=x", "https://e.com/p#:~:text=x"]);
    check_same(&["https://e.com/#/x", "https://e.com/#/x:~:text=y"]);
    check_same(&[" https://e.com/a\n", "https://e.com/a"]);
}

#[test]
fn different_pages_stay_apart() {
    check_apart(&[
        "https://example.com/",
        "https://example.com/index.html",
        "https://example.com:8443/",
        "https://example.com/A",
        "https://example.com/a",
        "https://example.com/a.html",
        "https://example.com/a.pdf",
        "https://example.com/a%2Fb",
        "https://example.com/a/b",
        "https://example.com//a",
        "https://example.com/?id=1",
        "https://example.com/?id=2",
        "https://example.com/?a=1&a=2",
        "https://example.com/?a=2&a=1",
        "https://example.com/?a=1;b=2",
        "https://example.com/?a=1&b=2",
        "https://m.example.com/",
        "https://amp.example.com/",
    ]);
    check_apart(&[
        "https://forces.ca/en/events/#/details/1",
        "https://forces.ca/en/events/#/details/2",
        "https://forces.ca/en/events/#!/details/1",
        "https://forces.ca/en/events/#sec",
    ]);
    check_apart(&["https://amp.theguardian.com/x", "https://www.theguardian.com/x?amp"]);
    check_apart(&[
        "https://news.ycombinator.com/item?id=39948044",
        "https://news.ycombinator.com/item%3Fid%3D39948044",
    ]);
    check_apart(&["https://e.com/p?viewkey=ph5&x=", "https://e.com/p?x="]);
    check_apart(&["https://e.com/q?/foo/bar", "https://e.com/q"]);
    check_apart(&["https://xn--a.example.com/", "https://xn--a.example.com/x"]);
}

#[test]
fn the_shown_address_is_the_engines_own() {
    check_shown("https://E.com/%7euser/?b=1&a=2#x", "https://E.com/%7euser/?b=1&a=2#x");
    check_shown("https://e.com/x/?utm_source=n&id=5", "https://e.com/x/?id=5");
    check_shown("https://e.com/wkey/a?wkey=1", "https://e.com/wkey/a?wkey=1");
    check_shown("https://e.com/\u{202e}gpj.exe", "https://e.com/%E2%80%AEgpj.exe");
    check_shown("https://e.com/a b", "https://e.com/a%20b");
    check_shown(
        "https://e.com/a|b?q=\"<b>{`\\^#<",
        "https://e.com/a%7Cb?q=%22%3Cb%3E%7B%60%5C%5E#%3C",
    );
    check_shown("https://e.com\\@a.com\\x", "https://e.com/@a.com/x");
    check_shown("https://www.google.com\\url?q=https://e.com/<y>", "https://e.com/%3Cy%3E");
    check_shown("https://e.com/q?/foo/bar", "https://e.com/q?/foo/bar");
    check_shown("https://www.google.com/url?q=http://e.com/y&sa=U", "http://e.com/y");
    check_shown("https://xn--a.example.com/", "https://xn--a.example.com/");
}

#[test]
fn what_is_not_the_web_is_no_result() {
    for url in [
        "javascript:alert(1)",
        "data:text/html,x",
        "//cdn.example.com/x",
        "example.com/x",
        "ftp://e.com/",
        "",
        ":",
        "JAVASCRIPT:https://e.com",
        "http:///nohost",
        "http://?q",
        "http://user:pw@evil.com/",
        "http://ok.com@evil.com/",
        "https://www.google.com/url?q=http://ok.com@evil.com/",
        "https://duckduckgo.com/l/?uddg=http%3A%2F%2F%2Fnohost",
        &format!("https://e.com/{}", "a".repeat(5000)),
    ] {
        assert_eq!(canonical(url), None, "{url:.40}");
    }
}

#[test]
fn encrypted_and_direct_forms_are_better() {
    let grade = |url| canonical(url).map(|found| found.grade);
    assert!(grade("https://e.com/") > grade("http://e.com/"));
    let wrapped = "https://www.google.com/amp/s/e.com/";
    assert!(grade("https://e.com/") > grade(wrapped));
    assert!(grade(wrapped) > grade("http://e.com/"));
}

fn urls() -> impl Strategy<Value = String> {
    let host =
        "(www\\.)?[a-c]{1,2}\\.(com|org|de)|youtu\\.be|www\\.google\\.com|en\\.m\\.wikipedia\\.org";
    let path = "(/[a-cA-C%é~.]{0,4}|/url|/amp/s/a\\.com|/%C3%A9|/%2f){0,3}/?";
    let query = "(\\?([a-c]|utm_x|q|si|fbclid)?=?[a-c%/]{0,3}(&[a-c]=[a-c]{0,2}){0,2})?";
    let fragment = "(#[/!a]?[a-c]{0,2}(:~:text=x)?)?";
    let pattern = format!("https?://({host})(:8080|:443|:80)?{path}{query}{fragment}");
    proptest::string::string_regex(&pattern).unwrap()
}

proptest! {
    #[test]
    fn plain_addresses_come_to_what_any_come_to(
        url in urls(),
        front in "[a-z0-9.-]{0,9}",
        rest in "[/?][/?#%.=&2euq-]{0,12}",
    ) {
        let domains = ["a.com", "www.google.de", "x.cdn.ampproject.org", "x.com", "amazon.de"];
        let built = domains.map(|domain| format!("https://{front}{domain}{rest}"));
        for url in built.iter().chain([&url]) {
            prop_assert_eq!(canonical(url), of_any(url), "{}", url);
        }
    }

    #[test]
    fn the_shown_address_has_the_key_of_its_origin(url in urls()) {
        if let Some(found) = canonical(&url) {
            let again = canonical(&found.shown);
            prop_assert_eq!(again.as_ref().map(|a| &a.key), Some(&found.key), "{}", &found.shown);
            prop_assert_eq!(again.map(|a| a.shown), Some(found.shown.clone()));
        }
    }

    #[test]
    fn any_text_has_a_key_or_none(
        text in any::<String>(),
        url in "https?:[/\\\\]{2}(www\\.google\\.com)?\\PC{0,40}",
    ) {
        canonical(&text);
        if let Some(found) = canonical(&url) {
            prop_assert_eq!(canonical(&found.shown).map(|a| a.key), Some(found.key));
        }
    }

    #[test]
    fn trackers_and_order_do_not_count(
        pairs in prop::collection::btree_map("[a-z]{1,3}", "[a-z]{0,3}", 1..5),
        tracker in "utm_[a-z]{1,5}|fbclid|gclid|hsa_[a-z]{2}|_ga",
        place in 0_usize..6,
    ) {
        let mut parts: Vec<String> =
            pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let plain = format!("https://e.com/p?{}", parts.join("&"));
        parts.reverse();
        parts.insert(place.min(parts.len()), format!("{tracker}=x"));
        let tracked = format!("http://www.e.com/p/?{}", parts.join("&"));
        prop_assert_eq!(key_of(&tracked), key_of(&plain));
    }

    #[test]
    fn ports_cases_and_ids_count(path in "[a-z]{1,6}", id in 0_u32..1000, port in 1024_u16..9999) {
        let base = format!("https://e.com/{path}?id={id}");
        for other in [
            format!("https://e.com:{port}/{path}?id={id}"),
            format!("https://e.com/{}?id={id}", path.to_uppercase()),
            format!("https://e.com/{path}?id={}", id + 1),
            format!("https://e.com/{path}?ID={id}"),
            format!("https://e.com/{path}/x?id={id}"),
        ] {
            prop_assert_ne!(key_of(&base), key_of(&other));
        }
    }
}
