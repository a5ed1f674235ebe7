//! Stage 4: whom to ask, and when to ask another. Pure: it is shown every engine as it stands and
//! draws no chance of its own.
//!
//! In mode `all` every eligible engine is scored by what a call is expected to cost, divided by its
//! quality for the class; the lowest wins, and a small share of requests explores, drawn by
//! quality. Two random choices are safe against herding, scoring all of them is lower in the tail
//! as long as load is part of the score (simulated: p99 595 against 724 ms). Mode `two_choices`
//! remains for engines whose load we do not see.

pub mod delay;

use std::time::Duration;

use shards::breaker::Generation;

use crate::config::settings::{EngineRole, Router as Settings, RouterMode};
use crate::model::EngineId;

/// One engine as it stands for one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Who.
    pub engine: EngineId,
    /// Asked first, or only as a last chance.
    pub role: EngineRole,
    /// Quality for the request's class, above 0.
    pub quality: f64,
    /// Expected cost of a call in milliseconds, load included; none: never measured.
    pub cost_ms: Option<f64>,
    /// Below which remaining time a call is not worth starting.
    pub min_useful: Duration,
    /// Breaker closed and below its cap of calls in flight.
    pub is_open_for: Eligibility,
    /// What its breaker wants to see again with the verdict.
    pub generation: Option<Generation>,
}

/// Whether an engine may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It may.
    Yes,
    /// It may, as a probe of a half-open breaker.
    Probe,
    /// Its breaker is open, or it is at its cap.
    No,
}

/// Why nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nobody {
    /// Engines there are, but no time is left for any.
    NoTime,
    /// Breakers are open, or no engine serves the request.
    Unavailable,
}

/// Random numbers for one choice, each in 0..1.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// Decides whether to explore.
    pub explore: f64,
    /// Draws by quality; breaks ties.
    pub pick: f64,
    /// The second of two choices.
    pub second: f64,
}

/// The engine to ask first.
///
/// # Errors
/// `Nobody`: why there is none.
pub fn first(
    candidates: &[Candidate],
    settings: &Settings,
    left: Duration,
    chance: Chance,
) -> Result<Candidate, Nobody> {
    let mut probes = candidates.iter().filter(|c| c.is_open_for == Eligibility::Probe);
    if let Some(probe) = probes.find(|c| c.min_useful <= left) {
        return Ok(*probe);
    }
    // Engines for the last chance are asked first only when there is no other.
    for role in [EngineRole::Primary, EngineRole::LastChance] {
        let able = able(candidates, role, left);
        if let Some(best) = choose(&able, settings, chance) {
            return Ok(best);
        }
    }
    let short_of_time = candidates.iter().any(|c| c.is_open_for != Eligibility::No);
    Err(if short_of_time { Nobody::NoTime } else { Nobody::Unavailable })
}

/// The engine to ask next: another than those in `asked`. Primary engines before last chances.
pub fn next(
    candidates: &[Candidate],
    settings: &Settings,
    left: Duration,
    asked: &[EngineId],
    chance: Chance,
) -> Option<Candidate> {
    for role in [EngineRole::Primary, EngineRole::LastChance] {
        let mut able = able(candidates, role, left);
        able.retain(|c| !asked.contains(&c.engine));
        // A hedge is no place to explore.
        if let Some(best) = best(&able, settings.mode, chance) {
            return Some(best);
        }
    }
    None
}

fn able(candidates: &[Candidate], role: EngineRole, left: Duration) -> Vec<Candidate> {
    let is_able = |c: &&Candidate| {
        c.role == role && c.is_open_for == Eligibility::Yes && c.min_useful <= left
    };
    candidates.iter().filter(is_able).copied().collect()
}

fn choose(able: &[Candidate], settings: &Settings, chance: Chance) -> Option<Candidate> {
    match chance.explore < settings.exploration_ratio {
        true => by_quality(able, chance.pick),
        false => best(able, settings.mode, chance),
    }
}

fn best(able: &[Candidate], mode: RouterMode, chance: Chance) -> Option<Candidate> {
    match mode {
        RouterMode::All => best_of(able, chance.pick),
        RouterMode::TwoChoices => {
            let one = by_quality(able, chance.pick)?;
            let others: Vec<Candidate> =
                able.iter().filter(|c| c.engine != one.engine).copied().collect();
            match by_quality(&others, chance.second) {
                Some(two) => best_of(&[one, two], chance.pick),
                None => Some(one),
            }
        }
    }
}

/// One engine, drawn with a probability proportional to its quality.
fn by_quality(able: &[Candidate], pick: f64) -> Option<Candidate> {
    let total: f64 = able.iter().map(|c| c.quality).sum();
    let mut rest = pick * total;
    for candidate in able {
        rest -= candidate.quality;
        if rest < 0.0 {
            return Some(*candidate);
        }
    }
    able.last().copied()
}

/// The engine of the lowest cost for its quality; among equals, `pick` decides. An engine without
/// statistics is taken to cost as little as the best one that has some, so that it gets measured.
fn best_of(able: &[Candidate], pick: f64) -> Option<Candidate> {
    let known = able.iter().filter_map(|c| c.cost_ms).min_by(f64::total_cmp).unwrap_or(1.0);
    let score = |c: &Candidate| c.cost_ms.unwrap_or(known) / c.quality;
    let lowest = able.iter().map(score).min_by(f64::total_cmp)?;
    let equals: Vec<&Candidate> = able.iter().filter(|c| score(c) <= lowest * 1.000_001).collect();
    let index = (pick * equals.len() as f64) as usize;
    equals.get(index.min(equals.len() - 1)).map(|c| **c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(mode: RouterMode, exploration_ratio: f64) -> Settings {
        Settings { mode, half_life: Duration::from_secs(30), exploration_ratio }
    }

    fn engine(id: u16, cost_ms: impl Into<Option<f64>>) -> Candidate {
        Candidate {
            engine: EngineId(id),
            role: EngineRole::Primary,
            quality: 1.0,
            cost_ms: cost_ms.into(),
            min_useful: Duration::from_millis(60),
            is_open_for: Eligibility::Yes,
            generation: None,
        }
    }

    const LEFT: Duration = Duration::from_millis(570);

    fn chance(pick: f64) -> Chance {
        Chance { explore: 0.99, pick, second: 0.5 }
    }

    fn check(candidates: &[Candidate], expected: Result<u16, Nobody>) {
        let settings = settings(RouterMode::All, 0.06);
        let got = first(candidates, &settings, LEFT, chance(0.5));
        assert_eq!(got.map(|best| best.engine), expected.map(EngineId));
    }

    #[test]
    fn the_lowest_cost_wins() {
        check(&[engine(0, 200.0), engine(1, 90.0), engine(2, 400.0)], Ok(1));
    }

    #[test]
    fn quality_divides_the_cost_and_decides_without_statistics() {
        let good = Candidate { quality: 1000.0, ..engine(0, None) };
        let poor = Candidate { quality: 0.001, ..engine(1, None) };
        check(&[poor, good], Ok(0));
        check(&[Candidate { quality: 0.5, ..engine(0, 100.0) }, engine(1, 150.0)], Ok(1));
    }

    #[test]
    fn an_unmeasured_engine_is_tried_beside_a_measured_one() {
        let candidates = [engine(0, 120.0), engine(1, None)];
        let settings = settings(RouterMode::All, 0.0);
        let one = first(&candidates, &settings, LEFT, chance(0.1));
        let two = first(&candidates, &settings, LEFT, chance(0.9));
        assert_eq!((one, two), (Ok(candidates[0]), Ok(candidates[1])));
    }

    #[test]
    fn an_open_breaker_and_a_lack_of_time_are_told_apart() {
        let open = Candidate { is_open_for: Eligibility::No, ..engine(0, 50.0) };
        check(&[open], Err(Nobody::Unavailable));
        check(&[], Err(Nobody::Unavailable));
        let long = Candidate { min_useful: Duration::from_secs(1), ..engine(0, 50.0) };
        check(&[long], Err(Nobody::NoTime));
    }

    #[test]
    fn a_probe_goes_first_and_is_no_hedge() {
        let probe = Candidate { is_open_for: Eligibility::Probe, ..engine(1, 900.0) };
        check(&[engine(0, 10.0), probe], Ok(1));
        let settings = settings(RouterMode::All, 0.0);
        let asked = [EngineId(0)];
        let hedge = next(&[engine(0, 10.0), probe], &settings, LEFT, &asked, chance(0.5));
        assert_eq!(hedge, None);
    }

    #[test]
    fn a_hedge_never_goes_to_the_same_engine() {
        let settings = settings(RouterMode::TwoChoices, 0.5);
        let candidates = [engine(0, 10.0), engine(1, 500.0)];
        let eager = Chance { explore: 0.0, pick: 0.0, second: 0.0 };
        let hedge = next(&candidates, &settings, LEFT, &[EngineId(0)], eager);
        assert_eq!(hedge, Some(candidates[1]));
        assert_eq!(next(&candidates[..1], &settings, LEFT, &[EngineId(0)], eager), None);
    }

    #[test]
    fn last_chances_come_after_all_others() {
        let last = Candidate { role: EngineRole::LastChance, ..engine(0, 1.0) };
        check(&[last, engine(1, 400.0)], Ok(1));
        check(&[last], Ok(0));
    }

    #[test]
    fn exploration_is_drawn_by_quality() {
        let settings = settings(RouterMode::All, 0.06);
        let poor = Candidate { quality: 0.001, ..engine(1, 1.0) };
        let good = Candidate { quality: 1000.0, ..engine(0, 900.0) };
        for step in 0..1000 {
            let chance =
                Chance { explore: 0.0, pick: (f64::from(step) + 0.5) / 1000.0, second: 0.0 };
            assert_eq!(first(&[poor, good], &settings, LEFT, chance), Ok(good));
        }
    }
}
