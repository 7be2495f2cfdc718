//! Node resources that devices take besides (`docs/spec/plugins-dra.md` §12; `DRANodeAllocatableResources`, alpha).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{NodeResourceClaim, Quantity};

use crate::api::{Allocation, DeviceResult, NodeResourceMapping, ResourceClaim};
use crate::inventory::Inventory;

/// Why [`Inventory::node_resources`] does not know what the devices of a pod take of its node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeResourceError {
    /// Something is wrong with the objects; in the reference's words.
    #[error("{0}")]
    Failed(String),
    /// No container of the pod uses the claim of this name.
    #[error(
        "claim {0}: node-allocatable resource claim not referenced by any container within the pod"
    )]
    Unreferenced(Arc<str>),
}

impl Inventory {
    /// Whether any device takes resources of its node.
    pub fn takes_node_resources(&self) -> bool {
        self.takes_node_resources
    }

    /// What the claims of a pod take of its node's resources, by name of the claim. Claims whose devices take nothing are
    /// left out. `containers` names the containers that use a claim.
    ///
    /// # Errors
    /// See [`NodeResourceError`].
    pub fn node_resources<'a>(
        &self,
        allocated: impl IntoIterator<Item = (&'a ResourceClaim, &'a Allocation)>,
        containers: impl Fn(&str) -> Arc<[Arc<str>]>,
    ) -> Result<Vec<NodeResourceClaim>, NodeResourceError> {
        let mut claims: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Quantity>> = BTreeMap::new();
        for (claim, allocation) in allocated {
            let mut resources = BTreeMap::new();
            for result in &allocation.results {
                self.add_resources(claim, result, &mut resources)?;
            }
            if !resources.is_empty() {
                claims.insert(claim.name.clone(), resources);
            }
        }
        let mut found = Vec::with_capacity(claims.len());
        for (claim, resources) in claims {
            let containers = containers(&claim);
            if containers.is_empty() {
                return Err(NodeResourceError::Unreferenced(claim));
            }
            let resources = resources.into_iter().collect();
            found.push(NodeResourceClaim { claim, containers, resources });
        }
        Ok(found)
    }

    /// Adds what one device takes.
    fn add_resources(
        &self,
        claim: &ResourceClaim,
        result: &DeviceResult,
        resources: &mut BTreeMap<Arc<str>, Quantity>,
    ) -> Result<(), NodeResourceError> {
        let found = self.find(&result.name());
        let Some(device) = found.and_then(|(pool, key)| pool.last_device(key)) else {
            return Err(NodeResourceError::Failed(format!(
                "device {} not found in pool {}",
                result.device, result.pool
            )));
        };
        let mappings = &device.device.node_allocatable_resource_mappings;
        for (resource, mapping) in mappings.iter() {
            if let Some(amount) = amount(claim, result, resource, mapping)? {
                resources.entry(resource.clone()).or_default().add(&amount);
            }
        }
        Ok(())
    }
}

fn amount(
    claim: &ResourceClaim,
    result: &DeviceResult,
    resource: &str,
    mapping: &NodeResourceMapping,
) -> Result<Option<Quantity>, NodeResourceError> {
    let key = &mapping.capacity_key;
    let multiplier = mapping.allocation_multiplier.as_ref();
    if key.is_empty() {
        return Ok(Some(multiplier.cloned().unwrap_or_default()));
    }
    let Some(consumed) = &result.consumed_capacity else {
        return Err(NodeResourceError::Failed(format!(
            "claim {}, device {}: ConsumedCapacity is nil, but Capacity key '{key}' is set in NodeAllocatableResourceMappings for resource {resource}",
            claim.key(),
            result.device
        )));
    };
    let Some(consumed) = consumed.get(key) else { return Ok(None) };
    let Some(multiplier) = multiplier else { return Ok(Some(consumed.clone())) };
    consumed.checked_mul(multiplier).map(Some).ok_or_else(|| {
        NodeResourceError::Failed(format!(
            "claim {}, device {}: {consumed} times {multiplier} of resource {resource} has more digits than 64 bits hold",
            claim.key(),
            result.device
        ))
    })
}
