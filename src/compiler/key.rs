//! The cache key: SHA-256 over a versioned list of everything that changes the answer, and nothing
//! about the caller. The list's parts are ended by NUL, which no part can hold, and lists inside it
//! start with their length, so two different plans never spell the same bytes.
//!
//! Engines enter by name: instances of a region share entries and may list engines in other orders.

use sha2::{Digest, Sha256};

use super::values::Served;
use crate::model::{Key, Plan, SafeSearch, TimeRange};

/// Changes with every change of what is stored under a key or of how it is derived.
const VERSION: &str = "hedgerow-search-1";

/// Gives the key of a plan; ignores the plan's own `key`.
pub(super) fn key(plan: &Plan, engines: &[Served]) -> Key {
    let mut list = List(Sha256::new());
    list.part(VERSION);
    list.part(plan.endpoint.name());
    list.part(match &plan.country {
        Some(code) => std::str::from_utf8(code).unwrap_or_default(),
        None => "all",
    });
    list.part(plan.lang.as_deref().unwrap_or("all"));
    list.part(&plan.normalised);
    list.part(match plan.bucket {
        10 => "10",
        20 => "20",
        _ => "50",
    });
    list.part(if plan.include_media { "media" } else { "" });
    list.part(match plan.time_range {
        None => "",
        Some(TimeRange::Day) => "day",
        Some(TimeRange::Week) => "week",
        Some(TimeRange::Month) => "month",
        Some(TimeRange::Year) => "year",
    });
    list.part(match plan.safe_search {
        SafeSearch::Off => "off",
        SafeSearch::Moderate => "moderate",
        SafeSearch::Strict => "strict",
    });
    list.parts(plan.include_domains.len(), plan.include_domains.iter().map(String::as_str));
    list.parts(plan.exclude_domains.len(), plan.exclude_domains.iter().map(String::as_str));
    if let Some(ids) = &plan.engines {
        let mut names: Vec<&str> = ids
            .iter()
            .filter_map(|id| engines.get(id.index()))
            .map(|engine| engine.name.as_str())
            .collect();
        names.sort_unstable();
        list.parts(names.len(), names.into_iter());
    }
    Key(list.0.finalize().into())
}

/// The bytes that are hashed.
struct List(Sha256);

impl List {
    fn part(&mut self, text: &str) {
        debug_assert!(!text.contains('\0'), "parts are visible text");
        self.0.update(text.as_bytes());
        self.0.update([0]);
    }

    fn parts<'a>(&mut self, count: usize, texts: impl Iterator<Item = &'a str>) {
        self.0.update((count as u64).to_be_bytes());
        for text in texts {
            self.part(text);
        }
    }
}
