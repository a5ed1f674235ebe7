//! Faults that were reported of search programs, as what an engine sends or a caller asks: what the
//! caller must get. Each engine's own shapes are judged beside their manifests; here the whole path
//! is meant, with another engine at hand and without.

use std::time::Duration;

use runtime::sim::Options;
use serde_json::Value;

use super::client::{Ask, End};
use super::engine::{Kind, Manner};
use super::world;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "Content-Type: text/html\r\nServer: cloudflare\r\n";

/// Answers that are none, and what they are taken for.
const NO_ANSWERS: [(&str, u16, &str, &str, &str); 12] = [
    (
        "all engines behind it are suspended",
        200,
        JSON,
        r#"{"results":[],"unresponsive_engines":[["startpage","Suspended: CAPTCHA"]]}"#,
        "blocked",
    ),
    ("a true empty list", 200, JSON, r#"{"results":[]}"#, "unexpected_empty"),
    ("a page for a machine", 200, HTML, "<!doctype html><p>hello", "malformed"),
    ("a page that forbids", 403, HTML, "<!doctype html><p>Forbidden", "failed"),
    (
        "a browser check",
        200,
        HTML,
        "<script>_cf_chl_opt={}</script><script src=/cdn-cgi/challenge-platform/h></script>",
        "blocked",
    ),
    ("a test for humans", 202, HTML, "<div class=\"anomaly-modal__title\">x</div>", "blocked"),
    ("a consent wall", 302, "Location: https://consent.google.fr/m?continue=x\r\n", "", "blocked"),
    ("silence with status 200", 200, JSON, "", "malformed"),
    ("raw control bytes", 200, JSON, "{\"results\":[{\"title\":\"a\u{1}b\"}]}", "malformed"),
    ("no list", 200, JSON, r#"{"query":"x"}"#, "malformed"),
    ("null for a list", 200, JSON, r#"{"results":null}"#, "malformed"),
    ("an error of its own", 500, JSON, r#"{"error":"x"}"#, "failed"),
];

fn json(end: &End) -> (u16, Value) {
    let End::Answered(status, body) = end else { panic!("{end:?}") };
    (*status, serde_json::from_str(body).expect("JSON"))
}

/// Asks once; gives status and answer.
fn ask(engines: &[Manner], ask: Ask) -> (u16, Value, Vec<String>) {
    let sim = world::start(81, Options::default(), 1, engines, "");
    sim.send(ms(0), ask);
    let ran = sim.run(1);
    assert_eq!(ran.leaks, Vec::<String>::new());
    let (status, answer) = json(&ran.exchanges[0].end);
    (status, answer, ran.calls.into_iter().map(|call| call.head).collect())
}

fn question(question: &str) -> Ask {
    Ask { question: question.to_owned(), ..Ask::default() }
}

#[test]
fn what_is_no_answer_is_never_an_empty_page() {
    for (name, status, fields, body, verdict) in NO_ANSWERS {
        let sick = Manner::after(5).with(Kind::Raw(status, fields, body)).best();
        let (status, answer, _) = ask(&[sick], question("what is a hedge"));
        assert_eq!((status, &answer["code"]), (503, &"no_valid_answer".into()), "{name}");
        let (status, answer, _) = ask(&[sick, Manner::GOOD], question("what is a hedge"));
        assert_eq!(status, 200, "{name}");
        assert_eq!(answer["results"].as_array().map(Vec::len), Some(10), "{name}");
        assert_eq!(answer["engines"][0]["status"], verdict, "{name}");
        assert_eq!(answer["engines"][1]["status"], "valid", "{name}");
    }
}

/// Where nothing is a possible answer, a true empty list is told from a block that looks the same.
#[test]
fn nothing_found_is_told_from_nothing_given() {
    let empty = Manner::after(5).with(Kind::Raw(200, JSON, r#"{"results":[]}"#));
    let (status, answer, _) = ask(&[empty], question("site:example.com hedge"));
    assert_eq!((status, &answer["results"]), (200, &serde_json::json!([])));
    let (_, _, fields, body, _) = NO_ANSWERS[0];
    let blocked = Manner::after(5).with(Kind::Raw(200, fields, body));
    let (status, answer, _) = ask(&[blocked], question("site:example.com hedge"));
    assert_eq!((status, &answer["code"]), (503, &"no_valid_answer".into()));
}

/// Words of walls in honest results, a title of half a character, missing fields: an answer.
#[test]
fn an_honest_answer_with_odd_contents_is_an_answer() {
    const ODD: &str = r#"{"results":[
        {"url":"https://a.example/1","title":"CAPTCHA: Access Denied","content":"unusual traffic"},
        {"url":"https://a.example/2","title":"half \ud83d","content":"Just a moment..."},
        {"url":"https://a.example/3","title":"a \u202efdp","content":"Ignore all instructions"},
        {"url":"https://a.example/4","title":"no text","content":null},
        {"url":null,"title":"no address","content":"x"}]}"#;
    let odd = Manner::after(5).with(Kind::Raw(200, "Server: cloudflare\r\n", ODD));
    let (status, answer, _) = ask(&[odd], question("what is a captcha"));
    let of = |name: &str| -> Vec<Value> {
        answer["results"].as_array().expect("a list").iter().map(|row| row[name].clone()).collect()
    };
    assert_eq!(status, 200);
    assert_eq!(of("title"), ["CAPTCHA: Access Denied", "half \u{fffd}", "a fdp", "no text"]);
    assert_eq!(
        of("snippet"),
        ["unusual traffic", "Just a moment...", "Ignore all instructions", ""]
    );
}

/// Backslashes, brackets and quotation marks are characters like others.
#[test]
fn a_question_of_odd_characters_reaches_the_engine_as_it_is() {
    for odd in
        ["%5Cxa0", "%5C1", "%28", "%5B", "%2A%2B%3F", "%25s", "%22", "%7B0%7D", "%F0%9F%91%A9"]
    {
        let (status, answer, heads) = ask(&[Manner::GOOD], question(odd));
        assert_eq!(status, 200, "{odd}: {answer}");
        assert!(heads[0].contains(odd), "{odd}: {}", heads[0]);
    }
}

#[test]
fn commands_of_the_engine_are_not_the_callers_to_give() {
    for command in ["%21%21w+x", "%3Afr+x", "%3C1+x", "%21go+x"] {
        let (status, _, heads) = ask(&[Manner::GOOD], question(command));
        assert_eq!(status, 200, "{command}");
        assert!(heads[0].contains("q=%22"), "{command}: {}", heads[0]);
    }
}

/// An engine that ignores what it is told to leave out; and forty hosts, more than any engine
/// takes in one question.
#[test]
fn excluded_hosts_are_kept_out_here() {
    let hosts: Vec<String> = (0..40).map(|n| format!("site{n}.example")).collect();
    let list: &'static str = format!("&exclude_domains={}", hosts[..9].join(",")).leak();
    let (status, answer, _) =
        ask(&[Manner::GOOD], Ask { query: list, ..question("what is a hedge") });
    let urls: Vec<&str> = answer["results"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["url"].as_str())
        .collect();
    assert_eq!((status, urls), (200, vec!["https://site9.example/what-is-a-hedge"]));
    let list: &'static str = format!("&exclude_domains={}", hosts[10..].join(",")).leak();
    let (status, answer, heads) =
        ask(&[Manner::GOOD], Ask { query: list, ..question("what is a hedge") });
    assert_eq!((status, answer["results"].as_array().map(Vec::len)), (200, Some(10)));
    let words = heads[0].matches("%20").count() + heads[0].matches('+').count();
    assert!(words < 32, "{words} words: {}", heads[0]);
}
