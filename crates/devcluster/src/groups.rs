//! Pod groups and workloads: what admission fills in, and what is refused. `group_protection.rs` keeps a group while pods
//! belong to it.
//!
//! Behaviour: `docs/spec/podgroups.md` §1. Everything about them is served and admitted, whatever a scheduler makes of it.

mod checks;

use serde_json::{Value, json};

use crate::defaults::set_priority;
use crate::kinds::{POD_GROUPS, WORKLOADS};
use crate::object::{at, child_mut, list_at, list_mut, meta_mut, text_at};
use crate::status::StatusError;
use crate::store::State;

pub(crate) use checks::{
    check_custom_group, check_group, check_group_update, check_membership, check_workload,
};

/// The finalizer of every pod group.
pub(crate) const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

/// Fills in the defaults of a group's spec, or of a workload's templates of groups.
pub(crate) fn apply_defaults(kind: &str, value: &mut Value) {
    let spec = child_mut(value, "spec");
    match kind {
        "PodGroup" => {
            spec.entry("disruptionMode").or_insert(json!("Pod"));
        }
        _ => {
            for template in list_mut(spec, "podGroupTemplates") {
                if let Some(template) = template.as_object_mut() {
                    template.entry("disruptionMode").or_insert(json!("Pod"));
                }
            }
        }
    }
}

/// Does on creation of a group what admission does.
///
/// # Errors
/// Status 403 if its template does not exist, or its priority class.
pub(crate) fn admit_group(state: &State, group: &mut Value) -> Result<(), StatusError> {
    check_template_exists(state, group)?;
    set_priority(state, POD_GROUPS, group)?;
    let finalizers = list_mut(meta_mut(group), "finalizers");
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    Ok(())
}

/// What admission has set on creation is set again, so that sending the original manifest again changes nothing.
pub(crate) fn keep_admitted(old: &Value, new: &mut Value) {
    let spec = child_mut(new, "spec");
    for field in ["priority", "priorityClassName"] {
        if let Some(value) = at(old, &["spec", field]) {
            spec.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// The workload that a group names must exist, and have the template that it names.
fn check_template_exists(state: &State, group: &Value) -> Result<(), StatusError> {
    let Some(reference) = at(group, &["spec", "podGroupTemplateRef", "workload"]) else {
        return Ok(());
    };
    let (namespace, name) =
        (text_at(group, &["metadata", "namespace"]), text_at(group, &["metadata", "name"]));
    let workload = text_at(reference, &["workloadName"]);
    let template = text_at(reference, &["podGroupTemplateName"]);
    let why = match state.get(WORKLOADS, namespace, workload).map(|workload| workload.value()) {
        None => format!("workload {workload:?} not found"),
        Some(value) => {
            let mut templates = list_at(&value, &["spec", "podGroupTemplates"]).iter();
            if templates.any(|known| text_at(known, &["name"]) == template) {
                return Ok(());
            }
            format!("workload {workload:?} has no pod group template {template:?}")
        }
    };
    Err(StatusError::forbidden(POD_GROUPS.get(), name, &why))
}

/// The name of the group that a pod belongs to, if it belongs to one.
pub(crate) fn group_of(pod: &Value) -> Option<&str> {
    at(pod, &["spec", "schedulingGroup", "podGroupName"])?.as_str()
}

#[cfg(test)]
mod tests;
