//! Gathers what a request wants: each known name, in any of its spellings, into one slot per field.
//!
//! A field given twice must agree with itself, under whatever names: the parsed values are
//! compared, so `count=05` agrees with `limit=5`. Lists are the exception in query strings, where a
//! repeated name adds to its list, as HTML forms and OpenAPI's default style send them.

use super::fields::{Errors, Given, Value, shown};
use super::values::{self, DEADLINE, Served};
use crate::model::{CacheMode, Endpoint, EngineId, SafeSearch, TimeRange};

/// Most unknown fields that are named in warnings.
const WARNINGS_MAX: usize = 16;

/// The fields of `spec`'s request, as given or not.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) query: Slot<String>,
    pub(super) max_results: Slot<usize>,
    pub(super) region: Slot<Option<[u8; 2]>>,
    pub(super) lang: Slot<Option<String>>,
    pub(super) time_range: Slot<TimeRange>,
    pub(super) safe_search: Slot<SafeSearch>,
    pub(super) include_domains: Slot<Vec<String>>,
    pub(super) exclude_domains: Slot<Vec<String>>,
    pub(super) include_media: Slot<bool>,
    pub(super) engines: Slot<Option<Vec<EngineId>>>,
    pub(super) cache: Slot<CacheMode>,
    pub(super) timeout_ms: Slot<u64>,
}

/// A field's value and the name it came under.
pub(super) struct Slot<T>(Option<(T, String)>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Slot<T> {
    fn put(&mut self, name: String, parsed: Result<T, String>, errors: &mut Errors) {
        match (parsed, &self.0) {
            (Err(detail), _) => errors.push(&name, detail),
            (Ok(value), Some((held, first))) if *held != value => {
                let detail = if *first == name {
                    "is given twice with different values; give it once".into()
                } else {
                    format!("disagrees with {first}; give one of them")
                };
                errors.push(&name, detail);
            }
            (Ok(value), _) => self.0 = Some((value, name)),
        }
    }

    /// The value, if it was given and right.
    pub(super) fn take(self) -> Option<T> {
        self.0.map(|(value, _)| value)
    }
}

/// The known fields; several names lead to each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Query,
    MaxResults,
    Region,
    Lang,
    TimeRange,
    SafeSearch,
    IncludeDomains,
    ExcludeDomains,
    IncludeMedia,
    Engines,
    TimeoutMs,
    Cache,
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "query" | "q" => Self::Query,
            "max_results" | "maxResults" | "count" | "num" | "num_results" | "numResults"
            | "limit" => Self::MaxResults,
            "region" | "country" | "gl" => Self::Region,
            "lang" | "language" | "hl" => Self::Lang,
            "time_range" | "freshness" => Self::TimeRange,
            "safe_search" | "safesearch" | "safeSearch" => Self::SafeSearch,
            "include_domains" | "includeDomains" => Self::IncludeDomains,
            "exclude_domains" | "excludeDomains" => Self::ExcludeDomains,
            "include_media" | "includeMedia" | "include_images" => Self::IncludeMedia,
            "engines" => Self::Engines,
            "timeout_ms" => Self::TimeoutMs,
            "cache" => Self::Cache,
            _ => return None,
        })
    }

    const fn is_list(self) -> bool {
        matches!(self, Self::IncludeDomains | Self::ExcludeDomains | Self::Engines)
    }
}

impl Wanted {
    /// Sorts the given fields into their slots; wrong ones become errors, unknown ones warnings.
    pub(super) fn read(
        given: Vec<Given>,
        endpoint: Endpoint,
        engines: &[Served],
        errors: &mut Errors,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut wanted = Self::default();
        let mut is_query_named = false;
        let mut unknown_count = 0_usize;
        for Given { name, value } in joined(given) {
            let Some(field) = Field::named(&name) else {
                unknown_count += 1;
                if unknown_count <= WARNINGS_MAX {
                    warnings.push(format!("unknown field {} ignored", shown(&name)));
                }
                continue;
            };
            is_query_named |= field == Field::Query;
            wanted.put(field, name, value, endpoint, engines, errors);
        }
        if unknown_count > WARNINGS_MAX {
            warnings.push(format!("{} more unknown fields ignored", unknown_count - WARNINGS_MAX));
        }
        if !is_query_named && !errors.concern(&["#", "#/query", "#/q"]) {
            errors.push("query", "is missing; give the text to search for");
        }
        wanted
    }

    /// Adds what headers ask for: `X-Deadline-Ms` and `Cache-Control`, aliases of fields that may
    /// contradict neither their field nor themselves. A header's lines may come as one with commas
    /// (RFC 9110 §5.3).
    pub(super) fn read_headers(
        &mut self,
        deadline_ms: &[&[u8]],
        cache_control: &[&[u8]],
        errors: &mut Errors,
    ) {
        for raw in entries(deadline_ms) {
            let word = Value::Word(String::from_utf8_lossy(raw).into_owned());
            let parsed = values::whole(&word, DEADLINE);
            self.timeout_ms.put("X-Deadline-Ms".into(), parsed, errors);
        }
        for directive in entries(cache_control) {
            let mode = if directive.eq_ignore_ascii_case(b"no-cache") {
                CacheMode::NoCache
            } else if directive.eq_ignore_ascii_case(b"only-if-cached") {
                CacheMode::OnlyIfCached
            } else {
                continue;
            };
            self.cache.put("Cache-Control".into(), Ok(mode), errors);
        }
    }

    fn put(
        &mut self,
        field: Field,
        name: String,
        value: Value,
        endpoint: Endpoint,
        engines: &[Served],
        errors: &mut Errors,
    ) {
        match field {
            Field::Query => self.query.put(name, values::query(&value), errors),
            Field::MaxResults => {
                let parsed = values::whole(&value, values::MAX_RESULTS)
                    .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
                self.max_results.put(name, parsed, errors);
            }
            Field::Region => self.region.put(name, values::region(&value), errors),
            Field::Lang => self.lang.put(name, values::lang(&value), errors),
            Field::TimeRange => self.time_range.put(name, values::time_range(&value), errors),
            Field::SafeSearch => self.safe_search.put(name, values::safe_search(&value), errors),
            Field::IncludeDomains => {
                self.include_domains.put(name, values::domains(&value), errors);
            }
            Field::ExcludeDomains => {
                self.exclude_domains.put(name, values::domains(&value), errors);
            }
            Field::IncludeMedia => self.include_media.put(name, values::truth(&value), errors),
            Field::Engines => {
                self.engines.put(name, values::engines(&value, endpoint, engines), errors);
            }
            Field::TimeoutMs => self.timeout_ms.put(name, values::whole(&value, DEADLINE), errors),
            Field::Cache => self.cache.put(name, values::cache(&value), errors),
        }
    }
}

/// The entries of a header that is a list.
fn entries<'a>(lines: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().flat_map(|line| line.split(|b| *b == b',')).map(<[u8]>::trim_ascii)
}

/// Joins the words of a list that is given by repeating its name.
fn joined(given: Vec<Given>) -> Vec<Given> {
    let mut out: Vec<Given> = Vec::with_capacity(given.len());
    for Given { name, value } in given {
        let is_list = Field::named(&name).is_some_and(Field::is_list);
        if is_list
            && let Value::Word(word) = &value
            && let Some(Given { value: Value::Word(held), .. }) =
                out.iter_mut().find(|earlier| earlier.name == name)
        {
            held.push(',');
            held.push_str(word);
            continue;
        }
        out.push(Given { name, value });
    }
    out
}
