//! Filter: whether the pod's claims can be had on a node (`docs/spec/plugins-dra.md` §7.3).

use std::sync::Arc;

use kube_scheduler_devices::api::{Allocation, ResourceClaim};
use kube_scheduler_devices::{AllocationError, Allocator, ExtendedClaim, NodeRef, Readiness};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Context, NodeView, Status};

use super::answers::{Answer, Answers};
use super::settings::Settings;
use super::state::{OnNode, PodClaim, PodDevices};
use super::{extended, node_resources};

const NOT_AVAILABLE: &str = "resourceclaim not available on the node";
const CANNOT_ALLOCATE: &str = "cannot allocate all claims";

/// One node that is looked at for a pod.
pub(super) struct Trial<'a> {
    pub(super) settings: &'a Settings,
    pub(super) answers: &'a Answers,
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
        let unavailable = self.unavailable()?;
        let mut found = OnNode { score: 0, special, node_resources: Arc::default() };
        if let Some(allocator) = &self.devices.allocator {
            self.ask(allocator, &mut found)?;
        }
        if !unavailable.is_empty() {
            self.devices.found().unavailable.extend(unavailable);
            return Err(Status::unresolvable(NOT_AVAILABLE));
        }
        self.devices.note(self.node.idx(), found);
        Ok(())
    }

    /// What the special claim asks for on the node; `None` if there is none, or it needs nothing.
    fn special(&self) -> Result<Option<Arc<ExtendedClaim>>, Status> {
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
    fn unavailable(&self) -> Result<Vec<usize>, Status> {
        let mut unavailable = Vec::new();
        for (at, claim) in self.devices.claims.iter().enumerate() {
            let is_reached = self.is_reached(claim);
            if !is_reached || !self.is_ready(claim) {
                unavailable.push(at);
            }
            if self.settings.node_resources && is_reached && claim.is_allocated() {
                node_resources::check_sharing(self.pod, self.node, &claim.claim.name)?;
            }
        }
        Ok(unavailable)
    }

    fn is_reached(&self, claim: &PodClaim) -> bool {
        let reach = claim.reach.as_ref();
        reach.is_none_or(|reach| reach.matches(self.node.labels(), self.node.name()))
    }

    fn is_ready(&self, claim: &PodClaim) -> bool {
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

    /// Whether the devices can be had: notes how well alternatives are served and what they take of the node, or says why
    /// they cannot.
    fn ask(&self, allocator: &Allocator, found: &mut OnNode) -> Result<(), Status> {
        let special = found.special.as_ref();
        let inventory = allocator.inventory();
        if self.settings.node_resources && inventory.takes_node_resources() {
            // What devices take of the node differs with the names of the claims and with the pods there.
            let (answer, allocations) = self.search(allocator, special)?;
            found.score = answer.score()?;
            let Self { devices, pod, node, .. } = self;
            found.node_resources =
                node_resources::check(devices, inventory, pod, node, &allocations)?;
            return Ok(());
        }
        let column = self.devices.column(self.answers, special);
        let stamp = allocator.state().stamp(self.node.name());
        let answer = match column.get(self.node, stamp) {
            Some(answer) => answer,
            None => {
                let (answer, _) = self.search(allocator, special)?;
                column.set(self.node, stamp, answer);
                answer
            }
        };
        found.score = answer.score()?;
        Ok(())
    }

    /// The answer, and if it is yes, what the claims get.
    fn search(
        &self,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<(Answer, Vec<Allocation>), Status> {
        let limit = self.settings.max_steps;
        match allocate(self.devices, allocator, special, self.node, limit, &mut Arc::default) {
            Ok(Some(allocations)) => {
                let claims = self.devices.to_allocate().zip(&allocations);
                let scores = claims.map(|(claim, found)| claim.claim.priority_score(found));
                Ok((Answer::Yes { score: scores.fold(0, i64::saturating_add) }, allocations))
            }
            Ok(None) => Ok((Answer::No, Vec::new())),
            Err(AllocationError::InvalidPools) => Ok((Answer::InvalidPools, Vec::new())),
            Err(AllocationError::TooManySteps) => Err(Status::error(format!(
                "node {}: timed out trying to allocate devices",
                self.node.name()
            ))),
            Err(error) => Err(Status::error(error.to_string())),
        }
    }
}

impl Answer {
    /// How well alternatives are served, or the rejection of the node.
    fn score(self) -> Result<i64, Status> {
        match self {
            Self::Yes { score } => Ok(score),
            Self::No => Err(Status::unresolvable(CANNOT_ALLOCATE)),
            Self::InvalidPools => {
                Err(Status::unresolvable(AllocationError::InvalidPools.to_string()))
            }
        }
    }
}

/// What the claims to allocate get on a node, in order.
pub(super) fn allocate(
    devices: &PodDevices,
    allocator: &Allocator,
    special: Option<&Arc<ExtendedClaim>>,
    node: &NodeView<'_>,
    max_steps: u64,
    new_share_id: &mut dyn FnMut() -> Arc<str>,
) -> Result<Option<Vec<Allocation>>, AllocationError> {
    let variant = devices
        .to_allocate()
        .find(|claim| claim.is_special)
        .zip(special)
        .map(|(claim, special)| extended::variant(&claim.claim, special));
    let claims: Vec<&ResourceClaim> = devices
        .to_allocate()
        .map(|claim| match &variant {
            Some(variant) if claim.is_special => variant,
            _ => &*claim.claim,
        })
        .collect();
    let node = NodeRef { name: node.name(), labels: node.labels() };
    allocator.allocate(node, &claims, max_steps, new_share_id)
}
