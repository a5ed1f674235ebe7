//! Joins results of one page and puts pages in order: reciprocal rank fusion (Cormack, Clarke and
//! Büttcher, 2009) with engines weighted by quality.
//!
//! A page's score is the weighted share of engines that have it, each discounted by rank:
//! `Σ w·(K+1)/(K+rank) / Σ w`, so 1 is first place everywhere. Ties go to more engines, the better
//! best rank, the engine first in the answers, then the key: the order never depends on chance.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::canonical::Canonical;
use crate::model::{EngineId, Item};

/// How slowly weight falls with rank; the paper's value. Rank 10 counts 0.87 of rank 1.
const FLATNESS: f64 = 60.0;
/// The least weight of an engine, so that a score is never 0.
const WEIGHT_MIN: f64 = 1e-3;
/// The greatest; beyond it others would vanish in rounding.
const WEIGHT_MAX: f64 = 1e3;

/// The results of all answers by key.
pub(super) struct Pool<'a> {
    entries: Vec<Entry<'a>>,
    by_key: BTreeMap<String, usize>,
    weight_sum: f64,
    current: Source,
}

/// One page, with what each engine gave of it.
pub(super) struct Entry<'a> {
    /// Empty until all are ranked: until then the pool has it.
    key: String,
    /// The best form of the address seen so far.
    pub(super) shown: Cow<'a, str>,
    grade: u8,
    /// What text comes from: the item seen at the best rank.
    item: &'a Item,
    /// Further items of the same page, for what the first leaves out.
    others: Vec<&'a Item>,
    /// Who has it, in the order of answers.
    pub(super) engines: Vec<EngineId>,
    best: Source,
    weighted: f64,
    /// 0 < score <= 1.
    pub(super) score: f64,
}

#[derive(Clone, Copy)]
struct Source {
    place: usize,
    engine: EngineId,
    weight: f64,
    rank: u32,
}

impl<'a> Pool<'a> {
    pub(super) fn new(answer_count: usize) -> Self {
        Self {
            entries: Vec::with_capacity(answer_count.saturating_mul(16).min(256)),
            by_key: BTreeMap::new(),
            weight_sum: 0.0,
            current: Source { place: 0, engine: EngineId(0), weight: WEIGHT_MIN, rank: 0 },
        }
    }

    /// Starts the answer at `place`; its items follow, best first.
    pub(super) fn begin(&mut self, place: usize, engine: EngineId, weight: f64) {
        let weight = if weight.is_nan() { 0.0 } else { weight }.clamp(WEIGHT_MIN, WEIGHT_MAX);
        self.weight_sum += weight;
        self.current = Source { place, engine, weight, rank: 0 };
    }

    /// Adds the next item of the current answer. A page that the answer repeats keeps its first
    /// rank, and takes no rank of its own away from those behind it.
    pub(super) fn add(&mut self, item: &'a Item, found: Canonical<'a>) {
        let mut source = self.current;
        source.rank = source.rank.saturating_add(1);
        let place = self.by_key.get(&found.key).copied();
        let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) else {
            self.by_key.insert(found.key, self.entries.len());
            self.entries.push(Entry {
                key: String::new(),
                shown: found.shown,
                grade: found.grade,
                item,
                others: Vec::new(),
                engines: vec![source.engine],
                best: source,
                weighted: source.share(),
                score: 0.0,
            });
            self.current = source;
            return;
        };
        if found.grade > entry.grade {
            entry.grade = found.grade;
            entry.shown = found.shown;
        }
        if entry.engines.contains(&source.engine) {
            entry.others.push(item);
            return;
        }
        entry.engines.push(source.engine);
        entry.weighted += source.share();
        if source.rank < entry.best.rank {
            entry.others.insert(0, std::mem::replace(&mut entry.item, item));
            entry.best = source;
        } else {
            entry.others.push(item);
        }
        self.current = source;
    }

    /// All pages, best first, with their scores.
    pub(super) fn ranked(self) -> Vec<Entry<'a>> {
        let mut entries = self.entries;
        for (key, place) in self.by_key {
            if let Some(entry) = entries.get_mut(place) {
                entry.key = key;
            }
        }
        for entry in &mut entries {
            entry.score = (entry.weighted / self.weight_sum).clamp(f64::MIN_POSITIVE, 1.0);
        }
        entries.sort_by(Entry::order);
        debug_assert!(entries.is_sorted_by(|one, next| one.score >= next.score), "best first");
        entries
    }
}

impl Source {
    fn share(&self) -> f64 {
        self.weight * (FLATNESS + 1.0) / (FLATNESS + f64::from(self.rank))
    }
}

impl<'a> Entry<'a> {
    /// The engine that has it at the best rank.
    pub(super) const fn engine(&self) -> EngineId {
        self.best.engine
    }

    /// The first value that an item of this page gives.
    pub(super) fn first(&self, given: impl Fn(&'a Item) -> Option<&'a str>) -> Option<&'a str> {
        given(self.item).or_else(|| self.others.iter().find_map(|item| given(item)))
    }

    fn order(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then_with(|| other.engines.len().cmp(&self.engines.len()))
            .then_with(|| self.best.rank.cmp(&other.best.rank))
            .then_with(|| self.best.place.cmp(&other.best.place))
            .then_with(|| self.key.cmp(&other.key))
    }
}
