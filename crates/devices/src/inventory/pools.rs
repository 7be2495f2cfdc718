//! The pools that one node sees, in the order in which their devices are tried.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::pool::{Generation, Newest};
use super::{DeviceIdx, Inventory, NodeRef, Pool, Slice};
use crate::features::Features;

/// What nodes with fewer pools see is found out as quickly as it is looked up. Tests have few pools, and remember them all the same.
const MIN_REMEMBERED: usize = if cfg!(test) { 1 } else { 16 };

/// The pools of a node (`docs/spec/plugins-dra.md` §8.2).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NodePools {
    pub(crate) pools: Vec<NodePool>,
    /// The devices of all usable pools, in search order.
    pub(crate) devices: Vec<DeviceIdx>,
}

/// One pool of a node.
#[derive(Debug, PartialEq)]
pub(crate) struct NodePool {
    /// Place of the pool.
    pub(crate) pool: u32,
    pub(crate) state: PoolState,
    /// Its devices in [`NodePools::devices`].
    pub(crate) devices: Range<usize>,
}

/// Whether a pool's devices can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        if self.n_pools_near(node.name) < MIN_REMEMBERED {
            return self.look_from(node).map(Arc::new);
        }
        let views = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = views().find(node) {
            return Ok(known);
        }
        let found = self.look_from(node)?;
        Ok(views().add(node, found))
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
        let seen = Newest::of(slices().map(|slice| &*slice.object))?;
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
    use crate::api::ResourceSlice;

    /// A slice for the nodes of a zone, or for one node.
    fn slice(at: usize, place: usize) -> Arc<ResourceSlice> {
        let mut spec = json!({"driver": "d", "devices": [{"name": "x"}],
            "pool": {"name": at.to_string(), "generation": 1, "resourceSliceCount": 1 + at / 5}});
        match place {
            0 => spec["nodeName"] = "n0".into(),
            1 => spec["allNodes"] = true.into(),
            zone => {
                spec["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": [zone.to_string()]}]}]});
            }
        }
        let json = json!({"metadata": {"name": at.to_string()}, "spec": spec});
        Arc::new(ResourceSlice::from_json(&json.into()).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
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
}
