//! What plugins for pod groups need: the pods of a group, what its members share in one cycle, and the extension points at which
//! a group is decided about as a whole.
//!
//! Behaviour: `docs/spec/podgroups.md`.

use std::fmt;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;
pub use kube_scheduler_cache::{MemberPlace, PodGroupError, PodGroupState};

use crate::cycle_state::CycleState;
pub use crate::points::{
    Choice, Chooser, ChosenFor, GroupDemand, GroupSource, GroupTrial, PlacedGroup, Placement,
    PlacementBound, PlacementGenerate, PlacementScore, PlannedMember, PodGroupPostFilter,
    ProposedPlacement,
};

/// Values that plugins share between the members of a group for one group cycle. The [`CycleState`] of every member holds it
/// from PreFilter on; that of a pod which is tried by itself does not. Copies are the same state. What plugins keep while a group is planned as a
/// whole is in one of its own ([`GroupDemand::shared`]).
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

/// A value of the [`GroupCycleState`] of a group that is planned as a whole, where more may be asked of its members than the
/// reference asks.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAsAWhole;
