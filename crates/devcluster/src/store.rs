//! All objects in memory, with one counter of resource versions and a bounded history per kind.
//!
//! Invariants:
//! - every write takes the next resource version, so versions are unique and rise over all kinds;
//! - a write becomes visible to lists and watches at once and as a whole: a request's checks and its change happen under
//!   one lock;
//! - closures passed to [`Store::write`] check first and change last, since nothing is rolled back;
//! - the objects of a kind are ordered by namespace and name, as etcd orders them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use kube_scheduler_api_types::lock;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::clock::{Clock, add_seconds};
use crate::dependents::Dependents;
use crate::history::{Change, ChangeType, History};
use crate::kinds::{EVENTS, KindId, NAMESPACES};
use crate::object::{StoredObject, key_of, meta_mut};
use crate::rng::SplitMix;
use crate::selectors::Selection;
use crate::status::StatusError;

/// Options of a store.
#[derive(Clone)]
pub(crate) struct StoreOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: u64,
    pub(crate) history: usize,
    pub(crate) events_kept: usize,
    pub(crate) events_ttl_seconds: i64,
}

/// The objects of a cluster. Shared by the server, the controllers and callers in this process.
pub struct Store {
    state: Mutex<State>,
    signals: Box<[watch::Sender<u64>]>,
    garbage: Notify,
    clock: Arc<dyn Clock>,
}

/// The selected objects of one kind at one resource version.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The objects, ordered by namespace and name.
    pub items: Vec<Arc<StoredObject>>,
    /// The version of the store at which this was the list.
    pub resource_version: u64,
    /// The key after which the list continues, if a limit has cut it.
    pub(crate) next: Option<String>,
    /// How many more objects follow, if that is known without matching them.
    pub(crate) remaining: Option<usize>,
}

/// Where a list starts, its maximum length, and its version.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<String>,
    pub(crate) at_version: Option<u64>,
}

/// The state that the lock protects.
pub(crate) struct State {
    version: u64,
    collections: Vec<Collection>,
    populations: BTreeMap<String, usize>,
    event_order: VecDeque<(String, Timestamp)>,
    events_kept: usize,
    events_ttl_seconds: i64,
    touched: Vec<KindId>,
    pub(crate) dependents: Dependents,
    pub(crate) rng: SplitMix,
    pub(crate) now: Timestamp,
}

struct Collection {
    objects: BTreeMap<String, Arc<StoredObject>>,
    history: History,
}

impl Store {
    pub(crate) fn new(options: StoreOptions) -> Self {
        let collections = KindId::all()
            .map(|_| Collection {
                objects: BTreeMap::new(),
                history: History::new(options.history),
            })
            .collect();
        let state = State {
            version: 1,
            collections,
            populations: BTreeMap::new(),
            event_order: VecDeque::new(),
            events_kept: options.events_kept.max(1),
            events_ttl_seconds: options.events_ttl_seconds,
            touched: Vec::new(),
            dependents: Dependents::default(),
            rng: SplitMix::new(options.seed),
            now: options.clock.now(),
        };
        let signals = KindId::all().map(|_| watch::Sender::new(0)).collect();
        Self { state: Mutex::new(state), signals, garbage: Notify::new(), clock: options.clock }
    }

    /// The current resource version.
    pub fn resource_version(&self) -> u64 {
        self.lock().version
    }

    /// The current time of the cluster's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The object of this namespace and name; the namespace of cluster-scoped objects is empty.
    pub fn get(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        self.lock().get(kind, namespace, name).cloned()
    }

    /// All selected objects of a kind, at the current version.
    pub fn list(&self, kind: KindId, selection: &Selection) -> Listing {
        // Without a version to go back to, listing cannot fail.
        self.list_page(kind, selection, &Page::default()).unwrap_or_else(|_| Listing {
            items: Vec::new(),
            resource_version: 0,
            next: None,
            remaining: None,
        })
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: KindId) -> usize {
        self.lock().collection(kind).objects.len()
    }

    /// Drops the history of `kind`, or of all kinds: watches that are behind get status 410.
    pub fn compact_history(&self, kind: Option<KindId>) {
        let mut state = self.lock();
        let version = state.version;
        match kind {
            Some(kind) => state.collection_mut(kind).history.compact(version),
            None => state
                .collections
                .iter_mut()
                .for_each(|collection| collection.history.compact(version)),
        }
    }

    pub(crate) fn list_page(
        &self,
        kind: KindId,
        selection: &Selection,
        page: &Page,
    ) -> Result<Listing, StatusError> {
        let state = self.lock();
        let collection = state.collection(kind);
        let resource_version = page.at_version.unwrap_or(state.version);
        if resource_version > state.version {
            return Err(StatusError::too_large(resource_version, state.version));
        }
        let past = if resource_version < state.version {
            let too_old = |oldest| StatusError::too_old(resource_version, oldest);
            collection.history.undone_to(resource_version).map_err(too_old)?
        } else {
            BTreeMap::new()
        };
        let matching =
            collection.range(selection.namespace.as_deref(), page.after.as_deref(), &past);
        let matching = matching.filter(|object| selection.matches(object));
        let Some(limit) = page.limit.filter(|limit| *limit > 0) else {
            return Ok(Listing {
                items: matching.cloned().collect(),
                resource_version,
                next: None,
                remaining: None,
            });
        };
        let mut items: Vec<Arc<StoredObject>> = matching.take(limit + 1).cloned().collect();
        let cut = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| cut).map(|last| key_of(last.namespace(), last.name()));
        let remaining = (cut && selection.is_everything() && past.is_empty()).then(|| {
            let after = next.as_deref().unwrap_or_default();
            collection.objects.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).count()
        });
        Ok(Listing { items, resource_version, next, remaining })
    }

    /// Runs the checks and changes of one request under the lock, then notifies the watches of the kinds that changed.
    pub(crate) fn write<T>(
        &self,
        f: impl FnOnce(&mut State) -> Result<T, StatusError>,
    ) -> Result<T, StatusError> {
        let mut state = self.lock();
        state.now = self.clock.now();
        let result = f(&mut state);
        let touched = std::mem::take(&mut state.touched);
        let version = state.version;
        let has_garbage = state.dependents.has_work();
        drop(state);
        for kind in touched {
            if let Some(signal) = self.signals.get(kind.index()) {
                signal.send_replace(version);
            }
        }
        if has_garbage {
            self.garbage.notify_one();
        }
        result
    }

    /// Runs `f` on the state, which it cannot change.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.lock())
    }

    /// Waits for work for the garbage collector.
    pub(crate) async fn garbage(&self) {
        self.garbage.notified().await;
    }

    /// Changes when objects of `kind` change.
    pub(crate) fn signal(&self, kind: KindId) -> watch::Receiver<u64> {
        match self.signals.get(kind.index()) {
            Some(signal) => signal.subscribe(),
            None => watch::channel(0).1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held can at worst lose the change of that one request.
        lock(&self.state)
    }
}

impl Collection {
    /// Objects in key order: those of `namespace`, after the key `after`, where the entries of `past` replace the current
    /// ones.
    fn range<'s>(
        &'s self,
        namespace: Option<&str>,
        after: Option<&str>,
        past: &'s BTreeMap<String, Option<Arc<StoredObject>>>,
    ) -> Box<dyn Iterator<Item = &'s Arc<StoredObject>> + 's> {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        // '0' follows '/', so this is the first key behind the namespace.
        let end = namespace.map(|namespace| format!("{namespace}0"));
        let start = match after {
            Some(after) if after >= prefix.as_str() => Bound::Excluded(after.to_owned()),
            _ => Bound::Included(prefix),
        };
        let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
        if let (Bound::Excluded(from), Bound::Excluded(to)) = (&start, &upper)
            && from >= to
        {
            return Box::new(std::iter::empty());
        }
        let bounds = (start, upper);
        let present = self.objects.range::<String, _>(bounds.clone());
        if past.is_empty() {
            return Box::new(present.map(|(_, object)| object));
        }
        let mut merged: BTreeMap<&str, &Arc<StoredObject>> = present
            .filter(|(key, _)| !past.contains_key(*key))
            .map(|(key, object)| (key.as_str(), object))
            .collect();
        let past = past.range::<String, _>(bounds);
        merged.extend(
            past.filter_map(|(key, object)| object.as_ref().map(|object| (key.as_str(), object))),
        );
        Box::new(merged.into_values())
    }
}

impl State {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(
        &self,
        kind: KindId,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<StoredObject>> {
        self.collection(kind).objects.get(&key_of(namespace, name))
    }

    pub(crate) fn objects(&self, kind: KindId) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.collection(kind).objects.values()
    }

    /// The objects of one namespace.
    pub(crate) fn objects_in<'s>(
        &'s self,
        kind: KindId,
        namespace: &str,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> {
        let bounds = (format!("{namespace}/"), format!("{namespace}0"));
        self.collection(kind).objects.range(bounds.0..bounds.1).map(|(_, object)| object)
    }

    /// How many objects are in a namespace.
    pub(crate) fn population(&self, namespace: &str) -> usize {
        self.populations.get(namespace).copied().unwrap_or(0)
    }

    pub(crate) fn history(&self, kind: KindId) -> &History {
        &self.collection(kind).history
    }

    /// Adds or replaces an object, with the next resource version.
    pub(crate) fn put(&mut self, kind: KindId, mut value: Value) -> Arc<StoredObject> {
        let version = self.next_version();
        meta_mut(&mut value).insert("resourceVersion".into(), version.to_string().into());
        let object = Arc::new(StoredObject::freeze(kind, &value, version));
        let key = key_of(object.namespace(), object.name());
        let previous = self.collection_mut(kind).objects.insert(key.clone(), object.clone());
        let change_type = if previous.is_some() { ChangeType::Modified } else { ChangeType::Added };
        if previous.is_none() {
            if kind.get().namespaced {
                *self.populations.entry(object.namespace().to_owned()).or_insert(0) += 1;
            }
            if kind == EVENTS {
                self.event_order.push_back((key, self.now));
            }
        }
        self.dependents.change(kind, previous.as_deref(), Some(&object));
        self.record(kind, Change { change_type, object: object.clone(), previous });
        if kind == EVENTS {
            self.expire_events();
        }
        object
    }

    /// Removes an object, and returns its last state with the resource version of the removal.
    pub(crate) fn remove(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<StoredObject>> {
        let previous = self.collection_mut(kind).objects.remove(&key_of(namespace, name))?;
        self.dependents.change(kind, Some(&previous), None);
        let version = self.next_version();
        let object = Arc::new(reversioned(kind, &previous, version));
        self.record(
            kind,
            Change {
                change_type: ChangeType::Deleted,
                object: object.clone(),
                previous: Some(previous),
            },
        );
        if kind.get().namespaced
            && let Some(population) = self.populations.get_mut(namespace)
        {
            *population = population.saturating_sub(1);
            if *population == 0 {
                self.populations.remove(namespace);
                self.finish_namespace(namespace);
            }
        }
        Some(object)
    }

    /// Inserts an object from a file with its own version; history and watches are not affected.
    pub(crate) fn restore(&mut self, kind: KindId, value: &Value, version: u64) {
        let object = Arc::new(StoredObject::freeze(kind, value, version));
        self.version = self.version.max(version);
        let key = key_of(object.namespace(), object.name());
        if kind.get().namespaced {
            *self.populations.entry(object.namespace().to_owned()).or_insert(0) += 1;
        }
        if kind == EVENTS {
            self.event_order.push_back((key.clone(), self.now));
        }
        self.dependents.change(kind, None, Some(&object));
        self.collection_mut(kind).objects.insert(key, object);
    }

    /// Continues at `version` with an empty history, after a restart from a file.
    pub(crate) fn resume_at(&mut self, version: u64) {
        self.version = self.version.max(version);
        let version = self.version;
        // Else the uids of the run before would be generated again.
        self.rng.skip_to(version);
        self.collections.iter_mut().for_each(|collection| collection.history.compact(version));
    }

    /// Removes a namespace that is being deleted once it is empty and has no finalizers but Kubernetes' own.
    pub(crate) fn finish_namespace(&mut self, namespace: &str) {
        let done = self.population(namespace) == 0
            && self.get(NAMESPACES, "", namespace).is_some_and(|object| {
                let value = object.value();
                let held = |path: &[&str]| {
                    crate::object::list_at(&value, path)
                        .iter()
                        .any(|finalizer| finalizer != "kubernetes")
                };
                value.pointer("/metadata/deletionTimestamp").is_some()
                    && !held(&["metadata", "finalizers"])
                    && !held(&["spec", "finalizers"])
            });
        if done {
            self.remove(NAMESPACES, "", namespace);
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn record(&mut self, kind: KindId, change: Change) {
        if !self.touched.contains(&kind) {
            self.touched.push(kind);
        }
        self.collection_mut(kind).history.push(change);
    }

    fn expire_events(&mut self) {
        let oldest_allowed = add_seconds(self.now, -self.events_ttl_seconds);
        while let Some((key, created)) = self.event_order.front() {
            let crowded = self.collection(EVENTS).objects.len() > self.events_kept;
            if !crowded && *created >= oldest_allowed {
                return;
            }
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            self.event_order.pop_front();
            self.remove(EVENTS, &namespace, &name);
        }
    }

    fn collection(&self, kind: KindId) -> &Collection {
        &self.collections[kind.storage().index()]
    }

    fn collection_mut(&mut self, kind: KindId) -> &mut Collection {
        &mut self.collections[kind.storage().index()]
    }
}

/// The same object with another resource version.
pub(crate) fn reversioned(kind: KindId, object: &StoredObject, version: u64) -> StoredObject {
    let mut value = object.value();
    meta_mut(&mut value).insert("resourceVersion".into(), version.to_string().into());
    StoredObject::freeze(kind, &value, version)
}

#[cfg(test)]
mod tests;
