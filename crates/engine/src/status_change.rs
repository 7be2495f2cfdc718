//! What becomes of a pod's status when an attempt fails: its condition, and its nomination.
//!
//! Behaviour: `docs/spec/core.md` §8.

use kube_scheduler_api_types::well_known::POD_SCHEDULED;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_framework::NominatingInfo;

use crate::condition::{Condition, changed_condition};
use crate::effect::StatusPatch;

/// The change to the pod's status that shows the failure to users; `None` when it would change nothing.
pub(crate) fn status_patch(
    pod: &Pod,
    reason: &str,
    message: &str,
    nominating: &NominatingInfo,
    now: Timestamp,
) -> Option<StatusPatch> {
    let nominated_node_name = match nominating {
        NominatingInfo::Override(None) if pod.status.nominated_node_name.is_some() => Some(None),
        NominatingInfo::Override(Some(node)) if pod.nominated_node_name() != Some(node) => {
            Some(Some(node.clone()))
        }
        _ => None,
    };
    let condition = Condition { kind: POD_SCHEDULED, status: "False", reason, message };
    let condition = changed_condition((&pod.status.conditions, pod.generation), condition, now);
    if condition.is_none() && nominated_node_name.is_none() {
        return None;
    }
    Some(StatusPatch {
        condition,
        nominated_node_name,
        has_conditions: !pod.status.conditions.is_empty(),
    })
}
