//! Resources of their node that devices take, such as CPU and memory (`docs/spec/plugins-dra.md` §12).

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_devices::api::Allocation;
use kube_scheduler_devices::{Inventory, NodeResourceError};
use kube_scheduler_framework::api::{NodeResourceClaim, Pod, PodResourceClaim};
use kube_scheduler_framework::{NodeView, Status};

use super::resolve::claim_name;
use super::state::PodDevices;
use crate::resources::check_node_resources;

/// An allocated claim that takes resources of the node can serve one pod there.
///
/// # Errors
/// The rejection of the node if the claim serves another pod.
pub(super) fn check_sharing(pod: &Pod, node: &NodeView<'_>, claim: &str) -> Result<(), Status> {
    let uses = |user: &Pod| {
        *user.namespace == *pod.namespace
            && user.status.node_resource_claims.iter().any(|known| *known.claim == *claim)
    };
    let users: BTreeSet<&str> =
        node.pods().filter(|user| uses(user)).map(|user| &*user.uid).collect();
    let text = match users.len() {
        0 => return Ok(()),
        1 if users.contains(&*pod.uid) => return Ok(()),
        1 => format!("node allocatable resource claim {claim} is already used by another pod"),
        _ => format!("node allocatable resource claim {claim} shared by multiple pods"),
    };
    Err(Status::unresolvable(text))
}

/// What the claims take of the node if they get `allocations`, in their order; the node has that much, and what the pod
/// asks for besides.
///
/// # Errors
/// The rejection of the node, or what is wrong with the objects.
pub(super) fn check(
    devices: &PodDevices,
    inventory: &Inventory,
    pod: &Pod,
    node: &NodeView<'_>,
    allocations: &[Allocation],
) -> Result<Arc<[NodeResourceClaim]>, Status> {
    let claims = devices.to_allocate().map(|claim| &*claim.claim);
    let found =
        inventory.node_resources(claims.zip(allocations), |name| containers_using(pod, name));
    let found = found.map_err(|error| match error {
        error @ NodeResourceError::Unreferenced(_) => Status::unresolvable(error.to_string()),
        error => Status::error(error.to_string()),
    })?;
    if found.is_empty() {
        return Ok(Arc::default());
    }
    let needed = pod.requests.demand_with_claims(&found).map_err(|resource| {
        Status::unresolvable(format!(
            "pod level request for {resource} is insufficient to cover the aggregated container and node-allocatable DRA requests"
        ))
    })?;
    let status = check_node_resources(&needed, node);
    if status.is_success() { Ok(found.into()) } else { Err(status) }
}

/// The containers that use a claim, init containers first.
fn containers_using(pod: &Pod, claim: &str) -> Arc<[Arc<str>]> {
    let is_meant = |entry: &&PodResourceClaim| matches!(claim_name(pod, entry), Ok(Some((name, _))) if name == claim);
    let entries: Vec<&str> =
        pod.spec.resource_claims.iter().filter(is_meant).map(|entry| &*entry.name).collect();
    let containers = pod.spec.device_users.iter().flat_map(|container| {
        let used = container.claims.iter().filter(|entry| entries.contains(&&***entry));
        used.map(|_| container.name.clone())
    });
    containers.collect()
}
