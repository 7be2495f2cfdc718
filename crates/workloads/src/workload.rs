//! Workloads (`scheduling.k8s.io`): templates of pod groups.

use serde_json::{Value, json};

use crate::controller::Controller;
use crate::json::{child_mut, text_at};

/// The pod group of an entry of `spec.podGroupTemplates`. In Kubernetes the controller that creates the pods names it; here it has the
/// names of the workload and of the template.
pub(crate) fn pod_group(workload: &Controller<'_>, template: &Value) -> Value {
    let template_name = text_at(template, &["name"]);
    let reference =
        json!({"workload": {"workloadName": workload.name, "podGroupTemplateName": template_name}});
    let mut group = json!({
        "apiVersion": text_at(workload.value, &["apiVersion"]), "kind": "PodGroup",
        "metadata": {"name": format!("{}-{template_name}", workload.name)},
        "spec": template,
    });
    let spec = child_mut(&mut group, "spec");
    spec.remove("name");
    spec.insert("podGroupTemplateRef".into(), reference);
    workload.adopt(&mut group);
    group
}
