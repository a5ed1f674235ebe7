//! What a run counts: times by three clocks (intended, sent, last byte), statuses, failures.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::Instant;

use crate::connection::{Answer, Failure};
use crate::load::Good;
use crate::measure::Latency;

/// Different `X-Cache` values kept apart; more are counted as `other`.
const LABELS_MAX: usize = 8;

/// The three clocks of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When the plan wanted it sent.
    pub(crate) intended: Instant,
    /// When it was written to a connection.
    pub(crate) sent: Instant,
    /// When its last byte was there.
    pub(crate) ended: Instant,
}

/// What came of one request.
pub(crate) type Outcome = Result<Answer, Failure>;

/// Everything counted in one run.
pub(crate) struct Tally {
    good_statuses: Good,
    /// From the intended send to the last byte, all that ended.
    pub(crate) all: Latency,
    /// The same, good answers only.
    pub(crate) good: Latency,
    /// From the actual send to the last byte.
    pub(crate) service: Latency,
    /// From the intended to the actual send.
    pub(crate) lateness: Latency,
    /// Own time of the server, where it says so.
    pub(crate) own: Latency,
    /// Own time and response time by `X-Cache`.
    pub(crate) by_cache: BTreeMap<String, (Latency, Latency)>,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) failures: BTreeMap<&'static str, u64>,
    pub(crate) bytes: u64,
    /// Requests that ended in the whole run, with those of the warm-up.
    pub(crate) ended: u64,
    pub(crate) connections: u64,
    /// Requests asked again because their connection had been closed while it was idle.
    pub(crate) repeated: u64,
    /// Requests that waited because all connections were taken.
    pub(crate) waited: u64,
    /// Requests without an end when the run gave up, and how long they had taken by then.
    pub(crate) censored: Latency,
}

impl Tally {
    /// Nothing counted.
    pub(crate) fn new(good: Good) -> Self {
        Self {
            good_statuses: good,
            all: Latency::new(),
            good: Latency::new(),
            service: Latency::new(),
            lateness: Latency::new(),
            own: Latency::new(),
            by_cache: BTreeMap::new(),
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            bytes: 0,
            ended: 0,
            connections: 0,
            repeated: 0,
            waited: 0,
            censored: Latency::new(),
        }
    }

    /// Counts a request that ended.
    pub(crate) fn record(&mut self, times: Times, outcome: &Outcome) {
        let response = times.ended.since(times.intended);
        self.all.record(response);
        self.service.record(times.ended.since(times.sent));
        self.lateness.record(times.sent.since(times.intended));
        match outcome {
            Err(failure) => *self.failures.entry(failure.word()).or_insert(0) += 1,
            Ok(answer) => {
                *self.statuses.entry(answer.head.status).or_insert(0) += 1;
                self.bytes = self.bytes.saturating_add(answer.bytes);
                if self.good_statuses.holds(answer.head.status) {
                    self.good.record(response);
                }
                self.record_claims(answer, response);
            }
        }
    }

    /// Counts a request that had not ended after `elapsed`. It is in `all` as if it ended then: a
    /// lower bound.
    pub(crate) fn record_censored(&mut self, elapsed: Duration) {
        self.all.record(elapsed);
        self.censored.record(elapsed);
    }

    /// Requests of every end.
    pub(crate) fn total(&self) -> u64 {
        self.all.count()
    }

    /// What the answer says of itself.
    fn record_claims(&mut self, answer: &Answer, response: Duration) {
        if let Some(own_us) = answer.head.own_us {
            self.own.record_us(own_us);
        }
        let Some(label) = &answer.head.cache else {
            return;
        };
        let is_known = self.by_cache.contains_key(label) || self.by_cache.len() < LABELS_MAX;
        let label = if is_known { label.as_str() } else { "other" };
        if !self.by_cache.contains_key(label) {
            self.by_cache.insert(label.to_owned(), (Latency::new(), Latency::new()));
        }
        if let Some((own, responses)) = self.by_cache.get_mut(label) {
            responses.record(response);
            if let Some(own_us) = answer.head.own_us {
                own.record_us(own_us);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Head;

    fn answer(status: u16, cache: &str) -> Outcome {
        let head = Head { status, is_reusable: true, own_us: Some(300), cache: Some(cache.into()) };
        Ok(Answer { head, bytes: 100 })
    }

    #[test]
    fn a_late_send_is_in_the_response_and_not_in_the_service() {
        let mut tally = Tally::new(Good::new(&[]));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        tally.record(Times { intended: at(0), sent: at(90), ended: at(100) }, &answer(200, "hit"));
        let us = |latency: &Latency| latency.at_ms(0.5).map(f64::round);
        assert_eq!(us(&tally.good), Some(100.0));
        assert_eq!(us(&tally.service), Some(10.0));
        assert_eq!(us(&tally.lateness), Some(90.0));
    }

    #[test]
    fn a_refusal_is_an_answer_but_not_a_good_one() {
        let mut tally = Tally::new(Good::new(&[]));
        let times = Times { intended: Instant::ZERO, sent: Instant::ZERO, ended: Instant::ZERO };
        tally.record(times, &answer(503, "miss"));
        tally.record(times, &Err(Failure::Io));
        tally.record_censored(Duration::from_secs(1));
        assert_eq!((tally.total(), tally.good.count(), tally.statuses[&503]), (3, 0, 1));
        assert_eq!((tally.failures["io"], tally.censored.count()), (1, 1));
    }

    #[test]
    fn labels_are_bounded() {
        let mut tally = Tally::new(Good::new(&[404]));
        let times = Times { intended: Instant::ZERO, sent: Instant::ZERO, ended: Instant::ZERO };
        for label in 0..100 {
            tally.record(times, &answer(404, &label.to_string()));
        }
        assert_eq!((tally.by_cache.len(), tally.good.count()), (LABELS_MAX + 1, 100));
    }
}
