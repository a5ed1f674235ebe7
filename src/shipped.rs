//! A flight's end on its way to another core: owned by its reader, so that no reference count is
//! shared across cores.

use runtime::Instant;

use crate::model::{LegReport, Making, Page, Refusal};

/// How a flight on another core ended.
#[derive(Debug, Clone)]
pub enum Shipped {
    /// A page, copied: the reader owns it.
    Page(ShippedPage),
    /// No page, and why.
    Refused(Refusal, Vec<LegReport>),
    /// The maker went away without an answer.
    Abandoned,
}

/// A page on its way to another core.
#[derive(Debug, Clone)]
pub struct ShippedPage {
    /// Its bytes are this letter's own: no reference count is shared across cores.
    pub page: Page,
    /// What was asked of whom to make it.
    pub legs: Vec<LegReport>,
    /// When it was made.
    pub made_at: Instant,
    /// Until when it is fresh.
    pub fresh_until: Instant,
    /// Until when it may be served stale.
    pub usable_until: Instant,
    /// Until when it may stand in for an answer that nobody gives; the past: never.
    pub spare_until: Instant,
    /// Whether the reader may keep it.
    pub is_kept: bool,
    /// How its making went.
    pub making: Making,
}

impl ShippedPage {
    /// A copy whose bytes belong to nobody else.
    pub fn detached(&self) -> Self {
        Self { page: self.page.detached(), legs: self.legs.clone(), ..*self }
    }
}

impl Shipped {
    /// A copy whose bytes belong to nobody else.
    pub fn detached(&self) -> Self {
        match self {
            Self::Page(page) => Self::Page(page.detached()),
            other => other.clone(),
        }
    }
}
