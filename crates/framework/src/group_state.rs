//! What the members of a pod group share in one group cycle.

use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;

use crate::cycle_state::CycleState;

/// Values that plugins share between the members of a group for one group cycle. The [`CycleState`] of every member holds it from
/// PreFilter on; that of a pod that is tried by itself does not. Clones share one state. What plugins keep while a group is
/// planned as a whole is in a separate one ([`GroupDemand::shared`](crate::groups::GroupDemand::shared)).
///
/// A member may be tried and taken back several times in a cycle, and values are not rolled back: a stored value does not mean
/// that the placement it describes still exists.
#[derive(Clone, Debug, Default)]
pub struct GroupCycleState(Arc<Mutex<CycleState>>);

impl GroupCycleState {
    /// Reads or changes the values.
    pub fn with<R>(&self, then: impl FnOnce(&mut CycleState) -> R) -> R {
        // What a panic left behind is whole: values are replaced at once.
        then(&mut lock(&self.0))
    }
}
