//! The devices of the cluster and who holds them, for PreFilter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use kube_scheduler_devices::api::{DeviceTaintRule, ResourceSlice};
use kube_scheduler_devices::{
    CelSelectors, DeviceState, ExtendedResources, Features, Inventory, SelectorTable,
};
use kube_scheduler_framework::api::{KeyedMap, Object, Pod, lock};
use kube_scheduler_framework::{ObjectChange, ObjectStore};

use super::answers::Answers;
use super::settings::InventorySettings;
use super::usage::TrackedDevices;
use super::{decoded, extended, kinds};

/// What is made of the objects that allocation reads, kept from attempt to attempt.
pub(super) struct Devices {
    settings: InventorySettings,
    pub(super) selectors: Arc<CelSelectors>,
    /// The slices of each pool, so that a pool can be made when one of its slices comes.
    pools: Mutex<PoolSlices>,
    original: ClusterFollower,
    copies: ClusterFollower,
}

/// What is kept up to date with one history of the cluster from attempt to attempt. There is one for the engine and one for its
/// copies, which answer questions and have a history of their own: with a single one, each change between the two would start
/// from scratch. Copies share theirs, although they do that to each other, because they are short-lived.
struct ClusterFollower {
    table: ObjectCache<SelectorTable>,
    resources: ObjectCache<ExtendedResources>,
    tracked: Mutex<TrackedDevices>,
    answers: Answers,
}

impl ClusterFollower {
    fn new(features: Features) -> Self {
        let no_devices = SelectorTable::new(Arc::new(Inventory::new([], features)));
        Self {
            table: ObjectCache::starting_with(no_devices),
            resources: ObjectCache::new(),
            tracked: Mutex::new(TrackedDevices::new(features)),
            answers: Answers::default(),
        }
    }
}

/// Slices by driver and pool, then by their names.
type PoolSlices = KeyedMap<PoolName, BTreeMap<Arc<str>, Arc<ResourceSlice>>>;
type PoolName = (Arc<str>, Arc<str>);

fn pool_of(slice: &ResourceSlice) -> PoolName {
    (slice.driver.clone(), slice.pool.clone())
}

/// What is made of all objects of some kinds, kept until one of them changes.
struct ObjectCache<T>(Mutex<Option<(Changes, Arc<T>)>>);

/// The latest change of each kind.
type Changes = Vec<Option<Arc<ObjectChange>>>;

impl<T> ObjectCache<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The next one is made from this one.
    fn starting_with(made: Arc<T>) -> Self {
        Self(Mutex::new(Some((Changes::new(), made))))
    }

    /// What was made last.
    fn latest(&self) -> Option<Arc<T>> {
        let kept = lock(&self.0);
        kept.as_ref().map(|(_, made)| made.clone())
    }

    /// What was made of the objects of `kinds`, if none has changed since.
    fn known(&self, objects: &ObjectStore, kinds: &[&str]) -> Option<Arc<T>> {
        let kept = lock(&self.0);
        let (changes, made) = kept.as_ref()?;
        let latest = kinds.iter().map(|kind| objects.latest_change(kinds::GROUP, kind));
        let is_same = changes
            .iter()
            .map(|change| change.as_ref().map(Arc::as_ptr))
            .eq(latest.map(|change| change.map(Arc::as_ptr)));
        is_same.then(|| made.clone())
    }

    /// What is made of the objects of `kinds`.
    fn get(&self, objects: &ObjectStore, kinds: &[&str], make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known(objects, kinds) {
            return known;
        }
        let latest = || kinds.iter().map(|kind| objects.latest_change(kinds::GROUP, kind));
        let mut kept = lock(&self.0);
        let made = make();
        *kept = Some((latest().map(|change| change.cloned()).collect(), made.clone()));
        made
    }
}

impl Devices {
    pub(super) fn new(settings: InventorySettings) -> Self {
        Self {
            settings,
            selectors: Arc::new(CelSelectors::new(settings.list_attributes)),
            pools: Mutex::default(),
            original: ClusterFollower::new(settings.features),
            copies: ClusterFollower::new(settings.features),
        }
    }

    fn followed(&self, by_copy: bool) -> &ClusterFollower {
        if by_copy { &self.copies } else { &self.original }
    }

    /// Makes the pools ready that a slice belonged to and belongs to. O(devices of these pools), or O(their slices) if they are very
    /// large.
    pub(super) fn slice_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let [old, new] = [old, new].map(|object| decoded::slice(object?).ok());
        let mut pools = lock(&self.pools);
        if let Some(slice) = &old {
            let name = pool_of(slice);
            if let Some(pool) = pools.get_mut(&name) {
                pool.remove(&slice.name);
                if pool.is_empty() {
                    pools.remove(&name);
                }
            }
        }
        if let Some(slice) = &new {
            let pool = pools.entry(pool_of(slice)).or_default();
            pool.insert(slice.name.clone(), slice.clone());
        }
        let Some(table) = self.original.table.latest() else { return };
        let mut names: Vec<PoolName> = old.iter().chain(&new).map(|slice| pool_of(slice)).collect();
        names.dedup();
        for name in names {
            let slices = pools.get(&name).into_iter().flat_map(BTreeMap::values);
            let slices = slices.cloned().collect();
            table.prepare(name, slices);
        }
    }

    fn make_table(
        &self,
        objects: &ObjectStore,
        former: Option<&SelectorTable>,
    ) -> Arc<SelectorTable> {
        let list = |kind| objects.list(kinds::GROUP, kind);
        // What no API server stores is left out, as a client of the reference could not read it either.
        let rules = self.settings.taint_rules.then(|| list(kinds::TAINT_RULE)).into_iter();
        let rules: Vec<Arc<DeviceTaintRule>> =
            rules.flatten().filter_map(|rule| decoded::taint_rule(rule).ok()).collect();
        let slices = list(kinds::SLICE).filter_map(|slice| decoded::slice(slice).ok());
        let slices = slices.map(|slice| slice.with_rules(rules.iter().map(|rule| &**rule)));
        match former {
            Some(former) => former.updated(slices),
            None => SelectorTable::new(Arc::new(Inventory::new(slices, self.settings.features))),
        }
    }

    /// The devices and who holds them now.
    pub(super) fn state(&self, objects: &ObjectStore) -> Arc<DeviceState> {
        let table = self.table(objects);
        self.tracked(objects).with_selectors(table)
    }

    /// Notes what claims hold. To be called in every attempt that has claims: which device is free may depend on what
    /// held it before. O(changes of claims since the last call).
    pub(super) fn follow(&self, objects: &ObjectStore) {
        drop(self.tracked(objects));
    }

    /// The claim for extended resources that an earlier attempt made for a pod.
    pub(super) fn special_claim(&self, objects: &ObjectStore, pod: &Pod) -> Option<Arc<Object>> {
        let tracked = self.tracked(objects);
        let found = tracked.special.of(pod)?;
        kinds::claim(objects, &found.namespace, &found.name).cloned()
    }

    /// Which class serves which extended resource.
    pub(super) fn resources(&self, objects: &ObjectStore) -> Arc<ExtendedResources> {
        let resources = &self.followed(objects.is_copy()).resources;
        resources.get(objects, &[kinds::CLASS], || Arc::new(extended::resources(objects)))
    }

    /// What is remembered of expressions and answers takes, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        let of = |followed: &ClusterFollower| {
            let table = followed.table.latest();
            table.map_or(0, |table| table.n_bytes()) + followed.answers.n_bytes()
        };
        of(&self.original) + of(&self.copies)
    }

    /// Which nodes have devices for which claims, as far as that is remembered.
    pub(super) fn answers(&self, of_copy: bool) -> &Answers {
        &self.followed(of_copy).answers
    }

    fn tracked(&self, objects: &ObjectStore) -> MutexGuard<'_, TrackedDevices> {
        let mut tracked = lock(&self.followed(objects.is_copy()).tracked);
        tracked.follow(objects);
        tracked
    }

    /// What selectors say about all devices. Kept until a slice or a rule changes; copies share it with the original as long as none
    /// has.
    fn table(&self, objects: &ObjectStore) -> Arc<SelectorTable> {
        let kinds: &[&str] = match self.settings.taint_rules {
            true => &[kinds::SLICE, kinds::TAINT_RULE],
            false => &[kinds::SLICE],
        };
        let of_original = &self.original.table;
        let shared = of_original.known(objects, kinds);
        shared.unwrap_or_else(|| {
            let former = of_original.latest();
            let make = || self.make_table(objects, former.as_deref());
            self.followed(objects.is_copy()).table.get(objects, kinds, make)
        })
    }
}
