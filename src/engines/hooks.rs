//! The few things about an engine that no table can say, each a pure function with a name that
//! manifests use. A hook must never see anything of the caller but the question's text.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use url::Url;

use super::json::Json;

/// Hooks on the question, before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryHook {
    /// Quotes what SearXNG would read as a command.
    SearxngQuote,
}

/// Hooks that make or mend a row's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlHook {
    /// From a page's title and the wiki's own article path.
    MediawikiUrl,
    /// From a click counter's `u=a1…` to the page behind it.
    BingUnwrap,
}

/// Hooks on a text whose tags and entities are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextHook {
    /// Removes wikitext markup.
    Wikitext,
}

/// What a `UrlHook` may look at.
#[derive(Clone, Copy, Debug)]
pub struct UrlSource<'a> {
    /// The engine's base address.
    pub engine: &'a Url,
    /// The whole answer.
    pub body: &'a Json<'a>,
    /// The row's title as the engine gave it.
    pub title: &'a str,
    /// The row's address, if its manifest names a field for it.
    pub url: Option<&'a str>,
}

impl QueryHook {
    /// The text to send.
    pub fn apply(self, query: &str) -> String {
        match self {
            Self::SearxngQuote => searxng_quote(query),
        }
    }
}

impl UrlHook {
    /// The keys of the answer that it looks at.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::MediawikiUrl => &["query", "general", "server", "articlepath"],
            Self::BingUnwrap => &[],
        }
    }

    /// The row's address; `None` drops the row.
    pub fn apply(self, source: UrlSource<'_>) -> Option<String> {
        match self {
            Self::MediawikiUrl => mediawiki_url(source),
            Self::BingUnwrap => source.url.map(bing_unwrap),
        }
    }
}

impl TextHook {
    /// The text without the engine's markup.
    pub fn apply(self, text: &str) -> String {
        match self {
            Self::Wikitext => wikitext(text),
        }
    }
}

/// SearXNG reads `!engine`, `!!bang`, `:language` and `<timeout` as commands anywhere in a query
/// and obeys them: `!!w x` answers with a redirect to another site. A quoted token is a word.
fn searxng_quote(query: &str) -> String {
    let is_gap = |c: char| c.is_whitespace() || c.is_control();
    let words = query.split(is_gap).filter(|word| !word.is_empty()).map(|word| {
        let is_command = word.starts_with(['!', ':', '<', '?']) && word.len() > 1;
        if is_command || word.contains("!!") || word == "!" {
            format!("\"{}\"", word.replace('"', ""))
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What MediaWiki leaves as it is in the address of a page.
const TITLE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'$')
    .remove(b'!')
    .remove(b'*')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b';');

/// `siprop=general` says how a wiki writes its addresses; without it, `/wiki/` below the engine's
/// host, as all of Wikimedia has it.
fn mediawiki_url(source: UrlSource<'_>) -> Option<String> {
    let general = |name: &str| source.body.get("query")?.get("general")?.get(name)?.as_str();
    let origin = source.engine.origin().ascii_serialization();
    let server = match general("server") {
        Some(server) if server.starts_with("//") => {
            format!("{}:{server}", source.engine.scheme())
        }
        Some(server) if server.starts_with("http") => server.to_owned(),
        _ => origin,
    };
    if source.title.is_empty() {
        return None;
    }
    let title = source.title.replace(' ', "_");
    let title = utf8_percent_encode(&title, TITLE).to_string();
    let path = general("articlepath").filter(|path| path.contains("$1")).unwrap_or("/wiki/$1");
    Some(format!("{}{}", server.trim_end_matches('/'), path.replace("$1", &title)))
}

/// `/ck/a?…&u=a1` and the address in base 64 (URL alphabet, no padding). Anything else stays.
fn bing_unwrap(url: &str) -> String {
    let inner = || {
        let parsed = Url::parse(url).ok()?;
        let host = parsed.host_str()?;
        if host != "bing.com" && !host.ends_with(".bing.com") {
            return None;
        }
        let (_, packed) = parsed.query_pairs().find(|(name, _)| name == "u")?;
        let target = String::from_utf8(base64_url(packed.strip_prefix("a1")?)?).ok()?;
        target.starts_with("http").then_some(target)
    };
    inner().unwrap_or_else(|| url.to_owned())
}

/// RFC 4648 §5 without padding.
fn base64_url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xFF) as u8);
        }
    }
    Some(bytes)
}

/// A search excerpt is a window cut anywhere out of wikitext, so markup may be half there:
/// what is whole is resolved, what is left of brackets, quotes and tags goes.
fn wikitext(text: &str) -> String {
    let text = without(text, "{{", "}}", |_| "");
    let text = without(&text, "[[", "]]", |link| link.rsplit('|').next().unwrap_or_default());
    let text = without(&text, "<", ">", |_| " ");
    let mut clean = text.replace("'''", "").replace("''", "");
    for mark in ["====", "===", "==", "[[", "]]", "{{", "}}"] {
        clean = clean.replace(mark, " ");
    }
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces each innermost `open…close`; a part without its partner stays. At most 8 levels deep.
fn without(text: &str, open: &str, close: &str, keep: fn(&str) -> &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..8 {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(close) {
            match before.rsplit_once(open) {
                Some((outside, inside)) => {
                    clean.push_str(outside);
                    clean.push_str(keep(inside));
                }
                None => {
                    clean.push_str(before);
                    clean.push_str(close);
                }
            }
            rest = after;
        }
        clean.push_str(rest);
        if clean == text {
            break;
        }
        text = clean;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn commands_of_searxng_are_quoted() {
        let check = |query: &str, expected: &str| assert_eq!(searxng_quote(query), expected);
        check("private !!w :fr <1 thing", "private \"!!w\" \":fr\" \"<1\" thing");
        check("!sa z", "\"!sa\" z");
        check("a !! b ! c", "a \"!!\" b \"!\" c");
        check("wow!! done!", "\"wow!!\" done!");
        check(":) a<b x:y 1 < 2", "\":)\" a<b x:y 1 < 2");
        check("!x\"y", "\"!xy\"");
        check("a\u{a0}!w\u{1f}:de", "a \"!w\" \":de\"");
    }

    fn wiki(title: &str, body: &Value) -> Option<String> {
        let engine = Url::parse("https://wiki.example/w/api.php").expect("a fixed address");
        let body = body.to_string();
        let body = Json::read(body.as_bytes(), UrlHook::MediawikiUrl.keys()).expect("JSON");
        mediawiki_url(UrlSource { engine: &engine, body: &body, title, url: None })
    }

    #[test]
    fn a_page_is_where_the_wiki_says() {
        let check = |title: &str, body: Value, expected: &str| {
            assert_eq!(wiki(title, &body).as_deref(), Some(expected));
        };
        check("C++ (language)", json!({}), "https://wiki.example/wiki/C%2B%2B_(language)");
        check("AC/DC", json!({}), "https://wiki.example/wiki/AC/DC");
        check("Café?", json!({}), "https://wiki.example/wiki/Caf%C3%A9%3F");
        let general = json!({"query": {"general": {
            "server": "//en.wiki.example", "articlepath": "/index.php?title=$1"}}});
        check("A & B", general, "https://en.wiki.example/index.php?title=A_%26_B");
        let nonsense = json!({"query": {"general": {"server": 4, "articlepath": "/x"}}});
        check("A", nonsense, "https://wiki.example/wiki/A");
        assert_eq!(wiki("", &json!({})), None);
    }

    #[test]
    fn wikitext_becomes_words() {
        let check = |text: &str, expected: &str| assert_eq!(wikitext(text), expected);
        check(
            "'''Rust''' is ''iron'' [[oxide|oxides]], see [[Iron]].",
            "Rust is iron oxides, see Iron.",
        );
        check("{{Infobox|a={{b}}}} == Use == of <b>it</b>", "Use of it");
        check("cut]] off {{half [[ways", "cut off half ways");
        check("plain 1 < 2", "plain 1 < 2");
        check("[[[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]]]", "a");
    }

    #[test]
    fn a_click_counter_is_unwrapped_once() {
        let check = |url: &str, expected: &str| assert_eq!(bing_unwrap(url), expected);
        let packed = "https://www.bing.com/ck/a?!&p=1&u=a1aHR0cHM6Ly9leGFtcGxlLm9yZy94P2E9Mg&ntb=1";
        check(packed, "https://example.org/x?a=2");
        check("https://www.bing.com/ck/a?u=a1!!", "https://www.bing.com/ck/a?u=a1!!");
        let other = "https://notbing.com/ck/a?u=a1aHR0cHM6Ly9leGFtcGxlLm9yZy94";
        check(other, other);
        check("no address", "no address");
    }
}
