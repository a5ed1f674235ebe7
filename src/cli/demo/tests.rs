//! The embedded engines as their clients see them, over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;

/// The statuses and bodies of `targets`, asked one after the other on one connection.
fn ask(address: SocketAddr, targets: &[&str]) -> Vec<(u16, serde_json::Value)> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    targets.iter().map(|target| exchange(&mut stream, target)).collect()
}

fn exchange(stream: &mut TcpStream, target: &str) -> (u16, serde_json::Value) {
    write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn check(target: &str, expected: u16) {
    let embedded = start(None, SEED).unwrap();
    let (status, _) = ask(embedded.engines[0].1, &[target]).remove(0);
    assert_eq!(status, expected, "{target}");
}

#[test]
fn a_connection_serves_more_than_one_question() {
    let embedded = start(None, SEED).unwrap();
    let targets = ["/search?q=hedge&format=json", "/search?q=drain&format=json&language=all"];
    let answers = ask(embedded.engines[0].1, &targets);
    for ((status, answer), query) in answers.iter().zip(["hedge", "drain"]) {
        assert_eq!((*status, answer["query"].as_str()), (200, Some(query)));
        assert!(!answer["results"].as_array().unwrap().is_empty());
    }
}

#[test]
fn what_is_no_question_is_refused() {
    check("/search?format=json", 400);
    check("/search?q=&format=json", 400);
    check("/search?q=x&format=json&pageno=0", 400);
    check("/search?q=x&format=json&pageno=no", 400);
    check("/search?q=x", 403);
    check("/", 404);
}

#[test]
fn dropping_it_ends_the_engines_and_their_connections() {
    let embedded = start(None, SEED).unwrap();
    let address = embedded.engines[1].1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    drop(embedded);
    assert!(TcpStream::connect(address).is_err());
    // Closed or reset, but not silent.
    let end = stream.read(&mut [0]);
    assert!(!matches!(&end, Err(error) if error.kind() == io::ErrorKind::WouldBlock), "{end:?}");
}

#[test]
fn every_question_of_the_greeting_is_answered_by_every_engine() {
    let index = Index::new(corpus::built_in().sections);
    for asked in greeting::questions() {
        for character in CHARACTERS {
            let hits = index.search(character.ranking, &index::Question::new(&asked), 10);
            assert!(hits.len() >= 3, "{} to {asked}: {}", character.name, hits.len());
        }
    }
}

/// The first leg goes to one of the two; its hedge after 200 ms must have time to win before 585
/// ms.
fn hedge_wins(seed: u64, asked: &str, first: usize, second: usize) -> bool {
    let question = index::Question::new(asked);
    let took = |one: usize| CHARACTERS[one].law.delay(seed, CHARACTERS[one].name, &question);
    let hedge = Duration::from_millis(200);
    took(first) > hedge + took(second) + Duration::from_millis(50)
        && hedge + took(second) < Duration::from_millis(450)
}

fn shows_hedges(seed: u64) -> bool {
    let questions = greeting::questions();
    let wins = |first, second| {
        questions.iter().skip(1).filter(|asked| hedge_wins(seed, asked, first, second)).count()
    };
    // Whichever is asked first: beta at the beginning, then the one that was quicker so far.
    hedge_wins(seed, &questions[1], 1, 2) && wins(1, 2) >= 2 && wins(2, 1) >= 2
}

#[test]
fn the_greetings_questions_show_hedges() {
    assert!(
        shows_hedges(SEED),
        "take SEED = {:?}",
        (1..10_000_000).find(|seed| shows_hedges(*seed))
    );
}

#[test]
fn the_configuration_is_accepted_and_can_be_served() {
    let embedded = start(None, SEED).unwrap();
    let text = config(&embedded, 8080, 9090);
    let settings = crate::config::parse(&text, "demo.toml", &|_| None).unwrap();
    assert_eq!(settings.unsupported(), Vec::<String>::new());
    let engines = settings.engines.iter().zip(&embedded.engines);
    for (engine, (name, address)) in engines {
        assert_eq!((&engine.name, engine.url.port()), (name, Some(address.port())));
        assert!(address.ip().is_loopback());
    }
    assert_eq!(settings.engines.len(), 3);
    assert_eq!(settings.listen[0].address, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(settings.admin.address, SocketAddr::from(([127, 0, 0, 1], 9090)));
    assert_eq!(settings.hedge.delay_initial.as_millis(), 200);
}

#[test]
fn the_greeting_names_questions_of_the_corpus_at_hand() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let embedded = start(Some(&folder), SEED).unwrap();
    let text = greeting(&embedded, 8080, 9090);
    assert!(text.contains("'q=") && !text.contains("what is a hedge"), "{text}");
}
