//! What an evaluation has used, and when it must stop.

use std::cell::Cell;

use crate::error::{EvalStop, Fault};
use crate::limits;

#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    cost_limit: u64,
    bytes: Cell<u64>,
    steps: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64, limit: u64, stop: EvalStop) -> Result<(), Fault> {
    let total = to.get().saturating_add(more);
    to.set(total);
    if total > limit { Err(Fault::Stop(stop)) } else { Ok(()) }
}

impl Meter {
    pub(crate) fn new(cost_limit: u64) -> Self {
        Self { cost: Cell::new(0), cost_limit, bytes: Cell::new(0), steps: Cell::new(0) }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Counts cost units of the language's model.
    pub(crate) fn charge(&self, units: u64) -> Result<(), Fault> {
        add(&self.cost, units, self.cost_limit, EvalStop::Cost)
    }

    /// Whether the budget has that many units left.
    pub(crate) fn can_afford(&self, units: u64) -> bool {
        self.cost.get().saturating_add(units) <= self.cost_limit
    }

    /// Counts bytes before they are allocated.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<(), Fault> {
        add(&self.bytes, bytes, limits::MAX_VALUE_BYTES, EvalStop::Memory)
    }

    /// Counts elements before a list or map gets them.
    pub(crate) fn allocate_elements(&self, count: u64) -> Result<(), Fault> {
        self.allocate(count.saturating_mul(limits::ELEMENT_BYTES))
    }

    /// Work that the cost model does not see, in steps. Filling 64 bytes is one.
    pub(crate) fn work(&self) -> u64 {
        self.steps.get().saturating_add(self.bytes.get() / 64)
    }

    /// How many steps may still be taken.
    pub(crate) fn steps_left(&self) -> u64 {
        limits::MAX_STEPS.saturating_sub(self.steps.get())
    }

    /// Counts work that the cost model does not see.
    pub(crate) fn step(&self, steps: u64) -> Result<(), Fault> {
        add(&self.steps, steps, limits::MAX_STEPS, EvalStop::Steps)
    }
}
