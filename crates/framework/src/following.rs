//! How answers about nodes are kept for plugins whose PreFilter reads something that differs from pod to pod.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;

use crate::context::Context;
use crate::cycle_state::CycleState;

/// Whether answers about nodes that were given for an earlier pod can be used for the next pod of the same
/// [signature](crate::Sign).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowOutcome {
    /// They can, except for these nodes, and for nodes where something that was read has changed.
    Except(Vec<NodeIdx>),
    /// They cannot be used for this pod, but may be for later ones.
    Apart,
    /// They are stale, and must be discarded.
    Outdated,
}

/// Lets pods of one [signature](crate::Sign) share answers about nodes although PreFilter reads things that differ from pod to
/// pod or change with each of them. It is called for every pod in place of PreFilter, so the answers stay valid when what
/// PreFilter read changes.
pub trait PreFilterFollower: Send + Sync {
    /// Whether the answers that Filter and Score give from `state`, which PreFilter left, can be used for later pods.
    fn can_follow(&self, cx: &Context<'_>, state: &CycleState) -> bool;

    /// Prepares `state`, which served an earlier pod, for `pod`.
    ///
    /// After [`FollowOutcome::Except`] the state must be one that PreFilter might have left for the pod, with success and for all
    /// nodes; Filter and Score are asked with it. Otherwise the state is only used for further calls of `follow`.
    fn follow(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> FollowOutcome;

    /// Notifies the plugin that `state` will not be used before it is prepared for a later pod, so that what only the present
    /// attempt needs can be dropped.
    fn rest(&self, state: &mut CycleState);
}
