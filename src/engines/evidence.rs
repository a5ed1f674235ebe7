//! What one core learned of an engine since it last told the others: counts of verdicts, sums of
//! latencies and sparse histograms, never a state. Every core works with the instance's evidence
//! and reads nobody's memory; a letter that is lost or late costs freshness only.
//!
//! Bounded: per engine one tally, one sum, and as many deltas of 128 bytes per class as hold the
//! buckets of its histogram, of which there are 486.

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
    /// Until when it asked to be left alone, if the others are still to be told.
    rests_until: Option<Instant>,
}

impl Evidence {
    /// Takes what `engine` has to tell; none when that is nothing.
    pub fn take(engine: &EngineState) -> Option<Self> {
        let verdicts = engine.breaker.borrow_mut().take_delta();
        let answers = engine.score.borrow_mut().take_delta();
        let latency: Vec<_> = Class::ALL
            .into_iter()
            .flat_map(|class| {
                let of_class = &engine.latency_by_class[class.index()];
                // All of it: a rest left behind would be of the short calls, always.
                let deltas = std::iter::from_fn(|| of_class.borrow_mut().take_delta());
                deltas.map(move |delta| (class, delta)).collect::<Vec<_>>()
            })
            .collect();
        let rests_until = engine.take_rest();
        let is_counted = verdicts.is_some() || answers.is_some() || !latency.is_empty();
        let engine = engine.id().0;
        let is_news = is_counted || rests_until.is_some();
        is_news.then_some(Self { engine, verdicts, answers, latency, rests_until })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config;
    use crate::engines::state::Observed;
    use crate::model::Verdict;

    fn engine() -> EngineState {
        let text = "[[engine]]\nname = \"one\"\nadapter = \"searxng\"\n\
                    url = \"http://127.0.0.1:1\"\n";
        let settings = config::parse(text, "test.toml", &|_| None).expect("a right configuration");
        EngineState::new(EngineId(0), Arc::new(settings))
    }

    /// Answers of a busy tenth of a second, short ones and long ones alike, reach the other core.
    #[test]
    fn a_busy_core_tells_of_short_calls_too() {
        let (busy, idle) = (engine(), engine());
        for beat in 0..10_u64 {
            let now = Instant::from_nanos((1 + beat) * 100_000_000);
            for call in 0..100_u64 {
                let observed = Observed {
                    verdict: Verdict::Valid,
                    took: Duration::from_millis(40 + (call * 7 + beat * 3) % 100 * 9),
                    given: Duration::from_millis(600),
                    was_old: false,
                    class: Class::ALL[0],
                    generation: None,
                    retry_after: None,
                };
                busy.learn(&observed, now);
            }
            Evidence::take(&busy).expect("news").merge_into(&idle, now);
            assert_eq!(Evidence::take(&busy), None, "all of it was told");
        }
        let now = Instant::from_nanos(1_100_000_000);
        let (told, own) = (idle.latency.borrow(), busy.latency.borrow());
        assert_eq!((own.count(now), told.count(now)), (1_000, 1_000));
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            assert_eq!(told.quantile(now, quantile), own.quantile(now, quantile), "{quantile}");
        }
    }
}
