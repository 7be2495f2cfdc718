//! Pods and pod groups of questions, given as an API server would store them.

use std::sync::Arc;

use kube_scheduler_api_types::{CompileOptions, Object, Pod, PodGroup};
use serde_json::Value;

use crate::API_GROUP;

const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A field of a manifest that cannot be.
#[derive(Debug)]
pub(crate) struct FieldProblem {
    pub(crate) field: &'static str,
    pub(crate) problem: String,
}

/// Where a pod stands in a question, for messages.
pub(crate) struct Place {
    pub(crate) object: &'static str,
    pub(crate) priority: &'static str,
    /// How it gets its priority.
    pub(crate) how: &'static str,
}

/// A UID for a pod of a question, which no existing pod has.
pub(crate) fn uid(namespace: &str, name: &str) -> Arc<str> {
    format!("{API_GROUP}/{namespace}/{name}").into()
}

/// A pod of a question, in the question's namespace unless it names another one.
pub(crate) fn manifest(
    mut pod: Value,
    namespace: &Arc<str>,
    at: &Place,
    options: &CompileOptions,
) -> Result<Pod, FieldProblem> {
    let given = pod.get("metadata").and_then(|meta| meta.get("namespace"));
    let given = given.and_then(Value::as_str).filter(|given| !given.is_empty());
    let namespace: Arc<str> = given.map_or_else(|| namespace.clone(), Arc::from);
    if pod["spec"]["priority"].is_null() && !pod["spec"]["priorityClassName"].is_null() {
        let problem = format!("is not set although there is a priorityClassName: {}", at.how);
        return Err(FieldProblem { field: at.priority, problem });
    }
    if pod["spec"].is_object() && pod["spec"]["schedulerName"].is_null() {
        pod["spec"]["schedulerName"] = DEFAULT_SCHEDULER.into();
    }
    let pod = Pod::from_json_with(pod.to_string(), options)
        .map_err(|error| FieldProblem { field: at.object, problem: error.to_string() })?;
    let name: Arc<str> = if pod.name.is_empty() { "pod".into() } else { pod.name.clone() };
    let uid = uid(&namespace, &name);
    Ok(Pod { namespace, name, uid, ..pod })
}

/// A pod group of a question, in the question's namespace unless it names another one. `at` is its place in the question.
pub(crate) fn pod_group(
    mut group: Value,
    namespace: &Arc<str>,
    at: &'static str,
) -> Result<Arc<Object>, FieldProblem> {
    let refused = |problem: String| FieldProblem { field: at, problem };
    if group["metadata"].is_object() && group["metadata"]["namespace"].is_null() {
        group["metadata"]["namespace"] = Value::from(&**namespace);
    }
    let mut group = Object::from_value(group).map_err(|error| refused(error.to_string()))?;
    if (&*group.group, &*group.kind) != (PodGroup::GROUP, PodGroup::KIND) || group.name.is_empty() {
        let expected = format!("expected a {} of {} with a name", PodGroup::KIND, PodGroup::GROUP);
        return Err(refused(expected));
    }
    PodGroup::from_object(&group).map_err(|error| refused(error.to_string()))?;
    group.uid = uid(&group.namespace, &group.name);
    Ok(Arc::new(group))
}
