//! Which devices are taken.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, KeyedSet, Quantity};
use rustc_hash::FxHashMap;

use crate::api::{Allocation, Map};
use crate::features::Features;
use crate::inventory::{DeviceKey, PoolId};
use crate::name::DeviceName;

/// The devices that allocated claims hold (`docs/spec/plugins-dra.md` §5.3). Claims with admin access hold nothing.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    dedicated: KeyedSet<DeviceName>,
    shares: KeyedMap<DeviceName, BTreeMap<Arc<str>, Option<Map<Quantity>>>>,
}

impl Usage {
    /// Adds what an allocation holds. Adding it again changes nothing.
    pub fn add(&mut self, allocation: &Allocation, features: Features) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            match &result.share_id {
                Some(id) if features.consumable_capacity => {
                    let shares = self.shares.entry(result.name()).or_default();
                    shares.insert(id.clone(), result.consumed_capacity.clone());
                }
                _ => {
                    self.dedicated.insert(result.name());
                }
            }
        }
    }

    /// Removes what an allocation held: its devices are free again.
    pub fn remove(&mut self, allocation: &Allocation, features: Features) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let name = result.name();
            match &result.share_id {
                Some(id) if features.consumable_capacity => {
                    let Some(shares) = self.shares.get_mut(&name) else { continue };
                    shares.remove(id);
                    if shares.is_empty() {
                        self.shares.remove(&name);
                    }
                }
                _ => {
                    self.dedicated.remove(&name);
                }
            }
        }
    }

    /// How many devices are held in some way, some of them counted twice.
    pub(crate) fn len(&self) -> usize {
        self.dedicated.len() + self.shares.len()
    }

    /// All devices that are held in some way, some of them twice, in no particular order.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &DeviceName> {
        self.dedicated.iter().chain(self.shares.keys())
    }

    /// Whether any claim holds the device or a share of it.
    pub fn holds(&self, device: &DeviceName) -> bool {
        self.dedicated.contains(device) || self.shares.contains_key(device)
    }
}

/// What is taken of one inventory, by device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    devices: FxHashMap<DeviceKey, OccupiedDevice>,
    /// How many devices are held, for pools that have any which are.
    n_by_pool: FxHashMap<PoolId, usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct OccupiedDevice {
    is_dedicated: bool,
    /// Whether no claim holds any of it: it is kept for pods that wait.
    is_only_planned: bool,
    /// Sums of what shares consume, if a share says so.
    consumed: Option<BTreeMap<Arc<str>, Quantity>>,
}

impl Occupancy {
    /// Looks again at who holds the device `name`, and says whether anything is different. The usages are those by claims as they
    /// are stored, by claims in flight, and what is planned.
    pub(crate) fn refresh(
        &mut self,
        key: DeviceKey,
        name: &DeviceName,
        usages: [&Usage; 3],
    ) -> bool {
        if !usages.iter().any(|usage| usage.holds(name)) {
            return self.forget(key);
        }
        // A share that is on its way and written already is one share.
        let mut shares: BTreeMap<&Arc<str>, &Option<Map<Quantity>>> = BTreeMap::new();
        shares.extend(usages.iter().filter_map(|usage| usage.shares.get(name)).flatten());
        let mut consumed: Option<BTreeMap<Arc<str>, Quantity>> = None;
        for amounts in shares.into_values().flatten() {
            let sums = consumed.get_or_insert_default();
            for (capacity, amount) in amounts.iter() {
                sums.entry(capacity.clone()).or_default().add(amount);
            }
        }
        let is_dedicated = usages.iter().any(|usage| usage.dedicated.contains(name));
        let is_only_planned = !usages[..2].iter().any(|usage| usage.holds(name));
        let occupied = OccupiedDevice { is_dedicated, is_only_planned, consumed };
        let before = self.devices.insert(key, occupied.clone());
        if before.is_none() {
            *self.n_by_pool.entry(key.pool()).or_default() += 1;
        }
        before != Some(occupied)
    }

    /// How many devices are held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    /// Forgets a device, and says whether it was held.
    pub(crate) fn forget(&mut self, device: DeviceKey) -> bool {
        let was_held = self.devices.remove(&device).is_some();
        if was_held && let Entry::Occupied(mut n) = self.n_by_pool.entry(device.pool()) {
            *n.get_mut() -= 1;
            if *n.get() == 0 {
                n.remove();
            }
        }
        was_held
    }

    /// Whether nothing of a pool is taken.
    pub(crate) fn is_free(&self, pool: PoolId) -> bool {
        !self.n_by_pool.contains_key(&pool)
    }

    pub(crate) fn is_dedicated(&self, device: DeviceKey) -> bool {
        self.devices.get(&device).is_some_and(|occupied| occupied.is_dedicated)
    }

    /// Whether it is dedicated or any share of it is taken.
    pub(crate) fn is_held(&self, device: DeviceKey) -> bool {
        self.devices.contains_key(&device)
    }

    /// Whether it is held, though by no claim: it is kept for pods that wait.
    pub(crate) fn is_only_planned(&self, device: DeviceKey) -> bool {
        self.devices.get(&device).is_some_and(|occupied| occupied.is_only_planned)
    }

    /// What the shares of a device consume together; absent if none says so.
    pub(crate) fn consumed(&self, device: DeviceKey) -> Option<&BTreeMap<Arc<str>, Quantity>> {
        self.devices.get(&device)?.consumed.as_ref()
    }
}
