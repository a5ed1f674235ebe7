//! An engine's adapter as data: how to ask it, where its answer keeps what, and what its refusals
//! look like. Adding an engine is writing such a file (docs/engines.md); nothing is compiled.
//!
//! A manifest is read once, at start or reload, and wholly checked there: placeholders, pointers,
//! hooks and statuses that do not exist are errors with a line and the nearest name. It must never
//! hold a secret; a key comes from the configuration.
//!
//! Units: `_s` seconds, `_max` counts; queries are counted in characters (Unicode scalar values).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::schema::{Caps, Judge, Method, Request, Shape, Test};
use super::template::{Slot, Template};

/// The manifests inside the binary, by name.
const BUILT_IN: [(&str, &str); 6] = [
    ("brave", include_str!("manifests/brave.toml")),
    ("mediawiki", include_str!("manifests/mediawiki.toml")),
    ("opensearch", include_str!("manifests/opensearch.toml")),
    ("searxng", include_str!("manifests/searxng.toml")),
    ("serper", include_str!("manifests/serper.toml")),
    ("tavily", include_str!("manifests/tavily.toml")),
];

const NAMES: [&str; BUILT_IN.len()] = {
    let mut names = [""; BUILT_IN.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = BUILT_IN[index].0;
        index += 1;
    }
    names
};

/// One engine's adapter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the adapter is called.
    pub name: String,
    /// Whether the engine's terms let its answers be kept; the configuration may say no, too.
    #[serde(default = "yes")]
    pub cacheable: bool,
    /// How good its answers are beside other engines'; the configuration's `quality` goes before.
    #[serde(default = "one")]
    pub quality: f64,
    /// Whether it answers nothing without a key.
    #[serde(default)]
    pub needs_api_key: bool,
    /// What `{value.NAME}` gives unless `[engine.values]` says otherwise; empty: must be given.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// What the engine takes at most.
    #[serde(default)]
    pub caps: Caps,
    /// How to ask.
    pub request: Request,
    /// How to read an answer.
    pub answer: Shape,
    /// How to read a refusal.
    #[serde(default)]
    pub judge: Judge,
}

/// Why a manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// Counted from 1; none where no one line is at fault.
    pub line: Option<usize>,
    /// What is wrong and, for a name, the nearest known one.
    pub message: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The names of the manifests inside the binary, sorted.
pub const fn names() -> &'static [&'static str] {
    &NAMES
}

/// The manifest of that name inside the binary.
pub fn built_in(name: &str) -> Option<Manifest> {
    let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    parse(text).ok()
}

/// Reads and checks a manifest.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
    let manifest: Manifest = toml::from_str(text).map_err(|error| explain(&error, text))?;
    let faults = manifest.faults();
    match faults.into_iter().next() {
        None => Ok(manifest),
        Some((key, message)) => {
            Err(ManifestError { line: line_of(text, key), message: format!("{key}: {message}") })
        }
    }
}

impl Manifest {
    /// What the configuration must still give for this engine to be asked: names of values, and
    /// `api_key`.
    pub fn unmet(&self, values: &BTreeMap<String, String>, has_api_key: bool) -> Vec<String> {
        let is_given = |name: &String| values.get(name).is_some_and(|value| !value.is_empty());
        let mut unmet: Vec<String> = self
            .values
            .iter()
            .filter(|(name, default)| default.is_empty() && !is_given(name))
            .map(|(name, _)| format!("values.{name}"))
            .collect();
        if self.needs_api_key && !has_api_key {
            unmet.push("api_key".to_owned());
        }
        unmet
    }

    /// What the types cannot say, as (key, message).
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = self.request.faults();
        let mut slots = Vec::new();
        self.request.each_template(&mut |template| template.slots(&mut slots));
        for slot in &slots {
            if let Slot::Value(name) = slot
                && !self.values.contains_key(name)
            {
                faults.push(("values", format!("`{name}` is used and not declared")));
            }
        }
        let shape = &self.answer;
        if shape.list.is_empty() {
            faults.push(("list", "needs at least one pointer".to_owned()));
        }
        if shape.fields.url.is_empty() && shape.url_hook.is_none() {
            faults.push(("fields", "needs `url`, or `answer.url_hook`".to_owned()));
        }
        if !(self.quality > 0.0 && self.quality <= 1000.0) {
            faults.push(("quality", "must be above 0 and at most 1000".to_owned()));
        }
        let of_rules = self.judge.errors.iter().map(|rule| &rule.test);
        let tests = of_rules.chain(&self.judge.partial).chain(&shape.rows);
        for test in tests.filter(|test| test.conditions() != 1) {
            let message = format!("`{}` needs exactly one condition", test.at);
            faults.push(("at", message));
        }
        faults
    }
}

impl Request {
    fn each_template<'a>(&'a self, visit: &mut dyn FnMut(&'a Template)) {
        visit(&self.path);
        let tables = [&self.query, &self.form, &self.headers];
        tables.into_iter().flat_map(BTreeMap::values).chain(&self.json).for_each(visit);
    }

    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.method == Method::Get && (self.json.is_some() || !self.form.is_empty()) {
            faults.push(("method", "a GET has no `form` and no `json`".to_owned()));
        }
        if self.json.is_some() && !self.form.is_empty() {
            faults.push(("json", "a body is a `form` or `json`, not both".to_owned()));
        }
        let mut slots = Vec::new();
        self.path.slots(&mut slots);
        if slots.iter().any(|slot| !matches!(slot, Slot::Value(_))) {
            faults.push(("path", "takes only {value.NAME}".to_owned()));
        }
        slots.clear();
        self.headers.values().for_each(|template| template.slots(&mut slots));
        if slots.iter().any(|slot| !matches!(slot, Slot::Value(_) | Slot::ApiKey)) {
            faults.push(("headers", "take only {api_key} and {value.NAME}".to_owned()));
        }
        for name in self.spell.keys() {
            if let Err(message) = Slot::named(name) {
                faults.push(("spell", message));
            }
        }
        if let Some(sites) = &self.sites
            && ![Some(&sites.include), sites.exclude.as_ref()]
                .into_iter()
                .flatten()
                .all(|pattern| pattern.contains("{domain}"))
        {
            faults.push(("sites", "`include` and `exclude` must have {domain} in them".to_owned()));
        }
        faults
    }
}

impl Test {
    fn conditions(&self) -> usize {
        usize::from(self.present.is_some())
            + usize::from(self.filled.is_some())
            + usize::from(!self.equals.is_empty())
            + usize::from(!self.starts_with.is_empty())
            + usize::from(!self.contains.is_empty())
            + usize::from(self.above.is_some())
    }
}

/// A TOML error in our words: the line, the name at fault, the nearest known name.
fn explain(error: &toml::de::Error, text: &str) -> ManifestError {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| before.matches('\n').count() + 1);
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let message = match quoted.split_first() {
        Some((name, known)) if message.starts_with("unknown ") => {
            format!("{name}: unknown{}", hint(name, known.iter().copied()))
        }
        _ => message.trim_end().to_owned(),
    };
    ManifestError { line, message }
}

/// `; did you mean "x"?` for the known name nearest to `name`, or nothing if none is near.
pub(super) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(likeness, _)| *likeness > 0.6)
        .map(|(_, candidate)| format!("; did you mean \"{candidate}\"?"))
        .unwrap_or_default()
}

/// The first line that sets `key` or opens a table that ends in it.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let sets_key = |line: &str| {
        let line = line.trim_start_matches(['[', ' ']);
        let name = line.split(['=', ']']).next().unwrap_or_default().trim();
        name == key || name.rsplit('.').next() == Some(key)
    };
    text.lines().position(sets_key).map(|index| index + 1)
}

const fn yes() -> bool {
    true
}

const fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
name = "small"
[values]
index = ""
[request]
method = "GET"
path = "/{value.index}/s"
[request.query]
q = "{query}"
[answer]
list = ["/r"]
[answer.fields]
url = ["/u"]
"#;

    /// The error of `SMALL` with `from` replaced by `to`.
    fn check(from: &str, to: &str, expected: &str) {
        assert!(SMALL.contains(from), "the fault {from:?} was planted");
        let error = parse(&SMALL.replace(from, to)).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn every_built_in_manifest_parses_under_its_name() {
        for (name, text) in BUILT_IN {
            let manifest = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(manifest.name, name);
            assert_eq!(built_in(name), Some(manifest));
        }
        assert!(names().is_sorted());
        assert_eq!(built_in("nosuch"), None);
    }

    #[test]
    fn every_manifest_of_the_documentation_parses() {
        let text = include_str!("../../docs/engines.md");
        let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut count = 0;
        for block in blocks {
            count += 1;
            parse(block).unwrap_or_else(|error| panic!("{error} of\n{block}"));
        }
        assert_eq!(count, 14, "the format and 13 sketches");
    }

    #[test]
    fn an_error_names_its_line_and_the_nearest_key() {
        parse(SMALL).expect("the small manifest is right");
        check("method =", "methud =", "line 6: methud: unknown; did you mean \"method\"?");
        check("\"GET\"", "\"GOT\"", "line 6: GOT: unknown; did you mean \"GET\"?");
        check("{query}", "{qurey}", "line 9: unknown placeholder {qurey}; did you mean \"query\"?");
        check(
            "\"/r\"",
            "\"r\"",
            "line 11: `r` is no JSON pointer: it must be empty or start with /",
        );
        check("[values]\nindex = \"\"", "", "values: `index` is used and not declared");
        check("url = [\"/u\"]", "", "line 12: fields: needs `url`, or `answer.url_hook`");
        check("/s\"", "/{query}\"", "line 7: path: takes only {value.NAME}");
        check("[answer]", "[answer", "line 10: unclosed table, expected `]`");
    }

    #[test]
    fn a_rule_has_exactly_one_condition() {
        let rule = |test: &str| {
            let text = format!("{SMALL}[[judge.errors]]\nif = {{ {test} }}\nmeans = \"auth\"\n");
            parse(&text).map(|_| ()).map_err(|error| error.message)
        };
        assert_eq!(rule("at = \"/e\", present = true"), Ok(()));
        let error = Err("at: `/e` needs exactly one condition".to_owned());
        assert_eq!(rule("at = \"/e\""), error);
        assert_eq!(rule("at = \"/e\", present = true, above = 0.0"), error);
    }

    #[test]
    fn what_the_configuration_must_give_is_told() {
        let small = parse(SMALL).expect("the small manifest is right");
        assert_eq!(small.unmet(&BTreeMap::new(), false), ["values.index"]);
        let values = BTreeMap::from([("index".to_owned(), "web".to_owned())]);
        assert_eq!(small.unmet(&values, false), Vec::<String>::new());
        let brave = built_in("brave").expect("brave is built in");
        assert_eq!(brave.unmet(&BTreeMap::new(), false), ["api_key"]);
    }
}
