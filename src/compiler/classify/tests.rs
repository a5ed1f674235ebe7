//! The lists against questions labelled by hand. `labelled.tsv` guided the choice of words,
//! `held_out.tsv` did not but has the same author and manner. `bare.tsv` is what lists cannot
//! know: names and things without a telling word.

use super::*;

const LABELLED: &str = include_str!("../data/labelled.tsv");
const BARE: &str = include_str!("../data/bare.tsv");
const HELD_OUT: &str = include_str!("../data/held_out.tsv");

struct Rates {
    count: usize,
    /// News that would be kept longer than an hour.
    stale: usize,
    accuracy: f64,
    news_recall: f64,
    wrong: Vec<String>,
}

fn measured(file: &str) -> Rates {
    let classifier = Classifier::new();
    let (mut count, mut right, mut news, mut news_found) = (0, 0, 0, 0);
    let (mut stale, mut wrong) = (0, Vec::new());
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [lang, class, query] = fields[..] else { panic!("{line}") };
        let expected = Class::ALL.into_iter().find(|known| known.name() == class).unwrap();
        let got = classifier.classify(&query.to_lowercase());
        count += 1;
        right += usize::from(got == expected);
        if expected == Class::News {
            news += 1;
            news_found += usize::from(got == Class::News);
            stale += usize::from(!matches!(got, Class::News | Class::Longtail));
        }
        if got != expected {
            wrong.push(format!("{lang} {query:.60}: {} for {class}", got.name()));
        }
    }
    let ratio = |part: usize, whole: usize| part as f64 / whole as f64;
    Rates {
        count,
        stale,
        accuracy: ratio(right, count),
        news_recall: ratio(news_found, news),
        wrong,
    }
}

/// Asserts least rates, showing what was judged wrong.
fn check(file: &str, count_min: usize, stale_max: usize, accuracy_min: f64, news_recall_min: f64) {
    let rates = measured(file);
    let Rates { count, stale, accuracy, news_recall, wrong } = &rates;
    println!("{count} questions: accuracy {accuracy:.3}, news recall {news_recall:.3}: {wrong:#?}");
    assert!(*stale <= stale_max, "{stale} kept as if they were no news: {wrong:#?}");
    assert!(*count >= count_min, "{count} questions");
    assert!(*accuracy >= accuracy_min, "accuracy {accuracy:.3}: {wrong:#?}");
    assert!(*news_recall >= news_recall_min, "news recall {news_recall:.3}: {wrong:#?}");
}

#[test]
fn labelled_questions_are_judged_right() {
    check(LABELLED, 160, 0, 0.85, 0.97);
}

#[test]
fn held_out_questions_are_judged_nearly_as_well() {
    check(HELD_OUT, 80, 0, 0.85, 0.97);
}

#[test]
fn bare_names_may_be_news() {
    check(BARE, 40, 1, 0.5, 0.9);
}

#[test]
fn list_files_hold_known_kinds_and_words_of_their_own() {
    for list in LISTS {
        let mut seen = std::collections::BTreeSet::new();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let kind = line.split_once(':').and_then(|(kind, _)| Kind::named(kind));
            assert!(kind.is_some(), "{line}");
            for (kind, word) in words(line) {
                let core = word.trim_matches('*');
                assert!(!core.is_empty() && !core.contains('*'), "{word}");
                assert_eq!(core.to_lowercase(), core, "{word} is in lower case");
                assert!(seen.insert((kind as u8, word)), "{word} is there twice");
            }
        }
        assert!(seen.len() > 150);
    }
}

#[test]
fn words_end_at_their_edges() {
    let classifier = Classifier::new();
    let class = |query: &str| classifier.classify(query);
    assert_eq!(class("five known knights of the shire"), Class::Longtail);
    assert_eq!(class("what is known"), Class::Evergreen);
    assert_eq!(class("nba结果"), Class::News);
    assert_eq!(class("elecciones"), class("elecciónes"));
    assert_eq!(class("aujourd’hui paris"), Class::News);
    assert_eq!(class("bundestagswahl"), Class::News);
    assert_eq!(class(""), Class::News);
}

#[test]
fn what_might_be_news_is_news() {
    let classifier = Classifier::new();
    for query in [
        "latest election results today",
        "what is the weather in berlin",
        "what is the bitcoin price",
        "olympics 2026",
        "earthquake",
    ] {
        assert_eq!(classifier.classify(query), Class::News, "{query}");
    }
    for query in ["what is an earthquake", "world war 2", "olympics 1936"] {
        assert_ne!(classifier.classify(query), Class::News, "{query}");
    }
}
