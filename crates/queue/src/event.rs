//! Events: what happens in a cluster that can make a waiting pod schedulable.
//!
//! Answers to `ClusterEvent` and `ClusterEvent.Match` of the reference. An event is a resource and an action; plugins
//! register for events, the owner of the queue reports events, and [`ClusterEvent::matches`] decides which registrations a
//! reported event satisfies. Labels are rendered late: an [`EventLabel`] allocates nothing until it is printed.

use std::fmt;
use std::sync::Arc;

use crate::action::ActionType;

/// A kind of object that events are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EventResource {
    /// Pods. As a registration it covers [`AssignedPod`](Self::AssignedPod) and [`UnschedulablePod`](Self::UnschedulablePod).
    Pod,
    /// Pods with a node. Of incoming events; plugins normally register for [`Pod`](Self::Pod).
    AssignedPod,
    /// Pods without a node. Of incoming events; plugins normally register for [`Pod`](Self::Pod).
    UnschedulablePod,
    /// Nodes.
    Node,
    /// Persistent volumes.
    PersistentVolume,
    /// Persistent volume claims.
    PersistentVolumeClaim,
    /// CSI nodes.
    CsiNode,
    /// CSI drivers.
    CsiDriver,
    /// Volume attachments.
    VolumeAttachment,
    /// CSI storage capacities.
    CsiStorageCapacity,
    /// Storage classes.
    StorageClass,
    /// Resource claims.
    ResourceClaim,
    /// Resource slices.
    ResourceSlice,
    /// Device classes.
    DeviceClass,
    /// Pod groups.
    PodGroup,
    /// All resources at once.
    Wildcard,
    /// Any other resource, named `<plural>.<version>.<group>`.
    Custom(Arc<str>),
}

impl EventResource {
    /// The resource's name as the reference writes it in labels and registrations.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
            Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
            Self::DeviceClass => "resource.k8s.io/DeviceClass",
            Self::PodGroup => "scheduling.k8s.io/PodGroup",
            Self::Wildcard => "*",
            Self::Custom(name) => name,
        }
    }

    /// The resource that [`as_str`](Self::as_str) calls `name`; any name not known is a [`Custom`](Self::Custom) resource.
    pub fn parse(name: &str) -> Self {
        const KNOWN: [EventResource; 16] = [
            EventResource::Pod,
            EventResource::AssignedPod,
            EventResource::UnschedulablePod,
            EventResource::Node,
            EventResource::PersistentVolume,
            EventResource::PersistentVolumeClaim,
            EventResource::CsiNode,
            EventResource::CsiDriver,
            EventResource::VolumeAttachment,
            EventResource::CsiStorageCapacity,
            EventResource::StorageClass,
            EventResource::ResourceClaim,
            EventResource::ResourceSlice,
            EventResource::DeviceClass,
            EventResource::PodGroup,
            EventResource::Wildcard,
        ];
        KNOWN
            .into_iter()
            .find(|known| known.as_str() == name)
            .unwrap_or_else(|| Self::Custom(name.into()))
    }

    /// Whether a registration for `self` covers objects of `incoming`.
    fn covers(&self, incoming: &Self) -> bool {
        match self {
            Self::Wildcard => true,
            Self::Pod => matches!(incoming, Self::Pod | Self::AssignedPod | Self::UnschedulablePod),
            _ => self == incoming,
        }
    }
}

impl fmt::Display for EventResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An action on a resource: either what a plugin registers for, or what happened.
///
/// ```
/// use kube_scheduler_queue::{ActionType, ClusterEvent, EventResource};
///
/// let registered = ClusterEvent::new(EventResource::Pod, ActionType::ADD | ActionType::DELETE);
/// assert!(registered.matches(&ClusterEvent::ASSIGNED_POD_DELETE));
/// assert!(!registered.matches(&ClusterEvent::ASSIGNED_POD_UPDATE));
/// assert_eq!(ClusterEvent::ASSIGNED_POD_DELETE.label().to_string(), "AssignedPodDelete");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterEvent {
    resource: EventResource,
    action: ActionType,
    label: Option<&'static str>,
}

impl ClusterEvent {
    /// A pod with a node appeared.
    pub const ASSIGNED_POD_ADD: Self = Self::new(EventResource::AssignedPod, ActionType::ADD);
    /// A pod with a node changed in a way that none of the specific update actions covers.
    pub const ASSIGNED_POD_UPDATE: Self = Self::new(EventResource::AssignedPod, ActionType::UPDATE);
    /// A pod with a node is gone.
    pub const ASSIGNED_POD_DELETE: Self = Self::new(EventResource::AssignedPod, ActionType::DELETE);
    /// A pod without a node appeared.
    pub const UNSCHEDULABLE_POD_ADD: Self =
        Self::new(EventResource::UnschedulablePod, ActionType::ADD);
    /// A pod without a node changed in a way that none of the specific update actions covers.
    pub const UNSCHEDULABLE_POD_UPDATE: Self =
        Self::new(EventResource::UnschedulablePod, ActionType::UPDATE);
    /// A pod without a node is gone.
    pub const UNSCHEDULABLE_POD_DELETE: Self =
        Self::new(EventResource::UnschedulablePod, ActionType::DELETE);
    /// A pod has been unschedulable for too long without any event.
    pub const UNSCHEDULABLE_TIMEOUT: Self = Self {
        resource: EventResource::Wildcard,
        action: ActionType::ALL,
        label: Some("UnschedulableTimeout"),
    };
    /// A plugin requested that a pod be tried now.
    pub const FORCE_ACTIVATE: Self = Self {
        resource: EventResource::Wildcard,
        action: ActionType::ALL,
        label: Some("ForceActivate"),
    };

    /// An event whose label is the resource's name followed by the action's.
    pub const fn new(resource: EventResource, action: ActionType) -> Self {
        Self { resource, action, label: None }
    }

    /// The kind of object that the event is about.
    pub const fn resource(&self) -> &EventResource {
        &self.resource
    }

    /// What happens to the object; several bits mean any of them.
    pub const fn action(&self) -> ActionType {
        self.action
    }

    /// Whether this is every action on every resource.
    pub fn is_wildcard(&self) -> bool {
        self.resource == EventResource::Wildcard && self.action == ActionType::ALL
    }

    /// The name of the event in metrics and logs.
    pub fn label(&self) -> EventLabel {
        match self.label {
            Some(text) => EventLabel::Named(text),
            None => EventLabel::Derived(self.resource.clone(), self.action),
        }
    }

    /// Whether `incoming` satisfies a registration for `self`.
    ///
    /// Quirk: the actions must intersect and the incoming one must not exceed the registered one as an integer. For what
    /// comes in (a single bit, `Update`, `All`) this means that a generic update satisfies only
    /// registrations for every kind of update. Pinned by `a_generic_update_needs_every_update_bit`.
    pub fn matches(&self, incoming: &Self) -> bool {
        self.is_wildcard()
            || (self.resource.covers(&incoming.resource)
                && self.action.intersects(incoming.action)
                && incoming.action.bits() <= self.action.bits())
    }

    /// The registrations of a plugin that takes part in filtering but registers for nothing itself.
    ///
    /// `with_pod_groups` adds pod groups, which are only watched with the `GenericWorkload` feature.
    pub fn catch_all(with_pod_groups: bool) -> Vec<Self> {
        let mut resources = vec![
            EventResource::Pod,
            EventResource::Node,
            EventResource::PersistentVolume,
            EventResource::PersistentVolumeClaim,
            EventResource::CsiNode,
            EventResource::CsiDriver,
            EventResource::CsiStorageCapacity,
            EventResource::StorageClass,
            EventResource::ResourceClaim,
            EventResource::DeviceClass,
        ];
        if with_pod_groups {
            resources.push(EventResource::PodGroup);
        }
        resources.into_iter().map(|resource| Self::new(resource, ActionType::ALL)).collect()
    }
}

/// The name of an event, or of one of the queue's own moves, in metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventLabel {
    /// A fixed name.
    Named(&'static str),
    /// The name of the resource followed by that of the action.
    Derived(EventResource, ActionType),
}

impl EventLabel {
    /// A pod came back from an attempt that failed.
    pub(crate) const SCHEDULE_ATTEMPT_FAILURE: Self = Self::Named("ScheduleAttemptFailure");
    /// A pod's backoff ended.
    pub(crate) const BACKOFF_COMPLETE: Self = Self::Named("BackoffComplete");
    /// A pod was taken out of backoff early, because no other was ready.
    pub(crate) const POP_FROM_BACKOFF: Self = Self::Named("PopFromBackoffQ");
    /// Label of the entry that every pod in flight has in the log of events.
    pub(crate) const POD_POPPED: Self = Self::Named("PodPopped");
    pub(crate) const UNSCHEDULABLE_POD_ADD: Self =
        Self::Derived(EventResource::UnschedulablePod, ActionType::ADD);
    pub(crate) const UNSCHEDULABLE_POD_UPDATE: Self =
        Self::Derived(EventResource::UnschedulablePod, ActionType::UPDATE);
}

impl fmt::Display for EventLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(text) => f.write_str(text),
            Self::Derived(resource, action) => write!(f, "{resource}{action}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(resource: &str, action: ActionType) -> ClusterEvent {
        ClusterEvent::new(EventResource::parse(resource), action)
    }

    #[test]
    fn action_bits_are_the_references() {
        assert_eq!(ActionType::ALL.bits(), 8191);
        assert_eq!(ActionType::UPDATE.bits(), 8188);
        assert_eq!(ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM.bits(), 4096);
        assert_eq!((ActionType::ADD | ActionType::DELETE).name(), "");
        assert_eq!(ActionType::NONE.name(), "");
    }

    #[test]
    fn labels_join_resource_and_action() {
        let label = |resource, action| event(resource, action).label().to_string();
        assert_eq!(label("Node", ActionType::UPDATE_NODE_TAINT), "NodeUpdateNodeTaint");
        assert_eq!(
            label("storage.k8s.io/CSINode", ActionType::UPDATE),
            "storage.k8s.io/CSINodeUpdate"
        );
        assert_eq!(label("foos.v1.example.com", ActionType::ADD), "foos.v1.example.comAdd");
        assert_eq!(ClusterEvent::UNSCHEDULABLE_TIMEOUT.label().to_string(), "UnschedulableTimeout");
        assert_eq!(ClusterEvent::FORCE_ACTIVATE.label().to_string(), "ForceActivate");
        assert_eq!(EventLabel::UNSCHEDULABLE_POD_ADD, ClusterEvent::UNSCHEDULABLE_POD_ADD.label());
        assert_eq!(
            EventLabel::UNSCHEDULABLE_POD_UPDATE,
            ClusterEvent::UNSCHEDULABLE_POD_UPDATE.label()
        );
    }

    #[test]
    fn names_parse_back() {
        for resource in ["Pod", "Node", "*", "scheduling.k8s.io/PodGroup", "AssignedPod", "a.b.c"] {
            assert_eq!(EventResource::parse(resource).as_str(), resource);
        }
        assert_eq!(EventResource::parse("*"), EventResource::Wildcard);
    }

    #[test]
    fn matching_follows_resource_and_bits() {
        let all = event("*", ActionType::ALL);
        assert!(all.matches(&event("Node", ActionType::ADD)));
        assert!(all.matches(&ClusterEvent::UNSCHEDULABLE_TIMEOUT));
        assert!(event("*", ActionType::ADD).matches(&event("Node", ActionType::ADD)));
        assert!(!event("Node", ActionType::ALL).matches(&ClusterEvent::UNSCHEDULABLE_TIMEOUT));
        assert!(!event("Pod", ActionType::ALL).matches(&all));
        assert!(!event("*", ActionType::UPDATE).matches(&all));
        assert!(event("Pod", ActionType::DELETE).matches(&ClusterEvent::ASSIGNED_POD_DELETE));
        assert!(event("Pod", ActionType::DELETE).matches(&ClusterEvent::UNSCHEDULABLE_POD_DELETE));
        assert!(
            !event("AssignedPod", ActionType::DELETE)
                .matches(&ClusterEvent::UNSCHEDULABLE_POD_DELETE)
        );
        assert!(!event("Node", ActionType::ADD).matches(&event("Pod", ActionType::ADD)));
    }

    #[test]
    fn a_generic_update_needs_every_update_bit() {
        let label = event("Node", ActionType::UPDATE_NODE_LABEL);
        assert!(label.matches(&label));
        assert!(event("Node", ActionType::UPDATE).matches(&label));
        assert!(!label.matches(&event("Node", ActionType::UPDATE)));
        assert!(
            !event("*", ActionType::UPDATE_NODE_LABEL).matches(&event("Node", ActionType::UPDATE))
        );
        assert!(
            !event("Pod", ActionType::UPDATE_POD_LABEL)
                .matches(&ClusterEvent::UNSCHEDULABLE_POD_UPDATE)
        );
        assert!(
            event("Pod", ActionType::ADD | ActionType::UPDATE)
                .matches(&ClusterEvent::UNSCHEDULABLE_POD_UPDATE)
        );
    }

    #[test]
    fn the_catch_all_list_leaves_out_attachments_and_slices() {
        let resources: Vec<String> =
            ClusterEvent::catch_all(false).iter().map(|e| e.resource().to_string()).collect();
        assert_eq!(resources.len(), 10);
        assert!(
            !resources
                .iter()
                .any(|name| name.contains("VolumeAttachment") || name.contains("ResourceSlice"))
        );
        assert_eq!(
            ClusterEvent::catch_all(true).last().map(ClusterEvent::resource),
            Some(&EventResource::PodGroup)
        );
    }
}
