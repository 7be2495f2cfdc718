//! All other kinds of objects, as plain JSON with an index: namespaces, claims, classes, budgets and so on.
//!
//! Invariants: iteration is by namespace, then name; a kind's sequence grows with every change of that kind, assumed ones
//! included, and never otherwise. These changes are not in the change log of nodes. What is assumed of an object is
//! visible only through the readers of the latest state.

mod assumed;
mod cluster;
mod confirmed;
mod history;
mod pending;
mod service_selectors;
mod unanswered;
mod versions;
mod volume_classes;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Labels, Object};

use self::assumed::AssumedObjects;
use self::confirmed::ConfirmedObjects;
use self::history::History;
use self::pending::PendingObjects;
use self::service_selectors::{SERVICES, SelectorsByNamespace};
use self::unanswered::UnansweredWrites;
use self::volume_classes::{VOLUMES, VolumeClasses};
use crate::store_size::StoreSize;

pub use self::assumed::{AssumeObjectError, ObjectKey};
pub use self::history::ObjectChange;
pub use self::service_selectors::ServiceSelectors;
pub use self::unanswered::UnansweredWrite;
pub(crate) use self::versions::ObjectClass;
pub use self::versions::ObjectVersions;
pub use self::volume_classes::storage_class_of;

type ByName = BTreeMap<Arc<str>, Arc<Object>>;

/// Namespace and name of an object, which no other object of its kind has.
type KeyInKind = (Arc<str>, Arc<str>);

fn key_in_kind(object: &Object) -> KeyInKind {
    (object.namespace.clone(), object.name.clone())
}

/// Objects by kind, namespace and name.
///
/// Kinds are named by API group and kind, without the version, since an object is the same in all of them:
/// `("", "Namespace")`, `("policy", "PodDisruptionBudget")`. Lookups are logarithmic. A write to a fork copies the
/// pointers of one namespace.
#[derive(Clone, Debug, Default)]
pub struct ObjectStore {
    /// Sorted by group and kind.
    kinds: Vec<KindStore>,
    versions: ObjectVersions,
    volume_classes: VolumeClasses,
    service_selectors: SelectorsByNamespace,
    unanswered: UnansweredWrites,
    is_copy: bool,
}

#[derive(Clone, Debug)]
struct KindStore {
    group: Arc<str>,
    kind: Arc<str>,
    class: ObjectClass,
    sequence: u64,
    n_objects: usize,
    n_bytes: usize,
    by_namespace: BTreeMap<Arc<str>, Arc<ByName>>,
    assumed: AssumedObjects,
    pending: PendingObjects,
    confirmed: ConfirmedObjects,
    history: History,
}

impl KindStore {
    /// Counts a change of the kind, and says for which class the store has to count it.
    fn count_change(&mut self) -> ObjectClass {
        self.sequence += 1;
        self.class
    }
}

impl ObjectStore {
    /// Adds or replaces an object and returns the one that was there.
    pub(crate) fn upsert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let store = self.kind_or_new(&object.group, &object.kind);
        store.assumed.applied(&object);
        store.confirmed.forget(&object);
        let of_kind = (&*store.group, &*store.kind);
        let (is_volume, is_service) = (of_kind == VOLUMES, of_kind == SERVICES);
        let by_name =
            Arc::make_mut(store.by_namespace.entry(object.namespace.clone()).or_default());
        let previous = by_name.insert(object.name.clone(), object.clone());
        store.n_objects += usize::from(previous.is_none());
        store.n_bytes += object.n_bytes();
        store.n_bytes -= previous.as_ref().map_or(0, |previous| previous.n_bytes());
        let changed = store.count_change();
        if is_volume {
            self.volume_classes.applied(previous.as_deref(), &object);
        }
        if is_service {
            self.service_selectors.applied(previous.as_deref(), &object);
        }
        self.versions.count_change(changed);
        let change =
            ObjectChange { old: previous.clone(), new: Some(object.clone()), is_pending: false };
        self.note_change(&object.group, &object.kind, change);
        // Mostly no write waits for its answer. Then there is nothing to forget, and no key has to be made.
        if !self.are_all_answered() {
            self.forget_patches_of(&ObjectKey::from(&*object), Some(&object));
        }
        previous
    }

    /// Removes an object and returns it.
    pub(crate) fn remove(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let at = self.find(group, kind).ok()?;
        let store = &mut self.kinds[at];
        let by_name =
            store.by_namespace.get_mut(namespace).filter(|by_name| by_name.contains_key(name))?;
        let previous = Arc::make_mut(by_name).remove(name);
        // Namespaces come and go: an empty table for each that there ever was would be a leak.
        if by_name.is_empty() {
            store.by_namespace.remove(namespace);
        }
        store.n_objects -= 1;
        self.versions.count_change(store.count_change());
        if let Some(previous) = &previous {
            store.n_bytes -= previous.n_bytes();
            store.assumed.removed(previous);
            store.confirmed.forget(previous);
            let change = ObjectChange { old: Some(previous.clone()), new: None, is_pending: false };
            self.note_change(group, kind, change);
            if (group, kind) == VOLUMES {
                self.volume_classes.removed(previous);
            }
            if (group, kind) == SERVICES {
                self.service_selectors.removed(previous);
            }
            if !self.are_all_answered() {
                self.forget_patches_of(&ObjectKey::from(&**previous), None);
            }
        }
        previous
    }

    /// One object. Cluster-wide kinds have the empty namespace.
    pub fn get(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Object>> {
        self.kind(group, kind)?.by_namespace.get(namespace)?.get(name)
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.kind(group, kind)
            .into_iter()
            .flat_map(|store| store.by_namespace.values())
            .flat_map(|names| names.values())
    }

    /// All objects of a kind in one namespace, by name.
    pub fn list_in(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let by_name = self.kind(group, kind).and_then(|store| store.by_namespace.get(namespace));
        by_name.into_iter().flat_map(|names| names.values())
    }

    /// How many objects of a kind there are.
    pub fn n_objects(&self, group: &str, kind: &str) -> usize {
        self.kind(group, kind).map_or(0, |store| store.n_objects)
    }

    /// The objects of all kinds; their bytes are an estimate. O(kinds).
    pub fn size(&self) -> StoreSize {
        let of_kind =
            |store: &KindStore| StoreSize { n_entries: store.n_objects, n_bytes: store.n_bytes };
        self.kinds.iter().map(of_kind).sum()
    }

    /// The group and kind of everything there is or was, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
        self.kinds.iter().map(|store| (store.group.clone(), store.kind.clone()))
    }

    /// Grows with every change of a kind; 0 when there never was one.
    pub(crate) fn kind_sequence(&self, group: &str, kind: &str) -> u64 {
        self.kind(group, kind).map_or(0, |store| store.sequence)
    }

    /// Whether these objects belong to a copy of an engine, made to answer a question. A copy may change in another way than the
    /// original, and is dropped afterwards. A plugin that follows the changes of objects must keep separate state for copies:
    /// otherwise each change between the two makes it start from scratch.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Marks these objects as those of a copy; see [`is_copy`](Self::is_copy).
    pub fn becomes_copy(&mut self) {
        self.is_copy = true;
    }

    /// How often objects have changed, by what plugins read as one.
    pub fn versions(&self) -> ObjectVersions {
        self.versions
    }

    /// Grows with every change of any kind.
    pub fn sequence(&self) -> u64 {
        self.versions.sum()
    }

    /// The labels of a namespace, `None` when there is no such namespace.
    pub fn namespace_labels(&self, namespace: &str) -> Option<&Labels> {
        self.get("", "Namespace", "", namespace).map(|object| &object.labels)
    }

    /// All namespaces with their labels, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &Labels)> {
        self.list("", "Namespace").map(|object| (&object.name, &object.labels))
    }

    fn kind(&self, group: &str, kind: &str) -> Option<&KindStore> {
        self.kinds.get(self.find(group, kind).ok()?)
    }

    fn kind_mut(&mut self, group: &str, kind: &str) -> Option<&mut KindStore> {
        let at = self.find(group, kind).ok()?;
        self.kinds.get_mut(at)
    }

    fn kind_or_new(&mut self, group: &Arc<str>, kind: &Arc<str>) -> &mut KindStore {
        let at = self.find(group, kind).unwrap_or_else(|at| {
            let store = KindStore {
                group: group.clone(),
                kind: kind.clone(),
                class: ObjectClass::of(group, kind),
                sequence: 0,
                n_objects: 0,
                n_bytes: 0,
                by_namespace: BTreeMap::new(),
                assumed: AssumedObjects::default(),
                pending: PendingObjects::default(),
                confirmed: ConfirmedObjects::default(),
                history: History::default(),
            };
            self.kinds.insert(at, store);
            at
        });
        &mut self.kinds[at]
    }

    fn find(&self, group: &str, kind: &str) -> Result<usize, usize> {
        self.kinds.binary_search_by(|store| (&*store.group, &*store.kind).cmp(&(group, kind)))
    }
}
