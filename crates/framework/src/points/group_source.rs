//! Pod groups that are written in another way than `scheduling.k8s.io` has them.

use kube_scheduler_api_types::{Object, Pod};
use kube_scheduler_queue::EventResource;
use serde_json::Value;

/// Says which pods belong together by other means than `spec.schedulingGroup`, and what the objects amount to that describe
/// these groups. The scheduler decides about them as about `PodGroup`s of `scheduling.k8s.io`, with the feature gates for
/// these or without.
///
/// To plugins such a group is a `PodGroup` by the name of [`PodGroup::foreign_name`](kube_scheduler_api_types::PodGroup::foreign_name);
/// the events of its object are those of [`resource`](Self::resource). No condition is written into it.
///
/// A pod belongs to such a group if the plugin is enabled in its profile, or if the pod is another scheduler's and has a node.
pub trait GroupSource: Send + Sync {
    /// The API group of the objects that describe groups of pods: another one than `scheduling.k8s.io`.
    fn api_group(&self) -> &'static str;

    /// The kind of these objects.
    fn kind(&self) -> &'static str;

    /// The objects as plugins register for their events, so that they are watched.
    fn resource(&self) -> EventResource;

    /// The name of the object that describes the pod's group, in the pod's namespace; `None` if it belongs to none.
    fn group_of<'p>(&self, pod: &'p Pod) -> Option<&'p str>;

    /// What an object says in terms of the `spec` of a `PodGroup`. Further fields are kept, for the plugin to read. What is given
    /// here counts, so fields of the object that tenants write must not be copied unseen.
    fn spec(&self, object: &Object) -> Value;
}
