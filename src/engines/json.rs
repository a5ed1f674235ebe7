//! An engine's JSON as far as its manifest looks at it: keys that no pointer names are read over,
//! texts are borrowed from the body where it spells them without escapes.
//!
//! What is read over must be JSON all the same, and no deeper than `serde_json` goes (128 levels):
//! whether an answer is JSON never depends on the manifest. Of a key that is there twice the last
//! counts. Never keeps more than the body holds.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Room made for the entries of a table; what manifests read of a row is seldom more.
const ENTRIES_USUAL: usize = 8;

/// Values of one list that are kept; more are read over. Above what any reader looks at.
const LIST_MAX: usize = 256;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// As `serde_json` has it.
    Number(Number),
    /// Its escapes are resolved.
    Text(Cow<'a, str>),
    /// Its first `LIST_MAX` values.
    List(Vec<Self>),
    /// Some of its entries.
    Table(Table<'a>),
}

/// The entries of an object whose keys were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table<'a> {
    entries: Vec<(&'a str, Json<'a>)>,
    /// Whether there were any, asked for or not.
    is_filled: bool,
}

impl<'a> Json<'a> {
    /// Reads a body, keeping of its objects the entries with these keys; `None` if it is no JSON.
    pub fn read(body: &'a [u8], keys: &[&'a str]) -> Option<Self> {
        // Checked once as a whole, so that it need not be for each text.
        let text = std::str::from_utf8(body).ok()?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let json = Kept { keys }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(json)
    }

    /// The value of a key that was asked for.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Table(table) => table.get(key),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As a parameter carries it: lists joined with commas, null and tables as nothing.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Null | Self::Table(_) => None,
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::List(list) => {
                Some(list.iter().filter_map(Self::as_text).collect::<Vec<_>>().join(",").into())
            }
            Self::Bool(true) => Some("true".into()),
            Self::Bool(false) => Some("false".into()),
            Self::Number(number) => Some(number.to_string().into()),
        }
    }

    /// Whether it is a list, table or text that is not empty.
    pub fn is_filled(&self) -> bool {
        match self {
            Self::List(list) => !list.is_empty(),
            Self::Table(table) => table.is_filled,
            Self::Text(text) => !text.is_empty(),
            Self::Null | Self::Bool(_) | Self::Number(_) => false,
        }
    }
}

impl<'a> Table<'a> {
    /// The value of a key that was asked for.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.entries.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// Reads a value and keeps it, but for entries with other keys.
#[derive(Clone, Copy)]
struct Kept<'k, 'a> {
    keys: &'k [&'a str],
}

impl<'a> DeserializeSeed<'a> for Kept<'_, 'a> {
    type Value = Json<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Json<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Kept<'_, 'a> {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'a>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'a>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'a>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'a>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'a>, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut values: S) -> Result<Json<'a>, S::Error> {
        let mut list = Vec::new();
        while list.len() < LIST_MAX {
            let Some(value) = values.next_element_seed(self)? else {
                return Ok(Json::List(list));
            };
            list.push(value);
        }
        while values.next_element_seed(Skipped)?.is_some() {}
        Ok(Json::List(list))
    }

    fn visit_map<M: MapAccess<'a>>(self, mut values: M) -> Result<Json<'a>, M::Error> {
        let mut table = Table::default();
        while let Some(key) = values.next_key_seed(Key { keys: self.keys })? {
            table.is_filled = true;
            match key {
                Some(key) => {
                    if table.entries.capacity() == 0 {
                        table.entries.reserve(ENTRIES_USUAL);
                    }
                    table.entries.push((key, values.next_value_seed(self)?));
                }
                None => values.next_value_seed(Skipped)?,
            }
        }
        Ok(Json::Table(table))
    }
}

/// Reads a key: which of those asked for it is.
struct Key<'k, 'a> {
    keys: &'k [&'a str],
}

impl<'a> DeserializeSeed<'a> for Key<'_, 'a> {
    type Value = Option<&'a str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key<'_, 'a> {
    type Value = Option<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.keys.iter().find(|key| **key == value).copied())
    }
}

/// Reads over a value. Not `IgnoredAny`, for which `serde_json` has laxer rules: no limit of depth
/// and no range of numbers.
struct Skipped;

impl<'a> DeserializeSeed<'a> for Skipped {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Skipped {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut values: S) -> Result<(), S::Error> {
        while values.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'a>>(self, mut values: M) -> Result<(), M::Error> {
        while values.next_key_seed(Key { keys: &[] })?.is_some() {
            values.next_value_seed(Self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// What `json` is as a `Value` of which only `keys` are kept.
    fn value(json: &Json<'_>) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Number(number.clone()),
            Json::Text(text) => Value::from(&**text),
            Json::List(list) => list.iter().map(value).collect(),
            Json::Table(table) => {
                let entries = table.entries.iter().map(|(key, inner)| (*key, value(inner)));
                Value::Object(entries.map(|(key, inner)| (key.to_owned(), inner)).collect())
            }
        }
    }

    fn pruned(value: Value, keys: &[&str]) -> Value {
        match value {
            Value::Array(list) => list.into_iter().map(|inner| pruned(inner, keys)).collect(),
            Value::Object(table) => {
                let kept = table.into_iter().filter(|(key, _)| keys.contains(&key.as_str()));
                Value::Object(kept.map(|(key, inner)| (key, pruned(inner, keys))).collect())
            }
            other => other,
        }
    }

    /// Reads `body` both ways, which must agree; gives whether it is JSON.
    fn check(body: &[u8]) -> bool {
        let keys = ["a", "é\n", "", "results"];
        let read = Json::read(body, &keys).as_ref().map(value);
        let expected = serde_json::from_slice::<Value>(body).ok().map(|v| pruned(v, &keys));
        assert_eq!(read, expected, "{}", body.escape_ascii());
        read.is_some()
    }

    #[test]
    fn what_is_json_does_not_depend_on_the_keys() {
        for key in ["a", "b"] {
            let check = |inner: &str, expected: bool| {
                let body = format!("{{\"{key}\":{inner}}}");
                assert_eq!(check(body.as_bytes()), expected, "{body}");
            };
            check("1e999", false);
            check("-0.0", true);
            check("18446744073709551616", true);
            check("01", false);
            check("\"\\ud83d\"", false);
            check("\"\\ud83d\\ude00\"", true);
            check("\"\u{1}\"", false);
            check("tru", false);
            check("[1,]", false);
            check("{\"a\":1,\"a\":2,}", false);
            check("{\"a\":1,\"\\u0061\":2}", true);
            check("{1:2}", false);
            check(&format!("{}{}", "[".repeat(126), "]".repeat(126)), true);
            check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), false);
            check(&"{\"b\":".repeat(200), false);
        }
        assert!(!check(b"{\"b\":\"\xff\"}") && !check(b"{} x") && check(b" {} \n") && !check(b""));
    }

    #[test]
    fn a_table_is_filled_by_any_entry() {
        let is_filled = |body: &'static [u8]| Json::read(body, &["a"]).unwrap().is_filled();
        assert!(is_filled(b"{\"b\":1}") && is_filled(b"[0]") && is_filled(b"\"x\""));
        assert!(!is_filled(b"{}") && !is_filled(b"[]") && !is_filled(b"\"\"") && !is_filled(b"1"));
    }

    #[test]
    fn texts_are_borrowed_unless_they_are_escaped() {
        let body = br#"{"a":["plain","esc\"aped"]}"#;
        let json = Json::read(body, &["a"]).unwrap();
        let Some(Json::List(list)) = json.get("a") else { panic!("a list") };
        assert!(matches!(list[0], Json::Text(Cow::Borrowed("plain"))));
        assert!(matches!(&list[1], Json::Text(Cow::Owned(text)) if text == "esc\"aped"));
    }

    proptest! {
        #[test]
        fn both_readers_agree_on_any_bytes(
            body in "[\\[\\]{}:,\"\\\\ua0-9eE.+ -]{0,24}|\\PC{0,24}",
        ) {
            check(body.as_bytes());
        }

        #[test]
        fn both_readers_agree_on_json(
            texts in prop::collection::vec(any::<String>(), 0..6),
            numbers in prop::collection::vec(any::<f64>(), 0..6),
            whole in any::<i64>(),
            cut in 0_usize..400,
        ) {
            let body = serde_json::json!({
                "a": texts, "b": {"a": numbers, "x": texts}, "": [{"results": whole}, null, true],
            });
            let body = body.to_string().into_bytes();
            check(&body);
            check(body.get(..cut).unwrap_or(&body));
        }
    }
}
