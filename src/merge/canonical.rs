//! Two forms of a result's address: the key by which results are one page, and the address shown.
//!
//! The key forgets what never changes a page (scheme, `www.`, default port, one trailing slash,
//! parameter order, trackers, plain anchors, the spelling of percent-encoding) and keeps what may
//! (ports, case and doubled slashes of paths, blank values, `#/` and `#!` routes). It is for
//! comparing only; it is no URL. The shown address is the engine's own, byte for byte, but for
//! redirectors unwrapped, trackers cut, and what does not belong into an address percent-encoded.
//! An address that could be taken for another host's is no result.
//!
//! Total on any text, built on the WHATWG parser: `key(shown) == key(raw)` always holds.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_normalization::{UnicodeNormalization, is_nfc};
use url::Url;

use super::unwrap::{is_wrapper, unwrapped};
use crate::address::{
    Parts, encoded, has_trackers, is_within, names_one_host, tidied, without_trackers,
};

/// Longest address that is kept; browsers and caches stop at two to eight thousand.
const URL_BYTES_MAX: usize = 4096;

/// Hosts that serve the pages of another, after `www.` is gone. No generic `m.` or `amp.`: many
/// such hosts are sites of their own.
const TWINS: [(&str, &str); 9] = [
    ("m.facebook.com", "facebook.com"),
    ("m.wikidata.org", "wikidata.org"),
    ("m.youtube.com", "youtube.com"),
    ("mobile.twitter.com", "x.com"),
    ("mobile.x.com", "x.com"),
    ("np.reddit.com", "reddit.com"),
    ("old.reddit.com", "reddit.com"),
    ("twitter.com", "x.com"),
    ("youtube-nocookie.com", "youtube.com"),
];

/// Projects whose mobile pages are at `LANGUAGE.m.PROJECT`.
const WIKIS: [&str; 8] = [
    "wikibooks.org",
    "wikinews.org",
    "wikipedia.org",
    "wikiquote.org",
    "wikisource.org",
    "wikiversity.org",
    "wikivoyage.org",
    "wiktionary.org",
];

/// What an address comes down to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Canonical<'a> {
    /// Equal for addresses of one page.
    pub(super) key: String,
    /// What callers are given.
    pub(super) shown: Cow<'a, str>,
    /// The shown address's host in ASCII and lower case, as filters compare it; `None` if the
    /// parser refuses the address.
    pub(super) host: Option<Cow<'a, str>>,
    /// How good the shown form is among those of one key: more is better.
    pub(super) grade: u8,
}

/// Gives both forms; `None` for what is not http or https, does not name one host, or is longer
/// than 4 KiB.
pub(super) fn canonical(raw: &str) -> Option<Canonical<'_>> {
    match Parts::plain(raw) {
        Some(parts) if !is_wrapper(parts.host) => of_plain(raw, &parts),
        _ => of_any(raw),
    }
}

/// The forms of an address that needs neither the parser nor unwrapping; most are so.
fn of_plain<'a>(raw: &'a str, parts: &Parts<'a>) -> Option<Canonical<'a>> {
    let shown = match parts.query {
        Some(query) if has_trackers(parts.host, query) => without_trackers(raw),
        _ => Cow::Borrowed(raw),
    };
    if shown.len() > URL_BYTES_MAX {
        return None;
    }
    let key = match &shown {
        Cow::Borrowed(_) => key(parts),
        Cow::Owned(shown) => key(&Parts::plain(shown)?),
    };
    let grade = grade(parts.is_https, true);
    Some(Canonical { key, shown, host: Some(Cow::Borrowed(parts.host)), grade })
}

fn of_any(raw: &str) -> Option<Canonical<'_>> {
    let tidied = tidied(raw);
    let (target, is_direct) = unwrapped(&tidied);
    if !names_one_host(&target) {
        return None;
    }
    let shown = encoded(&without_trackers(&target)).into_owned();
    if shown.len() > URL_BYTES_MAX {
        return None;
    }
    let is_https = shown.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
    let (key, host) = match Url::parse(&shown) {
        Ok(url) => {
            let host = url.host_str().map(|host| host.trim_end_matches('.').to_owned().into());
            (key(&Parts::of(&url)), host)
        }
        // Bad punycode and the like: equal only to itself. No host can start with a blank.
        Err(_) => (format!(" {shown}"), None),
    };
    Some(Canonical { key, shown: shown.into(), host, grade: grade(is_https, is_direct) })
}

/// The better form is encrypted first of all, then one that needed no unwrapping.
fn grade(is_https: bool, is_direct: bool) -> u8 {
    u8::from(is_https) * 2 + u8::from(is_direct)
}

fn key(url: &Parts<'_>) -> String {
    let whole = [Some(url.host), Some(url.path), url.query, url.fragment];
    let bytes = whole.iter().flatten().map(|part| part.len().saturating_add(1)).sum();
    let mut key = String::with_capacity(bytes);
    let host = url.host.trim_end_matches('.');
    let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host);
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = url
        .query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (respelt(name), respelt(value)))
        .collect();
    let mut path = url.path;
    if host == "youtu.be" && path.len() > 1 && !path.get(1..).unwrap_or_default().contains('/') {
        key.push_str("youtube.com");
        pairs.push(("v".into(), respelt(path.get(1..).unwrap_or_default())));
        path = "/watch";
    } else {
        push_host(&mut key, host);
    }
    if let Some(port) = url.port {
        let _ = write!(key, ":{port}");
    }
    key.push_str(&respelt(path.strip_suffix('/').unwrap_or(path)));
    // A stable sort: values of one name keep their order, which may mean something.
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut separator = '?';
    for (name, value) in &pairs {
        key.push(separator);
        key.push_str(name);
        key.push('=');
        key.push_str(value);
        separator = '&';
    }
    let fragment = url.fragment.unwrap_or_default();
    // A text directive selects a passage (WICG scroll-to-text), never a page.
    let fragment = fragment.split(":~:").next().unwrap_or_default();
    if fragment.starts_with(['/', '!']) {
        key.push('#');
        key.push_str(&respelt(fragment));
    }
    key
}

/// Pushes the host under which a page is known.
fn push_host(key: &mut String, host: &str) {
    if let Some((_, twin)) = TWINS.iter().find(|(name, _)| *name == host) {
        key.push_str(twin);
        return;
    }
    let mobile = host
        .split_once('.')
        .and_then(|(language, rest)| Some((language, rest.strip_prefix("m.")?)));
    match mobile {
        Some((language, project)) if WIKIS.iter().any(|wiki| is_within(project, wiki)) => {
            key.push_str(language);
            key.push('.');
            key.push_str(project);
        }
        _ => key.push_str(host),
    }
}

/// Brings percent-encoding to one spelling: unreserved characters and UTF-8 decoded, the latter in
/// NFC; everything else encoded in upper case. `%2F` stays apart from `/`.
fn respelt(part: &str) -> Cow<'_, str> {
    let bytes = part.as_bytes();
    if bytes.iter().all(|b| b.is_ascii() && *b != b'%') {
        return Cow::Borrowed(part);
    }
    let mut out = String::with_capacity(part.len());
    let mut run = Vec::new();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        let (byte, length) = match encoded_byte(bytes, at) {
            Some(byte) => (byte, 3),
            None => (*b, 1),
        };
        if byte >= 0x80 {
            run.push(byte);
        } else {
            flush(&mut run, &mut out);
            let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if length == 1 || is_unreserved {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        at += length;
    }
    flush(&mut run, &mut out);
    if is_nfc(&out) { out.into() } else { out.nfc().collect::<String>().into() }
}

/// Ends a run of bytes beyond ASCII: as text where it is UTF-8, encoded where it is not.
fn flush(run: &mut Vec<u8>, out: &mut String) {
    for chunk in run.utf8_chunks() {
        out.push_str(chunk.valid());
        for b in chunk.invalid() {
            let _ = write!(out, "%{b:02X}");
        }
    }
    run.clear();
}

/// The byte that `%XX` at `at` stands for.
fn encoded_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at..at + 3)?.strip_prefix(b"%")?;
    let digit = |place: usize| char::from(*digits.get(place)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests;
