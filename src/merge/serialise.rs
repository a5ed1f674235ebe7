//! Writes a page's result objects as the API shows them, once per page: slices of it are copied
//! into every answer, from caches too. The comma-joined form with the ends of the results lets a
//! slice be one copy.

use bytes::Bytes;
use serde::Serialize;

use super::rank::Entry;
use crate::model::{Endpoint, EngineId, Page};

/// A result object.
struct Row<'a> {
    position: usize,
    title: &'a str,
    url: &'a str,
    snippet: &'a str,
    score: f64,
    engine: &'a str,
    engines: Vec<&'a str>,
    published_date: Option<&'a str>,
    /// Left out (`None`) by lite; null where there is none.
    image: Option<Option<&'a str>>,
}

/// Writes the ranked entries, position 1 first.
pub(super) fn page(endpoint: Endpoint, ranked: &[Entry<'_>], names: &[String]) -> Page {
    let name = |id: EngineId| names.get(id.index()).map_or("", String::as_str);
    let mut out = Vec::with_capacity(ranked.len().saturating_mul(768));
    let mut ends = Vec::with_capacity(ranked.len());
    for (index, entry) in ranked.iter().enumerate() {
        let row = Row {
            position: index + 1,
            title: entry.first(|item| filled(&item.title)).unwrap_or_default(),
            url: &entry.shown,
            snippet: entry.first(|item| filled(&item.snippet)).unwrap_or_default(),
            score: rounded(entry.score),
            engine: name(entry.engine()),
            engines: entry.engines.iter().map(|id| name(*id)).collect(),
            published_date: entry.first(|item| item.published_date.as_deref()),
            image: match endpoint {
                Endpoint::Lite => None,
                Endpoint::Fast => {
                    Some(entry.first(|item| item.image.as_deref().filter(|i| is_web(i))))
                }
            },
        };
        if index > 0 {
            out.push(b',');
        }
        row.write(&mut out);
        ends.push(u32::try_from(out.len()).unwrap_or(u32::MAX));
    }
    Page { results: Bytes::from(out), ends }
}

impl Row<'_> {
    /// Appends it; the order of the fields is the API's.
    fn write(&self, out: &mut Vec<u8>) {
        value(out, "{\"position\":", &self.position);
        text(out, ",\"title\":", self.title);
        text(out, ",\"url\":", self.url);
        text(out, ",\"snippet\":", self.snippet);
        value(out, ",\"score\":", &self.score);
        text(out, ",\"engine\":", self.engine);
        value(out, ",\"engines\":", &self.engines);
        value(out, ",\"published_date\":", &self.published_date);
        if let Some(image) = self.image {
            match image {
                Some(image) => text(out, ",\"image\":", image),
                None => out.extend_from_slice(b",\"image\":null"),
            }
        }
        out.push(b'}');
    }
}

/// Appends what stands before a text, then the text as a JSON string. Most have nothing to escape,
/// which is quickly seen if it is looked for many bytes at a time.
fn text(out: &mut Vec<u8>, before: &str, text: &str) {
    let is_escaped = |b: &u8| (*b < b' ') | (*b == b'"') | (*b == b'\\');
    if text.as_bytes().iter().fold(false, |any, b| any | is_escaped(b)) {
        return value(out, before, &text);
    }
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Appends what stands before a value, then the value.
fn value(out: &mut Vec<u8>, before: &str, value: &impl Serialize) {
    out.extend_from_slice(before.as_bytes());
    // Strings and finite numbers into memory: cannot fail.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "a row is plain data");
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Whether callers may load it: not a script, not inline data.
fn is_web(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("http://")
}

/// To four decimals, never to 0.
fn rounded(score: f64) -> f64 {
    ((score * 1e4).round() / 1e4).max(1e-4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_written_as_serde_has_them(given in "[ -~]{0,20}|\\PC{0,20}|\\PS{0,5}") {
            let mut out = Vec::new();
            text(&mut out, "x:", &given);
            prop_assert_eq!(out, format!("x:{}", serde_json::json!(given)).into_bytes());
        }
    }

    #[test]
    fn every_byte_that_must_be_escaped_is() {
        for byte in 0..0x80 {
            let mut out = Vec::new();
            text(&mut out, "", &char::from(byte).to_string());
            assert_eq!(out, serde_json::json!(char::from(byte)).to_string().into_bytes());
        }
    }
}
