//! PlacementGenerate, PlacementBound and PlacementScore: where a whole pod group may go.
//!
//! Behaviour: `docs/spec/podgroups.md` §6.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodGroup};
use kube_scheduler_cache::NodeIdx;

use crate::context::Context;
use crate::group_state::GroupCycleState;
use crate::status::Status;

/// A pod group that is being placed.
#[derive(Clone, Copy, Debug)]
pub struct PlacedGroup<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name of the PodGroup, which need not exist.
    pub name: &'a str,
    /// The members that are being placed.
    pub members: &'a [Arc<Pod>],
}

impl PlacedGroup<'_> {
    /// The priority with which the group makes room for itself, given its object: that of the PodGroup. A group of another kind
    /// has none, so that it may take away what its least important member may.
    pub fn priority(&self, object: &PodGroup) -> i32 {
        match PodGroup::foreign_parts(&object.name) {
            None => object.priority,
            Some(_) => self.members.iter().map(|pod| pod.priority()).min().unwrap_or(0),
        }
    }
}

/// Nodes that a group may be placed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Such as the name of a topology domain; unique among the placements of one group, empty for all nodes.
    pub name: Arc<str>,
    /// The nodes, in the order in which attempts go through them.
    pub nodes: Arc<[NodeIdx]>,
}

/// A placement and where the group's members would go within it.
#[derive(Clone, Copy, Debug)]
pub struct ProposedPlacement<'a> {
    /// The placement.
    pub placement: &'a Placement,
    /// The members that have found a node. They are not in the cluster that plugins see.
    pub assignments: &'a [(Arc<Pod>, NodeIdx)],
}

/// Proposes sets of nodes to place a group on. A profile has at most one such plugin.
pub trait PlacementGenerate: Send + Sync {
    /// The placements that are worth a try, as parts of `parent`. With an empty list the group is unschedulable.
    ///
    /// # Errors
    /// The status with which the group fails.
    fn generate(
        &self,
        cx: &Context<'_>,
        group: PlacedGroup<'_>,
        parent: &Placement,
    ) -> Result<Vec<Placement>, Status>;
}

/// What part of a group asks for room, and where.
#[derive(Clone, Copy, Debug)]
pub struct GroupDemand<'a> {
    /// The pods that are to be placed, or some of them.
    pub members: &'a [Arc<Pod>],
    /// How many of them have to be placed; which ones does not matter.
    pub needed: usize,
    /// The nodes that they may go to, no node twice.
    pub nodes: &'a [NodeIdx],
    /// All members that are planned together; the same ones in all calls of a group cycle.
    pub all: &'a [Arc<Pod>],
    /// What plugins keep while the group is planned, from one call to the next. The states of members do not hold it, so that it is gone
    /// at the end of the group cycle.
    pub shared: &'a GroupCycleState,
}

/// Rules nodes out for a group by counting, without trying anything: for groups that are planned as a whole.
pub trait PlacementBound: Send + Sync {
    /// Why there is no room for this many members on these nodes at once, however they are placed, in a few words for the user;
    /// `None` if counting cannot rule it out. Contract: if this returns `Some`, no order of placing `needed` of the members on
    /// these nodes passes the plugin's Filter. Work that depends on more than the members and nodes must be
    /// [counted](Context::count_work).
    fn rules_out(&self, cx: &Context<'_>, demand: GroupDemand<'_>) -> Option<String>;
}

/// Scores placements in which a group fits. Only asked when there are at least two.
pub trait PlacementScore: Send + Sync {
    /// Any number, if [`normalize`](Self::normalize) brings it between 0 and [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    ///
    /// # Errors
    /// The status with which the group fails.
    fn score(
        &self,
        cx: &Context<'_>,
        group: PlacedGroup<'_>,
        placement: ProposedPlacement<'_>,
    ) -> Result<i64, Status>;

    /// Brings the scores of all placements between 0 and [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    ///
    /// # Errors
    /// The status with which the group fails.
    fn normalize(&self, scores: &mut [i64]) -> Result<(), Status> {
        let _ = scores;
        Ok(())
    }

    /// Whether the score depends on which members find a node in the placement, and not on which node. Saying so allows
    /// members to be counted instead of tried.
    fn goes_by_members(&self) -> bool {
        false
    }
}
