//! The condition of a PodGroup that says whether it has been scheduled.
//!
//! Behaviour: `docs/spec/podgroups.md` §8.

use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::{LazyJson, PodCondition, PodGroup};
use kube_scheduler_cache::{ObjectKey, PodGroupError};
use kube_scheduler_framework::{ObjectWrite, Status};
use serde_json::json;

use crate::condition::{Condition, changed_condition};
use crate::core::Core;
use crate::effect::{Effect, PodRef};

const SCHEDULED: &str = "PodGroupScheduled";

/// Group and kind of what has that condition.
static POD_GROUP: LazyLock<(Arc<str>, Arc<str>)> =
    LazyLock::new(|| (PodGroup::GROUP.into(), PodGroup::KIND.into()));

/// Has the group's condition written, unless it says so already, or has been scheduled once. Groups of other kinds than PodGroup
/// have none.
pub(crate) fn write_condition(
    core: &mut Core,
    member: PodRef,
    (namespace, name): (&Arc<str>, &Arc<str>),
    status: &Status,
) {
    if PodGroup::foreign_parts(name).is_some() {
        return;
    }
    let group = match core.cluster.pod_group_object(namespace, name) {
        Ok(group) => group,
        Err(PodGroupError::NotFound) => {
            return core
                .note(format!("pod group {namespace}/{name}: no condition, as it is not found"));
        }
        Err(PodGroupError::Unreadable(error)) => return core.note(error.to_string()),
    };
    let message = status.error_text().unwrap_or_default();
    let text = if status.is_rejected() { status.message() } else { message };
    let (state, reason) = match status {
        status if status.is_success() => ("True", "Scheduled"),
        status if status.is_rejected() => ("False", "Unschedulable"),
        _ => ("False", "SchedulerError"),
    };
    let before = group.conditions.iter().find(|condition| *condition.kind == *SCHEDULED);
    if before.is_some_and(|before| *before.status == *"True") && state != "True" {
        return;
    }
    let condition = Condition { kind: SCHEDULED, status: state, reason, message: &text };
    let before = (&group.conditions[..], group.generation);
    let Some(condition) = changed_condition(before, condition, core.now) else { return };
    let uid = group.uid.clone();
    let (api_group, kind) = POD_GROUP.clone();
    let object =
        ObjectKey { group: api_group, kind, namespace: namespace.clone(), name: name.clone() };
    let patch = LazyJson::new(move || patch_of(&uid, &condition));
    let write = ObjectWrite::PatchStatus { object, patch, is_final: false };
    core.effects.push(Effect::WriteObject { pod: member, write, awaited_by: None });
}

fn patch_of(uid: &str, condition: &PodCondition) -> serde_json::Value {
    let since = condition.last_transition.map(|at| at.floor_to_second().to_string());
    let mut written = json!({
        "type": *condition.kind, "status": *condition.status, "reason": *condition.reason,
        "message": *condition.message, "lastTransitionTime": since,
    });
    if condition.observed_generation != 0 {
        written["observedGeneration"] = json!(condition.observed_generation);
    }
    // The macro would copy what it is given.
    let mut status = serde_json::Map::new();
    status.insert("conditions".to_owned(), serde_json::Value::Array(vec![written]));
    let mut patch = json!({"metadata": {"uid": uid}});
    patch["status"] = serde_json::Value::Object(status);
    patch
}
