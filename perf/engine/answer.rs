//! The engine's answers, in the shape of SearXNG's JSON. Titles carry the query, so that a gateway
//! that mixes up connections is caught, and no two queries have byte-identical answers.

use std::fmt::Write;

use crate::chance::mix;

/// What a call is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 200 with results.
    Valid,
    /// 500.
    Error,
    /// 200 with an empty list: there is nothing to find.
    Empty,
    /// 200 with an empty list and engines that did not respond: blocked.
    Block,
    /// 429.
    Throttle,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] =
        [Self::Valid, Self::Error, Self::Empty, Self::Block, Self::Throttle];

    /// Its name in the statistics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Error => "error",
            Self::Empty => "empty",
            Self::Block => "block",
            Self::Throttle => "throttle",
        }
    }
}

/// Shares of the kinds that are not valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    pub(crate) error: f64,
    pub(crate) empty: f64,
    pub(crate) block: f64,
    pub(crate) throttle: f64,
}

impl Ratios {
    /// The kind at `draw` (0..1).
    pub(crate) fn kind_at(self, draw: f64) -> Kind {
        let mut upper = 0.0;
        let shares = [
            (Kind::Error, self.error),
            (Kind::Empty, self.empty),
            (Kind::Block, self.block),
            (Kind::Throttle, self.throttle),
        ];
        for (kind, share) in shares {
            upper += share;
            if draw < upper {
                return kind;
            }
        }
        Kind::Valid
    }
}

/// The whole HTTP/1.1 answer to `query`.
pub(crate) fn whole(kind: Kind, query: &str, results: u8, engine: &str) -> Vec<u8> {
    match kind {
        Kind::Valid => json("200 OK", &body(query, results, engine, "")),
        Kind::Empty => json("200 OK", &body(query, 0, engine, "")),
        Kind::Block => {
            json("200 OK", &body(query, 0, engine, r#"["stub","Suspended: too many requests"]"#))
        }
        Kind::Error => json("500 Internal Server Error", r#"{"error":"stub"}"#),
        Kind::Throttle => json("429 Too Many Requests\r\nRetry-After: 1", r#"{"error":"stub"}"#),
    }
}

/// An answer with a JSON body.
pub(crate) fn json(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n");
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// The end of every result.
const FIXED_FIELDS: &str = concat!(
    r#""template":"default.html","img_src":"","thumbnail":"","priority":"","category":"general","#,
    r#""publishedDate":null}"#
);

fn body(query: &str, results: u8, engine: &str, unresponsive: &str) -> String {
    let (quoted, engine) = (quote(query), quote(engine));
    let query_bare = &quoted[1..quoted.len() - 1];
    let hash = query.bytes().fold(0, |hash, byte| mix(hash, u64::from(byte)));
    let mut text = String::with_capacity(256 + usize::from(results) * (360 + query.len()));
    let _ = write!(text, r#"{{"query":{quoted},"number_of_results":0,"results":["#);
    for position in 1..=u64::from(results) {
        let page = mix(hash, position) % 1_000_000_000;
        let score = 1.0 / position as f64;
        let comma = if position == 1 { "" } else { "," };
        let _ = write!(text, r#"{comma}{{"url":"https://site{position}.example/pages/{page}","#);
        let _ = write!(text, r#""title":"{query_bare} - result {position}","#);
        let _ = write!(
            text,
            r#""content":"Page {page} treats {query_bare} at length; all it says is made up, "#
        );
        let _ = write!(text, r#"as long as a snippet is.","#);
        let _ = write!(text, r#""engine":{engine},"engines":[{engine}],"#);
        let _ = write!(
            text,
            r#""parsed_url":["https","site{position}.example","/pages/{page}","","",""],"#
        );
        let _ = write!(text, r#""positions":[{position}],"score":{score:.3},"#);
        text.push_str(FIXED_FIELDS);
    }
    text.push_str(r#"],"answers":[],"corrections":[],"infoboxes":[],"suggestions":[],"#);
    let _ = write!(text, r#""unresponsive_engines":[{unresponsive}]}}"#);
    text
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(kind: Kind, query: &str) -> serde_json::Value {
        let bytes = whole(kind, query, 10, "alpha");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        serde_json::from_str(body).expect("JSON")
    }

    #[test]
    fn titles_carry_the_query() {
        for query in ["rust http", r#"a "b" \ c"#, "ü\n\u{1}", "\"", ""] {
            let answer = parsed(Kind::Valid, query);
            assert_eq!(answer["query"], query);
            assert_eq!(answer["results"].as_array().map(Vec::len), Some(10));
            assert_eq!(answer["results"][2]["title"], format!("{query} - result 3"));
        }
    }

    #[test]
    fn a_block_is_not_an_empty_answer() {
        let (empty, block) = (parsed(Kind::Empty, "q"), parsed(Kind::Block, "q"));
        assert_eq!((&empty["results"], &block["results"]), (&block["results"], &empty["results"]));
        assert_eq!(empty["unresponsive_engines"].as_array().map(Vec::len), Some(0));
        assert_eq!(block["unresponsive_engines"][0][0], "stub");
    }

    #[test]
    fn ratios_split_the_draws() {
        let ratios = Ratios { error: 0.1, empty: 0.1, block: 0.1, throttle: 0.1 };
        let kinds = [0.05, 0.15, 0.25, 0.35, 0.45].map(|draw| ratios.kind_at(draw));
        assert_eq!(kinds, [Kind::Error, Kind::Empty, Kind::Block, Kind::Throttle, Kind::Valid]);
    }
}
