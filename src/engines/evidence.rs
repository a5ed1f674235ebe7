//! What one core learned of an engine since it last told the others: counts of verdicts, sums of
//! latencies and sparse histograms, never a state. Every core works with the instance's evidence
//! and reads nobody's memory; a letter that is lost or late costs freshness only.
//!
//! Bounded: one histogram delta of at most 128 bytes per class, one tally and one sum per engine.

use runtime::Instant;
use shards::breaker::Tally;
use shards::{latency, score};

use super::state::EngineState;
use crate::model::{Class, EngineId};

/// The news of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Its index.
    pub engine: u16,
    /// For the breaker.
    verdicts: Option<Tally>,
    /// For the score.
    answers: Option<score::Delta>,
    /// For the hedge delay.
    latency: Vec<(Class, latency::Delta)>,
    /// Until when it asked to be left alone: not kept back for the next letter.
    rests_until: Option<Instant>,
}

impl Evidence {
    /// Takes what `engine` has to tell; none when that is nothing. Of a histogram with more than a
    /// letter's worth of buckets the rest goes with the next.
    pub fn take(engine: &EngineState) -> Option<Self> {
        let verdicts = engine.breaker.borrow_mut().take_delta();
        let answers = engine.score.borrow_mut().take_delta();
        let latency: Vec<_> = Class::ALL
            .into_iter()
            .filter_map(|class| {
                let mut of_class = engine.latency_by_class[class.index()].borrow_mut();
                of_class.take_delta().map(|delta| (class, delta))
            })
            .collect();
        let is_news = verdicts.is_some() || answers.is_some() || !latency.is_empty();
        let engine = engine.id().0;
        is_news.then_some(Self { engine, verdicts, answers, latency, rests_until: None })
    }

    /// That `engine` asked to be left alone.
    pub fn rest(engine: EngineId, until: Instant) -> Self {
        let (verdicts, answers, latency) = (None, None, Vec::new());
        Self { engine: engine.0, verdicts, answers, latency, rests_until: Some(until) }
    }

    /// Adds what another core saw of `engine`.
    pub fn merge_into(&self, engine: &EngineState, now: Instant) {
        if let Some(verdicts) = self.verdicts {
            engine.breaker.borrow_mut().merge_delta(now, verdicts);
        }
        if let Some(answers) = self.answers {
            engine.score.borrow_mut().merge_delta(now, answers);
        }
        if let Some(until) = self.rests_until {
            engine.hear_rest(until);
        }
        for (class, delta) in &self.latency {
            engine.latency.borrow_mut().merge_delta(now, delta);
            engine.latency_by_class[class.index()].borrow_mut().merge_delta(now, delta);
        }
    }
}
