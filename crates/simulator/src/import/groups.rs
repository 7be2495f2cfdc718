//! Pod groups: the defaults and checks of an API server, and pods whose group is not in the input.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_api_types::DecodeError;
use kube_scheduler_workloads::json::map_at;
use serde_json::{Value, json};

use super::ClusterObjects;

/// The API group of pod groups and workloads.
pub(super) const GROUP: &str = "scheduling.k8s.io";

/// The version in which disruption modes are names.
const FIRST_VERSION: &str = "scheduling.k8s.io/v1alpha2";

/// How many groups a warning names.
const MAX_NAMED: usize = 5;

/// Fills in what the server fills in, except for the priority.
pub(super) fn complete(group: &mut Value) {
    let is_first = group.get("apiVersion").is_some_and(|version| version == FIRST_VERSION);
    let Some(spec) = group.as_object_mut().and_then(|group| map_at(group, "spec")) else { return };
    if spec.get("disruptionMode").is_none_or(Value::is_null) {
        let single = if is_first { json!("Pod") } else { json!({"single": {}}) };
        spec.insert("disruptionMode".to_owned(), single);
    }
}

/// Makes the checks of an API server on which scheduling relies.
pub(super) fn check(group: &Value) -> Result<(), DecodeError> {
    let refuse = |path: &str, reason: String| {
        let text = |pointer| group.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = format!("PodGroup {}/{}", text("/metadata/namespace"), text("/metadata/name"));
        Err(DecodeError { object, path: path.to_owned(), reason })
    };
    let given = |pointer| group.pointer(pointer).filter(|value| !value.is_null());
    let gang = given("/spec/schedulingPolicy/gang");
    if gang.is_some() == given("/spec/schedulingPolicy/basic").is_some() {
        let reason = "expected exactly one of basic and gang".to_owned();
        return refuse("spec.schedulingPolicy", reason);
    }
    if let Some(gang) = gang {
        let n = gang.get("minCount").unwrap_or(&Value::Null);
        let is_count = n.as_i64().is_some_and(|n| (1..=i64::from(i32::MAX)).contains(&n));
        if !is_count {
            let reason = format!("expected a number from 1 to {}, found {n}", i32::MAX);
            return refuse("spec.schedulingPolicy.gang.minCount", reason);
        }
    }
    let topology = given("/spec/schedulingConstraints/topology").and_then(Value::as_array);
    if let Some(topology) = topology.filter(|topology| topology.len() > 1) {
        let reason = format!("expected at most one, found {}", topology.len());
        return refuse("spec.schedulingConstraints.topology", reason);
    }
    Ok(())
}

/// A warning about all groups that pods name and that are not in the input.
pub(super) fn missing(found: &ClusterObjects) -> Option<String> {
    let groups = found
        .objects
        .iter()
        .chain(&found.asked_groups)
        .filter(|object| *object.kind == *"PodGroup" && *object.group == *GROUP);
    let known: BTreeSet<String> = groups.map(|group| group.key()).collect();
    let waiting = found.pods.iter().filter(|pod| !pod.is_assigned());
    let named = waiting
        .filter_map(|pod| Some(format!("{}/{}", pod.namespace, pod.spec.pod_group.as_ref()?)));
    lacking(named.filter(|group| !known.contains(group)))
}

/// The warning about groups that are not in the input, each as often as pods name it.
pub(crate) fn lacking(groups: impl Iterator<Item = String>) -> Option<String> {
    let mut lacking: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups {
        *lacking.entry(group).or_default() += 1;
    }
    if lacking.is_empty() {
        return None;
    }
    let named: Vec<String> = lacking
        .iter()
        .take(MAX_NAMED)
        .map(|(key, n)| format!("{key} ({n} {})", if *n == 1 { "pod" } else { "pods" }))
        .collect();
    let rest = lacking.len().saturating_sub(MAX_NAMED);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    Some(format!(
        "pod groups that pods name are not in the input: {}{rest}; where gangs are scheduled together, their pods wait \
         for them",
        named.join(", ")
    ))
}
