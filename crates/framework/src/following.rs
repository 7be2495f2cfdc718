//! For plugins whose PreFilter reads what differs from pod to pod: how their answers about nodes are kept all the same.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;

use crate::context::Context;
use crate::cycle_state::CycleState;

/// How answers about nodes that were given for an earlier pod stand to those for the next pod of its
/// [signature](crate::Sign).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// They are the same but for these nodes, and for nodes of which anything has changed that was read to answer.
    Except(Vec<NodeIdx>),
    /// They are of no use for this pod, but may be for later ones.
    Apart,
    /// They are out of date.
    Outdated,
}

/// Lets pods of one [signature](crate::Sign) share answers about nodes although PreFilter reads things that differ from pod to
/// pod or change with each of them. It is called for every pod in the place of PreFilter, so what PreFilter read need not be the
/// same any more.
pub trait PreFilterFollower: Send + Sync {
    /// Whether the answers that Filter and Score give by `state`, which PreFilter left, are ones that can be followed.
    fn can_follow(&self, cx: &Context<'_>, state: &CycleState) -> bool;

    /// Prepares `state`, which served an earlier pod, for `pod`.
    ///
    /// After [`Followed::Except`] the state is one that PreFilter might have left for the pod, with success and for all nodes, and
    /// Filter and Score answer as that says. Otherwise the state serves for nothing but following for a later pod.
    fn follow(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> Followed;

    /// No answers will be asked by `state` before it is prepared for a later pod: it need not hold what only this attempt needs.
    fn rest(&self, state: &mut CycleState);
}
