//! The devices of the cluster and who holds them, for PreFilter.

use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_devices::api::{DeviceClass, ResourceClaim, ResourceSlice};
use kube_scheduler_devices::{
    Allocator, CelSelectors, Classes, Features, Inventory, SelectorTable, Usage,
};
use kube_scheduler_framework::ObjectStore;
use kube_scheduler_framework::api::Object;

use super::decoded::Decoded;
use super::{in_flight, kinds};

/// Objects in the form that allocation reads, with what is made of them, kept from attempt to attempt.
pub(super) struct Devices {
    features: Features,
    pub(super) claims: Decoded<ResourceClaim>,
    pub(super) classes: Decoded<DeviceClass>,
    slices: Decoded<ResourceSlice>,
    selectors: Arc<CelSelectors>,
    latest: Mutex<Option<Latest>>,
}

/// The inventory of the slices that there were last.
struct Latest {
    slices: Vec<Arc<Object>>,
    table: Arc<SelectorTable>,
}

impl Devices {
    pub(super) fn new(features: Features, list_attributes: bool) -> Self {
        Self {
            features,
            claims: Decoded::new(ResourceClaim::from_json),
            classes: Decoded::new(DeviceClass::from_json),
            slices: Decoded::new(ResourceSlice::from_json),
            selectors: Arc::new(CelSelectors::new(list_attributes)),
            latest: Mutex::default(),
        }
    }

    /// An allocator for the devices that are free now.
    pub(super) fn allocator(&self, objects: &ObjectStore, classes: Classes) -> Allocator {
        let table = self.table(objects);
        Allocator::new(table, &self.usage(objects), classes, self.selectors.clone())
    }

    /// What selectors say about all devices. Kept until a slice changes: objects are compared by identity, so copies of the
    /// cluster's state do not get each other's.
    fn table(&self, objects: &ObjectStore) -> Arc<SelectorTable> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let slices = || objects.list(kinds::GROUP, kinds::SLICE);
        if let Some(latest) = &*latest
            && latest.slices.len() == objects.n_objects(kinds::GROUP, kinds::SLICE)
            && latest.slices.iter().zip(slices()).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return latest.table.clone();
        }
        let slices: Vec<Arc<Object>> = slices().cloned().collect();
        // What no API server stores is left out, as a client of the reference could not read it either.
        let readable = slices.iter().filter_map(|slice| self.slices.get(slice).ok());
        let table = SelectorTable::new(Arc::new(Inventory::new(readable, self.features)));
        *latest = Some(Latest { slices, table: table.clone() });
        table
    }

    /// What allocated claims and claims in flight hold.
    fn usage(&self, objects: &ObjectStore) -> Usage {
        let mut usage = Usage::default();
        let claims = objects.list(kinds::GROUP, kinds::CLAIM);
        let claims = claims.filter_map(|claim| {
            objects.latest(kinds::GROUP, kinds::CLAIM, &claim.namespace, &claim.name)
        });
        for object in claims.chain(in_flight::all(objects)) {
            if let Ok(claim) = self.claims.get(object)
                && let Some(allocation) = &claim.status.allocation
            {
                usage.add(allocation, self.features);
            }
        }
        usage
    }
}
