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
    let (new_status, old_status) = (&new.status, &old.status);
    let has_other_claims = new_status.resource_claim_statuses != old_status.resource_claim_statuses
        || new_status.extended_resource_claim != old_status.extended_resource_claim;
    let has_lost_gates =
        new.spec.scheduling_gates.is_empty() && !old.spec.scheduling_gates.is_empty();
    let has_other_tolerations = new.spec.tolerations.len() != old.spec.tolerations.len();
    let changes = [
        (new.labels != old.labels, ActionType::UPDATE_POD_LABEL),
        (is_scaled_down(new, old), ActionType::UPDATE_POD_SCALE_DOWN),
        (has_lost_gates, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (has_other_tolerations, ActionType::UPDATE_POD_TOLERATION),
        (has_other_claims, ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    ];
    let mut events = events_of(&resource, changes);
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
    // The controller of nodes' lifecycle writes a taint anew, with another time.
    let has_other_taints = new.taints != old.taints || new.taint_times != old.taint_times;
    let has_other_amounts = new.allocatable_quantities != old.allocatable_quantities;
    let has_other_features = new.declared_features != old.declared_features;
    let changes = [
        (old.unschedulable && !new.unschedulable, ActionType::UPDATE_NODE_TAINT),
        (has_other_amounts, ActionType::UPDATE_NODE_ALLOCATABLE),
        (new.labels != old.labels, ActionType::UPDATE_NODE_LABEL),
        (has_other_taints, ActionType::UPDATE_NODE_TAINT),
        (conditions(new) != conditions(old), ActionType::UPDATE_NODE_CONDITION),
        (new.annotations != old.annotations, ActionType::UPDATE_NODE_ANNOTATION),
        (has_other_features, ActionType::UPDATE_NODE_DECLARED_FEATURE),
    ];
    events_of(&EventResource::Node, changes)
}

/// Those of `changes` that there are, as events.
fn events_of<const N: usize>(resource: &EventResource, changes: [(bool, ActionType); N]) -> Events {
    let actions = changes.into_iter().filter_map(|(is_there, action)| is_there.then_some(action));
    actions.map(|action| ClusterEvent::new(resource.clone(), action)).collect()
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
