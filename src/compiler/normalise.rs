//! Brings a query into the one form that stands for all its spellings. The result is sent to
//! engines and hashed into the key, so that callers who share an answer asked the engine the same.
//!
//! NFKC, lower case, single spaces; tracking parameters cut from URLs; operators moved to the end
//! and sorted. What changes an answer stays: the case of paths in URLs (`youtu.be/AbC`), boolean
//! `OR`, `AND`, `NOT` in capitals, the order of words and phrases. Normalising twice changes
//! nothing.

use unicode_normalization::UnicodeNormalization;

use super::operators::{self, Word};
use crate::address;

/// A query's normal form and what its operators mean.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Normal {
    pub(super) text: String,
    /// Hosts of `site:`; any of them may match.
    pub(super) sites: Vec<String>,
    /// Hosts of `-site:`.
    pub(super) excluded_sites: Vec<String>,
    /// Whether something stands in quotation marks.
    pub(super) has_phrase: bool,
}

/// Normalises a query that is already visible and trimmed.
pub(super) fn normalise(query: &str) -> Normal {
    let folded = if query.is_ascii() { query.to_owned() } else { query.nfkc().collect() };
    let words = words(&folded);
    let is_shouted = is_shouted(&words);
    let mut normal = Normal::default();
    let mut operators = Vec::new();
    let mut plain = Vec::new();
    let mut in_order = Vec::new();
    let mut keeps_order = false;
    for word in words {
        let is_boolean = !is_shouted && is_boolean(&word);
        let word = if is_boolean { word } else { lower(&word) };
        normal.has_phrase |= is_phrase(&word);
        let (text, is_operator) = match operators::judge(&word) {
            Word::Plain => (word, false),
            Word::Operator => (word, true),
            Word::Grouping => {
                keeps_order = true;
                (word, false)
            }
            Word::Site(host) => {
                let text = format!("site:{host}");
                normal.sites.push(host);
                (text, true)
            }
            Word::ExcludedSite(host) => {
                let text = format!("-site:{host}");
                normal.excluded_sites.push(host);
                (text, true)
            }
        };
        keeps_order |= is_boolean;
        in_order.push(text.clone());
        if is_operator { operators.push(text) } else { plain.push(text) }
    }
    operators.sort();
    operators.dedup();
    plain.append(&mut operators);
    normal.text = if keeps_order { in_order } else { plain }.join(" ");
    normal
}

/// Splits at white space, but not inside quotation marks; white space inside becomes one space. A
/// mark that is never closed is a character like others.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        // Looked for behind a mark only: for every character it would be quadratic.
        let phrase = if c == '"' { rest.split_once('"') } else { None };
        if let Some((phrase, tail)) = phrase {
            let inner: Vec<&str> = phrase.split_whitespace().collect();
            word.push('"');
            word.push_str(&inner.join(" "));
            word.push('"');
            rest = tail;
        } else if !c.is_whitespace() {
            word.push(c);
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether the query is in capitals throughout, or has nothing to join, so that `OR` in it need not
/// be the operator.
fn is_shouted(words: &[String]) -> bool {
    let mut others = words.iter().filter(|word| !is_boolean(word)).peekable();
    let has_others = others.peek().is_some();
    let mut has_upper = false;
    for word in others.filter(|word| !is_url(word)) {
        if word.chars().any(char::is_lowercase) {
            return false;
        }
        has_upper |= word.chars().any(char::is_uppercase);
    }
    has_upper || !has_others
}

fn is_boolean(word: &str) -> bool {
    matches!(word, "OR" | "AND" | "NOT")
}

fn is_phrase(word: &str) -> bool {
    word.split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'))
        .is_some_and(|(phrase, _)| !phrase.is_empty())
}

fn is_url(word: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Lower case; of a URL only scheme and host, and without what only tracks.
fn lower(word: &str) -> String {
    if is_url(word) {
        let from = word.find("://").map_or(0, |at| at + 3);
        let end = word.get(from..).and_then(|rest| rest.find(['/', '?', '#']));
        let end = end.map_or(word.len(), |length| from + length);
        let (front, rest) = word.split_at_checked(end).unwrap_or((word, ""));
        let url = front.to_lowercase() + rest;
        return address::without_trackers(&url).into_owned();
    }
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    // Lower case can leave NFKC (U+0130 becomes two characters), so the form is restored.
    word.to_lowercase().nfkc().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(query: &str, expected: &str) {
        assert_eq!(normalise(query).text, expected, "{query}");
    }

    #[test]
    fn spellings_of_one_question_share_a_form() {
        let form = "rust http hedging site:a.org site:b.org";
        for query in [
            "Rust  HTTP  site:b.org hedging site:a.org",
            "rust http hedging site:a.org site:b.org",
            "  RUST\thttp site:a.org site:b.org hedging ",
            "ｒｕｓｔ http hedging site:b.org site:a.org",
            "rust http hedging SITE:B.org Site:a.ORG site:b.org.",
        ] {
            check(query, form);
        }
        check("cafe\u{301} cre\u{300}me", "café crème");
        check("ΟΔΟΣ ＡＢＣ ½", "οδος abc 1⁄2");
    }

    #[test]
    fn urls_keep_the_case_of_their_paths_and_lose_their_trackers() {
        check(
            "read HTTPS://X.Example/A?utm_source=n&id=5 Please",
            "read https://x.example/A?id=5 please",
        );
        check("https://youtu.be/AbC?si=1", "https://youtu.be/AbC");
        check("https://EXAMPLE.com", "https://example.com");
    }

    #[test]
    fn boolean_queries_keep_their_order() {
        check("Rust OR go site:b.org x", "rust OR go site:b.org x");
        check("RUST OR GO", "rust or go");
        check("OR", "or");
        check("日本 OR 中国", "日本 OR 中国");
        check("cats or dogs site:b.org x", "cats or dogs x site:b.org");
        check("(a | b) filetype:pdf c", "(a | b) filetype:pdf c");
        check("allintitle: a site:b.org c", "allintitle: a site:b.org c");
    }

    #[test]
    fn phrases_stay_in_place() {
        let normal = normalise("x \"An  Exact\tPhrase\" intitle:\"Foo Bar\" y");
        assert_eq!(normal.text, "x \"an exact phrase\" y intitle:\"foo bar\"");
        assert!(normal.has_phrase);
        assert!(!normalise("5\" pipe").has_phrase);
        assert!(!normalise("empty \"\" phrase").has_phrase);
        check("a \"b c", "a \"b c");
    }

    #[test]
    fn sites_are_read_as_hosts() {
        let normal = normalise("x -site:B.org site:*.a.org site:störung.de");
        assert_eq!(normal.sites, ["a.org", "xn--strung-xxa.de"]);
        assert_eq!(normal.excluded_sites, ["b.org"]);
        assert_eq!(normal.text, "x -site:b.org site:a.org site:xn--strung-xxa.de");
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(
            query in "\\PC{0,30}|([a-zA-Z\"():.| -]|site:|OR |http://|ß|İ|Σ|ﬁ){0,20}"
        ) {
            let once = normalise(crate::text::visible(&query).trim());
            let twice = normalise(&once.text);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert_eq!(twice.has_phrase, once.has_phrase);
        }

        #[test]
        fn case_and_white_space_do_not_count(words in prop::collection::vec("[a-z]{1,8}", 1..8)) {
            let upper = words.iter().map(|w| w.to_uppercase()).collect::<Vec<_>>().join(" \t ");
            prop_assert_eq!(normalise(&upper).text, normalise(&words.join(" ")).text);
        }
    }
}
