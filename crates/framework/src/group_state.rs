//! What the members of a pod group share in one group cycle.

use std::fmt;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;

use crate::cycle_state::CycleState;

/// Values that plugins share between the members of a group for one group cycle. The [`CycleState`] of every member holds it
/// from PreFilter on; that of a pod which is tried by itself does not. Copies are the same state. What plugins keep
/// while a group is planned as a whole is in one of its own ([`GroupDemand::shared`](crate::groups::GroupDemand::shared)).
///
/// Members are tried several times in one cycle, and what was tried is taken back: a value says what was done at some time in
/// the cycle, not that it still stands.
#[derive(Clone, Default)]
pub struct GroupCycleState(Arc<Mutex<CycleState>>);

impl GroupCycleState {
    /// Reads or changes the values.
    pub fn with<R>(&self, then: impl FnOnce(&mut CycleState) -> R) -> R {
        // What a panic left behind is whole: values are replaced at once.
        then(&mut lock(&self.0))
    }
}

impl fmt::Debug for GroupCycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupCycleState").finish()
    }
}
