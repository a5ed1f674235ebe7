//! Texts and JSON values with placeholders, filled in as values and never by pasting: a query full
//! of quotes stays one JSON text, and a parameter without a value is left out.
//!
//! `{name}` alone keeps its value's type (a number, a boolean, a list); with text around it the
//! value becomes text. `{{` and `}}` are braces. An absent value removes the whole parameter.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::manifest::hint;

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// `{query}`: the question, with the hooks and caps of the manifest applied.
    Query,
    /// `{count}`: how many results to ask for.
    Count,
    /// `{country}`: ISO 3166-1 alpha-2, upper case.
    Country,
    /// `{lang}`: the BCP 47 tag.
    Lang,
    /// `{language}`: the tag's first part.
    Language,
    /// `{locale}`: language and country, as `de-AT`; the country alone gives nothing.
    Locale,
    /// `{time_range}`: day, week, month, year.
    TimeRange,
    /// `{safe_search}`: off, moderate, strict.
    SafeSearch,
    /// `{include_domains}`: a list.
    IncludeDomains,
    /// `{exclude_domains}`: a list.
    ExcludeDomains,
    /// `{include_media}`: a boolean.
    IncludeMedia,
    /// `{api_key}`: from the configuration.
    ApiKey,
    /// `{value.NAME}`: from `[engine.values]`, else from the manifest's `[values]`.
    Value(String),
}

const SLOTS: [(&str, Slot); 12] = [
    ("query", Slot::Query),
    ("count", Slot::Count),
    ("country", Slot::Country),
    ("lang", Slot::Lang),
    ("language", Slot::Language),
    ("locale", Slot::Locale),
    ("time_range", Slot::TimeRange),
    ("safe_search", Slot::SafeSearch),
    ("include_domains", Slot::IncludeDomains),
    ("exclude_domains", Slot::ExcludeDomains),
    ("include_media", Slot::IncludeMedia),
    ("api_key", Slot::ApiKey),
];

impl Slot {
    /// The placeholder of that name.
    ///
    /// # Errors
    /// A message with the nearest known name.
    pub fn named(name: &str) -> Result<Self, String> {
        if let Some(value) = name.strip_prefix("value.").filter(|value| !value.is_empty()) {
            return Ok(Self::Value(value.to_owned()));
        }
        let known = SLOTS.iter().find(|(known, _)| *known == name);
        known.map(|(_, slot)| slot.clone()).ok_or_else(|| {
            let near = hint(name, SLOTS.iter().map(|(known, _)| *known));
            format!("unknown placeholder {{{name}}}{near}")
        })
    }

    /// As between the braces.
    pub fn name(&self) -> &str {
        match SLOTS.iter().find(|(_, slot)| slot == self) {
            Some((name, _)) => name,
            None => "value",
        }
    }
}

/// A value with placeholders in its texts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum Template {
    /// Literal texts and placeholders in turn.
    Text(Vec<Part>),
    /// A number or boolean.
    Fixed(Value),
    /// Each filled in turn; absent ones are left out, a placeholder's list is spliced in.
    List(Vec<Self>),
    /// Each filled in turn; absent ones are left out.
    Table(Vec<(String, Self)>),
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Literal(String),
    /// To be filled in.
    Slot(Slot),
}

impl TryFrom<toml::Value> for Template {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        Ok(match value {
            toml::Value::String(text) => Self::Text(parts(&text)?),
            toml::Value::Integer(number) => Self::Fixed(number.into()),
            toml::Value::Float(number) => Self::Fixed(number.into()),
            toml::Value::Boolean(flag) => Self::Fixed(flag.into()),
            toml::Value::Datetime(_) => return Err("a date must be written as a text".to_owned()),
            toml::Value::Array(list) => {
                Self::List(list.into_iter().map(Self::try_from).collect::<Result<_, _>>()?)
            }
            toml::Value::Table(table) => Self::Table(
                table
                    .into_iter()
                    .map(|(name, value)| Ok((name, Self::try_from(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }
}

impl Template {
    /// Adds every placeholder in it to `slots`.
    pub fn slots<'a>(&'a self, slots: &mut Vec<&'a Slot>) {
        match self {
            Self::Text(parts) => slots.extend(parts.iter().filter_map(|part| match part {
                Part::Slot(slot) => Some(slot),
                Part::Literal(_) => None,
            })),
            Self::Fixed(_) => {}
            Self::List(list) => list.iter().for_each(|item| item.slots(slots)),
            Self::Table(table) => table.iter().for_each(|(_, item)| item.slots(slots)),
        }
    }

    /// The value with every placeholder filled in; `Null` where one is absent.
    pub fn fill(&self, value_of: &dyn Fn(&Slot) -> Value) -> Value {
        match self {
            Self::Text(parts) => fill_text(parts, value_of),
            Self::Fixed(value) => value.clone(),
            Self::List(list) => Value::Array(
                list.iter()
                    .flat_map(|item| match (item, item.fill(value_of)) {
                        (_, Value::Null) => Vec::new(),
                        (Self::Text(_), Value::Array(spliced)) => spliced,
                        (_, value) => vec![value],
                    })
                    .collect(),
            ),
            Self::Table(table) => Value::Object(
                table
                    .iter()
                    .map(|(name, item)| (name.clone(), item.fill(value_of)))
                    .filter(|(_, value)| !value.is_null())
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

fn fill_text(parts: &[Part], value_of: &dyn Fn(&Slot) -> Value) -> Value {
    if let [Part::Slot(slot)] = parts {
        return value_of(slot);
    }
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Slot(slot) => match as_text(&value_of(slot)) {
                Some(value) => text.push_str(&value),
                None => return Value::Null,
            },
        }
    }
    text.into()
}

/// A value as a parameter carries it: lists joined with commas, `Null` and tables as nothing.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => Some(list.iter().filter_map(as_text).collect::<Vec<_>>().join(",")),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
    }
}

/// Splits a text at its placeholders.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        literal.push_str(before);
        if let Some(after) = from.strip_prefix("{{") {
            literal.push('{');
            rest = after;
        } else if let Some(after) = from.strip_prefix("}}") {
            literal.push('}');
            rest = after;
        } else if let Some((name, after)) = from.strip_prefix('{').and_then(|s| s.split_once('}')) {
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Slot(Slot::named(name)?));
            rest = after;
        } else {
            return Err(format!(
                "a brace without its partner in `{text}`; {{{{ and }}}} are braces"
            ));
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() || parts.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value_of(slot: &Slot) -> Value {
        match slot {
            Slot::Query => json!("say \"hi\", {name}"),
            Slot::Count => json!(10),
            Slot::IncludeDomains => json!(["a.org", "b.org"]),
            Slot::IncludeMedia => json!(true),
            _ => Value::Null,
        }
    }

    /// The template of a TOML value, filled in.
    fn check(toml: &str, expected: Value) {
        let table: toml::Table = toml.parse().expect("the case is TOML");
        let template = Template::try_from(table["x"].clone()).expect("the case is a template");
        assert_eq!(template.fill(&value_of), expected, "{toml}");
    }

    #[test]
    fn values_keep_their_types_and_are_never_pasted() {
        check(r#"x = "{query}""#, json!("say \"hi\", {name}"));
        check(r#"x = "q={query}!""#, json!("q=say \"hi\", {name}!"));
        check(r#"x = "{count}""#, json!(10));
        check(r#"x = "{count} of""#, json!("10 of"));
        check(r#"x = "{{query}} {{}}""#, json!("{query} {}"));
        check(r#"x = """#, json!(""));
        check("x = 3", json!(3));
    }

    #[test]
    fn what_is_absent_is_left_out() {
        check(r#"x = "{country}""#, Value::Null);
        check(r#"x = "cc={country}""#, Value::Null);
        check(
            r#"x = { a = "{country}", b = "{count}", c = { d = "{lang}" } }"#,
            json!({
                "b": 10, "c": {}
            }),
        );
        check(r#"x = ["{country}", "k"]"#, json!(["k"]));
    }

    #[test]
    fn a_list_is_spliced_into_a_list_and_joined_in_a_text() {
        check(r#"x = ["{include_domains}", "c.org"]"#, json!(["a.org", "b.org", "c.org"]));
        check(r#"x = "{include_domains}""#, json!(["a.org", "b.org"]));
        check(r#"x = "in:{include_domains}""#, json!("in:a.org,b.org"));
    }

    #[test]
    fn a_brace_needs_its_partner() {
        assert!(parts("{query").is_err());
        assert!(parts("query}").is_err());
        assert!(parts("{}").is_err());
        assert!(parts("{value.}").is_err());
        assert_eq!(parts("{value.a}"), Ok(vec![Part::Slot(Slot::Value("a".to_owned()))]));
    }
}
