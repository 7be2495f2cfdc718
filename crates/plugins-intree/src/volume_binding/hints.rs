//! Which changes of storage objects and nodes may help a pod that was rejected (`docs/spec/plugins-storage.md` §3.13).

use kube_scheduler_framework::api::{Object, Pod, VolumeSource};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventRegistration, EventResource,
};

use super::VolumeBinding;
use super::provisioning::limit_of;
use crate::event_topics;
use crate::volumes::{CsiDriver, CsiNode, StorageClass, uses_claim};

impl EnqueueExtensions for VolumeBinding {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let added_or_updated = ActionType::ADD | ActionType::UPDATE;
        let node_actions = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        let with_hint = |resource, actions, hint: Hint| {
            EventRegistration::on_object(resource, actions, move |_, pod, old, new| {
                new.is_none_or(|new| hint(pod, old, new))
            })
        };
        vec![
            with_hint(EventResource::StorageClass, added_or_updated, class_helps),
            event_topics::on_volume_claim(added_or_updated, uses_claim),
            EventRegistration::always(ClusterEvent::new(
                EventResource::PersistentVolume,
                added_or_updated,
            )),
            EventRegistration::always(ClusterEvent::new(EventResource::Node, node_actions)),
            with_hint(EventResource::CsiNode, added_or_updated, csi_node_helps),
            with_hint(EventResource::CsiDriver, ActionType::UPDATE, csi_driver_helps),
            with_hint(EventResource::CsiStorageCapacity, added_or_updated, capacity_helps),
        ]
    }
}

/// Whether an object that is added (without an old one) or changed may help a pod.
type Hint = fn(&Pod, Option<&Object>, &Object) -> bool;

fn class_helps(_: &Pod, old: Option<&Object>, new: &Object) -> bool {
    let topologies = |object| StorageClass(object).allowed_topologies();
    old.is_none_or(|old| topologies(old) != topologies(new))
}

fn csi_node_helps(_: &Pod, old: Option<&Object>, new: &Object) -> bool {
    let migrated = |object| CsiNode(object).migrated_plugins();
    old.is_none_or(|old| migrated(old) != migrated(new))
}

/// Quirk: only pods that name the driver themselves are helped, and not those whose claims do. Pinned by
/// `a_driver_that_stops_to_publish_capacity_helps_inline_volumes_alone`.
fn csi_driver_helps(pod: &Pod, old: Option<&Object>, new: &Object) -> bool {
    let names_it = |source: &VolumeSource| matches!(source, VolumeSource::Csi { driver } if *driver == new.name);
    pod.volumes.iter().any(|volume| names_it(&volume.source))
        && old.is_some_and(|old| CsiDriver(old).publishes_capacity())
        && !CsiDriver(new).publishes_capacity()
}

fn capacity_helps(_: &Pod, old: Option<&Object>, new: &Object) -> bool {
    let Some(old) = old else { return true };
    match (limit_of(old), limit_of(new)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new.value() > old.value(),
    }
}
