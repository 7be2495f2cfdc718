//! ReplicaSets and ReplicationControllers: as many pods as are asked for.

use kube_scheduler_workloads::PodNaming;
use serde_json::{Value, json};

use super::owned::{Controller, remove};
use super::pods::{self, BURST, MOST_PODS, is_active, is_ready};
use crate::kinds::PODS;
use crate::object::{labels_of, text_at};
use crate::status::StatusError;
use crate::store::State;

/// Creates or deletes pods, and writes the status.
pub(super) fn settle(state: &mut State, controller: &Controller<'_>) -> bool {
    let Some(selector) = controller.selector() else { return false };
    let wanted = controller.count("replicas", 1);
    let mut active = controller.owned(state, PODS, Some(&selector));
    active.retain(is_active);
    let (mut error, mut more) = (None, false);
    if !controller.is_terminating() {
        (error, more) = approach(state, controller, &active, wanted);
        // The pods that are there now.
        active = controller.owned(state, PODS, None);
        active.retain(is_active);
    }
    put_status(state, controller, &active, error.as_ref());
    more
}

/// Takes a step towards the wanted number; returns why it could not, and whether there are more steps.
fn approach(
    state: &mut State,
    controller: &Controller<'_>,
    active: &[Value],
    wanted: i64,
) -> (Option<StatusError>, bool) {
    let present = i64::try_from(active.len()).unwrap_or(i64::MAX);
    if present < wanted {
        let missing = usize::try_from(wanted.min(MOST_PODS) - present).unwrap_or(0);
        for _ in 0..missing.min(BURST) {
            let pod = controller.pod(PodNaming::Generated);
            if let Err(error) = pods::create(state, controller, pod) {
                return (Some(error), false);
            }
        }
        let error = (wanted > MOST_PODS && missing <= BURST).then(|| {
            StatusError::bad_request(format!("a controller has at most {MOST_PODS} pods here"))
        });
        return (error, missing > BURST);
    }
    let surplus = usize::try_from(present - wanted).unwrap_or(0);
    let mut doomed: Vec<&Value> = active.iter().collect();
    doomed.sort_by_key(|pod| rank(pod));
    doomed.iter().take(surplus.min(BURST)).for_each(|pod| remove(state, PODS, pod));
    (None, surplus > BURST)
}

/// The order in which pods are deleted: those without a node, then those that do not run or are not ready, then the
/// youngest.
fn rank(pod: &Value) -> (bool, bool, bool, std::cmp::Reverse<String>, String) {
    let meta = |field| text_at(pod, &["metadata", field]).to_owned();
    (
        !text_at(pod, &["spec", "nodeName"]).is_empty(),
        text_at(pod, &["status", "phase"]) == "Running",
        is_ready(pod),
        std::cmp::Reverse(meta("creationTimestamp")),
        meta("name"),
    )
}

fn put_status(
    state: &mut State,
    controller: &Controller<'_>,
    active: &[Value],
    error: Option<&StatusError>,
) {
    let ready = active.iter().filter(|pod| is_ready(pod)).count();
    let labels = labels_of(controller.template());
    let is_labeled = |pod: &&Value| {
        let own = labels_of(pod);
        labels.iter().all(|(key, value)| own.get(key) == Some(value))
    };
    let status = json!({"replicas": active.len()});
    let counts = [
        ("fullyLabeledReplicas", active.iter().filter(is_labeled).count()),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
    ];
    controller.put_counts(state, status, &counts, error);
}
