//! All devices of a cluster: pools, their generations, and where they can be used.

mod counters;
mod pool;
mod pools;
mod shapes;
mod views;

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::{KeyedMap, Labels, lock};
use smallvec::SmallVec;

use crate::api::ResourceSlice;
use crate::features::Features;
use crate::name::DeviceName;
pub(crate) use counters::Consumption;
use pool::NewestGeneration;
pub(crate) use pool::{DeviceKey, DeviceRef, Pool, PoolGeneration, ShapeCount, Slice};
pub use pools::View;
pub(crate) use pools::{NodePool, NodePools, PoolState};
use shapes::Shapes;
use views::Views;

/// A pool by a number that it keeps, as long as it is known.
pub(crate) type PoolId = u32;

/// A device, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceIdx {
    /// Place of the pool.
    pool: u32,
    /// Place in the pool.
    at: u32,
}

impl DeviceIdx {
    pub(crate) fn new(pool: u32, at: u32) -> Self {
        Self { pool, at }
    }
}

/// The node that devices are wanted for.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    /// The name of the node.
    pub name: &'a str,
    /// The labels of the node.
    pub labels: &'a Labels,
}

/// The devices of all slices, ready for allocation (`docs/spec/plugins-dra.md` §8.2).
///
/// Made for a state of the slices and shared by all attempts until a slice changes. The next one shares the pools whose slices are
/// the same.
#[derive(Debug)]
pub struct Inventory {
    features: Features,
    /// In the order of driver and name.
    pools: Vec<Arc<Pool>>,
    /// The places of the pools with slices of single nodes.
    by_node: KeyedMap<Arc<str>, SmallVec<[u32; 1]>>,
    /// The places of the pools with slices to look at for every node.
    anywhere: Vec<u32>,
    /// How many devices those have.
    n_devices_anywhere: usize,
    /// How many shapes there are; those of devices that are gone are among them.
    n_shapes: usize,
    /// How many pools have got a number; those that are gone are among them.
    n_known_pools: usize,
    numbers: Arc<Mutex<Numbers>>,
    views: Mutex<Views>,
    pub(crate) takes_node_resources: bool,
}

/// A pool of two inventories, or of one of them.
#[derive(Clone, Copy)]
pub(crate) struct ChangedPool<'a> {
    pub(crate) old: Option<&'a Pool>,
    pub(crate) new: Option<&'a Pool>,
}

/// Numbers that are the same in all inventories which were made from each other, and the pools that were made with them.
#[derive(Debug, Default)]
struct Numbers {
    shapes: Shapes,
    pools: KeyedMap<(Arc<str>, Arc<str>), KnownPool>,
    /// How many numbers pools have got. None is used for two pools.
    n_pool_ids: PoolId,
    /// How many devices the latest pools have.
    n_devices: usize,
}

#[derive(Debug)]
struct KnownPool {
    id: PoolId,
    /// As it was made last; absent while it has no slices.
    latest: Option<Arc<Pool>>,
}

impl Numbers {
    /// The pool of these slices, which come in the order of their names: the one that was made last if it was made of them, or
    /// one made now.
    fn pool(&mut self, slices: &[Arc<ResourceSlice>], features: Features) -> Option<Arc<Pool>> {
        let first = slices.first()?;
        let known = self.pools.entry((first.driver.clone(), first.pool.clone()));
        let known = known.or_insert_with(|| {
            let id = self.n_pool_ids;
            self.n_pool_ids += 1;
            KnownPool { id, latest: None }
        });
        let latest = known.latest.as_deref();
        if !latest.is_some_and(|latest| latest.is_made_of(slices)) {
            let made = Pool::new(known.id, slices, features, &mut self.shapes, latest);
            self.n_devices += made.n_names();
            self.n_devices -= latest.map_or(0, Pool::n_names);
            known.latest = Some(Arc::new(made));
        }
        known.latest.clone()
    }

    /// Drops the pools that no inventory has. To be called when all others have one.
    fn forget_unused(&mut self) {
        // In any order: each is looked at by itself.
        self.pools.values_mut().for_each(|known| {
            known.latest = known.latest.take().filter(|latest| Arc::strong_count(latest) > 1);
        });
        let latest = self.pools.values().filter_map(|known| known.latest.as_deref());
        self.n_devices = latest.map(Pool::n_names).sum();
    }

    /// Drops what was made for a pool, unless an inventory has it.
    fn forget(&mut self, name: &(Arc<str>, Arc<str>)) {
        let is_unused = |known: &KnownPool| {
            known.latest.as_ref().is_none_or(|latest| Arc::strong_count(latest) == 1)
        };
        if self.pools.get(name).is_some_and(is_unused)
            && let Some(known) = self.pools.remove(name)
        {
            self.n_devices -= known.latest.map_or(0, |latest| latest.n_names());
        }
    }

    /// Whether most of what was looked at is gone.
    fn are_mostly_gone(&self) -> bool {
        self.shapes.len() > MIN_NUMBERS.max(2 * self.n_devices)
    }
}

/// As long as there are fewer shapes and pools, those that are gone are kept: to be rid of them, every pool is made again.
const MIN_NUMBERS: usize = 4096;

/// Pools with more devices are not made before an inventory is: one of their slices may come at a time, and all devices of the
/// pool would be looked at for each.
const MAX_PREPARED: usize = 4096;
/// Nor are pools with more slices, for the same reason.
const MAX_PREPARED_SLICES: usize = 64;

impl Inventory {
    /// The inventory of these slices, which may come in any order.
    pub fn new(slices: impl IntoIterator<Item = Arc<ResourceSlice>>, features: Features) -> Self {
        Self::build(slices.into_iter().collect(), features, Arc::default())
    }

    /// Makes a pool for the inventories to come, given its driver, its name and all of its slices, unless some of them are missing
    /// or it is very large: then what was made before is dropped, since it may be long until an inventory is made. O(devices of the
    /// pool).
    pub(crate) fn prepare(&self, name: (Arc<str>, Arc<str>), mut slices: Vec<Arc<ResourceSlice>>) {
        let n_devices: usize = slices.iter().map(|slice| slice.devices.len()).sum();
        let is_large = slices.len() > MAX_PREPARED_SLICES || n_devices > MAX_PREPARED;
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        let newest = NewestGeneration::of(slices.iter().map(|slice| &**slice));
        let mut numbers = lock(&self.numbers);
        if is_large
            || !newest.is_some_and(NewestGeneration::is_complete)
            || numbers.are_mostly_gone()
        {
            return numbers.forget(&name);
        }
        numbers.pool(&slices, self.features);
    }

    /// The inventory of these slices, some of which this one has already: pools that have not changed are shared. Devices that
    /// this inventory has look the same to selectors as they did, unless it says that it is [unlike](Self::is_unlike) it.
    /// O(slices), and for pools that have changed O(devices).
    pub(crate) fn updated(&self, slices: Vec<Arc<ResourceSlice>>) -> Self {
        let n_devices: usize = slices.iter().map(|slice| slice.devices.len()).sum();
        if self.n_shapes > MIN_NUMBERS.max(2 * n_devices)
            || self.n_known_pools > MIN_NUMBERS.max(2 * slices.len())
        {
            return Self::new(slices, self.features);
        }
        Self::build(slices, self.features, self.numbers.clone())
    }

    /// Whether the shapes and keys of this inventory have nothing to do with those of the other.
    pub(crate) fn is_unlike(&self, other: &Self) -> bool {
        !Arc::ptr_eq(&self.numbers, &other.numbers)
    }

    fn build(
        mut objects: Vec<Arc<ResourceSlice>>,
        features: Features,
        shared: Arc<Mutex<Numbers>>,
    ) -> Self {
        objects.sort_by(|a, b| (&a.driver, &a.pool, &a.name).cmp(&(&b.driver, &b.pool, &b.name)));
        let same_pool = |a: &Arc<ResourceSlice>, b: &Arc<ResourceSlice>| {
            a.driver == b.driver && a.pool == b.pool
        };
        let mut numbers = lock(&shared);
        let pools = objects.chunk_by(same_pool);
        let pools: Vec<Arc<Pool>> =
            pools.filter_map(|slices| numbers.pool(slices, features)).collect();
        // Now that all pools of this inventory are held: those that no inventory has are found by their reference counts.
        if numbers.pools.len() > pools.len() {
            numbers.forget_unused();
        }
        let (n_shapes, n_known_pools) = (numbers.shapes.len(), numbers.n_pool_ids as usize);
        drop(numbers);
        let takes_node_resources = pools.iter().any(|pool| pool.takes_node_resources);
        let mut inventory = Self {
            features,
            pools,
            by_node: KeyedMap::default(),
            anywhere: Vec::new(),
            n_devices_anywhere: 0,
            n_shapes,
            n_known_pools,
            numbers: shared,
            views: Mutex::default(),
            takes_node_resources,
        };
        inventory.place_pools();
        inventory
    }

    fn place_pools(&mut self) {
        for (pool, place) in self.pools.iter().zip(0..) {
            for node in pool.nodes_with_slices() {
                self.by_node.entry(node.clone()).or_default().push(place);
            }
            if pool.is_anywhere() {
                self.anywhere.push(place);
                self.n_devices_anywhere += pool.n_devices();
            }
        }
    }

    /// The pools that are not the same here and in `other`. O(pools).
    pub(crate) fn changed_pools<'a>(&'a self, other: &'a Self) -> Vec<ChangedPool<'a>> {
        let mut changed = Vec::new();
        let (mut mine, mut theirs) = (self.pools.iter().peekable(), other.pools.iter().peekable());
        loop {
            let order = match (mine.peek(), theirs.peek()) {
                (None, None) => return changed,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
                (Some(a), Some(b)) => a.full_name().cmp(&b.full_name()),
            };
            let a = if order.is_le() { mine.next() } else { None };
            let b = if order.is_ge() { theirs.next() } else { None };
            if a.map(Arc::as_ptr) != b.map(Arc::as_ptr) {
                changed
                    .push(ChangedPool { old: a.map(|pool| &**pool), new: b.map(|pool| &**pool) });
            }
        }
    }

    /// The features that were on when the inventory was made.
    pub fn features(&self) -> Features {
        self.features
    }

    pub(crate) fn n_shapes(&self) -> usize {
        self.n_shapes
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map(|pool| &**pool)
    }

    /// The key of the devices with a name, and their pool. O(log pools).
    pub(crate) fn find(&self, name: &DeviceName) -> Option<(&Pool, DeviceKey)> {
        let of_device = (&*name.driver, &*name.pool);
        let at = self.pools.binary_search_by(|pool| pool.full_name().cmp(&of_device)).ok()?;
        let pool = self.pools.get(at)?;
        Some((pool, pool.key(&name.device)?))
    }

    /// The pool at a place.
    pub(crate) fn pool(&self, place: u32) -> &Pool {
        &self.pools[place as usize]
    }

    pub(crate) fn device(&self, device: DeviceIdx) -> DeviceRef<'_> {
        self.pools[device.pool as usize].device(device.at)
    }

    /// `driver/pool` of the pool at a place, for messages.
    pub(crate) fn pool_name(&self, pool: u32) -> String {
        let (driver, name) = self.pools[pool as usize].full_name();
        format!("{driver}/{name}")
    }

    /// How many pools may have to do with a node, some of them counted twice.
    fn n_pools_near(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, SmallVec::len) + self.anywhere.len()
    }

    /// The places of the pools with slices that may have to do with a node, ascending.
    fn pools_near(&self, node: &str) -> SmallVec<[u32; 8]> {
        let own = self.by_node.get(node).map_or(&[][..], SmallVec::as_slice);
        let mut all: SmallVec<[u32; 8]> = own.iter().chain(&self.anywhere).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The slices that may have to do with a node, its own and those that are not of a single node, with their devices.
    pub(crate) fn visit_slices_near<'a>(
        &'a self,
        node: NodeRef<'_>,
        mut visit: impl FnMut(&'a Slice, &mut dyn Iterator<Item = DeviceRef<'a>>),
    ) {
        for place in self.pools_near(node.name) {
            let pool = &self.pools[place as usize];
            for at in pool.slices_near(node.name) {
                let slice = pool.slice(at);
                visit(slice, &mut pool.devices_of_slice(slice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(pool: &str, n_slices: usize, at: usize) -> Arc<ResourceSlice> {
        let json = json!({
            "metadata": {"name": format!("{pool}-{at}")},
            "spec": {"driver": "d", "nodeName": pool,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": n_slices},
                "devices": [{"name": at.to_string(), "attributes": {"id": {"string": pool}}}]},
        });
        Arc::new(ResourceSlice::from_json(&json.clone().into()).unwrap())
    }

    fn name(pool: &str) -> (Arc<str>, Arc<str>) {
        ("d".into(), pool.into())
    }

    #[test]
    fn pools_of_nodes_that_come_and_go_leave_nothing() {
        let inventory = Inventory::new([slice("stays", 1, 0)], Features::default());
        for at in 0..2 * MIN_NUMBERS {
            let pool = at.to_string();
            inventory.prepare(name(&pool), vec![slice(&pool, 1, 0)]);
            inventory.prepare(name(&pool), Vec::new());
        }
        inventory.prepare(name("stays"), Vec::new());
        let numbers = inventory.numbers.lock().unwrap();
        assert_eq!((numbers.pools.len(), numbers.n_devices), (1, 1), "the inventory has it");
        assert!(numbers.shapes.len() <= MIN_NUMBERS + 1);
    }

    #[test]
    fn a_pool_of_very_many_slices_is_not_made_for_each_of_them() {
        let inventory = Inventory::new([], Features::default());
        for (n_slices, n_made) in [(MAX_PREPARED_SLICES, 1), (MAX_PREPARED_SLICES + 1, 0)] {
            let slices = (0..n_slices).map(|at| slice("p", n_slices, at)).collect();
            inventory.prepare(name("p"), slices);
            assert_eq!(inventory.numbers.lock().unwrap().pools.len(), n_made);
        }
    }
}
