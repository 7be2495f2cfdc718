//! Reserve: the claims get the devices that Filter found, for now in memory (`docs/spec/plugins-dra.md` §7.6).

use std::sync::Arc;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{Commands, NodeIdx};
use serde_json::Value;

use super::state::{PodClaim, PodDevices};
use super::{extended, in_flight, kinds};

/// Remembers what the claims to allocate get, and reports it to other pods.
///
/// # Errors
/// If Filter found something else than what the claims need.
pub(super) fn reserve(
    devices: &mut PodDevices,
    node: Option<NodeIdx>,
    commands: &mut Commands,
) -> Result<(), String> {
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
        add_finalizer(&mut object);
        object.set_field(&["status", "allocation"], allocation.to_json());
        in_flight::add(Arc::new(object), commands);
    }
    Ok(())
}

/// Whether the claim has the finalizer that keeps it while its devices are allocated.
pub(super) fn has_finalizer(object: &Object) -> bool {
    let finalizers = object.json["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|finalizer| *finalizer == *kinds::FINALIZER))
}

/// Adds the finalizer unless it is there.
pub(super) fn add_finalizer(object: &mut Object) {
    if has_finalizer(object) {
        return;
    }
    let present = object.json["metadata"]["finalizers"].as_array();
    let mut finalizers = present.cloned().unwrap_or_default();
    finalizers.push(Value::from(kinds::FINALIZER));
    object.set_field(&["metadata", "finalizers"], Value::Array(finalizers));
}

impl PodClaim {
    /// The UID under which the claim's allocation is in flight.
    pub(super) fn in_flight_uid(&self) -> &Arc<str> {
        &self.claim.uid
    }
}
