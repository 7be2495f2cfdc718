//! The controllers by whose selectors pods without constraints of their own are spread.

use kube_scheduler_api_types::{Object, Pod};
use kube_scheduler_cache::ClusterState;

/// The controller that owns a pod, if a pod without constraints is spread by what it selects, and whether it does so by labels
/// alone, without operators. O(log objects).
pub(crate) fn spreading_owner<'c>(
    pod: &Pod,
    cluster: &'c ClusterState,
) -> Option<(&'c Object, bool)> {
    let owner = pod.controller.as_ref()?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let is_spreading = matches!(
        (group, &*owner.kind),
        ("", "ReplicationController") | ("apps", "ReplicaSet" | "StatefulSet")
    );
    if !is_spreading {
        return None;
    }
    let found = cluster.objects().get(group, &owner.kind, &pod.namespace, &owner.name)?;
    Some((&**found, group.is_empty()))
}
