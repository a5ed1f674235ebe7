//! Finds and drops HTML tags in a text. A scanner, not a parser: it needs no tree, sees each byte
//! at most a few times, and leaves alone what is no element of HTML. It never decodes entities.

use std::borrow::Cow;

use memchr::{memchr, memmem};

/// Longest tag that is recognised; a longer one stays as text. Bounds the search for its end.
const TAG_BYTES_MAX: usize = 2048;

/// Elements that stand between words without touching them, sorted.
const BLOCKS: [&str; 38] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "button",
    "caption",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "table",
    "tbody",
    "td",
    "th",
    "tr",
    "ul",
];

/// The other elements that engines send, sorted.
const INLINES: [&str; 68] = [
    "a", "abbr", "acronym", "area", "audio", "b", "base", "bdi", "bdo", "big", "body", "canvas",
    "center", "cite", "code", "col", "colgroup", "data", "datalist", "del", "details", "dfn", "em",
    "embed", "font", "head", "html", "i", "iframe", "img", "input", "ins", "kbd", "label", "link",
    "mark", "math", "meta", "noscript", "object", "param", "picture", "q", "s", "samp", "script",
    "select", "small", "source", "span", "strike", "strong", "style", "sub", "summary", "sup",
    "svg", "template", "textarea", "tfoot", "thead", "time", "title", "tt", "u", "var", "video",
    "wbr",
];

/// Gives the text without tags and comments, and without scripts' and styles' contents.
pub(super) fn strip(text: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'<', text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(text.get(..first).unwrap_or_default());
    let mut rest = text.get(first..).unwrap_or_default();
    // Once a closing tag was not found there is none behind it either: not searched for again.
    let mut may_hide = true;
    // The whole text, made once: a text of nothing but scripts must not be copied for each.
    let mut lower_case: Option<String> = None;
    while !rest.is_empty() {
        // `rest` starts with '<' here.
        let literal_end = match tag(rest) {
            Some(found) => {
                if found.is_block {
                    out.push(' ');
                }
                rest = rest.get(found.bytes..).unwrap_or_default();
                if let Some(name) = found.hides.filter(|_| may_hide) {
                    let lower_case = lower_case.get_or_insert_with(|| text.to_ascii_lowercase());
                    let from = text.len() - rest.len();
                    let behind = lower_case.as_bytes().get(from..).unwrap_or_default();
                    match memmem::find(behind, name.as_bytes()) {
                        Some(closing) => rest = rest.get(closing..).unwrap_or_default(),
                        None => may_hide = false,
                    }
                }
                memchr(b'<', rest.as_bytes())
            }
            None => memchr(b'<', rest.as_bytes().get(1..).unwrap_or_default()).map(|at| at + 1),
        };
        let end = literal_end.unwrap_or(rest.len());
        out.push_str(rest.get(..end).unwrap_or_default());
        rest = rest.get(end..).unwrap_or_default();
    }
    Cow::Owned(out)
}

struct Tag {
    bytes: usize,
    is_block: bool,
    /// The closing tag up to which the contents are not text.
    hides: Option<&'static str>,
}

/// The tag or comment at the start of `rest`, which starts with `<`; `None`: it is text.
fn tag(rest: &str) -> Option<Tag> {
    let bytes = rest.as_bytes();
    let window = bytes.get(..TAG_BYTES_MAX).unwrap_or(bytes);
    if window.starts_with(b"<!--") {
        let end = memmem::find(window.get(4..)?, b"-->")?;
        return Some(Tag { bytes: end + 7, is_block: true, hides: None });
    }
    if window.starts_with(b"<!") || window.starts_with(b"<?") {
        let end = memchr(b'>', window)?;
        return Some(Tag { bytes: end + 1, is_block: true, hides: None });
    }
    let is_closing = window.get(1) == Some(&b'/');
    let name_start = if is_closing { 2 } else { 1 };
    let name_bytes = window.get(name_start..)?;
    let name_length = name_bytes
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || *b == b'-'))
        .unwrap_or(name_bytes.len());
    let name = rest.get(name_start..name_start + name_length)?.to_ascii_lowercase();
    let name = name.as_str();
    let is_block = BLOCKS.binary_search(&name).is_ok();
    let is_element = is_block || INLINES.binary_search(&name).is_ok() || is_custom(name);
    if !is_element || !matches!(name_bytes.get(name_length)?, b'>' | b'/' | b' ' | b'\t' | b'\n') {
        return None;
    }
    let end = tag_end(window, name_start + name_length)?;
    let hides = match name {
        "script" if !is_closing => Some("</script"),
        "style" if !is_closing => Some("</style"),
        _ => None,
    };
    Some(Tag { bytes: end, is_block, hides })
}

/// Names of custom elements have a hyphen and start with a letter (HTML §4.13.3).
fn is_custom(name: &str) -> bool {
    name.contains('-') && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Where the tag ends: after the first `>` outside a quoted value. Another `<` outside means that
/// this was text.
fn tag_end(window: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut before = 0;
    loop {
        let b = *window.get(at)?;
        match b {
            b'>' => return Some(at + 1),
            b'<' => return None,
            b'"' | b'\'' if before == b'=' => {
                // A quote that never closes is a plain character, so that the tag still ends.
                if let Some(close) = window.get(at + 1..).and_then(|tail| memchr(b, tail)) {
                    at += close + 1;
                }
            }
            _ => {}
        }
        if !b.is_ascii_whitespace() {
            before = b;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(BLOCKS.is_sorted() && INLINES.is_sorted());
    }

    #[test]
    fn many_openings_without_an_end_stay_text() {
        let text = "<a \"".repeat(10_000);
        assert_eq!(strip(&text), text);
        let scripts = "<script>".repeat(2_000);
        assert_eq!(strip(&scripts), "");
    }
}
