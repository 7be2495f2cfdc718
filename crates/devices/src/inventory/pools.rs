//! The pools that one node sees, in the order in which their devices are tried.

use std::ops::Range;

use super::{DeviceIdx, Inventory, NodeRef, Pool, Slice};
use crate::features::Features;

/// The pools of a node (`docs/spec/plugins-dra.md` §8.2).
#[derive(Debug, Default)]
pub(crate) struct NodePools {
    pub(crate) pools: Vec<NodePool>,
    /// The devices of all usable pools, in search order.
    pub(crate) devices: Vec<DeviceIdx>,
}

/// One pool of a node.
#[derive(Debug)]
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
    pub(crate) fn pools_on(&self, node: NodeRef<'_>) -> Result<NodePools, String> {
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
        let newest = slices().max_by_key(|slice| slice.object.generation)?;
        let number = newest.object.generation;
        let generation = &self.generations[newest.generation as usize];
        let kept: Vec<&Slice> =
            slices().filter(|slice| slice.object.generation == number).collect();
        let n_expected = kept.first()?.object.n_slices;
        let mut draft =
            Draft { state: PoolState::Usable, slices: Vec::new(), has_binding_conditions: false };
        if kept.len() as i64 != n_expected {
            if self.generations.iter().any(|other| other.number > number) {
                return None;
            }
            if generation.n_slices != n_expected {
                draft.state = PoolState::Incomplete;
                return Some(draft);
            }
        }
        let has_counters = features.partitionable_devices;
        let with_devices: Vec<&Slice> = kept
            .into_iter()
            .filter(|slice| !has_counters || slice.object.shared_counters.is_empty())
            .collect();
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
