//! Filter: whether the pod's claims can be had on a node (`docs/spec/plugins-dra.md` §7.3).

use std::sync::Arc;

use kube_scheduler_devices::api::Allocation;
use kube_scheduler_devices::{
    AllocationError, Allocator, ExtendedClaim, NodeRef, Readiness, Steps,
};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Context, NodeView, Status};

use super::answers::{Answer, Answers};
use super::node_resources;
use super::settings::Settings;
use super::shared::Shared;
use super::state::{GivenBack, PodClaim, PodDevices, Weighed};

/// Every node is rejected for a pod whose special claim is left over from an earlier attempt.
const STALE: &str = "cannot schedule extended resource claim";
const NOT_AVAILABLE: &str = "resourceclaim not available on the node";
const CANNOT_ALLOCATE: &str = "cannot allocate all claims";

/// Nodes that are looked at for a pod.
#[derive(Clone, Copy)]
pub(super) struct Trials<'a> {
    pub(super) settings: &'a Settings,
    pub(super) answers: &'a Answers,
    pub(super) cx: &'a Context<'a>,
    pub(super) devices: &'a PodDevices,
    pub(super) pod: &'a Pod,
}

/// One of them.
pub(super) struct Trial<'a> {
    pub(super) all: Trials<'a>,
    pub(super) node: &'a NodeView<'a>,
}

impl<'a> Trials<'a> {
    /// Looks for a pod with these claims.
    pub(super) fn new(
        shared: &'a Shared,
        cx: &'a Context<'a>,
        devices: &'a PodDevices,
        pod: &'a Pod,
    ) -> Self {
        let answers = shared.devices.answers(devices.is_of_copy);
        Self { settings: &shared.settings, answers, cx, devices, pod }
    }

    /// A look at one node.
    pub(super) fn on<'b>(&self, node: &'b NodeView<'b>) -> Trial<'b>
    where
        'a: 'b,
    {
        Trial { all: *self, node }
    }
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
        let devices = self.all.devices;
        if special.is_none() && !devices.has_user_claims() {
            return Ok(());
        }
        let unavailable = self.unavailable()?;
        if let Some(allocator) = &devices.allocator {
            // Whichever node it was where the limit was reached: all fail from then on.
            if devices.found().is_exhausted {
                return Err(self.timed_out());
            }
            self.ask(allocator, special.as_ref())?;
        }
        if !unavailable.is_empty() {
            devices.found().unavailable.extend(unavailable);
            return Err(Status::unresolvable(NOT_AVAILABLE));
        }
        Ok(())
    }

    /// How well alternatives among the pod's requests are served on the node, which has passed
    /// (`docs/spec/plugins-dra.md` §7.5).
    pub(super) fn score(&self) -> i64 {
        let devices = self.all.devices;
        let Some(allocator) = &devices.allocator else { return 0 };
        let Ok(special) = self.special() else { return 0 };
        if special.is_none() && !devices.has_user_claims() {
            return 0;
        }
        let weighed = devices.found().weighed.get(&self.node.idx()).map(|weighed| weighed.score);
        let found = weighed.or_else(|| self.answer(allocator, special.as_ref()).ok()?.score().ok());
        found.map_or(0, |score| score.saturating_add(devices.allocated_score()))
    }

    /// What the special claim asks for on the node; `None` if there is none, or it needs nothing.
    pub(super) fn special(&self) -> Result<Option<Arc<ExtendedClaim>>, Status> {
        let Some(demand) = &self.all.devices.demand else { return Ok(None) };
        let Some(claim) = self.all.devices.claims.iter().find(|claim| claim.is_special) else {
            return Ok(None);
        };
        if !claim.claim.requests.is_empty() {
            return Err(Status::unresolvable(STALE));
        }
        let needed = demand.on(self.node.allocatable())?;
        if needed.is_none() && !self.all.devices.has_user_claims() || claim.is_allocated() {
            return Ok(None);
        }
        Ok(Some(needed.unwrap_or_default()))
    }

    /// The allocated claims whose devices the pod cannot use on the node, by place.
    fn unavailable(&self) -> Result<Vec<usize>, Status> {
        let mut unavailable = Vec::new();
        for (at, claim) in self.all.devices.claims.iter().enumerate() {
            let is_reached = self.is_reached(claim);
            if !is_reached || !self.is_ready(claim) {
                unavailable.push(at);
            }
            if self.all.settings.node_resources && is_reached && claim.is_allocated() {
                node_resources::check_sharing(self.all.pod, self.node, &claim.claim.name)?;
            }
        }
        Ok(unavailable)
    }

    fn is_reached(&self, claim: &PodClaim) -> bool {
        let reach = claim.reach.as_ref();
        claim.given_back != GivenBack::Devices
            && reach.is_none_or(|reach| reach.matches(self.node.labels(), self.node.name()))
    }

    fn is_ready(&self, claim: &PodClaim) -> bool {
        let Some(timeout) = self.all.settings.binding_timeout else { return true };
        if !claim.is_allocated() {
            return true;
        }
        match claim.claim.readiness() {
            Readiness::Ready => true,
            Readiness::NotReady => !claim.claim.is_binding_overdue(timeout, self.all.cx.now()),
            Readiness::Failed(_) => false,
        }
    }

    /// Whether the devices can be had, and what they take of the node.
    fn ask(
        &self,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<(), Status> {
        if !self.all.settings.weighs_nodes(allocator) {
            self.answer(allocator, special)?.score()?;
            return Ok(());
        }
        // What devices take of the node differs with the names of the claims and with the pods there.
        let (answer, allocations) = self.search(allocator, special)?;
        let score = answer.score()?;
        let Trials { devices, pod, .. } = self.all;
        let inventory = allocator.inventory();
        let node_resources =
            node_resources::check(devices, inventory, pod, self.node, &allocations)?;
        devices.found().weighed.insert(self.node.idx(), Weighed { score, node_resources });
        Ok(())
    }

    /// Whether the devices can be had, remembered or searched.
    fn answer(
        &self,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<Answer, Status> {
        let column = self.all.devices.column(self.all.answers, special);
        let state = allocator.state();
        if let Some(answer) = column.get(state, self.node) {
            return Ok(answer);
        }
        let (answer, _) = self.search(allocator, special)?;
        column.set(state, self.node, answer);
        Ok(answer)
    }

    /// Whether the node can be rejected although the claims to allocate can be had there.
    pub(super) fn may_have_other_reasons(&self, allocator: &Allocator) -> bool {
        let is_available = self.unavailable().is_ok_and(|unavailable| unavailable.is_empty());
        !is_available || self.all.settings.weighs_nodes(allocator)
    }

    fn timed_out(&self) -> Status {
        let node = self.node.name();
        Status::error(format!("node {node}: timed out trying to allocate devices"))
    }

    /// The answer, and if it is yes, what the claims get.
    pub(super) fn search(
        &self,
        allocator: &Allocator,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Result<(Answer, Vec<Allocation>), Status> {
        let devices = self.all.devices;
        let limits = &self.all.settings.steps;
        let limit = devices.found().steps_left(limits).min(self.all.cx.work_left());
        let steps = Steps::new(limit);
        let found = allocate(devices, allocator, special, self.node, &steps, &mut Arc::default);
        let is_cut = matches!(found, Err(AllocationError::TooManySteps));
        devices.found().count_steps(limits, limit, &steps, is_cut);
        self.all.cx.count_work(limit - steps.left());
        match found {
            Ok(Some(allocations)) => {
                let claims = self.all.devices.to_allocate().zip(&allocations);
                let scores = claims.map(|(claim, found)| claim.claim.priority_score(found));
                Ok((Answer::Yes { score: scores.fold(0, i64::saturating_add) }, allocations))
            }
            Ok(None) => Ok((Answer::No, Vec::new())),
            Err(AllocationError::InvalidPools) => Ok((Answer::InvalidPools, Vec::new())),
            Err(AllocationError::TooManySteps) => Err(self.timed_out()),
            Err(error) => Err(Status::error(error.to_string())),
        }
    }
}

impl Answer {
    /// How well alternatives are served, or the rejection of the node.
    fn score(self) -> Result<i64, Status> {
        match self {
            Self::Yes { score } => Ok(score),
            Self::No | Self::InvalidPools => Err(self.rejection()),
        }
    }

    /// The status of a node where the devices cannot be had.
    pub(super) fn rejection(self) -> Status {
        match self {
            Self::InvalidPools => Status::unresolvable(AllocationError::InvalidPools.to_string()),
            Self::Yes { .. } | Self::No => Status::unresolvable(CANNOT_ALLOCATE),
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
