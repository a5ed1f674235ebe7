//! What pairs of measurements prove: the median of their ratios and its bootstrap interval (Efron
//! 1979, percentile method), from a seed.

use serde::Serialize;

use crate::chance::Chance;

const RESAMPLES: usize = 10_000;
const STREAM: u64 = 32;

/// A median ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Evidence {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// What it says of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// No limit was given.
    NoLimit,
    /// The whole interval is at or below it.
    Within,
    /// The whole interval is above it.
    Above,
    /// The interval holds the limit.
    NotEnoughEvidence,
}

impl Evidence {
    /// Of the ratios of pairs.
    pub(super) fn of(ratios: &[f64], seed: u64) -> Self {
        let mut chance = Chance::seeded(seed, STREAM);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let draw = |_| ratios.get(chance.below(ratios.len() as u64) as usize).copied();
                median((0..ratios.len()).filter_map(draw).collect())
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (share * (RESAMPLES - 1) as f64).round() as usize;
            medians.get(index).copied().unwrap_or(f64::NAN)
        };
        Self { median: median(ratios.to_vec()), low: at(0.025), high: at(0.975) }
    }

    /// Against `limit`, if there is one.
    pub(super) fn verdict(&self, limit: Option<f64>) -> Verdict {
        match limit {
            None => Verdict::NoLimit,
            Some(limit) if self.low > limit => Verdict::Above,
            Some(limit) if self.high <= limit => Verdict::Within,
            Some(_) => Verdict::NotEnoughEvidence,
        }
    }
}

impl Verdict {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoLimit => "no limit given",
            Self::Within => "within the limit",
            Self::Above => "ABOVE the limit",
            Self::NotEnoughEvidence => "not enough evidence",
        }
    }
}

/// The median; NaN of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (1, Some(value)) => *value,
        (0, Some(value)) => values.get(middle - 1).map_or(f64::NAN, |below| (below + value) / 2.0),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ratios: &[f64], limit: f64, expected: Verdict) {
        let evidence = Evidence::of(ratios, 1);
        assert!(evidence.low <= evidence.median && evidence.median <= evidence.high);
        assert_eq!(evidence.verdict(Some(limit)), expected, "{evidence:?} against {limit}");
    }

    #[test]
    fn a_limit_is_exceeded_only_by_the_whole_interval() {
        let ratios = [0.78, 0.80, 0.81, 0.79, 0.80, 0.82, 0.77, 0.80, 0.79, 0.81];
        check(&ratios, 1.0, Verdict::Within);
        check(&ratios, 0.7, Verdict::Above);
        check(&ratios, 0.8, Verdict::NotEnoughEvidence);
        assert_eq!(Evidence::of(&ratios, 1).verdict(None), Verdict::NoLimit);
    }

    #[test]
    fn one_wild_pair_does_not_move_the_median() {
        check(&[0.80, 0.79, 9.0, 0.81, 0.80, 0.80, 0.79, 0.81, 0.80, 0.80], 1.0, Verdict::Within);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
