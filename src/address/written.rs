//! A web address as it is written: whether every program reads the same host from it, and its
//! spelling without the bytes that do not belong into one. What is right already stays byte for
//! byte as it came.

use std::borrow::Cow;
use std::fmt::Write;

use crate::text::is_invisible;

/// Brings an address to what the WHATWG parser reads: without blanks and controls around, without
/// tabs and line breaks inside, and with slashes for the backslashes before its query.
pub fn tidied(raw: &str) -> Cow<'_, str> {
    let trimmed = raw.trim_matches(|c: char| c <= ' ');
    if !trimmed.contains(['\t', '\n', '\r', '\\']) {
        return trimmed.into();
    }
    let joined = trimmed.replace(['\t', '\n', '\r'], "");
    let (front, rest) = joined.split_at(joined.find(['?', '#']).unwrap_or(joined.len()));
    (front.replace('\\', "/") + rest).into()
}

/// Whether a tidied address is http or https with one host and nothing that looks like another:
/// what stands before an `@` is read first and taken for the host (`http://bank@evil/`), or is a
/// password, which is nobody's business; and where the host is empty (`http:///x`), some programs
/// take the path's first segment for it, and some refuse.
pub fn names_one_host(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    is_web && !authority.is_empty() && !authority.starts_with(':') && !authority.contains('@')
}

/// Percent-encodes what RFC 3986 §2 has no place for and what could end an attribute or a link in
/// the text around the address: white space, controls, quotation marks, brackets and their like,
/// and characters that no reader sees, among them those that make an address look like another.
/// Letters beyond ASCII stay: people read them.
pub fn encoded(url: &str) -> Cow<'_, str> {
    if !url.contains(is_foreign) {
        return url.into();
    }
    let mut out = String::with_capacity(url.len());
    for c in url.chars() {
        if is_foreign(c) {
            let mut bytes = [0; 4];
            for b in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{b:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out.into()
}

fn is_foreign(c: char) -> bool {
    matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
        || c.is_control()
        || c.is_whitespace()
        || is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expected: Option<&str>) {
        let tidied = tidied(raw);
        let shown = names_one_host(&tidied).then(|| encoded(&tidied));
        assert_eq!(shown.as_deref(), expected, "{raw:?}");
    }

    #[test]
    fn an_address_with_another_host_in_it_or_none_is_refused() {
        for raw in [
            "http:///nohost",
            "http://\t/nohost",
            "http:\\\\\\nohost",
            "http://",
            "http://:80/",
            "http://?a@b",
            "https:/e.com/",
            "http://user:pw@evil.com/",
            "http://ok.com@evil.com/",
            "http://@evil.com/",
            "http://ok.com\t@evil.com",
            "ftp://e.com/",
            "//e.com/",
            "",
        ] {
            check(raw, None);
        }
        check("http://ok.com\\@evil.com/", Some("http://ok.com/@evil.com/"));
        check("https://e.com/@me?a=b@c#@", Some("https://e.com/@me?a=b@c#@"));
        check("HTTP://[::1]:80/", Some("HTTP://[::1]:80/"));
    }

    #[test]
    fn what_does_not_belong_into_an_address_is_encoded() {
        check(
            "https://e.com/<a>\"`{b|c}^ \u{7f}?<\"`{|\\}^ \u{1}#<\u{2028}",
            Some(
                "https://e.com/%3Ca%3E%22%60%7Bb%7Cc%7D%5E%20%7F?%3C%22%60%7B%7C%5C%7D%5E%20%01\
                 #%3C%E2%80%A8",
            ),
        );
        check("https://e.com\\a\\b", Some("https://e.com/a/b"));
        check("https://e.com/é'[]%zz", Some("https://e.com/é'[]%zz"));
        check(" https://e.com/a\nb\n", Some("https://e.com/ab"));
    }
}
