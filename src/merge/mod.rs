//! Stage 6, the merge: valid answers become one page. Results that are one page under several
//! addresses become one, hosts that the question excludes go, the rest is ranked and written.
//!
//! Pure, and the same page for the same answers: pages are cached and compared. At most
//! `plan.bucket` results (≤ 50) leave; what comes in is bounded by the engines' answers. Never
//! reads a caller's wishes beyond the plan's key: the slice to `max_results` comes later.

mod canonical;
mod unwrap;
mod rank;
mod serialise;

use crate::address::is_within;
use crate::model::{Answer, Page, Plan};

/// Makes the page of one search: deduplicates by canonical URL, enforces the domain filters on
/// result hosts, ranks, cuts to the bucket, writes each result for the endpoint.
///
/// `names` and `weights` are the engines' names and qualities by `EngineId::index`; a weight that
/// is missing or not positive counts as the least one.
pub fn merge(plan: &Plan, answers: &[Answer], names: &[String], weights: &[f64]) -> Page {
    let mut pool = rank::Pool::new(answers.len());
    for (place, answer) in answers.iter().enumerate() {
        let weight = weights.get(answer.engine.index()).copied().unwrap_or_default();
        pool.begin(place, answer.engine, weight);
        for item in &answer.items {
            if let Some(found) = canonical::canonical(&item.url)
                && is_wanted(plan, found.host.as_deref())
            {
                pool.add(item, found);
            }
        }
    }
    let mut ranked = pool.ranked();
    ranked.truncate(plan.bucket);
    serialise::page(plan.endpoint, &ranked, names)
}

/// Whether a host passes the plan's filters. A host that cannot be read fails them, since nothing
/// can be said about it.
fn is_wanted(plan: &Plan, host: Option<&str>) -> bool {
    let Some(host) = host else {
        return plan.include_domains.is_empty() && plan.exclude_domains.is_empty();
    };
    let is_in = |domains: &[String]| domains.iter().any(|domain| is_within(host, domain));
    (plan.include_domains.is_empty() || is_in(&plan.include_domains))
        && !is_in(&plan.exclude_domains)
}

#[cfg(test)]
mod tests;
