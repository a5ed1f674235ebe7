//! One typed verdict for one answer. Status 200 is where the judgement begins: the order of the
//! tests is redirect, wall, error inside the body, status, schema, rows, emptiness.
//!
//! Pure over status, headers and body; transport errors, timeouts and cancelled legs are judged by
//! whoever holds the connection. The detail is one of a closed set, for logs and metrics: it never
//! quotes the engine. Units: `retry_after` is at most a day.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

use foldhash::fast::FixedState;
use jiff::civil;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

use super::json::Json;
use super::schema::{Judge, Meaning, When};
use super::{detect, parse};
use crate::config::settings;
use crate::model::{Item, Plan, Verdict};
use crate::text;

/// The longest that an engine is left alone, whatever it asks for.
pub(super) const REST_MAX: Duration = Duration::from_secs(86_400);
/// SearXNG's own figure for too many requests (its `suspended_times`).
const REST_THROTTLED_S: u64 = 180;
/// A spent quota or a refused key is for a person to mend; once an hour is often enough to look.
const REST_OPERATOR_S: u64 = 3_600;
/// Two honest answers to different questions can share one or two pages, and do in a small wiki.
const REPEAT_ITEMS_MIN: usize = 3;

/// What an engine sent, whole and decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// 200..=599.
    pub status: u16,
    /// Names in lower case.
    pub headers: &'a [(String, String)],
    /// Without transfer and content coding.
    pub body: &'a [u8],
    /// The question's text as it was sent.
    pub asked: &'a str,
}

impl<'a> Received<'a> {
    /// The first field of that name, trimmed.
    pub fn header(&self, lower_case_name: &str) -> Option<&'a str> {
        let field = self.headers.iter().find(|(name, _)| name == lower_case_name)?;
        Some(field.1.trim())
    }
}

/// A verdict and what comes with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The one judgement.
    pub verdict: Verdict,
    /// Clean items in the engine's order; empty unless the verdict is `Valid`.
    pub items: Vec<Item>,
    /// How long the engine should be left alone, if it says so or its refusal implies it.
    pub retry_after: Option<Duration>,
    /// Why, out of `Finding`'s names.
    pub detail: &'static str,
    /// A stable hash of the items; 0 where there are too few to tell answers apart.
    pub body_hash: u64,
    /// Whether it is an answer to the question that was asked on this connection.
    pub is_in_step: bool,
}

/// What was found, finer than a verdict; its names are the metric's label values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A whole usable list.
    Whole,
    /// A usable list that the engine says is not all.
    Partial,
    /// Nothing, where that is an answer.
    Empty,
    /// Nothing, where something must be.
    UnexpectedEmpty,
    /// A browser check.
    Challenge,
    /// A test for humans.
    Captcha,
    /// A consent wall.
    Consent,
    /// To another host.
    RedirectedAway,
    /// To another place of the same host.
    Redirected,
    /// The engine says that it, or all engines behind it, are locked out.
    Suspended,
    /// No byte of body, from an engine that does so to unwanted callers.
    SilentBody,
    /// No byte of body.
    EmptyBody,
    /// A page instead of JSON.
    Html,
    /// No JSON.
    NotJson,
    /// The list is not there.
    ListMissing,
    /// Something else is in the list's place, or the body breaks the schema.
    WrongType,
    /// More than half of the rows lack something.
    RowsIncomplete,
    /// The answer says that it is to another question.
    OtherQuestion,
    /// Too many calls.
    Throttled,
    /// Calls used up.
    Quota,
    /// The key is refused.
    Auth,
    /// 4xx: the call is refused.
    Refused,
    /// 5xx.
    ServerError,
    /// An error inside a body.
    ApiError,
}

impl Finding {
    /// As in logs and metrics, and what it counts as.
    pub const fn name_and_verdict(self) -> (&'static str, Verdict) {
        match self {
            Self::Whole => ("whole", Verdict::Valid),
            Self::Partial => ("partial", Verdict::Valid),
            Self::Empty => ("empty", Verdict::Empty),
            Self::UnexpectedEmpty => ("unexpected_empty", Verdict::UnexpectedEmpty),
            Self::Challenge => ("challenge", Verdict::Blocked),
            Self::Captcha => ("captcha", Verdict::Blocked),
            Self::Consent => ("consent", Verdict::Blocked),
            Self::RedirectedAway => ("redirected_away", Verdict::Blocked),
            Self::Suspended => ("suspended", Verdict::Blocked),
            Self::SilentBody => ("silent_body", Verdict::Blocked),
            Self::EmptyBody => ("empty_body", Verdict::Malformed),
            Self::Html => ("html", Verdict::Malformed),
            Self::NotJson => ("not_json", Verdict::Malformed),
            Self::ListMissing => ("list_missing", Verdict::Malformed),
            Self::WrongType => ("wrong_type", Verdict::Malformed),
            Self::RowsIncomplete => ("rows_incomplete", Verdict::Malformed),
            Self::OtherQuestion => ("other_question", Verdict::Malformed),
            Self::Throttled => ("throttled", Verdict::Throttled),
            Self::Quota => ("quota", Verdict::Throttled),
            Self::Auth => ("auth", Verdict::Failed),
            Self::Redirected => ("redirected", Verdict::Failed),
            Self::Refused => ("refused", Verdict::Failed),
            Self::ServerError => ("server_error", Verdict::Failed),
            Self::ApiError => ("api_error", Verdict::Failed),
        }
    }
}

impl Judged {
    fn of(finding: Finding) -> Self {
        let (detail, verdict) = finding.name_and_verdict();
        let is_in_step = finding != Finding::OtherQuestion;
        Self { verdict, items: Vec::new(), retry_after: None, detail, body_hash: 0, is_in_step }
    }
}

/// Judges what `engine` sent for `plan`.
pub fn judge(engine: &settings::Engine, plan: &Plan, received: &Received<'_>) -> Judged {
    let judge = &engine.manifest.judge;
    let sent = text::repair_surrogates(received.body.trim_ascii());
    let json = match refusal_without_json(engine, received, &sent) {
        Ok(json) => json,
        Err(finding) => return Judged::of(finding).resting(judge, received, None),
    };
    if let Some(meaning) = refusal_with_json(judge, received, json.as_ref()) {
        let finding = finding_of(meaning, plan, received.status);
        return Judged::of(finding).resting(judge, received, json.as_ref());
    }
    let Some(body) = json else {
        let is_html = received.body.trim_ascii_start().starts_with(b"<");
        return Judged::of(if is_html { Finding::Html } else { Finding::NotJson });
    };
    if is_to_another_question(&engine.manifest.answer.question, &body, received.asked) {
        return Judged::of(Finding::OtherQuestion);
    }
    let list = match parse::list(&engine.manifest, &body) {
        parse::List::Rows(rows) => rows,
        parse::List::DocumentedAbsence => &[],
        parse::List::Missing => return Judged::of(Finding::ListMissing),
        parse::List::WrongType => return Judged::of(Finding::WrongType),
    };
    let rows = parse::rows(&engine.manifest, &engine.url, &body, list);
    if rows.count == 0 {
        let meaning = rule(judge, When::Empty, received.status, &body).unwrap_or(Meaning::Empty);
        let finding = finding_of(meaning, plan, received.status);
        return Judged::of(finding).resting(judge, received, Some(&body));
    }
    if rows.whole_count * 2 < rows.count || rows.items.is_empty() {
        return Judged::of(Finding::RowsIncomplete);
    }
    let is_partial = judge.partial.iter().any(|test| test.holds(&body));
    let finding = if is_partial { Finding::Partial } else { Finding::Whole };
    Judged { body_hash: hash(&rows.items), items: rows.items, ..Judged::of(finding) }
}

/// Whether the answer repeats a question, and not the one that was asked. White space and case do
/// not count; an answer that repeats nothing is believed.
fn is_to_another_question(places: &[parse::Pointer], body: &Json<'_>, asked: &str) -> bool {
    let said = places.iter().find_map(|place| place.text(body));
    let letters = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
    };
    said.is_some_and(|said| said != asked && letters(&said) != letters(asked))
}

/// The tests that need no JSON; gives the JSON that was sent, if it is that.
fn refusal_without_json<'v>(
    engine: &'v settings::Engine,
    received: &Received<'_>,
    sent: &'v [u8],
) -> Result<Option<Json<'v>>, Finding> {
    if matches!(received.status, 300..=399) {
        return Err(detect::redirect(&engine.url, received.header("location")));
    }
    if sent.is_empty() && received.status < 300 {
        return Err(match engine.manifest.judge.empty_body {
            Some(Meaning::Blocked) => Finding::SilentBody,
            _ => Finding::EmptyBody,
        });
    }
    let json = Json::read(sent, &parse::keys(&engine.manifest));
    if json.is_none()
        && let Some(finding) = detect::find_wall(received)
    {
        return Err(finding);
    }
    Ok(json)
}

/// The engine's own errors, then what the status says.
fn refusal_with_json(
    judge: &Judge,
    received: &Received<'_>,
    json: Option<&Json<'_>>,
) -> Option<Meaning> {
    let status = received.status;
    if let Some(meaning) = json.and_then(|body| rule(judge, When::Always, status, body)) {
        return Some(meaning);
    }
    let known = judge.status.iter().find(|(code, _)| code.0 == status);
    match (known, status) {
        (Some((_, meaning)), _) => Some(*meaning),
        (None, 401 | 403 | 407) => Some(Meaning::Auth),
        (None, 402 | 432 | 433) => Some(Meaning::Quota),
        (None, 429) => Some(Meaning::Throttled),
        (None, 200..=299) => None,
        (None, _) => Some(Meaning::Failed),
    }
}

/// The first rule of that time that holds.
fn rule(judge: &Judge, when: When, status: u16, body: &Json<'_>) -> Option<Meaning> {
    let holds = judge.errors.iter().find(|rule| {
        rule.when == when
            && (rule.status.is_empty() || rule.status.contains(&status))
            && rule.test.holds(body)
    });
    holds.map(|rule| rule.means)
}

const fn finding_of(meaning: Meaning, plan: &Plan, status: u16) -> Finding {
    match meaning {
        Meaning::Auth => Finding::Auth,
        Meaning::Quota => Finding::Quota,
        Meaning::Throttled => Finding::Throttled,
        Meaning::Blocked => Finding::Suspended,
        Meaning::Malformed => Finding::WrongType,
        Meaning::Empty if plan.may_be_empty => Finding::Empty,
        Meaning::Empty => Finding::UnexpectedEmpty,
        Meaning::Failed => match status {
            200..=299 => Finding::ApiError,
            400..=499 => Finding::Refused,
            _ => Finding::ServerError,
        },
    }
}

impl Judged {
    /// With the rest that the engine asks for, the manifest knows, or the refusal implies.
    fn resting(self, judge: &Judge, received: &Received<'_>, json: Option<&Json<'_>>) -> Self {
        let meaning = match self.verdict {
            Verdict::Blocked => Meaning::Blocked,
            Verdict::Throttled if self.detail == "quota" => Meaning::Quota,
            Verdict::Throttled => Meaning::Throttled,
            Verdict::Failed if self.detail == "auth" => Meaning::Auth,
            Verdict::Failed => Meaning::Failed,
            _ => return self,
        };
        let implied_s = judge.rest_s.get(&meaning).copied().or(match meaning {
            Meaning::Throttled => Some(REST_THROTTLED_S),
            Meaning::Quota | Meaning::Auth => Some(REST_OPERATOR_S),
            _ => None,
        });
        let asked = asked_rest(judge, received, json);
        let rest = asked.or(implied_s.map(Duration::from_secs)).map(|rest| rest.min(REST_MAX));
        Self { retry_after: rest, ..self }
    }
}

/// What the engine says of when to come again.
fn asked_rest(judge: &Judge, received: &Received<'_>, json: Option<&Json<'_>>) -> Option<Duration> {
    let standard = || {
        let value = received.header("retry-after")?;
        seconds(value).or_else(|| {
            let rest_s = date_s(value)?.checked_sub(date_s(received.header("date")?)?)?;
            Some(Duration::from_secs(rest_s.try_into().ok()?))
        })
    };
    let from_headers = || judge.retry_after.iter().find_map(|name| windows(received, name));
    let from_body = || {
        let json = json?;
        judge.retry_after_at.iter().find_map(|at| seconds(&at.text(json)?))
    };
    standard().or_else(from_headers).or_else(from_body)
}

/// Whole seconds, rounded up; a day at the most.
fn seconds(text: &str) -> Option<Duration> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite())?;
    Duration::try_from_secs_f64(number.ceil().min(REST_MAX.as_secs_f64())).ok()
}

/// An HTTP date, in any of its three forms (RFC 9110 §5.6.7), in seconds since 1970.
fn date_s(text: &str) -> Option<i64> {
    let old = || {
        let forms = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
        let date = forms.iter().find_map(|form| civil::DateTime::strptime(form, text).ok())?;
        TimeZone::UTC.to_timestamp(date).ok()
    };
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok().or_else(old)?;
    Some(date.as_second())
}

/// A list of resets, one per window, beside the list of what remains in each: the longest reset of
/// a window with nothing left, or else the shortest.
fn windows(received: &Received<'_>, name: &str) -> Option<Duration> {
    let resets: Vec<Duration> = received.header(name)?.split(',').filter_map(seconds).collect();
    let remaining = received.header(&name.replace("reset", "remaining")).unwrap_or_default();
    let spent = resets.iter().zip(remaining.split(',')).filter(|(_, left)| left.trim() == "0");
    spent.map(|(reset, _)| *reset).max().or_else(|| resets.iter().copied().min())
}

/// The same for the same items on every machine and in every run.
fn hash(items: &[Item]) -> u64 {
    if items.len() < REPEAT_ITEMS_MIN {
        return 0;
    }
    let mut hasher = FixedState::default().build_hasher();
    for item in items {
        (&item.url, &item.title, &item.snippet).hash(&mut hasher);
    }
    hasher.finish().max(1)
}

/// Notices an engine that gives one page to all questions, as some walls do: the list of an answer
/// is that of the answer before, and the questions are not alike.
///
/// Two questions are alike if half of their words are the same, or one holds all words of the
/// other: such may honestly have the same pages.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    question: String,
    body_hash: u64,
}

impl Echo {
    /// Whether this answer repeats the one before; remembers it either way.
    pub fn check(&mut self, normalised: &str, body_hash: u64) -> bool {
        if body_hash == 0 {
            return false;
        }
        let is_repeated = body_hash == self.body_hash && !are_alike(normalised, &self.question);
        normalised.clone_into(&mut self.question);
        self.body_hash = body_hash;
        is_repeated
    }
}

fn are_alike(one: &str, other: &str) -> bool {
    let words = |question: &str| -> BTreeSet<String> {
        question.split_whitespace().map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    let common = one.intersection(&other).count();
    let all = one.len() + other.len() - common;
    common == one.len().min(other.len()) || common * 2 >= all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_list_for_an_unlike_question_is_a_repeat() {
        let check = |questions: &[(&str, u64)], expected: &[bool]| {
            let mut echo = Echo::default();
            let found: Vec<bool> = questions.iter().map(|(q, h)| echo.check(q, *h)).collect();
            assert_eq!(found, expected, "{questions:?}");
        };
        check(
            &[("first question", 7), ("second question", 7), ("third question", 7)],
            &[false, true, true],
        );
        check(&[("first question", 7), ("second question", 8)], &[false, false]);
        check(&[("first question", 7), ("first question", 7)], &[false, false]);
        check(&[("rust http", 7), ("HTTP rust", 7), ("rust http crate", 7)], &[false; 3]);
        check(&[("a b c", 7), ("a b d", 7)], &[false, false]);
        check(&[("first", 0), ("second", 0)], &[false, false]);
        check(&[("first", 7), ("other", 0), ("second", 7)], &[false, false, true]);
    }

    #[test]
    fn few_items_say_nothing_and_more_say_the_same_each_time() {
        let item = |n: usize| Item { url: format!("https://h{n}.example/"), ..Item::default() };
        let items: Vec<Item> = (0..4).map(item).collect();
        assert_eq!(hash(&items[..2]), 0);
        assert_ne!(hash(&items[..3]), 0);
        assert_ne!(hash(&items[..3]), hash(&items));
        assert_eq!(hash(&items), hash(&items.clone()));
    }

    /// The rest of a 429 of Brave with these headers.
    fn check_rest(headers: &[(&str, &str)], expected_s: u64) {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let received = Received { status: 429, headers: &headers, body: b"{}", asked: "" };
        let engine = crate::engines::fixtures::engine("brave");
        let judged = judge(&engine, &crate::engines::fixtures::plan("x"), &received);
        assert_eq!(judged.verdict, Verdict::Throttled);
        assert_eq!(judged.retry_after, Some(Duration::from_secs(expected_s)), "{headers:?}");
    }

    #[test]
    fn an_engine_rests_for_as_long_as_it_says() {
        let reset = ("x-ratelimit-reset", "1, 389");
        check_rest(&[("retry-after", "30")], 30);
        check_rest(&[("retry-after", "0.2")], 1);
        check_rest(&[("retry-after", "99999999")], 86_400);
        check_rest(&[("retry-after", "-5")], REST_THROTTLED_S);
        check_rest(&[("retry-after", "soon")], REST_THROTTLED_S);
        check_rest(&[reset], 1);
        check_rest(&[reset, ("x-ratelimit-remaining", "0, 1977")], 1);
        check_rest(&[reset, ("x-ratelimit-remaining", "0, 0")], 389);
        check_rest(&[reset, ("x-ratelimit-remaining", "1, 0")], 389);
        check_rest(&[], REST_THROTTLED_S);
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for asked in [
            "Sun, 06 Nov 1994 08:50:37 GMT",
            "Sunday, 06-Nov-94 08:50:37 GMT",
            "Sun Nov  6 08:50:37 1994",
        ] {
            check_rest(&[("retry-after", asked), date], 60);
        }
        check_rest(&[("retry-after", "Sun, 06 Nov 1994 08:48:37 GMT"), date], REST_THROTTLED_S);
        for nonsense in ["", "120junk", "NaN", "-inf", "99999999999999999999999e400", "soon, 5"] {
            check_rest(&[("retry-after", nonsense)], REST_THROTTLED_S);
        }
        check_rest(&[("retry-after", "99999999999999999999")], 86_400);
        check_rest(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], REST_THROTTLED_S);
    }
}
