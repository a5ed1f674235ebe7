//! The published week: 1,084,000 requests over seven days, with the published daily totals and
//! busiest hours, two nights of batch jobs, and classes and repeats that give the published hit
//! ratios.
//!
//! A day's people follow a curve with one peak, at the busiest hour and as high as published. On
//! Tuesday and Thursday people come as on Monday and Wednesday, and the rest is a batch job around
//! the busiest hour, in the batch lane. Half of all requests ask what nobody asks again; the others
//! draw from a list of their class, the n-th entry about 1/n as often as the first. The lists are
//! as long as they must be for the published hit ratios at the published lives (computed by
//! sum of p * L / (1 + L), L the expected requests of an entry within a life).

use std::time::Duration;

use super::chance::Chance;
use super::clients::{Asked, Caller};
use super::question::Question;
use crate::model::Class;

/// Requests of the whole week.
pub const REQUESTS: u64 = 1_084_001;

const HOUR: Duration = Duration::from_secs(3_600);

/// One day as published: requests, the busiest hour, requests in it; and of whom the rest is a
/// batch job: the people of another day.
struct Day {
    requests: u64,
    peak_hour: usize,
    peak: u64,
    people_of: Option<usize>,
}

const fn day(requests: u64, peak_hour: usize, peak: u64, people_of: Option<usize>) -> Day {
    Day { requests, peak_hour, peak, people_of }
}

/// Monday to Sunday.
const DAYS: [Day; 7] = [
    day(159_892, 15, 12_342, None),
    day(196_152, 4, 20_412, Some(0)),
    day(159_432, 16, 12_435, None),
    day(193_781, 2, 19_937, Some(2)),
    day(158_299, 16, 12_400, None),
    day(107_588, 15, 8_398, None),
    day(108_857, 15, 8_308, None),
];

/// Shares of a batch job by hours from its busiest.
const BATCH_SHAPE: [(i64, f64); 4] = [(-2, 0.15), (-1, 0.35), (1, 0.35), (2, 0.15)];

/// A class: its share of requests, the share of those that ask something new, and the entries that
/// the others draw from.
struct Habit {
    class: Class,
    share: f64,
    new_ratio: f64,
    entries: f64,
}

const HABITS: [Habit; 5] = [
    Habit { class: Class::Navigational, share: 0.14, new_ratio: 0.20, entries: 723.0 },
    Habit { class: Class::Evergreen, share: 0.20, new_ratio: 0.35, entries: 11_871.0 },
    Habit { class: Class::Product, share: 0.15, new_ratio: 0.45, entries: 2_613.0 },
    Habit { class: Class::Longtail, share: 0.39, new_ratio: 0.65, entries: 257_800.0 },
    Habit { class: Class::News, share: 0.12, new_ratio: 0.65, entries: 409.0 },
];

/// Numbers of questions that are asked once begin here.
const NEW_FROM: u64 = 1 << 32;

/// Requests of one hour: people's and the batch job's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HourLoad {
    /// In the interactive lane.
    pub people: u64,
    /// In the batch lane.
    pub batch: u64,
}

/// The requests of every hour of the week, Monday 00:00 UTC first.
pub fn hours() -> Vec<HourLoad> {
    let people: Vec<[u64; 24]> = DAYS.iter().map(people).collect();
    let mut hours = Vec::with_capacity(7 * 24);
    for (day, own) in DAYS.iter().zip(&people) {
        let Some(other) = day.people_of.and_then(|other| people.get(other)) else {
            hours.extend(own.iter().map(|&people| HourLoad { people, batch: 0 }));
            continue;
        };
        let mut loads = other.map(|people| HourLoad { people, batch: 0 });
        let batch = day.requests - other.iter().sum::<u64>();
        let at_peak = day.peak - other[day.peak_hour];
        loads[day.peak_hour].batch = at_peak;
        let rest = batch - at_peak;
        let mut left = rest;
        for (offset, share) in BATCH_SHAPE {
            let hour = (day.peak_hour as i64 + offset).rem_euclid(24) as usize;
            let part = ((rest as f64 * share).round() as u64).min(left);
            loads[hour].batch += part;
            left -= part;
        }
        loads[(day.peak_hour + 1) % 24].batch += left;
        hours.extend(loads);
    }
    hours
}

/// A day of people: `exp(k cos)` around the peak, with `k` such that the peak is as published.
fn people(day: &Day) -> [u64; 24] {
    let weights = |k: f64| -> [f64; 24] {
        let angle =
            |hour: usize| (hour as f64 - day.peak_hour as f64) / 24.0 * std::f64::consts::TAU;
        std::array::from_fn(|hour| (k * angle(hour).cos()).exp())
    };
    let peak_share = |k: f64| {
        let weights = weights(k);
        weights[day.peak_hour] / weights.iter().sum::<f64>()
    };
    let wanted = day.peak as f64 / day.requests as f64;
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if peak_share(middle) < wanted { low = middle } else { high = middle }
    }
    let weights = weights(low);
    let sum: f64 = weights.iter().sum();
    let mut loads: [u64; 24] = weights.map(|w| (w / sum * day.requests as f64).floor() as u64);
    loads[day.peak_hour] = day.peak;
    // What rounding left over comes in the small hours, where it is no peak.
    let left = day.requests - loads.iter().sum::<u64>();
    loads[(day.peak_hour + 12) % 24] += left;
    loads
}

/// The requests of the week, or of as much of it as `requests` last.
pub struct Week {
    chance: Chance,
    hours: Vec<HourLoad>,
    hour: usize,
    /// Left of this hour.
    left: HourLoad,
    now: Duration,
    requests_left: u64,
    new: u64,
}

impl Week {
    /// The first `requests` of the week, drawn from `seed`.
    pub fn new(seed: u64, requests: u64) -> Self {
        let hours = hours();
        let left = hours.first().copied().unwrap_or_default();
        let chance = Chance::new(seed, 0);
        let now = Duration::ZERO;
        Self { chance, hours, hour: 0, left, now, requests_left: requests, new: NEW_FROM }
    }

    fn question(&mut self) -> Question {
        let mut draw = self.chance.unit();
        let habit = HABITS.iter().find(|habit| {
            draw -= habit.share;
            draw < 0.0
        });
        let habit = habit.unwrap_or(&HABITS[3]);
        if self.chance.unit() < habit.new_ratio {
            self.new += 1;
            return Question { number: self.new, class: habit.class };
        }
        // Continuous in the logarithm of the rank: entry n has ln((n + 1) / n) / ln(entries + 1).
        let rank = (self.chance.unit() * (habit.entries + 1.0).ln()).exp();
        Question { number: rank as u64, class: habit.class }
    }
}

impl Iterator for Week {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        self.requests_left = self.requests_left.checked_sub(1)?;
        while self.left.people + self.left.batch == 0 {
            self.hour += 1;
            self.left = *self.hours.get(self.hour)?;
            self.now = HOUR * self.hour as u32;
        }
        // The least of the `left` uniform times in the rest of the hour.
        let left = self.left.people + self.left.batch;
        let end = HOUR * (self.hour as u32 + 1);
        let rest = end.saturating_sub(self.now);
        self.now += rest.mul_f64(1.0 - self.chance.unit().powf(1.0 / left as f64));
        let caller = if self.chance.below(left) < self.left.batch {
            self.left.batch -= 1;
            Caller::Batch
        } else {
            self.left.people -= 1;
            Caller::Person
        };
        Some(Asked { at: self.now, question: self.question(), caller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_busiest_hours_are_as_published() {
        let hours = hours();
        assert_eq!(hours.len(), 168);
        for (index, day) in DAYS.iter().enumerate() {
            let day_hours = &hours[index * 24..][..24];
            let totals: Vec<u64> = day_hours.iter().map(|h| h.people + h.batch).collect();
            assert_eq!(totals.iter().sum::<u64>(), day.requests, "day {index}");
            assert_eq!(totals[day.peak_hour], day.peak, "day {index}");
            assert_eq!(totals.iter().max(), Some(&day.peak), "day {index}: {totals:?}");
        }
        let total: u64 = hours.iter().map(|h| h.people + h.batch).sum();
        assert_eq!(total, REQUESTS);
    }

    #[test]
    fn half_of_the_requests_ask_what_nobody_asks_again() {
        let plan: Vec<Asked> = Week::new(3, 200_000).collect();
        assert!(plan.is_sorted_by_key(|asked| asked.at));
        let new = plan.iter().filter(|asked| asked.question.number > NEW_FROM).count();
        assert!((0.49..0.51).contains(&(new as f64 / plan.len() as f64)), "{new}");
        let share: f64 = HABITS.iter().map(|habit| habit.share).sum();
        assert!((share - 1.0).abs() < 1e-9);
    }
}
