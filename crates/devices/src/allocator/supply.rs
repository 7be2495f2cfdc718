//! How many of several pods can have their devices at once, at most: by counting the devices that are free, without trying any.
//!
//! Of what a pod asks for, [`Needs`] has what it takes away from all others in any case. Of the devices, [`Supply`] has those that are
//! free and that a request selects, tolerates and reaches from a node, whatever else decides about them: counters, constraints,
//! other requests.
//!
//! Invariant: what is ruled out here fits in no order of pods and with no devices, also after more of them have got theirs. Where
//! several requests may have a device at once, nothing is ruled out for those that may have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Labels};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::inventory::{DeviceIdx, DeviceKey, DeviceRef, NodePool, NodePools, NodeRef, ShapeCount};

use super::needs::{Needs, SortSet, Sorts, has};
use super::plan::{Plan, is_tainted};
use super::{AllocationError, Allocator, Steps};

/// The number of different amounts per pod that are compared with what each node has, from the smallest one on.
const MAX_AMOUNTS: usize = 8;
/// The steps for looking at a node, besides those for its pools and devices.
const STEPS_OF_NODE: u64 = 8;
/// The number of devices that count as one step if all that is looked up is whether they are free.
const LOOKED_UP_BY_STEP: u64 = 4;
/// The number of numbers that count as one step when they are added up or compared.
const NUMBERS_BY_STEP: usize = 8;

/// The free devices of some nodes, by the sorts of requests that may have them.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    /// The change of the devices that was followed last; absent as long as nothing was counted.
    followed: Option<u64>,
    /// The numbers of nodes by name.
    numbers: KeyedMap<Box<str>, usize>,
    by_node: Vec<NodeSupply>,
    far: SharedSupply,
}

/// Which nodes were looked at to count what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All nodes that were asked about.
    All,
    /// Those whose devices have changed hands since it was counted before.
    Changed,
}

/// Free devices that no other node can use.
#[derive(Clone, Debug, Default)]
struct NodeSupply {
    free: SmallVec<[(SortSet, u64); 1]>,
    /// The sorts that may have a device which several requests may have at once.
    unlimited: SortSet,
}

/// Free devices of pools that any node may see.
#[derive(Clone, Debug, Default)]
struct SharedSupply {
    devices: Vec<FarDevice>,
    places: FxHashMap<DeviceKey, usize>,
    /// From how many nodes all devices of a pool were looked at, by its place.
    looks: FxHashMap<u32, u8>,
    /// See [`NodeSupply::unlimited`].
    unlimited: SortSet,
}

#[derive(Clone, Copy, Debug)]
struct FarDevice {
    sorts: SortSet,
    /// The node that can use it; absent if there are several.
    node: Option<usize>,
}

impl NodeSupply {
    fn add(&mut self, sorts: SortSet, n: u64) {
        if sorts == 0 {
            return;
        }
        match self.free.iter_mut().find(|(known, _)| *known == sorts) {
            Some((_, sum)) => *sum += n,
            None => self.free.push((sorts, n)),
        }
    }
}

impl SharedSupply {
    fn add(&mut self, key: DeviceKey, sorts: SortSet, node: usize) {
        let next = self.devices.len();
        let place = *self.places.entry(key).or_insert(next);
        match self.devices.get_mut(place) {
            Some(known) => {
                known.sorts |= sorts;
                known.node = known.node.filter(|of| *of == node);
            }
            None => self.devices.push(FarDevice { sorts, node: Some(node) }),
        }
    }

    /// Whether the devices of a pool have to be looked at from one more node that sees them all: once there were two, it is known
    /// that several nodes can use them.
    fn is_open(&mut self, pool: u32) -> bool {
        let n_looks = self.looks.entry(pool).or_insert(0);
        *n_looks = n_looks.saturating_add(1);
        *n_looks <= 2
    }
}

impl Supply {
    /// Counts what is free in the state of `allocator`, which has to have the classes of `sorts`. `node` gives the nodes by number.
    /// O(devices of the nodes); where this was called before, with the same sorts and nodes and for an earlier state, O(devices of
    /// nodes whose devices have changed hands), unless any node may use those.
    ///
    /// # Errors
    /// See [`AllocationError`]. Nothing is counted then.
    pub fn count<'n>(
        &mut self,
        allocator: &Allocator,
        sorts: &Sorts,
        n_nodes: usize,
        node: &dyn Fn(usize) -> Option<NodeRef<'n>>,
        steps: &Steps,
    ) -> Result<Extent, AllocationError> {
        let claims = sorts.claims();
        // What is requested is the same everywhere.
        let (labels, no_pools) = (Labels::default(), NodePools::default());
        let nowhere = NodeRef { name: "", labels: &labels };
        let ended = match Plan::new(allocator, nowhere, &no_pools, &claims, steps) {
            Ok(plan) => self.follow(&Look { allocator, plan: &plan, steps }, n_nodes, node),
            Err(error) => Err(error),
        };
        // Some nodes may be counted in the new state and others not, and `followed` cannot say which.
        if ended.is_err() {
            *self = Self::default();
        }
        ended
    }

    fn follow<'n>(
        &mut self,
        look: &Look<'_>,
        n_nodes: usize,
        node: &dyn Fn(usize) -> Option<NodeRef<'n>>,
    ) -> Result<Extent, AllocationError> {
        let state = look.allocator.state();
        let latest = state.latest_change();
        let is_known = self.by_node.len() == n_nodes;
        let followed = self.followed.filter(|followed| is_known && *followed <= latest);
        let extent = match followed.and_then(|followed| state.nodes_changed_after(followed)) {
            Some(changed) => {
                let changed: Vec<&Arc<str>> = changed.collect();
                look.steps.take(changed.len() as u64)?;
                let numbers = changed.iter().filter_map(|name| self.numbers.get(&***name));
                let numbers: BTreeSet<usize> = numbers.copied().collect();
                for number in numbers {
                    let Some(node) = node(number) else { continue };
                    self.by_node[number] = look.seen_from(number, node, None)?;
                }
                Extent::Changed
            }
            None => {
                *self = Self::default();
                for number in 0..n_nodes {
                    let mut own = NodeSupply::default();
                    if let Some(node) = node(number) {
                        self.numbers.insert(node.name.into(), number);
                        own = look.seen_from(number, node, Some(&mut self.far))?;
                    }
                    self.by_node.push(own);
                }
                Extent::All
            }
        };
        self.followed = Some(latest);
        Ok(extent)
    }
}

/// What is looked for, and in which state.
struct Look<'a> {
    allocator: &'a Allocator,
    /// One request for each sort, in their order.
    plan: &'a Plan<'a>,
    steps: &'a Steps,
}

impl Look<'_> {
    /// What a node has for itself. Adds to `far` what others may have, too.
    fn seen_from(
        &self,
        number: usize,
        node: NodeRef<'_>,
        mut far: Option<&mut SharedSupply>,
    ) -> Result<NodeSupply, AllocationError> {
        let inventory = self.allocator.inventory();
        let found = inventory.pools_on(node).map_err(AllocationError::Failed)?;
        let pools: &NodePools = &found;
        self.steps.take(STEPS_OF_NODE + pools.pools.len() as u64)?;
        self.steps.take_listing(pools.devices.len())?;
        let mut own = NodeSupply::default();
        for pool in &pools.pools {
            if inventory.pool(pool.pool).nodes().is_some() {
                self.add_own(node, (pools, pool), &mut own)?;
            } else if let Some(far) = far.as_deref_mut() {
                self.add_far((number, node), (pools, pool), far)?;
            }
        }
        Ok(own)
    }

    /// Adds what is free of a pool whose devices are each of one node.
    fn add_own(
        &self,
        node: NodeRef<'_>,
        (pools, at): (&NodePools, &NodePool),
        own: &mut NodeSupply,
    ) -> Result<(), AllocationError> {
        let pool = self.allocator.inventory().pool(at.pool);
        let is_free = self.allocator.state().occupancy().is_free(pool.id());
        // Where the node sees all devices and none is in use, they are counted already.
        let is_untouched = is_free && at.devices.len() == pool.n_devices();
        if let Some(counts) = pool.shape_counts().filter(|_| is_untouched) {
            for ShapeCount { n, example, .. } in counts {
                let sorts = self.sorts_for(node, DeviceIdx::new(at.pool, *example))?;
                own.add(sorts, *n as u64);
            }
            return Ok(());
        }
        let allocator = self.allocator;
        self.each_free(node, (pools, at), |device, sorts| {
            if allocator.is_shared(device) {
                own.unlimited |= sorts;
            } else {
                own.add(sorts, 1);
            }
        })
    }

    /// Adds what is free of a pool that any node may see.
    fn add_far(
        &self,
        (number, node): (usize, NodeRef<'_>),
        (pools, at): (&NodePools, &NodePool),
        far: &mut SharedSupply,
    ) -> Result<(), AllocationError> {
        let pool = self.allocator.inventory().pool(at.pool);
        let is_whole = at.devices.len() == pool.n_devices() && !pools.are_per_device;
        if is_whole && !far.is_open(at.pool) {
            return Ok(());
        }
        let allocator = self.allocator;
        self.each_free(node, (pools, at), |device, sorts| {
            if allocator.is_shared(device) {
                far.unlimited |= sorts;
            } else {
                far.add(device.key(), sorts, number);
            }
        })
    }

    /// The devices of a pool that are free, with the sorts of requests that may have them on the node; none without.
    fn each_free(
        &self,
        node: NodeRef<'_>,
        (pools, at): (&NodePools, &NodePool),
        mut add: impl FnMut(DeviceRef<'_>, SortSet),
    ) -> Result<(), AllocationError> {
        self.steps.take(at.devices.len() as u64 / LOOKED_UP_BY_STEP)?;
        let inventory = self.allocator.inventory();
        let occupancy = self.allocator.state().occupancy();
        for idx in &pools.devices[at.devices.clone()] {
            let device = inventory.device(*idx);
            if occupancy.is_dedicated(device.key()) {
                continue;
            }
            let sorts = self.sorts_for(node, *idx)?;
            if sorts != 0 {
                add(device, sorts);
            }
        }
        Ok(())
    }

    /// The sorts of requests that select a device, tolerate its taints and can use it on the node.
    fn sorts_for(&self, node: NodeRef<'_>, idx: DeviceIdx) -> Result<SortSet, AllocationError> {
        let device = self.allocator.inventory().device(idx);
        let mut sorts = 0_u64;
        for (sort, request) in self.plan.requests.iter().enumerate() {
            self.steps.take(1)?;
            let claim = self.plan.claims[request.claim].claim;
            if request.selects(self.allocator, node, claim, idx, self.steps)?
                && !is_tainted(self.allocator, request, device)
            {
                sorts |= 1_u64 << sort;
            }
        }
        Ok(sorts)
    }
}

/// Why some pods cannot all have their devices: the result of [`Supply::shortfall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The names of the device classes of which there is too little.
    pub classes: Vec<Arc<str>>,
    /// How much is missing.
    pub lack: Lack,
}

/// How much is missing, counted in devices or in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Fewer devices are free on all nodes together than the pods need.
    Devices {
        /// The number of devices that are needed by those pods that need the fewest, as many pods as have to be placed.
        needed: u64,
        /// The number of free devices.
        free: u64,
    },
    /// Enough devices are free in total, but they lie on too many nodes: too few nodes have enough of them for one pod.
    Pods {
        /// The number of pods that can have their devices at most.
        fitting: u64,
    },
}

impl Supply {
    /// Why fewer than `needed` of the pods can have their devices at once, in whatever order and with whatever devices; `None` if what
    /// was counted last does not tell.
    ///
    /// # Errors
    /// If it takes more steps than are left.
    pub fn shortfall(
        &self,
        sorts: &Sorts,
        (pods, needed): (&[&Needs], usize),
        steps: &Steps,
    ) -> Result<Option<Shortfall>, AllocationError> {
        if needed == 0 || needed > pods.len() || self.followed.is_none() {
            return Ok(None);
        }
        steps.take(self.n_entries() as u64)?;
        let of_nodes = self.by_node.iter().fold(0_u64, |all, of| all | of.unlimited);
        let unlimited = of_nodes | self.far.unlimited;
        for set in self.sets(sorts.n_sorts()) {
            if set & unlimited != 0 {
                continue;
            }
            if let Some(lack) = self.lack_of(set, (pods, needed), steps)? {
                return Ok(Some(Shortfall { classes: sorts.classes_of(set), lack }));
            }
        }
        Ok(None)
    }

    fn n_entries(&self) -> usize {
        (self.by_node.len() + self.far.devices.len()) / NUMBERS_BY_STEP
    }

    /// The sets of sorts that are compared with their devices: for each sort those that get nothing but what that sort may have, too,
    /// and all of them. With any set nothing is ruled out that fits; these are the ones that are most likely to run short.
    fn sets(&self, n_sorts: usize) -> Vec<SortSet> {
        let all: SortSet = (0..n_sorts).fold(0_u64, |set, sort| set | 1_u64 << sort);
        let of_nodes = self.by_node.iter().flat_map(|of| of.free.iter().map(|(sorts, _)| *sorts));
        let of_all = self.far.devices.iter().map(|device| device.sorts);
        let kinds: BTreeSet<SortSet> = of_nodes.chain(of_all).collect();
        // The sorts that may have every device that this one may have.
        let beside = |sort: usize| {
            kinds.iter().filter(|kind| has(**kind, sort)).fold(all, |common, kind| common & kind)
        };
        let beside: Vec<SortSet> = (0..n_sorts).map(beside).collect();
        let mut sets: Vec<SortSet> = Vec::with_capacity(n_sorts + 1);
        for sort in 0..n_sorts {
            let served = (0..n_sorts).filter(|other| has(beside[*other], sort));
            let set = served.fold(0_u64, |set, other| set | 1_u64 << other);
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        if !sets.contains(&all) {
            sets.push(all);
        }
        sets
    }

    /// How much too little there is for the requests of some sorts.
    fn lack_of(
        &self,
        set: SortSet,
        (pods, needed): (&[&Needs], usize),
        steps: &Steps,
    ) -> Result<Option<Lack>, AllocationError> {
        steps.take((pods.len() / NUMBERS_BY_STEP + self.n_entries()) as u64)?;
        let mut amounts: Vec<u64> = pods.iter().map(|needs| needs.of(set)).collect();
        amounts.sort_unstable();
        let wanted = amounts.iter().take(needed).fold(0_u64, |sum, n| sum.saturating_add(*n));
        if wanted == 0 {
            return Ok(None);
        }
        let (by_node, shared) = self.free(set);
        let free = by_node.iter().fold(shared, |sum, n| sum.saturating_add(*n));
        if wanted > free {
            return Ok(Some(Lack::Devices { needed: wanted, free }));
        }
        // Pods that take less than an amount may all be placed; of those that take it or more there is only room for so many.
        let mut n_less = 0;
        for same in amounts.chunk_by(|a, b| a == b).take(MAX_AMOUNTS) {
            let amount = same.first().copied().unwrap_or(0);
            if n_less >= needed {
                break;
            }
            if amount > 0 {
                steps.take(self.n_entries() as u64)?;
                let fitting = room(&by_node, shared, amount).saturating_add(n_less as u64);
                if fitting < needed as u64 {
                    return Ok(Some(Lack::Pods { fitting }));
                }
            }
            n_less += same.len();
        }
        Ok(None)
    }

    /// How many of the free devices that some sorts may have each node has for itself, and how many several nodes can use.
    fn free(&self, set: SortSet) -> (Vec<u64>, u64) {
        let of_node = |of: &NodeSupply| -> u64 {
            of.free.iter().filter(|(sorts, _)| sorts & set != 0).map(|(_, n)| *n).sum()
        };
        let mut by_node: Vec<u64> = self.by_node.iter().map(of_node).collect();
        let mut shared = 0_u64;
        for device in self.far.devices.iter().filter(|device| device.sorts & set != 0) {
            match device.node.and_then(|node| by_node.get_mut(node)) {
                Some(n) => *n += 1,
                None => shared += 1,
            }
        }
        (by_node, shared)
    }
}

/// How many pods that take so many devices each have room at most, if those that several nodes can use were usable from all of them.
/// It is best to complete with these what single nodes have left.
fn room(by_node: &[u64], shared: u64, amount: u64) -> u64 {
    let n_whole = by_node.iter().fold(0_u64, |sum, n| sum.saturating_add(*n / amount));
    let rests = by_node.iter().map(|n| *n % amount).filter(|rest| shared > 0 && *rest > 0);
    let mut missing: Vec<u64> = rests.map(|rest| amount - rest).collect();
    missing.sort_unstable();
    let (mut n_completed, mut left) = (0_u64, shared);
    for n in missing {
        if n > left {
            break;
        }
        left -= n;
        n_completed += 1;
    }
    n_whole.saturating_add(n_completed).saturating_add(left / amount)
}
