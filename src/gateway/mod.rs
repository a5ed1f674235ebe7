//! Stage 1: admission before work. In this order: who asks (401), whether the plan has the endpoint
//! (403), where the request is pinned to (400), the key's bucket and credits (429), and last the
//! concurrency limit (503). Nothing queues, nothing awaits, and no refusal costs more than one
//! SHA-256 and one map read.
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
        let pinned = pinned(&head.headers).map_err(|refusal| (refusal, None))?;
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
        Ok(Admitted { key, lane: plan.lane, rate, pinned, deadline })
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

/// The region that `X-Region` pins a request to.
fn pinned(headers: &Headers<'_>) -> Result<Option<Region>, Refusal> {
    let wrong = |detail: &str| {
        let (pointer, detail) = ("#/X-Region".to_owned(), detail.to_owned());
        Refusal::Invalid(vec![FieldError { pointer, detail }])
    };
    let mut found = None;
    for value in headers.all("x-region") {
        let region = match value {
            b"EU" => Region::Eu,
            b"US" => Region::Us,
            b"APAC" => Region::Apac,
            _ => {
                return Err(wrong("must be EU, US or APAC; leave it out to use the nearest"));
            }
        };
        if found.is_some_and(|other| other != region) {
            return Err(wrong("stands there twice, with two regions; send one"));
        }
        found = Some(region);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
