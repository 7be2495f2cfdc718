//! After which events a pod is worth a retry (`docs/spec/plugins-dra.md` §15).

use kube_scheduler_framework::{ActionType, ClusterEvent, EventRegistration, EventResource};

pub(super) fn events() -> Vec<EventRegistration> {
    // Events of claims are left out: no claim makes a pod schedulable yet.
    let node_actions =
        ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_ALLOCATABLE;
    let object_actions = ActionType::ADD | ActionType::UPDATE;
    vec![
        EventRegistration::always(ClusterEvent::new(EventResource::Node, node_actions)),
        EventRegistration::always(ClusterEvent::new(EventResource::DeviceClass, object_actions)),
        EventRegistration::always(ClusterEvent::new(EventResource::ResourceSlice, object_actions)),
    ]
}
