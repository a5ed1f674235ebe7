//! Whom a search asks: the part of its spine that puts the shard's engines before the router, for
//! the first leg and, as the race goes on, for each of the others.

use std::rc::Rc;
use std::time::Duration;

use runtime::Deadline;

use crate::config::settings::EngineRole;
use crate::engines::ask::{self, Chosen, RETRY_AFTER};
use crate::model::{EngineId, Plan, Refusal, Role};
use crate::router::{self, Eligibility, Nobody};
use crate::shard::{Probes, Shard};

/// Stage 4 as the race sees it: the router's choice, made anew from the engines as they stand.
pub(super) struct RouteOf<'a> {
    pub(super) shard: &'a Rc<Shard>,
    pub(super) plan: &'a Plan,
}

impl RouteOf<'_> {
    /// The engine that is asked first.
    ///
    /// # Errors
    /// No time is left for any, or none may be asked.
    pub(super) fn first(&self, deadline: Deadline) -> Result<Chosen, Refusal> {
        let now = self.shard.reactor.now();
        let left = deadline.left(now);
        let field = self.shard.field(self.plan, now, left, Probes::Allowed);
        let chance = self.shard.chance();
        let settings = &self.shard.settings.router;
        match router::first(&field.candidates, settings, left, chance) {
            Ok(best) => {
                self.shard.metrics.borrow_mut().chosen(best.engine);
                let role = match best.is_open_for {
                    Eligibility::Probe => Role::Probe,
                    Eligibility::Yes | Eligibility::No => Role::Primary,
                };
                Ok(Chosen { engine: best.engine, role, generation: best.generation })
            }
            Err(Nobody::NoTime) => Err(Refusal::DeadlineExceeded),
            Err(Nobody::Unavailable) => {
                Err(Refusal::EnginesUnavailable(field.retry_at.since(now).max(RETRY_AFTER)))
            }
        }
    }

    /// A refusal after a race. Where the race has left nobody who may be asked (all of them
    /// throttled, say), it says when the first may be.
    pub(super) fn dated(&self, refusal: Refusal) -> Refusal {
        let Refusal::NoValidAnswer(soon) = refusal else { return refusal };
        let now = self.shard.reactor.now();
        let field = self.shard.field(self.plan, now, Duration::ZERO, Probes::Refused);
        let is_anybody_open = field.candidates.iter().any(|c| c.is_open_for != Eligibility::No);
        let wait = if is_anybody_open { soon } else { field.retry_at.since(now).max(soon) };
        Refusal::NoValidAnswer(wait)
    }
}

impl ask::Route for RouteOf<'_> {
    fn next(&self, asked: &[EngineId], left: Duration) -> Option<Chosen> {
        let now = self.shard.reactor.now();
        let field = self.shard.field(self.plan, now, left, Probes::Refused);
        let settings = &self.shard.settings.router;
        let best = router::next(&field.candidates, settings, left, asked, self.shard.chance())?;
        let role = match best.role {
            EngineRole::Primary => Role::Hedge,
            EngineRole::LastChance => Role::LastChance,
        };
        Some(Chosen { engine: best.engine, role, generation: best.generation })
    }

    fn delay(&self, engine: EngineId) -> Duration {
        self.shard.late_after(engine, self.plan.class)
    }
}
