//! What is wrong with a configuration: every problem at once, each with its place and its remedy.
//! Lines count from 1. A problem never shows a secret's text.

use std::fmt;

/// One wrong thing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// The line it stands in; none where something is missing altogether.
    pub line: Option<usize>,
    /// The dotted key, as `hedge.percentile` or `engine[1].url`; empty for the file as a whole.
    pub key: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// All that is wrong, in the order of the file. Never empty when given as an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    file_name: String,
    list: Vec<Problem>,
}

impl Problems {
    /// None yet.
    pub(super) fn none(file_name: &str) -> Self {
        Self { file_name: file_name.to_owned(), list: Vec::new() }
    }

    /// One more.
    pub(super) fn add(&mut self, line: Option<usize>, key: &str, what: impl Into<String>) {
        self.list.push(Problem { line, key: key.to_owned(), what: what.into() });
    }

    /// Whether nothing is wrong.
    pub(super) fn is_none(&self) -> bool {
        self.list.is_empty()
    }

    /// In the order of the file; what has no line comes last.
    pub(super) fn sorted(mut self) -> Self {
        self.list.sort_by_key(|problem| (problem.line.unwrap_or(usize::MAX), problem.key.clone()));
        self.list.dedup();
        self
    }

    /// Each of them.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl fmt::Display for Problems {
    /// One line each: `hedgerow.toml:12: hedge.percentil: unknown key; did you mean …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file_name)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            if !problem.key.is_empty() {
                write!(f, ": {}", problem.key)?;
            }
            write!(f, ": {}", problem.what)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
