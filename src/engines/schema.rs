//! The tables of a manifest, as types: `[caps]`, `[request]`, `[answer]`, `[judge]`. Each is parsed
//! by serde with unknown keys refused; what types cannot say is checked by `manifest::parse`.
//!
//! Units: `_s` seconds, `_max` counts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::hooks::{QueryHook, TextHook, UrlHook};
use super::parse::{DateFormat, Pointer};
use super::template::Template;

/// `[caps]`: what goes into one call at most; 0 is no cap.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// Characters of the query; a longer one is cut at a word.
    #[serde(default)]
    pub query_characters_max: usize,
    /// Words of the query; later ones are left out.
    #[serde(default)]
    pub query_words_max: usize,
    /// Results of one call: `{count}` is never more.
    #[serde(default)]
    pub count_max: usize,
}

/// `request.method`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// No body.
    Get,
    /// A form or JSON body.
    Post,
}

impl Method {
    /// As on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// `[request]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: Method,
    /// Below the engine's `url`; only `{value.NAME}` is filled in.
    pub path: Template,
    /// Parameters of the target.
    #[serde(default)]
    pub query: BTreeMap<String, Template>,
    /// Parameters of a form body.
    #[serde(default)]
    pub form: BTreeMap<String, Template>,
    /// A JSON body.
    #[serde(default)]
    pub json: Option<Template>,
    /// Header fields; only `{api_key}` and `{value.NAME}` are filled in.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// What is done to the query's text before it is sent, in order.
    #[serde(default)]
    pub query_hooks: Vec<QueryHook>,
    /// How `site:` restrictions are put into the query; none: the engine knows no such operator.
    #[serde(default)]
    pub sites: Option<Sites>,
    /// How the engine spells a placeholder's values, by the placeholder's name.
    #[serde(default)]
    pub spell: BTreeMap<String, Spelling>,
}

/// `[request.sites]`: `{domain}` stands for one host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    /// As `site:{domain}`.
    pub include: String,
    /// As `-site:{domain}`; none: results are only filtered here.
    #[serde(default)]
    pub exclude: Option<String>,
    /// Between two included hosts, as ` OR `; the whole is put in parentheses.
    pub join: String,
    /// With more hosts of a kind than this, the query carries none: results are filtered here.
    pub domains_max: usize,
}

/// `[request.spell.NAME]`: from our values to the engine's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spelling {
    /// Applied first.
    #[serde(default)]
    pub case: Case,
    /// Ours to theirs; text, number or boolean.
    #[serde(default)]
    pub map: BTreeMap<String, Scalar>,
    /// The engine's closed list; what is not in it counts as absent. Empty: anything goes.
    #[serde(default)]
    pub only: Vec<String>,
    /// What is not in `map` counts as absent.
    #[serde(default)]
    pub is_closed: bool,
    /// Sent where the caller gave nothing; without it the parameter is left out.
    #[serde(default)]
    pub absent: Option<Scalar>,
}

/// `case`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// As it is.
    #[default]
    Keep,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
}

/// A text, whole number or boolean, as JSON will carry it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub struct Scalar(pub serde_json::Value);

impl TryFrom<toml::Value> for Scalar {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::String(text) => Ok(Self(text.into())),
            toml::Value::Integer(number) => Ok(Self(number.into())),
            toml::Value::Boolean(flag) => Ok(Self(flag.into())),
            _ => Err("must be a text, a whole number or a boolean".to_owned()),
        }
    }
}

/// `[answer]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Where the list is; the first that exists counts. `""` is the whole answer.
    pub list: Vec<Pointer>,
    /// The list may be absent and mean "nothing found", if all of these are there.
    #[serde(default)]
    pub absent_if: Vec<Pointer>,
    /// Where the answer repeats the question as it was sent; the first that exists counts. Another
    /// question there means that the connection is out of step.
    #[serde(default)]
    pub question: Vec<Pointer>,
    /// Rows that pass all of these are results; others are not counted.
    #[serde(default)]
    pub rows: Vec<Test>,
    /// Where a row keeps what.
    pub fields: Fields,
    /// What half of the rows must have.
    #[serde(default = "all_required")]
    pub required: Vec<Required>,
    /// How dates are written; tried in order.
    #[serde(default = "iso")]
    pub date_formats: Vec<DateFormat>,
    /// Makes or mends a row's address.
    #[serde(default)]
    pub url_hook: Option<UrlHook>,
    /// Cleans a snippet after tags and entities are gone.
    #[serde(default)]
    pub snippet_hook: Option<TextHook>,
}

/// `[answer.fields]`: for each, the pointers into a row to try in order.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// The title.
    #[serde(default)]
    pub title: Vec<Pointer>,
    /// The address.
    #[serde(default)]
    pub url: Vec<Pointer>,
    /// The text; a list of texts is joined.
    #[serde(default)]
    pub snippet: Vec<Pointer>,
    /// When it was published.
    #[serde(default)]
    pub published_date: Vec<Pointer>,
    /// An image's address.
    #[serde(default)]
    pub image: Vec<Pointer>,
    /// The engine's score.
    #[serde(default)]
    pub score: Vec<Pointer>,
}

/// `required`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Required {
    /// A title that is not empty.
    Title,
    /// An http or https address.
    Url,
    /// A snippet that is not empty.
    Snippet,
}

/// `[judge]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// What an empty body with status 2xx means; `malformed` where it is not given.
    #[serde(default)]
    pub empty_body: Option<Meaning>,
    /// What a status means, before the general rules.
    #[serde(default)]
    pub status: BTreeMap<StatusCode, Meaning>,
    /// What an error inside a JSON body means; the first that matches counts, before the status.
    #[serde(default)]
    pub errors: Vec<Rule>,
    /// Marks of an answer that is usable but not whole.
    #[serde(default)]
    pub partial: Vec<Test>,
    /// Header fields (lower case) that say when to come again, tried in order after `retry-after`.
    #[serde(default)]
    pub retry_after: Vec<String>,
    /// The same inside a JSON body, in seconds.
    #[serde(default)]
    pub retry_after_at: Vec<Pointer>,
    /// How long to rest where the engine does not say, by meaning.
    #[serde(default)]
    pub rest_s: BTreeMap<Meaning, u64>,
}

/// `means`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// The key is missing or wrong.
    Auth,
    /// Paid or daily calls are used up.
    Quota,
    /// Too many calls at once.
    Throttled,
    /// A wall: challenge, consent, suspension.
    Blocked,
    /// The engine's own trouble, or a call it refuses.
    Failed,
    /// Not of the schema.
    Malformed,
    /// Nothing found, said as an error.
    Empty,
}

/// One `[[judge.errors]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which answers are looked at.
    #[serde(default)]
    pub when: When,
    /// Only with these statuses; empty: all.
    #[serde(default)]
    pub status: Vec<u16>,
    /// What must hold of the body.
    #[serde(rename = "if")]
    pub test: Test,
    /// What it then means.
    pub means: Meaning,
}

/// `when`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Before anything else is read.
    #[default]
    Always,
    /// Only where the list has no rows.
    Empty,
}

/// One condition on a JSON value: a pointer, and exactly one of the rest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Where.
    pub at: Pointer,
    /// It is there and not null, or it is not.
    #[serde(default)]
    pub present: Option<bool>,
    /// It is a list, table or text that is not empty.
    #[serde(default)]
    pub filled: Option<bool>,
    /// As text it is one of these.
    #[serde(default)]
    pub equals: Vec<String>,
    /// As text it starts with one of these.
    #[serde(default)]
    pub starts_with: Vec<String>,
    /// As text it has one of these inside.
    #[serde(default)]
    pub contains: Vec<String>,
    /// It is a number above this.
    #[serde(default)]
    pub above: Option<f64>,
}

/// An HTTP status as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct StatusCode(pub u16);

impl TryFrom<String> for StatusCode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.parse() {
            Ok(code @ 100..=599) => Ok(Self(code)),
            _ => Err(format!("`{text}` is no HTTP status (100 to 599)")),
        }
    }
}

fn all_required() -> Vec<Required> {
    vec![Required::Title, Required::Url, Required::Snippet]
}

fn iso() -> Vec<DateFormat> {
    vec![DateFormat::Iso]
}
