//! Which pods belong together with a pod that says nothing about spreading: what its services and its owner select
//! (`docs/spec/plugins-topology.md` §1.3).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_framework::api::{Json, LabelSelector, Labels, Object, Pod, Requirement};
use kube_scheduler_framework::{ClusterView, Context};

/// Those of a pod's labels that services select it by.
struct SelectedLabels(Labels);

/// The selector of all services that select the pod and of the controller that owns it. Without requirements when
/// there are none.
///
/// What services add are labels of the pod, so there are never more of them than the pod has, however many services there
/// are.
pub(super) fn default_selector(cx: &Context<'_>, pod: &Pod) -> LabelSelector {
    let objects = |group| cx.cluster().objects_of(group);
    let mut pairs = Labels::default();
    if objects("").list_in("Service", &pod.namespace).next().is_some() {
        let key = (pod.uid.clone(), pod.namespace.clone(), pod.labels.clone());
        pairs = cx.once_per_cycle(&key, |cluster| selected(cluster, pod)).0.clone();
    }
    // All pods of an owner share one copy.
    let mut of_owner: Option<Arc<LabelSelector>> = None;
    if let Some(controller) = &pod.controller {
        // Owners of any other API version are ignored, as in the reference.
        let group = match &*controller.api_version {
            "v1" | "/v1" => "",
            "apps/v1" => "apps",
            _ => "unknown",
        };
        let owner = || objects(group).get(&controller.kind, &pod.namespace, &controller.name);
        match (group, &*controller.kind) {
            ("", "ReplicationController") => {
                let selector = owner().and_then(|owner| selector_of(owner).as_object());
                let more = selector.into_iter().flat_map(|selector| selector.iter());
                let more = more.map(|(key, value)| (key.into(), text(value).into()));
                // Where both have a key, the owner's value counts.
                pairs = shared(&pairs).chain(more).collect();
            }
            ("apps", "ReplicaSet" | "StatefulSet") => {
                of_owner = owner().map(|owner| owner.read_as(LabelSelector::of_controller));
            }
            _ => {}
        }
    }
    let of_owner = of_owner.as_deref().cloned().unwrap_or_default();
    if pairs.is_empty() {
        return of_owner;
    }
    let pairs = shared(&pairs).map(|(key, value)| Requirement::equals(key, value));
    let more = of_owner.requirements().iter().cloned();
    LabelSelector::new(pairs.chain(more).collect::<Vec<_>>())
}

/// O(services + pairs × log labels): a service is compared with the pod up to the first label that differs.
fn selected(cluster: ClusterView<'_>, pod: &Pod) -> SelectedLabels {
    let services = cluster.objects_of("").list_in("Service", &pod.namespace);
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for selector in services.filter_map(|service| selector_of(service).as_object()) {
        if selector.iter().all(|(key, value)| pod.labels.get(key) == Some(text(value))) {
            keys.extend(selector.iter().map(|(key, _)| key));
        }
    }
    SelectedLabels(shared(&pod.labels).filter(|(key, _)| keys.contains(&**key)).collect())
}

fn shared(pairs: &Labels) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    pairs.iter_shared().map(|(key, value)| (Cow::into_owned(key), Cow::into_owned(value)))
}

/// `spec.selector`; `null` when there is none.
fn selector_of(object: &Object) -> &Json {
    &object.json["spec"]["selector"]
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
