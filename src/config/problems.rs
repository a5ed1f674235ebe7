//! What is wrong with a configuration: every problem at once, each with its place and its remedy.
//! Lines count from 1. A problem never shows a secret's text, never sends a control character of
//! the file to a terminal, and never grows with the file.

use std::fmt;

use super::forms;

/// Problems that are shown; the others are counted.
const SHOWN_MAX: usize = 50;

/// Problems that are kept; those beyond are counted only, so that a file of 16 MiB of mistakes
/// costs neither memory nor a search for what each of them meant.
const KEPT_MAX: usize = 1_000;

/// Characters of a dotted key.
const KEY_CHARACTERS_MAX: usize = 160;

/// Characters of a problem's text: above the longest list of known keys.
const WHAT_CHARACTERS_MAX: usize = 600;

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
    beyond: usize,
}

impl Problems {
    /// None yet.
    pub(super) fn none(file_name: &str) -> Self {
        let file_name = forms::printable(file_name, usize::MAX);
        Self { file_name, list: Vec::new(), beyond: 0 }
    }

    /// One more. What it says is made printable and cut.
    pub(super) fn add(&mut self, line: Option<usize>, key: &str, what: impl AsRef<str>) {
        if self.is_full() {
            self.beyond += 1;
            return;
        }
        let key = forms::printable(key, KEY_CHARACTERS_MAX);
        let what = forms::printable(what.as_ref(), WHAT_CHARACTERS_MAX);
        self.list.push(Problem { line, key, what });
    }

    /// Whether another one would only be counted: it need not be worded.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= KEPT_MAX
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

    /// The first 1,000 that were found.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many were found.
    pub fn count(&self) -> usize {
        self.list.len() + self.beyond
    }
}

impl fmt::Display for Problems {
    /// One line each: `hedgerow.toml:12: hedge.percentil: unknown key; did you mean …`. After 50,
    /// how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().take(SHOWN_MAX).enumerate() {
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
        match self.count().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

impl std::error::Error for Problems {}
