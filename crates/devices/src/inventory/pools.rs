//! The pools that one node sees, in the order in which their devices are tried.

use std::ops::Range;

use super::{DeviceIdx, Inventory, NodeRef, Slice};

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
    pool: u32,
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
        let mut relevant: Vec<u32> = Vec::new();
        let own = self.by_node.get(node.name).map_or(&[][..], Vec::as_slice);
        for &at in own.iter().chain(&self.anywhere) {
            if self.is_relevant(&self.slices[at as usize], node)? {
                relevant.push(at);
            }
        }
        // Places of slices are in the order of pools and names.
        relevant.sort_unstable();
        let pool_of = |at: &u32| self.slices[*at as usize].pool;
        let mut drafts: Vec<Draft<'_>> = relevant
            .chunk_by(|a, b| pool_of(a) == pool_of(b))
            .filter_map(|slices| self.draft(slices))
            .collect();
        drafts.sort_by_key(|draft| (draft.has_binding_conditions, draft.pool));

        let mut found = NodePools::default();
        for draft in drafts {
            let start = found.devices.len();
            for slice in draft.slices {
                let n_devices = slice.object.devices.len() as DeviceIdx;
                found.devices.extend(slice.first_device..slice.first_device + n_devices);
            }
            found.pools.push(NodePool {
                pool: draft.pool,
                state: draft.state,
                devices: start..found.devices.len(),
            });
        }
        Ok(found)
    }

    /// Whether a node that sees these slices of a pool and no others would be as well off without.
    pub(super) fn is_harmless(&self, slices: &[u32]) -> bool {
        let all = || slices.iter().map(|&at| &self.slices[at as usize]);
        all().all(|slice| slice.object.devices.is_empty())
            && self.draft(slices).is_none_or(|pool| pool.state == PoolState::Usable)
    }

    fn is_relevant(&self, slice: &Slice, node: NodeRef<'_>) -> Result<bool, String> {
        let object = &slice.object;
        let has_counters = !object.shared_counters.is_empty();
        let is_partitioned = has_counters || object.per_device_node_selection.is_some();
        if is_partitioned && !self.features.partitionable_devices {
            return Ok(false);
        }
        if has_counters {
            return Ok(true);
        }
        let failed = |part: &str, text: String| {
            format!("gather pool information: failed to perform node selection for {part}: {text}")
        };
        if object.reach.is_given() {
            let matches = slice.reach.matches(node);
            return matches.map_err(|text| failed(&format!("slice {}", object.name), text));
        }
        if !object.is_per_device() {
            return Ok(false);
        }
        for (index, device) in object.devices.iter().enumerate() {
            let at = slice.first_device + index as DeviceIdx;
            let matches = self.device(at).reaches(node);
            let matches = matches.map_err(|text| {
                failed(&format!("device {} in slice {}", device.name, object.name), text)
            })?;
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the relevant slices of one pool come to; nothing if they are out of date.
    fn draft(&self, relevant: &[u32]) -> Option<Draft<'_>> {
        let slices = || relevant.iter().map(|&at| &self.slices[at as usize]);
        let newest = slices().max_by_key(|slice| slice.object.generation)?;
        let number = newest.object.generation;
        let pool = &self.pools[newest.pool as usize];
        let generation = &pool.generations[newest.generation as usize];
        let kept: Vec<&Slice> =
            slices().filter(|slice| slice.object.generation == number).collect();
        let n_expected = kept.first()?.object.n_slices;
        let mut draft = Draft {
            pool: newest.pool,
            state: PoolState::Usable,
            slices: Vec::new(),
            has_binding_conditions: false,
        };
        if kept.len() as i64 != n_expected {
            if pool.generations.iter().any(|other| other.number > number) {
                return None;
            }
            if generation.n_slices != n_expected {
                draft.state = PoolState::Incomplete;
                return Some(draft);
            }
        }
        let has_counters = self.features.partitionable_devices;
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
        draft.has_binding_conditions = with_devices
            .iter()
            .flat_map(|slice| &slice.object.devices)
            .any(|device| device.binding_conditions.is_some());
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
