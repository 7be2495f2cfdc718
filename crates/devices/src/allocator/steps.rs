//! A limit of the work that searches do.

use std::cell::Cell;

use super::AllocationError;

/// This many units of the cost of an expression count as one step.
const COST_OF_STEP: u64 = 10;

/// This many devices that are only listed count as one step.
const LISTED_BY_STEP: u64 = 64;

/// This many selectors that a device has to pass count as one step, beside what evaluating them takes.
const SELECTORS_BY_STEP: u64 = 8;

/// This many bytes of text that is written down count as one step.
const BYTES_BY_STEP: u64 = 8;

/// Looking up a selector by its text counts as this many steps.
const STEPS_OF_LOOKUP: u64 = 8;

/// How many steps searches may still take. Trying a device is one; listing devices, evaluating selectors and writing down what was
/// found counts, too, by what it takes. Several searches may share one limit.
#[derive(Debug)]
pub struct Steps(Cell<u64>);

impl Steps {
    /// A limit of `limit` steps, none of which is taken yet.
    pub fn new(limit: u64) -> Self {
        Self(Cell::new(limit))
    }

    /// How many steps are left.
    pub fn left(&self) -> u64 {
        self.0.get()
    }

    pub(super) fn take(&self, steps: u64) -> Result<(), AllocationError> {
        let left = self.0.get().checked_sub(steps);
        // What has ended stays ended.
        self.0.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(AllocationError::TooManySteps)
    }

    pub(super) fn take_evaluation(&self, cost: u64) -> Result<(), AllocationError> {
        self.take(cost / COST_OF_STEP)
    }

    pub(super) fn take_listing(&self, devices: usize) -> Result<(), AllocationError> {
        self.take(devices as u64 / LISTED_BY_STEP)
    }

    pub(super) fn take_selectors(&self, selectors: usize) -> Result<(), AllocationError> {
        self.take(selectors as u64 / SELECTORS_BY_STEP)
    }

    pub(super) fn take_text(&self, bytes: usize) -> Result<(), AllocationError> {
        self.take(bytes as u64 / BYTES_BY_STEP)
    }

    pub(super) fn take_lookups(&self, selectors: usize) -> Result<(), AllocationError> {
        self.take(selectors as u64 * STEPS_OF_LOOKUP)
    }
}
