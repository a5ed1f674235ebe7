//! Plans of query strings seen lately, so that a question asked again in the same bytes is not
//! compiled again: compiling is most of an L1 hit's own work. A plan is a function of endpoint and
//! query string alone where no header steers it and there is no body; only such requests come here.
//!
//! One slot per hash, the newest wins: at most `SLOTS` plans of `QUERY_BYTES_MAX` bytes, about 2
//! MiB a core. The bytes are compared, so a collision costs a compilation and never gives another's
//! plan.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::rc::Rc;

use foldhash::fast::FixedState;

use crate::model::{Endpoint, Plan};

const SLOTS: usize = 1_024;

/// Longer query strings are not kept: people and agents repeat short ones.
const QUERY_BYTES_MAX: usize = 512;

struct Seen {
    endpoint: Endpoint,
    query: Box<[u8]>,
    plan: Rc<Plan>,
}

/// The plans of one core.
pub(super) struct Memo {
    slots: RefCell<Vec<Option<Seen>>>,
    hasher: FixedState,
}

impl Memo {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| None).collect();
        Self { slots: RefCell::new(slots), hasher: FixedState::default() }
    }

    /// The plan of `query`, if it was kept and not displaced.
    pub(super) fn get(&self, endpoint: Endpoint, query: &[u8]) -> Option<Rc<Plan>> {
        let slots = self.slots.borrow();
        let seen = slots.get(self.slot(endpoint, query))?.as_ref()?;
        (seen.endpoint == endpoint && *seen.query == *query).then(|| seen.plan.clone())
    }

    /// Keeps `plan` for `query`, unless that is too long.
    pub(super) fn keep(&self, endpoint: Endpoint, query: &[u8], plan: &Rc<Plan>) {
        if query.len() > QUERY_BYTES_MAX {
            return;
        }
        let seen = Seen { endpoint, query: query.into(), plan: plan.clone() };
        let index = self.slot(endpoint, query);
        if let Some(slot) = self.slots.borrow_mut().get_mut(index) {
            *slot = Some(seen);
        }
    }

    fn slot(&self, endpoint: Endpoint, query: &[u8]) -> usize {
        self.hasher.hash_one((endpoint, query)) as usize % SLOTS
    }
}
