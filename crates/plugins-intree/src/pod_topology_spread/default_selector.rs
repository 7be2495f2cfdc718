//! Which pods belong together with a pod that says nothing about spreading: what its services and its owner select
//! (`docs/spec/plugins-topology.md` §1.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::{
    Fields, Json, LabelSelector, Labels, Object, Pod, Requirement, wire,
};
use serde::Deserialize;

/// The selector of all services that select the pod and of the controller that owns it. Without requirements when
/// there are none.
///
/// A service is compared with the pod up to the first label that differs. What services add are labels of the pod, so
/// there are never more of them than the pod has, however many services there are.
pub(super) fn default_selector(cluster: ClusterView<'_>, pod: &Pod) -> LabelSelector {
    let mut pairs: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for service in cluster.objects_of("").list_in("Service", &pod.namespace) {
        let Some(selector) = selector_of(service).as_object() else { continue };
        if are_labels(selector, &pod.labels) {
            extend(&mut pairs, selector);
        }
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
        let owner =
            || cluster.objects_of(group).get(&controller.kind, &pod.namespace, &controller.name);
        match (group, &*controller.kind) {
            ("", "ReplicationController") => {
                let selector = owner().and_then(|owner| selector_of(owner).as_object());
                selector.into_iter().for_each(|selector| extend(&mut pairs, selector));
            }
            ("apps", "ReplicaSet" | "StatefulSet") => {
                of_owner = owner().map(|owner| owner.read_as(label_selector));
            }
            _ => {}
        }
    }
    let of_owner = of_owner.as_deref().cloned().unwrap_or_default();
    if pairs.is_empty() {
        return of_owner;
    }
    let pairs = pairs.into_iter().map(|(key, value)| Requirement::equals(key, value));
    let more = of_owner.requirements().iter().cloned();
    LabelSelector::new(pairs.chain(more).collect::<Vec<_>>())
}

/// `spec.selector`; `null` when there is none.
fn selector_of(object: &Object) -> &Json {
    &object.json["spec"]["selector"]
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a pod with these labels has all pairs of a selector. O(pairs log labels) or O(pairs + labels), whichever is less: many
/// services may select a pod by all of its labels.
fn are_labels(selector: &Fields, labels: &Labels) -> bool {
    let (n_pairs, n_labels) = (selector.len(), labels.len());
    if n_pairs > n_labels {
        return false;
    }
    let n_steps = n_labels.checked_ilog2().unwrap_or_default() as usize + 1;
    if n_pairs * n_steps < n_labels {
        return selector.iter().all(|(key, value)| labels.get(key) == Some(text(value)));
    }
    // Both are in the order of their keys.
    let mut labels = labels.iter();
    selector
        .iter()
        .all(|(key, value)| labels.find(|(label, _)| *label >= key) == Some((key, text(value))))
}

/// Adds a selector that is written as pairs, in place of what is there.
fn extend(pairs: &mut BTreeMap<Arc<str>, Arc<str>>, selector: &Fields) {
    for (key, value) in selector.iter() {
        if pairs.get(key).is_none_or(|known| **known != *text(value)) {
            pairs.insert(key.into(), text(value).into());
        }
    }
}

/// `spec.selector` in its longer form; without requirements when it is absent or cannot be read.
fn label_selector(owner: &Json) -> LabelSelector {
    let wire = wire::LabelSelector::deserialize(&owner["spec"]["selector"]).ok();
    wire.and_then(|wire| LabelSelector::from_wire(&wire).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    type Pairs = BTreeMap<String, String>;

    /// Some of these labels and perhaps others, by as many letters as there are few or many pairs for.
    fn pairs(most: usize) -> impl Strategy<Value = Pairs> {
        prop::collection::btree_map("[a-d]{1,3}", "[xy]", 0..most)
    }

    proptest! {
        #[test]
        fn selectors_are_compared_alike_however_long_they_are(
            labels in prop_oneof![pairs(6), pairs(60)],
            kept in 0..8_usize,
            more in prop::option::of(pairs(2)),
        ) {
            // All of the labels, each second one, and so on.
            let some = labels.iter().step_by(kept + 1);
            let mut selector: Pairs = some.map(|(key, value)| (key.clone(), value.clone())).collect();
            selector.extend(more.unwrap_or_default());
            let expected = selector.iter().all(|pair| labels.get_key_value(pair.0) == Some(pair));
            let json = Json::from(json!(selector));
            let labels: Labels = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
            prop_assert_eq!(are_labels(json.as_object().unwrap(), &labels), expected);
        }
    }
}
