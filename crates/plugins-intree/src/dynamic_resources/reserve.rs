//! Reserve: the claims get the devices that Filter found, for now in memory (`docs/spec/plugins-dra.md` §7.6).

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Commands, Context, NodeView};

use super::extended::{self, derived_uuid};
use super::node::allocate;
use super::state::PodDevices;
use super::{in_flight, writes};

/// Remembers what the claims to allocate get, and reports it to other pods.
///
/// # Errors
/// If Filter found something else than what the claims need.
pub(super) fn reserve(
    devices: &mut PodDevices,
    cx: &Context<'_>,
    max_steps: u64,
    pod: &Pod,
    node: Option<&NodeView<'_>>,
    commands: &mut Commands,
) -> Result<(), String> {
    // No further node is tried: the state of the devices can change without a copy of it.
    let allocator = devices.allocator.take();
    let n_wanted = devices.to_allocate().count();
    let Some(allocator) = allocator.filter(|_| n_wanted > 0) else { return Ok(()) };
    let found = node.and_then(|node| Some((node, devices.on_node(node.idx())?)));
    let Some((node, found)) = found else {
        let needs_nothing = devices.to_allocate().all(|claim| claim.is_special);
        // Device plugins serve the extended resources there.
        return if needs_nothing {
            Ok(())
        } else {
            Err("claim allocation not found for node".to_owned())
        };
    };
    let mut n_shares = 0_u32;
    let mut new_share_id = || {
        n_shares += 1;
        derived_uuid(&(&*pod.uid, cx.now(), &**node.name(), n_shares))
    };
    let special = found.special.as_ref();
    let allocations = allocate(devices, &allocator, special, node, max_steps, &mut new_share_id);
    // Nothing has changed since Filter.
    let allocations = allocations.map_err(|error| error.to_string())?.unwrap_or_default();
    if allocations.len() != n_wanted {
        return Err(format!(
            "internal error, have {} allocations, {n_wanted} claims to allocate, want {} claims",
            allocations.len(),
            devices.claims.len()
        ));
    }
    let unallocated = devices.claims.iter_mut().filter(|claim| !claim.is_allocated());
    for (claim, allocation) in unallocated.zip(allocations) {
        let mut object = match &found.special {
            Some(special) if claim.is_special => extended::variant_object(&claim.object, special),
            _ => (*claim.object).clone(),
        };
        writes::add_finalizer(&mut object);
        writes::set_allocation(&mut object, &allocation);
        claim.reserved = Some(Arc::new(allocation));
        in_flight::add(Arc::new(object), commands);
    }
    devices.special = found.special;
    devices.node_resources = found.node_resources;
    Ok(())
}
