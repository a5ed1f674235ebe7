//! How long an engine takes: a latency law given by a few percentiles, and slow episodes on top.
//!
//! Between two given percentiles ln(1 - q) is linear in ln(t): pieces of a Pareto tail. Beyond the
//! last one the last piece goes on, up to `LATENCY_MAX`. Below the first one the body is lognormal
//! with the spread of the first piece, sigma = ln(t1/t0) / (z1 - z0). This is the law "Pareto
//! pieces" of the event simulation behind the hedging goals, so figures of both can be compared.
//!
//! Units: milliseconds in the text of a law, `Duration` outside. Quantiles are 0..1 inside.

use std::fmt;
use std::time::Duration;

use crate::chance::mix;

/// No draw is longer, however far the tail is followed (the histogram's end).
const LATENCY_MAX: Duration = Duration::from_secs(60);
/// A law has at most as many percentiles.
const POINTS_MAX: usize = 16;
/// One engine alone as published, and the same behind warm connections and routing: the published
/// table of hedge delays is reproduced with engines of about 0.66 times the quoted times only.
const QUOTED: &str = "p50:248,p90:612,p99:1480,p99.9:2950";
const WARM_SCALE: f64 = 0.66;

/// A latency law.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Law {
    /// Always the same time, in ms.
    Fixed(f64),
    /// Interpolated through percentiles.
    Pieces(Pieces),
}

/// The percentiles of a law: at least 2, at most `POINTS_MAX`, both columns rising.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pieces {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    quantile: f64,
    ln_ms: f64,
}

impl Law {
    /// Reads `quoted`, `warm`, `fixed:5` or `p50:248,p90:612,...`.
    ///
    /// # Errors
    /// What is wrong with the text, in words for the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "quoted" => Self::parse(QUOTED),
            "warm" => Ok(Self::parse(QUOTED)?.scaled(WARM_SCALE)),
            _ => match text.strip_prefix("fixed:") {
                Some(ms) => positive(ms).map(Self::Fixed),
                None => Pieces::parse(text).map(Self::Pieces),
            },
        }
    }

    /// The same law with every time multiplied by `scale` (above 0).
    pub(crate) fn scaled(self, scale: f64) -> Self {
        match self {
            Self::Fixed(ms) => Self::Fixed(ms * scale),
            Self::Pieces(mut pieces) => {
                for point in &mut pieces.points {
                    point.ln_ms += scale.ln();
                }
                Self::Pieces(pieces)
            }
        }
    }

    /// The time at `quantile` (0..1, both ends excluded): a draw, if the quantile is drawn.
    pub(crate) fn at(&self, quantile: f64) -> Duration {
        let ms = match self {
            Self::Fixed(ms) => *ms,
            Self::Pieces(pieces) => pieces.ln_ms(quantile).exp(),
        };
        Duration::from_secs_f64((ms / 1e3).clamp(0.0, LATENCY_MAX.as_secs_f64()))
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ms) => write!(f, "fixed:{ms}"),
            Self::Pieces(pieces) => {
                for (index, point) in pieces.points.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let percent = (point.quantile * 1e8).round() / 1e6;
                    write!(f, "{comma}p{percent}:{:.1}", point.ln_ms.exp())?;
                }
                Ok(())
            }
        }
    }
}

impl Pieces {
    fn parse(text: &str) -> Result<Self, String> {
        let mut points: Vec<Point> = Vec::new();
        for part in text.split(',') {
            let wrong = || format!("'{part}' is not of the form p99.9:2950");
            let (percent, ms) =
                part.strip_prefix('p').and_then(|p| p.split_once(':')).ok_or_else(wrong)?;
            let point = Point { quantile: positive(percent)? / 100.0, ln_ms: positive(ms)?.ln() };
            let is_rising = points
                .last()
                .is_none_or(|last| point.quantile > last.quantile && point.ln_ms > last.ln_ms);
            if point.quantile >= 1.0 || !is_rising {
                return Err(format!("'{part}': percentiles must rise, and so must their times"));
            }
            points.push(point);
        }
        if !(2..=POINTS_MAX).contains(&points.len()) {
            return Err(format!("a law has 2 to {POINTS_MAX} percentiles"));
        }
        Ok(Self { points })
    }

    /// ln of the time in ms at `quantile`.
    fn ln_ms(&self, quantile: f64) -> f64 {
        let points = &self.points;
        if quantile < points[0].quantile {
            let (z0, z1) = (normal_at(points[0].quantile), normal_at(points[1].quantile));
            let sigma = (points[1].ln_ms - points[0].ln_ms) / (z1 - z0);
            return points[0].ln_ms + (normal_at(quantile) - z0) * sigma;
        }
        let last = points.len() - 2;
        let index = (0..last).find(|i| quantile < points[i + 1].quantile).unwrap_or(last);
        let (from, to) = (points[index], points[index + 1]);
        let tail = |q: f64| (1.0 - q).ln();
        let share =
            (tail(quantile) - tail(from.quantile)) / (tail(to.quantile) - tail(from.quantile));
        from.ln_ms + share * (to.ln_ms - from.ln_ms)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

/// The standard normal quantile. Rational approximation by P. J. Acklam (2003), relative error
/// below 1.15e-9.
fn normal_at(quantile: f64) -> f64 {
    const LOW: f64 = 0.024_25;
    if quantile > 0.5 {
        return -normal_at(1.0 - quantile);
    }
    if quantile < LOW {
        let q = (-2.0 * quantile.ln()).sqrt();
        let top = horner(
            q,
            &[
                -7.784_894_002_430_293e-3,
                -3.223_964_580_411_365e-1,
                -2.400_758_277_161_838,
                -2.549_732_539_343_734,
                4.374_664_141_464_968,
                2.938_163_982_698_783,
            ],
        );
        let bottom = horner(
            q,
            &[
                7.784_695_709_041_462e-3,
                3.224_671_290_700_398e-1,
                2.445_134_137_142_996,
                3.754_408_661_907_416,
                1.0,
            ],
        );
        return top / bottom;
    }
    let q = quantile - 0.5;
    let r = q * q;
    let top = horner(
        r,
        &[
            -3.969_683_028_665_376e1,
            2.209_460_984_245_205e2,
            -2.759_285_104_469_687e2,
            1.383_577_518_672_69e2,
            -3.066_479_806_614_716e1,
            2.506_628_277_459_239,
        ],
    );
    let bottom = horner(
        r,
        &[
            -5.447_609_879_822_406e1,
            1.615_858_368_580_409e2,
            -1.556_989_798_598_866e2,
            6.680_131_188_771_972e1,
            -1.328_068_155_288_572e1,
            1.0,
        ],
    );
    top * q / bottom
}

fn horner(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// Slow episodes: in every period of `every` the engine is `factor` times slower for `span`, at a
/// place within the period that the seed decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episodes {
    pub(crate) factor: f64,
    pub(crate) every: Duration,
    pub(crate) span: Duration,
    pub(crate) seed: u64,
}

impl Episodes {
    /// By how much the engine is slower, `elapsed` after its start: `factor` or 1.
    pub(crate) fn factor_at(&self, elapsed: Duration) -> f64 {
        let every_ns = u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX);
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let Some(period) = elapsed_ns.checked_div(every_ns) else {
            return 1.0;
        };
        let span_ns = u64::try_from(self.span.as_nanos()).unwrap_or(u64::MAX).min(every_ns);
        let room_ns = every_ns - span_ns;
        let begin_ns = mix(self.seed, period).checked_rem(room_ns.saturating_add(1)).unwrap_or(0);
        let within_ns = elapsed_ns % every_ns;
        let is_slow = within_ns >= begin_ns && within_ns - begin_ns < span_ns;
        if is_slow { self.factor } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    fn check(law: &str, quantile: f64, expected_ms: f64) {
        let ms = Law::parse(law).expect("a law").at(quantile).as_secs_f64() * 1e3;
        assert!((ms / expected_ms - 1.0).abs() < 0.002, "{law} at {quantile}: {ms}");
    }

    #[test]
    fn the_given_percentiles_are_met_exactly() {
        for (quantile, ms) in [(0.5, 248.0), (0.9, 612.0), (0.99, 1480.0), (0.999, 2950.0)] {
            check("quoted", quantile, ms);
            check("warm", quantile, ms * 0.66);
            check(QUOTED, quantile, ms);
        }
    }

    #[test]
    fn between_them_the_tail_is_pareto_and_the_body_lognormal() {
        // Computed with the event simulation's own function (sf_pl), inverted.
        check("quoted", 0.7, 248.0 * (612f64 / 248.0).powf((0.5f64 / 0.3).ln() / 5f64.ln()));
        check("quoted", 0.9999, 2950.0 * (2950f64 / 1480.0));
        check("quoted", 0.1, 248.0 * 248.0 / 612.0);
        check("fixed:5", 0.999, 5.0);
    }

    #[test]
    fn draws_have_the_percentiles_of_the_law() {
        let (law, mut chance) = (Law::parse("quoted").expect("a law"), Chance::seeded(3, 0));
        let mut drawn: Vec<_> = (0..200_000).map(|_| law.at(chance.unit()).as_secs_f64()).collect();
        drawn.sort_by(f64::total_cmp);
        for (index, ms, tolerance) in [(100_000, 248.0, 0.01), (198_000, 1480.0, 0.03)] {
            assert!((drawn[index] * 1e3 / ms - 1.0).abs() < tolerance, "{}", drawn[index]);
        }
    }

    #[test]
    fn the_normal_quantile_is_right_to_six_digits() {
        for (q, z) in [(0.5, 0.0), (0.9, 1.281_551_6), (0.99, 2.326_347_9), (0.001, -3.090_232_3)] {
            assert!((normal_at(q) - z).abs() < 1e-6, "{q}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "p50", "p50:1", "p50:2,p40:3", "p50:3,p90:2", "p50:-1,p90:2", "fixed:x"] {
            assert!(Law::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_law_prints_as_it_is_read() {
        assert_eq!(
            Law::parse("quoted").expect("a law").to_string(),
            "p50:248.0,p90:612.0,p99:1480.0,p99.9:2950.0"
        );
    }

    #[test]
    fn episodes_take_their_share_of_the_time() {
        let second = Duration::from_secs(1);
        let episodes = Episodes { factor: 5.0, every: 60 * second, span: 10 * second, seed: 9 };
        let slow = (0..60_000u32).filter(|i| episodes.factor_at(second * *i / 10) > 1.0).count();
        assert!((9_900..=10_100).contains(&slow), "{slow}");
    }
}
