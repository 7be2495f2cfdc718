//! Workloads (`scheduling.k8s.io`): templates of pod groups.

use serde_json::{Value, json};

use crate::controller::Controller;
use crate::json::{child_mut, text_at};

/// The version of Kubernetes 1.36, in which a group's reference to its template has a form of its own.
const FIRST_VERSION: &str = "scheduling.k8s.io/v1alpha2";
const FIRST_REFERENCE: &str = "podGroupTemplateRef";
/// The reference in later versions.
const REFERENCE: &str = "workloadRef";

/// The pod group of an entry of `spec.podGroupTemplates`. In Kubernetes the controller that creates the pods names it; here it has the
/// names of the workload and of the template.
pub(crate) fn pod_group(workload: &Controller<'_>, template: &Value) -> Value {
    let template_name = text_at(template, &["name"]);
    let api_version = text_at(workload.value, &["apiVersion"]);
    let (field, reference) = match api_version {
        FIRST_VERSION => (
            FIRST_REFERENCE,
            json!({"workload": {"workloadName": workload.name, "podGroupTemplateName": template_name}}),
        ),
        _ => (REFERENCE, json!({"workloadName": workload.name, "templateName": template_name})),
    };
    let mut group = json!({
        "apiVersion": api_version, "kind": "PodGroup",
        "metadata": {"name": format!("{}-{template_name}", workload.name)},
        "spec": template,
    });
    let spec = child_mut(&mut group, "spec");
    spec.remove("name");
    spec.insert(field.into(), reference);
    workload.adopt(&mut group);
    group
}

/// The name of the workload from which a pod group says that it was made, in the form of any version; empty if it names none.
pub fn workload_of_group(group: &Value) -> &str {
    let named = text_at(group, &["spec", REFERENCE, "workloadName"]);
    if named.is_empty() {
        text_at(group, &["spec", FIRST_REFERENCE, "workload", "workloadName"])
    } else {
        named
    }
}
