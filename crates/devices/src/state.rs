//! Which devices are taken, kept up to date for one inventory.

use std::sync::Arc;

use crate::allocator::CommittedCounters;
use crate::api::Allocation;
use crate::inventory::{DeviceKey, Inventory};
use crate::name::DeviceName;
use crate::selectors::SelectorTable;
use crate::usage::{Occupancy, Usage};

/// In which way devices are held: a claim that is on its way holds what it is about to get besides what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// By claims as they are stored.
    Claims,
    /// By claims whose allocation is about to be written.
    InFlight,
}

/// The devices of an inventory, and which of them are taken. Changes take time proportional to the devices of one claim
/// and, where counters are shared, of their pools.
///
/// Invariant: it is what one made anew for the same usage would be.
#[derive(Clone)]
pub struct DeviceState {
    selectors: Arc<SelectorTable>,
    claims: Usage,
    in_flight: Usage,
    occupancy: Occupancy,
    counters: CommittedCounters,
    changes: Changes,
}

/// When devices changed hands. Numbers only grow along the history of a state; none is used twice.
#[derive(Clone, Debug, Default)]
struct Changes {
    latest: u64,
    /// When all devices were looked at anew.
    all: u64,
    /// Of pools that any node may see.
    anywhere: u64,
    /// Of every pool.
    pools: Vec<u64>,
}

impl DeviceState {
    /// The state of the devices that `selectors` is about if `claims` is all that is held.
    pub fn new(selectors: Arc<SelectorTable>, claims: Usage) -> Self {
        let mut state = Self {
            selectors,
            claims,
            in_flight: Usage::default(),
            occupancy: Occupancy::default(),
            counters: CommittedCounters::default(),
            changes: Changes::default(),
        };
        state.derive();
        state
    }

    /// Takes another count of all that is held, by claims as they are stored and by those in flight.
    pub fn recount(&mut self, claims: Usage, in_flight: Usage) {
        self.claims = claims;
        self.in_flight = in_flight;
        self.derive();
    }

    /// A number for the devices that a node may see and for who holds them: as long as it is the same, allocations on the
    /// node are the same, given equal labels. O(slices of the node).
    pub fn stamp(&self, node: &str) -> u64 {
        let Changes { all, anywhere, pools, .. } = &self.changes;
        let own = self.inventory().pools_of(node).map(|pool| pools[pool as usize]);
        own.fold((*all).max(*anywhere), u64::max)
    }

    /// The devices and what selectors say about them.
    pub fn selectors(&self) -> &Arc<SelectorTable> {
        &self.selectors
    }

    /// Goes over to another inventory. O(devices that are held).
    pub fn set_selectors(&mut self, selectors: Arc<SelectorTable>) {
        self.selectors = selectors;
        self.derive();
    }

    /// Adds what an allocation holds. Adding it once more changes nothing.
    pub fn add(&mut self, holder: Holder, allocation: &Allocation) {
        let features = self.inventory().features();
        self.usage(holder).add(allocation, features);
        self.refresh(allocation);
    }

    /// Removes what an allocation held.
    pub fn remove(&mut self, holder: Holder, allocation: &Allocation) {
        let features = self.inventory().features();
        self.usage(holder).remove(allocation, features);
        self.refresh(allocation);
    }

    /// Whether any claim holds the device or a share of it.
    pub fn holds(&self, device: &DeviceName) -> bool {
        self.claims.holds(device) || self.in_flight.holds(device)
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        self.selectors.inventory()
    }

    pub(crate) fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    pub(crate) fn counters(&self) -> &CommittedCounters {
        &self.counters
    }

    fn usage(&mut self, holder: Holder) -> &mut Usage {
        match holder {
            Holder::Claims => &mut self.claims,
            Holder::InFlight => &mut self.in_flight,
        }
    }

    /// Looks at the devices of an allocation again.
    fn refresh(&mut self, allocation: &Allocation) {
        for result in &allocation.results {
            if let Some(key) = self.selectors.inventory().key(&result.name()) {
                self.refresh_device(key);
            }
        }
    }

    fn refresh_device(&mut self, key: DeviceKey) {
        let inventory = self.selectors.inventory();
        let was_held = self.occupancy.is_held(key);
        if !self.occupancy.refresh(key, inventory, [&self.claims, &self.in_flight]) {
            return;
        }
        if self.occupancy.is_held(key) != was_held {
            self.counters.refresh(key, &self.occupancy, inventory);
        }
        let changes = &mut self.changes;
        changes.latest += 1;
        for pool in inventory.pools_of_key(key) {
            changes.pools[pool as usize] = changes.latest;
            if inventory.is_anywhere(pool) {
                changes.anywhere = changes.latest;
            }
        }
    }

    fn derive(&mut self) {
        self.occupancy = Occupancy::default();
        let inventory = self.selectors.inventory();
        let usages = [&self.claims, &self.in_flight];
        for name in usages.into_iter().flat_map(Usage::devices) {
            if let Some(key) = inventory.key(name) {
                self.occupancy.refresh(key, inventory, usages);
            }
        }
        self.counters = CommittedCounters::new(&self.occupancy, inventory);
        let latest = self.changes.latest + 1;
        let pools = vec![latest; inventory.n_pools() as usize];
        self.changes = Changes { latest, all: latest, anywhere: latest, pools };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::api::{ResourceClaim, ResourceSlice};
    use crate::features::Features;

    const N_DEVICES: usize = 6;

    /// A pool with counters, and one without; in the second of two versions some devices are gone.
    fn table(version: usize) -> Arc<SelectorTable> {
        let features = Features {
            partitionable_devices: true,
            consumable_capacity: true,
            ..Features::default()
        };
        let devices = |from: usize, takes: bool| -> Vec<_> {
            let device = |at: usize| {
                let mut device = json!({"name": at.to_string()});
                if takes {
                    device["consumesCounters"] = json!([{"counterSet": "s", "counters": {"c": {"value": (at + 1).to_string()}}}]);
                }
                device
            };
            (from + version..from + N_DEVICES / 2).map(device).collect()
        };
        let slice = |name: &str, pool: &str, rest: serde_json::Value| {
            let mut json = json!({
                "metadata": {"name": name},
                "spec": {"driver": "d", "nodeName": "n",
                         "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2}},
            });
            json["spec"].as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            Arc::new(ResourceSlice::from_json(&json).unwrap())
        };
        let counters =
            json!({"sharedCounters": [{"name": "s", "counters": {"c": {"value": "3"}}}]});
        let slices = [
            slice("a", "p", json!({"devices": devices(0, true)})),
            slice("b", "p", counters),
            slice("c", "q", json!({"devices": devices(3, false)})),
        ];
        SelectorTable::new(Arc::new(Inventory::new(slices, features)))
    }

    fn allocation(device: usize, share: Option<usize>) -> Allocation {
        let pool = if device < N_DEVICES / 2 { "p" } else { "q" };
        let mut result = json!({"driver": "d", "pool": pool, "device": device.to_string()});
        if let Some(share) = share {
            result["shareID"] = share.to_string().into();
            result["consumedCapacity"] = json!({"memory": (share + 1).to_string()});
        }
        let claim = json!({
            "metadata": {"namespace": "n", "name": "c", "uid": "u"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        });
        ResourceClaim::from_json(&claim).unwrap().status.allocation.unwrap()
    }

    fn seen(state: &DeviceState) -> String {
        let inventory = state.inventory();
        let keys = 0..inventory.n_keys();
        let devices: Vec<_> = keys
            .map(|key| {
                let occupancy = state.occupancy();
                (occupancy.is_held(key), occupancy.is_dedicated(key), occupancy.consumed(key))
            })
            .collect();
        format!("{devices:?} {:?}", state.counters().shown())
    }

    proptest! {
        #[test]
        fn what_is_kept_up_to_date_is_what_is_made_anew(
            turns in prop::collection::vec(
                (0..N_DEVICES, prop::option::of(0..3_usize), any::<bool>(), 0..5_u8), 0..40),
        ) {
            let mut version = 0;
            let mut seen_at = BTreeMap::new();
            let mut state = DeviceState::new(table(0), Usage::default());
            for (device, share, is_in_flight, turn) in turns {
                let holder = if is_in_flight { Holder::InFlight } else { Holder::Claims };
                match turn {
                    0 => {
                        version = 1 - version;
                        state.set_selectors(table(version));
                    }
                    1 | 2 => state.remove(holder, &allocation(device, share)),
                    _ => state.add(holder, &allocation(device, share)),
                }
                let mut anew = DeviceState::new(table(version), state.claims.clone());
                anew.in_flight = state.in_flight.clone();
                anew.derive();
                prop_assert_eq!(seen(&state), seen(&anew));
                let seen_before = seen_at.entry(state.stamp("n")).or_insert_with(|| seen(&state));
                prop_assert_eq!(&*seen_before, &seen(&state));
            }
        }
    }
}
