//! When a hedge is sent: the delay after which the primary counts as late.
//!
//! In mode `budget` the delay is steered (`shards::steering`): it rests where just the target ratio
//! of calls is late, whatever the engines' laws. In mode `percentile` it is the published rule: the
//! p90, clamped. Without statistics it is the configured initial delay, never zero.

use std::time::Duration;

use shards::steering::Steering;

use crate::config::settings::Hedge;

/// The delay of mode `budget`, at its start.
pub fn steering(settings: &Hedge) -> Steering {
    Steering::new(initial(settings), settings.budget_target_ratio)
}

/// The delay of mode `percentile` for an engine of which `samples` calls were seen, with
/// `quantile(q)` as its latency.
pub fn percentile(
    settings: &Hedge,
    samples: u64,
    quantile: impl Fn(f64) -> Option<Duration>,
) -> Duration {
    let initial = initial(settings);
    if samples < settings.samples_min {
        return initial;
    }
    let late = quantile(settings.quantile);
    late.map_or(initial, |late| late.clamp(settings.delay_min, settings.delay_max))
}

fn initial(settings: &Hedge) -> Duration {
    settings.delay_initial.max(settings.delay_min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::HedgeMode;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn hedge() -> Hedge {
        Hedge {
            enabled: true,
            mode: HedgeMode::Percentile,
            budget_target_ratio: 0.10,
            quantile: 0.9,
            delay_initial: ms(420),
            delay_min: ms(120),
            delay_max: ms(450),
            window: Duration::from_secs(60),
            refresh: Duration::from_secs(10),
            samples_min: 100,
            budget_ratio: 0.15,
            last_chance_budget_ratio: 0.02,
        }
    }

    fn check(samples: u64, late: Option<Duration>, expected: Duration) {
        assert_eq!(percentile(&hedge(), samples, |_| late), expected);
    }

    #[test]
    fn without_statistics_it_is_the_initial_delay_never_zero() {
        check(0, None, ms(420));
        check(99, Some(ms(1)), ms(420));
        check(1_000, None, ms(420));
    }

    #[test]
    fn the_percentile_is_clamped_on_both_sides() {
        check(100, Some(ms(612)), ms(450));
        check(100, Some(ms(20)), ms(120));
        check(100, Some(ms(300)), ms(300));
    }

    #[test]
    fn steering_starts_at_the_initial_delay_never_below_the_least() {
        let settings = |initial| Hedge { delay_initial: initial, ..hedge() };
        let started = |initial| steering(&settings(initial)).delay().as_millis();
        assert_eq!((started(ms(420)), started(ms(0))), (420, 120));
    }
}
