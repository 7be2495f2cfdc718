//! Which devices are taken, kept up to date for one inventory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::allocator::CommittedCounters;
use crate::api::Allocation;
use crate::inventory::{ChangedPool, Inventory, Pool};
use crate::name::DeviceName;
use crate::selectors::SelectorTable;
use crate::usage::{Occupancy, Usage};

/// In which way devices are held: a claim that is on its way holds what it is about to get besides what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// By claims whose allocation is stored.
    Claims,
    /// By claims whose allocation is about to be written.
    InFlight,
    /// By no claim yet: they are kept for pods that wait. What others take or give back meanwhile makes no difference to that.
    Planned,
}

/// The devices of an inventory, and which of them are taken. Changes take time proportional to the devices of one claim
/// and, where counters are shared, of their pools.
///
/// Invariant: it equals a state that is computed from scratch for the same usage.
#[derive(Clone)]
pub struct DeviceState {
    selectors: Arc<SelectorTable>,
    claims: Usage,
    in_flight: Usage,
    planned: Usage,
    occupancy: Occupancy,
    counters: CommittedCounters,
    changes: Changes,
}

/// This many changes are remembered node by node, each with a number and a pointer. Callers that fall further behind look at all
/// nodes again.
const MAX_CHANGES: usize = 4096;

/// When devices changed hands. Numbers only grow along the history of a state; none is used twice.
#[derive(Clone, Debug, Default)]
struct Changes {
    latest: u64,
    /// The latest change that may concern nodes which `nodes` does not name.
    everywhere: u64,
    /// The nodes that later changes concern, oldest first.
    nodes: VecDeque<(u64, Arc<str>)>,
}

impl Changes {
    /// Any node may see the difference.
    fn add_everywhere(&mut self) {
        self.latest += 1;
        self.everywhere = self.latest;
        self.nodes.clear();
    }

    /// Only these nodes see the difference.
    fn add_on<'a>(&mut self, nodes: impl Iterator<Item = &'a Arc<str>>) {
        self.latest += 1;
        for node in nodes {
            if self.nodes.len() == MAX_CHANGES
                && let Some((forgotten, _)) = self.nodes.pop_front()
            {
                self.everywhere = forgotten;
            }
            self.nodes.push_back((self.latest, node.clone()));
        }
    }

    fn after(&self, change: u64) -> Option<impl Iterator<Item = &Arc<str>>> {
        let later = self.nodes.iter().rev().take_while(move |(at, _)| *at > change);
        (change >= self.everywhere).then(|| later.map(|(_, node)| node))
    }
}

impl DeviceState {
    /// The state of the devices that `selectors` is about if `claims` is all that is held.
    pub fn new(selectors: Arc<SelectorTable>, claims: Usage) -> Self {
        let mut state = Self {
            selectors,
            claims,
            in_flight: Usage::default(),
            planned: Usage::default(),
            occupancy: Occupancy::default(),
            counters: CommittedCounters::default(),
            changes: Changes::default(),
        };
        state.derive();
        state
    }

    /// Takes another count of all that is held: by claims as they are stored, by those in flight, and what is planned.
    pub fn recount(&mut self, claims: Usage, in_flight: Usage, planned: Usage) {
        self.claims = claims;
        self.in_flight = in_flight;
        self.planned = planned;
        self.derive();
    }

    /// A number for the latest change of any device or of who holds it. Numbers grow along the history of a state.
    pub fn latest_change(&self) -> u64 {
        self.changes.latest
    }

    /// The nodes whose devices have changed, or changed hands, after `change`, some more than once; on all others the
    /// allocations are the same, given equal labels. `None` if that may be any node.
    pub fn nodes_changed_after(&self, change: u64) -> Option<impl Iterator<Item = &Arc<str>>> {
        self.changes.after(change)
    }

    /// The devices and what selectors say about them.
    pub fn selectors(&self) -> &Arc<SelectorTable> {
        &self.selectors
    }

    /// Goes over to another inventory. O(pools) and O(devices of the pools that differ), or O(slices and devices that are held) if it
    /// was not made from the present one.
    pub fn set_selectors(&mut self, selectors: Arc<SelectorTable>) {
        let former = std::mem::replace(&mut self.selectors, selectors);
        if former.inventory().is_unlike(self.inventory()) {
            self.derive();
            return;
        }
        let selectors = self.selectors.clone();
        let changed = former.inventory().changed_pools(selectors.inventory());
        let n_held = self.claims.len() + self.in_flight.len() + self.planned.len();
        let n_changed = changed.iter().filter_map(|pool| pool.new).map(Pool::n_names).sum();
        // Takes the cheaper way: to look up what is held, or to look who holds the devices that have changed.
        if n_held < n_changed {
            self.count_held();
        } else {
            changed.iter().for_each(|pool| self.count_held_of(pool));
        }
        let pools = changed.iter().flat_map(|pool| pool.old.iter().chain(&pool.new));
        let nodes: Option<Vec<_>> = pools.map(|pool| pool.nodes()).collect();
        match nodes {
            Some(nodes) => self.changes.add_on(nodes.into_iter().flatten()),
            None => self.changes.add_everywhere(),
        }
    }

    /// Looks at who holds the devices of a pool of the former inventory, of this one, or of both.
    fn count_held_of(&mut self, pool: &ChangedPool<'_>) {
        if let Some(old) = pool.old {
            self.counters.forget(old);
            for (key, _) in old.names() {
                self.occupancy.forget(key);
            }
        }
        if let Some(new) = pool.new {
            for (key, name) in new.names() {
                let usages = [&self.claims, &self.in_flight, &self.planned];
                self.occupancy.refresh(key, &name, usages);
            }
            self.counters.count(new, &self.occupancy);
        }
    }

    /// Adds what an allocation holds. Adding it again changes nothing.
    pub fn add(&mut self, holder: Holder, allocation: &Allocation) {
        let features = self.inventory().features();
        self.usage(holder).add(allocation, features);
        self.refresh(allocation);
    }

    /// Removes what an allocation held: its devices are free again, unless they are held in another way.
    pub fn remove(&mut self, holder: Holder, allocation: &Allocation) {
        let features = self.inventory().features();
        self.usage(holder).remove(allocation, features);
        self.refresh(allocation);
    }

    /// Whether the device or a share of it is held in any way.
    pub fn holds(&self, device: &DeviceName) -> bool {
        [&self.claims, &self.in_flight, &self.planned].iter().any(|usage| usage.holds(device))
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
            Holder::Planned => &mut self.planned,
        }
    }

    /// Looks at the devices of an allocation again.
    fn refresh(&mut self, allocation: &Allocation) {
        for result in &allocation.results {
            self.refresh_device(&result.name());
        }
    }

    fn refresh_device(&mut self, name: &DeviceName) {
        let Some((pool, key)) = self.selectors.inventory().find(name) else { return };
        let held = |it: &Occupancy| (it.is_held(key), it.is_only_planned(key));
        let before = held(&self.occupancy);
        let usages = [&self.claims, &self.in_flight, &self.planned];
        if !self.occupancy.refresh(key, name, usages) {
            return;
        }
        if held(&self.occupancy) != before {
            self.counters.count(pool, &self.occupancy);
        }
        match pool.nodes() {
            Some(nodes) => self.changes.add_on(nodes),
            None => self.changes.add_everywhere(),
        }
    }

    fn derive(&mut self) {
        self.count_held();
        self.changes.add_everywhere();
    }

    fn count_held(&mut self) {
        self.occupancy = Occupancy::default();
        let inventory = self.selectors.inventory();
        let usages = [&self.claims, &self.in_flight, &self.planned];
        for name in usages.into_iter().flat_map(Usage::devices) {
            if let Some((_, key)) = inventory.find(name) {
                self.occupancy.refresh(key, name, usages);
            }
        }
        self.counters = CommittedCounters::new(&self.occupancy, inventory);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use kube_scheduler_api_types::Labels;

    use super::*;
    use crate::allocator::{Allocator, PodClaims, Steps};
    use crate::api::{DeviceClass, ResourceClaim, ResourceSlice};
    use crate::cel::CelSelectors;
    use crate::features::Features;
    use crate::inventory::NodeRef;

    const N_DEVICES: usize = 6;

    /// A pool with counters, and one without; in the second version some devices are gone, in the third the first pool.
    fn slices(version: usize) -> Vec<Arc<ResourceSlice>> {
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
            Arc::new(ResourceSlice::from_json(&json.clone().into()).unwrap())
        };
        let counters =
            json!({"sharedCounters": [{"name": "s", "counters": {"c": {"value": "3"}}}]});
        let mut slices = vec![
            slice("a", "p", json!({"devices": devices(0, true)})),
            slice("b", "p", counters),
            slice("c", "q", json!({"devices": devices(3, false)})),
        ];
        slices.drain(..if version == 2 { 2 } else { 0 });
        slices
    }

    fn table(version: usize) -> Arc<SelectorTable> {
        let features = Features {
            partitionable_devices: true,
            consumable_capacity: true,
            ..Features::default()
        };
        SelectorTable::new(Arc::new(Inventory::new(slices(version), features)))
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
        ResourceClaim::from_json(&claim.clone().into()).unwrap().status.allocation.unwrap()
    }

    fn seen(state: &DeviceState) -> String {
        let occupancy = state.occupancy();
        let names = state.inventory().pools().flat_map(|pool| pool.names());
        let devices: Vec<_> = names
            .map(|(key, name)| {
                let held = (occupancy.is_held(key), occupancy.is_dedicated(key));
                (name, held, occupancy.is_only_planned(key), occupancy.consumed(key))
            })
            .collect();
        let free: Vec<_> =
            state.inventory().pools().map(|pool| occupancy.is_free(pool.id())).collect();
        let counters = state.counters().shown(state.inventory());
        format!("{devices:?} of {} in all but {free:?} {counters}", occupancy.len())
    }

    proptest! {
        #[test]
        fn what_is_kept_up_to_date_is_what_is_made_anew(
            turns in prop::collection::vec(
                (0..N_DEVICES, prop::option::of(0..3_usize), 0..3_usize, 0..5_u8), 0..60),
        ) {
            let mut version = 0;
            let (mut seen_at, mut seen_before) = (0, String::new());
            let mut state = DeviceState::new(table(0), Usage::default());
            for (device, share, holder, turn) in turns {
                let holder = [Holder::Claims, Holder::InFlight, Holder::Planned][holder];
                match turn {
                    0 => {
                        version = device % 3;
                        let table = match share {
                            Some(_) => state.selectors().updated(slices(version)),
                            None => table(version),
                        };
                        state.set_selectors(table);
                    }
                    1 | 2 => state.remove(holder, &allocation(device, share)),
                    _ => state.add(holder, &allocation(device, share)),
                }
                let mut anew = DeviceState::new(table(version), state.claims.clone());
                anew.in_flight = state.in_flight.clone();
                anew.planned = state.planned.clone();
                anew.derive();
                prop_assert_eq!(seen(&state), seen(&anew));
                if state.nodes_changed_after(seen_at).is_some_and(|mut nodes| nodes.next().is_none()) {
                    prop_assert_eq!(&seen_before, &seen(&state));
                }
                (seen_at, seen_before) = (state.latest_change(), seen(&state));
            }
        }
    }

    const POOLS: [(&str, Option<&str>); 4] =
        [("p", Some("n")), ("q", Some("n")), ("r", Some("m")), ("everywhere", None)];

    /// The slice of a pool in one of several versions; there is none in version 0.
    fn slice(pool: usize, version: usize) -> Option<Arc<ResourceSlice>> {
        let (name, node) = POOLS[pool];
        let device =
            |at: usize| json!({"name": at.to_string(), "attributes": {"v": {"int": at * version}}});
        let devices: Vec<_> = (0..version).map(device).collect();
        let mut spec = json!({"driver": "d", "devices": devices,
            "pool": {"name": name, "generation": version, "resourceSliceCount": 1}});
        match node {
            Some(node) => spec["nodeName"] = node.into(),
            None => spec["allNodes"] = true.into(),
        }
        let json = json!({"metadata": {"name": name}, "spec": spec});
        (version > 0).then(|| Arc::new(ResourceSlice::from_json(&json.clone().into()).unwrap()))
    }

    fn full_name(pool: usize) -> (Arc<str>, Arc<str>) {
        ("d".into(), POOLS[pool].0.into())
    }

    /// What claims would get on a node.
    fn offers(state: &Arc<DeviceState>, node: &str) -> String {
        let class = json!({"metadata": {"name": "any"}, "spec": {"selectors": [
            {"cel": {"expression": "device.attributes['d'].v < 3"}}]}});
        let class = Arc::new(DeviceClass::from_json(&class.clone().into()).unwrap());
        let classes = [(class.name.clone(), class)].into_iter().collect();
        let compiler = Arc::new(CelSelectors::default());
        let allocator = Allocator::with_state(state.clone(), classes, compiler);
        let labels = Labels::default();
        let node = NodeRef { name: node, labels: &labels };
        let offer = |count: usize| {
            let exactly =
                json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
            let claim = json!({"metadata": {"namespace": "n", "name": "c", "uid": "u"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
            let claim = ResourceClaim::from_json(&claim.clone().into()).unwrap();
            let claims = PodClaims::new([Arc::new(claim)]);
            let found = allocator.allocate(node, &claims, &Steps::new(1_000), &mut || "s".into());
            format!("{found:?}")
        };
        (1..5).map(offer).collect()
    }

    /// Two devices share a set of counters that is enough for one of them, and a third one has a set of its own.
    #[test]
    fn what_is_only_planned_leaves_other_counters_alone() {
        let slice = |name: &str, rest: serde_json::Value| {
            let mut json = json!({
                "metadata": {"name": name},
                "spec": {"driver": "d", "nodeName": "n",
                         "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}},
            });
            json["spec"].as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            Arc::new(ResourceSlice::from_json(&json.clone().into()).unwrap())
        };
        let device = |name: &str, set: &str| {
            json!({"name": name, "attributes": {"v": {"int": 0}},
                   "consumesCounters": [{"counterSet": set, "counters": {"c": {"value": "2"}}}]})
        };
        let set = |name: &str| json!({"name": name, "counters": {"c": {"value": "3"}}});
        let devices = [device("0", "s"), device("1", "s"), device("2", "t")];
        let slices = [
            slice("a", json!({"devices": devices})),
            slice("b", json!({"sharedCounters": [set("s"), set("t")]})),
        ];
        let features = Features { partitionable_devices: true, ..Features::default() };
        let table = SelectorTable::new(Arc::new(Inventory::new(slices, features)));
        let mut state = Arc::new(DeviceState::new(table, Usage::default()));
        let mut turn = |adds: bool, holder: Holder, device: usize| {
            let changed = Arc::make_mut(&mut state);
            match adds {
                true => changed.add(holder, &allocation(device, None)),
                false => changed.remove(holder, &allocation(device, None)),
            }
            offers(&state, "n").contains("Some")
        };
        assert!(turn(true, Holder::Planned, 1));
        // A more important pod has taken what the plan needs.
        assert!(turn(true, Holder::Claims, 0), "the device with the other set is free");
        assert!(!turn(true, Holder::Claims, 1), "claims hold more than there is");
        assert!(turn(false, Holder::Claims, 1), "it is planned only, as before");
        assert!(!turn(true, Holder::Planned, 2), "all devices are held");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_inventory_brought_up_to_date_is_one_made_anew(
            turns in prop::collection::vec((0..POOLS.len(), 0..4_usize, 0..4_usize, 0..5_u8), 1..24),
        ) {
            let features = Features::default();
            let mut slices: Vec<Option<Arc<ResourceSlice>>> =
                (0..POOLS.len()).map(|pool| slice(pool, 2)).collect();
            let anew = |slices: &[Option<Arc<ResourceSlice>>]| {
                SelectorTable::new(Arc::new(Inventory::new(slices.iter().flatten().cloned(), features)))
            };
            let mut state = Arc::new(DeviceState::new(anew(&slices), Usage::default()));
            for (pool, version, device, turn) in turns {
                let nodes = ["n", "m", "elsewhere"];
                let (before, offered) = (state.latest_change(), nodes.map(|node| offers(&state, node)));
                let result = json!({"driver": "d", "pool": POOLS[pool].0, "device": device.to_string()});
                let claim = json!({"metadata": {"namespace": "n", "name": "c", "uid": "u"},
                    "status": {"allocation": {"devices": {"results": [result]}}}});
                let held = ResourceClaim::from_json(&claim.clone().into()).unwrap().status.allocation.unwrap();
                let changed = Arc::make_mut(&mut state);
                match turn {
                    0 => changed.add(Holder::Claims, &held),
                    1 => changed.remove(Holder::Claims, &held),
                    _ => {
                        slices[pool] = slice(pool, version);
                        // A pool may have been made before, of what is there now or of something else.
                        match turn {
                            3 => changed.selectors().prepare(full_name(pool), slices[pool].iter().cloned().collect()),
                            4 => changed.selectors().prepare(full_name(pool), slice(pool, device).into_iter().collect()),
                            _ => {}
                        }
                        let updated = changed.selectors().updated(slices.iter().flatten().cloned());
                        changed.set_selectors(updated);
                    }
                }
                let fresh = Arc::new(DeviceState::new(anew(&slices), state.claims.clone()));
                for (node, offered) in nodes.iter().zip(offered) {
                    prop_assert_eq!(offers(&state, node), offers(&fresh, node));
                    let named = state.nodes_changed_after(before);
                    if named.is_some_and(|mut named| named.all(|name| **name != **node)) {
                        prop_assert_eq!(offers(&state, node), offered);
                    }
                }
            }
        }
    }
}
