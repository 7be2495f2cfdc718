//! What an object must look like to be accepted, in Kubernetes' words.
//!
//! Checked: the shape of metadata, names, labels, and the parts of pods and nodes that a scheduler or kubelet relies on.
//! Validation of every field of every kind is deliberately not here.

use std::collections::BTreeSet;

use kube_scheduler_api_types::Quantity;
use kube_scheduler_api_types::validation::{
    BadValue, FieldError, FieldPath, dns1123_label_messages, dns1123_subdomain_messages,
    label_key_messages, label_value_messages,
};
use serde_json::Value;

use crate::groups::{check_custom_group, check_group, check_membership, check_workload};
use crate::kinds::{Kind, KindId, NODES, POD_GROUPS, PODS, WORKLOADS};
use crate::object::{at, list_at, text_at};
use crate::status::StatusError;

/// Checks what every later step relies on: metadata is an object and its members have the right types.
///
/// # Errors
/// Status 400, in the words of a decoder.
pub(crate) fn check_shape(value: &Value) -> Result<(), StatusError> {
    let wrong = |path: &str, found: &Value, wanted: &str| {
        Err(StatusError::bad_request(format!(
            "json: cannot unmarshal {} into Go struct field {path} of type {wanted}",
            json_type(found)
        )))
    };
    if !value.is_object() {
        return wrong("Object", value, "object");
    }
    let Some(metadata) = value.get("metadata") else { return Ok(()) };
    let Some(members) = metadata.as_object() else {
        return wrong("metadata", metadata, "v1.ObjectMeta");
    };
    for (key, member) in members {
        let path = format!("ObjectMeta.metadata.{key}");
        // The type that is expected of a member with a wrong one; members with the right type are skipped.
        let wanted = match key.as_str() {
            "name" | "namespace" | "uid" | "resourceVersion" | "generateName"
            | "creationTimestamp" | "deletionTimestamp"
                if !member.is_string() =>
            {
                "string"
            }
            "finalizers" | "ownerReferences" | "managedFields" if !member.is_array() => "list",
            "generation" | "deletionGracePeriodSeconds" if !member.is_i64() => "int64",
            "labels" | "annotations" => match member.as_object() {
                None => "map[string]string",
                Some(entries) => match entries.values().find(|entry| !entry.is_string()) {
                    Some(entry) => return wrong(&path, entry, "string"),
                    None => continue,
                },
            },
            _ => continue,
        };
        return wrong(&path, member, wanted);
    }
    for part in ["spec", "status"] {
        if let Some(member) = value.get(part)
            && !member.is_object()
        {
            return wrong(part, member, "object");
        }
    }
    Ok(())
}

/// Checks an object that is about to be stored.
///
/// # Errors
/// Status 422 with everything that is wrong.
pub(crate) fn check(kind_id: KindId, value: &Value) -> Result<(), StatusError> {
    let kind = kind_id.get();
    let mut errors = Vec::new();
    check_metadata(kind, value, &mut errors);
    if kind_id == PODS {
        let spec = at(value, &["spec"]).unwrap_or(&Value::Null);
        check_pod_spec(spec, &FieldPath::new("spec"), &mut errors);
    } else if kind_id == NODES {
        check_node(value, &mut errors);
    } else if kind_id == POD_GROUPS {
        check_group(value, &mut errors);
    } else if kind_id == WORKLOADS {
        check_workload(value, &mut errors);
    } else if kind.is_custom() {
        check_custom_group(value, &mut errors);
    } else if let Some(template) =
        at(value, &["spec", "template"]).filter(|_| has_pod_template(kind))
    {
        let spec = template.get("spec").unwrap_or(&Value::Null);
        let path = FieldPath::new("spec.template");
        check_pod_spec(spec, &path.child("spec"), &mut errors);
        check_labels(template, &path.child("metadata"), &mut errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(kind, text_at(value, &["metadata", "name"]), &errors))
}

/// Whether `spec.template` is a pod template.
pub(crate) fn has_pod_template(kind: &Kind) -> bool {
    matches!(
        kind.kind,
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController"
    )
}

/// Checks that a change of a pod touches only what may change; `resize` allows changes of resources as well.
///
/// # Errors
/// Status 422 with everything that may not change.
pub(crate) fn check_pod_update(old: &Value, new: &Value, resize: bool) -> Result<(), StatusError> {
    const WHY: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let gated = !list_at(old, &["spec", "schedulingGates"]).is_empty();
    let is_known = |gate: &Value| list_at(old, &["spec", "schedulingGates"]).contains(gate);
    let mut errors = Vec::new();
    if !list_at(new, &["spec", "schedulingGates"]).iter().all(is_known) {
        errors.push(FieldError::forbidden(
            FieldPath::new("spec.schedulingGates"),
            "only deletion is allowed, but found new scheduling gate",
        ));
    }
    let kept = |toleration: &Value| list_at(new, &["spec", "tolerations"]).contains(toleration);
    if !list_at(old, &["spec", "tolerations"]).iter().all(kept) {
        errors.push(FieldError::forbidden(
            FieldPath::new("spec.tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    if fixed_part(old, gated, resize) != fixed_part(new, gated, resize) {
        errors.push(FieldError::forbidden(FieldPath::new("spec"), WHY));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(PODS.get(), text_at(new, &["metadata", "name"]), &errors))
}

fn check_metadata(kind: &Kind, value: &Value, errors: &mut Vec<FieldError>) {
    let metadata = FieldPath::new("metadata");
    let name = text_at(value, &["metadata", "name"]);
    if name.is_empty() {
        let why = "name or generateName is required";
        errors.push(FieldError::required(metadata.child("name"), why));
    } else {
        push_invalid(errors, &metadata.child("name"), name, name_messages(kind, name));
    }
    check_labels(value, &metadata, errors);
    if let Some(annotations) = value.pointer("/metadata/annotations").and_then(Value::as_object) {
        for key in annotations.keys() {
            let messages = label_key_messages(&key.to_ascii_lowercase());
            push_invalid(errors, &metadata.child("annotations"), key, messages);
        }
    }
    for finalizer in list_at(value, &["metadata", "finalizers"]) {
        let messages = label_key_messages(finalizer.as_str().unwrap_or_default());
        push_invalid(errors, &metadata.child("finalizers"), BadValue::json(finalizer), messages);
    }
}

/// Adds one error per message.
fn push_invalid(
    errors: &mut Vec<FieldError>,
    path: &FieldPath,
    value: impl Into<BadValue>,
    messages: Vec<String>,
) {
    let value = value.into();
    let error = |message| FieldError::invalid(path.clone(), value.clone(), message);
    errors.extend(messages.into_iter().map(error));
}

/// What is wrong with the name of an object; nothing if it is valid.
fn name_messages(kind: &Kind, name: &str) -> Vec<String> {
    match kind.kind {
        "Namespace" | "Service" => dns1123_label_messages(name),
        // RBAC names are segments of paths; events of the core group are not checked further by Kubernetes either.
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" | "Event" => {
            let bad = name == "." || name == ".." || name.contains('/') || name.contains('%');
            let message = || "may not be '.' or '..' or contain '/' or '%'".to_owned();
            bad.then(message).into_iter().collect()
        }
        _ => dns1123_subdomain_messages(name),
    }
}

fn check_labels(holder: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(labels) = holder.pointer("/metadata/labels").and_then(Value::as_object) else {
        return;
    };
    let path = path.child("labels");
    for (key, value) in labels {
        push_invalid(errors, &path, key, label_key_messages(key));
        let value = value.as_str().unwrap_or_default();
        push_invalid(errors, &path, value, label_value_messages(value));
    }
}

fn check_pod_spec(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if list_at(spec, &["containers"]).is_empty() {
        errors.push(FieldError::required(path.child("containers"), ""));
    }
    check_containers(spec, path, errors);
    check_resources(spec.get("resources").unwrap_or(&Value::Null), path, errors);
    check_amounts(spec.get("overhead"), &path.child("overhead"), errors);
    let restart_policy = text_at(spec, &["restartPolicy"]);
    let allowed = ["Always", "OnFailure", "Never"];
    if !restart_policy.is_empty() && !allowed.contains(&restart_policy) {
        let path = path.child("restartPolicy");
        errors.push(FieldError::unsupported(path, restart_policy, &allowed));
    }
    if !list_at(spec, &["schedulingGates"]).is_empty() && !text_at(spec, &["nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(path.child("nodeName"), why));
    }
    check_tolerations(spec, path, errors);
    check_membership(spec, path, errors);
}

fn check_containers(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    // Names are unique over both lists.
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in list_at(spec, &[list]).iter().enumerate() {
            let path = path.child(list).index(index);
            let name = text_at(container, &["name"]);
            let messages = dns1123_label_messages(name);
            if name.is_empty() {
                errors.push(FieldError::required(path.child("name"), ""));
            } else if !messages.is_empty() {
                push_invalid(errors, &path.child("name"), name, messages);
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(path.child("name"), name));
            }
            if text_at(container, &["image"]).is_empty() {
                errors.push(FieldError::required(path.child("image"), ""));
            }
            check_resources(container.get("resources").unwrap_or(&Value::Null), &path, errors);
        }
    }
}

fn check_tolerations(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, toleration) in list_at(spec, &["tolerations"]).iter().enumerate() {
        let path = path.child("tolerations").index(index);
        let operator = text_at(toleration, &["operator"]);
        let allowed = ["Equal", "Exists", "Gt", "Lt"];
        if !operator.is_empty() && !allowed.contains(&operator) {
            let path = path.child("operator");
            errors.push(FieldError::unsupported(path, operator, &allowed));
        }
        if text_at(toleration, &["key"]).is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(path.child("operator"), operator, why));
        }
        let effect = text_at(toleration, &["effect"]);
        if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
            let path = path.child("effect");
            errors.push(FieldError::unsupported(path, effect, &TAINT_EFFECTS));
        }
    }
}

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn check_resources(resources: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("resources");
    check_amounts(resources.get("limits"), &path.child("limits"), errors);
    check_amounts(resources.get("requests"), &path.child("requests"), errors);
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else { return };
    for (name, limit) in limits {
        let Some(request) = resources.get("requests").and_then(|requests| requests.get(name))
        else {
            continue;
        };
        if let (Some(most), Some(least)) = (parse_amount(limit), parse_amount(request))
            && least > most
        {
            let limit = amount_text(limit);
            let why = format!("must be less than or equal to {name} limit of {limit}");
            let request = amount_text(request);
            errors.push(FieldError::invalid(path.child("requests"), &request, why));
        }
    }
}

fn check_amounts(amounts: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(amounts) = amounts.and_then(Value::as_object) else { return };
    for (name, amount) in amounts {
        let why = match Quantity::from_json(amount) {
            Ok(quantity) if quantity.sign() >= 0 => continue,
            Ok(_) => "must be greater than or equal to 0".to_owned(),
            Err(error) => error.to_string(),
        };
        errors.push(FieldError::invalid(path.key(name), BadValue::json(amount), why));
    }
}

/// A quantity written as a string or, as JSON allows, as a bare number.
pub(crate) fn parse_amount(amount: &Value) -> Option<Quantity> {
    Quantity::from_json(amount).ok()
}

fn amount_text(amount: &Value) -> String {
    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
}

fn check_node(node: &Value, errors: &mut Vec<FieldError>) {
    for part in ["capacity", "allocatable"] {
        check_amounts(at(node, &["status", part]), &FieldPath::new("status").child(part), errors);
    }
    for (index, taint) in list_at(node, &["spec", "taints"]).iter().enumerate() {
        let path = FieldPath::new("spec.taints").index(index);
        let key = text_at(taint, &["key"]);
        push_invalid(errors, &path.child("key"), key, label_key_messages(key));
        let effect = text_at(taint, &["effect"]);
        if effect.is_empty() {
            errors.push(FieldError::required(path.child("effect"), ""));
        } else if !TAINT_EFFECTS.contains(&effect) {
            let path = path.child("effect");
            errors.push(FieldError::unsupported(path, effect, &TAINT_EFFECTS));
        }
    }
}

/// The part of a pod's spec that may not change.
fn fixed_part(pod: &Value, gated: bool, resize: bool) -> Value {
    let mut spec = at(pod, &["spec"]).cloned().unwrap_or_default();
    let Some(members) = spec.as_object_mut() else { return spec };
    for free in
        ["activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"]
    {
        members.remove(free);
    }
    // Narrowing a gated pod's node choice is allowed; that it narrows is not checked.
    if gated {
        members.remove("nodeSelector");
        members.remove("affinity");
    }
    for list in ["containers", "initContainers"] {
        for container in members.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
                if resize {
                    container.remove("resources");
                }
            }
        }
    }
    if resize {
        members.remove("resources");
    }
    spec
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
