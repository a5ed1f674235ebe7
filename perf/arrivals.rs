//! The arrival plan: when each request is to be sent, drawn before the run from a printed seed. The
//! plan is what makes the loop open: nothing the server does can move an arrival.
//!
//! Units: nanoseconds from the start of the run.

use crate::chance::Chance;

/// A longer plan is refused: 20 million arrivals are 160 MB.
const ARRIVALS_MAX: f64 = 2e7;
const STREAM: u64 = 1;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// Independent of each other, as strangers' requests are.
    Poisson,
    /// Evenly, for tests whose truth is known exactly.
    Constant,
}

/// Arrivals at `rate_per_s` for `span_s` seconds, in order.
///
/// # Errors
/// A rate or span that is not above 0, or a plan of more than `ARRIVALS_MAX`.
pub(crate) fn plan(
    spacing: Spacing,
    rate_per_s: f64,
    span_s: f64,
    seed: u64,
) -> Result<Vec<u64>, String> {
    let is_sound = rate_per_s > 0.0 && span_s > 0.0 && rate_per_s * span_s <= ARRIVALS_MAX;
    if !is_sound {
        return Err(format!("a plan of {rate_per_s}/s for {span_s} s is not possible"));
    }
    let mut chance = Chance::seeded(seed, STREAM);
    let mut arrivals = Vec::with_capacity((rate_per_s * span_s) as usize + 16);
    let mut at_s = 0.0;
    for number in 0u64.. {
        at_s = match spacing {
            Spacing::Poisson => at_s + chance.exponential(1.0 / rate_per_s),
            Spacing::Constant => number as f64 / rate_per_s,
        };
        if at_s >= span_s {
            break;
        }
        arrivals.push((at_s * 1e9) as u64);
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_arrivals_are_even() {
        let arrivals = plan(Spacing::Constant, 4.0, 1.0, 0).expect("a plan");
        assert_eq!(arrivals, [0, 250_000_000, 500_000_000, 750_000_000]);
    }

    #[test]
    fn poisson_arrivals_repeat_by_seed_and_keep_the_rate() {
        let draw = |seed| plan(Spacing::Poisson, 1_000.0, 20.0, seed).expect("a plan");
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
        assert!((19_400..20_600).contains(&draw(5).len()), "{}", draw(5).len());
        assert!(draw(5).is_sorted());
    }

    #[test]
    fn poisson_gaps_are_as_often_short_as_the_law_says() {
        let arrivals = plan(Spacing::Poisson, 1_000.0, 20.0, 5).expect("a plan");
        let short = arrivals.windows(2).filter(|pair| pair[1] - pair[0] < 100_000).count();
        let share = short as f64 / arrivals.len() as f64;
        assert!((share - (1.0 - (-0.1f64).exp())).abs() < 0.01, "{share}");
    }

    #[test]
    fn impossible_plans_are_refused() {
        for (rate, span) in [(0.0, 1.0), (1.0, 0.0), (1e9, 1e3), (f64::NAN, 1.0)] {
            assert!(plan(Spacing::Constant, rate, span, 0).is_err());
        }
    }
}
