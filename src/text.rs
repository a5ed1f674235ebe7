//! Text from strangers made plain: tags stripped, entities decoded once, invisible characters gone,
//! white space collapsed, length bounded. Read by every stage that shows or compares text.
//!
//! The order matters: tags first, entities second, so that `&lt;b&gt;` becomes the text `<b>` and
//! is not taken for a tag. Only names of HTML elements are tags: `Vec<T>` in a title stays. The
//! result is data for programs, never markup; nothing here panics, whatever comes in. Lengths are
//! counted in characters (Unicode scalar values).

use std::borrow::Cow;

use memchr::memchr;
use unicode_normalization::char::is_combining_mark;

mod tags;

/// Longest title shown.
pub const TITLE_CHARS_MAX: usize = 300;
/// Longest snippet shown.
pub const SNIPPET_CHARS_MAX: usize = 500;
/// What is looked at of one text: more than any snippet, and a bound on the work.
const INPUT_BYTES_MAX: usize = 65_536;
/// How far a cut moves back to keep a cluster whole; longer clusters are noise and are cut.
const CLUSTER_CHARS_MAX: usize = 32;

/// Gives the plain text of an HTML fragment or of a text, at most `chars_max` characters.
///
/// Scripts and styles go with their contents; block elements and line breaks become a space.
/// Looks at the first 64 KiB.
pub fn plain(text: &str, chars_max: usize) -> String {
    let text = text.get(..text.floor_char_boundary(INPUT_BYTES_MAX)).unwrap_or_default();
    if is_plain(text, chars_max) {
        return text.to_owned();
    }
    let stripped = tags::strip(text);
    let decoded = htmlize::unescape(stripped);
    let mut out = String::with_capacity(decoded.len().min(chars_max.saturating_mul(4)));
    let mut rest = &*decoded;
    let mut chars = 0;
    let chars_enough = chars_max.saturating_add(CLUSTER_CHARS_MAX);
    while chars <= chars_enough {
        let run = rest.get(..plain_bytes(&out, rest.as_bytes())).unwrap_or_default();
        out.push_str(run);
        chars += run.len();
        rest = rest.get(run.len()..).unwrap_or_default();
        let mut behind = rest.chars();
        let Some(raw) = behind.next() else {
            break;
        };
        rest = behind.as_str();
        let c = spaced(raw);
        let is_repeated = c == ' ' && (out.is_empty() || out.ends_with(' '));
        if !is_repeated && is_seen(c, || out.chars().next_back(), || behind.next()) {
            out.push(c);
            chars += 1;
        }
    }
    if chars > chars_max {
        let kept = cut(&out, chars_max).len();
        out.truncate(kept);
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
    out
}

/// How many bytes of `rest` may follow `out` as they are: ASCII that is seen, spaces one by one.
fn plain_bytes(out: &str, rest: &[u8]) -> usize {
    let mut is_spaced = out.is_empty() || out.ends_with(' ');
    let is_end = |b: &u8| {
        let was_spaced = std::mem::replace(&mut is_spaced, *b == b' ');
        !matches!(b, b' '..=b'~') || was_spaced && is_spaced
    };
    rest.iter().position(is_end).unwrap_or(rest.len())
}

/// Gives the text without control and invisible characters; each white space becomes a space.
///
/// Joiners stay where they join (inside emoji, Arabic, Indic and Khmer words); line breaks and tabs
/// become spaces, so that words stay apart.
pub fn visible(text: &str) -> String {
    Visible::new(text).collect()
}

/// The first `chars_max` characters, fewer where that would split a letter from its marks, an emoji
/// sequence or a flag.
pub fn cut(text: &str, chars_max: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(chars_max) else {
        return text;
    };
    let mut at = end;
    for _ in 0..CLUSTER_CHARS_MAX {
        let (Some(head), Some(tail)) = (text.get(..at), text.get(at..)) else {
            return text;
        };
        let (Some(before), Some(after)) = (head.chars().next_back(), tail.chars().next()) else {
            return head;
        };
        if !is_bound(head, before, after) {
            return head;
        }
        at -= before.len_utf8();
    }
    text.get(..end).unwrap_or_default()
}

/// Turns each escape of half a surrogate pair (`\ud83d` alone) into `\ufffd`, which serde_json can
/// read. Everything else, even what is no JSON, stays as it is.
pub fn repair_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        match (escaped_unit(json, at), escaped_unit(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                if let Some(hex) = out.to_mut().get_mut(at + 2..at + 6) {
                    hex.copy_from_slice(b"fffd");
                }
                at += 6;
            }
            (Some(_), _) => at += 6,
            (None, _) => at += 2,
        }
    }
    out
}

/// The UTF-16 unit of the escape `\uXXXX` at `at`.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Whether `plain` would change nothing; most titles are so. Looks at all bytes rather than stop at
/// the first that needs work: so it is done many at a time.
fn is_plain(text: &str, chars_max: usize) -> bool {
    let bytes = text.as_bytes();
    let is_work = |b: &u8| !matches!(b, b' '..=b'~') || matches!(b, b'<' | b'&');
    let gaps = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    bytes.len() <= chars_max
        && !bytes.iter().fold(false, |any, b| any | is_work(b))
        && !gaps.fold(false, |any, (b, next)| any | ((*b == b' ') & (*next == b' ')))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
}

/// Whether no reader would see `c`: default-ignorable and bidi-control characters, tags, fillers.
/// Joiners and variation selectors are not here; see `Visible`.
pub(crate) const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

const fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

const fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

const fn is_regional_indicator(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Whether a joiner beside `c` changes what is read: pictures, and scripts that use joiners.
const fn may_join(c: char) -> bool {
    is_variation_selector(c)
        || matches!(c, '\u{600}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
            | '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{fb50}'..='\u{fdff}'
            | '\u{1f000}'..='\u{1faff}')
}

/// Whether a cut between `before` and `after` would split one cluster.
fn is_bound(head: &str, before: char, after: char) -> bool {
    if is_regional_indicator(after) && is_regional_indicator(before) {
        return head.chars().rev().take_while(|c| is_regional_indicator(*c)).count() % 2 == 1;
    }
    is_joiner(before)
        || is_joiner(after)
        || is_variation_selector(after)
        || is_skin_tone(after)
        || is_combining_mark(after)
}

/// White space as a space, everything else as it is.
const fn spaced(c: char) -> char {
    if c.is_whitespace() { ' ' } else { c }
}

/// Whether a reader sees `c` where it stands, after `before` (the last that is seen) and before
/// `after`.
fn is_seen(
    c: char,
    before: impl FnOnce() -> Option<char>,
    after: impl FnOnce() -> Option<char>,
) -> bool {
    if is_joiner(c) {
        // It stays where it joins.
        return before().is_some_and(may_join) && after().is_some_and(may_join);
    }
    if is_variation_selector(c) {
        // One after a character chooses its shape; a row of them carries hidden bytes.
        let varies = |side: char| side != ' ' && !is_joiner(side) && !is_variation_selector(side);
        return before().is_some_and(varies);
    }
    !c.is_control() && !is_invisible(c)
}

/// The characters of a text that a reader sees, white space as spaces.
struct Visible<'a> {
    rest: std::str::Chars<'a>,
    before: Option<char>,
}

impl<'a> Visible<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.chars(), before: None }
    }
}

impl Iterator for Visible<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            let c = spaced(self.rest.next()?);
            if is_seen(c, || self.before, || self.rest.clone().next()) {
                self.before = Some(c);
                return Some(c);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(plain(input, 300), expected, "{input:?}");
    }

    #[test]
    fn entities_are_decoded_once_after_tags_went() {
        check("AT&amp;T &lt;b&gt; <b>bold</b>", "AT&T <b> bold");
        check("One &amp;amp; two &#x27;q&#x27; \u{202e} evil\u{7}", "One &amp; two 'q' evil");
        check("a &lt;script&gt; b", "a <script> b");
        check("caf&eacute; &#8211; 5&nbsp;&euro;", "café – 5 €");
        check("&#0;&#xD800;&#x110000;", "\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn tags_go_and_text_that_looks_like_them_stays() {
        check("<b>Rust</b>acean", "Rustacean");
        check("one<br>two<p>three</p>four", "one two three four");
        check("<a href=\"x>y\" title='<b>'>link</a>", "link");
        check("a < b and c > d, 1<2", "a < b and c > d, 1<2");
        check(
            "Vec<T>, List<String> and #include <stdio.h>",
            "Vec<T>, List<String> and #include <stdio.h>",
        );
        check("x <script>alert('<b>')</script> y <style>p{}</style>z", "x y z");
        check("a <!-- hidden > text --> b", "a b");
        check("cut off <a href=", "cut off <a href=");
        check("<b <i>x</i>", "<b x");
        check("<IMG SRC=x onerror=alert(1)>seen", "seen");
    }

    #[test]
    fn invisible_characters_go_and_joiners_that_join_stay() {
        check("a\u{200b}b\u{feff}c\u{2060}d\u{ad}e", "abcde");
        check("\u{202d}x\u{2066}y\u{2069}\u{200f}", "xy");
        check("A\u{200d}B", "AB");
        check(
            "👩\u{200d}👩\u{200d}👧\u{200d}👦 ❤\u{fe0f}",
            "👩\u{200d}👩\u{200d}👧\u{200d}👦 ❤\u{fe0f}",
        );
        check("می\u{200c}خواهم", "می\u{200c}خواهم");
        check("hi\u{e0048}\u{e0049}\u{e007f}", "hi");
        check("x\u{e0100}\u{e0101}\u{e0102}", "x\u{e0100}");
        check("שלום עולם مرحبا", "שלום עולם مرحبا");
    }

    #[test]
    fn white_space_is_one_space() {
        check("  a \t\r\n b\u{a0}\u{3000}c  ", "a b c");
        check("\u{85}\u{2028}", "");
    }

    #[test]
    fn a_cut_keeps_clusters_whole() {
        let family = "👩\u{200d}👩\u{200d}👧\u{200d}👦";
        assert_eq!(plain(&format!("ab{family}"), 5), "ab");
        assert_eq!(plain(&format!("ab{family}"), 9), format!("ab{family}"));
        assert_eq!(plain("cafe\u{301}s", 4), "caf");
        assert_eq!(plain("x👍🏽", 2), "x");
        assert_eq!(plain("🇩🇪🇫🇷", 3), "🇩🇪");
        assert_eq!(plain("one two", 4), "one");
        let marks = format!("a{}", "\u{301}".repeat(400));
        assert_eq!(plain(&marks, 100).chars().count(), 100);
    }

    #[test]
    fn half_a_surrogate_pair_becomes_the_replacement() {
        let check = |input: &str, expected: &str| {
            assert_eq!(repair_surrogates(input.as_bytes()), expected.as_bytes(), "{input}");
        };
        check(r#""\ud83d""#, r#""\ufffd""#);
        check(r#""a\ud83d\ude00b""#, r#""a\ud83d\ude00b""#);
        check(r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#);
        check(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check(r#""\\ud83d \n \u00e9""#, r#""\\ud83d \n \u00e9""#);
        check(r#""\ud83"#, r#""\ud83"#);
        check(r"\", r"\");
        assert!(matches!(repair_surrogates(br#"{"a":"\u00e9"}"#), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn plain_text_is_bounded_and_visible(
            text in "\\PC{0,80}|[<>&;#a-z\"'/! =-]{0,80}",
            max in 1_usize..60,
        ) {
            let out = plain(&text, max);
            prop_assert!(out.chars().count() <= max);
            prop_assert!(!out.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(!out.contains("  ") && out.trim() == out);
        }

        /// Runs and short cuts give what one character after the other gives.
        #[test]
        fn plain_text_is_what_is_visible_with_single_spaces(
            text in "[ab \\t\\u{a0}é\\u{301}\\u{200b}\\u{200d}\\u{fe0f}👩❤🇩🏽می<&;]{0,60}|\\PC{0,60}",
            max in 1_usize..60,
        ) {
            let decoded = htmlize::unescape(tags::strip(&text));
            let mut all = String::new();
            for c in Visible::new(&decoded) {
                if c != ' ' || !(all.is_empty() || all.ends_with(' ')) {
                    all.push(c);
                }
            }
            prop_assert_eq!(plain(&text, max), cut(&all, max).trim_end());
        }

        #[test]
        fn visible_text_is_stable(text in any::<String>()) {
            let once = visible(&text);
            prop_assert_eq!(visible(&once), once);
        }

        #[test]
        fn repaired_json_keeps_its_length(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(repair_surrogates(&bytes).len(), bytes.len());
        }
    }
}
