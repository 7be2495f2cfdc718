//! Filter: whether the pod's claims can be had on a node (`docs/spec/plugins-dra.md` §7.3).

use std::sync::{Arc, LazyLock};

use kube_scheduler_devices::api::Allocation;
use kube_scheduler_devices::{
    AllocationError, Allocator, ExtendedClaim, NodeRef, Readiness, Steps,
};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Context, NodeView, Status};

use super::answers::Answer;
use super::node_resources;
use super::shared::PluginData;
use super::state::{NodeOffer, PodClaim, PodDevices, UnconfirmedWrite};

const NOT_AVAILABLE: &str = "resourceclaim not available on the node";
const CANNOT_ALLOCATE: &str = "cannot allocate all claims";

/// Nodes that are looked at for a pod.
#[derive(Clone, Copy)]
pub(super) struct Trials<'a> {
    pub(super) shared: &'a PluginData,
    pub(super) cx: &'a Context<'a>,
    pub(super) devices: &'a PodDevices,
    pub(super) pod: &'a Pod,
}

impl Trials<'_> {
    /// Whether the node is accepted, or why not; notes what was found.
    pub(super) fn run(&self, node: &NodeView<'_>) -> Result<(), Status> {
        let devices = self.devices;
        let special = devices.special_on(node)?;
        if special.is_none() && !devices.has_user_claims() {
            return Ok(());
        }
        let unavailable = self.unavailable(node)?;
        if let Some(allocator) = &devices.allocator {
            // Whichever node it was where the limit was reached: all fail from then on.
            if devices.found().is_exhausted {
                return Err(timed_out(node));
            }
            self.ask(node, allocator, special.as_ref())?;
        }
        if !unavailable.is_empty() {
            devices.found().unavailable.extend(unavailable);
            return Err(Status::unresolvable(NOT_AVAILABLE));
        }
        Ok(())
    }

    /// How well alternatives among the pod's requests are served on the node, which has passed
    /// (`docs/spec/plugins-dra.md` §7.5).
    pub(super) fn score(&self, node: &NodeView<'_>) -> i64 {
        let devices = self.devices;
        let Some(allocator) = &devices.allocator else { return 0 };
        let Ok(special) = devices.special_on(node) else { return 0 };
        if special.is_none() && !devices.has_user_claims() {
            return 0;
        }
        let weighed = devices.found().weighed.get(&node.idx()).map(|weighed| weighed.score);
        let answer = || self.answer(node, allocator, special.as_ref()).ok()?.score().ok();
        let found = weighed.or_else(answer);
        found.map_or(0, |score| score.saturating_add(devices.allocated_score()))
    }

    /// The allocated claims whose devices the pod cannot use on the node, by place.
    fn unavailable(&self, node: &NodeView<'_>) -> Result<Vec<usize>, Status> {
        let mut unavailable = Vec::new();
        for (at, claim) in self.devices.claims.iter().enumerate() {
            let is_reached = is_reached(claim, node);
            if !is_reached || !self.is_ready(claim) {
                unavailable.push(at);
            }
            if self.shared.settings.node_resources && is_reached && claim.is_allocated() {
                node_resources::check_sharing(self.pod, node, &claim.claim.name)?;
            }
        }
        Ok(unavailable)
    }

    fn is_ready(&self, claim: &PodClaim) -> bool {
        let Some(timeout) = self.shared.settings.binding_timeout else { return true };
        if !claim.is_allocated() {
            return true;
        }
        match claim.claim.readiness() {
            Readiness::Ready => true,
            Readiness::NotReady => !claim.claim.is_binding_overdue(timeout, self.cx.now()),
            Readiness::Failed(_) => false,
        }
    }

    /// Whether the devices can be had, and what they take of the node.
    fn ask(
        &self,
        node: &NodeView<'_>,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<(), Status> {
        if !self.shared.settings.weighs_nodes(allocator) {
            self.answer(node, allocator, special)?.score()?;
            return Ok(());
        }
        // What devices take of the node differs with the names of the claims and with the pods there.
        let (answer, allocations) = self.search(node, allocator, special)?;
        let score = answer.score()?;
        let Self { devices, pod, .. } = *self;
        let inventory = allocator.inventory();
        let node_resources = node_resources::check(devices, inventory, pod, node, &allocations)?;
        devices.found().weighed.insert(node.idx(), NodeOffer { score, node_resources });
        Ok(())
    }

    /// Whether the devices can be had, remembered or searched.
    fn answer(
        &self,
        node: &NodeView<'_>,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<Answer, Status> {
        let column = self.devices.column(&self.shared.devices, special);
        let state = allocator.state();
        if let Some(answer) = column.get(state, node) {
            return Ok(answer);
        }
        let (answer, _) = self.search(node, allocator, special)?;
        column.set(state, node, answer);
        Ok(answer)
    }

    /// Whether the node can be rejected although the claims to allocate can be had there.
    pub(super) fn may_have_other_reasons(
        &self,
        node: &NodeView<'_>,
        allocator: &Allocator,
    ) -> bool {
        let is_available = self.unavailable(node).is_ok_and(|unavailable| unavailable.is_empty());
        !is_available || self.shared.settings.weighs_nodes(allocator)
    }

    /// The answer, and if it is yes, what the claims get.
    pub(super) fn search(
        &self,
        node: &NodeView<'_>,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<(Answer, Vec<Allocation>), Status> {
        let devices = self.devices;
        let limits = &self.shared.settings.steps;
        let limit = devices.found().searched.left(limits).min(self.cx.work_left());
        let steps = Steps::new(limit);
        let found = allocate(devices, allocator, special, node, &steps, &mut Arc::default);
        let is_cut = matches!(found, Err(AllocationError::TooManySteps));
        {
            let mut found = devices.found();
            found.searched.count(limit, &steps);
            found.is_exhausted |= is_cut && limit < limits.of_node;
        }
        self.cx.count_work(limit - steps.left());
        match found {
            Ok(Some(allocations)) => {
                let claims = self.devices.to_allocate().zip(&allocations);
                let scores = claims.map(|(claim, found)| claim.claim.priority_score(found));
                Ok((Answer::Yes { score: scores.fold(0, i64::saturating_add) }, allocations))
            }
            Ok(None) => Ok((Answer::No, Vec::new())),
            Err(AllocationError::InvalidPools) => Ok((Answer::InvalidPools, Vec::new())),
            Err(AllocationError::TooManySteps) => Err(timed_out(node)),
            Err(error) => Err(Status::error(error.to_string())),
        }
    }
}

fn is_reached(claim: &PodClaim, node: &NodeView<'_>) -> bool {
    let reach = claim.reach.as_ref();
    claim.given_back != UnconfirmedWrite::Devices
        && reach.is_none_or(|reach| reach.matches(node.labels(), node.name()))
}

fn timed_out(node: &NodeView<'_>) -> Status {
    Status::error(format!("node {}: timed out trying to allocate devices", node.name()))
}

impl Answer {
    /// How well alternatives are served, or the rejection of the node.
    fn score(self) -> Result<i64, Status> {
        match self {
            Self::Yes { score } => Ok(score),
            Self::No | Self::InvalidPools => Err(self.rejection()),
        }
    }

    /// The status of a node where the devices cannot be had. Made once: most nodes of a scan may have it.
    pub(super) fn rejection(self) -> Status {
        static INVALID_POOLS: LazyLock<Status> =
            LazyLock::new(|| Status::unresolvable(AllocationError::InvalidPools.to_string()));
        static NO_DEVICES: LazyLock<Status> =
            LazyLock::new(|| Status::unresolvable(CANNOT_ALLOCATE));
        match self {
            Self::InvalidPools => INVALID_POOLS.clone(),
            Self::Yes { .. } | Self::No => NO_DEVICES.clone(),
        }
    }
}

/// What the claims to allocate get on a node, in order.
pub(super) fn allocate(
    devices: &PodDevices,
    allocator: &Allocator,
    special: Option<&Arc<ExtendedClaim>>,
    node: &NodeView<'_>,
    steps: &Steps,
    new_share_id: &mut dyn FnMut() -> Arc<str>,
) -> Result<Option<Vec<Allocation>>, AllocationError> {
    let node = NodeRef { name: node.name(), labels: node.labels() };
    let claims = devices.claims_with(special);
    allocator.allocate(node, &claims, steps, new_share_id)
}
