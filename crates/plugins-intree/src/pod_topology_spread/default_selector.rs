//! Which pods belong together with a pod that says nothing about spreading: what its services and its owner select
//! (`docs/spec/plugins-topology.md` §1.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{LabelSelector, Object, Pod, Requirement, wire};
use serde::Deserialize;

/// The selector of all services that select the pod and of the controller that owns it. Without requirements when
/// there are none.
pub(super) fn default_selector(cluster: ClusterView<'_>, pod: &Pod) -> LabelSelector {
    let mut pairs: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for service in cluster.objects_of("").list_in("Service", &pod.namespace) {
        let Some(selector) = pairs_of(service) else { continue };
        if selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)) {
            pairs.extend(selector.into_iter().map(|(key, value)| (key.into(), value.into())));
        }
    }
    let mut more = Vec::new();
    if let Some(controller) = &pod.controller {
        // Owners of any other API version are ignored, as in the reference.
        let group = match &*controller.api_version {
            "v1" | "/v1" => "",
            "apps/v1" => "apps",
            _ => "unknown",
        };
        let owner =
            || cluster.objects_of(group).get(&controller.kind, &pod.namespace, &controller.name);
        match (group, &*controller.kind) {
            ("", "ReplicationController") => {
                let selector = owner().and_then(|owner| pairs_of(owner)).unwrap_or_default();
                pairs.extend(selector.into_iter().map(|(key, value)| (key.into(), value.into())));
            }
            ("apps", "ReplicaSet" | "StatefulSet") => {
                more = owner().map(|owner| requirements_of(owner)).unwrap_or_default();
            }
            _ => {}
        }
    }
    let pairs = pairs.into_iter().map(|(key, value)| Requirement::equals(key, value));
    LabelSelector::new(pairs.chain(more).collect::<Vec<_>>())
}

/// `spec.selector` as pairs; `None` when there is none.
fn pairs_of(object: &Object) -> Option<Vec<(&str, &str)>> {
    let selector = object.json.get("spec")?.get("selector")?.as_object()?;
    Some(selector.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect())
}

/// The requirements of `spec.selector`; none when it is absent or cannot be read.
fn requirements_of(object: &Object) -> Vec<Requirement> {
    let selector = object.json.get("spec").and_then(|spec| spec.get("selector"));
    let wire = selector.and_then(|selector| wire::LabelSelector::deserialize(selector).ok());
    let compiled = wire.and_then(|wire| LabelSelector::from_wire(&wire).ok());
    compiled.map(|selector| selector.requirements().to_vec()).unwrap_or_default()
}
