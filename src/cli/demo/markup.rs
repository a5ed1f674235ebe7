//! Markdown and HTML made plain, for the demo's engines to search. A reader's view, not a
//! renderer's: what is lost is layout. Nothing here panics, whatever a file holds.

use std::collections::BTreeMap;

use super::corpus::Section;
use crate::text;

/// How much HTML is made plain at a time: below what `text::plain` looks at.
const PIECE_BYTES: usize = 32_768;

/// The sections of a Markdown document below `base`, one for each heading down to the third level
/// that has text of its own. Each gets an address of its own, a path and not a fragment: a merge
/// takes addresses that differ in the fragment for one page.
pub(super) fn sections(source: &str, base: &str) -> Vec<Section> {
    let mut document = String::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut sections = Vec::new();
    for (heading, body) in split(source) {
        let heading = heading.map(inline).unwrap_or_default();
        if document.is_empty() {
            document.clone_from(&heading);
        }
        let text = prose(&body);
        if text.is_empty() || heading.is_empty() {
            continue;
        }
        let (title, slug) = if heading == document {
            (heading, String::new())
        } else {
            (format!("{document}: {heading}"), slug(&heading))
        };
        let times = seen.entry(slug.clone()).or_default();
        *times += 1;
        let url = match (slug.as_str(), *times) {
            ("", 1) => base.to_owned(),
            (slug, 1) => format!("{base}/{slug}"),
            (slug, times) => format!("{base}/{slug}-{times}"),
        };
        sections.push(Section { title, url, text });
    }
    sections
}

/// A Markdown document's first heading and its text.
pub(super) fn markdown(source: &str) -> (Option<String>, String) {
    let mut title = None;
    let mut whole = String::new();
    for (heading, body) in split(source) {
        let heading = heading.map(inline).filter(|heading| !heading.is_empty());
        if let Some(heading) = heading {
            match title {
                None => title = Some(heading),
                Some(_) => whole.push_str(&format!(" {heading}. ")),
            }
        }
        whole.push_str(&prose(&body));
        whole.push(' ');
    }
    (title, collapse(&whole))
}

/// An HTML document's title and its text.
pub(super) fn html(source: &str) -> (Option<String>, String) {
    let source = without(source, "<!--", "-->");
    let source = without(&without(&source, "<script", "</script>"), "<style", "</style>");
    let lower = source.to_ascii_lowercase();
    let inside = |name: &str| {
        let open = lower.find(&format!("<{name}"))?;
        let from = open + lower.get(open..)?.find('>')? + 1;
        let to = from + lower.get(from..)?.find("</")?;
        let inner = text::plain(source.get(from..to)?, text::TITLE_CHARS_MAX);
        Some(inner).filter(|inner| !inner.is_empty())
    };
    let title = inside("title").or_else(|| inside("h1"));
    let from = lower.find("<body").or_else(|| Some(lower.find("</title>")? + "</title>".len()));
    let mut rest = source.get(from.unwrap_or_default()..).unwrap_or_default();
    let mut whole = String::new();
    while !rest.is_empty() {
        let end = rest.floor_char_boundary(PIECE_BYTES);
        // Pieces end before a tag, so that none is split.
        let end = match rest.get(..end).and_then(|piece| piece.rfind('<')) {
            Some(tag) if tag > 0 && end < rest.len() => tag,
            _ => end,
        };
        let (piece, behind) = rest.split_at(end);
        whole.push_str(&text::plain(piece, usize::MAX));
        // A space or a tag that breaks the line stood at the seam, or none: a split word is found
        // less, two words made one are not found at all.
        whole.push(' ');
        rest = behind;
    }
    (title, collapse(&whole))
}

/// The text with each run of white space as one space.
pub(super) fn collapse(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    for word in source.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Headings and what follows each. A line that begins with `#` inside a fence is code.
fn split(source: &str) -> Vec<(Option<&str>, Vec<&str>)> {
    let mut parts: Vec<(Option<&str>, Vec<&str>)> = vec![(None, Vec::new())];
    let mut in_fence = false;
    for line in source.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        let heading = ["# ", "## ", "### "].iter().find_map(|marks| line.strip_prefix(marks));
        match (heading, parts.last_mut()) {
            (Some(heading), _) if !in_fence => parts.push((Some(heading.trim()), Vec::new())),
            (_, Some((_, body))) => body.push(line),
            (_, None) => {}
        }
    }
    parts
}

/// Lines of Markdown as one plain text: table rules and marks gone, links as their words.
fn prose(lines: &[&str]) -> String {
    let is_rule = |line: &&&str| {
        line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
    };
    let mut whole = String::new();
    for line in lines.iter().filter(|line| !is_rule(line)) {
        whole.push_str(&inline(line.trim_start_matches(['#', '>', ' '])));
        whole.push(' ');
    }
    collapse(&whole)
}

/// One line without marks: `[words](address)` becomes `words`; backticks, stars and table bars go.
fn inline(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let (before, behind) = rest.split_at(at);
        match (before.rfind('['), behind.find(')')) {
            (Some(open), Some(close)) => {
                out.push_str(before.get(..open).unwrap_or_default());
                out.push_str(before.get(open + 1..).unwrap_or_default());
                rest = behind.get(close + 1..).unwrap_or_default();
            }
            _ => {
                out.push_str(before);
                out.push_str("](");
                rest = behind.get(2..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    collapse(&out.replace('|', " ").replace('`', "").replace("**", ""))
}

/// A heading as a part of an address: lower-case letters and digits, joined by `-`.
fn slug(heading: &str) -> String {
    let mut slug = String::new();
    for c in heading.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// The text without what stands between `open` and `close`, whatever their case; one that is never
/// closed reaches to the end.
fn without(source: &str, open: &str, close: &str) -> String {
    let lower = source.to_ascii_lowercase();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(found) = lower.get(at..).and_then(|rest| rest.find(open)) {
        out.push_str(source.get(at..at + found).unwrap_or_default());
        out.push(' ');
        let inside = lower.get(at + found..).unwrap_or_default();
        match inside.find(close) {
            Some(end) => at += found + end + close.len(),
            None => return out,
        }
    }
    out.push_str(source.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Engines\nIntro.\n\n## How to `add` one\nWrite [a file](x.md).\n\
        ```\n# no heading\n```\n| key | what |\n|---|:-:|\n| **url** | base |\n## Empty\n\
        ## How to add one\nAgain.\n";

    #[test]
    fn each_heading_with_text_is_a_section_with_an_address_of_its_own() {
        let sections = sections(DOCUMENT, "https://a.example/docs/engines");
        let seen: Vec<(&str, &str, &str)> =
            sections.iter().map(|one| (&*one.title, &*one.url, &*one.text)).collect();
        let base = "https://a.example/docs/engines";
        assert_eq!(
            seen,
            [
                ("Engines", base, "Intro."),
                (
                    "Engines: How to add one",
                    &*format!("{base}/how-to-add-one"),
                    "Write a file. no heading key what url base",
                ),
                ("Engines: How to add one", &*format!("{base}/how-to-add-one-2"), "Again."),
            ]
        );
    }

    #[test]
    fn a_document_has_its_first_heading_as_title() {
        let (title, text) = markdown(DOCUMENT);
        assert_eq!(title.as_deref(), Some("Engines"));
        assert!(text.starts_with("Intro. How to add one. Write a file."), "{text}");
        assert_eq!(markdown("no heading"), (None, "no heading".to_owned()));
        assert_eq!(markdown(""), (None, String::new()));
    }

    fn check_html(source: &str, title: Option<&str>, text: &str) {
        assert_eq!(html(source), (title.map(str::to_owned), text.to_owned()), "{source}");
    }

    #[test]
    fn html_gives_title_and_words() {
        check_html(
            "<TITLE>A &lt; b</TITLE><BODY class=x><h1>H</h1>one<br>two",
            Some("A < b"),
            "H one two",
        );
        check_html("<h1 id=x>H</h1><p>t", Some("H"), "H t");
        check_html("just words", None, "just words");
        check_html("", None, "");
    }

    #[test]
    fn scripts_styles_and_comments_are_no_text() {
        check_html("a<script>x</SCRIPT>b<style>y</style>c<!-- d -->e", None, "a b c e");
        check_html("a<script>never closed", None, "a");
    }

    #[test]
    fn a_long_page_is_read_to_its_end() {
        let source = format!("<body>{}<p>last", "<p>word <b>bold</b></p>\n".repeat(20_000));
        let (_, text) = html(&source);
        assert!(text.ends_with("word bold last"));
        assert_eq!(text.matches("word bold").count(), 20_000);
    }

    #[test]
    fn broken_markup_never_panics() {
        for source in
            ["](", "[](", "a](b", "[a](", "<title", "<title>", "<body", "<!--", "# ", "```"]
        {
            let _ = (markdown(source), html(source), sections(source, "https://a.example"));
        }
    }
}
