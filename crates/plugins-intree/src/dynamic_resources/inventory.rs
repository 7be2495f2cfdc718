//! The devices of the cluster and who holds them, for PreFilter.

use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_devices::api::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use kube_scheduler_devices::{
    CelSelectors, DeviceState, ExtendedResources, Features, Inventory, SelectorTable,
};
use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::{ObjectChange, ObjectStore};

use super::answers::Answers;
use super::decoded::Decoded;
use super::settings::InventorySettings;
use super::usage::TrackedDevices;
use super::{extended, kinds};

/// Objects in the form that allocation reads, with what is made of them, kept from attempt to attempt.
pub(super) struct Devices {
    features: Features,
    pub(super) claims: Decoded<ResourceClaim>,
    pub(super) classes: Decoded<DeviceClass>,
    slices: Decoded<ResourceSlice>,
    /// Absent unless rules taint devices.
    rules: Option<Decoded<DeviceTaintRule>>,
    pub(super) selectors: Arc<CelSelectors>,
    table: Kept<SelectorTable>,
    resources: Kept<ExtendedResources>,
    tracked: Mutex<TrackedDevices>,
    pub(super) answers: Answers,
}

/// What is made of all objects of some kinds, kept until one of them changes.
struct Kept<T>(Mutex<Option<(Changes, Arc<T>)>>);

/// The latest change of each kind.
type Changes = Vec<Option<Arc<ObjectChange>>>;

impl<T> Kept<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is made of the objects of `kinds`, given what was made of them before.
    fn get(
        &self,
        objects: &ObjectStore,
        kinds: &[&str],
        make: impl FnOnce(Option<&T>) -> Arc<T>,
    ) -> Arc<T> {
        let latest = || kinds.iter().map(|kind| objects.latest_change(kinds::GROUP, kind));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((changes, made)) = &*kept
            && changes
                .iter()
                .map(|change| change.as_ref().map(Arc::as_ptr))
                .eq(latest().map(|change| change.map(Arc::as_ptr)))
        {
            return made.clone();
        }
        let made = make(kept.as_ref().map(|(_, made)| &**made));
        *kept = Some((latest().map(|change| change.cloned()).collect(), made.clone()));
        made
    }
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
            table: Kept::new(),
            resources: Kept::new(),
            tracked: Mutex::new(TrackedDevices::new(settings.features)),
            answers: Answers::default(),
        }
    }

    /// The devices and who holds them now.
    pub(super) fn state(&self, objects: &ObjectStore) -> Arc<DeviceState> {
        let table = self.table(objects);
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        tracked.follow(objects, &self.claims);
        tracked.with_selectors(table)
    }

    /// Notes what claims hold. To be called in every attempt that has claims: which device is free may depend on what
    /// held it before. O(changes of claims since the last call).
    pub(super) fn follow(&self, objects: &ObjectStore) {
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        tracked.follow(objects, &self.claims);
    }

    /// The claim for extended resources that an earlier attempt made for a pod.
    pub(super) fn special_claim(&self, objects: &ObjectStore, pod: &Pod) -> Option<Arc<Object>> {
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        tracked.follow(objects, &self.claims);
        let found = tracked.special.of(pod)?;
        kinds::claim(objects, &found.namespace, &found.name).cloned()
    }

    /// Which class serves which extended resource.
    pub(super) fn resources(&self, objects: &ObjectStore) -> Arc<ExtendedResources> {
        self.resources.get(objects, &[kinds::CLASS], |_| {
            Arc::new(extended::resources(objects, &self.classes))
        })
    }

    /// What selectors say about all devices. Kept until a slice or a rule changes.
    fn table(&self, objects: &ObjectStore) -> Arc<SelectorTable> {
        let kinds: &[&str] = match self.rules {
            Some(_) => &[kinds::SLICE, kinds::TAINT_RULE],
            None => &[kinds::SLICE],
        };
        self.table.get(objects, kinds, |former| self.make_table(objects, former))
    }

    fn make_table(
        &self,
        objects: &ObjectStore,
        former: Option<&SelectorTable>,
    ) -> Arc<SelectorTable> {
        let list = |kind| objects.list(kinds::GROUP, kind);
        // What no API server stores is left out, as a client of the reference could not read it either.
        let decoded = self.rules.iter();
        let rules: Vec<Arc<DeviceTaintRule>> = decoded
            .flat_map(|all| list(kinds::TAINT_RULE).filter_map(move |rule| all.get(rule).ok()))
            .collect();
        let slices = list(kinds::SLICE).filter_map(|slice| self.slices.get(slice).ok());
        let slices = slices.map(|slice| slice.with_rules(rules.iter().map(|rule| &**rule)));
        match former {
            Some(former) => former.updated(slices),
            None => SelectorTable::new(Arc::new(Inventory::new(slices, self.features))),
        }
    }
}
