//! Typed access to the values found, with the table's defaults behind them. A scope is one table of
//! the file (`engine[1]`) together with its name in the schema (`engine[]`).
//!
//! A getter never fails: what is missing or wrong is told once, and the getter gives a stand-in so
//! that the rest is checked too. Settings built from stand-ins are thrown away by `config::parse`.

use std::net::SocketAddr;
use std::time::Duration;

use url::Url;

use super::cores::Cores;
use super::kind::Value;
use super::problems::Problems;
use super::schema::{Default, Schema};
use super::walk::Found;

/// The values, and where problems go.
pub(super) struct Reader<'a> {
    pub(super) schema: &'a Schema,
    pub(super) found: &'a Found,
    pub(super) problems: Problems,
    /// The keys asked for, by their names in the schema: a test holds them against the table.
    #[cfg(test)]
    pub(super) asked: std::collections::BTreeSet<String>,
}

/// A table of the file.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scope {
    /// In the file, as `engine[1]`.
    pub(super) path: String,
    /// In the schema, as `engine[]`.
    name: String,
    /// Where it begins.
    pub(super) line: Option<usize>,
    /// The last part of `path`: a plan's name.
    pub(super) word: String,
}

impl Scope {
    /// The table `name` at the top, whether or not the file has it.
    pub(super) fn top(name: &str) -> Self {
        Self { path: name.to_owned(), name: name.to_owned(), line: None, word: name.to_owned() }
    }

    /// The table `name` within this one.
    pub(super) fn within(&self, name: &str) -> Self {
        Self {
            path: format!("{}.{name}", self.path),
            name: format!("{}.{name}", self.name),
            line: self.line,
            word: name.to_owned(),
        }
    }
}

impl<'a> Reader<'a> {
    /// Over what `walk` found, with the problems that it told.
    pub(super) fn new(schema: &'a Schema, found: &'a Found, problems: Problems) -> Self {
        Self {
            schema,
            found,
            problems,
            #[cfg(test)]
            asked: std::collections::BTreeSet::new(),
        }
    }

    /// The elements of the array of tables `name`, in order.
    pub(super) fn elements(&self, name: &str) -> Vec<Scope> {
        let element = |index: usize| {
            let path = format!("{name}[{index}]");
            self.found.tables.get(&path).map(|line| Scope {
                word: path.clone(),
                path,
                name: format!("{name}[]"),
                line: Some(*line),
            })
        };
        (0..).map_while(element).collect()
    }

    /// The tables in the table `name` whose names are the user's, by name.
    pub(super) fn named(&self, name: &str) -> Vec<Scope> {
        let prefix = format!("{name}.");
        let tables = self.found.tables.range(prefix.clone()..);
        tables
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| self.is_named(path, &prefix))
            .map(|(path, line)| Scope {
                path: path.clone(),
                name: format!("{name}.*"),
                line: Some(*line),
                word: path.strip_prefix(&prefix).unwrap_or(path).to_owned(),
            })
            .collect()
    }

    /// Whether `path` is a named table itself and not a table within one: its name may hold dots,
    /// so a table whose path is another's plus a word that the schema knows is within it.
    fn is_named(&self, path: &str, prefix: &str) -> bool {
        let Some((outer, last)) = path.rsplit_once('.') else {
            return true;
        };
        let name = format!("{}*", prefix);
        let is_within = self.schema.children(&name).contains(&last);
        !(is_within && self.found.tables.contains_key(outer))
    }

    /// Whether the file has the table.
    pub(super) fn has_table(&self, scope: &Scope) -> bool {
        self.found.tables.contains_key(&scope.path)
    }

    /// Whether the file has the key, right or wrong.
    pub(super) fn has(&self, scope: &Scope, key: &str) -> bool {
        let path = format!("{}.{key}", scope.path);
        self.found.values.contains_key(&path) || self.found.told.contains(&path)
    }

    /// Texts under names of the user's in the table `scope`.
    pub(super) fn texts_by_name(&self, scope: &Scope) -> Vec<(String, String)> {
        let prefix = format!("{}.", scope.path);
        let values = self.found.values.range(prefix.clone()..);
        values
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, (value, _))| match value {
                Value::Text(text) => {
                    path.strip_prefix(&prefix).map(|name| (name.to_owned(), text.clone()))
                }
                _ => None,
            })
            .collect()
    }

    /// Tells what is wrong with a key that reads well by itself.
    pub(super) fn wrong(&mut self, scope: &Scope, key: &str, what: impl AsRef<str>) {
        let path = format!("{}.{key}", scope.path);
        let line = self.found.values.get(&path).map(|(_, line)| *line).or(scope.line);
        self.problems.add(line, &path, what);
    }

    fn get(&mut self, scope: &Scope, key: &str) -> Option<Value> {
        let path = format!("{}.{key}", scope.path);
        let name = format!("{}.{key}", scope.name);
        #[cfg(test)]
        self.asked.insert(name.clone());
        if let Some((value, _)) = self.found.values.get(&path) {
            return Some(value.clone());
        }
        let entry = self.schema.get(&name);
        debug_assert!(entry.is_some(), "{name} is not in keys.txt");
        match &entry?.default {
            Default::Is(value, _) => Some(value.clone()),
            Default::None | Default::Computed(_) => None,
            Default::Required => {
                if !self.found.told.contains(&path) {
                    let what = format!("missing; want {}", entry?.kind);
                    self.problems.add(scope.line, &path, what);
                }
                None
            }
        }
    }

    pub(super) fn text(&mut self, scope: &Scope, key: &str) -> String {
        self.text_if(scope, key).unwrap_or_default()
    }

    /// None where absent or empty.
    pub(super) fn text_if(&mut self, scope: &Scope, key: &str) -> Option<String> {
        match self.get(scope, key) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub(super) fn texts(&mut self, scope: &Scope, key: &str) -> Vec<String> {
        match self.get(scope, key) {
            Some(Value::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    pub(super) fn flag(&mut self, scope: &Scope, key: &str) -> bool {
        matches!(self.get(scope, key), Some(Value::Flag(true)))
    }

    pub(super) fn integer(&mut self, scope: &Scope, key: &str) -> u64 {
        self.integer_if(scope, key).unwrap_or(1)
    }

    pub(super) fn integer_if(&mut self, scope: &Scope, key: &str) -> Option<u64> {
        match self.get(scope, key) {
            Some(Value::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// A count: the bounds in the table keep it within 32 bits.
    pub(super) fn count(&mut self, scope: &Scope, key: &str) -> u32 {
        u32::try_from(self.integer(scope, key)).unwrap_or(u32::MAX)
    }

    /// A size in memory.
    pub(super) fn size(&mut self, scope: &Scope, key: &str) -> usize {
        usize::try_from(self.integer(scope, key)).unwrap_or(usize::MAX)
    }

    pub(super) fn number(&mut self, scope: &Scope, key: &str) -> f64 {
        self.number_if(scope, key).unwrap_or(1.0)
    }

    pub(super) fn number_if(&mut self, scope: &Scope, key: &str) -> Option<f64> {
        match self.get(scope, key) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub(super) fn span(&mut self, scope: &Scope, key: &str) -> Duration {
        match self.get(scope, key) {
            Some(Value::Span(span)) => span,
            _ => Duration::from_secs(1),
        }
    }

    pub(super) fn cores(&mut self, scope: &Scope, key: &str) -> Cores {
        match self.get(scope, key) {
            Some(Value::Cores(cores)) => cores,
            _ => Cores::All,
        }
    }

    pub(super) fn address(&mut self, scope: &Scope, key: &str) -> SocketAddr {
        match self.get(scope, key) {
            Some(Value::Address(address)) => address,
            _ => SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }

    pub(super) fn url(&mut self, scope: &Scope, key: &str) -> Option<Url> {
        match self.get(scope, key) {
            Some(Value::Url(url)) => Some(url),
            _ => None,
        }
    }

    pub(super) fn digest(&mut self, scope: &Scope, key: &str) -> Option<[u8; 32]> {
        match self.get(scope, key) {
            Some(Value::Digest(digest)) => Some(digest),
            _ => None,
        }
    }
}
