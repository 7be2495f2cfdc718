//! What plugins for pod groups need: the pods of a group, what its members share in one cycle, and the extension points at which
//! a group is decided about as a whole.
//!
//! Behaviour: `docs/spec/podgroups.md`.

pub use kube_scheduler_cache::{MemberPlace, PodGroupError, PodGroupState};

pub use crate::group_state::GroupCycleState;
pub use crate::points::{
    ChoiceOutcome, Chooser, GroupDemand, GroupSource, GroupTrial, MemberOnNode, PlacedGroup,
    Placement, PlacementBound, PlacementGenerate, PlacementScore, PlannedMember,
    PodGroupPostFilter, ProposedPlacement,
};

/// A value of the [`GroupCycleState`] of a group that is planned as a whole, where more may be asked of its members than the
/// reference asks.
#[derive(Clone, Copy, Debug)]
pub struct ExactPlanning;
