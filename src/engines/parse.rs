//! From an engine's JSON to clean items: pointers with fallbacks, dates, and the count of rows that
//! have what a result needs.
//!
//! A row without an http or https address, or without both title and snippet, is dropped and
//! counted; it never costs the answer by itself. Nothing here indexes or trusts a type.
//!
//! Units: lengths in characters.

use std::borrow::Cow;
use std::fmt;

use jiff::civil;
use jiff::fmt::strtime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use url::Url;

use super::hooks::{UrlHook, UrlSource};
use super::json::Json;
use super::manifest::Manifest;
use super::schema::{Required, Test};
use crate::address::{self, Parts};
use crate::model::Item;
use crate::text;

/// Rows of one answer that are looked at; no engine is asked for more than 50.
const ROWS_MAX: usize = 100;
const URL_BYTES_MAX: usize = 2048;
/// Values that one pointer with `*` gives at most.
const FOUND_MAX: usize = 32;

/// A JSON pointer (RFC 6901) in which a `*` step is every element of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pointer(Vec<String>);

impl TryFrom<String> for Pointer {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is no JSON pointer: it must be empty or start with /"));
        };
        let unescape = |step: &str| step.replace("~1", "/").replace("~0", "~");
        Ok(Self(rest.split('/').map(unescape).collect()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

impl Pointer {
    /// The first value there.
    pub fn first<'v>(&self, value: &'v Json<'_>) -> Option<&'v Json<'v>> {
        let mut first = None;
        walk(&self.0, value, &mut |found| {
            first.get_or_insert(found);
        });
        first
    }

    /// Whether a key on the way is missing or null; something else in its place is not absence.
    pub fn is_absent(&self, value: &Json<'_>) -> bool {
        let mut place = value;
        for step in &self.0 {
            match place {
                Json::Table(table) => match table.get(step) {
                    None | Some(Json::Null) => return true,
                    Some(inner) => place = inner,
                },
                _ => return false,
            }
        }
        matches!(place, Json::Null)
    }

    /// What is there as one text: the pieces of a `*` are put together, a list is joined.
    pub fn text<'v>(&self, value: &'v Json<'_>) -> Option<Cow<'v, str>> {
        let mut text: Option<Cow<'v, str>> = None;
        let mut count = 0;
        walk(&self.0, value, &mut |found| {
            count += 1;
            let piece = match found {
                _ if count > FOUND_MAX => None,
                Json::List(list) => {
                    let texts = list.iter().take(FOUND_MAX).filter_map(Json::as_text);
                    Some(texts.collect::<Vec<_>>().join(" … ").into())
                }
                other => other.as_text(),
            };
            match (piece, &mut text) {
                (Some(piece), Some(text)) => text.to_mut().push_str(&piece),
                (Some(piece), None) => text = Some(piece),
                (None, _) => {}
            }
        });
        text.filter(|text| !text.is_empty())
    }
}

/// Visits what is at `steps`.
fn walk<'v>(steps: &[String], value: &'v Json<'_>, visit: &mut impl FnMut(&'v Json<'v>)) {
    let Some((step, rest)) = steps.split_first() else {
        visit(value);
        return;
    };
    match value {
        Json::List(list) if step == "*" => {
            list.iter().take(FOUND_MAX).for_each(|item| walk(rest, item, visit));
        }
        Json::List(list) => {
            let item = step.parse::<usize>().ok().and_then(|index| list.get(index));
            item.into_iter().for_each(|item| walk(rest, item, visit));
        }
        Json::Table(table) => {
            table.get(step).into_iter().for_each(|item| walk(rest, item, visit));
        }
        _ => {}
    }
}

/// The keys that a manifest's pointers and hooks name: all that needs to be read of an answer.
pub fn keys(manifest: &Manifest) -> Vec<&str> {
    let (shape, judge) = (&manifest.answer, &manifest.judge);
    let fields = &shape.fields;
    let lists = [
        &fields.url,
        &fields.title,
        &fields.snippet,
        &fields.published_date,
        &fields.image,
        &fields.score,
        &shape.list,
        &shape.absent_if,
        &shape.question,
        &judge.retry_after_at,
    ];
    let of_rules = judge.errors.iter().map(|rule| &rule.test);
    let tests = of_rules.chain(&judge.partial).chain(&shape.rows);
    let pointers = lists.into_iter().flatten().chain(tests.map(|test| &test.at));
    let of_hook = shape.url_hook.map_or(&[][..], UrlHook::keys);
    let all =
        pointers.flat_map(|pointer| &pointer.0).map(String::as_str).chain(of_hook.iter().copied());
    let mut keys = Vec::with_capacity(32);
    for key in all {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

impl Test {
    /// Whether it holds of `value`.
    pub fn holds(&self, value: &Json<'_>) -> bool {
        let found = self.at.first(value).filter(|found| !matches!(found, Json::Null));
        if let Some(present) = self.present {
            return found.is_some() == present;
        }
        if let Some(filled) = self.filled {
            return found.is_some_and(Json::is_filled) == filled;
        }
        if let Some(limit) = self.above {
            let number = match found {
                Some(Json::Number(number)) => number.as_f64(),
                _ => None,
            };
            return number.is_some_and(|number| number > limit);
        }
        let Some(text) = found.and_then(Json::as_text) else {
            return false;
        };
        self.equals.iter().any(|whole| *whole == text)
            || self.starts_with.iter().any(|start| text.starts_with(start.as_str()))
            || self.contains.iter().any(|part| text.contains(part.as_str()))
    }
}

/// How an engine writes dates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DateFormat {
    /// ISO 8601: a date, with or without time and offset; without one it is UTC.
    Iso,
    /// Seconds since 1970, or milliseconds where that would lie beyond the year 5000.
    Unix,
    /// A `strptime` pattern with a date in it, as `%b %d, %Y`.
    Pattern(String),
}

impl TryFrom<String> for DateFormat {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "iso" => Ok(Self::Iso),
            "unix" => Ok(Self::Unix),
            pattern if pattern.contains('%') => Ok(Self::Pattern(text)),
            _ => Err(format!("`{text}` is no date format: \"iso\", \"unix\" or a pattern with %")),
        }
    }
}

impl DateFormat {
    /// The date as RFC 3339 in UTC, to the second.
    fn read(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let timestamp = match self {
            Self::Iso => text
                .parse::<Timestamp>()
                .ok()
                .or_else(|| utc(text.parse::<civil::DateTime>().ok()?)),
            Self::Unix => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
                let seconds = if number.abs() >= 1e11 { number / 1000.0 } else { number };
                Timestamp::from_second(seconds as i64).ok()
            }
            Self::Pattern(pattern) => {
                let broken_down = strtime::parse(pattern, text).ok()?;
                let date = broken_down.to_date().ok()?;
                utc(broken_down.to_datetime().unwrap_or_else(|_| date.at(0, 0, 0, 0)))
            }
        }?;
        let whole = timestamp.checked_sub(SignedDuration::from_nanos(
            i64::from(timestamp.subsec_nanosecond()).max(0),
        ));
        Some(whole.ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

fn utc(date: civil::DateTime) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(date).ok()
}

/// What the rows of one answer gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The usable ones, in the engine's order.
    pub items: Vec<Item>,
    /// How many results the engine gave, usable or not.
    pub count: usize,
    /// How many had everything that a result of this engine must have.
    pub whole_count: usize,
}

/// The list of an answer, by the manifest's pointers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum List<'v> {
    /// It is there.
    Rows(&'v [Json<'v>]),
    /// It is not there, and the manifest says that this means "nothing found".
    DocumentedAbsence,
    /// It is not there.
    Missing,
    /// Something else is in its place.
    WrongType,
}

/// Finds the list.
pub fn list<'v>(manifest: &Manifest, body: &'v Json<'_>) -> List<'v> {
    let shape = &manifest.answer;
    let found = shape.list.iter().find_map(|pointer| pointer.first(body));
    match found {
        Some(Json::List(rows)) => List::Rows(rows),
        Some(Json::Null) | None => {
            let is_there = |pointer: &Pointer| pointer.first(body).is_some();
            let is_documented = !shape.absent_if.is_empty() && shape.absent_if.iter().all(is_there);
            match shape.list.iter().all(|pointer| pointer.is_absent(body)) {
                true if is_documented => List::DocumentedAbsence,
                true => List::Missing,
                false => List::WrongType,
            }
        }
        Some(_) => List::WrongType,
    }
}

/// Reads the rows: at most 100, in order.
pub fn rows(manifest: &Manifest, engine: &Url, body: &Json<'_>, list: &[Json<'_>]) -> Rows {
    let items = Vec::with_capacity(list.len().min(ROWS_MAX));
    let mut rows = Rows { items, ..Rows::default() };
    let shape = &manifest.answer;
    let results = list.iter().filter(|row| shape.rows.iter().all(|test| test.holds(row)));
    for row in results.take(ROWS_MAX) {
        rows.count += 1;
        let item = read_row(manifest, engine, body, row);
        let is_whole = shape.required.iter().all(|required| match required {
            Required::Title => !item.title.is_empty(),
            Required::Url => !item.url.is_empty(),
            Required::Snippet => !item.snippet.is_empty(),
        });
        rows.whole_count += usize::from(is_whole);
        let has_text = !item.title.is_empty() || !item.snippet.is_empty();
        if has_text && !item.url.is_empty() {
            rows.items.push(item);
        }
    }
    debug_assert!(rows.items.len() <= rows.count, "items come from rows");
    rows
}

/// One row; what it lacks is empty.
fn read_row(manifest: &Manifest, engine: &Url, body: &Json<'_>, row: &Json<'_>) -> Item {
    let shape = &manifest.answer;
    let fields = &shape.fields;
    let raw_title = first_text(&fields.title, row).unwrap_or_default();
    let raw_url = first_text(&fields.url, row);
    let url = match shape.url_hook {
        Some(hook) => hook
            .apply(UrlSource { engine, body, title: &raw_title, url: raw_url.as_deref() })
            .map(Cow::Owned),
        None => raw_url,
    };
    let snippet = first_text(&fields.snippet, row).unwrap_or_default();
    let snippet = text::plain(&snippet, text::SNIPPET_CHARS_MAX);
    Item {
        title: text::plain(&raw_title, text::TITLE_CHARS_MAX),
        url: url.and_then(|url| web_address(&url)).unwrap_or_default(),
        snippet: match shape.snippet_hook {
            Some(hook) => hook.apply(&snippet),
            None => snippet,
        },
        published_date: first_text(&fields.published_date, row)
            .and_then(|text| shape.date_formats.iter().find_map(|format| format.read(&text))),
        image: first_text(&fields.image, row).and_then(|url| web_address(&url)),
        score: first_text(&fields.score, row)
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|score| score.is_finite()),
    }
}

fn first_text<'v>(pointers: &[Pointer], row: &'v Json<'_>) -> Option<Cow<'v, str>> {
    pointers.iter().find_map(|pointer| pointer.text(row))
}

/// The address as the engine wrote it, if it is http or https and names one host; percent-encoded
/// where it holds characters that do not belong into one.
fn web_address(url: &str) -> Option<String> {
    let url = url.trim();
    if url.len() > URL_BYTES_MAX {
        return None;
    }
    if Parts::plain(url).is_some() {
        return Some(url.to_owned());
    }
    let tidied = address::tidied(url);
    let is_fit = address::names_one_host(&tidied) && Url::parse(&tidied).is_ok();
    let shown = is_fit.then(|| address::encoded(&tidied).into_owned())?;
    (shown.len() <= URL_BYTES_MAX).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(text: &str) -> Pointer {
        Pointer::try_from(text.to_owned()).expect("the case is a pointer")
    }

    #[test]
    fn a_pointer_finds_texts_of_every_shape() {
        let body = br#"{"a": {"b": ["x", "y"]}, "t": [{"v": "p"}, {"v": "q"}], "n": 3, "z": null,
            "s/l": "esc"}"#;
        let keys = ["a", "b", "t", "v", "n", "z", "s/l"];
        let value = Json::read(body, &keys).expect("the case is JSON");
        let check = |at: &str, expected: Option<&str>| {
            assert_eq!(pointer(at).text(&value).as_deref(), expected, "{at}");
        };
        check("/a/b", Some("x … y"));
        check("/a/b/1", Some("y"));
        check("/a/b/7", None);
        check("/t/*/v", Some("pq"));
        check("/n", Some("3"));
        check("/z", None);
        check("/s~1l", Some("esc"));
        check("/n/deeper", None);
        assert_eq!(pointer("/s~1l").to_string(), "/s~1l");
        assert_eq!(pointer("").first(&value), Some(&value));
    }

    #[test]
    fn dates_become_utc_or_nothing() {
        let check = |format: &str, text: &str, expected: Option<&str>| {
            let format = DateFormat::try_from(format.to_owned()).expect("the case is a format");
            assert_eq!(format.read(text).as_deref(), expected, "{text}");
        };
        check("iso", "2026-08-01T10:00:00", Some("2026-08-01T10:00:00Z"));
        check("iso", "2026-08-01T10:00:00+02:00", Some("2026-08-01T08:00:00Z"));
        check("iso", "2023-11-16T01:36:32.547Z", Some("2023-11-16T01:36:32Z"));
        check("iso", "2026-08-01", Some("2026-08-01T00:00:00Z"));
        check("iso", "1969-12-31T23:59:58.5Z", Some("1969-12-31T23:59:58Z"));
        check("iso", "3 days ago", None);
        check("unix", "1695037500", Some("2023-09-18T11:45:00Z"));
        check("unix", "1695037500000", Some("2023-09-18T11:45:00Z"));
        check("unix", "1e300", None);
        check("unix", "NaN", None);
        check("%b %d, %Y", "May 10, 2026", Some("2026-05-10T00:00:00Z"));
        check("%b %d, %Y", "10 mai 2026", None);
    }

    #[test]
    fn only_web_addresses_pass_and_keep_their_form() {
        let check = |url: &str, expected: Option<&str>| {
            assert_eq!(web_address(url).as_deref(), expected, "{url}");
        };
        check("https://Example.org/A?b#c", Some("https://Example.org/A?b#c"));
        check(" http://example.org ", Some("http://example.org"));
        check("javascript:alert(1)", None);
        check("ftp://example.org/", None);
        check("//example.org/x", None);
        check("example.org", None);
        check("https://", None);
        check("http:///nohost", None);
        check("http://user:pw@evil.com/", None);
        check("http://ok.com@evil.com/a.png", None);
        check("https://example.org/\"<a>.png", Some("https://example.org/%22%3Ca%3E.png"));
        check("https://example.org/a b", Some("https://example.org/a%20b"));
        check("https://example.org/\u{202e}gpj.exe", Some("https://example.org/%E2%80%AEgpj.exe"));
        check(&format!("https://example.org/{}", "x".repeat(URL_BYTES_MAX)), None);
    }

    #[test]
    fn conditions_hold_of_what_they_name() {
        let body = br#"{"list": [[1]], "none": [], "flag": true, "n": 2, "text": "ERROR: Daily"}"#;
        let keys = ["list", "none", "flag", "n", "text"];
        let value = Json::read(body, &keys).expect("the case is JSON");
        let check = |toml: &str, expected: bool| {
            let test: Test = toml::from_str(toml).expect("the case is a condition");
            assert_eq!(test.holds(&value), expected, "{toml}");
        };
        check("at = \"/list\"\nfilled = true", true);
        check("at = \"/none\"\nfilled = true", false);
        check("at = \"/absent\"\nfilled = false", true);
        check("at = \"/absent\"\npresent = false", true);
        check("at = \"/flag\"\nequals = [\"true\"]", true);
        check("at = \"/n\"\nabove = 1.5", true);
        check("at = \"/n\"\nabove = 2.0", false);
        check("at = \"/text\"\nstarts_with = [\"ERR\"]", true);
        check("at = \"/text\"\ncontains = [\"Limit\"]", false);
    }
}
