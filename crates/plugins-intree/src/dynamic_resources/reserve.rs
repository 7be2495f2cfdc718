//! Reserve: the claims get the devices that Filter found, for now in memory (`docs/spec/plugins-dra.md` §7.6).

use std::sync::Arc;

use kube_scheduler_framework::{Commands, NodeIdx};

use super::state::PodDevices;
use super::{extended, in_flight, writes};

/// Remembers what the claims to allocate get, and reports it to other pods.
///
/// # Errors
/// If Filter found something else than what the claims need.
pub(super) fn reserve(
    devices: &mut PodDevices,
    node: Option<NodeIdx>,
    commands: &mut Commands,
) -> Result<(), String> {
    // No further node is tried: the state of the devices can change without a copy of it.
    devices.allocator = None;
    let n_wanted = devices.claims.iter().filter(|claim| !claim.is_allocated()).count();
    if n_wanted == 0 {
        return Ok(());
    }
    let Some(found) = node.and_then(|node| devices.on_node(node)) else {
        let needs_nothing = !devices.claims.iter().any(|c| !c.is_special && !c.is_allocated());
        // Device plugins serve the extended resources there.
        return if needs_nothing {
            Ok(())
        } else {
            Err("claim allocation not found for node".to_owned())
        };
    };
    if found.allocations.len() != n_wanted {
        return Err(format!(
            "internal error, have {} allocations, {n_wanted} claims to allocate, want {} claims",
            found.allocations.len(),
            devices.claims.len()
        ));
    }
    devices.special = found.special.clone();
    let unallocated = devices.claims.iter_mut().filter(|claim| !claim.is_allocated());
    for (claim, allocation) in unallocated.zip(&found.allocations) {
        claim.reserved = Some(allocation.clone());
        let mut object = match &found.special {
            Some(special) if claim.is_special => extended::variant_object(&claim.object, special),
            _ => (*claim.object).clone(),
        };
        writes::add_finalizer(&mut object);
        writes::set_allocation(&mut object, allocation);
        in_flight::add(Arc::new(object), commands);
    }
    Ok(())
}
