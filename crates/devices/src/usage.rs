//! Which devices are taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Quantity;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{Allocation, Map};
use crate::features::Features;
use crate::inventory::{DeviceKey, Inventory};
use crate::name::DeviceName;

/// The devices that allocated claims hold (`docs/spec/plugins-dra.md` §5.3). Claims with admin access hold nothing.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    dedicated: FxHashSet<DeviceName>,
    shares: FxHashMap<DeviceName, BTreeMap<Arc<str>, Option<Map<Quantity>>>>,
}

impl Usage {
    /// Adds what an allocation holds. Adding it once more changes nothing.
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

    /// Removes what an allocation held.
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

    /// Whether any claim holds the device or a share of it.
    pub fn holds(&self, device: &DeviceName) -> bool {
        self.dedicated.contains(device) || self.shares.contains_key(device)
    }
}

/// A usage with the devices of one inventory looked up.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    dedicated: FxHashSet<DeviceKey>,
    /// Sums of what shares consume, for devices of which a share says so.
    consumed: FxHashMap<DeviceKey, BTreeMap<Arc<str>, Quantity>>,
    /// All devices that are held in some way, ascending.
    held: Vec<DeviceKey>,
}

impl Occupancy {
    #[expect(
        clippy::iter_over_hash_type,
        reason = "the results are sets, sums per device and a sorted list"
    )]
    pub(crate) fn new(usage: &Usage, inventory: &Inventory) -> Self {
        let mut occupancy = Self::default();
        for name in &usage.dedicated {
            if let Some(key) = inventory.key(name) {
                occupancy.dedicated.insert(key);
                occupancy.held.push(key);
            }
        }
        for (name, shares) in &usage.shares {
            let Some(key) = inventory.key(name) else { continue };
            occupancy.held.push(key);
            for consumed in shares.values().flatten() {
                let sums = occupancy.consumed.entry(key).or_default();
                for (capacity, amount) in consumed.iter() {
                    sums.entry(capacity.clone()).or_default().add(amount);
                }
            }
        }
        occupancy.held.sort_unstable();
        occupancy.held.dedup();
        occupancy
    }

    pub(crate) fn is_dedicated(&self, device: DeviceKey) -> bool {
        self.dedicated.contains(&device)
    }

    /// What the shares of a device consume together; absent if none says so.
    pub(crate) fn consumed(&self, device: DeviceKey) -> Option<&BTreeMap<Arc<str>, Quantity>> {
        self.consumed.get(&device)
    }

    pub(crate) fn held(&self) -> &[DeviceKey] {
        &self.held
    }
}
