//! What an update changed, as cluster events.
//!
//! Behaviour: `docs/spec/queue.md` §8.0 (extraction tables).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Quantity};
use kube_scheduler_framework::{ActionType, ClusterEvent, EventResource};
use smallvec::SmallVec;

/// The events of one update, in order.
pub(crate) type Events = SmallVec<[ClusterEvent; 2]>;

/// The events of a pod update: one per detected change, else one generic update.
pub(crate) fn pod_changes(new: &Pod, old: &Pod) -> Events {
    let resource = if new.node_name.is_none() {
        EventResource::UnschedulablePod
    } else {
        EventResource::AssignedPod
    };
    let mut events = Events::new();
    let mut push = |action| events.push(ClusterEvent::new(resource.clone(), action));
    if new.labels != old.labels {
        push(ActionType::UPDATE_POD_LABEL);
    }
    if is_scaled_down(new, old) {
        push(ActionType::UPDATE_POD_SCALE_DOWN);
    }
    if new.spec.scheduling_gates.is_empty() && !old.spec.scheduling_gates.is_empty() {
        push(ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
    }
    if new.spec.tolerations.len() != old.spec.tolerations.len() {
        push(ActionType::UPDATE_POD_TOLERATION);
    }
    if new.status.resource_claim_statuses != old.status.resource_claim_statuses
        || new.status.extended_resource_claim != old.status.extended_resource_claim
    {
        push(ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM);
    }
    if events.is_empty() {
        events.push(ClusterEvent::new(resource, ActionType::UPDATE));
    }
    events
}

/// Whether some resource of the old total is gone or smaller, by milli-value.
fn is_scaled_down(new: &Pod, old: &Pod) -> bool {
    if Arc::ptr_eq(&new.requests, &old.requests) {
        return false;
    }
    let totals: BTreeMap<&str, &Quantity> =
        new.requests.totals.iter().map(|(name, q)| (&**name, q)).collect();
    old.requests.totals.iter().any(|(name, before)| {
        totals.get(&**name).is_none_or(|after| before.milli_value() > after.milli_value())
    })
}

/// The events of a node update: one per detected change, possibly none.
pub(crate) fn node_changes(new: &Node, old: &Node) -> Events {
    let mut events = Events::new();
    let mut push = |action| events.push(ClusterEvent::new(EventResource::Node, action));
    if old.unschedulable && !new.unschedulable {
        push(ActionType::UPDATE_NODE_TAINT);
    }
    if new.allocatable_quantities != old.allocatable_quantities {
        push(ActionType::UPDATE_NODE_ALLOCATABLE);
    }
    if new.labels != old.labels {
        push(ActionType::UPDATE_NODE_LABEL);
    }
    // The controller of nodes' lifecycle writes a taint anew, with another time.
    if new.taints != old.taints || new.taint_times != old.taint_times {
        push(ActionType::UPDATE_NODE_TAINT);
    }
    if conditions(new) != conditions(old) {
        push(ActionType::UPDATE_NODE_CONDITION);
    }
    if new.annotations != old.annotations {
        push(ActionType::UPDATE_NODE_ANNOTATION);
    }
    if new.declared_features != old.declared_features {
        push(ActionType::UPDATE_NODE_DECLARED_FEATURE);
    }
    events
}

/// Type to status; of duplicates the last counts.
fn conditions(node: &Node) -> BTreeMap<&str, &str> {
    node.conditions.iter().map(|(kind, status)| (&**kind, &**status)).collect()
}

/// The resource that plugins register for to be notified of this object. An object does not name its plural: of the usual ones,
/// the one that a plugin registered for is meant.
pub(crate) fn resource_of(object: &Object, custom: &BTreeSet<Arc<str>>) -> EventResource {
    match (&*object.group, &*object.kind) {
        ("", "PersistentVolume") => EventResource::PersistentVolume,
        ("", "PersistentVolumeClaim") => EventResource::PersistentVolumeClaim,
        ("storage.k8s.io", "CSINode") => EventResource::CsiNode,
        ("storage.k8s.io", "CSIDriver") => EventResource::CsiDriver,
        ("storage.k8s.io", "VolumeAttachment") => EventResource::VolumeAttachment,
        ("storage.k8s.io", "CSIStorageCapacity") => EventResource::CsiStorageCapacity,
        ("storage.k8s.io", "StorageClass") => EventResource::StorageClass,
        ("resource.k8s.io", "ResourceClaim") => EventResource::ResourceClaim,
        ("resource.k8s.io", "ResourceSlice") => EventResource::ResourceSlice,
        ("resource.k8s.io", "DeviceClass") => EventResource::DeviceClass,
        ("scheduling.k8s.io", "PodGroup") => EventResource::PodGroup,
        (group, kind) => {
            let kind = kind.to_lowercase();
            let name = |plural: String| format!("{plural}.{}.{group}", object.version);
            let stem = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
            let others = [Some(format!("{kind}es")), stem, Some(kind.clone())];
            let registered =
                others.into_iter().flatten().map(name).find(|name| custom.contains(name.as_str()));
            EventResource::Custom(registered.unwrap_or_else(|| name(format!("{kind}s"))).into())
        }
    }
}
