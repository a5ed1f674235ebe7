//! A word index with BM25F ranking (Robertson and Zaragoza, "The Probabilistic Relevance Framework:
//! BM25 and Beyond", 2009, section 3.6) over titles and texts. Its own 200 lines rather than a
//! crate: each engine ranks the same postings by numbers of its own, and titles weigh more than
//! texts.
//!
//! It must never fail on a question: whatever is asked, the answer is a list, maybe empty.
//! Positions are in bytes.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::corpus::Section;

/// Longest word that is indexed: longer ones are hashes and encoded data. In bytes.
const WORD_BYTES_MAX: usize = 40;
/// Words of one question that are looked at: half the bits of the set of words in `snippet`.
const QUESTION_WORDS_MAX: usize = 32;
/// What is shown of a text.
const SNIPPET_BYTES: usize = 260;
/// How much of a text is searched for its best passage.
const PASSAGE_BYTES_MAX: usize = 65_536;
/// A word that is not in the index is replaced by its neighbours that share this many letters.
const SHARED_LETTERS_MIN: usize = 4;
/// How many neighbours stand in for it.
const NEIGHBOURS_MAX: usize = 4;
/// What a neighbour's match counts.
const NEIGHBOUR_WEIGHT: f64 = 0.3;

/// One section's part in a word.
#[derive(Clone, Copy, Debug)]
struct Posting {
    section: u32,
    in_title: u16,
    in_text: u16,
}

/// How one engine ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranking {
    /// How soon repeating a word stops to count: 1.2 is usual.
    pub(super) k1: f64,
    /// How much a long text is held against it, 0..=1.
    pub(super) b: f64,
    /// What a word in the title counts, in words of the text.
    pub(super) title_weight: f64,
    /// The engine does not know every n-th section: no crawler has seen everything.
    pub(super) unknown_every: Option<u32>,
}

/// A section that matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hit {
    /// Its place in the index.
    pub(super) section: u32,
    /// Above 0; comparable within one answer only.
    pub(super) score: f64,
}

/// The sections and their words.
pub(super) struct Index {
    sections: Vec<Section>,
    lengths: Vec<u32>,
    mean_length: f64,
    words: BTreeMap<String, Vec<Posting>>,
}

impl Index {
    /// Reads every section once.
    pub(super) fn new(sections: Vec<Section>) -> Self {
        let mut words: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(sections.len());
        for (number, section) in (0_u32..).zip(&sections) {
            let mut counts: BTreeMap<String, (u16, u16)> = BTreeMap::new();
            for (_, word) in words_of(&section.title) {
                let count = counts.entry(stem(word)).or_default();
                count.0 = count.0.saturating_add(1);
            }
            let mut length = 0_u32;
            for (_, word) in words_of(&section.text) {
                let count = counts.entry(stem(word)).or_default();
                count.1 = count.1.saturating_add(1);
                length = length.saturating_add(1);
            }
            lengths.push(length);
            for (word, (in_title, in_text)) in counts {
                words.entry(word).or_default().push(Posting { section: number, in_title, in_text });
            }
        }
        let total: f64 = lengths.iter().map(|length| f64::from(*length)).sum();
        let mean_length = (total / sections.len().max(1) as f64).max(1.0);
        Self { sections, lengths, mean_length, words }
    }

    /// The section of a hit.
    pub(super) fn section(&self, hit: Hit) -> Option<&Section> {
        self.sections.get(hit.section as usize)
    }

    /// The best `max` sections for a question, best first; equals in corpus order.
    pub(super) fn search(&self, ranking: Ranking, question: &Question, max: usize) -> Vec<Hit> {
        // By section: the sum of the words' scores, and how many words of the question it has.
        let mut scores = vec![(0.0, 0.0); self.sections.len()];
        for (word, _) in &question.words {
            for (postings, weight) in self.postings(word) {
                let rare = self.rarity(postings.len());
                for posting in postings {
                    if let Some((sum, covered)) = scores.get_mut(posting.section as usize) {
                        *sum += weight * rare * self.saturated(ranking, *posting);
                        *covered += weight;
                    }
                }
            }
        }
        let asked = question.words.len().max(1) as f64;
        let mut hits: Vec<Hit> = (0_u32..)
            .zip(scores)
            .filter(|(section, (sum, _))| *sum > 0.0 && ranking.knows(*section))
            .map(|(section, (sum, covered)): (u32, (f64, f64))| {
                let score = sum * (covered / asked).min(1.0);
                Hit { section, score }
            })
            .collect();
        let better = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.section.cmp(&b.section));
        // A frequent word matches every section: only the best are put in order.
        if hits.len() > max {
            hits.select_nth_unstable_by(max, better);
            hits.truncate(max);
        }
        hits.sort_unstable_by(better);
        hits
    }

    /// Where a word stands; for an unknown one, where the words stand that begin like it.
    fn postings(&self, word: &str) -> Vec<(&[Posting], f64)> {
        if let Some(postings) = self.words.get(word) {
            return vec![(postings, 1.0)];
        }
        let Some((end, _)) = word.char_indices().nth(SHARED_LETTERS_MIN) else {
            return Vec::new();
        };
        let start = word.get(..end).unwrap_or_default();
        self.words
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .take_while(|(near, _)| near.starts_with(start))
            .take(NEIGHBOURS_MAX)
            .map(|(_, postings)| (postings.as_slice(), NEIGHBOUR_WEIGHT))
            .collect()
    }

    /// Inverse document frequency in the form that is never negative.
    fn rarity(&self, sections_with: usize) -> f64 {
        let (all, with) = (self.sections.len() as f64, sections_with as f64);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    fn saturated(&self, ranking: Ranking, posting: Posting) -> f64 {
        let length = self.lengths.get(posting.section as usize).copied().unwrap_or_default();
        let relative = f64::from(length) / self.mean_length;
        let in_text = f64::from(posting.in_text) / (1.0 - ranking.b + ranking.b * relative);
        let count = in_text + ranking.title_weight * f64::from(posting.in_title);
        count * (ranking.k1 + 1.0) / (count + ranking.k1)
    }
}

impl Ranking {
    fn knows(self, section: u32) -> bool {
        self.unknown_every.is_none_or(|every| section % every != every - 1)
    }
}

/// What is asked, in the words of the index.
#[derive(Debug)]
pub(super) struct Question {
    /// Each word once: as the index has it, and as it was written.
    words: Vec<(String, String)>,
}

impl Question {
    /// Reads a question; operators are left out.
    pub(super) fn new(text: &str) -> Self {
        let mut words: Vec<(String, String)> = Vec::new();
        for part in text.split_whitespace().filter(|part| !is_operator(part)) {
            for (_, form) in words_of(part) {
                let word = stem(form.clone());
                let is_new = words.iter().all(|(known, _)| *known != word);
                if is_new && words.len() < QUESTION_WORDS_MAX {
                    words.push((word, form));
                }
            }
        }
        Self { words }
    }

    /// Whether no word is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Its words, as the index has them.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|(word, _)| word.as_str())
    }

    /// Where a word of a text is in the question, and whether it is written the same.
    fn find(&self, form: String) -> Option<(usize, Form)> {
        let word = stem(form.clone());
        let at = self.words.iter().position(|(asked, _)| *asked == word)?;
        let is_same = self.words.get(at).is_some_and(|(_, asked)| *asked == form);
        Some((at, if is_same { Form::Same } else { Form::Other }))
    }
}

/// How a word of a text is written, beside the question's.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Same,
    Other,
}

/// `site:` and the like, and excluded words: the proxy enforces them on what comes back.
fn is_operator(part: &str) -> bool {
    let name = part.trim_start_matches('-');
    name.len() < part.len()
        || part == "OR"
        || ["site:", "filetype:", "lang:"].iter().any(|operator| name.starts_with(operator))
}

/// The passage of `text` with the most different words of the question, those written as asked
/// before others; cut at spaces.
pub(super) fn snippet(text: &str, question: &Question) -> String {
    let text = text.get(..text.floor_char_boundary(PASSAGE_BYTES_MAX)).unwrap_or_default();
    let hits: Vec<(usize, (usize, Form))> =
        words_of(text).filter_map(|(at, form)| Some((at, question.find(form)?))).collect();
    let (mut best, mut best_count) = (0, 0);
    for (first, (at, _)) in hits.iter().enumerate() {
        let near = hits.iter().skip(first).take_while(|(next, _)| next - at < SNIPPET_BYTES / 2);
        let seen = near.fold(0_u64, |seen, (_, (word, form))| {
            let low = 1 << (word % QUESTION_WORDS_MAX);
            seen | low | if *form == Form::Same { low << QUESTION_WORDS_MAX } else { 0 }
        });
        if seen.count_ones() > best_count {
            (best, best_count) = (*at, seen.count_ones());
        }
    }
    // Some words before the first hit say what it is about.
    let start = text.floor_char_boundary(best.saturating_sub(SNIPPET_BYTES / 4));
    let before = text.get(..start).unwrap_or_default();
    let start = before.rfind(' ').map_or(0, |space| space + 1);
    let rest = text.get(start..).unwrap_or_default();
    let passage = rest.get(..rest.floor_char_boundary(SNIPPET_BYTES)).unwrap_or_default();
    let (lead, is_cut) = (if start > 0 { "… " } else { "" }, passage.len() < rest.len());
    match passage.rfind(' ').filter(|_| is_cut) {
        Some(space) => format!("{lead}{} …", passage.get(..space).unwrap_or_default()),
        None => format!("{lead}{passage}"),
    }
}

/// The words of a text with their positions: runs of letters and digits, in lower case; each Han,
/// Hiragana or Katakana character is a word.
fn words_of(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, first) = rest.find(|(_, c)| c.is_alphanumeric())?;
            let mut end = start + first.len_utf8();
            if !is_ideograph(first) {
                let is_inside = |(_, c): &(usize, char)| c.is_alphanumeric() && !is_ideograph(*c);
                while let Some((at, c)) = rest.next_if(is_inside) {
                    end = at + c.len_utf8();
                }
            }
            let word = text.get(start..end).unwrap_or_default();
            if word.len() <= WORD_BYTES_MAX {
                return Some((start, word.to_lowercase()));
            }
        }
    })
}

const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

/// `hedge`, `hedges`, `hedged` and `hedging` are one word; at least three letters stay.
fn stem(mut word: String) -> String {
    for ending in ["ing", "ed", "es", "s", "e"] {
        let kept = word.strip_suffix(ending).map(str::len);
        if let Some(kept) = kept.filter(|kept| *kept >= 3 && !word.ends_with("ss")) {
            word.truncate(kept);
            break;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Ranking = Ranking { k1: 1.2, b: 0.75, title_weight: 3.0, unknown_every: None };

    fn section(title: &str, text: &str) -> Section {
        let url = format!("https://a.example/{title}");
        Section { title: title.to_owned(), url, text: text.to_owned() }
    }

    fn index() -> Index {
        Index::new(vec![
            section("Caches", "An entry is fresh, then usable. A hedge is no entry."),
            section("Hedging", "A second call when the first one is late."),
            section(
                "Drain",
                "No new connections; requests in flight end. Hedges end too, as hedges do.",
            ),
            section("言語", "検索の言語と地域"),
        ])
    }

    fn titles(ranking: Ranking, asked: &str) -> Vec<String> {
        let index = index();
        let hits = index.search(ranking, &Question::new(asked), 10);
        hits.iter().map(|hit| index.section(*hit).unwrap().title.clone()).collect()
    }

    fn words(asked: &str) -> Vec<String> {
        Question::new(asked).words().map(str::to_owned).collect()
    }

    fn check(asked: &str, expected: &[&str]) {
        assert_eq!(titles(PLAIN, asked), expected, "{asked}");
    }

    #[test]
    fn a_word_in_the_title_counts_more_than_two_in_the_text() {
        check("hedge", &["Hedging", "Drain", "Caches"]);
    }

    #[test]
    fn without_weight_on_titles_another_section_leads() {
        let ranking = Ranking { title_weight: 0.1, ..PLAIN };
        assert_eq!(titles(ranking, "hedges")[0], "Drain");
    }

    #[test]
    fn more_words_of_the_question_lead() {
        check("fresh hedge", &["Caches", "Hedging", "Drain"]);
    }

    #[test]
    fn an_unknown_word_is_replaced_by_its_neighbours_or_finds_nothing() {
        check("connectivity", &["Drain"]);
        check("zzz", &[]);
        check("", &[]);
        check("!!! …", &[]);
    }

    #[test]
    fn ideographs_are_words() {
        check("検索", &["言語"]);
    }

    #[test]
    fn operators_are_left_to_the_proxy() {
        check("drain site:a.example OR site:b.example -usable", &["Drain"]);
    }

    #[test]
    fn an_engine_does_not_know_every_section() {
        let ranking = Ranking { unknown_every: Some(2), ..PLAIN };
        assert_eq!(titles(ranking, "hedge"), ["Drain", "Caches"]);
    }

    #[test]
    fn other_questions_score_otherwise() {
        let index = index();
        let scores = |asked| index.search(PLAIN, &Question::new(asked), 10)[0].score;
        assert_ne!(scores("hedge"), scores("hedge zzz"));
    }

    #[test]
    fn endings_do_not_matter() {
        for word in ["hedge", "Hedges", "HEDGED", "hedging"] {
            assert_eq!(words(word), ["hedg"]);
        }
        assert_eq!(words("less is us"), ["less", "is", "us"]);
    }

    #[test]
    fn a_snippet_shows_the_passage_and_never_splits_a_letter() {
        let text = format!("{} the hedge budget is spent {}", "ä ".repeat(900), "ö".repeat(900));
        let shown = snippet(&text, &Question::new("hedge budget"));
        assert!(shown.starts_with("… ") && shown.contains("hedge budget is spent"), "{shown}");
        assert!(shown.len() <= SNIPPET_BYTES + 10);
        assert_eq!(snippet("", &Question::new("x")), "");
        assert_eq!(snippet("short", &Question::new("")), "short");
    }

    #[test]
    fn a_snippet_prefers_the_word_as_it_was_written() {
        let text = format!("hedging first {} hedges last", "and so on ".repeat(60));
        assert!(snippet(&text, &Question::new("hedges")).contains("hedges last"));
        assert!(snippet(&text, &Question::new("hedging")).contains("hedging first"));
    }

    #[test]
    fn a_long_question_is_cut() {
        let long = (0..1_000).map(|n| format!("w{n} ")).collect::<String>();
        assert_eq!(words(&long).len(), QUESTION_WORDS_MAX);
        assert!(index().search(PLAIN, &Question::new(&long), 10).is_empty());
    }
}
