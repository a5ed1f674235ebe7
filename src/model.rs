//! The nouns that travel down a request's path: plain data, no behaviour beyond naming and parsing
//! of closed sets. Everything here is made by one stage and read by a later one.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use runtime::{Deadline, Instant};
use serde::{Deserialize, Serialize};

/// The two search endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// `/search/lite`: 5 results by default, no explanation.
    Lite,
    /// `/search/fast`: 10 results by default, with engines and images.
    Fast,
}

impl Endpoint {
    /// Both, in the order of their indexes.
    pub const ALL: [Self; 2] = [Self::Lite, Self::Fast];

    /// As in the path and the answer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lite => "lite",
            Self::Fast => "fast",
        }
    }

    /// 0 or 1, for tables by endpoint.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// How long an answer stays true, judged from its question. Ordered as in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// One site or page is meant.
    Navigational,
    /// Reference that outlives a day.
    Evergreen,
    /// Products and prices.
    Product,
    /// An agent's long question.
    Longtail,
    /// News and live events: never served stale.
    News,
}

impl Class {
    /// All, in the order of their indexes.
    pub const ALL: [Self; 5] =
        [Self::Navigational, Self::Evergreen, Self::Product, Self::Longtail, Self::News];

    /// As in the configuration, the answer and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Navigational => "navigational",
            Self::Evergreen => "evergreen",
            Self::Product => "product",
            Self::Longtail => "longtail",
            Self::News => "news",
        }
    }

    /// 0..5, for tables by class.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A part of the world with gateways of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Region {
    /// Europe.
    Eu,
    /// The Americas.
    Us,
    /// Asia and the Pacific.
    Apac,
}

/// `safe_search`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SafeSearch {
    /// No filter.
    Off,
    /// The engines' default.
    #[default]
    Moderate,
    /// As strict as the engine can.
    Strict,
}

/// `time_range`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeRange {
    /// The last 24 hours.
    Day,
    /// The last 7 days.
    Week,
    /// The last month.
    Month,
    /// The last year.
    Year,
}

/// `cache` of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CacheMode {
    /// Look, then ask.
    #[default]
    Default,
    /// Ask, then store.
    NoCache,
    /// Look only; a miss is a refusal.
    OnlyIfCached,
}

/// An engine's place in the configuration's list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EngineId(pub u16);

impl EngineId {
    /// For tables by engine.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An API key's place in the current key table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyId(pub u32);

/// A cache key: SHA-256 over everything that changes the answer, and nothing about the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:02x}{:02x}{:02x}{:02x})", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// What is asked, normalised; made by `compiler::compile`.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Which endpoint was called.
    pub endpoint: Endpoint,
    /// The question as asked (trimmed, control characters stripped): echoed in the answer.
    pub query: String,
    /// The question as sent to engines and as keyed (NFKC, lower case for the key only, operators
    /// sorted, tracking parameters gone).
    pub normalised: String,
    /// 1..=50.
    pub max_results: usize,
    /// 10, 20 or 50: what is fetched and stored.
    pub bucket: usize,
    /// ISO 3166-1 alpha-2, upper case; `None` is `all`.
    pub country: Option<[u8; 2]>,
    /// BCP 47, canonical case; `None` is `all`.
    pub lang: Option<String>,
    /// How recent results must be.
    pub time_range: Option<TimeRange>,
    /// How strict the filter is.
    pub safe_search: SafeSearch,
    /// Hosts that results must belong to (lower case); from the field and from `site:`.
    pub include_domains: Vec<String>,
    /// Hosts that results must not belong to; from the field and from `-site:`.
    pub exclude_domains: Vec<String>,
    /// Whether images are wanted.
    pub include_media: bool,
    /// The engines that may be asked, sorted; `None` is all.
    pub engines: Option<Vec<EngineId>>,
    /// The caller's own limit; shortens the deadline, never extends it.
    pub timeout: Option<Duration>,
    /// What the caller wants of the cache.
    pub cache: CacheMode,
    /// How long the answer stays true.
    pub class: Class,
    /// Where the answer is kept.
    pub key: Key,
    /// Whether an empty list may be a true answer (site-restricted or exact-match question).
    pub may_be_empty: bool,
    /// Unknown fields and the like, told to the caller.
    pub warnings: Vec<String>,
}

/// One result as an engine gave it, cleaned: plain text, a URL that parses as http or https.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Item {
    /// Plain text, perhaps empty.
    pub title: String,
    /// The engine's own form of the address.
    pub url: String,
    /// Plain text, perhaps empty.
    pub snippet: String,
    /// RFC 3339, UTC.
    pub published_date: Option<String>,
    /// The address of an image.
    pub image: Option<String>,
    /// The engine's own score, if it has one.
    pub score: Option<f64>,
}

/// A valid answer of one engine.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Who answered.
    pub engine: EngineId,
    /// In the engine's order, best first; empty only for a legitimate empty answer.
    pub items: Vec<Item>,
}

/// The one judgement of one upstream call. It alone feeds the winner, the breaker, the scores, the
/// hedge statistics and the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A usable list.
    Valid,
    /// An empty list where the question allows one.
    Empty,
    /// An empty list where there should be results.
    UnexpectedEmpty,
    /// A challenge, consent wall or suspended engine, recognised by structure.
    Blocked,
    /// Not of the engine's schema, or most results unusable.
    Malformed,
    /// Too many requests, or the quota is used up.
    Throttled,
    /// No answer: connection, TLS, status 5xx, refused credentials.
    Failed,
    /// The deadline passed first.
    Timeout,
    /// Another leg won, or the callers left.
    Cancelled,
    /// Not started: no time, no room, breaker open.
    Skipped,
}

impl Verdict {
    /// All, in the order of their indexes.
    pub const ALL: [Self; 10] = [
        Self::Valid,
        Self::Empty,
        Self::UnexpectedEmpty,
        Self::Blocked,
        Self::Malformed,
        Self::Throttled,
        Self::Failed,
        Self::Timeout,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// As in the answer and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Empty => "empty",
            Self::UnexpectedEmpty => "unexpected_empty",
            Self::Blocked => "blocked",
            Self::Malformed => "malformed",
            Self::Throttled => "throttled",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// For tables by verdict.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the answer may be given to a caller and stored.
    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Valid | Self::Empty)
    }

    /// Whether it says something about the engine; a lost race does not.
    pub const fn is_evidence(self) -> bool {
        !matches!(self, Self::Cancelled | Self::Skipped)
    }
}

/// Why a leg was sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The first.
    Primary,
    /// Beside a late one, or after an invalid one.
    Hedge,
    /// When both are late.
    LastChance,
    /// To learn whether an engine has healed.
    Probe,
}

impl Role {
    /// All, in the order of their indexes.
    pub const ALL: [Self; 4] = [Self::Primary, Self::Hedge, Self::LastChance, Self::Probe];

    /// As in the answer and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Hedge => "hedge",
            Self::LastChance => "last_chance",
            Self::Probe => "probe",
        }
    }
}

/// What became of one leg: the explanation in `engines[]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LegReport {
    /// Who was asked.
    pub engine: EngineId,
    /// Why.
    pub role: Role,
    /// What came of it.
    pub verdict: Verdict,
    /// From its start to its verdict.
    pub took: Duration,
}

/// A search answer: results in their final form, ready to be sliced.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The result objects' JSON, joined by commas, position 1 first.
    pub results: Bytes,
    /// Where each result ends in `results` (without its comma).
    pub ends: Vec<u32>,
}

impl Page {
    /// The first `count` results' JSON, without brackets.
    pub fn first(&self, count: usize) -> &[u8] {
        let end = match self.ends.get(..count.min(self.ends.len())).and_then(<[u32]>::last) {
            Some(end) => *end as usize,
            None => 0,
        };
        self.results.get(..end).unwrap_or_default()
    }

    /// A copy whose bytes belong to nobody else: no reference count is shared across cores.
    pub fn detached(&self) -> Self {
        Self { results: Bytes::copy_from_slice(&self.results), ends: self.ends.clone() }
    }

    /// How many results there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

/// How a flight ended: the same for its maker and each of its waiters.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A page, and the legs that made it.
    Page(Rc<Made>),
    /// No page, and why.
    Refused(Rc<Unmade>),
    /// The maker went away without an answer: one waiter takes over.
    Abandoned,
}

/// A page just made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The page.
    pub page: Rc<Page>,
    /// What was asked of whom.
    pub legs: Vec<LegReport>,
    /// When it was made.
    pub made_at: Instant,
    /// Until when it is fresh.
    pub fresh_until: Instant,
    /// How its making went.
    pub making: Making,
    /// How the first caller of this core came by it: made, or had from another core.
    pub origin: Origin,
}

/// When the making of a page passed its stages; zero for a page that was only fetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making {
    /// Its first leg was chosen.
    pub routed: Instant,
    /// A valid answer was there.
    pub answered: Instant,
    /// The time for which the engines are to blame.
    pub upstream: Duration,
}

/// Where a flight's page came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This core asked the engines.
    Made,
    /// Another core asked them, for its own callers and ours.
    OtherCore,
    /// Another core had it in its L1.
    OtherCache,
}

/// A page that could not be made.
#[derive(Clone, Debug)]
pub struct Unmade {
    /// What the callers are told.
    pub refusal: Refusal,
    /// What was asked of whom.
    pub legs: Vec<LegReport>,
}

/// `cache.status` of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CacheStatus {
    /// From L1 or L2, fresh.
    Hit,
    /// From L1 or L2, past its freshness, refreshed behind.
    Stale,
    /// From another request's flight.
    Coalesced,
    /// From an engine.
    Miss,
    /// From an engine, because the caller asked so.
    Bypass,
}

impl CacheStatus {
    /// All, in the order of their indexes.
    pub const ALL: [Self; 5] = [Self::Hit, Self::Stale, Self::Coalesced, Self::Miss, Self::Bypass];

    /// As in the answer and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }
}

/// Where an answer came from, for `cache` and the cache headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheReport {
    /// How.
    pub status: CacheStatus,
    /// How old the page is.
    pub age: Duration,
    /// How long it stays fresh; zero when stale.
    pub ttl: Duration,
}

/// Where a key's bucket stands after this request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateState {
    /// The bucket's size.
    pub burst: u32,
    /// Tokens left.
    pub remaining: u32,
    /// Until the bucket is full again.
    pub full_in: Duration,
    /// The time the whole bucket takes to refill: the `w` of `RateLimit-Policy`.
    pub window: Duration,
}

/// Whom and what a reply is accounted to, once its last byte is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// Whose request it was.
    pub key: KeyId,
    /// Which endpoint.
    pub endpoint: Endpoint,
    /// The class of its question; none: it was refused before it had one.
    pub class: Option<Class>,
}

/// What the gateway found out about a request it lets through.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Whose request it is.
    pub key: KeyId,
    /// Which lane it runs in; it must leave that lane once (`shard::Pass` does so on drop).
    pub lane: shards::Lane,
    /// Where its bucket stands.
    pub rate: RateState,
    /// By when the last byte must be written.
    pub deadline: Deadline,
}

/// One wrong field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FieldError {
    /// A JSON pointer in URI form, as `#/max_results`.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub detail: String,
}

/// Why a request gets no answer. One enum for all stages: each variant is one `code`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// 400, the bytes are not HTTP; the connection closes.
    BadRequest(&'static str),
    /// 400, the fields are wrong.
    Invalid(Vec<FieldError>),
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden(&'static str),
    /// 404.
    NotFound,
    /// 405, with what is allowed.
    MethodNotAllowed(&'static str),
    /// 408, the peer was too slow; the connection closes.
    TooSlow,
    /// 413.
    BodyTooLarge(usize),
    /// 414.
    TargetTooLong(usize),
    /// 415.
    UnsupportedMediaType,
    /// 417.
    ExpectationFailed,
    /// 429, the bucket is empty.
    RateLimited(Duration),
    /// 429, the month's credits are used up.
    CreditsExhausted(Duration),
    /// 431.
    HeadersTooLarge(usize),
    /// 501, a transfer coding or method that is not implemented; the connection closes.
    NotImplemented(&'static str),
    /// 505.
    VersionNotSupported,
    /// 503, at the concurrency limit.
    Overloaded,
    /// 503, the deadline passed first.
    DeadlineExceeded,
    /// 503, the caller gave less time than it takes to ask any engine: at least this is needed.
    TimeoutTooShort(Duration),
    /// 503, every leg ended and none was valid; to be tried again after this.
    NoValidAnswer(Duration),
    /// 503, no engine may be asked, until then.
    EnginesUnavailable(Duration),
    /// 504, `only-if-cached` and it is not.
    NotCached,
    /// 500, a panic was caught.
    Internal,
}
