//! When requests come, and what they ask. A plan is drawn ahead of the run from the run's seed: the
//! world cannot slow it down.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::Duration;

use super::chance::Chance;
use super::clients::{Asked, Caller};
use super::question::Question;
use crate::model::Class;

/// A question is not repeated sooner: its answer should be there.
const REPEAT_AFTER: Duration = Duration::from_secs(5);

/// Nor later, so that what is remembered does not grow.
const REPEAT_WITHIN: Duration = Duration::from_secs(120);

/// A plan, in the order of time.
pub type Plan = Box<dyn Iterator<Item = Asked>>;

/// Arrivals that know nothing of each other; a share of them repeats a question of the last two
/// minutes.
pub struct Poisson {
    chance: Chance,
    /// Requests a second.
    rate: f64,
    repeat_ratio: f64,
    caller: Caller,
    /// From then until then.
    now: Duration,
    until: Duration,
    left: u64,
    next: u64,
    recent: VecDeque<(Duration, u64)>,
}

impl Poisson {
    /// `count` requests, `rate` a second. Streams have questions of their own.
    pub fn new(chance: Chance, stream: u64, rate: f64, repeat_ratio: f64, count: u64) -> Self {
        Self {
            chance,
            rate,
            repeat_ratio,
            caller: Caller::Person,
            now: Duration::ZERO,
            until: Duration::MAX,
            left: count,
            next: stream << 40,
            recent: VecDeque::new(),
        }
    }

    /// In the batch lane, between these times.
    pub fn batch(mut self, from: Duration, until: Duration) -> Self {
        (self.caller, self.now, self.until) = (Caller::Batch, from, until);
        self
    }

    /// A question asked some time ago; none if there is none yet.
    fn earlier(&mut self) -> Option<u64> {
        let (now, recent) = (self.now, &mut self.recent);
        while recent.front().is_some_and(|(at, _)| *at + REPEAT_WITHIN < now) {
            recent.pop_front();
        }
        let old = recent.partition_point(|(at, _)| *at + REPEAT_AFTER <= now);
        let index = self.chance.below(old as u64) as usize;
        self.recent.get(index).filter(|_| old > 0).map(|(_, number)| *number)
    }
}

impl Iterator for Poisson {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        self.left = self.left.checked_sub(1)?;
        self.now += Duration::from_secs_f64(self.chance.exponential(1.0 / self.rate));
        if self.now >= self.until {
            return None;
        }
        let repeats = self.repeat_ratio > 0.0 && self.chance.unit() < self.repeat_ratio;
        let number = match repeats.then(|| self.earlier()).flatten() {
            Some(earlier) => earlier,
            None => {
                self.next += 1;
                self.recent.push_back((self.now, self.next));
                self.next
            }
        };
        let question = Question { number, class: Class::Evergreen };
        Some(Asked { at: self.now, question, caller: self.caller })
    }
}

/// Agents that ask the same at the same moment, every so often.
pub fn agents(size: u32, every: Duration, times: u32) -> impl Iterator<Item = Asked> {
    (1..=times).flat_map(move |turn| {
        let question = Question { number: (7 << 50) + u64::from(turn), class: Class::Longtail };
        let asked = Asked { at: every * turn, question, caller: Caller::Person };
        (0..size).map(move |_| asked)
    })
}

/// Two plans as one.
pub struct Merged<A: Iterator<Item = Asked>, B: Iterator<Item = Asked>>(Peekable<A>, Peekable<B>);

/// Both plans, in the order of time.
pub fn merge<A, B>(one: A, other: B) -> Merged<A, B>
where
    A: Iterator<Item = Asked>,
    B: Iterator<Item = Asked>,
{
    Merged(one.peekable(), other.peekable())
}

impl<A: Iterator<Item = Asked>, B: Iterator<Item = Asked>> Iterator for Merged<A, B> {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        match (self.0.peek(), self.1.peek()) {
            (Some(one), Some(other)) if other.at < one.at => self.1.next(),
            (Some(_), _) => self.0.next(),
            (None, _) => self.1.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_share_repeats_what_was_asked_some_time_ago() {
        let plan: Vec<Asked> = Poisson::new(Chance::new(1, 0), 0, 60.0, 0.31, 30_000).collect();
        let distinct: BTreeSet<u64> = plan.iter().map(|asked| asked.question.number).collect();
        let repeated = 1.0 - distinct.len() as f64 / plan.len() as f64;
        assert!((0.29..0.33).contains(&repeated), "{repeated}");
        let span = plan.last().map_or(0.0, |asked| asked.at.as_secs_f64());
        assert!((480.0..520.0).contains(&span), "{span}");
    }

    #[test]
    fn plans_merge_in_the_order_of_time() {
        let one = Poisson::new(Chance::new(1, 0), 0, 10.0, 0.0, 500);
        let other = agents(40, Duration::from_secs(5), 6);
        let merged: Vec<Asked> = merge(one, other).collect();
        assert_eq!(merged.len(), 500 + 240);
        assert!(merged.is_sorted_by_key(|asked| asked.at));
    }
}
