//! Filter: whether the pod's claims can be had on a node (`docs/spec/plugins-dra.md` §7.3).

use std::cell::Cell;
use std::sync::Arc;

use kube_scheduler_devices::api::{Allocation, ResourceClaim};
use kube_scheduler_devices::{AllocationError, Allocator, ExtendedClaim, NodeRef, Readiness};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Context, NodeView, Status};

use super::extended::{self, derived_uuid};
use super::settings::Settings;
use super::state::{OnNode, PodClaim, PodDevices};

const NOT_AVAILABLE: &str = "resourceclaim not available on the node";
const CANNOT_ALLOCATE: &str = "cannot allocate all claims";

/// One node that is looked at for a pod.
pub(super) struct Trial<'a> {
    pub(super) settings: &'a Settings,
    pub(super) cx: &'a Context<'a>,
    pub(super) devices: &'a PodDevices,
    pub(super) pod: &'a Pod,
    pub(super) node: &'a NodeView<'a>,
}

impl Trial<'_> {
    /// Success, or why not; notes what was found.
    pub(super) fn run(&self) -> Status {
        match self.try_node() {
            Ok(()) => Status::SUCCESS,
            Err(status) => status,
        }
    }

    fn try_node(&self) -> Result<(), Status> {
        let special = self.special()?;
        if special.is_none() && !self.devices.has_user_claims() {
            return Ok(());
        }
        let unavailable = self.unavailable();
        let mut found = OnNode { special: special.map(Arc::new), ..OnNode::default() };
        if let Some(allocator) = &self.devices.allocator {
            found.allocations = self.allocate(allocator, found.special.as_deref())?;
        }
        if !unavailable.is_empty() {
            self.devices.found().unavailable.extend(unavailable);
            return Err(Status::unresolvable(NOT_AVAILABLE));
        }
        self.devices.found().nodes.insert(self.node.idx(), Arc::new(found));
        Ok(())
    }

    /// What the special claim asks for on the node; `None` if there is none, or it needs nothing.
    fn special(&self) -> Result<Option<ExtendedClaim>, Status> {
        let Some(demand) = &self.devices.demand else { return Ok(None) };
        let Some(claim) = self.devices.claims.iter().find(|claim| claim.is_special) else {
            return Ok(None);
        };
        if !claim.claim.requests.is_empty() {
            return Err(extended::stale());
        }
        let needed = demand.on(self.node.allocatable())?;
        if needed.is_none() && !self.devices.has_user_claims() || claim.is_allocated() {
            return Ok(None);
        }
        Ok(Some(needed.unwrap_or_default()))
    }

    /// The allocated claims whose devices the pod cannot use on the node, by place.
    fn unavailable(&self) -> Vec<usize> {
        let all = self.devices.claims.iter().enumerate();
        all.filter(|(_, claim)| !self.is_available(claim)).map(|(at, _)| at).collect()
    }

    fn is_available(&self, claim: &PodClaim) -> bool {
        if let Some(reach) = &claim.reach
            && !reach.matches(self.node.labels(), self.node.name())
        {
            return false;
        }
        let Some(timeout) = self.settings.binding_timeout else { return true };
        if !claim.is_allocated() {
            return true;
        }
        match claim.claim.readiness() {
            Readiness::Ready => true,
            Readiness::NotReady => !claim.claim.is_binding_overdue(timeout, self.cx.now()),
            Readiness::Failed(_) => false,
        }
    }

    fn allocate(
        &self,
        allocator: &Allocator,
        special: Option<&ExtendedClaim>,
    ) -> Result<Vec<Arc<Allocation>>, Status> {
        let unallocated = || self.devices.claims.iter().filter(|claim| !claim.is_allocated());
        let variant = unallocated()
            .find(|claim| claim.is_special)
            .zip(special)
            .map(|(claim, special)| extended::variant(&claim.claim, special));
        let claims: Vec<&ResourceClaim> = unallocated()
            .map(|claim| match &variant {
                Some(variant) if claim.is_special => variant,
                _ => &*claim.claim,
            })
            .collect();
        let n_shares = Cell::new(0_u32);
        let mut new_share_id = || {
            n_shares.set(n_shares.get() + 1);
            let now = self.cx.now();
            derived_uuid(&(&*self.pod.uid, now, &**self.node.name(), n_shares.get()))
        };
        let node = NodeRef { name: self.node.name(), labels: self.node.labels() };
        let limit = self.settings.max_steps;
        match allocator.allocate(node, &claims, limit, &mut new_share_id) {
            Ok(Some(allocations)) => Ok(allocations.into_iter().map(Arc::new).collect()),
            Ok(None) => Err(Status::unresolvable(CANNOT_ALLOCATE)),
            Err(AllocationError::TooManySteps) => Err(Status::error(format!(
                "node {}: timed out trying to allocate devices",
                self.node.name()
            ))),
            Err(error @ AllocationError::InvalidPools) => {
                Err(Status::unresolvable(error.to_string()))
            }
            Err(error) => Err(Status::error(error.to_string())),
        }
    }
}
