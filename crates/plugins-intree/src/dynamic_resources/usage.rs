//! Which devices allocated claims hold, kept up to date from attempt to attempt (`docs/spec/plugins-dra.md` §5.3).
//!
//! Quirk: a device that two claims hold, which no API server should ever show, but a watch that lags may, is free once one of them
//! gives it back, as in the reference (recorded in five families). A claim that keeps being allocated counts with the devices that
//! it had first.
//! Not so with a claim that the scheduler itself deleted before it saw it: when that goes, all are counted again.

use std::sync::Arc;

use kube_scheduler_devices::api::Allocation;
use kube_scheduler_devices::{DeviceState, Features, Holder, Inventory, SelectorTable, Usage};
use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{ObjectChange, ObjectStore};

use super::extended::SpecialClaims;
use super::kinds::{self, is_allocated};
use super::{decoded, in_flight};

/// The devices that the claims held after the change that was followed last.
pub(super) struct TrackedDevices {
    last: Option<Arc<ObjectChange>>,
    state: Arc<DeviceState>,
    features: Features,
    /// The claims for extended resources.
    pub(super) special: SpecialClaims,
}

impl TrackedDevices {
    pub(super) fn new(features: Features) -> Self {
        let table = SelectorTable::new(Arc::new(Inventory::new([], features)));
        let state = Arc::new(DeviceState::new(table, Usage::default()));
        Self { last: None, state, features, special: SpecialClaims::default() }
    }

    /// Follows the claims to what they are now. O(changes since the last call), or O(claims) if there were very many.
    pub(super) fn follow(&mut self, objects: &ObjectStore) {
        let latest = objects.latest_change(kinds::GROUP, kinds::CLAIM);
        if self.last.as_ref().map(Arc::as_ptr) == latest.map(Arc::as_ptr) {
            return;
        }
        let last = std::mem::replace(&mut self.last, latest.cloned());
        match objects.changes_after(kinds::GROUP, kinds::CLAIM, last.as_ref()) {
            Some(changes) => {
                // This copies only if the former state is still in use.
                let state = Arc::make_mut(&mut self.state);
                for change in changes {
                    apply(state, change);
                    if !change.is_pending {
                        change.old.iter().for_each(|old| self.special.remove(old));
                        change.new.iter().for_each(|new| self.special.add(new));
                    }
                }
            }
            None => {
                let [claims, in_flight, planned] = self.count(objects);
                Arc::make_mut(&mut self.state).recount(claims, in_flight, planned);
                self.special = SpecialClaims::default();
                let all = objects.list(kinds::GROUP, kinds::CLAIM);
                all.for_each(|claim| self.special.add(claim));
            }
        }
    }

    /// The state with the devices that `table` is about.
    pub(super) fn with_selectors(&mut self, table: Arc<SelectorTable>) -> Arc<DeviceState> {
        if !Arc::ptr_eq(self.state.selectors(), &table) {
            Arc::make_mut(&mut self.state).set_selectors(table);
        }
        self.state.clone()
    }

    /// Counts all claims, those in flight, and those that are planned.
    fn count(&self, objects: &ObjectStore) -> [Usage; 3] {
        let add = |mut usage: Usage, claim: &Arc<Object>| {
            with_allocation(claim, |allocation| usage.add(allocation, self.features));
            usage
        };
        let claims = objects.list(kinds::GROUP, kinds::CLAIM).fold(Usage::default(), add);
        let (planned, in_flight): (Vec<_>, Vec<_>) =
            in_flight::all(objects).partition(|claim| in_flight::is_planned(claim));
        let [in_flight, planned] =
            [in_flight, planned].map(|claims| claims.into_iter().fold(Usage::default(), add));
        [claims, in_flight, planned]
    }
}

fn apply(state: &mut DeviceState, change: &ObjectChange) {
    let is_planned = || change.old.iter().chain(&change.new).any(|it| in_flight::is_planned(it));
    let holder = match change.is_pending {
        true if is_planned() => Holder::Planned,
        true => Holder::InFlight,
        false => Holder::Claims,
    };
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && old.uid == new.uid
        && is_allocated(old)
        && is_allocated(new)
    {
        return;
    }
    if let Some(old) = &change.old {
        with_allocation(old, |allocation| state.remove(holder, allocation));
    }
    if let Some(new) = &change.new {
        with_allocation(new, |allocation| state.add(holder, allocation));
    }
}

fn with_allocation(claim: &Arc<Object>, visit: impl FnOnce(&Allocation)) {
    if is_allocated(claim)
        && let Ok(claim) = decoded::claim(claim)
        && let Some(allocation) = &claim.status.allocation
    {
        visit(allocation);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_scheduler_cache::ClusterState;
    use kube_scheduler_devices::DeviceName;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const N_DEVICES: usize = 6;

    fn claim(name: usize, uid: usize, devices: &[usize]) -> Arc<Object> {
        let results: Vec<Value> = devices
            .iter()
            .map(|device| json!({"driver": "d", "pool": "p", "device": device.to_string()}))
            .collect();
        let status = match &results[..] {
            [] => json!({}),
            results => json!({"allocation": {"devices": {"results": results}}}),
        };
        let json = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": kinds::CLAIM,
            "metadata": {"namespace": "n", "name": name.to_string(), "uid": uid.to_string()},
            "status": status,
        });
        Arc::new(Object::from_value(json).unwrap())
    }

    fn planned(name: usize, device: usize) -> Arc<Object> {
        let mut object = Object::clone(&claim(name, name, &[device]));
        object.uid = in_flight::planned_uid(&object.uid).into();
        Arc::new(object)
    }

    fn held(state: &DeviceState) -> Vec<bool> {
        let name = |device: usize| {
            DeviceName::new(&"d".into(), &"p".into(), &Arc::from(device.to_string()))
        };
        (0..N_DEVICES).map(|device| state.holds(&name(device))).collect()
    }

    /// A cluster with what its claims hold: by name, in flight by UID, and planned.
    #[derive(Clone, Default)]
    struct ClaimLedger {
        cluster: ClusterState,
        claims: BTreeMap<usize, Option<usize>>,
        in_flight: BTreeMap<usize, usize>,
        planned: BTreeMap<usize, usize>,
    }

    impl ClaimLedger {
        fn held(&self) -> Vec<bool> {
            let mut held = vec![false; N_DEVICES];
            let all = self.claims.values().flatten().chain(self.in_flight.values());
            let all = all.chain(self.planned.values());
            all.for_each(|device| held[*device] = true);
            held
        }

        /// A claim is created again, is deleted, takes a device if that is free, is about to take it, or no longer is; or a
        /// device, free or taken, is kept for the claim, or no longer is.
        fn turn(&mut self, at: usize, name: usize, device: usize, turn: u8) {
            let is_free = !self.held()[device];
            match turn {
                0 => {
                    self.claims.remove(&name);
                    let name = name.to_string();
                    self.cluster.remove_object(kinds::GROUP, kinds::CLAIM, "n", &name);
                }
                1 => {
                    self.claims.insert(name, None);
                    self.cluster.upsert_object(claim(name, at, &[]));
                }
                2 if is_free && !self.in_flight.contains_key(&name) => {
                    self.in_flight.insert(name, device);
                    self.cluster.objects_mut().add_pending(claim(name, name, &[device]));
                }
                3 => {
                    self.in_flight.remove(&name);
                    let (objects, uid) = (self.cluster.objects_mut(), name.to_string());
                    objects.remove_pending(kinds::GROUP, kinds::CLAIM, &uid, true);
                }
                4 => {
                    // What is in flight is written.
                    if let Some(device) = self.in_flight.get(&name).copied()
                        && self.claims.get(&name).is_none_or(Option::is_none)
                    {
                        self.claims.insert(name, Some(device));
                        self.cluster.upsert_object(claim(name, name, &[device]));
                    }
                }
                9 if !self.planned.contains_key(&name)
                    && !self.planned.values().any(|kept| *kept == device) =>
                {
                    self.planned.insert(name, device);
                    self.cluster.objects_mut().add_pending(planned(name, device));
                }
                10 => {
                    self.planned.remove(&name);
                    let uid = planned(name, device).uid.clone();
                    let objects = self.cluster.objects_mut();
                    objects.remove_pending(kinds::GROUP, kinds::CLAIM, &uid, false);
                }
                5 | 6 if is_free && self.claims.get(&name).is_none_or(Option::is_none) => {
                    self.claims.insert(name, Some(device));
                    self.cluster.upsert_object(claim(name, at, &[device]));
                }
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn following_changes_is_counting_all_claims(
            turns in prop::collection::vec((0..5_usize, 0..N_DEVICES, 0..11_u8), 0..60),
        ) {
            let mut tracked = TrackedDevices::new(Features::default());
            let (mut ledger, mut copy) = (ClaimLedger::default(), ClaimLedger::default());
            for (at, (name, device, turn)) in turns.into_iter().enumerate() {
                match turn {
                    // Copies of the cluster go different ways.
                    7 => copy = ledger.clone(),
                    8 => std::mem::swap(&mut ledger, &mut copy),
                    _ => ledger.turn(at, name, device, turn),
                }
                // Not every change is seen on its own.
                if at % 3 == 0 {
                    continue;
                }
                tracked.follow(ledger.cluster.objects());
                prop_assert_eq!(held(&tracked.state), ledger.held());
            }
        }
    }

    #[test]
    fn a_claim_that_was_deleted_unseen_takes_no_device_from_another() {
        let mut tracked = TrackedDevices::new(Features::default());
        let mut cluster = ClusterState::default();
        let mut is_held_after = |cluster: &ClusterState| {
            tracked.follow(cluster.objects());
            held(&tracked.state)[0]
        };
        // A scheduler makes a claim and deletes it, and gives its device to another claim before the watch shows the first.
        cluster.objects_mut().note_deletion(&claim(1, 1, &[0]));
        cluster.upsert_object(claim(2, 2, &[0]));
        assert!(is_held_after(&cluster));
        cluster.upsert_object(claim(1, 1, &[0]));
        assert!(is_held_after(&cluster));
        cluster.remove_object(kinds::GROUP, kinds::CLAIM, "n", "1");
        assert!(is_held_after(&cluster), "claim 2 holds it");
        cluster.remove_object(kinds::GROUP, kinds::CLAIM, "n", "2");
        assert!(!is_held_after(&cluster));

        cluster.upsert_object(claim(3, 3, &[0]));
        cluster.upsert_object(claim(4, 4, &[0]));
        cluster.remove_object(kinds::GROUP, kinds::CLAIM, "n", "4");
        assert!(!is_held_after(&cluster), "as in the reference");
    }

    #[test]
    fn a_follower_that_fell_behind_starts_anew() {
        let mut tracked = TrackedDevices::new(Features::default());
        let mut ledger = ClaimLedger::default();
        ledger.turn(0, 0, 0, 6);
        tracked.follow(ledger.cluster.objects());
        ledger.turn(1, 0, 0, 0);
        // Another one takes a device and goes, again and again.
        (0..5_000).for_each(|at| ledger.turn(at, 1, 1, if at % 2 == 0 { 6 } else { 0 }));
        ledger.turn(5_000, 2, 2, 6);
        tracked.follow(ledger.cluster.objects());
        assert_eq!(held(&tracked.state), ledger.held());
    }
}
