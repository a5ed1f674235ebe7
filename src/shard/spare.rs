//! Spare pages: old answers that stand in where no engine gives a new one
//! (`search.stale_if_error_s`). A page is spare for that long after it ceased to be usable; news
//! never is, and who asked for no cached answer gets none.

use runtime::Instant;

use super::Shard;
use crate::cache::Stored;
use crate::cache::lease::Spare;
use crate::model::{CacheMode, Class, Plan, Refusal};

impl Shard {
    /// Until when a page of `class` that is usable until `usable_until` may stand in.
    pub fn spare_until(&self, class: Class, usable_until: Instant) -> Instant {
        let longer = self.settings.search.stale_if_error;
        match class == Class::News || longer.is_zero() {
            true => Instant::ZERO,
            false => usable_until + longer,
        }
    }

    /// Whether an old page of another core may serve whoever asks for `plan`.
    pub fn wants_spare(&self, plan: &Plan) -> Spare {
        let is_off = self.settings.search.stale_if_error.is_zero();
        let is_barred = plan.class == Class::News || plan.cache == CacheMode::NoCache;
        let has_one = || self.cache.spare(plan.key, self.reactor.now()).is_some();
        if is_off || is_barred || has_one() { Spare::Unwanted } else { Spare::Wanted }
    }

    /// The page that stands in for `refusal`: this core's own, else the one that was `carried` here
    /// by the lease; counted.
    pub fn spare(&self, plan: &Plan, refusal: &Refusal, carried: Option<Stored>) -> Option<Stored> {
        let is_for_lack = matches!(
            refusal,
            Refusal::DeadlineExceeded | Refusal::NoValidAnswer(_) | Refusal::EnginesUnavailable(_)
        );
        let is_barred = plan.class == Class::News || plan.cache == CacheMode::NoCache;
        if !is_for_lack || is_barred {
            return None;
        }
        let now = self.reactor.now();
        let carried = carried.filter(|old| now < old.spare_until);
        let old = self.cache.spare(plan.key, now).or(carried)?;
        self.metrics.borrow_mut().spare(refusal);
        Some(old)
    }
}
