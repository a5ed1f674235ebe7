//! Takes addresses out of the redirectors that search engines and AMP caches wrap around them, so
//! that callers reach the page itself and no third party learns that they do.
//!
//! Only known hosts and paths, only where the target is itself http or https. Redirectors inside
//! redirectors are followed too, so that unwrapping twice changes nothing.

use std::borrow::Cow;

use crate::address::{is_within, written_host};

/// Deepest nesting that is followed; deeper ones stay wrapped as they are.
const NESTING_MAX: usize = 8;

/// Gives the address inside, and whether it stood there directly.
pub(super) fn unwrapped(url: &str) -> (Cow<'_, str>, bool) {
    let mut inner = Cow::Borrowed(url);
    for depth in 0..=NESTING_MAX {
        match target(&inner) {
            Some(found) => inner = Cow::Owned(found),
            None => return (inner, depth == 0),
        }
    }
    (Cow::Borrowed(url), true)
}

/// Whose hosts wrap addresses, on some of their paths.
enum Wrapper {
    Google,
    Amp,
    DuckDuckGo,
    Bing,
    Yahoo,
    Startpage,
}

/// Whether addresses on this host (lower case) may have another inside.
pub(super) fn is_wrapper(host: &str) -> bool {
    wrapper(host).is_some()
}

fn wrapper(host: &str) -> Option<Wrapper> {
    let host = host.strip_prefix("www.").unwrap_or(host);
    match host {
        "duckduckgo.com" => Some(Wrapper::DuckDuckGo),
        "bing.com" => Some(Wrapper::Bing),
        _ if is_google(host) => Some(Wrapper::Google),
        _ if is_within(host, "cdn.ampproject.org") => Some(Wrapper::Amp),
        _ if is_within(host, "search.yahoo.com") => Some(Wrapper::Yahoo),
        _ if is_within(host, "startpage.com") => Some(Wrapper::Startpage),
        _ => None,
    }
}

/// The target of one redirector.
fn target(url: &str) -> Option<String> {
    let wrapper = wrapper(&written_host(url).to_ascii_lowercase())?;
    let (_, rest) = url.split_once("://")?;
    let path = rest.get(rest.find(['/', '?', '#'])?..)?;
    let found = match wrapper {
        Wrapper::Google => after(path, "/url?")
            .and_then(|query| parameter(query, "q").or_else(|| parameter(query, "url")))
            .or_else(|| amp(path, "/amp/s/", "/amp/")),
        Wrapper::Amp => amp(path, "/c/s/", "/c/").or_else(|| amp(path, "/v/s/", "/v/")),
        Wrapper::DuckDuckGo => after(path, "/l/?").and_then(|query| parameter(query, "uddg")),
        Wrapper::Bing => {
            after(path, "/ck/a?").and_then(|query| parameter(query, "u")).and_then(|u| bing(&u))
        }
        Wrapper::Yahoo => {
            path.split_once("/RU=").and_then(|(_, rest)| rest.split('/').next()).and_then(decoded)
        }
        Wrapper::Startpage => path.split_once('?').and_then(|(_, query)| parameter(query, "RU")),
    }?;
    let scheme = found.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase())?;
    let is_web = matches!(scheme.as_str(), "http" | "https") && url::Url::parse(&found).is_ok();
    // Blanks around or inside would be tidied away from an address that came bare.
    let is_tidy = !found.contains(|c: char| c.is_control()) && found.trim() == found;
    (is_web && is_tidy && found.len() < url.len()).then_some(found)
}

/// `google.com`, `google.de`, `google.co.uk`; not `google.evil.com`.
fn is_google(host: &str) -> bool {
    match host.strip_prefix("google.") {
        Some(rest) => match rest.split_once('.') {
            None => !rest.is_empty(),
            Some((second, country)) => matches!(second, "co" | "com") && country.len() == 2,
        },
        None => false,
    }
}

fn after<'a>(path: &'a str, start: &str) -> Option<&'a str> {
    path.strip_prefix(start)
}

/// The address in an AMP cache's path, where `secure` marks https.
fn amp(path: &str, secure: &str, plain: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix(secure) {
        return Some(format!("https://{rest}"));
    }
    path.strip_prefix(plain).map(|rest| format!("http://{rest}"))
}

/// The decoded value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let query = query.split('#').next()?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    decoded(value)
}

fn decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Bing's form: `a1` and the address in base64 for URLs without padding.
fn bing(value: &str) -> Option<String> {
    let mut out = Vec::new();
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
    for b in value.strip_prefix("a1")?.trim_end_matches('=').bytes() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push(u8::try_from((bits >> bit_count) & 0xff).unwrap_or_default());
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(unwrapped(url).0, expected, "{url}");
    }

    #[test]
    fn redirectors_are_unwrapped() {
        for url in [
            "https://www.google.com/url?q=https://example.com/y&sa=U&ved=1",
            "https://google.co.uk/url?sa=t&url=https%3A%2F%2Fexample.com%2Fy",
            "https://www.google.de/amp/s/example.com/y",
            "https://example-com.cdn.ampproject.org/c/s/example.com/y",
            "https://duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2Fy&rut=1",
            "https://www.bing.com/ck/a?!&&p=1&u=a1aHR0cHM6Ly9leGFtcGxlLmNvbS95&ntb=1",
            "https://r.search.yahoo.com/_ylt=A/RV=2/RU=https%3a%2f%2fexample.com%2fy/RK=2/RS=x",
            "https://www.google.com/url?q=https%3A%2F%2Fduckduckgo.com%2Fl%2F%3Fuddg\
             %3Dhttps%253A%252F%252Fexample.com%252Fy",
        ] {
            check(url, "https://example.com/y");
            assert!(!unwrapped(url).1);
        }
    }

    #[test]
    fn what_only_looks_like_a_redirector_stays() {
        for url in [
            "https://google.evil.com/url?q=https://example.com/y",
            "https://www.google.com/search?q=https://example.com/y",
            "https://www.google.com/url?q=javascript:alert(1)",
            "https://www.google.com/url?q=/relative",
            "https://www.google.com/url?q=%ff",
            "https://www.bing.com/ck/a?u=a1!!!",
            "https://example.com/url?q=https://example.com/y",
            "https://news.ycombinator.com/item%3Fid%3D39948044",
            "javascript:alert(1)",
            "",
        ] {
            check(url, url);
        }
    }
}
