//! Reads the fields of a request, from a query string or a JSON object, into one list of names and
//! values. Knows syntax only, no names.
//!
//! Strict where leniency would guess: percent signs, UTF-8, JSON. Never panics: serde_json bounds
//! the depth (128), the edge bounds the size, `FIELDS_MAX` bounds the count.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;

use super::FieldError;
use crate::text;

/// Most fields of one request; more are an error.
pub(super) const FIELDS_MAX: usize = 128;
/// Most errors that one answer lists.
const ERRORS_MAX: usize = 32;
/// Longest piece of a caller's text that an error or a warning repeats.
const SHOWN_CHARS_MAX: usize = 40;

/// A field as it was given.
#[derive(Debug, PartialEq)]
pub(super) struct Given {
    /// As the caller spelt it.
    pub(super) name: String,
    pub(super) value: Value,
}

/// What was given for a field.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    /// From a query string, where everything is text.
    Word(String),
    /// A JSON string.
    Text(String),
    /// A JSON number without fraction.
    Whole(i64),
    /// A JSON boolean.
    Truth(bool),
    /// A JSON array of strings.
    Texts(Vec<String>),
    /// Anything else, by what it is called in an error.
    Other(&'static str),
}

/// Everything that is wrong with a request, told at once.
#[derive(Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    /// Adds an error of the field `name`; an empty name is the request as a whole.
    pub(super) fn push(&mut self, name: &str, detail: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            let pointer = if name.is_empty() { "#".into() } else { format!("#/{name}") };
            self.0.push(FieldError { pointer, detail: detail.into() });
        }
    }

    /// Whether one of them has one of these pointers.
    pub(super) fn concern(&self, pointers: &[&str]) -> bool {
        self.0.iter().any(|error| pointers.contains(&error.pointer.as_str()))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_list(self) -> Vec<FieldError> {
        self.0
    }
}

/// A caller's text as an error repeats it: visible, short, quoted.
pub(super) fn shown(text: &str) -> String {
    let start = text::cut(text, SHOWN_CHARS_MAX);
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{:?}", text::visible(start) + more)
}

/// Whether a `Content-Type` is JSON in UTF-8; parameters other than `charset` do not matter.
pub(super) fn is_json(content_type: Option<&[u8]>) -> bool {
    let Some(Ok(text)) = content_type.map(std::str::from_utf8) else {
        return false;
    };
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}

/// Whether the `Content-Encoding` lines say that the body is as it is: it is read as it comes, so a
/// compressed one would be refused as bad JSON, which tells its sender nothing.
pub(super) fn is_uncoded(lines: &[&[u8]]) -> bool {
    let codings = lines.iter().flat_map(|line| line.split(|b| *b == b','));
    let mut given = codings.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty());
    given.all(|coding| coding.eq_ignore_ascii_case(b"identity"))
}

/// Reads `name=value&…`: `+` and `%20` are spaces, other bytes stand for themselves, all in UTF-8.
pub(super) fn from_query(raw: &[u8], errors: &mut Errors) -> Vec<Given> {
    let mut given = Vec::new();
    for pair in raw.split(|b| *b == b'&').filter(|pair| !pair.is_empty()) {
        if given.len() == FIELDS_MAX {
            errors.push("", format!("more than {FIELDS_MAX} fields"));
            break;
        }
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(at) => {
                (pair.get(..at).unwrap_or_default(), pair.get(at + 1..).unwrap_or_default())
            }
            None => (pair, &[][..]),
        };
        match (decoded(name), decoded(value)) {
            (Ok(name), Ok(value)) => given.push(Given { name, value: Value::Word(value) }),
            (Ok(name), Err(detail)) if name.bytes().all(|b| b.is_ascii_graphic()) => {
                errors.push(text::cut(&name, SHOWN_CHARS_MAX), detail);
            }
            (_, Err(detail)) | (Err(detail), _) => errors.push("", detail),
        }
    }
    given
}

/// Percent-decodes strictly.
fn decoded(raw: &[u8]) -> Result<String, &'static str> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(b) = rest.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
                let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                    return Err("a % is not followed by two hexadecimal digits; write it as %25");
                };
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            b => *b,
        });
    }
    String::from_utf8(out).map_err(|_| "is not UTF-8 after percent-decoding")
}

/// Reads the members of a JSON object. Members that are null count as not given.
pub(super) fn from_body(body: &[u8], errors: &mut Errors) -> Vec<Given> {
    let repaired = text::repair_surrogates(body);
    match serde_json::from_slice::<Members>(&repaired) {
        Ok(Members(given)) if given.len() > FIELDS_MAX => {
            errors.push("", format!("more than {FIELDS_MAX} fields"));
            Vec::new()
        }
        Ok(Members(given)) => given,
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let what = match error.classify() {
                serde_json::error::Category::Data => "is not a JSON object",
                _ => "is not JSON",
            };
            errors.push("", format!("the body {what} (line {line}, column {column})"));
            Vec::new()
        }
    }
}

/// The members of an object in their order, repeated names kept: `serde_json::Map` would hide that
/// two values disagree.
struct Members(Vec<Given>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut given = Vec::new();
        while let Some((name, json)) = map.next_entry::<String, Json>()? {
            // One more than allowed is kept, so that the caller of this can tell.
            if !json.is_null() && given.len() <= FIELDS_MAX {
                given.push(Given { name, value: value(json) });
            }
        }
        Ok(Members(given))
    }
}

fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Other("null"),
        Json::Bool(truth) => Value::Truth(truth),
        Json::String(text) => Value::Text(text),
        Json::Object(_) => Value::Other("an object"),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Whole(whole),
            None => Value::Other("a number out of range"),
        },
        Json::Array(list) => {
            let texts: Option<Vec<String>> = list
                .into_iter()
                .map(|entry| match entry {
                    Json::String(text) => Some(text),
                    _ => None,
                })
                .collect();
            texts.map_or(Value::Other("an array with other things than strings"), Value::Texts)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(raw: &str, expected: &[(&str, &str)]) {
        let mut errors = Errors::default();
        let given = from_query(raw.as_bytes(), &mut errors);
        assert!(errors.is_empty(), "{raw}");
        let expected: Vec<Given> = expected
            .iter()
            .map(|(name, value)| Given {
                name: (*name).into(),
                value: Value::Word((*value).into()),
            })
            .collect();
        assert_eq!(given, expected, "{raw}");
    }

    #[test]
    fn pairs_are_decoded() {
        check("q=a+b%20c&n=5", &[("q", "a b c"), ("n", "5")]);
        check("q=caf%C3%A9&&x&y==", &[("q", "café"), ("x", ""), ("y", "=")]);
        check("q=a%00b", &[("q", "a\0b")]);
        check("", &[]);
    }

    #[test]
    fn wrong_encodings_are_errors_of_their_field() {
        for (raw, pointer) in
            [("q=%ff%fe", "#/q"), ("q=%2", "#/q"), ("q=%zz", "#/q"), ("%ff=1", "#"), ("%=%", "#")]
        {
            let mut errors = Errors::default();
            from_query(raw.as_bytes(), &mut errors);
            let list = errors.into_list();
            assert_eq!(list.first().map(|e| e.pointer.as_str()), Some(pointer), "{raw}");
        }
    }

    #[test]
    fn bodies_that_are_no_objects_are_errors() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
        for body in ["", "{nope", "[]", "42", "null", "\"x\"", "{\"a\":1}x", "{\"a\"}", &deep] {
            let mut errors = Errors::default();
            assert!(from_body(body.as_bytes(), &mut errors).is_empty(), "{body:.20}");
            assert!(!errors.is_empty(), "{body:.20}");
        }
    }

    #[test]
    fn values_keep_their_kinds_and_their_repetition() {
        let mut errors = Errors::default();
        let body = br#"{"a":1,"a":"1","b":null,"c":[],"d":["x"],"e":[1],"f":1.5,"g":{},"h":true,
            "i":"a\ud800b","j":99999999999999999999}"#;
        let given: Vec<Value> =
            from_body(body, &mut errors).into_iter().map(|given| given.value).collect();
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(
            given,
            [
                Value::Whole(1),
                text("1"),
                Value::Texts(vec![]),
                Value::Texts(vec!["x".into()]),
                Value::Other("an array with other things than strings"),
                Value::Other("a number out of range"),
                Value::Other("an object"),
                Value::Truth(true),
                text("a\u{fffd}b"),
                Value::Other("a number out of range"),
            ]
        );
    }

    #[test]
    fn too_many_fields_are_an_error() {
        let mut errors = Errors::default();
        from_query("a&".repeat(FIELDS_MAX).as_bytes(), &mut errors);
        assert!(errors.is_empty());
        from_query("a&".repeat(FIELDS_MAX + 1).as_bytes(), &mut errors);
        assert!(!errors.is_empty());
    }

    #[test]
    fn only_json_in_utf_8_is_json() {
        for (kind, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json;v=1; charset=\"utf-8\"", true),
            ("application/json; charset=latin1", false),
            ("application/jsonx", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(is_json(Some(kind.as_bytes())), expected, "{kind}");
        }
        assert!(!is_json(None));
    }

    #[test]
    fn only_identity_is_no_coding() {
        for (lines, expected) in [
            (&[][..], true),
            (&["identity"], true),
            (&["Identity, identity", ""], true),
            (&["gzip"], false),
            (&["identity", "gzip"], false),
            (&["identity,br"], false),
            (&["identity;q=1"], false),
        ] {
            let lines: Vec<&[u8]> = lines.iter().map(|line: &&str| line.as_bytes()).collect();
            assert_eq!(is_uncoded(&lines), expected, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut errors = Errors::default();
            from_query(&bytes, &mut errors);
            from_body(&bytes, &mut errors);
        }
    }
}
