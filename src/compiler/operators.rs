//! The search operators of a query: `site:`, `-site:`, `intitle:`, `filetype:` and their like.
//!
//! Operators are conjunctions, so their order and place mean nothing, unless the query is a boolean
//! expression (`OR`, `|`, brackets) or has one that takes the rest of the text (`allintitle:`);
//! such queries keep their order. Only `site:` and `-site:` are understood here: engines get them
//! all, and may ignore them, which is why the hosts are enforced again on results.

use crate::address;

/// Names that are operators before a colon, sorted.
const NAMES: [&str; 17] = [
    "after", "before", "cache", "contains", "ext", "feed", "filetype", "inanchor", "inbody",
    "intext", "intitle", "inurl", "language", "link", "loc", "related", "site",
];

/// Names whose operand is all of the text that follows.
const GREEDY: [&str; 4] = ["allinanchor", "allintext", "allintitle", "allinurl"];

/// What a word is to the normaliser, judged in lower case.
#[derive(Debug, PartialEq)]
pub(super) enum Word {
    /// Text, phrases, excluded words: their order counts.
    Plain,
    /// An operator that can stand anywhere.
    Operator,
    /// `site:HOST`; the operator's own spelling with the host in ASCII.
    Site(String),
    /// `-site:HOST`
    ExcludedSite(String),
    /// Makes the whole query keep its order.
    Grouping,
}

/// Judges one word of a query, in lower case.
pub(super) fn judge(word: &str) -> Word {
    let (is_negated, positive) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    if word == "|" || positive.starts_with('(') || word.ends_with(')') && !word.contains('(') {
        return Word::Grouping;
    }
    let Some((name, value)) = positive.split_once(':') else {
        return Word::Plain;
    };
    if GREEDY.contains(&name) {
        return Word::Grouping;
    }
    if value.is_empty() || NAMES.binary_search(&name).is_err() {
        return Word::Plain;
    }
    if name != "site" {
        return Word::Operator;
    }
    match (site_host(value), is_negated) {
        (Some(host), false) => Word::Site(host),
        (Some(host), true) => Word::ExcludedSite(host),
        (None, _) => Word::Operator,
    }
}

/// The host that `site:` names: a wildcard label or a leading dot in front of it means the same.
/// A value with a path restricts by more than its host and counts as no host for exclusion; the
/// caller keeps the operator's text in any case.
fn site_host(value: &str) -> Option<String> {
    let value = value.strip_prefix("*.").or_else(|| value.strip_prefix('.')).unwrap_or(value);
    address::host_name(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged() {
        let site = |host: &str| Word::Site(host.into());
        let excluded = |host: &str| Word::ExcludedSite(host.into());
        for (word, expected) in [
            ("site:a.org", site("a.org")),
            ("-site:a.org", excluded("a.org")),
            ("site:*.a.org", site("a.org")),
            ("site:.edu", site("edu")),
            ("site:störung.de", site("xn--strung-xxa.de")),
            ("site:a.org/docs", Word::Operator),
            ("site:", Word::Plain),
            ("site:[", Word::Operator),
            ("intitle:\"foo bar\"", Word::Operator),
            ("-filetype:pdf", Word::Operator),
            ("allintitle:foo", Word::Grouping),
            ("http://a.org", Word::Plain),
            ("std::vector", Word::Plain),
            ("12:30", Word::Plain),
            ("-5", Word::Plain),
            ("|", Word::Grouping),
            ("(a", Word::Grouping),
            ("b)", Word::Grouping),
            ("f(x)", Word::Plain),
        ] {
            assert_eq!(judge(word), expected, "{word}");
        }
    }

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(NAMES.is_sorted());
    }
}
