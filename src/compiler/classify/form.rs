//! What a question's form says without any word list: its length, addresses, years, versions and
//! prices. One pass over its words; the text is in lower case.

/// Years that count as present or to come. The first is fixed: there is no clock here, and taking
/// an old year for a present one costs a cache entry, never a stale answer.
const PRESENT_YEARS: std::ops::RangeInclusive<u32> = 2024..=2099;
/// Not 1000, which is a price more often than a year.
const PAST_YEARS: std::ops::RangeInclusive<u32> = 1001..=2023;
/// Characters of Chinese and Japanese that make about one word.
const CJK_CHARS_PER_WORD: usize = 3;
/// Endings of file names that look like a top-level domain.
const FILE_ENDINGS: [&str; 20] = [
    "c", "cpp", "cs", "css", "csv", "doc", "docx", "exe", "go", "html", "java", "js", "json", "md",
    "pdf", "php", "py", "rs", "ts", "txt",
];

/// The features of one question.
#[derive(Default, Debug)]
pub(super) struct Form {
    /// Words; where no spaces are written, thirds of characters.
    pub(super) words: usize,
    /// The whole question is a host name or URL.
    pub(super) is_address: bool,
    pub(super) has_present_year: bool,
    pub(super) has_past_year: bool,
    /// As `1.75` or `v2.0.1`.
    pub(super) has_version: bool,
    /// A number with a currency sign.
    pub(super) has_price: bool,
}

impl Form {
    pub(super) fn of(text: &str) -> Self {
        let mut form = Self::default();
        let mut cjk_chars = 0;
        let mut address_count = 0;
        let mut word_count = 0;
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            word_count += 1;
            if !word.is_ascii() {
                cjk_chars += word.chars().filter(|c| is_cjk(*c)).count();
            }
            address_count += usize::from(is_address(word));
            if !word.bytes().any(|b| b.is_ascii_digit()) {
                continue;
            }
            form.has_version |= is_version(word);
            form.has_price |= word.contains(is_currency);
            for year in years(word) {
                form.has_present_year |= PRESENT_YEARS.contains(&year);
                form.has_past_year |= PAST_YEARS.contains(&year);
            }
        }
        form.words = word_count + cjk_chars / CJK_CHARS_PER_WORD;
        form.is_address = word_count == 1 && address_count == 1;
        form
    }
}

/// Han, kana and their extensions: scripts written without spaces.
pub(super) const fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
}

const fn is_currency(c: char) -> bool {
    matches!(c, '$' | '£' | '¥' | '€' | '\u{20a0}'..='\u{20cf}' | '円' | '元')
}

fn is_address(word: &str) -> bool {
    if word.starts_with("https://") || word.starts_with("http://") {
        return true;
    }
    let Some((front, ending)) = word.rsplit_once('.') else {
        return false;
    };
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    (2..=24).contains(&ending.len())
        && ending.bytes().all(|b| b.is_ascii_lowercase())
        && !FILE_ENDINGS.contains(&ending)
        && front.split('.').all(is_label)
}

/// Two to four numbers with dots between; more or an address of four is no version.
fn is_version(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or(word);
    let parts: Vec<&str> = digits.splitn(5, '.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (2..=3).contains(&parts.len()) && parts.iter().all(is_number)
}

/// Runs of exactly four digits that touch no letter or point of a number.
fn years(word: &str) -> impl Iterator<Item = u32> {
    word.split(|c: char| !c.is_alphanumeric() && c != '.' || is_cjk(c))
        .map(|run| run.trim_matches('.'))
        .filter(|run| run.len() == 4 && run.bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|run| run.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the words counted and the features seen: a(ddress), n(ow), p(ast), v(ersion), $.
    fn check(text: &str, words: usize, features: &str) {
        let form = Form::of(text);
        let seen: String = [
            (form.is_address, 'a'),
            (form.has_present_year, 'n'),
            (form.has_past_year, 'p'),
            (form.has_version, 'v'),
            (form.has_price, '$'),
        ]
        .iter()
        .filter_map(|(has, letter)| has.then_some(letter))
        .collect();
        assert_eq!((form.words, seen.as_str()), (words, features), "{text}");
    }

    #[test]
    fn forms_are_seen() {
        check("a b c", 3, "");
        check("什么是二叉搜索树", 3, "");
        check("example.com", 1, "a");
        check("https://x.example/a", 1, "a");
        check("main.rs", 1, "");
        check("asp.net core", 2, "");
        check("rust 1.75", 2, "v");
        check("v2.0.1", 1, "v");
        check("192.168.1.1", 1, "");
        check("under $200", 2, "$");
        check("499€ phone", 2, "$");
        check("tour 2026", 2, "n");
        check("2025年选举", 2, "n");
        check("moon 1969", 2, "p");
        check("laptop 1000 euro", 3, "");
        check("rtx4090 20250 1.2026", 3, "v");
        check("", 0, "");
    }
}
