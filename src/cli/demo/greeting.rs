//! What `hedgerow demo` says when it runs: what there is, three commands to try, where to look, how
//! to stop. Each command works as it stands in a POSIX shell with curl, grep and nothing else.

use super::corpus::Section;
use super::index::Question;

/// Questions for the documents of the project. With `SEED` some are slow on one slow engine and
/// quick on the other, so that a hedge is seen; `demo`'s tests hold that.
const QUESTIONS: [&str; QUESTIONS_COUNT] = [
    "what is a hedge",
    "how does a drain end",
    "which limits has a connection",
    "what does a breaker count",
    "why is an empty list no answer",
    "when is a cached page fresh",
];

/// One to ask twice, and five for the slow engines.
pub(super) const QUESTIONS_COUNT: usize = 6;

/// Words of a question that is made from a title.
const TITLE_WORDS_MAX: usize = 6;

/// The project's own.
pub(super) fn questions() -> Vec<String> {
    QUESTIONS.map(str::to_owned).to_vec()
}

/// Questions that a corpus answers: titles from all over it. Letters, digits and spaces only, so
/// that no shell reads anything into them.
pub(super) fn questions_for(sections: &[Section]) -> Vec<String> {
    let step = (sections.len() / QUESTIONS_COUNT).max(1);
    let mut questions: Vec<String> = Vec::new();
    for section in sections.iter().step_by(step) {
        let question = asked(&section.title);
        if !question.is_empty() && !questions.contains(&question) {
            questions.push(question);
        }
    }
    questions.truncate(QUESTIONS_COUNT);
    questions
}

fn asked(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let question = words.take(TITLE_WORDS_MAX).collect::<Vec<_>>().join(" ").to_lowercase();
    if Question::new(&question).is_empty() { String::new() } else { question }
}

/// The text, with a line break at its end.
pub(super) fn text(
    sections: usize,
    skipped: usize,
    questions: &[String],
    port: u16,
    admin_port: u16,
) -> String {
    let first = questions.first().map_or("hedge", String::as_str);
    let others: Vec<String> = questions.iter().skip(1).map(|one| format!("'{one}'")).collect();
    let others = if others.is_empty() { format!("'{first}'") } else { others.join(" ") };
    let left_out = match skipped {
        0 => String::new(),
        skipped => format!("; {skipped} files were left out (too long, too many or not readable)"),
    };
    let ask = format!("curl -sG http://127.0.0.1:{port}/search/fast -H 'X-API-Key: demo'");
    format!(
        "\
hedgerow serves on http://127.0.0.1:{port}, API key `demo`. Behind it three embedded engines search
{sections} sections{left_out}: alpha answers in 5 to 40 ms; beta and gamma
are slow (p50 164, p90 404, p99 977 ms).

1. Ask. \"engines\" at the end of the answer says who was asked and what came of it:
   {ask} --data-urlencode 'q={first}'; echo

2. Ask again: \"cache\" says hit, and \"latency_ms\" is what is left without an engine:
   {ask} --data-urlencode 'q={first}' | grep -o '\"latency_ms.*\"ttl_ms\":[0-9]*'

3. Ask only the slow ones. Where one is late (200 ms here), the other gets a hedge; the first valid
   answer wins and the loser is cancelled:
   for q in {others}; do echo \"$q\"; {ask} -d engines=beta,gamma --data-urlencode \"q=$q\" | \
grep -o '\"name\":[^}}]*'; done

Live page http://127.0.0.1:{admin_port}/   metrics http://127.0.0.1:{admin_port}/metrics   \
percentiles http://127.0.0.1:{admin_port}/v1/latency
Ctrl-C drains and stops.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(title: &str) -> Section {
        Section { title: title.into(), url: String::new(), text: String::new() }
    }

    fn check(titles: &[&str], expected: &[&str]) {
        let sections: Vec<Section> = titles.iter().map(|title| section(title)).collect();
        assert_eq!(questions_for(&sections), expected);
    }

    #[test]
    fn questions_are_made_from_titles_and_hold_nothing_a_shell_reads() {
        check(&["It's $(rm -rf) `x`; \"y\"", "A", "A", "…"], &["it s rm rf x y", "a"]);
        check(&[], &[]);
    }

    #[test]
    fn questions_come_from_all_over_the_corpus() {
        let titles: Vec<String> = (0..60).map(|n| format!("t{n}")).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        check(&titles, &["t0", "t10", "t20", "t30", "t40", "t50"]);
    }

    #[test]
    fn without_questions_there_still_is_a_command() {
        let text = text(1, 2, &[], 8080, 9090);
        assert!(text.contains("for q in 'hedge'; do"), "{text}");
        assert!(text.contains("2 files were left out"));
    }

    #[test]
    fn both_ports_are_named() {
        let text = text(1, 0, &questions(), 1234, 5678);
        assert_eq!(text.matches(":1234").count(), 4);
        assert_eq!(text.matches(":5678").count(), 3);
    }
}
