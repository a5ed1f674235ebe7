//! What a key may hold: the kinds of value, their bounds, and the reading of one TOML value into
//! one typed value. A refusal is half a sentence that names what was found and what is wanted.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use toml::de::DeValue;
use url::Url;

use super::cores::Cores;
use super::forms;

/// What a key may hold. Bounds are inclusive.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// Any string.
    Text,
    /// A string of `[A-Za-z0-9._-]`, 1 to 64 characters.
    Name,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer(u64, u64),
    /// A number.
    Number(f64, f64),
    /// A whole number of milliseconds.
    Milliseconds(u64, u64),
    /// A number of seconds.
    Seconds(f64, f64),
    /// One of these words.
    OneOf(Vec<&'static str>),
    /// A list of some of these words, at least one.
    SomeOf(Vec<&'static str>),
    /// `cores`
    Cores,
    /// `IP:port`
    Address,
    /// `http://…` or `https://…`; with `true` perhaps empty.
    Url(bool),
    /// SHA-256 in hex; with `true` perhaps empty.
    Digest(bool),
    /// A list of host names.
    Hosts,
    /// A list of networks in CIDR form.
    Networks,
    /// Empty, or a Redis address.
    Store,
}

/// A value that is of its kind and within its bounds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// An optional value, given as the empty string.
    Empty,
    Text(String),
    Texts(Vec<String>),
    Flag(bool),
    Integer(u64),
    Number(f64),
    Span(Duration),
    Cores(Cores),
    Address(SocketAddr),
    Url(Url),
    Digest([u8; 32]),
}

impl Kind {
    /// Reads the second column of `keys.txt`.
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let words = || rest.trim_start_matches("of ").split(' ').collect();
        let bounds = || rest.split_once("..");
        let whole = || bounds().and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
        let real = || bounds().and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
        Some(match word {
            "text" => Self::Text,
            "name" => Self::Name,
            "flag" => Self::Flag,
            "integer" => whole().map(|(min, max)| Self::Integer(min, max))?,
            "milliseconds" => whole().map(|(min, max)| Self::Milliseconds(min, max))?,
            "number" => real().map(|(min, max)| Self::Number(min, max))?,
            "seconds" => real().map(|(min, max)| Self::Seconds(min, max))?,
            "one" => Self::OneOf(words()),
            "some" => Self::SomeOf(words()),
            "cores" => Self::Cores,
            "address" => Self::Address,
            "url" => Self::Url(false),
            "digest" => Self::Digest(false),
            "optional" if rest == "url" => Self::Url(true),
            "optional" if rest == "digest" => Self::Digest(true),
            "hosts" => Self::Hosts,
            "networks" => Self::Networks,
            "store" => Self::Store,
            _ => return None,
        })
    }

    /// Reads a TOML literal, as `"all"` or `[1, 2]`.
    pub(super) fn read_literal(&self, literal: &str) -> Result<Value, String> {
        let value = DeValue::parse(literal).map_err(|error| error.message().to_owned())?;
        self.read(value.get_ref())
    }

    /// Reads a value of the file.
    ///
    /// # Errors
    /// Half a sentence: what was found, and what is wanted.
    pub(super) fn read(&self, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (Self::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Self::Integer(..) | Self::Milliseconds(..), DeValue::Integer(_)) => {
                self.read_integer(value)
            }
            (Self::Number(..) | Self::Seconds(..), DeValue::Integer(_) | DeValue::Float(_)) => {
                self.read_number(value)
            }
            (Self::SomeOf(_) | Self::Hosts | Self::Networks, DeValue::Array(_)) => {
                self.read_list(value)
            }
            (
                Self::Flag
                | Self::Integer(..)
                | Self::Milliseconds(..)
                | Self::Number(..)
                | Self::Seconds(..)
                | Self::SomeOf(_)
                | Self::Hosts
                | Self::Networks,
                _,
            ) => Err(self.wrong_type(value)),
            (_, DeValue::String(text)) => self.read_text(text),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn wrong_type(&self, value: &DeValue<'_>) -> String {
        format!("{} is of the wrong type ({}); want {self}", shown(value), value.type_str())
    }

    fn read_integer(&self, value: &DeValue<'_>) -> Result<Value, String> {
        let number = value
            .as_integer()
            .and_then(|integer| i128::from_str_radix(integer.as_str(), integer.radix()).ok())
            .and_then(|integer| u64::try_from(integer).ok());
        match (self, number) {
            (Self::Integer(min, max), Some(n)) if (*min..=*max).contains(&n) => {
                Ok(Value::Integer(n))
            }
            (Self::Milliseconds(min, max), Some(n)) if (*min..=*max).contains(&n) => {
                Ok(Value::Span(Duration::from_millis(n)))
            }
            _ => Err(format!("{} is out of bounds; want {self}", shown(value))),
        }
    }

    fn read_number(&self, value: &DeValue<'_>) -> Result<Value, String> {
        let number = match value {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            _ => None,
        };
        match (self, number) {
            (Self::Number(min, max), Some(n)) if (*min..=*max).contains(&n) => Ok(Value::Number(n)),
            (Self::Seconds(min, max), Some(n)) if (*min..=*max).contains(&n) => {
                Duration::try_from_secs_f64(n).map(Value::Span).map_err(|error| error.to_string())
            }
            _ => Err(format!("{} is out of bounds; want {self}", shown(value))),
        }
    }

    fn read_list(&self, value: &DeValue<'_>) -> Result<Value, String> {
        let (mut texts, mut seen) = (Vec::new(), HashSet::new());
        for item in value.as_array().into_iter().flat_map(|list| list.iter()) {
            let text = item.get_ref().as_str().ok_or_else(|| self.wrong_type(item.get_ref()))?;
            let is_right = match self {
                Self::SomeOf(words) => words.contains(&text),
                Self::Hosts => forms::is_host(text),
                Self::Networks => forms::is_network(text),
                _ => true,
            };
            if !is_right {
                return Err(format!("\"{}\" is not known here; want {self}", forms::excerpt(text)));
            }
            if !seen.insert(text) {
                return Err(format!("\"{}\" stands there twice", forms::excerpt(text)));
            }
            texts.push(text.to_owned());
        }
        if texts.is_empty() && matches!(self, Self::SomeOf(_)) {
            return Err(format!("the list is empty; want {self}"));
        }
        Ok(Value::Texts(texts))
    }

    fn read_text(&self, text: &str) -> Result<Value, String> {
        let wanted = |what: &str| format!("{what}; want {self}");
        let told = || forms::excerpt(text);
        match self {
            Self::Url(true) | Self::Digest(true) | Self::Store if text.is_empty() => {
                Ok(Value::Empty)
            }
            Self::Name if !forms::is_name(text) => {
                Err(wanted(&format!("\"{}\" is no name", told())))
            }
            Self::OneOf(words) if !words.contains(&text) => {
                Err(wanted(&format!("\"{}\" is not known here", told())))
            }
            Self::Cores => Cores::parse(text).map(Value::Cores).map_err(|what| wanted(&what)),
            Self::Address => text.parse().map(Value::Address).map_err(|_| {
                wanted(&format!("\"{}\" is no address (names are not looked up here)", told()))
            }),
            Self::Url(_) => forms::url(text).map(Value::Url).map_err(|what| wanted(&what)),
            Self::Digest(_) => forms::digest(text).map(Value::Digest).map_err(|what| wanted(&what)),
            Self::Store => forms::store(text)
                .map(|()| Value::Text(text.to_owned()))
                .map_err(|what| wanted(&what)),
            _ => Ok(Value::Text(text.to_owned())),
        }
    }
}

/// A value as shown in a problem: short, on one line.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", text.chars().take(40).collect::<String>()),
        DeValue::Integer(integer) => forms::excerpt(&integer.to_string()),
        DeValue::Float(float) => forms::excerpt(&float.to_string()),
        DeValue::Boolean(flag) => flag.to_string(),
        other => format!("this {}", other.type_str()),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a string"),
            Self::Name => f.write_str("a name of 1 to 64 letters, digits, `.`, `_` or `-`"),
            Self::Flag => f.write_str("true or false"),
            Self::Integer(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Number(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Milliseconds(min, max) => write!(f, "whole milliseconds from {min} to {max}"),
            Self::Seconds(min, max) => write!(f, "seconds from {min} to {max}"),
            Self::OneOf(words) => write!(f, "one of {}", quoted(words)),
            Self::SomeOf(words) => write!(f, "a list of some of {}", quoted(words)),
            Self::Cores => f.write_str("\"all\", a count (\"2\") or a list (\"0-3,6\")"),
            Self::Address => f.write_str("IP:port, as \"127.0.0.1:8080\""),
            Self::Url(is_optional) => {
                f.write_str("http:// or https:// with a host, without user, query or fragment")?;
                f.write_str(if *is_optional { ", or \"\"" } else { "" })
            }
            Self::Digest(is_optional) => {
                f.write_str("64 hexadecimal digits (as by `printf %s KEY | sha256sum`)")?;
                f.write_str(if *is_optional { ", or \"\"" } else { "" })
            }
            Self::Hosts => f.write_str("a list of host names"),
            Self::Networks => f.write_str("a list of networks, as \"10.0.0.0/8\""),
            Self::Store => f.write_str("redis:// or rediss:// and host:port,host:port, or \"\""),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `literal` as `kind`; a refusal must contain `expected`.
    fn check(kind: &'static str, literal: &str, expected: Result<Value, &str>) {
        let kind = Kind::parse(kind).unwrap();
        match (kind.read_literal(literal), expected) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{kind:?} {literal}"),
            (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{literal}: {found}"),
            (found, wanted) => panic!("{kind:?} {literal}: {found:?}, want {wanted:?}"),
        }
    }

    #[test]
    fn numbers_are_bounded_and_typed() {
        check("integer 1..10", "10", Ok(Value::Integer(10)));
        check("integer 1..10", "0x0a", Ok(Value::Integer(10)));
        check("integer 1..10", "11", Err("from 1 to 10"));
        check("integer 1..10", "-1", Err("-1 is out of bounds"));
        check("integer 1..10", "99999999999999999999999999999999999999999", Err("out of bounds"));
        check("integer 1..10", "1.0", Err("wrong type (float)"));
        check("integer 1..10", "\"1\"", Err("wrong type (string)"));
        check("number 0..1", "1", Ok(Value::Number(1.0)));
        check("number 0..1", "1.5", Err("1.5 is out of bounds; want a number from 0 to 1"));
        check("number 0..1", "nan", Err("out of bounds"));
        check("number 0..1", "inf", Err("out of bounds"));
        check("milliseconds 1..60000", "150", Ok(Value::Span(Duration::from_millis(150))));
        check("seconds 0..10", "0.5", Ok(Value::Span(Duration::from_millis(500))));
        check("flag", "1", Err("want true or false"));
    }

    #[test]
    fn texts_have_forms() {
        check("one of lite fast", "\"lite\"", Ok(Value::Text("lite".into())));
        check("one of lite fast", "\"deep\"", Err("want one of \"lite\", \"fast\""));
        check("some of lite fast", "[]", Err("empty"));
        check("some of lite fast", "[\"lite\", \"lite\"]", Err("twice"));
        check("some of lite fast", "\"lite\"", Err("wrong type"));
        check("some of lite fast", "[1]", Err("wrong type"));
        check("name", "\"a b\"", Err("is no name"));
        check("address", "\"localhost:80\"", Err("is no address"));
        check("address", "\"[::1]:80\"", Ok(Value::Address("[::1]:80".parse().unwrap())));
        check("url", "\"\"", Err("http://"));
        check("optional url", "\"\"", Ok(Value::Empty));
        check("digest", "\"abc\"", Err("64 hexadecimal digits"));
        check("optional digest", "\"\"", Ok(Value::Empty));
        check("store", "\"redis://127.0.0.1:7000,127.0.0.1\"", Err("no port"));
        check("networks", "[\"127.0.0.0/33\"]", Err("is not known here"));
    }
}
