//! What a group cycle found, for observers.

use std::sync::Arc;

use kube_scheduler_framework::{PluginName, Status};

use crate::effect::PodRef;

/// Everything that a group cycle decided (`docs/spec/podgroups.md` §5 and §6).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GroupReport {
    /// Namespace of the group.
    pub namespace: Arc<str>,
    /// Name of the group.
    pub name: Arc<str>,
    /// The members in the order in which they were tried; empty unless the observer wants the attempts.
    pub members: Vec<PodRef>,
    /// Why there are no placements, if there are none.
    pub placement_failure: Option<Status>,
    /// One per placement that was tried, in order; empty unless the
    /// [observer wants them](crate::Observer::wants_group_attempts).
    pub attempts: Vec<PlacementAttempt>,
    /// What scorers gave; empty unless at least two placements were feasible.
    pub scores: Vec<PlacementScores>,
    /// The placement taken, if one was feasible.
    pub chosen: Option<Arc<str>>,
    /// What workload-aware preemption said, if it was asked.
    pub preemption: Option<Status>,
    /// What came of it.
    pub status: Status,
    /// Whether the group has to wait for victims to go.
    pub waits_for_preemption: bool,
}

/// How a group fared in one placement.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PlacementAttempt {
    /// Name of the placement; `None` when there are no placements, without the gate.
    pub placement: Option<Arc<str>>,
    /// The nodes, in the order in which attempts go through them.
    pub nodes: Vec<Arc<str>>,
    /// The members that were tried.
    pub members: Vec<MemberAttempt>,
    /// What came of it.
    pub status: Status,
    /// Whether the group would have to wait for victims to go.
    pub waits_for_preemption: bool,
}

/// How one member fared in one placement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberAttempt {
    /// Which pod.
    pub pod: PodRef,
    /// The node that was chosen, or the one that the member is nominated to.
    pub node: Option<Arc<str>>,
    /// How many nodes fit.
    pub n_feasible: usize,
    /// Whether the node was found; with the text of the pod's event and condition if not.
    pub status: Status,
    /// The plugins that rejected it, by name, if the node was not found.
    pub rejected_by: Vec<PluginName>,
    /// What Permit said, `Wait` included; `None` if it was not asked.
    pub permit: Option<Status>,
    /// Whether pods have to go before the member fits on its node.
    pub requires_preemption: bool,
}

/// The scores of one placement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlacementScores {
    /// Name of the placement.
    pub placement: Arc<str>,
    /// By plugin, normalised and weighted, in the order of the profile.
    pub by_plugin: Vec<(Arc<str>, i64)>,
    /// Their sum.
    pub total: i64,
}
