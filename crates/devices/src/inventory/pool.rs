//! One pool: its slices and devices. Inventories that were made from each other share the pools that have not changed.

use std::sync::Arc;

use kube_scheduler_api_types::{NodeSelector, Quantity, validation::FieldPath};
use smallvec::SmallVec;

use super::counters::{Consumption, Counters};
use super::shapes::Shapes;
use super::{NodeRef, PoolId};
use crate::api::{Device, NodeReach, ResourceSlice};
use crate::facts::DeviceFacts;
use crate::features::Features;
use crate::name::DeviceName;

/// Pools with more shapes than this are not counted. Each device is looked for among the shapes before it, so this bounds what it
/// takes to make a pool.
const MAX_COUNTED_SHAPES: usize = 16;

/// A device, by its name: devices of different generations may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceKey {
    pool: PoolId,
    name: u32,
}

impl DeviceKey {
    pub(crate) fn pool(self) -> PoolId {
        self.pool
    }
}

/// One generation of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolGeneration {
    pool: PoolId,
    generation: u32,
}

/// The slices of a pool, and what is made of them.
#[derive(Debug)]
pub(crate) struct Pool {
    id: PoolId,
    driver: Arc<str>,
    name: Arc<str>,
    /// In the order of their names, as are the devices.
    slices: Vec<Slice>,
    pub(super) generations: SmallVec<[Generation; 1]>,
    devices: Vec<PoolDevice>,
    /// The names of the devices, ascending.
    device_names: Vec<Arc<str>>,
    /// The last device of each name.
    last_devices: Vec<u32>,
    /// The slices that single nodes have to look at, by the name of the node, ascending.
    by_node: Vec<(Arc<str>, SmallVec<[u32; 2]>)>,
    /// The slices to look at for every node.
    anywhere: Vec<u32>,
    /// How many devices there are of each shape, with one of them, if all are [plain](DeviceRef::is_plain).
    n_by_shape: Option<SmallVec<[ShapeCount; 4]>>,
    /// Whether any device takes resources of its node.
    pub(super) takes_node_resources: bool,
}

/// Devices of one pool that are alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapeCount<At = u32> {
    pub(crate) shape: u32,
    pub(crate) n: usize,
    /// The place of one of them.
    pub(crate) example: At,
}

#[derive(Debug)]
pub(crate) struct Slice {
    pub(super) object: Arc<ResourceSlice>,
    /// Place of its generation in its pool.
    pub(super) generation: u32,
    pub(super) first_device: u32,
    pub(super) has_binding_conditions: bool,
    reach: Reach,
}

/// Where devices can be used, with the selector compiled.
#[derive(Debug)]
pub(crate) struct Reach {
    node_name: Option<Arc<str>>,
    all_nodes: bool,
    selector: Option<Result<NodeSelector, String>>,
}

/// What is the same for all slices of a pool's generation.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: i64,
    pub(super) n_slices: i64,
    pub(super) counters: Counters,
    pub(super) has_duplicate_devices: bool,
}

/// The newest generation among some slices of a pool, in the order of their names.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewestGeneration {
    pub(super) number: i64,
    n_slices: i64,
    /// How many slices it has, going by the first one.
    pub(super) n_expected: i64,
}

impl NewestGeneration {
    /// Nothing without slices.
    pub(super) fn of<'a>(slices: impl Iterator<Item = &'a ResourceSlice> + Clone) -> Option<Self> {
        let number = slices.clone().map(|slice| slice.generation).max()?;
        let mut of_newest = slices.filter(|slice| slice.generation == number);
        let n_expected = of_newest.next()?.n_slices;
        Some(Self { number, n_slices: 1 + of_newest.count() as i64, n_expected })
    }

    /// Whether all of its slices are among them, and no other.
    pub(super) const fn is_complete(self) -> bool {
        self.n_slices == self.n_expected
    }
}

#[derive(Debug)]
struct PoolDevice {
    slice: u32,
    /// Place in the slice.
    at: u32,
    /// Place of its name.
    name: u32,
    shape: u32,
    /// See [`DeviceRef::is_plain`].
    is_plain: bool,
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

impl Slice {
    /// The slice as published, and where its devices can be used, unless that is up to them.
    pub(crate) fn object(&self) -> (&ResourceSlice, &Reach) {
        (&self.object, &self.reach)
    }

    fn devices(&self) -> std::ops::Range<u32> {
        self.first_device..self.first_device + self.object.devices.len() as u32
    }
}

impl Pool {
    /// The pool of these slices, which have its driver and name and come in the order of their names. What is known of slices that
    /// `former` has as well is taken over.
    pub(super) fn new(
        id: PoolId,
        objects: &[Arc<ResourceSlice>],
        features: Features,
        shapes: &mut Shapes,
        former: Option<&Self>,
    ) -> Self {
        let mut generations: SmallVec<[Generation; 1]> = SmallVec::new();
        for object in objects {
            if !generations.iter().any(|known| known.number == object.generation) {
                generations.push(Generation::new(objects, object.generation));
            }
        }
        let devices = objects.iter().flat_map(|slice| &slice.devices);
        let mut device_names: Vec<Arc<str>> = devices.map(|device| device.name.clone()).collect();
        device_names.sort_unstable();
        device_names.dedup();
        let first = objects.first();
        let mut pool = Self {
            id,
            driver: first.map(|first| first.driver.clone()).unwrap_or_default(),
            name: first.map(|first| first.pool.clone()).unwrap_or_default(),
            slices: Vec::with_capacity(objects.len()),
            generations,
            devices: Vec::new(),
            last_devices: vec![0; device_names.len()],
            device_names,
            by_node: Vec::new(),
            anywhere: Vec::new(),
            n_by_shape: None,
            takes_node_resources: false,
        };
        for object in objects {
            let known = former.and_then(|former| former.shapes_of(object));
            let shapes = known.unwrap_or_else(|| shapes.of_slice(object));
            pool.add_slice(object, &shapes);
        }
        pool.place_slices(features);
        pool.n_by_shape = pool.count_shapes();
        pool
    }

    fn count_shapes(&self) -> Option<SmallVec<[ShapeCount; 4]>> {
        let mut counts = SmallVec::<[ShapeCount; 4]>::new();
        for (device, place) in self.devices.iter().zip(0..) {
            if !device.is_plain {
                return None;
            }
            if let Some(known) = counts.iter_mut().find(|known| known.shape == device.shape) {
                known.n += 1;
            } else if counts.len() < MAX_COUNTED_SHAPES {
                counts.push(ShapeCount { shape: device.shape, n: 1, example: place });
            } else {
                return None;
            }
        }
        Some(counts)
    }

    /// The shapes of the devices of a slice that it has.
    fn shapes_of(&self, object: &Arc<ResourceSlice>) -> Option<Vec<u32>> {
        // Slices of a pool have different names.
        let at = self.slices.binary_search_by(|slice| slice.object.name.cmp(&object.name)).ok()?;
        let slice = self.slices.get(at).filter(|slice| Arc::ptr_eq(&slice.object, object))?;
        let devices = slice.devices().map(|at| &self.devices[at as usize]);
        Some(devices.map(|device| device.shape).collect())
    }

    fn add_slice(&mut self, object: &Arc<ResourceSlice>, shapes: &[u32]) {
        let mut known = self.generations.iter();
        let generation =
            known.position(|known| known.number == object.generation).unwrap_or_default();
        let counters = self.generations.get(generation).map(|generation| &generation.counters);
        let first_device = self.devices.len() as u32;
        for ((at, device), shape) in object.devices.iter().enumerate().zip(shapes) {
            let name = self.device_names.binary_search(&device.name).unwrap_or_default();
            self.takes_node_resources |= !device.node_allocatable_resource_mappings.is_empty();
            if let Some(last) = self.last_devices.get_mut(name) {
                *last = self.devices.len() as u32;
            }
            let consumption = counters.map(|all| all.consumption(&device.consumes_counters));
            self.devices.push(PoolDevice {
                slice: self.slices.len() as u32,
                at: at as u32,
                name: name as u32,
                shape: *shape,
                is_plain: !object.is_per_device()
                    && !device.is_shareable()
                    && device.taints.is_empty()
                    && device.binding_conditions.is_none(),
                consumption: consumption.unwrap_or_default(),
                reach: object.is_per_device().then(|| Box::new(Reach::new(&device.reach()))),
            });
        }
        self.slices.push(Slice {
            object: object.clone(),
            generation: generation as u32,
            first_device,
            has_binding_conditions: object.devices.iter().any(|it| it.binding_conditions.is_some()),
            reach: Reach::new(&object.reach),
        });
    }

    /// Notes for which nodes the slices have to be looked at.
    fn place_slices(&mut self, features: Features) {
        let mut own: Vec<(Arc<str>, u32)> = Vec::new();
        let (mut with_counters, mut elsewhere) = (Vec::new(), Vec::new());
        for (at, slice) in self.slices.iter().enumerate() {
            let at = at as u32;
            let of_node = slice.object.reach.node_name.as_ref().filter(|name| !name.is_empty());
            match of_node {
                _ if !slice.object.shared_counters.is_empty() => with_counters.push(at),
                Some(node) => own.push((node.clone(), at)),
                None => elsewhere.push(at),
            }
        }
        own.sort_unstable();
        // Nodes without devices of the pool see its counters alone, which makes no difference to them unless the pool
        // looks wrong from there.
        let is_local = elsewhere.is_empty() && self.is_harmless(&with_counters, features);
        let (everyones, of_all) = if is_local {
            (with_counters, elsewhere)
        } else {
            (Vec::new(), [elsewhere, with_counters].concat())
        };
        let of_node = |slices: &[(Arc<str>, u32)]| {
            let places = slices.iter().map(|(_, at)| *at).chain(everyones.iter().copied());
            Some((slices.first()?.0.clone(), places.collect()))
        };
        self.by_node = own.chunk_by(|a, b| a.0 == b.0).filter_map(of_node).collect();
        self.anywhere = of_all;
    }

    /// Whether it consists of just these slices, in this order.
    pub(super) fn is_made_of(&self, objects: &[Arc<ResourceSlice>]) -> bool {
        let own = self.slices.iter().map(|slice| Arc::as_ptr(&slice.object));
        own.eq(objects.iter().map(Arc::as_ptr))
    }

    pub(super) fn full_name(&self) -> (&str, &str) {
        (&self.driver, &self.name)
    }

    /// The nodes that may see it; `None` if it has a slice that has to be looked at for every node.
    pub(crate) fn nodes(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        self.anywhere.is_empty().then(|| self.by_node.iter().map(|(node, _)| node))
    }

    /// The nodes that have slices of their own in it.
    pub(super) fn nodes_with_slices(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_node.iter().map(|(node, _)| node)
    }

    /// Whether it has slices to look at for every node.
    pub(super) fn is_anywhere(&self) -> bool {
        !self.anywhere.is_empty()
    }

    /// The slices that may have to do with a node.
    pub(super) fn slices_near(&self, node: &str) -> impl Iterator<Item = u32> {
        let own = self.by_node.binary_search_by(|(name, _)| (**name).cmp(node)).ok();
        let own = own.and_then(|at| self.by_node.get(at)).map_or(&[][..], |(_, slices)| slices);
        own.iter().chain(&self.anywhere).copied()
    }

    pub(super) fn slice(&self, at: u32) -> &Slice {
        &self.slices[at as usize]
    }

    pub(super) fn device(&self, at: u32) -> DeviceRef<'_> {
        let entry = &self.devices[at as usize];
        let slice = &self.slices[entry.slice as usize];
        DeviceRef { pool: self, entry, slice, device: &slice.object.devices[entry.at as usize] }
    }

    /// The devices of a slice.
    pub(super) fn devices_of_slice(&self, slice: &Slice) -> impl Iterator<Item = DeviceRef<'_>> {
        slice.devices().map(|at| self.device(at))
    }

    pub(crate) fn id(&self) -> PoolId {
        self.id
    }

    /// How many devices of which shapes it has; `None` if there are too many shapes, or if a device is not
    /// [plain](DeviceRef::is_plain).
    pub(crate) fn shape_counts(&self) -> Option<&[ShapeCount]> {
        self.n_by_shape.as_deref()
    }

    /// How many devices all generations have.
    pub(crate) fn n_devices(&self) -> usize {
        self.devices.len()
    }

    /// The devices of all generations.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceRef<'_>> {
        (0..self.devices.len() as u32).map(|at| self.device(at))
    }

    /// The key of the devices with a name.
    pub(crate) fn key(&self, device: &str) -> Option<DeviceKey> {
        let name = self.device_names.binary_search_by(|name| (**name).cmp(device)).ok()?;
        Some(DeviceKey { pool: self.id, name: name as u32 })
    }

    /// Of the devices with a name, which are of different generations, the last one in the order of slices.
    pub(crate) fn last_device(&self, key: DeviceKey) -> Option<DeviceRef<'_>> {
        self.last_devices.get(key.name as usize).map(|at| self.device(*at))
    }

    /// How many names its devices have.
    pub(crate) fn n_names(&self) -> usize {
        self.device_names.len()
    }

    /// The names of all devices, each once, with their keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = (DeviceKey, DeviceName)> {
        self.device_names.iter().enumerate().map(|(at, device)| {
            let key = DeviceKey { pool: self.id, name: at as u32 };
            (key, DeviceName::new(&self.driver, &self.name, device))
        })
    }

    pub(crate) fn generations(&self) -> impl Iterator<Item = PoolGeneration> {
        let all = 0..self.generations.len() as u32;
        all.map(|generation| PoolGeneration { pool: self.id, generation })
    }

    /// Whether any generation has counters.
    pub(crate) fn has_counters(&self) -> bool {
        self.generations.iter().any(|generation| !generation.counters.totals().is_empty())
    }
}

/// A device with what it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRef<'a> {
    pool: &'a Pool,
    entry: &'a PoolDevice,
    slice: &'a Slice,
    /// The device as published.
    pub(crate) device: &'a Device,
}

impl<'a> DeviceRef<'a> {
    pub(crate) fn key(&self) -> DeviceKey {
        DeviceKey { pool: self.pool.id, name: self.entry.name }
    }

    pub(crate) fn shape(&self) -> u32 {
        self.entry.shape
    }

    /// Whether its shape alone decides whether a request can have it while it is free. It then serves one request at a time.
    pub(crate) fn is_plain(&self) -> bool {
        self.entry.is_plain
    }

    pub(crate) fn consumption(&self) -> &'a Consumption {
        &self.entry.consumption
    }

    pub(crate) fn pool(&self) -> PoolGeneration {
        PoolGeneration { pool: self.pool.id, generation: self.slice.generation }
    }

    /// How much there is of every counter of the device's pool.
    pub(crate) fn counter_totals(&self) -> &'a [Quantity] {
        self.pool.generations[self.slice.generation as usize].counters.totals()
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
            counters: Counters::new(of_generation()),
            has_duplicate_devices: names.windows(2).any(|pair| pair[0] == pair[1]),
        }
    }
}
