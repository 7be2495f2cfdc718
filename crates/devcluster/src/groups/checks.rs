//! What groups and workloads must look like, in Kubernetes' words where they are known.

use std::collections::BTreeSet;

use kube_scheduler_api_types::validation::{
    BadValue, FieldError, FieldPath, dns1123_label_messages, dns1123_subdomain_messages,
    label_key_messages,
};
use serde_json::Value;

use crate::kinds::{KindId, POD_GROUPS};
use crate::object::{at, list_at, text_at};
use crate::status::StatusError;

const IMMUTABLE: &str = "field is immutable";
const MAX_CONSTRAINTS: usize = 1;
const MAX_CLAIMS: usize = 4;
const MAX_TEMPLATES: usize = 8;
const MAX_PRIORITY: i64 = 1_000_000_000;
const DISRUPTION_MODES: [&str; 2] = ["Pod", "PodGroup"];

/// Checks a group.
pub(crate) fn check_group(group: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec");
    let spec = at(group, &["spec"]).unwrap_or(&Value::Null);
    if let Some(reference) = spec.get("podGroupTemplateRef") {
        let path = path.child("podGroupTemplateRef");
        match reference.get("workload") {
            None => one_of(&path, &["workload"], &[], errors),
            Some(reference) => {
                for name in ["workloadName", "podGroupTemplateName"] {
                    if text_at(reference, &[name]).is_empty() {
                        let path = path.child("workload").child(name);
                        errors.push(FieldError::required(path, ""));
                    }
                }
            }
        }
    }
    check_spec(spec, &path, errors);
    let claims = list_at(spec, &["resourceClaims"]);
    let statuses = list_at(group, &["status", "resourceClaimStatuses"]).iter().enumerate();
    for (index, status) in statuses {
        let name = text_at(status, &["name"]);
        if !claims.iter().any(|claim| text_at(claim, &["name"]) == name) {
            let path = FieldPath::new("status.resourceClaimStatuses").index(index).child("name");
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(path, name, why));
        }
    }
}

/// Checks a group of scheduler-plugins, as the schema of its custom resource does.
pub(crate) fn check_custom_group(group: &Value, errors: &mut Vec<FieldError>) {
    let spec = at(group, &["spec"]).unwrap_or(&Value::Null);
    let path = FieldPath::new("spec");
    for (name, least) in [("minMember", Some(1)), ("scheduleTimeoutSeconds", None)] {
        let Some(value) = spec.get(name).filter(|value| !value.is_null()) else { continue };
        let why = match (value.as_i64().and_then(|n| i32::try_from(n).ok()), least) {
            (None, _) => format!("spec.{name} in body must be of type integer"),
            (Some(n), Some(least)) if n < least => {
                format!("spec.{name} in body should be greater than or equal to {least}")
            }
            _ => continue,
        };
        errors.push(FieldError::invalid(path.child(name), BadValue::json(value), why));
    }
}

/// Checks a workload.
pub(crate) fn check_workload(workload: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.podGroupTemplates");
    let templates = list_at(workload, &["spec", "podGroupTemplates"]);
    if templates.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    }
    at_most(templates.len(), MAX_TEMPLATES, &path, errors);
    let mut names = BTreeSet::new();
    for (index, template) in templates.iter().enumerate() {
        let path = path.index(index);
        let name = text_at(template, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(path.clone(), name));
        } else {
            for why in dns1123_label_messages(name) {
                errors.push(FieldError::invalid(path.child("name"), name, why));
            }
        }
        check_spec(template, &path, errors);
    }
    if let Some(reference) = at(workload, &["spec", "controllerRef"]) {
        for name in ["kind", "name"] {
            if text_at(reference, &[name]).is_empty() {
                let path = FieldPath::new("spec.controllerRef").child(name);
                errors.push(FieldError::required(path, ""));
            }
        }
    }
}

/// Checks which group a pod belongs to. The group need not exist.
pub(crate) fn check_membership(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(membership) = spec.get("schedulingGroup") else { return };
    let path = path.child("schedulingGroup");
    match membership.get("podGroupName") {
        None => one_of(&path, &["podGroupName"], &[], errors),
        Some(name) => {
            let path = path.child("podGroupName");
            for why in dns1123_subdomain_messages(name.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(path.clone(), BadValue::json(name), why));
            }
        }
    }
}

/// What a group and a template of groups have in common.
fn check_spec(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    check_policy(spec, &path.child("schedulingPolicy"), errors);
    let topology = path.child("schedulingConstraints").child("topology");
    let constraints = list_at(spec, &["schedulingConstraints", "topology"]);
    at_most(constraints.len(), MAX_CONSTRAINTS, &topology, errors);
    for (index, constraint) in constraints.iter().enumerate() {
        let path = topology.index(index).child("key");
        let key = text_at(constraint, &["key"]);
        if key.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        for why in label_key_messages(key) {
            errors.push(FieldError::invalid(path.clone(), key, why));
        }
    }
    check_claims(spec, &path.child("resourceClaims"), errors);
    let mode = text_at(spec, &["disruptionMode"]);
    if !mode.is_empty() && !DISRUPTION_MODES.contains(&mode) {
        let path = path.child("disruptionMode");
        errors.push(FieldError::unsupported(path, mode, &DISRUPTION_MODES));
    }
    let class = text_at(spec, &["priorityClassName"]);
    if !class.is_empty() {
        for why in dns1123_subdomain_messages(class) {
            errors.push(FieldError::invalid(path.child("priorityClassName"), class, why));
        }
    }
    // Only the system's own classes are above the limit.
    let priority = spec.get("priority").and_then(Value::as_i64);
    if let Some(priority) = priority.filter(|priority| *priority > MAX_PRIORITY)
        && !class.starts_with("system-")
    {
        let why = format!("must be less than or equal to {MAX_PRIORITY}");
        errors.push(FieldError::invalid(path.child("priority"), priority, why));
    }
}

fn check_policy(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["basic", "gang"];
    let policy = spec.get("schedulingPolicy").unwrap_or(&Value::Null);
    let given: Vec<&str> = POLICIES.into_iter().filter(|name| policy.get(name).is_some()).collect();
    one_of(path, &POLICIES, &given, errors);
    if let Some(gang) = policy.get("gang") {
        let path = path.child("gang").child("minCount");
        match gang.get("minCount").and_then(Value::as_i64) {
            None => errors.push(FieldError::required(path, "")),
            Some(count) if count < 1 => {
                errors.push(FieldError::invalid(path, count, "must be greater than or equal to 1"));
            }
            Some(_) => {}
        }
    }
}

fn check_claims(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let claims = list_at(spec, &["resourceClaims"]);
    at_most(claims.len(), MAX_CLAIMS, path, errors);
    let mut names = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = text_at(claim, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(path.clone(), name));
        }
        const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];
        let given: Vec<&str> =
            SOURCES.into_iter().filter(|name| claim.get(name).is_some()).collect();
        one_of(&path, &SOURCES, &given, errors);
    }
}

/// Complains unless exactly one of the members is given.
fn one_of(path: &FieldPath, members: &[&str], given: &[&str], errors: &mut Vec<FieldError>) {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let (value, why) = match given {
        [_] => return,
        [] => (String::new(), format!("must specify one of: {}", quoted(members))),
        _ => (
            format!("{{{}}}", quoted(given)),
            format!("must specify exactly one of: {}", quoted(members)),
        ),
    };
    errors.push(FieldError::invalid(path.clone(), value.as_str(), why));
}

fn at_most(n: usize, limit: usize, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if n > limit {
        let items = if limit == 1 { "item" } else { "items" };
        let why = format!("must have at most {limit} {items}");
        errors.push(FieldError::invalid(path.clone(), BadValue::json(&n), why));
    }
}

/// Checks a change of a group or a workload, nothing of which may change but metadata and status, and a workload's
/// controller if it had none.
///
/// # Errors
/// Status 422 with everything that may not change.
pub(crate) fn check_group_update(
    kind: KindId,
    old: &Value,
    new: &Value,
) -> Result<(), StatusError> {
    const OF_A_GROUP: [&str; 7] = [
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ];
    const OF_A_WORKLOAD: [&str; 2] = ["controllerRef", "podGroupTemplates"];
    let fields = if kind == POD_GROUPS { &OF_A_GROUP[..] } else { &OF_A_WORKLOAD };
    let mut errors = Vec::new();
    for field in fields {
        let (before, after) = (at(old, &["spec", field]), at(new, &["spec", field]));
        let is_first_controller = *field == "controllerRef" && before.is_none();
        if before != after && !is_first_controller {
            let value = after.map_or_else(BadValue::null, BadValue::json);
            let path = FieldPath::new("spec").child(field);
            errors.push(FieldError::invalid(path, value, IMMUTABLE));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(kind.get(), text_at(new, &["metadata", "name"]), &errors))
}
