//! What several stages know of web addresses: what a host name is, which host lies within which
//! domain, which addresses are fit to be shown, and which query parameters only track. Pure; works
//! on any text and never panics.
//!
//! Parameters are cut by their whole names: patterns inside names have cut `viewkey` for `wkey`
//! elsewhere. Everything that is not cut stays byte for byte as it came.

use std::borrow::Cow;

use url::Host;

mod parts;
mod trackers;
mod written;

pub use parts::Parts;
pub use written::{encoded, names_one_host, tidied};

/// Longest host name, RFC 1035 §2.3.4.
const HOST_BYTES_MAX: usize = 253;
/// Longest label of a host name.
const LABEL_BYTES_MAX: usize = 63;

/// Gives the ASCII form in lower case of a host name (UTS 46), without a trailing dot. `None` if it
/// is none: an address with scheme, port or path, an IP address, a wildcard.
pub fn host_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > HOST_BYTES_MAX || text.contains(['%', '/', ':', '@', '?', '#', '*']) {
        return None;
    }
    let Ok(Host::Domain(host)) = Host::parse(text) else {
        return None;
    };
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label)).then_some(host)
}

/// Whether `host` is `domain` or below it, on a label boundary: `a.x.com` is within `x.com`,
/// `notx.com` is not. Both in lower case.
pub fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// The host part of a URL as it is written, without user and port; empty if there is none.
pub fn written_host(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else {
        return "";
    };
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split_once(':').map_or(host, |(host, _)| host)
}

/// Cuts the query parameters that only track out of a URL; the rest stays as it is written.
pub fn without_trackers(url: &str) -> Cow<'_, str> {
    let (front, fragment) = match url.find('#') {
        Some(at) => url.split_at(at),
        None => (url, ""),
    };
    let Some((before, query)) = front.split_once('?') else {
        return Cow::Borrowed(url);
    };
    let of_host = trackers_of(&written_host(url).to_ascii_lowercase());
    if !query.split('&').any(|pair| is_tracker(&of_host, pair)) {
        return Cow::Borrowed(url);
    }
    let mut out = String::with_capacity(url.len());
    out.push_str(before);
    let mut separator = '?';
    for pair in query.split('&').filter(|pair| !is_tracker(&of_host, pair)) {
        out.push(separator);
        out.push_str(pair);
        separator = '&';
    }
    out.push_str(fragment);
    Cow::Owned(out)
}

/// Whether any parameter of a query on this host (lower case) only tracks.
pub fn has_trackers(host: &str, query: &str) -> bool {
    let of_host = trackers_of(host);
    query.split('&').any(|pair| is_tracker(&of_host, pair))
}

/// The lists of names that track on this host alone.
fn trackers_of(host: &str) -> Vec<&'static [&'static str]> {
    let scoped = trackers::SCOPED.iter().filter(|(domain, _)| is_within(host, domain));
    scoped.map(|(_, names)| *names).collect()
}

/// Whether a pair of a query string is a tracking parameter, on every host or by the lists of one.
fn is_tracker(of_host: &[&[&str]], pair: &str) -> bool {
    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
    // Left over where an engine gave `&amp;` for `&`.
    let name = name.strip_prefix("amp;").unwrap_or(name);
    if name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("utm_")) {
        return true;
    }
    trackers::NAMES.binary_search(&name).is_ok()
        || trackers::PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || of_host.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(without_trackers(input), expected, "{input}");
    }

    #[test]
    fn tracking_parameters_are_cut_by_their_whole_names() {
        check("https://e.com/?utm_source=x&utm_medium=y&id=5", "https://e.com/?id=5");
        check("https://e.com/?id=5&fbclid=abc#s", "https://e.com/?id=5#s");
        check("https://e.com/?UTM_Source=x", "https://e.com/");
        check("https://e.com/p?viewkey=ph5&x=", "https://e.com/p?viewkey=ph5&x=");
        check("https://e.com/wkey/a?wkey=1", "https://e.com/wkey/a?wkey=1");
        check("https://e.com/?a=1;utm_x=2&&b", "https://e.com/?a=1;utm_x=2&&b");
        check("https://e.com/?FBCLID=x", "https://e.com/?FBCLID=x");
        check("https://e.com/#?utm_source=x", "https://e.com/#?utm_source=x");
        check("https://e.com/?a=1&amp;utm_source=x", "https://e.com/?a=1");
        check("not a url ? utm_source", "not a url ? utm_source");
    }

    #[test]
    fn some_names_track_on_some_hosts_only() {
        check(
            "https://www.youtube.com/watch?v=a&si=x&t=1",
            "https://www.youtube.com/watch?v=a&t=1",
        );
        check("https://si.example/?si=x", "https://si.example/?si=x");
        check("https://u:p@youtu.be:443/a?si=x", "https://u:p@youtu.be:443/a");
        check("https://notyoutu.be/a?si=x", "https://notyoutu.be/a?si=x");
    }

    #[test]
    fn hosts_lie_within_domains_on_label_boundaries() {
        for (host, domain, expected) in [
            ("x.com", "x.com", true),
            ("a.x.com", "x.com", true),
            ("notx.com", "x.com", false),
            ("x.com", "a.x.com", false),
            ("x.com.evil.org", "x.com", false),
            ("mit.edu", "edu", true),
        ] {
            assert_eq!(is_within(host, domain), expected, "{host} {domain}");
        }
    }

    #[test]
    fn host_names_are_ascii_lower_case_and_nothing_else() {
        for (text, expected) in [
            ("Example.COM", Some("example.com")),
            ("störung.de", Some("xn--strung-xxa.de")),
            ("example.com.", Some("example.com")),
            ("localhost", Some("localhost")),
            ("https://example.com", None),
            ("example.com/x", None),
            ("example.com:80", None),
            ("*.example.com", None),
            ("127.0.0.1", None),
            ("[::1]", None),
            ("a..b", None),
            ("-a.com", None),
            ("a b.com", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(host_name(text).as_deref(), expected, "{text}");
        }
        assert_eq!(host_name(&"a".repeat(64)), None);
        assert_eq!(host_name(&"a.".repeat(200)), None);
    }
}
