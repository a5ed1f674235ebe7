//! The table of keys: `keys.txt` read into entries. It alone decides which keys exist, what they
//! may hold and what they are when absent; the reader, the nearest-key search and `docs/config.md`
//! all come from it.

use std::fmt::Write as _;

use super::kind::{Kind, Value};

/// The table's text.
const KEYS: &str = include_str!("keys.txt");

/// What a key is when the file does not give it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Default {
    /// An error.
    Required,
    /// Nothing.
    None,
    /// Worked out by the builder; the words say from what.
    Computed(&'static str),
    /// This, and its text as shown in the docs.
    Is(Value, &'static str),
}

/// The longest unknown key that is held against the known ones: the search takes the product of
/// both lengths, and nobody mistypes a key into a longer one.
const NEAR_BYTES_MAX: usize = 64;

/// One key.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entry {
    /// Dotted, with `[]` and `*`, as `engine[].values.*`.
    pub(super) name: &'static str,
    /// What it may hold.
    pub(super) kind: Kind,
    /// What it is when absent.
    pub(super) default: Default,
    /// What it does, a sentence.
    pub(super) text: &'static str,
}

/// What a dotted name stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Place<'s> {
    /// A value.
    Leaf(&'s Entry),
    /// A table with fixed keys.
    Table,
    /// A table whose keys are names of the user's.
    Named,
    /// An array of tables.
    Array,
    /// Nothing.
    Unknown,
}

/// All keys, in the table's order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Schema {
    entries: Vec<Entry>,
}

impl Schema {
    /// Reads the table. A mistake in it is a mistake in the program, found by any test.
    pub(super) fn read() -> Self {
        let lines = KEYS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self { entries: lines.map(entry).collect() }
    }

    /// The key of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The names of all keys.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.entries.iter().map(|entry| entry.name)
    }

    /// What `name` (with `[]` and `*` in the place of indexes and names) stands for.
    pub(super) fn place(&self, name: &str) -> Place<'_> {
        if let Some(entry) = self.get(name) {
            return Place::Leaf(entry);
        }
        let starts = |end: &str| {
            let prefix = format!("{name}{end}");
            self.entries.iter().any(|entry| entry.name.starts_with(&prefix))
        };
        if starts("[].") {
            Place::Array
        } else if starts(".*") {
            Place::Named
        } else if starts(".") || name.is_empty() {
            Place::Table
        } else {
            Place::Unknown
        }
    }

    /// The keys that may stand directly in the table `name`, each once.
    pub(super) fn children(&self, name: &str) -> Vec<&'static str> {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        let mut found: Vec<&'static str> = Vec::new();
        for rest in self.entries.iter().filter_map(|entry| entry.name.strip_prefix(&prefix)) {
            let first = rest.split('.').next().unwrap_or(rest).trim_end_matches("[]");
            if !found.contains(&first) {
                found.push(first);
            }
        }
        found
    }

    /// What the writer of an unknown `key` in the table `name` may have meant: a key of that
    /// table, else a key of another one under the same last word.
    pub(super) fn nearest(&self, name: &str, key: &str) -> Option<String> {
        if key.len() > NEAR_BYTES_MAX {
            return None;
        }
        let distance = |other: &str| strsim::damerau_levenshtein(key, other);
        let allowed = (key.chars().count() / 3).max(1);
        let sibling = self.children(name).into_iter().min_by_key(|other| distance(other));
        if let Some(sibling) = sibling.filter(|other| distance(other) <= allowed) {
            return Some(sibling.to_owned());
        }
        let last = |entry: &&Entry| entry.name.rsplit('.').next().map_or(usize::MAX, distance);
        self.entries.iter().min_by_key(last).filter(|e| last(e) <= 1).map(|e| e.name.to_owned())
    }

    /// `docs/config.md`, whole.
    pub(super) fn document(&self) -> String {
        let mut out = String::from(HEAD);
        let mut section = "";
        for entry in &self.entries {
            let own = entry.name.split(['.', '[']).next().unwrap_or(entry.name);
            if own != section {
                section = own;
                let _ = write!(out, "\n## {section}\n\n| key | value | default | what it does |\n");
                out.push_str("|---|---|---|---|\n");
            }
            let default = match &entry.default {
                Default::Required => "required".to_owned(),
                Default::None => "none".to_owned(),
                Default::Computed(words) => (*words).to_owned(),
                Default::Is(_, text) => format!("`{text}`"),
            };
            let _ =
                writeln!(out, "| `{}` | {} | {default} | {} |", entry.name, entry.kind, entry.text);
        }
        out
    }
}

/// The top of `docs/config.md`.
const HEAD: &str = "# Configuration

Hedgerow reads one TOML file, named by `--config`. `hedgerow check --config FILE` reports every
problem of a file at once, with its line, and exits with 2. Every key below has its default and its
bounds; a key that is not below is an error that names the nearest one. `[]` stands for an element
of an array of tables (`[[engine]]`), `*` for a name of your choice (`[plans.pro]`). Keys in `_ms`
are whole milliseconds, in `_s` seconds (fractions allowed), in `_bytes` bytes, in `_ratio` shares
of 1. Relative paths count from the file's own folder.

This page is the table `src/config/keys.txt`, written by `hedgerow check --print-keys`; a test
compares them.
";

/// One line of the table.
fn entry(line: &'static str) -> Entry {
    let mut columns = line.splitn(4, '|').map(str::trim);
    let mut next = || columns.next().unwrap_or_else(|| panic!("keys.txt: four columns: {line}"));
    let (name, kind, default, text) = (next(), next(), next(), next());
    let kind = Kind::parse(kind).unwrap_or_else(|| panic!("keys.txt: unknown kind: {line}"));
    let default = match default {
        "required" => Default::Required,
        "none" => Default::None,
        words if words.starts_with('(') => {
            Default::Computed(words.trim_matches(|c| c == '(' || c == ')'))
        }
        literal => match kind.read_literal(literal) {
            Ok(value) => Default::Is(value, literal),
            Err(what) => panic!("keys.txt: {what}: {line}"),
        },
    };
    Entry { name, kind, default, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_there_once_and_no_key_is_a_table_too() {
        let schema = Schema::read();
        assert!(schema.entries.len() > 100, "{}", schema.entries.len());
        for (index, entry) in schema.entries.iter().enumerate() {
            assert_eq!(schema.entries.iter().position(|e| e.name == entry.name), Some(index));
            assert!(entry.text.ends_with(['.', '…']), "{}: a sentence", entry.name);
            let below = format!("{}.", entry.name);
            assert!(!schema.entries.iter().any(|e| e.name.starts_with(&below)), "{below}");
        }
    }

    #[test]
    fn a_name_is_a_leaf_a_table_an_array_or_nothing() {
        let schema = Schema::read();
        assert!(matches!(schema.place("hedge.percentile"), Place::Leaf(_)));
        assert_eq!(schema.place("hedge"), Place::Table);
        assert_eq!(schema.place(""), Place::Table);
        assert_eq!(schema.place("plans"), Place::Named);
        assert_eq!(schema.place("engine[].values"), Place::Named);
        assert_eq!(schema.place("engine"), Place::Array);
        assert_eq!(schema.place("hedge.percentil"), Place::Unknown);
        assert_eq!(schema.place("hed"), Place::Unknown);
    }

    #[test]
    fn the_nearest_key_is_a_sibling_or_the_same_word_elsewhere() {
        let schema = Schema::read();
        let check = |table: &str, key: &str, expected: Option<&str>| {
            assert_eq!(schema.nearest(table, key).as_deref(), expected, "{table} {key}");
        };
        check("hedge", "percentil", Some("percentile"));
        check("engine[]", "ulr", Some("url"));
        check("", "engines", Some("engine"));
        check("", "percentile", Some("hedge.percentile"));
        check("hedge", "zzzzzzzz", None);
    }
}
