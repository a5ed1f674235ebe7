//! The file's text against the table of keys: every leaf becomes a typed value with its line, every
//! other thing a problem. Knows nothing of what keys mean to each other; that is `build`'s part.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::forms;
use super::kind::Value;
use super::problems::Problems;
use super::schema::{Place, Schema};

/// The file, flattened. Paths are dotted with indexes, as `engine[0].url`.
pub(super) struct Found {
    /// Each value, and its line.
    pub(super) values: BTreeMap<String, (Value, usize)>,
    /// Each table, array element and named table, and its line.
    pub(super) tables: BTreeMap<String, usize>,
    /// Keys whose problem is already told.
    pub(super) told: BTreeSet<String>,
}

/// Reads `text`. What is wrong goes to `problems`; what is right is found in spite of it, except
/// that a text which is not TOML gives nothing but its own problems.
pub(super) fn walk(text: &str, schema: &Schema, problems: &mut Problems) -> Found {
    let mut walk = Walk {
        lines: Lines::of(text),
        schema,
        problems,
        found: Found { values: BTreeMap::new(), tables: BTreeMap::new(), told: BTreeSet::new() },
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map(|span| walk.lines.at(span.start));
        let source = line.and_then(|line| walk.lines.text(text, line)).unwrap_or("");
        // A store's address may hold a password.
        let shown = if source.contains('@') { "…".to_owned() } else { forms::excerpt(source) };
        let what = format!("not TOML: {}, in `{shown}`", error.message().replace('\n', "; "));
        walk.problems.add(line, "", what);
    }
    if errors.is_empty() {
        walk.table(root.get_ref(), "", "");
    }
    walk.found
}

struct Walk<'a> {
    lines: Lines,
    schema: &'a Schema,
    problems: &'a mut Problems,
    found: Found,
}

impl Walk<'_> {
    /// `name` is the table's name in the schema, `path` in the file.
    fn table(&mut self, table: &DeTable<'_>, name: &str, path: &str) {
        for (key, value) in table {
            let line = self.lines.at(key.span().start);
            let key = key.get_ref().as_ref();
            let (name, path) = (joined(name, key), joined(path, key));
            match self.schema.place(&name) {
                Place::Unknown => self.unknown(key, &name, &path, line),
                _ => self.value(value, &name, &path, line),
            }
        }
    }

    fn unknown(&mut self, key: &str, name: &str, path: &str, line: usize) {
        if self.problems.is_full() {
            return self.problems.add(Some(line), path, "");
        }
        let table = name.strip_suffix(key).unwrap_or(name).trim_end_matches('.');
        let what = match self.schema.nearest(table, key) {
            Some(nearest) => format!("unknown key; did you mean \"{nearest}\"?"),
            None => format!("unknown key; known here: {}", self.schema.children(table).join(", ")),
        };
        self.problems.add(Some(line), path, what);
    }

    /// A value at a name that the schema knows. `line` is that of its key.
    fn value(&mut self, value: &Spanned<DeValue<'_>>, name: &str, path: &str, line: usize) {
        let at = self.lines.at(value.span().start);
        match (self.schema.place(name), value.get_ref()) {
            (Place::Leaf(entry), value) => match entry.kind.read(value) {
                Ok(value) => {
                    self.found.values.insert(path.to_owned(), (value, at));
                }
                Err(what) => self.tell(line, path, what),
            },
            (Place::Table, DeValue::Table(table)) => {
                self.found.tables.insert(path.to_owned(), line);
                self.table(table, name, path);
            }
            (Place::Named, DeValue::Table(table)) => self.named(table, name, path),
            (Place::Array, DeValue::Array(list)) => {
                for (index, element) in list.iter().enumerate() {
                    self.element(element, name, &format!("{path}[{index}]"));
                }
            }
            (Place::Array, _) => self.tell(line, path, format!("want [[{path}]], not [{path}]")),
            (_, DeValue::Array(_)) => self.tell(line, path, format!("want [{path}], not a list")),
            _ => self.tell(line, path, format!("want a table, as [{path}]")),
        }
    }

    fn named(&mut self, table: &DeTable<'_>, name: &str, path: &str) {
        for (key, value) in table {
            let line = self.lines.at(key.span().start);
            let path = joined(path, key.get_ref());
            if !forms::is_name(key.get_ref()) {
                self.tell(line, &path, "want a name of letters, digits, `.`, `_` or `-`");
                continue;
            }
            self.value(value, &joined(name, "*"), &path, line);
        }
    }

    fn element(&mut self, element: &Spanned<DeValue<'_>>, name: &str, path: &str) {
        let line = self.lines.at(element.span().start);
        match element.get_ref() {
            DeValue::Table(table) => {
                self.found.tables.insert(path.to_owned(), line);
                self.table(table, &format!("{name}[]"), path);
            }
            other => self.tell(line, path, format!("want a table, not {}", other.type_str())),
        }
    }

    fn tell(&mut self, line: usize, path: &str, what: impl AsRef<str>) {
        self.problems.add(Some(line), path, what);
        self.found.told.insert(path.to_owned());
    }
}

fn joined(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// Where each line of a text starts, in bytes.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect())
    }

    /// The line, from 1, of the byte at `offset`.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    /// The line of that number, from 1, without the spaces around it.
    fn text<'t>(&self, text: &'t str, line: usize) -> Option<&'t str> {
        let start = *self.0.get(line.checked_sub(1)?)?;
        let end = self.0.get(line).copied().unwrap_or(text.len());
        text.get(start..end).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text`; the problems, one per line, must be `expected`.
    fn check(text: &str, expected: &[&str]) {
        let mut problems = Problems::none("f");
        walk(text, &Schema::read(), &mut problems);
        let told = problems.sorted().to_string();
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn every_problem_is_told_with_its_line_and_its_remedy() {
        check(
            "[hedge]\npercentil = 90\npercentile = 900\nenabled = 1\n",
            &[
                "f:2: hedge.percentil: unknown key; did you mean \"percentile\"?",
                "f:3: hedge.percentile: 900 is out of bounds; want a number from 1 to 99.9",
                "f:4: hedge.enabled: 1 is of the wrong type (integer); want true or false",
            ],
        );
        check("hedge = 3", &["f:1: hedge: want a table, as [hedge]"]);
        check("[[hedge]]\n", &["f:1: hedge: want [hedge], not a list"]);
        check("[engine]\nname = \"a\"", &["f:1: engine: want [[engine]], not [engine]"]);
        check("engine = [1]", &["f:1: engine[0]: want a table, not integer"]);
        check("\n[[engine]]\nulr = 1", &["f:3: engine[0].ulr: unknown key; did you mean \"url\"?"]);
        check(
            "[plans.\"a b\"]\n",
            &["f:1: plans.a b: want a name of letters, digits, `.`, `_` or `-`"],
        );
        check(
            "[plans.a]\nlane = \"x\"",
            &["f:2: plans.a.lane: \"x\" is not known here; want one of \"interactive\", \"batch\""],
        );
    }

    #[test]
    fn a_text_that_is_not_toml_shows_the_line() {
        let mut problems = Problems::none("f");
        walk("[a]\n[hedge\n", &Schema::read(), &mut problems);
        let told = problems.sorted().to_string();
        assert!(told.starts_with("f:2: not TOML: ") && told.contains("`[hedge`"), "{told}");
        let mut problems = Problems::none("f");
        walk("[hedge]\nmode = \"budget\"\nmode = \"budget\"\n", &Schema::read(), &mut problems);
        assert!(problems.sorted().to_string().contains("duplicate key"));
    }
}
