//! What the devices of a pod's claims take of their node's resources, beside what the pod asks for by itself
//! (`docs/spec/plugins-node.md` §2.3, `docs/spec/plugins-dra.md` §12).

use std::sync::Arc;

use super::PodRequests;
use super::totals::Totals;
use crate::names;
use crate::node_claims::NodeResourceClaim;
use crate::quantity::Quantity;
use crate::resources::{ResourceName, Resources};

/// The exact amounts to which is added what claims take. Where several of them are equal, they are kept once, as a pod may name 20,000
/// resources.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnclaimedAmounts {
    /// What the pod takes on its node.
    pub(super) accounted: Arc<Totals>,
    /// What the pod takes on its node, with defaults for CPU and memory.
    pub(super) with_defaults: Arc<Totals>,
    /// What the pod takes by its specification alone.
    pub(super) spec: Arc<Totals>,
    /// What the pod takes by its specification alone, without what it asks for as a whole.
    pub(super) containers: Arc<Totals>,
    /// What the pod asks for as a whole, whatever its containers and claims take, sorted.
    pub(super) pod_level: Box<[ResourceName]>,
}

impl UnclaimedAmounts {
    /// `totals` with what claims take, except for what the pod asks for as a whole.
    fn add(&self, totals: &Totals, claims: &[NodeResourceClaim]) -> Totals {
        let mut totals = totals.clone();
        let is_own = |name: &ResourceName| self.pod_level.binary_search(name).is_err();
        for (name, amount) in amounts(claims).filter(|(name, _)| is_own(name)) {
            totals.add(&[(name.clone(), amount.clone())]);
        }
        totals
    }

    fn with_defaults(&self, accounted: &Totals, claims: &[NodeResourceClaim]) -> Totals {
        let mut totals = self.add(&self.with_defaults, claims);
        // For a pod with requests as a whole a default stands in only for what nothing mentions, claims included.
        for name in [names::CPU, names::MEMORY].map(ResourceName::from) {
            let is_new = !self.pod_level.is_empty() && self.accounted.get(&name).is_none();
            if let Some(amount) = accounted.get(&name).filter(|_| is_new) {
                totals.set(&name, amount.clone());
            }
        }
        totals
    }
}

fn amounts(claims: &[NodeResourceClaim]) -> impl Iterator<Item = &(ResourceName, Quantity)> {
    claims.iter().flat_map(|claim| claim.resources.iter())
}

impl PodRequests {
    /// These requests where the pod's claims take `claims` of the node, in place of what they took before. Only what is
    /// accounted to the node differs; the requests of a pod without claims stay as they are.
    pub(crate) fn with_claims(&self, claims: &[NodeResourceClaim]) -> Self {
        let Some(unclaimed) = &self.unclaimed else { return self.clone() };
        let accounted = unclaimed.add(&unclaimed.accounted, claims);
        Self {
            non_zero: unclaimed.with_defaults(&accounted, claims).to_non_zero(),
            accounted: accounted.to_resources(),
            ..self.clone()
        }
    }

    /// What the pod needs of a node where its claims take `claims`, by its specification.
    ///
    /// # Errors
    /// The resource that the pod asks for as a whole, but not enough of it for its containers and claims.
    pub fn demand_with_claims(
        &self,
        claims: &[NodeResourceClaim],
    ) -> Result<Resources, ResourceName> {
        let Some(unclaimed) = &self.unclaimed else { return Ok(self.fit.clone()) };
        let mut needed = Totals::clone(&unclaimed.containers);
        amounts(claims).for_each(|amount| needed.add(std::slice::from_ref(amount)));
        let is_short = |name: &&ResourceName| {
            needed.get(name).is_some_and(|needed| Some(needed) > unclaimed.spec.get(name))
        };
        match unclaimed.pod_level.iter().find(is_short) {
            Some(name) => Err(name.clone()),
            None => Ok(unclaimed.add(&unclaimed.spec, claims).to_resources()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Pod;

    #[test]
    fn equal_amounts_are_there_once_and_without_room_for_more() {
        let requests: serde_json::Map<_, _> =
            (0..1000).map(|at| (format!("example.com/r{at}"), "1".into())).collect();
        let pod = json!({"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
            "containers": [{"name": "c", "resources": {"requests": requests}}]}});
        let pod = Pod::from_value(&pod).unwrap();
        let unclaimed = pod.requests.unclaimed.as_ref().unwrap();
        let UnclaimedAmounts { accounted, spec, containers, with_defaults, .. } = &**unclaimed;
        assert!(Arc::ptr_eq(accounted, spec) && Arc::ptr_eq(containers, spec));
        // Those for CPU and memory.
        assert_eq!((spec.len(), with_defaults.len()), (1000, 1002));
        assert_eq!((spec.capacity(), with_defaults.capacity()), (1000, 1002));
    }
}
