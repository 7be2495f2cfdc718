//! The pools that one node sees, in the order in which their devices are tried.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use kube_scheduler_api_types::lock;

use super::pool::{Generation, NewestGeneration};
use super::views::Views;
use super::{DeviceIdx, Inventory, NodeRef, Pool, Slice};
use crate::features::Features;

/// What nodes with fewer pools see, and fewer devices that other nodes may see, too, is not remembered, for memory: with it
/// `bench core --workload DeviceClaims` takes less than one percent fewer instructions. If nothing is remembered,
/// `--workload DevicesOfAllNodes` takes 17 times as many with 50 nodes. Tests have few, and remember them all the same.
const MIN_REMEMBERED: usize = if cfg!(test) { 1 } else { 16 };
const MIN_REMEMBERED_DEVICES: usize = if cfg!(test) { 1 } else { 64 };

/// The pools of a node (`docs/spec/plugins-dra.md` §8.2).
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodePools {
    pub(crate) pools: Vec<NodePool>,
    /// The devices of all usable pools, in search order.
    pub(crate) devices: Vec<DeviceIdx>,
    /// Whether any device says by itself on which nodes it can be used: then nodes with equal pools may see different devices.
    pub(crate) are_per_device: bool,
}

/// What a node sees of an inventory. Two are equal exactly if they are of one inventory and the nodes see the same there.
#[derive(Clone, Debug)]
pub struct View(Arc<NodePools>);

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for View {}

impl Hash for View {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// One pool of a node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodePool {
    /// Place of the pool.
    pub(crate) pool: u32,
    pub(crate) state: PoolState,
    /// Its devices in [`NodePools::devices`].
    pub(crate) devices: Range<usize>,
}

/// Whether a pool's devices can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PoolState {
    Usable,
    /// Some of its slices are not there yet, or too many.
    Incomplete,
    /// Its slices contradict each other.
    Invalid,
}

/// A pool before pools are put in order.
struct Draft<'a> {
    state: PoolState,
    /// Its slices with devices.
    slices: Vec<&'a Slice>,
    has_binding_conditions: bool,
}

impl NodePools {
    pub(crate) fn has_invalid(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Invalid)
    }
}

impl Inventory {
    /// The pools of `node`. An error is the text of what failed.
    pub(crate) fn pools_on(&self, node: NodeRef<'_>) -> Result<Arc<NodePools>, String> {
        if !self.is_remembered(node) {
            return self.look_from(node).map(Arc::new);
        }
        if let Some(known) = self.views().find(node) {
            return Ok(known);
        }
        let found = self.look_from(node)?;
        Ok(self.views().add(node, found).0)
    }

    /// What `node` sees, where other nodes may see the same and have the same allocations then. `None` if that is not remembered: a
    /// caller who kept it would keep what no other node can share.
    pub(crate) fn shared_view(&self, node: NodeRef<'_>) -> Option<View> {
        if !self.is_remembered(node) {
            return None;
        }
        let (known, is_full) = {
            let views = self.views();
            (views.find(node), views.are_full())
        };
        let pools = match known {
            Some(known) => known,
            None if is_full => return None,
            None => {
                let found = self.look_from(node).ok()?;
                let (pools, is_kept) = self.views().add(node, found);
                is_kept.then_some(pools)?
            }
        };
        (!pools.are_per_device).then_some(View(pools))
    }

    fn is_remembered(&self, node: NodeRef<'_>) -> bool {
        self.n_pools_near(node.name) >= MIN_REMEMBERED
            || self.n_devices_anywhere >= MIN_REMEMBERED_DEVICES
    }

    fn views(&self) -> MutexGuard<'_, Views> {
        lock(&self.views)
    }

    fn look_from(&self, node: NodeRef<'_>) -> Result<NodePools, String> {
        let mut drafts = Vec::new();
        for place in self.pools_near(node.name) {
            let pool = &self.pools[place as usize];
            let mut relevant: Vec<u32> = Vec::new();
            for at in pool.slices_near(node.name) {
                if pool.is_relevant(pool.slice(at), node, self.features())? {
                    relevant.push(at);
                }
            }
            // Places of slices are in the order of names.
            relevant.sort_unstable();
            drafts.extend(pool.draft(&relevant, self.features()).map(|draft| (place, draft)));
        }
        drafts.sort_by_key(|(place, draft)| (draft.has_binding_conditions, *place));

        let mut found = NodePools::default();
        for (pool, draft) in drafts {
            let start = found.devices.len();
            for slice in draft.slices {
                let devices =
                    slice.first_device..slice.first_device + slice.object.devices.len() as u32;
                found.are_per_device |= slice.object.is_per_device();
                found.devices.extend(devices.map(|at| DeviceIdx { pool, at }));
            }
            let devices = start..found.devices.len();
            found.pools.push(NodePool { pool, state: draft.state, devices });
        }
        Ok(found)
    }
}

impl Pool {
    /// Whether a node that sees these slices of a pool and no others would be as well off without.
    pub(super) fn is_harmless(&self, slices: &[u32], features: Features) -> bool {
        let all = || slices.iter().map(|&at| self.slice(at));
        all().all(|slice| slice.object.devices.is_empty())
            && self.draft(slices, features).is_none_or(|pool| pool.state == PoolState::Usable)
    }

    fn is_relevant(
        &self,
        slice: &Slice,
        node: NodeRef<'_>,
        features: Features,
    ) -> Result<bool, String> {
        let object = &slice.object;
        let has_counters = !object.shared_counters.is_empty();
        let is_partitioned = has_counters || object.per_device_node_selection.is_some();
        if is_partitioned && !features.partitionable_devices {
            return Ok(false);
        }
        // For every node: the devices that draw on the counters are in other slices.
        if has_counters {
            return Ok(true);
        }
        let failed = |part: &str, text: String| {
            format!("gather pool information: failed to perform node selection for {part}: {text}")
        };
        if object.reach.is_given() {
            let matches = slice.object().1.matches(node);
            return matches.map_err(|text| failed(&format!("slice {}", object.name), text));
        }
        if !object.is_per_device() {
            return Ok(false);
        }
        for device in self.devices_of_slice(slice) {
            let matches = device.reaches(node).map_err(|text| {
                failed(&format!("device {} in slice {}", device.device.name, object.name), text)
            })?;
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the relevant slices of one pool come to; nothing if they are out of date.
    fn draft(&self, relevant: &[u32], features: Features) -> Option<Draft<'_>> {
        let slices = || relevant.iter().map(|&at| self.slice(at));
        let seen = NewestGeneration::of(slices().map(|slice| &*slice.object))?;
        let mut known = self.generations.iter();
        let generation = known.find(|generation| generation.number == seen.number)?;
        let mut draft =
            Draft { state: PoolState::Usable, slices: Vec::new(), has_binding_conditions: false };
        if !seen.is_complete() {
            let is_newer = |other: &Generation| other.number > seen.number;
            if self.generations.iter().any(is_newer) {
                return None;
            }
            // The node may see a part of the pool only.
            if generation.n_slices != seen.n_expected {
                draft.state = PoolState::Incomplete;
                return Some(draft);
            }
        }
        let has_counters = features.partitionable_devices;
        let kept = slices().filter(|slice| slice.object.generation == seen.number);
        let with_devices: Vec<&Slice> =
            kept.filter(|slice| !has_counters || slice.object.shared_counters.is_empty()).collect();
        let is_invalid = (generation.has_duplicate_devices && has_duplicates(&with_devices))
            || (has_counters && generation.counters.is_invalid());
        if is_invalid {
            draft.state = PoolState::Invalid;
            return Some(draft);
        }
        draft.has_binding_conditions =
            with_devices.iter().any(|slice| slice.has_binding_conditions);
        draft.slices = with_devices;
        Some(draft)
    }
}

fn has_duplicates(slices: &[&Slice]) -> bool {
    let devices = slices.iter().flat_map(|slice| &slice.object.devices);
    let mut names: Vec<&str> = devices.map(|device| &*device.name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Labels;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::allocator::{Allocator, PodClaims, Steps};
    use crate::api::{DeviceClass, ResourceClaim, ResourceSlice};
    use crate::cel::CelSelectors;
    use crate::selectors::SelectorTable;
    use crate::usage::Usage;

    /// A slice for the nodes of a zone, for one node, or for those that its device names.
    fn slice(at: usize, place: usize) -> Arc<ResourceSlice> {
        let mut spec = json!({"driver": "d", "devices": [{"name": "x"}],
            "pool": {"name": at.to_string(), "generation": 1, "resourceSliceCount": 1 + at / 5}});
        match place {
            0 => spec["nodeName"] = "n0".into(),
            1 => spec["allNodes"] = true.into(),
            4 => {
                spec["perDeviceNodeSelection"] = true.into();
                spec["devices"][0]["nodeName"] = "n0".into();
                spec["devices"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "y", "allNodes": true}));
            }
            zone => {
                spec["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": [zone.to_string()]}]}]});
            }
        }
        let json = json!({"metadata": {"name": at.to_string()}, "spec": spec});
        Arc::new(ResourceSlice::from_json(&json.into()).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_remembered_is_what_a_node_sees(
            places in prop::collection::vec(0..4_usize, 1..8),
            looks in prop::collection::vec((0..3_usize, 1..4_usize), 1..30),
        ) {
            let slices = places.iter().enumerate().map(|(at, place)| slice(at, *place));
            let inventory = Inventory::new(slices, Features::default());
            for (name, zone) in looks {
                let labels: Labels = [("zone", zone.to_string())].into_iter().collect();
                let name = format!("n{name}");
                let node = NodeRef { name: &name, labels: &labels };
                prop_assert_eq!(&*inventory.pools_on(node).unwrap(), &inventory.look_from(node).unwrap());
            }
        }
    }

    /// What claims of different sizes would get.
    fn offers(allocator: &Allocator, node: NodeRef<'_>) -> String {
        let offer = |count: usize| {
            let exactly =
                json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
            let claim = json!({"metadata": {"namespace": "n", "name": "c", "uid": "u"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
            let claim = ResourceClaim::from_json(&claim.into()).unwrap();
            let claims = PodClaims::new([Arc::new(claim)]);
            let found = allocator.allocate(node, &claims, &Steps::new(1_000), &mut || "s".into());
            format!("{found:?}")
        };
        (1..6).map(offer).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn nodes_with_equal_views_get_the_same(
            places in prop::collection::vec(0..5_usize, 1..8),
            zones in prop::collection::vec(1..4_usize, 2..6),
        ) {
            let features = Features { partitionable_devices: true, ..Features::default() };
            let slices = places.iter().enumerate().map(|(at, place)| slice(at, *place));
            let selectors = SelectorTable::new(Arc::new(Inventory::new(slices, features)));
            let class = DeviceClass::from_json(&json!({"metadata": {"name": "any"}}).into()).unwrap();
            let classes = [(class.name.clone(), Arc::new(class))].into_iter().collect();
            let compiler = Arc::new(CelSelectors::default());
            let allocator = Allocator::new(selectors, &Usage::default(), classes, compiler);
            let mut known: Vec<(View, String)> = Vec::new();
            let (mut n_shared, mut n_seen) = (0, 0);
            for (at, zone) in zones.iter().enumerate() {
                let labels: Labels = [("zone", zone.to_string())].into_iter().collect();
                let name = format!("n{at}");
                let node = NodeRef { name: &name, labels: &labels };
                let offered = offers(&allocator, node);
                let Some(view) = allocator.view(node) else { continue };
                n_seen += 1;
                match known.iter().find(|(other, _)| *other == view) {
                    Some((_, expected)) => {
                        n_shared += 1;
                        prop_assert_eq!(offered, expected.clone());
                    }
                    None => known.push((view, offered)),
                }
            }
            // What any node may see is remembered, unless devices name their nodes by themselves.
            if places.iter().any(|place| (1..4).contains(place)) && !places.contains(&4) {
                prop_assert_eq!(n_seen, zones.len());
            }
            // There are three zones, and one node that may have devices of its own.
            prop_assert!(n_seen <= n_shared + 4);
        }
    }
}
