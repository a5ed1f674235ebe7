//! The parts of a web address, from the WHATWG parser or, for most addresses, without it: where the
//! parser would change nothing, cutting at the marks is enough.

use memchr::memchr;
use url::Url;

/// The parts of an http or https address, each as the parser writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// Not plain http.
    pub is_https: bool,
    /// In ASCII and lower case.
    pub host: &'a str,
    /// Unless it is the scheme's own.
    pub port: Option<u16>,
    /// Starts with a slash; empty for the root, perhaps.
    pub path: &'a str,
    /// Without its question mark.
    pub query: Option<&'a str>,
    /// Without its hash.
    pub fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// The parts of a parsed address.
    pub fn of(url: &'a Url) -> Self {
        Self {
            is_https: url.scheme() == "https",
            host: url.host_str().unwrap_or_default(),
            port: url.port(),
            path: url.path(),
            query: url.query(),
            fragment: url.fragment(),
        }
    }

    /// The parts of an address that the parser takes and leaves as it is, byte for byte but for the
    /// root's slash. `None`: unknown, ask the parser.
    pub fn plain(url: &'a str) -> Option<Self> {
        let (is_https, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        let host_end = rest.bytes().position(|b| matches!(b, b'/' | b'?' | b'#'));
        let (host, rest) = rest.split_at_checked(host_end.unwrap_or(rest.len()))?;
        if !is_plain_host(host) || !rest.bytes().all(|b| PLAIN[usize::from(b)]) {
            return None;
        }
        let (front, fragment) = cut(rest, b'#');
        let (path, query) = cut(front, b'?');
        (!has_dot_segment(path)).then_some(Self {
            is_https,
            host,
            port: None,
            path,
            query,
            fragment,
        })
    }
}

/// What stands before the mark, and what behind it.
fn cut(text: &str, mark: u8) -> (&str, Option<&str>) {
    match memchr(mark, text.as_bytes()).and_then(|at| text.split_at_checked(at)) {
        Some((before, behind)) => (before, behind.get(1..)),
        None => (text, None),
    }
}

/// Whether a segment starts with a dot, be it percent-encoded.
fn has_dot_segment(path: &str) -> bool {
    let mut before = 0;
    let starts = |b: u8| std::mem::replace(&mut before, b) == b'/' && matches!(b, b'.' | b'%');
    path.bytes().any(starts) && ["/.", "/%2e", "/%2E"].iter().any(|dot| path.contains(dot))
}

/// Names of letters, digits and hyphens in lower case; no number, which would be an address, and no
/// Punycode, which may be bad.
fn is_plain_host(host: &str) -> bool {
    let is_label = |label: &[u8]| !label.is_empty() && !label.starts_with(b"xn--");
    let is_known = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let mut labels = host.as_bytes().split(|b| *b == b'.');
    let last = labels.clone().next_back().and_then(<[u8]>::first);
    host.as_bytes().iter().all(is_known)
        && labels.all(is_label)
        && last.is_some_and(u8::is_ascii_lowercase)
}

/// By byte: looked up for all bytes of all addresses. 256 entries, so that no byte lies outside.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut index = 0;
    while index < 0x80 {
        table[index] = is_plain_byte(index as u8);
        index += 1;
    }
    table
};

/// What the parser leaves as it is behind the host, wherever it stands.
const fn is_plain_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
                | b'/'
                | b'?'
                | b'#'
                | b'%'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{encoded, names_one_host};
    use super::*;

    /// Cut parts are those of the parser; gives whether they are known without it.
    fn check(text: &str) -> bool {
        let Some(cut) = Parts::plain(text) else {
            return false;
        };
        let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let parsed = Parts::of(&url);
        let path = if cut.path.is_empty() { "/" } else { cut.path };
        assert_eq!(Parts { path, ..cut }, parsed, "{text}");
        true
    }

    #[test]
    fn most_addresses_need_no_parser() {
        for text in [
            "https://example.org",
            "http://www.example.org/",
            "https://a--b.example.org/a//b/c.html?q=rust&x&y=#section-2",
            "https://example.org?a=b?c",
            "https://example.org#a#b",
            "https://example.org/wiki/H%C3%A9dge_(a),b;c=%zz%",
            "https://1.2.3.a4/...x",
        ] {
            assert_eq!(check(text), !text.contains("/..."), "{text}");
        }
    }

    #[test]
    fn what_the_parser_may_change_or_refuse_is_left_to_it() {
        for text in [
            "HTTPS://example.org/",
            "https:/example.org/",
            "https://Example.org/",
            "https://example.org:80/",
            "https://user@example.org/",
            "https://127.0.0.1/",
            "https://a.0x7f/",
            "https://a..b/",
            "https://.a/",
            "https://a./",
            "https://xn--a/",
            "https:///path",
            "https://a\\b/",
            "https://example.org/a/../b",
            "https://example.org/a/%2e%2E/b",
            "https://example.org/a b",
            "https://example.org/?a='b'",
            "https://example.org/\u{e9}",
            "ftp://example.org/",
            "//example.org/",
            "",
        ] {
            assert!(!check(text), "{text}");
        }
    }

    #[test]
    fn no_foreign_byte_passes_without_the_parser() {
        for b in 0..0x80_u8 {
            let c = char::from(b);
            for place in ["https://e.com/", "https://e.com/?", "https://e.com/#", "https://e"] {
                let url = format!("{place}{c}a");
                let is_fit = names_one_host(&url) && encoded(&url) == url;
                assert!(is_fit || !check(&url), "{url:?}");
            }
        }
        for url in ["http:///a", "https://", "https://a@b.com/", "https://a:b@c.com/"] {
            assert!(!check(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn cut_parts_are_those_of_the_parser(
            host in "[a-z0-9.-]{1,12}|[ -~]{1,8}",
            rest in "[/?#][/?#.%2eEa-z0-9:@!-~]{0,20}|[ -~]{0,20}",
        ) {
            check(&format!("https://{host}{rest}"));
            check(&format!("http://{host}.example{rest}"));
        }
    }
}
