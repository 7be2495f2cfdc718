//! The devices of the cluster and who holds them, for PreFilter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_scheduler_devices::api::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use kube_scheduler_devices::{
    Allocator, CelSelectors, Classes, Features, Inventory, SelectorTable, Usage,
};
use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::Object;

use super::decoded::Decoded;
use super::settings::InventorySettings;
use super::usage::TrackedUsage;
use super::{in_flight, kinds};

/// Objects in the form that allocation reads, with what is made of them, kept from attempt to attempt.
pub(super) struct Devices {
    features: Features,
    pub(super) claims: Decoded<ResourceClaim>,
    pub(super) classes: Decoded<DeviceClass>,
    slices: Decoded<ResourceSlice>,
    /// Absent unless rules taint devices.
    rules: Option<Decoded<DeviceTaintRule>>,
    pub(super) selectors: Arc<CelSelectors>,
    latest: Mutex<Option<Latest>>,
    tracked: Mutex<TrackedUsage>,
}

/// The inventory of the slices and rules that there were last.
struct Latest {
    made_of: Vec<Arc<Object>>,
    table: Arc<SelectorTable>,
}

impl Devices {
    pub(super) fn new(settings: InventorySettings) -> Self {
        Self {
            features: settings.features,
            claims: Decoded::new(ResourceClaim::from_json),
            classes: Decoded::new(DeviceClass::from_json),
            slices: Decoded::new(ResourceSlice::from_json),
            rules: settings.taint_rules.then(|| Decoded::new(DeviceTaintRule::from_json)),
            selectors: Arc::new(CelSelectors::new(settings.list_attributes)),
            latest: Mutex::default(),
            tracked: Mutex::default(),
        }
    }

    /// An allocator for the devices that are free now.
    pub(super) fn allocator(&self, objects: &ObjectStore, classes: Classes) -> Allocator {
        let table = self.table(objects);
        Allocator::new(table, &self.usage(objects), classes, self.selectors.clone())
    }

    /// What selectors say about all devices. Kept until a slice or a rule changes: objects are compared by identity, so
    /// copies of the cluster's state do not get each other's.
    pub(super) fn table(&self, objects: &ObjectStore) -> Arc<SelectorTable> {
        let list = |kind| objects.list(kinds::GROUP, kind);
        let rules = || list(kinds::TAINT_RULE).take(self.rules.as_ref().map_or(0, |_| usize::MAX));
        let made_of = || list(kinds::SLICE).chain(rules());
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = &*latest
            && latest.made_of.iter().map(Arc::as_ptr).eq(made_of().map(Arc::as_ptr))
        {
            return latest.table.clone();
        }
        // What no API server stores is left out, as a client of the reference could not read it either.
        let decoded = self.rules.iter();
        let rules: Vec<Arc<DeviceTaintRule>> =
            decoded.flat_map(|all| rules().filter_map(move |rule| all.get(rule).ok())).collect();
        let slices = list(kinds::SLICE).filter_map(|slice| self.slices.get(slice).ok());
        let slices = slices.map(|slice| slice.with_rules(rules.iter().map(|rule| &**rule)));
        let table = SelectorTable::new(Arc::new(Inventory::new(slices, self.features)));
        *latest = Some(Latest { made_of: made_of().cloned().collect(), table: table.clone() });
        table
    }

    /// Notes what claims hold. To be called in every attempt that has claims: which device is free may depend on what
    /// held it before.
    pub(super) fn follow(&self, objects: &ObjectStore) -> MutexGuard<'_, TrackedUsage> {
        let claims = objects.list(kinds::GROUP, kinds::CLAIM);
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        tracked.follow(claims, &self.claims, self.features);
        tracked
    }

    /// What allocated claims and claims in flight hold.
    pub(super) fn usage(&self, objects: &ObjectStore) -> Usage {
        let mut usage = self.follow(objects).usage().clone();
        for object in in_flight::all(objects) {
            if let Ok(claim) = self.claims.get(object)
                && let Some(allocation) = &claim.status.allocation
            {
                usage.add(allocation, self.features);
            }
        }
        usage
    }
}
