//! After which events a pod is worth a retry (`docs/spec/plugins-dra.md` §15).

use kube_scheduler_framework::api::{Json, Object, Pod};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, EnqueueExtensions, EventObject, EventRegistration,
    EventResource,
};
use serde_json::{Map, Value};

use super::kinds::is_allocated;
use super::shared::PluginData;
use super::{DynamicResources, extended, resolve};

impl EnqueueExtensions for DynamicResources {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let node_actions =
            ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_ALLOCATABLE;
        let object_actions = ActionType::ADD | ActionType::UPDATE;
        let (for_claims, for_pods) = (self.shared.clone(), self.shared.clone());
        let mut events = vec![
            EventRegistration::always(ClusterEvent::new(EventResource::Node, node_actions)),
            EventRegistration::on_object(
                EventResource::ResourceClaim,
                object_actions,
                move |cx, pod, old, new| after_claim(&for_claims, cx, pod, old, new),
            )
            .by_topic(pod_topics, claim_topics),
            EventRegistration::on_pod(
                ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
                move |cx, pod, _, new| {
                    // Whether claims were made for it.
                    let has_claims = |new| for_pods.claims_of(cx.cluster().objects(), new).is_ok();
                    new.is_none_or(|new| pod.uid == new.uid && has_claims(new))
                },
            )
            .by_topic(pod_topics, |_, _, new| {
                match new.and_then(EventObject::as_pod) {
                    Some(pod) => Topics::Only(vec![topic(&pod.uid)]),
                    None => Topics::All,
                }
            }),
            EventRegistration::always(ClusterEvent::new(
                EventResource::DeviceClass,
                object_actions,
            )),
            EventRegistration::always(ClusterEvent::new(
                EventResource::ResourceSlice,
                object_actions,
            )),
        ];
        if self.shared.settings.inventory.taint_rules {
            // A rule that goes or becomes narrower takes taints away. The reference reports the slices that it is about instead.
            let rules = EventResource::Custom("devicetaintrules.v1beta2.resource.k8s.io".into());
            let actions = object_actions | ActionType::DELETE;
            events.push(EventRegistration::always(ClusterEvent::new(rules, actions)));
        }
        events
    }
}

/// A pod waits for itself, for its claims, and for those that were left over from its attempts.
fn pod_topics(pod: &Pod) -> Topics {
    let entries = pod.spec.resource_claims.iter();
    // An entry without a claim waits for the pod's status.
    let names = entries.filter_map(|entry| resolve::claim_name(pod, entry).ok().flatten());
    let claims = names.map(|(name, _)| topic((&*pod.namespace, name)));
    Topics::Only(std::iter::once(topic(&pod.uid)).chain(claims).collect())
}

/// What [`after_claim`] may say yes to.
fn claim_topics(_: &Context<'_>, old: Option<&EventObject>, new: Option<&EventObject>) -> Topics {
    let [old, new] = [old, new].map(|object| object.and_then(EventObject::as_object));
    // Devices that are given back may help anybody.
    if old.is_some_and(|old| is_allocated(old)) && !new.is_some_and(|new| is_allocated(new)) {
        return Topics::All;
    }
    Topics::Only(match (old, new) {
        (_, Some(new)) => vec![topic((&*new.namespace, &*new.name))],
        (Some(old), None) => extended::pods_of_special(old).map(topic).collect(),
        (None, None) => Vec::new(),
    })
}

/// Whether the pod may fit now that a claim is there, has changed or is gone.
fn after_claim(
    shared: &PluginData,
    cx: &Context<'_>,
    pod: &Pod,
    old: Option<&Object>,
    new: Option<&Object>,
) -> bool {
    let claims = shared.claims_of(cx.cluster().objects(), pod);
    // Parity: as long as a claim of the pod is missing, devices that others give back do not matter.
    let Ok(claims) = claims else { return false };
    if old.is_some_and(is_allocated) && !new.is_some_and(is_allocated) {
        return true;
    }
    // A claim that was left over from an earlier attempt no longer stands in the way.
    let Some(new) = new else { return old.is_some_and(|old| extended::is_claim_of(old, pod)) };
    let is_own = claims.iter().any(|claim| claim.object.uid == new.uid);
    is_own && old.is_none_or(|old| !has_same_status(old, new))
}

fn has_same_status(old: &Object, new: &Object) -> bool {
    let (old, new) = (without_empty(&old.json["status"]), without_empty(&new.json["status"]));
    old == new || is_empty(&old) && is_empty(&new)
}

/// `value` without what stands for nothing: an empty list or map means the same as none. Only an empty allocation is one.
fn without_empty(value: &Json) -> Value {
    match value {
        Json::Object(fields) => {
            let kept = fields.iter().filter_map(|(name, field)| {
                let field = without_empty(field);
                let is_kept = !is_empty(&field) || name == "allocation" && !field.is_null();
                is_kept.then(|| (name.to_owned(), field))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Json::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.into(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(status: &Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default", "uid": "u"},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn empty_lists_and_none_are_the_same_status() {
        let none = claim(&Value::Null);
        for status in [json!({}), json!({"reservedFor": [], "devices": null})] {
            assert!(has_same_status(&none, &claim(&status)), "{status}");
        }
        for status in [json!({"allocation": {}}), json!({"reservedFor": [{"uid": "p"}]})] {
            assert!(!has_same_status(&none, &claim(&status)), "{status}");
        }
    }

    #[test]
    fn an_empty_allocation_is_an_allocation() {
        assert!(is_allocated(&claim(&json!({"allocation": {}}))));
        assert!(!is_allocated(&claim(&json!({"allocation": null}))));
        assert!(!is_allocated(&claim(&Value::Null)));
    }
}
