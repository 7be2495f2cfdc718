//! What plugins for pod groups need: the pods of a group, and the extension points at which a group is decided about as a whole.
//!
//! Behaviour: `docs/spec/podgroups.md`.

pub use kube_scheduler_cache::{MemberPlace, PodGroupState};

pub use crate::points::{
    GroupTrial, PlacedGroup, Placement, PlacementGenerate, PlacementScore, PodGroupPostFilter,
    ProposedPlacement,
};
