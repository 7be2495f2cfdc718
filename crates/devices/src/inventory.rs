//! All devices of a cluster: pools, their generations, and where they can be used.

mod counters;
mod pools;
mod shapes;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_api_types::{Labels, NodeSelector, validation::FieldPath};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::api::{Device, NodeReach, ResourceSlice};
use crate::features::Features;
use crate::name::DeviceName;
use crate::selectors::DeviceFacts;
pub(crate) use counters::Consumption;
pub(crate) use pools::{NodePools, PoolState};
use shapes::Shapes;

/// A device, by its place in the inventory.
pub(crate) type DeviceIdx = u32;
/// A device, by its name: devices of different generations may have the same.
pub(crate) type DeviceKey = u32;

/// The node that devices are wanted for.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a Labels,
}

/// The devices of all slices, ready for allocation (`docs/spec/plugins-dra.md` §8.2).
///
/// Made once for a state of the slices and shared by all attempts until a slice changes.
#[derive(Debug)]
pub struct Inventory {
    features: Features,
    /// In the order of driver, pool and name, so that order in every pool is the order of places.
    slices: Vec<Slice>,
    /// In the order of driver and name.
    pools: Vec<Pool>,
    /// The slices of single nodes.
    by_node: FxHashMap<Arc<str>, Vec<u32>>,
    /// The slices to look at for every node.
    anywhere: Vec<u32>,
    devices: Vec<InventoryDevice>,
    keys: FxHashMap<DeviceName, DeviceKey>,
    /// The devices of every name.
    by_key: Vec<SmallVec<[DeviceIdx; 1]>>,
    /// How many shapes there are; those of devices that are gone are among them.
    n_shapes: usize,
    /// Shared with the inventories that were made from this one.
    shapes: Arc<Mutex<Shapes>>,
    pub(crate) takes_node_resources: bool,
}

#[derive(Debug)]
struct Slice {
    object: Arc<ResourceSlice>,
    pool: u32,
    /// Place of its generation in its pool.
    generation: u32,
    first_device: DeviceIdx,
    reach: Reach,
}

/// Where devices can be used, with the selector compiled.
#[derive(Debug)]
pub(crate) struct Reach {
    node_name: Option<Arc<str>>,
    all_nodes: bool,
    selector: Option<Result<NodeSelector, String>>,
}

#[derive(Debug)]
struct Pool {
    driver: Arc<str>,
    name: Arc<str>,
    slices: Range<u32>,
    generations: SmallVec<[Generation; 1]>,
    /// The nodes that may see it; `None` if it has a slice that has to be looked at for every node.
    nodes: Option<SmallVec<[Arc<str>; 1]>>,
}

/// The inventory that another one is made from.
struct Former<'a> {
    /// Its slices, by their address.
    slices: FxHashMap<usize, u32>,
    inventory: Option<&'a Inventory>,
}

impl Former<'_> {
    /// The shapes of the devices of a slice that it has.
    fn shapes(&self, object: &Arc<ResourceSlice>) -> Option<Vec<u32>> {
        let inventory = self.inventory?;
        let slice = *self.slices.get(&Arc::as_ptr(object).addr())?;
        let devices = inventory.devices_of_slice(slice);
        let devices = &inventory.devices[devices.start as usize..devices.end as usize];
        Some(devices.iter().map(|device| device.shape).collect())
    }
}

/// What is the same for all slices of a pool's generation.
#[derive(Debug)]
struct Generation {
    number: i64,
    n_slices: i64,
    counters: counters::Counters,
    has_duplicate_devices: bool,
}

#[derive(Debug)]
struct InventoryDevice {
    slice: u32,
    at: u32,
    key: DeviceKey,
    shape: u32,
    consumption: Consumption,
    /// Where the device can be used, if its slice leaves that to it.
    reach: Option<Box<Reach>>,
}

impl Reach {
    fn new(reach: &NodeReach) -> Self {
        let selector = reach.node_selector.as_ref().map(|selector| {
            NodeSelector::compile_strict(selector, &FieldPath::root()).map_err(|e| e.to_string())
        });
        Self { node_name: reach.node_name.clone(), all_nodes: reach.all_nodes, selector }
    }

    /// Whether the devices can be used on the node.
    pub(crate) fn matches(&self, node: NodeRef<'_>) -> Result<bool, String> {
        match &self.node_name {
            Some(name) if !name.is_empty() => return Ok(**name == *node.name),
            _ => {}
        }
        if self.all_nodes {
            return Ok(true);
        }
        match &self.selector {
            None => Ok(false),
            Some(Err(text)) => Err(text.clone()),
            Some(Ok(selector)) => Ok(selector.matches(node.labels, node.name)),
        }
    }
}

/// As long as there are fewer shapes, those of devices that are gone are kept.
const MIN_SHAPES: usize = 4096;

impl Inventory {
    /// The inventory of these slices, which may come in any order.
    pub fn new(slices: impl IntoIterator<Item = Arc<ResourceSlice>>, features: Features) -> Self {
        let former = Former { slices: FxHashMap::default(), inventory: None };
        Self::build(slices.into_iter().collect(), features, Arc::default(), &former)
    }

    /// The inventory of these slices, some of which this one has already: what is known about their devices is taken over.
    /// Devices that this inventory has look the same to selectors as they did, unless it says that it is
    /// [unlike](Self::is_unlike) it.
    pub(crate) fn updated(&self, slices: Vec<Arc<ResourceSlice>>) -> Self {
        let n_devices: usize = slices.iter().map(|slice| slice.devices.len()).sum();
        if self.n_shapes > MIN_SHAPES.max(2 * n_devices) {
            return Self::new(slices, self.features);
        }
        let known = self.slices.iter().enumerate();
        let known = known.map(|(at, slice)| (Arc::as_ptr(&slice.object).addr(), at as u32));
        let former = Former { slices: known.collect(), inventory: Some(self) };
        Self::build(slices, self.features, self.shapes.clone(), &former)
    }

    /// Whether the shapes of this inventory have nothing to do with those of the other.
    pub(crate) fn is_unlike(&self, other: &Self) -> bool {
        !Arc::ptr_eq(&self.shapes, &other.shapes)
    }

    fn build(
        mut objects: Vec<Arc<ResourceSlice>>,
        features: Features,
        shapes: Arc<Mutex<Shapes>>,
        former: &Former<'_>,
    ) -> Self {
        objects.sort_by(|a, b| (&a.driver, &a.pool, &a.name).cmp(&(&b.driver, &b.pool, &b.name)));
        let mut inventory = Self {
            features,
            slices: Vec::with_capacity(objects.len()),
            pools: Vec::new(),
            by_node: FxHashMap::default(),
            anywhere: Vec::new(),
            devices: Vec::new(),
            keys: FxHashMap::default(),
            by_key: Vec::new(),
            n_shapes: 0,
            shapes: shapes.clone(),
            takes_node_resources: false,
        };
        let mut shapes = shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let same_pool = |a: &Arc<ResourceSlice>, b: &Arc<ResourceSlice>| {
            a.driver == b.driver && a.pool == b.pool
        };
        for slices in objects.chunk_by(same_pool) {
            inventory.add_pool(slices, &mut shapes, former);
        }
        inventory.n_shapes = shapes.len();
        inventory
    }

    /// The nodes that may see something else in `other`; `None` if that may be any node.
    pub(crate) fn nodes_that_differ(&self, other: &Self) -> Option<Vec<Arc<str>>> {
        let mut nodes = Vec::new();
        let (mut mine, mut theirs) = (self.pools.iter().peekable(), other.pools.iter().peekable());
        loop {
            let order = match (mine.peek(), theirs.peek()) {
                (None, None) => return Some(nodes),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => (&a.driver, &a.name).cmp(&(&b.driver, &b.name)),
            };
            let of_mine = if order.is_le() { mine.next() } else { None };
            let of_theirs = if order.is_ge() { theirs.next() } else { None };
            if let (Some(a), Some(b)) = (of_mine, of_theirs)
                && self.objects_of(a).map(Arc::as_ptr).eq(other.objects_of(b).map(Arc::as_ptr))
            {
                continue;
            }
            for pool in of_mine.into_iter().chain(of_theirs) {
                nodes.extend_from_slice(pool.nodes.as_deref()?);
            }
        }
    }

    fn objects_of(&self, pool: &Pool) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let slices = pool.slices.start as usize..pool.slices.end as usize;
        self.slices[slices].iter().map(|slice| &slice.object)
    }

    fn add_pool(
        &mut self,
        objects: &[Arc<ResourceSlice>],
        shapes: &mut Shapes,
        former: &Former<'_>,
    ) {
        let [first, ..] = objects else { return };
        let pool = self.pools.len() as u32;
        let mut generations = SmallVec::new();
        for object in objects {
            if !generations.iter().any(|known: &Generation| known.number == object.generation) {
                generations.push(Generation::new(objects, object.generation));
            }
        }
        let first_slice = self.slices.len();
        for object in objects {
            let generation = generations
                .iter()
                .position(|known| known.number == object.generation)
                .unwrap_or_default();
            let shapes = former.shapes(object).unwrap_or_else(|| shapes.of_slice(object));
            self.add_slice(object, pool, generation, &generations, &shapes);
        }
        self.pools.push(Pool {
            driver: first.driver.clone(),
            name: first.pool.clone(),
            slices: first_slice as u32..self.slices.len() as u32,
            generations,
            nodes: None,
        });
        self.place_slices(first_slice);
    }

    /// Notes for which nodes the slices from `first` on, which are those of the last pool, have to be looked at.
    fn place_slices(&mut self, first: usize) {
        let mut nodes: SmallVec<[Arc<str>; 1]> = SmallVec::new();
        let (mut with_counters, mut elsewhere) = (Vec::new(), Vec::new());
        for (at, slice) in self.slices.iter().enumerate().skip(first) {
            let at = at as u32;
            let of_node = slice.object.reach.node_name.as_ref().filter(|name| !name.is_empty());
            match of_node {
                _ if !slice.object.shared_counters.is_empty() => with_counters.push(at),
                Some(node) => {
                    self.by_node.entry(node.clone()).or_default().push(at);
                    nodes.push(node.clone());
                }
                None => elsewhere.push(at),
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        // Nodes without devices of the pool see its counters alone, which makes no difference to them unless the pool
        // looks wrong from there.
        let is_local = elsewhere.is_empty() && self.is_harmless(&with_counters);
        if is_local {
            for node in &nodes {
                self.by_node.entry(node.clone()).or_default().extend(&with_counters);
            }
        } else {
            elsewhere.extend(with_counters);
        }
        if let Some(pool) = self.pools.last_mut() {
            pool.nodes = elsewhere.is_empty().then_some(nodes);
        }
        self.anywhere.extend(elsewhere);
    }

    fn add_slice(
        &mut self,
        object: &Arc<ResourceSlice>,
        pool: u32,
        generation: usize,
        generations: &[Generation],
        shapes: &[u32],
    ) {
        let at = self.slices.len() as u32;
        let first_device = self.devices.len() as DeviceIdx;
        for (index, device) in object.devices.iter().enumerate() {
            let idx = self.devices.len() as DeviceIdx;
            let name = DeviceName::new(&object.driver, &object.pool, &device.name);
            let key = *self.keys.entry(name).or_insert(self.by_key.len() as DeviceKey);
            if key as usize == self.by_key.len() {
                self.by_key.push(SmallVec::new());
            }
            self.by_key[key as usize].push(idx);
            self.takes_node_resources |= !device.node_allocatable_resource_mappings.is_empty();
            let counters = generations.get(generation).map(|generation| &generation.counters);
            self.devices.push(InventoryDevice {
                slice: at,
                at: index as u32,
                key,
                shape: shapes[index],
                consumption: counters
                    .map(|counters| counters.consumption(&device.consumes_counters))
                    .unwrap_or_default(),
                reach: object.is_per_device().then(|| Box::new(Reach::new(&device.reach()))),
            });
        }
        self.slices.push(Slice {
            object: object.clone(),
            pool,
            generation: generation as u32,
            first_device,
            reach: Reach::new(&object.reach),
        });
    }

    /// What is turned on.
    pub fn features(&self) -> Features {
        self.features
    }

    /// `driver/pool`, for messages.
    pub(crate) fn pool_name(&self, pool: u32) -> String {
        let pool = &self.pools[pool as usize];
        format!("{}/{}", pool.driver, pool.name)
    }

    pub(crate) fn n_shapes(&self) -> usize {
        self.n_shapes
    }

    pub(crate) fn key(&self, name: &DeviceName) -> Option<DeviceKey> {
        self.keys.get(name).copied()
    }

    pub(crate) fn devices_of_key(&self, key: DeviceKey) -> &[DeviceIdx] {
        &self.by_key[key as usize]
    }

    pub(crate) fn device(&self, device: DeviceIdx) -> DeviceRef<'_> {
        let entry = &self.devices[device as usize];
        let slice = &self.slices[entry.slice as usize];
        DeviceRef { entry, slice, device: &slice.object.devices[entry.at as usize] }
    }

    /// The slices that may have to do with a node: its own and those that are not of a single node.
    pub(crate) fn slices_near<'a>(
        &'a self,
        node: NodeRef<'_>,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let own = self.by_node.get(node.name).map_or(&[][..], Vec::as_slice);
        own.iter().chain(&self.anywhere).copied()
    }

    /// A slice with where its devices can be used, unless that is up to them.
    pub(crate) fn slice(&self, slice: u32) -> (&ResourceSlice, &Reach) {
        let slice = &self.slices[slice as usize];
        (&slice.object, &slice.reach)
    }

    /// The devices of a slice.
    pub(crate) fn devices_of_slice(&self, slice: u32) -> Range<DeviceIdx> {
        let slice = &self.slices[slice as usize];
        slice.first_device..slice.first_device + slice.object.devices.len() as DeviceIdx
    }

    /// The pool of the devices with a name.
    fn pool_of_key(&self, key: DeviceKey) -> Option<&Pool> {
        let device = *self.devices_of_key(key).first()?;
        self.pools.get(self.device(device).pool().pool as usize)
    }

    /// The nodes that may see a device; `None` if any may.
    pub(crate) fn nodes_of_key(&self, key: DeviceKey) -> Option<&[Arc<str>]> {
        self.pool_of_key(key)?.nodes.as_deref()
    }

    pub(crate) fn n_pools(&self) -> u32 {
        self.pools.len() as u32
    }

    pub(crate) fn generations(&self, pool: u32) -> impl Iterator<Item = PoolGeneration> {
        let n = self.pools[pool as usize].generations.len() as u32;
        (0..n).map(move |generation| PoolGeneration { pool, generation })
    }

    /// Whether any generation of a pool has counters.
    pub(crate) fn has_counters(&self, pool: u32) -> bool {
        let mut generations = self.pools[pool as usize].generations.iter();
        generations.any(|generation| !generation.counters.totals().is_empty())
    }

    /// The devices of all generations of a pool.
    pub(crate) fn devices_of_pool(&self, pool: u32) -> Range<DeviceIdx> {
        let start = |pool: u32| {
            let slice = self.slices.partition_point(|slice| slice.pool < pool);
            let first = self.slices.get(slice).map(|slice| slice.first_device);
            first.unwrap_or(self.devices.len() as DeviceIdx)
        };
        start(pool)..start(pool + 1)
    }

    #[cfg(test)]
    pub(crate) fn n_keys(&self) -> DeviceKey {
        self.by_key.len() as DeviceKey
    }

    /// How much there is of every counter of the device's pool.
    pub(crate) fn counter_totals(
        &self,
        pool: PoolGeneration,
    ) -> &[kube_scheduler_api_types::Quantity] {
        let pool_entry = &self.pools[pool.pool as usize];
        pool_entry.generations[pool.generation as usize].counters.totals()
    }
}

/// One generation of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolGeneration {
    pub(crate) pool: u32,
    generation: u32,
}

/// A device with what it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRef<'a> {
    entry: &'a InventoryDevice,
    slice: &'a Slice,
    /// The device as published.
    pub(crate) device: &'a Device,
}

impl<'a> DeviceRef<'a> {
    pub(crate) fn key(&self) -> DeviceKey {
        self.entry.key
    }

    pub(crate) fn shape(&self) -> u32 {
        self.entry.shape
    }

    pub(crate) fn consumption(&self) -> &'a Consumption {
        &self.entry.consumption
    }

    pub(crate) fn pool(&self) -> PoolGeneration {
        PoolGeneration { pool: self.slice.pool, generation: self.slice.generation }
    }

    pub(crate) fn slice(&self) -> &'a ResourceSlice {
        &self.slice.object
    }

    pub(crate) fn name(&self) -> DeviceName {
        let slice = self.slice();
        DeviceName::new(&slice.driver, &slice.pool, &self.device.name)
    }

    pub(crate) fn facts(&self) -> DeviceFacts<'a> {
        DeviceFacts {
            driver: &self.slice.object.driver,
            allow_multiple_allocations: self.device.is_shareable(),
            attributes: &self.device.attributes,
            capacity: &self.device.capacity,
        }
    }

    /// Whether the device itself can be used on the node, given that its slice can.
    pub(crate) fn reaches(&self, node: NodeRef<'_>) -> Result<bool, String> {
        self.entry.reach.as_ref().map_or(Ok(true), |reach| reach.matches(node))
    }
}

impl Generation {
    fn new(pool: &[Arc<ResourceSlice>], number: i64) -> Self {
        let of_generation = || pool.iter().filter(|slice| slice.generation == number);
        let mut names: Vec<&str> =
            of_generation().flat_map(|slice| &slice.devices).map(|device| &*device.name).collect();
        names.sort_unstable();
        Self {
            number,
            n_slices: of_generation().count() as i64,
            counters: counters::Counters::new(of_generation()),
            has_duplicate_devices: names.windows(2).any(|pair| pair[0] == pair[1]),
        }
    }
}
