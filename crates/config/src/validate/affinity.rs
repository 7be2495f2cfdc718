//! The rules of node affinity in plugin arguments: the same complaints, in the same words, that compiling the affinity
//! would raise.
//!
//! Invariants: terms that select nothing (no requirement) and preferred terms of weight 0 are skipped, errors and all,
//! because they are dropped before they are compiled.

use kube_scheduler_api_types::validation::{
    BadValue, FieldError, FieldPath, label_key_messages, label_value_messages,
};

use crate::args::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};

const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

pub(super) fn validate(affinity: &NodeAffinity, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path =
            path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            validate_term(term, &path.index(index), errors);
        }
    }
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, term) in
        affinity.preferred_during_scheduling_ignored_during_execution.iter().enumerate()
    {
        if term.weight != 0 {
            validate_term(&term.preference, &path.index(index), errors);
        }
    }
}

fn validate_term(term: &NodeSelectorTerm, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, requirement) in term.match_expressions.iter().enumerate() {
        label_requirement(requirement, &path.child("matchExpressions").index(index), errors);
    }
    for (index, requirement) in term.match_fields.iter().enumerate() {
        field_requirement(requirement, &path.child("matchFields").index(index), errors);
    }
}

fn label_requirement(
    requirement: &NodeSelectorRequirement,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let operator = requirement.operator.as_str();
    if !LABEL_OPERATORS.contains(&operator) {
        let path = path.child("operator");
        errors.push(FieldError::unsupported(path, operator, &LABEL_OPERATORS));
        return;
    }
    let key = requirement.key.as_str();
    let messages = label_key_messages(key);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path.child("key"), key, messages.join("; ")));
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    let path = path.child("values");
    let is_empty = values.is_empty();
    let detail = match operator {
        "In" | "NotIn" if is_empty => "for 'in', 'notin' operators, values set can't be empty",
        "Exists" | "DoesNotExist" if !is_empty => {
            "values set must be empty for exists and does not exist"
        }
        "Gt" | "Lt" if values.len() != 1 => {
            "for 'Gt', 'Lt' operators, exactly one value is required"
        }
        _ => "",
    };
    if !detail.is_empty() {
        errors.push(FieldError::invalid(path.clone(), shown(requirement), detail));
    }
    for (index, value) in values.iter().enumerate() {
        let path = path.index(index);
        if matches!(operator, "Gt" | "Lt") && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(path.clone(), value, detail));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let messages = label_value_messages(value);
        if !messages.is_empty() {
            let path = path.index(index).key(key);
            errors.push(FieldError::invalid(path, value, messages.join("; ")));
        }
    }
}

fn field_requirement(
    requirement: &NodeSelectorRequirement,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if !FIELD_OPERATORS.contains(&requirement.operator.as_str()) {
        let path = path.child("operator");
        errors.push(FieldError::unsupported(path, &requirement.operator, &FIELD_OPERATORS));
    } else if requirement.values.as_ref().map_or(0, Vec::len) != 1 {
        let path = path.child("values");
        errors.push(FieldError::invalid(path, shown(requirement), "must have one element"));
    }
}

fn shown(requirement: &NodeSelectorRequirement) -> BadValue {
    requirement.values.as_ref().map_or_else(BadValue::null, BadValue::json)
}
