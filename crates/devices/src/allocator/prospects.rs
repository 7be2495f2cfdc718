//! What can be ruled out by counting devices, without trying any.

use smallvec::SmallVec;

use crate::inventory::{DeviceIdx, NodePool, NodePools, NodeRef, ShapeCount};

use super::plan::{Plan, RequestPlan};
use super::{AllocationError, Allocator, Steps};

/// With fewer devices to find they are tried without counting. Counting for any number makes `bench core --workload DevicesOfAllNodes`
/// take three times as many instructions; never counting, `--workload DevicesOneOf32Short` six percent more. Tests try few, and count
/// them nevertheless.
const MIN_COUNTED: usize = if cfg!(test) { 1 } else { 8 };

/// How a request sees a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    Selected,
    /// Selected, but a taint keeps the request away.
    Tainted,
    NotSelected,
    /// The selectors fail on the device.
    Error,
}

/// How many devices every request can have at best.
pub(super) struct Prospects {
    n_available: Vec<usize>,
    /// How many devices any request can have.
    n_total: usize,
    /// Whether a device may serve more than one request.
    may_share: bool,
    has_errors: bool,
}

impl Prospects {
    pub(super) fn new(requests: &[RequestPlan<'_>]) -> Self {
        Self {
            n_available: vec![0; requests.len()],
            n_total: 0,
            may_share: requests.iter().any(|request| request.has_admin_access),
            has_errors: false,
        }
    }

    /// The prospects on a node, by a count of its devices; `None` if that takes a closer look at them, or is not worth it.
    ///
    /// # Errors
    /// If that takes more steps than are left.
    pub(super) fn at_a_glance(
        allocator: &Allocator,
        node: NodeRef<'_>,
        pools: &NodePools,
        plan: &Plan<'_>,
        steps: &Steps,
    ) -> Result<Option<Self>, AllocationError> {
        let requests = &plan.requests;
        let mut prospects = Self::new(requests);
        let needs_look = |request: &RequestPlan<'_>| request.all.is_some();
        if n_least(plan) < MIN_COUNTED || prospects.may_share || requests.iter().any(needs_look) {
            return Ok(None);
        }
        steps.take(pools.devices.len() as u64 / 32)?;
        let Some(counts) = free_by_shape(allocator, pools) else { return Ok(None) };
        for ShapeCount { n, example, .. } in counts {
            let sights: SmallVec<[Sight; 8]> = requests
                .iter()
                .map(|request| {
                    let claim = plan.claims[request.claim].claim;
                    match request.selects(allocator, node, claim, example, steps) {
                        // The search reports the error if it comes to the device, which it need not.
                        Err(_) => Sight::Error,
                        Ok(true) => Sight::Selected,
                        Ok(false) => Sight::NotSelected,
                    }
                })
                .collect();
            prospects.note(requests, &sights, n, false, false);
        }
        Ok(Some(prospects))
    }

    /// Counts so many devices that the requests see so.
    pub(super) fn note(
        &mut self,
        requests: &[RequestPlan<'_>],
        sights: &[Sight],
        n: usize,
        is_dedicated: bool,
        is_shareable: bool,
    ) {
        self.may_share |= is_shareable;
        if !is_dedicated && sights.contains(&Sight::Selected) {
            self.n_total += n;
        }
        let counts = self.n_available.iter_mut();
        for ((count, request), sight) in counts.zip(requests).zip(sights) {
            self.has_errors |= *sight == Sight::Error;
            if *sight == Sight::Selected && (request.has_admin_access || !is_dedicated) {
                *count += n;
            }
        }
    }

    /// Whether some request can never get its devices, and nothing on the way there can be an error.
    pub(super) fn are_hopeless(&self, plan: &Plan<'_>) -> bool {
        let may_fail = self.has_errors || has_constrained_all(plan);
        let is_short = |at: usize| {
            let request = &plan.requests[at];
            request.all.as_ref().is_some_and(Vec::is_empty)
                || self.n_available[at] < request.n_needed
        };
        let mut requests = plan.claims.iter().flat_map(|claim| &claim.requests);
        let are_too_few = !self.may_share && n_least(plan) > self.n_total;
        !may_fail
            && (are_too_few
                || requests.any(|alternatives| alternatives.range.clone().all(is_short)))
    }
}

/// How many unused devices of each shape a node has. No selector is asked about the others. `None` if some device is
/// not plain.
fn free_by_shape(
    allocator: &Allocator,
    pools: &NodePools,
) -> Option<SmallVec<[ShapeCount<DeviceIdx>; 8]>> {
    let inventory = allocator.inventory();
    let occupancy = allocator.state().occupancy();
    let mut counts = SmallVec::<[ShapeCount<DeviceIdx>; 8]>::new();
    let mut count = |shape: u32, n: usize, example: DeviceIdx| match counts
        .iter_mut()
        .find(|known| known.shape == shape)
    {
        Some(known) => known.n += n,
        None => counts.push(ShapeCount { shape, n, example }),
    };
    for NodePool { pool: place, devices, .. } in &pools.pools {
        let pool = inventory.pool(*place);
        // Where the node sees all devices and none is in use, they are counted already.
        let is_whole = devices.len() == pool.n_devices() && occupancy.is_free(pool.id());
        if let Some(known) = pool.shape_counts().filter(|_| is_whole) {
            for ShapeCount { shape, n, example } in known {
                count(*shape, *n, DeviceIdx::new(*place, *example));
            }
            continue;
        }
        for idx in &pools.devices[devices.clone()] {
            let device = inventory.device(*idx);
            if !device.is_plain() {
                return None;
            }
            if !occupancy.is_dedicated(device.key()) {
                count(device.shape(), 1, *idx);
            }
        }
    }
    Some(counts)
}

/// How many devices the claims need at least.
fn n_least(plan: &Plan<'_>) -> usize {
    let requests = plan.claims.iter().flat_map(|claim| &claim.requests);
    let least = requests.map(|alternatives| {
        let needed = plan.requests[alternatives.range.clone()].iter();
        needed.map(|request| request.n_needed).min().unwrap_or(0)
    });
    least.fold(0, usize::saturating_add)
}

/// Whether a claim with constraints requests all devices of some kind.
pub(super) fn has_constrained_all(plan: &Plan<'_>) -> bool {
    let is_constrained =
        |request: &RequestPlan<'_>| !plan.claims[request.claim].claim.constraints.is_empty();
    plan.requests.iter().any(|request| request.all.is_some() && is_constrained(request))
}
