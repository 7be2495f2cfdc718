//! What an object must look like to be accepted, in upstream's words.
//!
//! Covered: the shape of metadata, names, labels, and of pods the parts that a scheduler or kubelet relies on. Field by
//! field validation of every other kind is deliberately not here.

use serde_json::Value;

use crate::kinds::{Kind, KindId, NODES, PODS};
use crate::object::{at, list_at, text_at};
use crate::quantity::Quantity;
use crate::status::{ApiError, FieldError};

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Checks that decoding relies on: metadata is an object and its members have their types.
pub(crate) fn check_shape(value: &Value) -> Result<(), ApiError> {
    let wrong = |path: &str, found: &Value, wanted: &str| {
        Err(ApiError::bad_request(format!(
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

/// All that is wrong with an object about to be stored.
pub(crate) fn check(kind_id: KindId, value: &Value) -> Result<(), ApiError> {
    let kind = kind_id.get();
    let mut errors = Vec::new();
    check_metadata(kind, value, &mut errors);
    if kind_id == PODS {
        check_pod_spec(at(value, &["spec"]).unwrap_or(&Value::Null), "spec", &mut errors);
    } else if kind_id == NODES {
        check_node(value, &mut errors);
    } else if let Some(template) =
        at(value, &["spec", "template"]).filter(|_| has_pod_template(kind))
    {
        let spec = template.get("spec").unwrap_or(&Value::Null);
        check_pod_spec(spec, "spec.template.spec", &mut errors);
        check_labels(template, "spec.template.metadata", &mut errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(kind, text_at(value, &["metadata", "name"]), &errors))
}

/// Whether `spec.template` is a pod template.
pub(crate) fn has_pod_template(kind: &Kind) -> bool {
    matches!(
        kind.kind,
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController"
    )
}

/// What may change in a pod's spec once it exists; `resize` allows the resources as well.
pub(crate) fn check_pod_update(old: &Value, new: &Value, resize: bool) -> Result<(), ApiError> {
    const WHY: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let gated = !list_at(old, &["spec", "schedulingGates"]).is_empty();
    let is_known = |gate: &Value| list_at(old, &["spec", "schedulingGates"]).contains(gate);
    let mut errors = Vec::new();
    if !list_at(new, &["spec", "schedulingGates"]).iter().all(is_known) {
        errors.push(FieldError::forbidden(
            "spec.schedulingGates",
            "only deletion is allowed, but found new scheduling gate",
        ));
    }
    let kept = |toleration: &Value| list_at(new, &["spec", "tolerations"]).contains(toleration);
    if !list_at(old, &["spec", "tolerations"]).iter().all(kept) {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    if fixed_part(old, gated, resize) != fixed_part(new, gated, resize) {
        errors.push(FieldError::forbidden("spec", WHY));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(PODS.get(), text_at(new, &["metadata", "name"]), &errors))
}

/// A qualified name: optional DNS prefix, slash, name of at most 63 characters.
pub(crate) fn qualified_name(name: &str) -> Result<(), String> {
    let local = match name.split_once('/') {
        Some((prefix, local)) => {
            subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
            local
        }
        None => name,
    };
    if local.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if local.len() > 63 {
        return Err("name part must be no more than 63 bytes".to_owned());
    }
    if is_word(local) { Ok(()) } else { Err(QUALIFIED_NAME.to_owned()) }
}

/// A label value: empty, or a word of at most 63 characters.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if value.is_empty() || is_word(value) { Ok(()) } else { Err(LABEL_VALUE.to_owned()) }
}

fn subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 bytes".to_owned());
    }
    if !name.is_empty() && name.split('.').all(is_dns_word) {
        Ok(())
    } else {
        Err(SUBDOMAIN.to_owned())
    }
}

fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if is_dns_word(name) { Ok(()) } else { Err(DNS_LABEL.to_owned()) }
}

fn is_dns_word(word: &str) -> bool {
    is_word(word)
        && word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn check_metadata(kind: &Kind, value: &Value, errors: &mut Vec<FieldError>) {
    let name = text_at(value, &["metadata", "name"]);
    let shown = Value::from(name);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Err(why) = name_rule(kind)(name) {
        errors.push(FieldError::invalid("metadata.name", &shown, &why));
    }
    check_labels(value, "metadata", errors);
    if let Some(annotations) = value.pointer("/metadata/annotations").and_then(Value::as_object) {
        for key in annotations.keys() {
            if let Err(why) = qualified_name(&key.to_ascii_lowercase()) {
                errors.push(FieldError::invalid(
                    "metadata.annotations",
                    &key.as_str().into(),
                    &why,
                ));
            }
        }
    }
    for finalizer in list_at(value, &["metadata", "finalizers"]) {
        if let Err(why) = qualified_name(finalizer.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, &why));
        }
    }
}

fn name_rule(kind: &Kind) -> fn(&str) -> Result<(), String> {
    match kind.kind {
        "Namespace" | "Service" => dns_label,
        // RBAC names are path segments; events of the core group are not checked more than that upstream either.
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" | "Event" => |name| {
            let bad = name == "." || name == ".." || name.contains('/') || name.contains('%');
            if bad {
                Err("may not be '.' or '..' or contain '/' or '%'".to_owned())
            } else {
                Ok(())
            }
        },
        _ => subdomain,
    }
}

fn check_labels(holder: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(labels) = holder.pointer("/metadata/labels").and_then(Value::as_object) else {
        return;
    };
    for (key, value) in labels {
        if let Err(why) = qualified_name(key) {
            errors.push(FieldError::invalid(format!("{path}.labels"), &key.as_str().into(), &why));
        }
        if let Err(why) = label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("{path}.labels"), value, &why));
        }
    }
}

fn check_pod_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = list_at(spec, &["containers"]);
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in list_at(spec, &[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = text_at(container, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            } else if let Err(why) = dns_label(name) {
                errors.push(FieldError::invalid(format!("{path}.name"), &name.into(), &why));
            } else if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
            names.push(name);
            if text_at(container, &["image"]).is_empty() {
                errors.push(FieldError::required(format!("{path}.image"), ""));
            }
            check_resources(container.get("resources").unwrap_or(&Value::Null), &path, errors);
        }
    }
    check_resources(spec.get("resources").unwrap_or(&Value::Null), path, errors);
    check_amounts(spec.get("overhead"), &format!("{path}.overhead"), errors);
    let restart_policy = text_at(spec, &["restartPolicy"]);
    let allowed = ["Always", "OnFailure", "Never"];
    if !restart_policy.is_empty() && !allowed.contains(&restart_policy) {
        errors.push(FieldError::unsupported(
            format!("{path}.restartPolicy"),
            restart_policy,
            &allowed,
        ));
    }
    if !list_at(spec, &["schedulingGates"]).is_empty() && !text_at(spec, &["nodeName"]).is_empty() {
        errors.push(FieldError::forbidden(
            format!("{path}.nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    check_tolerations(spec, path, errors);
}

fn check_tolerations(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, toleration) in list_at(spec, &["tolerations"]).iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let operator = text_at(toleration, &["operator"]);
        let allowed = ["Equal", "Exists", "Gt", "Lt"];
        if !operator.is_empty() && !allowed.contains(&operator) {
            errors.push(FieldError::unsupported(format!("{path}.operator"), operator, &allowed));
        }
        if text_at(toleration, &["key"]).is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{path}.operator"), &operator.into(), why));
        }
        let effect = text_at(toleration, &["effect"]);
        let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !allowed.contains(&effect) {
            errors.push(FieldError::unsupported(format!("{path}.effect"), effect, &allowed));
        }
    }
}

fn check_resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_amounts(resources.get("limits"), &format!("{path}.resources.limits"), errors);
    check_amounts(resources.get("requests"), &format!("{path}.resources.requests"), errors);
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else { return };
    for (name, limit) in limits {
        let Some(request) = resources.get("requests").and_then(|requests| requests.get(name))
        else {
            continue;
        };
        if let (Some(most), Some(least)) = (parse_amount(limit), parse_amount(request))
            && least > most
        {
            let why =
                format!("must be less than or equal to {name} limit of {}", amount_text(limit));
            let shown = amount_text(request).into();
            errors.push(FieldError::invalid(format!("{path}.resources.requests"), &shown, &why));
        }
    }
}

fn check_amounts(amounts: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(amounts) = amounts.and_then(Value::as_object) else { return };
    for (name, amount) in amounts {
        match parse_amount(amount) {
            None => errors.push(FieldError::invalid(format!("{path}[{name}]"), amount, QUANTITY)),
            Some(parsed) if parsed.is_negative() => {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("{path}[{name}]"), amount, why));
            }
            Some(_) => {}
        }
    }
}

/// A quantity given as text or, as JSON allows, as a bare number.
pub(crate) fn parse_amount(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

fn amount_text(amount: &Value) -> String {
    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
}

fn check_node(node: &Value, errors: &mut Vec<FieldError>) {
    for part in ["capacity", "allocatable"] {
        check_amounts(at(node, &["status", part]), &format!("status.{part}"), errors);
    }
    for (index, taint) in list_at(node, &["spec", "taints"]).iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        let key = text_at(taint, &["key"]);
        if let Err(why) = qualified_name(key) {
            errors.push(FieldError::invalid(format!("{path}.key"), &key.into(), &why));
        }
        let effect = text_at(taint, &["effect"]);
        let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !allowed.contains(&effect) {
            errors.push(FieldError::unsupported(format!("{path}.effect"), effect, &allowed));
        }
    }
}

/// The part of a pod's spec that stays as it was created.
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
