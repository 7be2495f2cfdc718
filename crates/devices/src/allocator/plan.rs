//! What is to be searched: the requests of all claims, checked and made ready (`docs/spec/plugins-dra.md` §8.3).

use std::ops::Range;
use std::sync::Arc;

use crate::api::{
    AllocationMode, Constraint, DeviceClass, DeviceRequest, ExactRequest, Request, ResourceClaim,
};
use crate::inventory::{DeviceIdx, DeviceRef, NodePools, NodeRef, PoolState};
use crate::selectors::SelectorError;

use super::claims::{PlannedSelector, PodClaims};
use super::{AllocationError, Allocator, Steps, capacity};

/// How many devices a claim can get.
pub(super) const MAX_RESULTS: usize = 32;

/// The claims of one pod on one node.
pub(super) struct Plan<'a> {
    pub(super) claims: Vec<ClaimPlan<'a>>,
    /// All requests and alternatives.
    pub(super) requests: Vec<RequestPlan<'a>>,
}

pub(super) struct ClaimPlan<'a> {
    pub(super) claim: &'a ResourceClaim,
    /// For every request of the claim its alternatives in [`Plan::requests`], or the one entry there is.
    pub(super) requests: Vec<Alternatives>,
}

pub(super) struct Alternatives {
    pub(super) range: Range<usize>,
    /// Whether the request is a list of alternatives, even of one.
    pub(super) is_list: bool,
}

pub(super) struct RequestPlan<'a> {
    pub(super) claim: usize,
    /// Name of the request in the claim.
    pub(super) base_name: &'a Arc<str>,
    /// Name among the alternatives.
    pub(super) alternative: Option<&'a Arc<str>>,
    pub(super) exact: &'a ExactRequest,
    pub(super) class: Arc<DeviceClass>,
    pub(super) has_admin_access: bool,
    selectors: Arc<[PlannedSelector]>,
    /// How many devices are needed.
    pub(super) n_needed: usize,
    /// The devices of a request for all, as places in the search order.
    pub(super) all: Option<Vec<usize>>,
}

/// Why a device is not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectionFailure {
    ByClass,
    ByRequest,
    /// It cannot be used on the node, or not with the features that are on.
    Unusable,
}

impl RequestPlan<'_> {
    /// The name that messages use.
    pub(super) fn name(&self) -> &Arc<str> {
        self.alternative.unwrap_or(self.base_name)
    }

    /// `request` or `request/alternative`.
    pub(super) fn full_name(&self) -> Arc<str> {
        match self.alternative {
            None => self.base_name.clone(),
            Some(alternative) => format!("{}/{alternative}", self.base_name).into(),
        }
    }

    /// Whether a list of request names means this request.
    pub(super) fn is_named_by(&self, names: &[Arc<str>]) -> bool {
        let is_named = |name: &Arc<str>| {
            name == self.base_name
                || self.alternative.is_some_and(|alternative| {
                    name.strip_prefix(&**self.base_name)
                        .and_then(|rest| rest.strip_prefix('/'))
                        .is_some_and(|rest| *rest == **alternative)
                })
        };
        names.iter().any(is_named)
    }

    /// Whether a device fulfils all selectors and can be used on the node.
    pub(super) fn selects(
        &self,
        allocator: &Allocator,
        node: NodeRef<'_>,
        claim: &ResourceClaim,
        device: DeviceIdx,
        steps: &Steps,
    ) -> Result<bool, AllocationError> {
        Ok(self.unselected(allocator, node, claim, device, steps)?.is_none())
    }

    /// Why a device does not fulfil the selectors or cannot be used on the node; `None` if it does and can.
    pub(super) fn unselected(
        &self,
        allocator: &Allocator,
        node: NodeRef<'_>,
        claim: &ResourceClaim,
        device: DeviceIdx,
        steps: &Steps,
    ) -> Result<Option<SelectionFailure>, AllocationError> {
        let inventory = allocator.inventory();
        let device = inventory.device(device);
        let conditions = device.device.binding_conditions.as_ref();
        if !inventory.features().binding_conditions && conditions.is_some_and(|all| !all.is_empty())
        {
            return Ok(Some(SelectionFailure::Unusable));
        }
        // Before the node is looked at, as in the reference (§8.5): a selector that fails is an error also on a device for other
        // nodes.
        steps.take_selectors(self.selectors.len())?;
        let mut facts = device.facts();
        facts.allow_multiple_allocations &= !inventory.features().is_stable();
        for selector in &*self.selectors {
            let mut cost = 0;
            let matches = selector.column.matches(device.shape(), facts, &mut cost);
            steps.take_evaluation(cost)?;
            let matches = matches.map_err(|error| {
                let owner = if selector.is_of_class {
                    format!("class {}", self.class.name)
                } else {
                    format!("claim {}", claim.key())
                };
                let (when, error) = match error {
                    SelectorError::Compile(error) => ("compile", error),
                    SelectorError::Runtime(error) => ("runtime", error),
                };
                let index = selector.index;
                AllocationError::Failed(format!(
                    "{owner}: selector #{index}: CEL {when} error: {error}"
                ))
            })?;
            if !matches {
                let is_of_class = selector.is_of_class;
                return Ok(Some(if is_of_class {
                    SelectionFailure::ByClass
                } else {
                    SelectionFailure::ByRequest
                }));
            }
        }
        let reaches = device.reaches(node).map_err(AllocationError::Failed)?;
        Ok((!reaches).then_some(SelectionFailure::Unusable))
    }
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        allocator: &Allocator,
        node: NodeRef<'_>,
        pools: &NodePools,
        claims: &'a PodClaims,
        steps: &Steps,
    ) -> Result<Self, AllocationError> {
        let all = claims.as_slice();
        let mut plan = Self { claims: Vec::with_capacity(all.len()), requests: Vec::new() };
        for (index, claim) in all.iter().enumerate() {
            plan.add_claim(&RequestMaker { allocator, node, pools, claims, claim, index, steps })?;
        }
        Ok(plan)
    }

    fn add_claim(&mut self, maker: &RequestMaker<'a, '_>) -> Result<(), AllocationError> {
        let claim = maker.claim;
        let mut requests = Vec::with_capacity(claim.requests.len());
        let mut n_least: usize = 0;
        for request in &claim.requests {
            let start = self.requests.len();
            maker.make_all(request, &mut self.requests)?;
            let range = start..self.requests.len();
            let needed = self.requests[range.clone()].iter().map(|request| request.n_needed);
            n_least = n_least.saturating_add(needed.min().unwrap_or(0));
            let is_list = matches!(request.request, Request::FirstAvailable(_));
            requests.push(Alternatives { range, is_list });
        }
        if n_least > MAX_RESULTS {
            return Err(maker.error(format_args!(
                ": number of requested devices {n_least} exceeds the claim limit of {MAX_RESULTS}"
            )));
        }
        let is_stable = maker.allocator.inventory().features().is_stable();
        let is_empty = |constraint: &Constraint| {
            let must_differ = constraint.distinct_attribute.is_some() && !is_stable;
            constraint.match_attribute.is_none() && !must_differ
        };
        if let Some(at) = claim.constraints.iter().position(is_empty) {
            return Err(maker.error(format_args!(
                ", constraint #{at}: empty constraint (unsupported constraint type?)"
            )));
        }
        self.claims.push(ClaimPlan { claim, requests });
        Ok(())
    }
}

/// Makes the requests of one claim ready.
struct RequestMaker<'a, 'p> {
    allocator: &'p Allocator,
    node: NodeRef<'p>,
    pools: &'p NodePools,
    claims: &'a PodClaims,
    claim: &'a ResourceClaim,
    index: usize,
    steps: &'p Steps,
}

impl<'a> RequestMaker<'a, '_> {
    fn error(&self, rest: std::fmt::Arguments<'_>) -> AllocationError {
        AllocationError::Failed(format!("claim {}{rest}", self.claim.key()))
    }

    fn make_all(
        &self,
        request: &'a DeviceRequest,
        made: &mut Vec<RequestPlan<'a>>,
    ) -> Result<(), AllocationError> {
        let features = self.allocator.inventory().features();
        let (all, is_list) = match &request.request {
            Request::Exactly(exact) => (std::slice::from_ref(exact), false),
            Request::FirstAvailable(_) if !features.prioritized_list => {
                return Err(self.error(format_args!(
                    ", request {}: has subrequests, but the DRAPrioritizedList feature is disabled",
                    request.name
                )));
            }
            Request::FirstAvailable(alternatives) => (alternatives.as_slice(), true),
            Request::Unknown => {
                return Err(self.error(format_args!(
                    ", request {}: missing device class name (unsupported request type?)",
                    request.name
                )));
            }
        };
        // The stable allocator does not look at amounts.
        let takes_capacity = features.consumable_capacity || features.is_stable();
        if let Some(exact) = all.iter().find(|exact| exact.capacity.is_some() && !takes_capacity) {
            let (noun, name) =
                if is_list { ("subrequest", &exact.name) } else { ("request", &request.name) };
            return Err(self.error(format_args!(
                ", {noun} {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
            )));
        }
        for exact in all {
            let names = (&request.name, is_list.then_some(&exact.name));
            made.push(self.make(made.len(), names, exact)?);
        }
        Ok(())
    }

    /// The request at this place among all, with its name in the claim and among alternatives.
    fn make(
        &self,
        place: usize,
        (base_name, alternative): (&'a Arc<str>, Option<&'a Arc<str>>),
        exact: &'a ExactRequest,
    ) -> Result<RequestPlan<'a>, AllocationError> {
        let features = self.allocator.inventory().features();
        let name = alternative.unwrap_or(base_name);
        // In the order of the reference (`docs/spec/plugins-dra.md` §8.3): of several things that are wrong the first is
        // reported.
        if let Some(at) = exact.selectors.iter().position(|s| s.expression.is_none()) {
            return Err(self.error(format_args!(
                ", request {name}, selector #{at}: CEL expression empty (unsupported selector type?)"
            )));
        }
        if exact.admin_access.is_some() && !features.admin_access {
            return Err(self.error(format_args!(
                ", request {name}: admin access is requested, but the feature is disabled"
            )));
        }
        if exact.device_class_name.is_empty() {
            return Err(self.error(format_args!(
                ", request {name}: missing device class name (unsupported request type?)"
            )));
        }
        let class_name = &exact.device_class_name;
        let Some(class) = self.allocator.classes.get(class_name).cloned() else {
            return Err(self.error(format_args!(
                ", request {name}: could not retrieve device class {class_name}: deviceclass.resource.k8s.io \"{class_name}\" not found"
            )));
        };
        let mut plan = RequestPlan {
            claim: self.index,
            base_name,
            alternative,
            exact,
            has_admin_access: exact.admin_access.unwrap_or(false),
            selectors: self.selectors(place, &class, exact)?,
            class,
            n_needed: 0,
            all: None,
        };
        match &exact.allocation_mode {
            AllocationMode::ExactCount => {
                plan.n_needed = usize::try_from(exact.count).unwrap_or(0);
            }
            AllocationMode::All => {
                let all = self.all_devices(&plan)?;
                plan.n_needed = all.len();
                plan.all = Some(all);
            }
            mode => {
                return Err(self.error(format_args!(
                    ", request {name}: unsupported count mode {}",
                    mode.as_str()
                )));
            }
        }
        Ok(plan)
    }

    fn selectors(
        &self,
        place: usize,
        class: &Arc<DeviceClass>,
        exact: &ExactRequest,
    ) -> Result<Arc<[PlannedSelector]>, AllocationError> {
        let table = self.allocator.state.selectors();
        if let Some(known) = self.claims.selectors(place, table, class) {
            return Ok(known.clone());
        }
        let of_class =
            class.selectors.iter().enumerate().map(|(at, selector)| (true, at, selector));
        let of_claim = exact.selectors.iter().enumerate().map(|(at, s)| (false, at, s));
        self.steps.take_lookups(class.selectors.len() + exact.selectors.len())?;
        let empty: Arc<str> = Arc::default();
        let all = of_class.chain(of_claim).map(|(is_of_class, index, selector)| {
            let expression = selector.expression.as_ref().unwrap_or(&empty);
            let mut cost = 0;
            let column = table.column(expression, &*self.allocator.compiler, &mut cost);
            self.steps.take_evaluation(cost)?;
            Ok(PlannedSelector { column, is_of_class, index })
        });
        let found = all.collect::<Result<_, _>>()?;
        self.claims.keep_selectors(place, table, class, &found);
        Ok(found)
    }

    /// The devices that a request for all means.
    fn all_devices(&self, request: &RequestPlan<'_>) -> Result<Vec<usize>, AllocationError> {
        let inventory = self.allocator.inventory();
        let mut all = Vec::new();
        for pool in &self.pools.pools {
            // Which devices such a pool has is not known, so "all devices" cannot be said, even if none of them would match.
            let problem = match pool.state {
                PoolState::Usable => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(problem) = problem {
                return Err(self.error(format_args!(
                    ", request {}: asks for all devices, but resource pool {} is currently {problem}",
                    request.name(),
                    inventory.pool_name(pool.pool)
                )));
            }
            for place in pool.devices.clone() {
                let idx = self.pools.devices[place];
                if !request.selects(self.allocator, self.node, self.claim, idx, self.steps)? {
                    continue;
                }
                let device = inventory.device(idx);
                let fits = !inventory.features().consumable_capacity
                    || capacity::fits(
                        device.device,
                        request.exact.capacity.as_ref(),
                        self.allocator.state.occupancy().consumed(device.key()),
                        None,
                    );
                if fits {
                    all.push(place);
                }
            }
        }
        Ok(all)
    }
}

/// Whether a taint keeps the request away from a device (`docs/spec/plugins-dra.md` §8.9).
pub(super) fn is_tainted(
    allocator: &Allocator,
    request: &RequestPlan<'_>,
    device: DeviceRef<'_>,
) -> bool {
    allocator.inventory().features().device_taints
        && device.device.taints.iter().any(|taint| {
            taint.is_hard()
                && !request.exact.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
}
