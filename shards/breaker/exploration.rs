//! The breaker, explored: every order of events to a fixed depth, from a closed breaker with small
//! settings. In every state reached, the invariants hold, what the public calls say agrees, and a
//! healthy engine is asked again: the breaker is never stuck.
//!
//! States are told apart by what decides the future: the breaker's own data with all times relative
//! to now, and the admissions that are still out.

use super::{Admission, Breaker, Generation, Outcome, Phase, Settings, State};
use runtime::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

const DEPTH: usize = 9;
/// Admissions kept out at once; more behave alike.
const OUT_MAX: usize = 3;

const SETTINGS: Settings = Settings {
    window: Duration::from_secs(10),
    samples_min: 3,
    valid_ratio_min: 0.8,
    consecutive_invalid_max: 2,
    half_open_after: Duration::from_secs(5),
    probe_ratio: 0.05,
    probe_lease: Duration::from_secs(1),
};

#[derive(Clone)]
struct World {
    breaker: Breaker,
    now: Instant,
    out: Vec<Generation>,
}

#[derive(Clone, Copy)]
enum Event {
    /// A request asks, drawn to probe or not.
    Ask {
        draw: f64,
    },
    /// The oldest or newest call that is out ends.
    End {
        is_newest: bool,
        outcome: Outcome,
    },
    /// The oldest call is lost: nobody ever says how it ended.
    Lose,
    Wait(Duration),
}

const EVENTS: [Event; 10] = [
    Event::Ask { draw: 0.0 },
    Event::Ask { draw: 0.99 },
    Event::End { is_newest: false, outcome: Outcome::Valid },
    Event::End { is_newest: false, outcome: Outcome::Invalid },
    Event::End { is_newest: false, outcome: Outcome::Neutral },
    Event::End { is_newest: true, outcome: Outcome::Valid },
    Event::End { is_newest: true, outcome: Outcome::Invalid },
    Event::Lose,
    Event::Wait(SETTINGS.probe_lease),
    Event::Wait(SETTINGS.half_open_after),
];

impl World {
    fn after(&self, event: Event) -> Self {
        let mut next = self.clone();
        match event {
            Event::Ask { draw } => next.ask(draw),
            Event::End { is_newest, outcome } => {
                let ended = if is_newest { next.out.pop() } else { next.lose() };
                if let Some(generation) = ended {
                    next.breaker.observe(next.now, generation, outcome);
                }
            }
            Event::Lose => drop(next.lose()),
            Event::Wait(span) => next.now += span,
        }
        next
    }

    fn lose(&mut self) -> Option<Generation> {
        (!self.out.is_empty()).then(|| self.out.remove(0))
    }

    fn ask(&mut self, draw: f64) {
        let is_eligible = self.breaker.is_eligible(self.now);
        let state = self.breaker.state(self.now);
        let admission = self.breaker.admit(self.now, draw);
        assert_eq!(self.breaker.state(self.now), state, "asking changes nothing that shows");
        match admission {
            Admission::Closed(generation) => {
                assert_eq!(state, State::Closed);
                self.keep(generation);
            }
            Admission::Probe(generation) => {
                assert_eq!(state, State::HalfOpen);
                assert!(is_eligible && draw < 1.0);
                self.keep(generation);
            }
            Admission::Refused { retry_at } => {
                assert_ne!(state, State::Closed);
                assert!(retry_at > self.now, "no busy waiting");
                assert!(retry_at <= self.now + SETTINGS.half_open_after);
                assert!(!is_eligible || draw >= SETTINGS.probe_ratio);
            }
        }
    }

    fn keep(&mut self, generation: Generation) {
        self.out.push(generation);
        if self.out.len() > OUT_MAX {
            self.out.remove(0);
        }
    }

    /// Whatever happened, an engine that answers validly from now on is back after the open time
    /// and three probes; also if the first probes are all lost.
    fn check_not_stuck(&self, probes_lost: usize) {
        let mut world = self.clone();
        world.out.clear();
        world.now += SETTINGS.half_open_after;
        for _ in 0..probes_lost {
            world.ask(0.0);
        }
        world.now += SETTINGS.probe_lease;
        for _ in 0..3 {
            match world.breaker.admit(world.now, 0.0) {
                Admission::Closed(generation) | Admission::Probe(generation) => {
                    world.breaker.observe(world.now, generation, Outcome::Valid);
                }
                Admission::Refused { .. } => panic!("stuck: {:?}", self.breaker),
            }
        }
        assert_eq!(world.breaker.state(world.now), State::Closed);
    }

    /// All that decides the future, with times relative to now and counters to their newest.
    fn print(&self) -> String {
        let breaker = &self.breaker;
        let left = |at: Instant| at.since(self.now).as_secs();
        let phase = match &breaker.phase {
            Phase::Closed => format!("closed {}", breaker.invalid_run),
            Phase::Open { until } => format!("open {}", left(*until)),
            Phase::HalfOpen { leases, valid_run } => {
                let out = leases.out.iter().flatten().filter(|probe| probe.until > self.now);
                let out = out.map(|probe| (leases.granted - probe.lease, left(probe.until)));
                format!("half-open {valid_run} {:?}", out.collect::<Vec<_>>())
            }
        };
        let granted = match &breaker.phase {
            Phase::HalfOpen { leases, .. } => leases.granted,
            Phase::Closed | Phase::Open { .. } => 0,
        };
        let out = self.out.iter().map(|generation| match generation.era == breaker.era {
            true => Some(granted - generation.lease),
            false => None,
        });
        let history = &breaker.history;
        let newest = self.now.as_nanos() / history.slice_ns;
        let slices = history.slices.iter().filter(|slice| slice.tally != super::Tally::default());
        let slices = slices.map(|slice| (newest - slice.number, slice.tally));
        format!("{phase} {:?} {:?}", out.collect::<Vec<_>>(), slices.collect::<Vec<_>>())
    }
}

#[test]
fn no_order_of_events_wedges_the_breaker() {
    let start = World {
        breaker: Breaker::new(SETTINGS),
        now: Instant::ZERO + Duration::from_secs(1_000),
        out: Vec::new(),
    };
    let mut seen = BTreeSet::from([start.print()]);
    let mut front = vec![start];
    let mut states = [0_usize; 3];
    for _ in 0..DEPTH {
        let mut next_front = Vec::new();
        for world in front {
            for event in EVENTS {
                let next = world.after(event);
                if seen.insert(next.print()) {
                    next.breaker.check();
                    next.check_not_stuck(0);
                    next.check_not_stuck(10);
                    states[place(next.breaker.state(next.now))] += 1;
                    next_front.push(next);
                }
            }
        }
        front = next_front;
    }
    assert!(states.iter().all(|count| *count > 100), "explored {states:?}");
}

fn place(state: State) -> usize {
    match state {
        State::Closed => 0,
        State::Open { .. } => 1,
        State::HalfOpen => 2,
    }
}
