//! What pairs of measurements prove: the median of their ratios and its bootstrap interval (Efron
//! 1979, percentile method), from a seed.
//!
//! Both sides of a pair are measured one after the other. A pair in which another guest of the host
//! took much of the CPUs says little of either, and is left out as long as few are.

use std::process::ExitCode;

use serde::Serialize;

use crate::chance::Chance;

const RESAMPLES: usize = 10_000;
const STREAM: u64 = 32;
/// Exit code of a ratio above its limit with its whole interval.
const EXIT_ABOVE: u8 = 3;
/// A pair in which another guest of the host took more than this share of the CPUs is left out, as
/// long as at most `NOISY_RATIO_MAX` of the pairs are.
const STEAL_RATIO_MAX: f64 = 0.01;
const NOISY_RATIO_MAX: f64 = 0.2;

/// The ratio of one pair, and the larger steal of its two sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ratio: f64,
    pub(crate) steal_ratio: f64,
}

/// What all pairs prove together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed {
    pub(crate) evidence: Evidence,
    /// Pairs the evidence is of.
    pub(crate) pairs: usize,
    pub(crate) pairs_left_out: usize,
    /// More pairs were disturbed than may be left out, so none was.
    pub(crate) is_noisy: bool,
}

/// A median ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Evidence {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What it says of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// No limit was given.
    NoLimit,
    /// The whole interval is at or below it.
    Within,
    /// The whole interval is above it.
    Above,
    /// The interval holds the limit.
    NotEnoughEvidence,
}

impl Weighed {
    /// Of `pairs`, with a bootstrap from `seed`.
    pub(crate) fn of(pairs: &[Pair], seed: u64) -> Self {
        let is_quiet = |pair: &&Pair| pair.steal_ratio <= STEAL_RATIO_MAX;
        let quiet: Vec<f64> = pairs.iter().filter(is_quiet).map(|pair| pair.ratio).collect();
        let noisy = pairs.len() - quiet.len();
        let is_noisy = noisy as f64 > pairs.len() as f64 * NOISY_RATIO_MAX;
        let ratios = if is_noisy { pairs.iter().map(|pair| pair.ratio).collect() } else { quiet };
        Self {
            evidence: Evidence::of(&ratios, seed),
            pairs: ratios.len(),
            pairs_left_out: if is_noisy { 0 } else { noisy },
            is_noisy,
        }
    }
}

impl Evidence {
    /// Of the ratios of pairs.
    pub(crate) fn of(ratios: &[f64], seed: u64) -> Self {
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
    pub(crate) fn verdict(&self, limit: Option<f64>) -> Verdict {
        match limit {
            None => Verdict::NoLimit,
            Some(limit) if self.low > limit => Verdict::Above,
            Some(limit) if self.high <= limit => Verdict::Within,
            Some(_) => Verdict::NotEnoughEvidence,
        }
    }
}

impl Verdict {
    /// What the program ends with.
    pub(crate) fn exit(self) -> ExitCode {
        if self == Self::Above { ExitCode::from(EXIT_ABOVE) } else { ExitCode::SUCCESS }
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NoLimit => "no limit given",
            Self::Within => "within the limit",
            Self::Above => "ABOVE the limit",
            Self::NotEnoughEvidence => "not enough evidence",
        }
    }
}

/// The median; NaN of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
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
    fn a_disturbed_pair_is_left_out_unless_many_are() {
        let weighed = |disturbed: usize| {
            let pairs: Vec<Pair> = (0..10)
                .map(|index| Pair {
                    ratio: if index < disturbed { 9.0 } else { 1.0 },
                    steal_ratio: if index < disturbed { 0.5 } else { 0.0 },
                })
                .collect();
            let weighed = Weighed::of(&pairs, 1);
            (weighed.pairs, weighed.pairs_left_out, weighed.is_noisy, weighed.evidence.high)
        };
        assert_eq!(weighed(2), (8, 2, false, 1.0));
        assert_eq!(weighed(6), (10, 0, true, 9.0));
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
