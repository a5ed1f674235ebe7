//! What the requests of a run ask: lines of a file, never the same twice, or a given share of
//! repeats (what a cache lives on).
//!
//! A query is computed from its identity and the seed, so repeats need no memory of what was asked.
//! Generated queries are letters only: digits would look like versions or prices to a classifier.

use std::path::Path;

use crate::chance::{Chance, mix};

/// Lines of a file beyond this count are refused.
const LINES_MAX: usize = 1_000_000;
const STREAM: u64 = 2;
const WORDS: [&str; 16] = [
    "river",
    "engine",
    "garden",
    "compiler",
    "harbour",
    "violin",
    "glacier",
    "kernel",
    "orchard",
    "lantern",
    "protocol",
    "meadow",
    "turbine",
    "archive",
    "pottery",
    "satellite",
];

/// Where queries come from.
pub(crate) enum Queries {
    /// The path has none.
    None,
    /// Request n asks line n, over and over.
    Listed(Vec<String>),
    /// Request n asks what no other request of any run with another seed asks.
    Unique {
        /// The run's seed.
        seed: u64,
    },
    /// Some requests ask again what this run asked before, each earlier query as likely as another.
    Repeating(Repeating),
}

/// State of a run with repeats.
pub(crate) struct Repeating {
    seed: u64,
    ratio: f64,
    asked: u64,
    chance: Chance,
}

impl Queries {
    /// The lines of `path` that are not empty.
    ///
    /// # Errors
    /// The file cannot be read, has no lines, or more than `LINES_MAX`.
    pub(crate) fn listed(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let lines: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        if lines.is_empty() || lines.len() > LINES_MAX {
            return Err(format!("{} has {} queries", path.display(), lines.len()));
        }
        Ok(Self::Listed(lines))
    }

    /// Repeats an earlier query with probability `ratio` (0..1).
    pub(crate) fn repeating(seed: u64, ratio: f64) -> Self {
        Self::Repeating(Repeating { seed, ratio, asked: 0, chance: Chance::seeded(seed, STREAM) })
    }

    /// Whether there are none.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Appends the percent-encoded query of request `number` to `bytes`.
    pub(crate) fn push_encoded(&mut self, number: u64, bytes: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Listed(lines) => {
                let index = number.checked_rem(lines.len() as u64).unwrap_or(0);
                if let Some(line) = lines.get(index as usize) {
                    push_encoded(line, bytes);
                }
            }
            Self::Unique { seed } => push_encoded(&invented(*seed, number), bytes),
            Self::Repeating(run) => {
                let is_repeat = run.asked > 0 && run.chance.unit() < run.ratio;
                let identity = if is_repeat { run.chance.below(run.asked) } else { run.asked };
                run.asked += u64::from(!is_repeat);
                push_encoded(&invented(run.seed, identity), bytes);
            }
        }
    }
}

/// Three words and a word of 13 letters that is the query's identity (26^13 > 2^61).
fn invented(seed: u64, identity: u64) -> String {
    let hash = mix(seed, identity);
    let mut query = String::with_capacity(48);
    for shift in [0, 4, 8] {
        query.push_str(WORDS[(hash >> shift) as usize % WORDS.len()]);
        query.push(' ');
    }
    let mut rest = hash;
    for _ in 0..13 {
        query.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    query
}

/// Percent-encodes everything but RFC 3986 §2.3's unreserved characters.
fn push_encoded(text: &str, bytes: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => bytes.push(byte),
            _ => bytes.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn asked(mut queries: Queries, count: u64) -> Vec<Vec<u8>> {
        let one = |number| {
            let mut bytes = Vec::new();
            queries.push_encoded(number, &mut bytes);
            bytes
        };
        (0..count).map(one).collect()
    }

    fn distinct(queries: Vec<Vec<u8>>) -> usize {
        queries.into_iter().map(|query| (query, ())).collect::<BTreeMap<_, _>>().len()
    }

    #[test]
    fn unique_queries_never_repeat_nor_meet_another_seed() {
        let mut both = asked(Queries::Unique { seed: 1 }, 20_000);
        both.extend(asked(Queries::Unique { seed: 2 }, 20_000));
        assert_eq!(distinct(both), 40_000);
    }

    #[test]
    fn repeats_take_their_share() {
        let new = distinct(asked(Queries::repeating(3, 0.31), 20_000));
        assert!((13_500..14_100).contains(&new), "{new}");
        assert_eq!(asked(Queries::repeating(3, 0.31), 50), asked(Queries::repeating(3, 0.31), 50));
    }
}
