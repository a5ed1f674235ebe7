//! One embedded engine: SearXNG's JSON over HTTP/1.1, `GET /search?q=…&format=json`. It searches
//! the shared index by a ranking of its own and holds the answer back for as long as its law says.
//! A call whose connection closes is dropped where it waits.
//!
//! It runs on the demo's own thread with tokio and axum, off the path: what it does with time and
//! sockets says nothing about how a core works.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};

use super::index::{self, Hit, Index, Question, Ranking};
use super::law::{BRISK, Law, WARM};

/// Results of one page.
const PAGE_RESULTS: usize = 20;
/// Pages that can be asked for.
const PAGES_MAX: usize = 5;

/// How one engine differs from the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Character {
    pub(super) name: &'static str,
    pub(super) ranking: Ranking,
    pub(super) law: Law,
    /// `quality` in the proxy's configuration.
    pub(super) quality: f64,
}

/// The engines. The two slow ones do not know every section, so that whom one asks matters.
pub(super) const CHARACTERS: [Character; 3] = [
    Character {
        name: "alpha",
        ranking: Ranking { k1: 1.2, b: 0.75, title_weight: 3.0, unknown_every: None },
        law: BRISK,
        quality: 1.0,
    },
    Character {
        name: "beta",
        ranking: Ranking { k1: 1.6, b: 0.6, title_weight: 5.0, unknown_every: Some(9) },
        law: WARM,
        quality: 1.0,
    },
    Character {
        name: "gamma",
        ranking: Ranking { k1: 0.9, b: 0.9, title_weight: 1.0, unknown_every: Some(5) },
        law: WARM,
        quality: 0.8,
    },
];

struct Engine {
    character: Character,
    index: Arc<Index>,
    seed: u64,
}

/// The engine as a service.
pub(super) fn service(character: Character, index: Arc<Index>, seed: u64) -> Router {
    let engine = Arc::new(Engine { character, index, seed });
    Router::new().route("/search", get(search)).with_state(engine)
}

/// What is read of a question; all else that an adapter sends makes no difference here.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    q: String,
    format: Option<String>,
    pageno: Option<usize>,
}

#[derive(Serialize)]
struct Page<'a> {
    query: &'a str,
    results: Vec<Row<'a>>,
    answers: [(); 0],
    corrections: [(); 0],
    infoboxes: [(); 0],
    suggestions: [(); 0],
    unresponsive_engines: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    url: &'a str,
    title: &'a str,
    content: String,
    engine: &'static str,
    engines: [&'static str; 1],
    positions: [usize; 1],
    score: f64,
    category: &'static str,
    published_date: Option<&'static str>,
}

async fn search(State(engine): State<Arc<Engine>>, Query(asked): Query<Asked>) -> Response {
    if asked.q.is_empty() {
        return refused(StatusCode::BAD_REQUEST, "No query");
    }
    if asked.format.as_deref() != Some("json") {
        return refused(StatusCode::FORBIDDEN, "only format=json is served");
    }
    let page = asked.pageno.unwrap_or(1);
    if !(1..=PAGES_MAX).contains(&page) {
        return refused(StatusCode::BAD_REQUEST, "Invalid value for parameter pageno");
    }
    let Character { name, law, .. } = engine.character;
    let question = Question::new(&asked.q);
    let delay = law.delay(engine.seed, name, &question);
    tokio::time::sleep(delay).await;
    match serde_json::to_vec(&engine.page(&asked.q, &question, page)) {
        Ok(body) => ([("content-type", "application/json")], body).into_response(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

impl Engine {
    fn page<'a>(&'a self, query: &'a str, question: &Question, page: usize) -> Page<'a> {
        let skipped = (page - 1) * PAGE_RESULTS;
        let hits = self.index.search(self.character.ranking, question, skipped + PAGE_RESULTS);
        let row = |(rank, hit): (usize, &Hit)| self.row(*hit, rank + 1, question);
        let results = hits.iter().enumerate().skip(skipped).filter_map(row).collect();
        Page {
            query,
            results,
            answers: [],
            corrections: [],
            infoboxes: [],
            suggestions: [],
            unresponsive_engines: [],
        }
    }

    fn row(&self, hit: Hit, rank: usize, question: &Question) -> Option<Row<'_>> {
        let section = self.index.section(hit)?;
        Some(Row {
            url: &section.url,
            title: &section.title,
            content: index::snippet(&section.text, question),
            engine: self.character.name,
            engines: [self.character.name],
            positions: [rank],
            score: hit.score,
            category: "general",
            published_date: None,
        })
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    (status, [("content-type", "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::corpus;

    fn page(character: usize, query: &str, page: usize) -> serde_json::Value {
        let index = Arc::new(Index::new(corpus::built_in().sections));
        let engine = Engine { character: CHARACTERS[character], index, seed: 1 };
        let question = Question::new(query);
        serde_json::to_value(engine.page(query, &question, page)).unwrap()
    }

    fn addresses(page: &serde_json::Value) -> Vec<String> {
        let rows = page["results"].as_array().unwrap();
        rows.iter().map(|row| row["url"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn an_answer_has_the_shape_of_searxng() {
        let page = page(0, "what is a hedge", 1);
        assert_eq!(page["query"], "what is a hedge");
        assert_eq!(page["unresponsive_engines"], serde_json::json!([]));
        let row = &page["results"][0];
        for key in ["url", "title", "content"] {
            assert!(!row[key].as_str().unwrap().is_empty(), "{key}");
        }
        assert_eq!(row["engines"], serde_json::json!(["alpha"]));
        assert_eq!(row["positions"], serde_json::json!([1]));
        assert!(row["publishedDate"].is_null());
    }

    #[test]
    fn engines_rank_differently() {
        let orders: Vec<Vec<String>> =
            (0..3).map(|character| addresses(&page(character, "hedge budget", 1))).collect();
        assert_ne!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
        assert_ne!(orders[1], orders[2]);
    }

    #[test]
    fn pages_do_not_overlap() {
        let (first, second) = (page(0, "the", 1), page(0, "the", 2));
        assert_eq!(addresses(&first).len(), PAGE_RESULTS);
        assert!(addresses(&second).iter().all(|url| !addresses(&first).contains(url)));
    }

    #[test]
    fn a_question_without_a_match_has_an_empty_list() {
        assert_eq!(page(0, "zzzz", 1)["results"], serde_json::json!([]));
    }
}
