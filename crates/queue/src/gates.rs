//! PreEnqueue: whether a pod may be tried at all.
//!
//! Invariant: a gated pod has its gating plugin among its rejectors.

use crate::entry::QueuedPod;
use crate::policy::{PreEnqueueVerdict, QueuePolicy};
use crate::rejectors::RejectorId;

/// Runs the gates of the pod's profile up to the first that rejects the pod, beginning with the one that gated it before.
/// Returns the gating plugin if it was not among the pod's rejectors yet.
pub(crate) fn run<E, O, P>(
    pod: &mut QueuedPod<E>,
    gates: &[RejectorId],
    policy: &mut P,
) -> Option<RejectorId>
where
    P: QueuePolicy<E, O> + ?Sized,
{
    policy.gates_begin(pod.profile);
    let held_by = pod.gated_by.filter(|plugin| gates.contains(plugin));
    let others = gates.iter().copied().filter(|&plugin| Some(plugin) != held_by);
    let closed = held_by.into_iter().chain(others).find(|&plugin| {
        policy.pre_enqueue(&pod.entry, pod.profile, plugin) == PreEnqueueVerdict::Gate
    });
    policy.gates_end(pod.profile);
    pod.gated_by = closed;
    let plugin = closed?;
    let is_new = !pod.is_rejected_by(plugin);
    pod.unschedulable_plugins.insert(plugin);
    is_new.then_some(plugin)
}
