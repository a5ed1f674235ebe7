//! Writes a page's result objects as the API shows them, once per page: slices of it are copied
//! into every answer, from caches too. The comma-joined form with the ends of the results lets a
//! slice be one copy.

use bytes::Bytes;
use serde::Serialize;

use super::rank::Entry;
use crate::model::{Endpoint, EngineId, Page};

/// A result object. The order of the fields is the API's.
#[derive(Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
        // Strings and finite numbers into memory: cannot fail.
        let written = serde_json::to_writer(&mut out, &row);
        debug_assert!(written.is_ok(), "a row is plain data");
        ends.push(u32::try_from(out.len()).unwrap_or(u32::MAX));
    }
    Page { results: Bytes::from(out), ends }
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
