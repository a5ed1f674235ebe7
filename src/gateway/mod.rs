//! Stage 1: admission before work. In this order: who asks (401), whether the plan has the endpoint
//! (403), whether the request is pinned to another region (400: nothing is forwarded), the key's
//! bucket and credits (429), and last the concurrency limit (503). Nothing queues, nothing awaits,
//! and no refusal costs more than one SHA-256 and one map read.
//!
//! A token taken for a request that is then shed is not given back: a caller at the limit is told
//! to come later, and must not come more often for it. A month's credit is.
//!
//! Shared across cores are only `Words`: one atomic word per key and endpoint, one per key's month.

mod keys;
mod rate;
mod credits;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use runtime::{Deadline, Instant};
use shards::limiter::Limiter;

use crate::config::Settings;
use crate::config::settings::Plan;
use crate::head::{Head, Headers};
use crate::model::{Admitted, Endpoint, FieldError, KeyId, RateState, Refusal, Region};
use credits::Calendar;
use keys::Keys;
pub use rate::Words;

/// One core's gate.
pub struct Gateway {
    keys: Keys,
    /// By key: its plan.
    plans: Vec<Plan>,
    words: Arc<Words>,
    calendar: Calendar,
    /// Where this instance is.
    region: Region,
    /// What a request may take, less the margin for writing.
    time: Duration,
}

impl Gateway {
    /// The gate under `settings`; `words` are those of the instance, made from the same settings.
    pub fn new(settings: &Settings, words: Arc<Words>) -> Self {
        debug_assert_eq!(words.keys(), settings.keys.len());
        let plan_of = |key: &crate::config::settings::Key| settings.plans.get(key.plan).cloned();
        Self {
            keys: Keys::new(&settings.keys),
            plans: settings.keys.iter().filter_map(plan_of).collect(),
            words,
            calendar: Calendar::default(),
            region: settings.server.region,
            time: settings.deadline.total.saturating_sub(settings.deadline.write_margin),
        }
    }

    /// Tells the wall-clock time, for months of credits; once a second is often enough. Until it is
    /// told, credits count in one month that does not end.
    pub fn set_unix_time(&self, unix_time: Duration) {
        self.calendar.set(unix_time);
    }

    /// Lets a request in, or refuses it. Whoever is let in has entered a lane of `limiter` and must
    /// leave it once. `arrived` is when the request's first byte was read.
    ///
    /// # Errors
    /// The refusal, and where the key's bucket stands if the key has one.
    pub fn admit(
        &self,
        head: &Head<'_>,
        endpoint: Endpoint,
        arrived: Instant,
        now: Instant,
        limiter: &RefCell<Limiter>,
    ) -> Result<Admitted, (Refusal, Option<RateState>)> {
        let key = self.keys.find(&head.headers).ok_or((Refusal::Unauthorized, None))?;
        let plan = self.plans.get(key.0 as usize).ok_or((Refusal::Unauthorized, None))?;
        let Some(rate) = plan.rates[endpoint.index()] else {
            return Err((Refusal::Forbidden("the key's plan does not have this endpoint"), None));
        };
        check_pin(&head.headers, self.region).map_err(|refusal| (refusal, None))?;
        let rate = self
            .words
            .take(key, endpoint, rate, now)
            .map_err(|(retry_in, state)| (Refusal::RateLimited(retry_in), Some(state)))?;
        self.take_credit(plan, key).map_err(|refusal| (refusal, Some(rate)))?;
        if !limiter.borrow_mut().enter(plan.lane) {
            self.give_credit_back(plan, key);
            return Err((Refusal::Overloaded, Some(rate)));
        }
        let deadline = Deadline::after(arrived, self.time);
        Ok(Admitted { key, lane: plan.lane, rate, deadline })
    }

    fn take_credit(&self, plan: &Plan, key: KeyId) -> Result<(), Refusal> {
        let Some(most) = plan.monthly_credits else {
            return Ok(());
        };
        let month = self.calendar.month();
        match self.words.credits(key).is_some_and(|word| credits::take(word, month, most)) {
            true => Ok(()),
            false => Err(Refusal::CreditsExhausted(self.calendar.left())),
        }
    }

    fn give_credit_back(&self, plan: &Plan, key: KeyId) {
        if plan.monthly_credits.is_some()
            && let Some(word) = self.words.credits(key)
        {
            credits::give_back(word, self.calendar.month());
        }
    }
}

/// The regions as `X-Region` names them.
const REGIONS: [(&str, Region); 3] =
    [("EU", Region::Eu), ("US", Region::Us), ("APAC", Region::Apac)];

/// Lets a request through that `X-Region` does not pin elsewhere than `here`. A pinned request
/// never leaves its region, and nothing is forwarded: an answer from here would break the promise.
fn check_pin(headers: &Headers<'_>, here: Region) -> Result<(), Refusal> {
    let wrong = |detail: String| {
        let pointer = "#/X-Region".to_owned();
        Refusal::Invalid(vec![FieldError { pointer, detail }])
    };
    let mut found = None;
    for value in headers.all("x-region") {
        let Some(named) = REGIONS.iter().find(|(name, _)| name.as_bytes() == value) else {
            let detail = "must be EU, US or APAC; leave it out to use the nearest";
            return Err(wrong(detail.to_owned()));
        };
        if found.is_some_and(|other| other != named) {
            return Err(wrong("stands there twice, with two regions; send one".to_owned()));
        }
        found = Some(named);
    }
    let Some((pinned, _)) = found.filter(|(_, region)| *region != here) else {
        return Ok(());
    };
    let here = REGIONS.iter().find(|(_, region)| *region == here).map_or("", |(name, _)| name);
    Err(wrong(format!(
        "pins to {pinned}, and this gateway serves {here} and forwards nothing: leave X-Region \
         out, or ask a gateway of {pinned}"
    )))
}

#[cfg(test)]
mod tests;
