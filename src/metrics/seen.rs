//! Counters and histograms of one core, or of several merged. Plain data: recording is a few
//! additions and up to nine histogram entries a request (50 to 70 ns for all nine).

use std::collections::BTreeMap;
use std::time::Duration;

use super::timing::{Digits, Timing};
use crate::model::{CacheStatus, Class, Endpoint, LegReport, Role, Verdict};
use crate::reply::{PEER_GONE, Reply};

/// The statuses that are told apart; the last stands for all others.
pub const STATUSES: [u16; 21] = [
    200, 204, 400, 401, 403, 404, 405, 408, 413, 414, 415, 417, 429, 431, PEER_GONE, 500, 501, 503,
    504, 505, 0,
];

/// The codes of refusals for which an old answer may stand in.
pub const SPARE_CODES: [&str; 3] = ["deadline_exceeded", "no_valid_answer", "engines_unavailable"];

/// The stages that a trail tells apart.
pub const STAGES: [&str; 7] = ["gateway", "compile", "cache", "route", "engine", "merge", "write"];

/// What became of a request, as far as its time is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Answered, from there.
    Answered(CacheStatus),
    /// Let in, and not answered: deadline, no valid answer, no engine, our own mistake.
    Unanswered,
    /// Not worked on: 4xx, overloaded.
    Refused,
    /// Let in, and its caller left before the answer was there.
    PeerGone,
}

impl Outcome {
    /// All, in the order of their indexes.
    pub const ALL: [Self; 8] = [
        Self::Answered(CacheStatus::Hit),
        Self::Answered(CacheStatus::Stale),
        Self::Answered(CacheStatus::Coalesced),
        Self::Answered(CacheStatus::Miss),
        Self::Answered(CacheStatus::Bypass),
        Self::Unanswered,
        Self::Refused,
        Self::PeerGone,
    ];

    /// As in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered(status) => status.name(),
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
            Self::PeerGone => "peer_gone",
        }
    }

    /// For tables by outcome.
    pub const fn index(self) -> usize {
        match self {
            Self::Answered(status) => status as usize,
            Self::Unanswered => 5,
            Self::Refused => 6,
            Self::PeerGone => 7,
        }
    }

    /// Whether its time belongs in percentiles: not where no work was done, nor where the caller
    /// did not wait for the end of it, which is a bound and not a sample.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Answered(_) | Self::Unanswered)
    }

    /// Of a reply.
    fn of(reply: &Reply) -> Self {
        match (reply.cache, reply.code) {
            (Some(cache), _) if reply.status == 200 => Self::Answered(cache.status),
            (_, Some("overloaded" | "not_cached")) => Self::Refused,
            _ if reply.status == PEER_GONE => Self::PeerGone,
            _ if reply.status >= 500 => Self::Unanswered,
            _ => Self::Refused,
        }
    }
}

/// What was seen of one engine.
#[derive(Clone, Debug)]
pub struct EngineSeen {
    /// Upstream requests that began with it.
    pub chosen: u64,
    /// Legs by role and verdict.
    pub legs: [[u64; Verdict::ALL.len()]; Role::ALL.len()],
    /// Time of its legs by role, losers included.
    pub busy: [Duration; Role::ALL.len()],
    /// Calls to it that were late.
    pub hedges_wanted: u64,
    /// Of these, those for which the budget had no token.
    pub hedges_denied: u64,
    /// Why answers were not valid.
    pub details: BTreeMap<&'static str, u64>,
    /// Times of the legs that it ended itself, and of those that ran into the deadline.
    pub timing: Timing,
}

/// What was seen of one API key.
#[derive(Clone, Debug)]
pub struct KeySeen {
    /// Requests by outcome.
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Times of those that are timed (`Outcome::is_timed`).
    pub timing: Timing,
}

/// Everything that was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Requests by endpoint (the last: none) and status.
    pub requests: [[u64; STATUSES.len()]; Endpoint::ALL.len() + 1],
    /// Refusals by code.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Requests that the gateway let in, by endpoint.
    pub admitted: [u64; Endpoint::ALL.len()],
    /// Plans by class.
    pub plans: [u64; Class::ALL.len()],
    /// Responses that did not go out whole.
    pub incomplete: u64,
    /// Refreshes of stale answers.
    pub refreshes: u64,
    /// Old answers that stood in for refusals, by code.
    pub spares: [u64; SPARE_CODES.len()],
    /// Leases that were not waited for any longer.
    pub leases_overdue: u64,
    /// Letters that found their lane full.
    pub lanes_full: u64,
    /// Times by endpoint and outcome.
    pub by_endpoint: [[Timing; Outcome::ALL.len()]; Endpoint::ALL.len()],
    /// Our own part of the answered ones, by endpoint.
    pub own: [Timing; Endpoint::ALL.len()],
    /// Times by class, of those that are timed.
    pub by_class: [Timing; Class::ALL.len()],
    /// Times by stage, of those that were let in.
    pub by_stage: [Timing; STAGES.len()],
    /// How late timers were.
    pub lateness: Timing,
    /// By engine.
    pub engines: Vec<EngineSeen>,
    /// By API key.
    pub keys: Vec<KeySeen>,
}

impl Seen {
    /// Nothing, of so many engines and keys.
    pub fn new(engines: usize, keys: usize) -> Self {
        let fine = || Timing::new(Digits::Three);
        let coarse = || Timing::new(Digits::Two);
        let engine = EngineSeen {
            chosen: 0,
            legs: [[0; Verdict::ALL.len()]; Role::ALL.len()],
            busy: [Duration::ZERO; Role::ALL.len()],
            hedges_wanted: 0,
            hedges_denied: 0,
            details: BTreeMap::new(),
            timing: fine(),
        };
        let key = KeySeen { outcomes: [0; Outcome::ALL.len()], timing: coarse() };
        Self {
            requests: [[0; STATUSES.len()]; Endpoint::ALL.len() + 1],
            refusals: BTreeMap::new(),
            admitted: [0; Endpoint::ALL.len()],
            plans: [0; Class::ALL.len()],
            incomplete: 0,
            refreshes: 0,
            spares: [0; SPARE_CODES.len()],
            leases_overdue: 0,
            lanes_full: 0,
            by_endpoint: std::array::from_fn(|_| std::array::from_fn(|_| fine())),
            own: std::array::from_fn(|_| fine()),
            by_class: std::array::from_fn(|_| fine()),
            by_stage: std::array::from_fn(|_| coarse()),
            lateness: coarse(),
            engines: vec![engine; engines],
            keys: vec![key; keys],
        }
    }

    pub(super) fn request(
        &mut self,
        reply: &Reply,
        is_complete: bool,
        total: Duration,
        own: Duration,
    ) {
        self.incomplete += u64::from(!is_complete && reply.status != PEER_GONE);
        if let Some(code) = reply.code {
            *self.refusals.entry(code).or_default() += 1;
        }
        let others = STATUSES.len() - 1;
        let status = STATUSES.iter().position(|s| *s == reply.status).unwrap_or(others);
        let endpoint = reply.account.map_or(Endpoint::ALL.len(), |a| a.endpoint.index());
        self.requests[endpoint][status] += 1;
        let Some(account) = reply.account else { return };
        let outcome = Outcome::of(reply);
        self.admitted[endpoint] += 1;
        self.by_endpoint[endpoint][outcome.index()].record(total);
        let key = self.keys.get_mut(account.key.0 as usize);
        if let Some(key) = key {
            key.outcomes[outcome.index()] += 1;
            if outcome.is_timed() {
                key.timing.record(total);
            }
        }
        if matches!(outcome, Outcome::Answered(_)) {
            self.own[endpoint].record(own);
        }
        if let Some(class) = account.class {
            self.plans[class.index()] += 1;
            if outcome.is_timed() {
                self.by_class[class.index()].record(total);
            }
        }
        for (name, span) in reply.trail.into_iter().flat_map(|trail| trail.stages()) {
            if let Some(stage) = STAGES.iter().position(|stage| *stage == name) {
                self.by_stage[stage].record(span);
            }
        }
    }

    pub(super) fn leg(&mut self, report: &LegReport, detail: &'static str) {
        let Some(engine) = self.engines.get_mut(report.engine.index()) else {
            return;
        };
        let role = report.role as usize;
        engine.legs[role][report.verdict.index()] += 1;
        if report.verdict == Verdict::Skipped {
            return;
        }
        engine.busy[role] = engine.busy[role].saturating_add(report.took);
        if report.verdict.is_evidence() {
            engine.timing.record(report.took);
        }
        if !report.verdict.is_valid() && !detail.is_empty() {
            *engine.details.entry(detail).or_default() += 1;
        }
    }

    /// Adds what another core has seen.
    pub fn merge(&mut self, other: &Self) {
        self.each_count(other, |mine, theirs| *mine += theirs);
        add_named(&mut self.refusals, &other.refusals);
        for (mine, theirs) in self.engines.iter_mut().zip(&other.engines) {
            add_named(&mut mine.details, &theirs.details);
            for (mine, theirs) in mine.busy.iter_mut().zip(theirs.busy) {
                *mine = mine.saturating_add(theirs);
            }
        }
        self.each_timing(other, Timing::merge);
    }

    /// Becomes `newer`, a later state of the same core.
    pub fn copy_from(&mut self, newer: &Self) {
        self.each_count(newer, |mine, theirs| *mine = theirs);
        self.refusals.clone_from(&newer.refusals);
        for (mine, theirs) in self.engines.iter_mut().zip(&newer.engines) {
            mine.details.clone_from(&theirs.details);
            mine.busy = theirs.busy;
        }
        self.each_timing(newer, Timing::copy_from);
    }

    fn each_count(&mut self, other: &Self, mut apply: impl FnMut(&mut u64, u64)) {
        let mut all = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| apply(mine, *theirs));
        };
        all(self.requests.as_flattened_mut(), other.requests.as_flattened());
        all(&mut self.admitted, &other.admitted);
        all(&mut self.plans, &other.plans);
        all(&mut self.spares, &other.spares);
        for (mine, theirs) in [
            (&mut self.incomplete, other.incomplete),
            (&mut self.refreshes, other.refreshes),
            (&mut self.leases_overdue, other.leases_overdue),
            (&mut self.lanes_full, other.lanes_full),
        ] {
            all(std::slice::from_mut(mine), &[theirs]);
        }
        for (mine, theirs) in self.engines.iter_mut().zip(&other.engines) {
            all(mine.legs.as_flattened_mut(), theirs.legs.as_flattened());
            all(std::slice::from_mut(&mut mine.chosen), &[theirs.chosen]);
            all(std::slice::from_mut(&mut mine.hedges_wanted), &[theirs.hedges_wanted]);
            all(std::slice::from_mut(&mut mine.hedges_denied), &[theirs.hedges_denied]);
        }
        for (mine, theirs) in self.keys.iter_mut().zip(&other.keys) {
            all(&mut mine.outcomes, &theirs.outcomes);
        }
    }

    fn each_timing(&mut self, other: &Self, apply: impl Fn(&mut Timing, &Timing)) {
        let all = |mine: &mut [Timing], theirs: &[Timing]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| apply(mine, theirs));
        };
        all(self.by_endpoint.as_flattened_mut(), other.by_endpoint.as_flattened());
        all(&mut self.own, &other.own);
        all(&mut self.by_class, &other.by_class);
        all(&mut self.by_stage, &other.by_stage);
        apply(&mut self.lateness, &other.lateness);
        for (mine, theirs) in self.engines.iter_mut().zip(&other.engines) {
            apply(&mut mine.timing, &theirs.timing);
        }
        for (mine, theirs) in self.keys.iter_mut().zip(&other.keys) {
            apply(&mut mine.timing, &theirs.timing);
        }
    }

    /// Times of an endpoint's requests that are timed: what percentiles are made of.
    pub fn of_endpoint(&self, endpoint: Endpoint) -> Timing {
        let mut merged = Timing::new(Digits::Three);
        for outcome in Outcome::ALL.into_iter().filter(|outcome| outcome.is_timed()) {
            merged.merge(&self.by_endpoint[endpoint.index()][outcome.index()]);
        }
        merged
    }

    /// How much more is asked of engines than one call for each upstream request.
    pub fn extra_load(&self) -> ExtraLoad {
        let chosen: u64 = self.engines.iter().map(|engine| engine.chosen).sum();
        let attempts: u64 = self.engines.iter().map(EngineSeen::attempts).sum();
        let requests: u64 = self.admitted.iter().sum();
        let busy = |roles: [Role; 2]| -> f64 {
            let of = |engine: &EngineSeen| roles.map(|role| engine.busy[role as usize]);
            self.engines.iter().flat_map(of).map(|span| span.as_secs_f64()).sum()
        };
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let extra = attempts.saturating_sub(chosen) as f64;
        ExtraLoad {
            per_upstream_request: ratio(extra, chosen as f64),
            per_request: ratio(extra, requests as f64),
            per_engine_second: ratio(
                busy([Role::Hedge, Role::LastChance]),
                busy([Role::Primary, Role::Probe]),
            ),
        }
    }
}

impl EngineSeen {
    /// Legs that were sent.
    pub fn attempts(&self) -> u64 {
        let all: u64 = self.legs.as_flattened().iter().sum();
        all - self.with(Verdict::Skipped)
    }

    /// Legs that ended so.
    pub fn with(&self, verdict: Verdict) -> u64 {
        self.legs.iter().map(|of_role| of_role[verdict.index()]).sum()
    }
}

/// The three readings of "+10 %": they differ by up to five times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExtraLoad {
    /// Legs beyond the first, per upstream request. The budget is in these terms.
    pub per_upstream_request: f64,
    /// Legs beyond the first, per request of a caller: hits and joined ones included.
    pub per_request: f64,
    /// Engine-seconds of hedges and last chances, per engine-second of first legs.
    pub per_engine_second: f64,
}

fn add_named(mine: &mut BTreeMap<&'static str, u64>, theirs: &BTreeMap<&'static str, u64>) {
    for (name, count) in theirs {
        *mine.entry(name).or_default() += count;
    }
}
