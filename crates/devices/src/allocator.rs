//! The allocator: for the claims of one pod, the first allocation in search order (`docs/spec/plugins-dra.md` §8).

mod capacity;
#[cfg(test)]
mod choice_tests;
mod choices;
mod claims;
mod constraints;
mod counters;
mod likeness;
mod needs;
mod outcome;
mod plan;
mod prospects;
mod search;
mod shortage;
mod solution;
mod steps;
mod supply;
#[cfg(test)]
mod supply_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod variant_tests;

use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;

use crate::api::{Allocation, DeviceClass};
use crate::inventory::{Inventory, NodeRef, View};
use crate::selectors::{SelectorCompiler, SelectorTable};
use crate::state::DeviceState;
use crate::usage::Usage;
pub use choices::{Choice, Choices, Criteria};
use choices::{Collector, Kinds};
pub use claims::PodClaims;
pub(crate) use counters::CommittedCounters;
pub use needs::{Needs, Sorts};
use plan::Plan;
use prospects::Prospects;
use search::Search;
pub use shortage::{DeviceObstacle, RequestCount};
use solution::Solution;
pub use steps::Steps;
pub use supply::{Extent, Lack, Shortfall, Supply};

/// Device classes by name.
pub type Classes = KeyedMap<Arc<str>, Arc<DeviceClass>>;

/// Why no answer could be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// The claims cannot be allocated on any node, or something is wrong with the objects; in the reference's words.
    #[error("{0}")]
    Failed(String),
    /// Nothing was found on this node, and some of its pools cannot be used because their slices contradict each other.
    #[error("invalid resource pools were encountered")]
    InvalidPools,
    /// The search did not end within its limit.
    #[error("timed out trying to allocate devices")]
    TooManySteps,
}

/// Allocates devices from a fixed state of the cluster. One allocator serves all nodes, from any thread.
pub struct Allocator {
    state: Arc<DeviceState>,
    compiler: Arc<dyn SelectorCompiler>,
    classes: Classes,
}

/// How a search goes about it. Both ways find the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thoroughness {
    /// Leaves out what cannot lead to an allocation that was not tried already.
    Direct,
    /// Tries everything, for tests.
    #[cfg(test)]
    Exhaustive,
}

impl Allocator {
    /// An allocator for the devices that `selectors` is about, of which `usage` says what is taken.
    pub fn new(
        selectors: Arc<SelectorTable>,
        usage: &Usage,
        classes: Classes,
        compiler: Arc<dyn SelectorCompiler>,
    ) -> Self {
        let state = DeviceState::new(selectors, usage.clone());
        Self::with_state(Arc::new(state), classes, compiler)
    }

    /// An allocator for the devices that are free in `state`.
    pub fn with_state(
        state: Arc<DeviceState>,
        classes: Classes,
        compiler: Arc<dyn SelectorCompiler>,
    ) -> Self {
        Self { state, compiler, classes }
    }

    /// The inventory that devices are taken from.
    pub fn inventory(&self) -> &Inventory {
        self.state.inventory()
    }

    /// The devices, and who holds them.
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// What `node` sees of the devices, where that is remembered: on nodes with equal views the same claims get the same devices, or
    /// none for the same reason. `None` where it is not, or where devices say by themselves on which nodes they can be used.
    pub fn view(&self, node: NodeRef<'_>) -> Option<View> {
        self.inventory().shared_view(node)
    }

    /// The allocation of `claims`, which are not allocated yet, on `node`: one per claim, in their order, or none if they
    /// cannot all be had there, within `steps`. `new_share_id` gives every share of a device that
    /// several requests may have an id; it is called only for an allocation that was found.
    ///
    /// # Errors
    /// See [`AllocationError`].
    pub fn allocate(
        &self,
        node: NodeRef<'_>,
        claims: &PodClaims,
        steps: &Steps,
        new_share_id: &mut dyn FnMut() -> Arc<str>,
    ) -> Result<Option<Vec<Allocation>>, AllocationError> {
        self.allocate_by(node, claims, steps, new_share_id, Thoroughness::Direct)
    }

    /// The ways to allocate `claims`, which are not allocated yet, on `node`, at `most` as many. Ways between which `criteria` make no
    /// difference are one; they have to cover `claims`. The first way is the one of [`allocate`](Self::allocate). Ways that come
    /// in search order after an error, or after the last of `steps`, are not found.
    ///
    /// # Errors
    /// See [`AllocationError`]; only if no way was found before.
    pub fn choices(
        &self,
        node: NodeRef<'_>,
        claims: &PodClaims,
        (criteria, most): (&Criteria, usize),
        steps: &Steps,
        new_share_id: &mut dyn FnMut() -> Arc<str>,
    ) -> Result<Choices, AllocationError> {
        let pools = self.inventory().pools_on(node).map_err(AllocationError::Failed)?;
        steps.take_listing(pools.devices.len())?;
        let plan = Plan::new(self, node, &pools, claims, steps)?;
        let kinds = Kinds::new(self, &pools, criteria, steps)?;
        let mut search = Search::new(self, node, &pools, &plan, steps, Thoroughness::Direct);
        // What leads to the first way goes by what the pod itself can tell apart.
        search.kinds = (most > 1).then_some(&kinds);
        search.collector = Some(Collector::new(&plan, &kinds, most, steps));
        let ended = search.run();
        let found = search.collector.take().map(|collector| collector.found).unwrap_or_default();
        let mut are_all = match ended {
            Ok(enough) => enough.is_none(),
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => false,
        };
        let mut list = Vec::with_capacity(found.len());
        for (Solution { results, alternatives }, mark) in found {
            let assembled =
                outcome::assemble(self, node, &pools, &plan, &results, &alternatives, new_share_id);
            match assembled {
                Ok(allocations) => {
                    let allocations = allocations.into_iter().map(Arc::new).collect();
                    list.push(Choice { allocations, mark });
                }
                Err(error) if list.is_empty() => return Err(error),
                // What cannot be written in a claim is no way, but others with its mark were left out.
                Err(_) => are_all = false,
            }
        }
        Ok(Choices { list, are_all })
    }

    /// Why there may be nothing for `claims` on `node`: for some of their requests, how many devices of the node are lost to what.
    /// Requests with too few devices left come alone if there are any.
    ///
    /// # Errors
    /// See [`AllocationError`].
    pub fn count(
        &self,
        node: NodeRef<'_>,
        claims: &PodClaims,
        steps: &Steps,
    ) -> Result<Vec<RequestCount>, AllocationError> {
        let pools = self.inventory().pools_on(node).map_err(AllocationError::Failed)?;
        steps.take_listing(pools.devices.len())?;
        let plan = Plan::new(self, node, &pools, claims, steps)?;
        let mut search = Search::new(self, node, &pools, &plan, steps, Thoroughness::Direct);
        shortage::count(&mut search)
    }

    fn allocate_by(
        &self,
        node: NodeRef<'_>,
        claims: &PodClaims,
        steps: &Steps,
        new_share_id: &mut dyn FnMut() -> Arc<str>,
        thoroughness: Thoroughness,
    ) -> Result<Option<Vec<Allocation>>, AllocationError> {
        let inventory = self.inventory();
        let pools = inventory.pools_on(node).map_err(AllocationError::Failed)?;
        steps.take_listing(pools.devices.len())?;
        let plan = Plan::new(self, node, &pools, claims, steps)?;
        let prospects = match thoroughness {
            Thoroughness::Direct => Prospects::at_a_glance(self, node, &pools, &plan, steps)?,
            #[cfg(test)]
            Thoroughness::Exhaustive => None,
        };
        let is_hopeless = prospects.is_some_and(|prospects| prospects.are_hopeless(&plan));
        let mut search = Search::new(self, node, &pools, &plan, steps, thoroughness);
        let found = if is_hopeless { None } else { search.run()? };
        match found {
            Some(Solution { results, alternatives }) => {
                let allocations = outcome::assemble(
                    self,
                    node,
                    &pools,
                    &plan,
                    &results,
                    &alternatives,
                    new_share_id,
                )?;
                Ok(Some(allocations))
            }
            None if pools.has_invalid() => Err(AllocationError::InvalidPools),
            None => Ok(None),
        }
    }
}
