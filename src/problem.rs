//! What a refusal tells the caller: status, code, advice, and the problem document of RFC 9457.
//!
//! The codes are the API's contract: agents branch on them, so none is ever renamed. `detail` says
//! what to do next, never what went wrong inside. One table, so that a new refusal cannot be
//! half-described.

use std::time::Duration;

use serde::Serialize;

use crate::model::{FieldError, Refusal};

const TYPE_PREFIX: &str = "urn:problem-type:hedgerow:";

/// How soon a refused caller may try again where no bucket or breaker knows better.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// The fixed part of a refusal: status, code, title, advice, whether the same request may succeed
/// later.
type Row = (u16, &'static str, &'static str, &'static str, bool);

impl Refusal {
    /// The HTTP status, 400..=599.
    pub fn status(&self) -> u16 {
        self.row().0
    }

    /// The API's name for it, from a closed set.
    pub fn code(&self) -> &'static str {
        self.row().1
    }

    /// A few words for people; the same for each refusal of one code.
    pub fn title(&self) -> &'static str {
        self.row().2
    }

    /// Whether the same request, unchanged, may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.row().4
    }

    /// When to try again: always there for 429 and 503.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(span) | Self::CreditsExhausted(span) => Some(*span),
            Self::EnginesUnavailable(span) | Self::NoValidAnswer(span) => Some(*span),
            Self::Overloaded | Self::DeadlineExceeded | Self::TimeoutTooShort(_) => {
                Some(RETRY_SOON)
            }
            _ => None,
        }
    }

    /// Whether the connection must close: its next byte cannot be trusted to begin a request.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::BadRequest(_)
                | Self::TooSlow
                | Self::BodyTooLarge(_)
                | Self::TargetTooLong(_)
                | Self::ExpectationFailed
                | Self::HeadersTooLarge(_)
                | Self::NotImplemented(_)
                | Self::VersionNotSupported
                | Self::Internal
        )
    }

    /// The methods to name in `Allow`.
    pub fn allow(&self) -> Option<&'static str> {
        match self {
            Self::MethodNotAllowed(methods) => Some(methods),
            _ => None,
        }
    }

    /// What the caller should do.
    pub fn detail(&self) -> String {
        match self {
            Self::BadRequest(what) | Self::Forbidden(what) | Self::NotImplemented(what) => {
                (*what).to_owned()
            }
            Self::MethodNotAllowed(methods) => format!("Use one of: {methods}."),
            Self::BodyTooLarge(max) => format!("Send a body of at most {max} bytes."),
            Self::TargetTooLong(max) => {
                format!("Send at most {max} bytes of request line, or use POST.")
            }
            Self::HeadersTooLarge(max) => {
                format!("Send fewer header fields, of at most {max} bytes in all.")
            }
            Self::TimeoutTooShort(least) => {
                let least_ms = least.as_micros().div_ceil(1_000);
                format!(
                    "No engine can be asked in so short a time: give timeout_ms (or X-Deadline-Ms) \
                     at least {least_ms}, or leave it out."
                )
            }
            _ => self.row().3.to_owned(),
        }
    }

    fn row(&self) -> Row {
        match self {
            Self::BadRequest(_) => (400, "invalid_request", "Not a valid HTTP request", "", false),
            Self::Invalid(_) => (
                400,
                "invalid_request",
                "Invalid request",
                "Correct the fields named in errors and send the request again.",
                false,
            ),
            Self::Unauthorized => (
                401,
                "unauthorized",
                "No valid API key",
                "Send a valid key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
                false,
            ),
            Self::Forbidden(_) => (403, "forbidden", "Not allowed for this API key", "", false),
            Self::NotFound => (
                404,
                "not_found",
                "No such resource",
                "Search is at /search/lite and /search/fast.",
                false,
            ),
            Self::MethodNotAllowed(_) => {
                (405, "method_not_allowed", "Method not allowed here", "", false)
            }
            Self::TooSlow => (
                408,
                "request_timeout",
                "The request took too long to arrive",
                "Send the whole request at once, on a new connection.",
                true,
            ),
            Self::BodyTooLarge(_) => (413, "payload_too_large", "The body is too large", "", false),
            Self::TargetTooLong(_) => {
                (414, "uri_too_long", "The request target is too long", "", false)
            }
            _ => self.later_row(),
        }
    }

    fn later_row(&self) -> Row {
        match self {
            Self::UnsupportedMediaType => (
                415,
                "unsupported_media_type",
                "The body is not plain JSON",
                "Send JSON as 'Content-Type: application/json', without a Content-Encoding.",
                false,
            ),
            Self::ExpectationFailed => (
                417,
                "expectation_failed",
                "Unknown expectation",
                "Send no Expect field, or 'Expect: 100-continue'.",
                false,
            ),
            Self::RateLimited(_) => (
                429,
                "rate_limited",
                "Too many requests for this API key",
                "Wait for the seconds given in Retry-After, then send the request again.",
                true,
            ),
            Self::CreditsExhausted(_) => (
                429,
                "credits_exhausted",
                "The plan's credits are used up",
                "Wait for the new period given in Retry-After, or use a plan with more credits.",
                false,
            ),
            Self::HeadersTooLarge(_) => {
                (431, "headers_too_large", "The header fields are too large", "", false)
            }
            Self::Internal => (
                500,
                "internal",
                "A fault of ours",
                "Send the request again, once; report the request_id if it fails again.",
                true,
            ),
            Self::NotImplemented(_) => (501, "not_implemented", "Not implemented here", "", false),
            _ => self.unavailable_row(),
        }
    }

    fn unavailable_row(&self) -> Row {
        match self {
            Self::VersionNotSupported => {
                (505, "version_not_supported", "Unknown version of HTTP", "Use HTTP/1.1.", false)
            }
            Self::NotCached => (
                504,
                "not_cached",
                "Not in the cache",
                "Send the request again without cache=only-if-cached to have it answered.",
                false,
            ),
            Self::Overloaded => (
                503,
                "overloaded",
                "No room for one more request",
                "Wait for the seconds given in Retry-After, then send the request again.",
                true,
            ),
            Self::DeadlineExceeded | Self::TimeoutTooShort(_) => (
                503,
                "deadline_exceeded",
                "No valid answer in time",
                "Send the request again after Retry-After; give it more time if you shortened it.",
                true,
            ),
            Self::NoValidAnswer(_) => (
                503,
                "no_valid_answer",
                "No engine gave a valid answer",
                "Send the request again after Retry-After, or ask in other words.",
                true,
            ),
            _ => (
                503,
                "engines_unavailable",
                "No engine may be asked at the moment",
                "Wait for the seconds given in Retry-After, then send the request again.",
                true,
            ),
        }
    }
}

/// Whole seconds for `Retry-After`: rounded up, at least 1.
pub fn retry_after_s(span: Duration) -> u64 {
    whole_seconds(span).max(1)
}

/// Whole seconds, rounded up.
pub fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    request_id: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

/// Appends the problem document of `refusal` to `out`.
pub fn problem(refusal: &Refusal, request_id: &str, out: &mut Vec<u8>) {
    let code = refusal.code();
    let document = Problem {
        r#type: &format!("{TYPE_PREFIX}{code}"),
        title: refusal.title(),
        status: refusal.status(),
        detail: &refusal.detail(),
        code,
        request_id,
        retryable: refusal.is_retryable(),
        retry_after_s: refusal.retry_after().map(retry_after_s),
        errors: match refusal {
            Refusal::Invalid(errors) => errors,
            _ => &[],
        },
    };
    let written = serde_json::to_writer(out, &document);
    debug_assert!(written.is_ok(), "strings and numbers always serialise");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Refusal> {
        let span = Duration::from_millis(1_200);
        let field = FieldError { pointer: "#/query".into(), detail: "say \"what\"".into() };
        vec![
            Refusal::BadRequest("bare LF"),
            Refusal::Invalid(vec![field]),
            Refusal::Unauthorized,
            Refusal::Forbidden("not in the plan"),
            Refusal::NotFound,
            Refusal::MethodNotAllowed("GET"),
            Refusal::TooSlow,
            Refusal::BodyTooLarge(65_536),
            Refusal::TargetTooLong(16_384),
            Refusal::UnsupportedMediaType,
            Refusal::ExpectationFailed,
            Refusal::RateLimited(span),
            Refusal::CreditsExhausted(span),
            Refusal::HeadersTooLarge(16_384),
            Refusal::NotImplemented("gzip"),
            Refusal::VersionNotSupported,
            Refusal::Overloaded,
            Refusal::DeadlineExceeded,
            Refusal::TimeoutTooShort(span),
            Refusal::NoValidAnswer(span),
            Refusal::EnginesUnavailable(Duration::ZERO),
            Refusal::NotCached,
            Refusal::Internal,
        ]
    }

    #[test]
    fn every_refusal_is_a_problem_with_advice() {
        for refusal in every() {
            let mut out = Vec::new();
            problem(&refusal, "id-1", &mut out);
            let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(read["status"], refusal.status());
            assert_eq!(read["code"], refusal.code());
            assert_eq!(read["request_id"], "id-1");
            assert_eq!(read["type"], format!("{TYPE_PREFIX}{}", refusal.code()));
            assert_eq!(read["retryable"], refusal.is_retryable());
            assert!(!read["title"].as_str().unwrap_or_default().is_empty(), "{refusal:?}");
            assert!(!read["detail"].as_str().unwrap_or_default().is_empty(), "{refusal:?}");
        }
    }

    #[test]
    fn too_many_and_unavailable_always_say_when_to_come_back() {
        for refusal in every() {
            let waits = matches!(refusal.status(), 429 | 503);
            assert_eq!(refusal.retry_after().is_some(), waits, "{refusal:?}");
            assert!(refusal.retry_after().is_none_or(|span| retry_after_s(span) >= 1));
        }
    }

    #[test]
    fn codes_and_statuses_are_the_contract() {
        let got: Vec<_> =
            every().iter().map(|refusal| (refusal.status(), refusal.code())).collect();
        let expected = [
            (400, "invalid_request"),
            (400, "invalid_request"),
            (401, "unauthorized"),
            (403, "forbidden"),
            (404, "not_found"),
            (405, "method_not_allowed"),
            (408, "request_timeout"),
            (413, "payload_too_large"),
            (414, "uri_too_long"),
            (415, "unsupported_media_type"),
            (417, "expectation_failed"),
            (429, "rate_limited"),
            (429, "credits_exhausted"),
            (431, "headers_too_large"),
            (501, "not_implemented"),
            (505, "version_not_supported"),
            (503, "overloaded"),
            (503, "deadline_exceeded"),
            (503, "deadline_exceeded"),
            (503, "no_valid_answer"),
            (503, "engines_unavailable"),
            (504, "not_cached"),
            (500, "internal"),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn too_short_a_time_is_told_with_the_least_that_is_enough() {
        for (least_us, expected) in [(72_000, "at least 72,"), (72_001, "at least 73,")] {
            let detail = Refusal::TimeoutTooShort(Duration::from_micros(least_us)).detail();
            assert!(detail.contains("timeout_ms") && detail.contains(expected), "{detail}");
        }
    }

    #[test]
    fn seconds_round_up() {
        let check = |ms, expected| assert_eq!(retry_after_s(Duration::from_millis(ms)), expected);
        check(0, 1);
        check(1, 1);
        check(1_000, 1);
        check(1_001, 2);
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
