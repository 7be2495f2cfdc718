//! Claims that pods share with their pod group (`docs/spec/plugins-dra.md` §13).

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_devices::api::{Consumer, ResourceClaim};
use kube_scheduler_framework::api::{Pod, PodGroup, PodResourceClaim};
use kube_scheduler_framework::groups::GroupCycleState;
use kube_scheduler_framework::{ClusterView, CycleState, Status};

use super::resolve::name_of_claim;
use super::shared::PluginData;
use crate::pod_groups::text_of;

/// The resource of pod groups.
const RESOURCE: &str = "podgroups";

/// Whether a group of this name is the owner that manages the claim.
pub(super) fn owns(claim: &ResourceClaim, name: &str) -> bool {
    let controller = claim.owners.iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        *owner.kind == *PodGroup::KIND && group == Some(PodGroup::GROUP) && *owner.name == *name
    })
}

/// Whether the claim may be used by the pods of the group of this name.
pub(super) fn is_reserved_for(claim: &ResourceClaim, name: &str) -> bool {
    claim.status.reserved_for.iter().any(|consumer| {
        *consumer.api_group == *PodGroup::GROUP
            && *consumer.resource == *RESOURCE
            && *consumer.name == *name
    })
}

/// The group of this name.
///
/// # Errors
/// That there is no such group, or that it cannot be read.
pub(super) fn find<'a>(
    cluster: ClusterView<'a>,
    pod: &Pod,
    name: &str,
) -> Result<&'a PodGroup, String> {
    cluster.pod_group_object(&pod.namespace, name).map_err(|error| text_of(&error, name))
}

/// The name of the claim behind an entry of the group's `spec.resourceClaims`, and whether it was generated for the group; `None`
/// if none is needed.
///
/// # Errors
/// Why it has no name yet, in the reference's words.
pub(super) fn claim_name<'a>(
    group: &'a PodGroup,
    entry: &'a PodResourceClaim,
) -> Result<Option<(&'a str, bool)>, String> {
    let quoted =
        || (format!("PodGroup {}/{}", group.namespace, group.name), entry.name.to_string());
    name_of_claim(entry.claim_in(&group.claim_statuses), entry.template.is_some(), quoted)
}

/// For which entries of `spec.resourceClaims` the claim belongs to the pod's group, and what uses the claim then: the group.
#[derive(Clone, Debug)]
pub(super) struct GroupClaims {
    entries: Vec<Arc<str>>,
    consumer: Arc<Consumer>,
}

impl GroupClaims {
    /// Reads the group that the pod may use claims of, if it has one.
    ///
    /// # Errors
    /// Why the pod is rejected: there is no such group, or it cannot be read.
    pub(super) fn of(
        shared: &PluginData,
        cluster: ClusterView<'_>,
        pod: &Pod,
    ) -> Result<Option<Self>, Status> {
        let Some(name) = shared.group_of(pod) else { return Ok(None) };
        let group = find(cluster, pod, name).map_err(Status::unresolvable)?;
        let is_shared = |entry: &&_| group.resource_claims.contains(entry);
        let entries = pod.spec.resource_claims.iter().filter(is_shared);
        let consumer = Consumer {
            api_group: PodGroup::GROUP.into(),
            resource: RESOURCE.into(),
            name: group.name.clone(),
            uid: group.uid.clone(),
        };
        let entries = entries.map(|entry| entry.name.clone()).collect();
        Ok(Some(Self { entries, consumer: Arc::new(consumer) }))
    }

    /// The group, if the claim behind this entry is one of its claims.
    pub(super) fn consumer(&self, entry: &str) -> Option<Arc<Consumer>> {
        self.entries.iter().any(|shared| **shared == *entry).then(|| self.consumer.clone())
    }
}

/// The claims that members of a group have reserved in one group cycle, by UID.
#[derive(Clone, Default)]
struct CycleReservations(BTreeSet<Arc<str>>);

/// Whether another member of the pod's group has reserved the claim with this UID in the same group cycle.
pub(super) fn is_reserved_in_cycle(state: &CycleState, uid: &str) -> bool {
    state.get::<GroupCycleState>().is_some_and(|group| {
        group.with(|shared| {
            shared.get::<CycleReservations>().is_some_and(|reserved| reserved.0.contains(uid))
        })
    })
}

/// Remembers that a member has reserved the claim with this UID.
pub(super) fn reserved_in_cycle(group: &GroupCycleState, uid: &Arc<str>) {
    group.with(|shared| match shared.get_mut::<CycleReservations>() {
        Some(reserved) => {
            reserved.0.insert(uid.clone());
        }
        None => shared.insert(CycleReservations(BTreeSet::from([uid.clone()]))),
    });
}
