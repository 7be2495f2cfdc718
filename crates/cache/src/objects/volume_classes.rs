//! Persistent volumes by storage class, so that looking for the volumes of a class is no scan of all volumes.
//!
//! Invariant: every volume that the API server reported is listed under its class, and under no other; assumed copies keep
//! the class they had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::STORAGE_CLASS_ANNOTATION;

use super::ObjectStore;

pub(super) const VOLUMES: (&str, &str) = ("", "PersistentVolume");

/// The storage class of a persistent volume or claim; empty when it has none.
pub fn storage_class_of(object: &Object) -> &str {
    let annotation = &object.json["metadata"]["annotations"][STORAGE_CLASS_ANNOTATION];
    let class = annotation.as_str().or_else(|| object.json["spec"]["storageClassName"].as_str());
    class.unwrap_or_default()
}

/// Names of volumes by class. Writing to a fork copies the names of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeClasses(BTreeMap<Arc<str>, Arc<BTreeSet<Arc<str>>>>);

impl VolumeClasses {
    pub(super) fn applied(&mut self, old: Option<&Object>, new: &Object) {
        let class = storage_class_of(new);
        match old {
            Some(old) if storage_class_of(old) == class => return,
            Some(old) => self.removed(old),
            None => {}
        }
        let names = match self.0.get_mut(class) {
            Some(names) => names,
            None => self.0.entry(class.into()).or_default(),
        };
        Arc::make_mut(names).insert(new.name.clone());
    }

    pub(super) fn removed(&mut self, old: &Object) {
        let class = storage_class_of(old);
        let Some(names) = self.0.get_mut(class) else { return };
        Arc::make_mut(names).remove(&old.name);
        if names.is_empty() {
            self.0.remove(class);
        }
    }
}

impl ObjectStore {
    /// The persistent volumes of a storage class as they are expected to be, by name.
    pub fn latest_volumes_of_class(&self, class: &str) -> impl Iterator<Item = &Arc<Object>> {
        let names = self.volume_classes.0.get(class);
        let store = self.kind(VOLUMES.0, VOLUMES.1);
        let names = names.into_iter().flat_map(|names| names.iter());
        store.into_iter().zip([names]).flat_map(|(store, names)| store.latest_in("", names))
    }

    /// All volumes by class, for recomputing.
    pub(crate) fn volumes_by_class(&self) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        let classes = self.volume_classes.0.iter();
        classes.map(|(class, names)| (class.clone(), (**names).clone())).collect()
    }
}
