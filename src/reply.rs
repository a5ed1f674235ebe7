//! What goes back to a caller, before it has become bytes: made by a spine, written by the edge.
//!
//! The edge adds what every response has (date, length, request identity, connection) and what the
//! parts here imply (limits, timings, cache status). A `HEAD` request gets the same reply; the edge
//! leaves the body out.

use std::time::Duration;

use crate::model::{Account, CacheReport, RateState, Refusal};
use crate::problem;
use crate::trail::Trail;

/// The status under which a request is accounted whose caller left before its answer was there;
/// never sent. The number is nginx's.
pub const PEER_GONE: u16 = 499;

/// What a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// `application/json`.
    Json,
    /// `application/problem+json`.
    Problem,
    /// `text/plain` in UTF-8.
    Text,
    /// No body and no field that speaks of one: for status 204.
    Nothing,
}

/// One response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status, 200..=599.
    pub status: u16,
    /// What `body` is.
    pub content: Content,
    /// The body; the edge keeps the buffer for later replies.
    pub body: Vec<u8>,
    /// The request's name, harmless in a header (`ids`).
    pub request_id: String,
    /// Where the key's bucket stands, once the key is known.
    pub rate: Option<RateState>,
    /// Where the answer came from, for answers.
    pub cache: Option<CacheReport>,
    /// The stages passed so far.
    pub trail: Option<Trail>,
    /// Whom and what it is accounted to, once the key is known.
    pub account: Option<Account>,
    /// The code of the refusal that it is, for the metrics.
    pub code: Option<&'static str>,
    /// When to try again; sent as whole seconds, rounded up, at least 1.
    pub retry_after: Option<Duration>,
    /// The methods allowed, for 405 and OPTIONS.
    pub allow: Option<&'static str>,
    /// Whether to ask for a bearer token, for 401.
    pub challenge: bool,
    /// Whether the connection must close after it.
    pub close: bool,
}

impl Reply {
    /// A reply with a body and nothing else to say.
    pub fn new(status: u16, content: Content, body: Vec<u8>, request_id: String) -> Self {
        Self {
            status,
            content,
            body,
            request_id,
            rate: None,
            cache: None,
            trail: None,
            account: None,
            code: None,
            retry_after: None,
            allow: None,
            challenge: false,
            close: false,
        }
    }

    /// What is accounted, and not sent, for a request whose caller left before its answer.
    pub fn peer_gone(trail: Option<Trail>, account: Option<Account>) -> Self {
        let nothing = Self::new(PEER_GONE, Content::Nothing, Vec::new(), String::new());
        Self { trail, account, ..nothing }
    }

    /// The reply to a request that is refused; `rate` where the key is known.
    pub fn refused(refusal: &Refusal, request_id: String, rate: Option<RateState>) -> Self {
        Self::refused_into(Vec::new(), refusal, request_id, rate)
    }

    /// As `refused`, with the body written into `buffer`, whose content is thrown away.
    pub fn refused_into(
        mut buffer: Vec<u8>,
        refusal: &Refusal,
        request_id: String,
        rate: Option<RateState>,
    ) -> Self {
        buffer.clear();
        problem::problem(refusal, &request_id, &mut buffer);
        Self {
            rate,
            code: Some(refusal.code()),
            retry_after: refusal.retry_after(),
            allow: refusal.allow(),
            challenge: matches!(refusal, Refusal::Unauthorized),
            close: refusal.closes(),
            ..Self::new(refusal.status(), Content::Problem, buffer, request_id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_brings_what_its_headers_need() {
        let refused = |refusal: &Refusal| Reply::refused(refusal, "id".into(), None);
        assert!(refused(&Refusal::Unauthorized).challenge);
        assert_eq!(refused(&Refusal::MethodNotAllowed("GET")).allow, Some("GET"));
        assert!(refused(&Refusal::BadRequest("x")).close);
        assert!(!refused(&Refusal::NotFound).close);
        assert!(refused(&Refusal::Overloaded).retry_after.is_some());
    }

    #[test]
    fn a_used_buffer_leaves_no_trace() {
        let buffer = b"what another caller was told".to_vec();
        let reply = Reply::refused_into(buffer, &Refusal::NotFound, "id".into(), None);
        assert_eq!(reply.body, Reply::refused(&Refusal::NotFound, "id".into(), None).body);
    }
}
