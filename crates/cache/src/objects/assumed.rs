//! Objects as the scheduler expects them to be soon, over what the API server reported (`docs/spec/plugins-storage.md` §3.2).
//!
//! A plugin that decides to change an object assumes the changed copy, so that later decisions already count with it, and
//! writes it afterwards. The copy belongs to the revision it was made from: it shows while the object has that revision,
//! and is dropped with any other one, as the news then either contain the change or contradict it.
//!
//! Invariants: an object is assumed only if it exists, in the very revision that the copy carries; a deleted object leaves
//! nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use thiserror::Error;

use super::{KeyInKind, KindStore, ObjectStore, key_in_kind};

/// Names one object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// The kind of the object.
    pub kind: Arc<str>,
    /// Namespace, empty for cluster-wide kinds.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
}

impl From<&Object> for ObjectKey {
    fn from(object: &Object) -> Self {
        let Object { group, kind, namespace, name, .. } = object.clone();
        Self { group, kind, namespace, name }
    }
}

/// Why an object cannot be assumed. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AssumeObjectError {
    /// There is no object of this kind and name.
    #[error("{kind} {key:?} not found")]
    NotFound {
        /// Kind.
        kind: Arc<str>,
        /// `namespace/name`, or the name alone.
        key: String,
    },
    /// The copy was made from another revision than the present one.
    #[error("{key:?} is out of sync (stored: {stored}, assume: {assumed})")]
    OutOfSync {
        /// `namespace/name`, or the name alone.
        key: String,
        /// The revision that is there.
        stored: Arc<str>,
        /// The revision of the copy.
        assumed: Arc<str>,
    },
}

/// The assumed objects of one kind, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct AssumedObjects(BTreeMap<KeyInKind, Arc<Object>>);

impl AssumedObjects {
    /// The assumed copy of `reported`, or itself if nothing is assumed of it.
    fn over<'a>(&'a self, reported: &'a Arc<Object>) -> &'a Arc<Object> {
        // Nearly always nothing is assumed.
        if self.0.is_empty() {
            reported
        } else {
            self.0.get(&key_in_kind(reported)).unwrap_or(reported)
        }
    }

    /// The object is in this revision now.
    pub(super) fn applied(&mut self, object: &Object) {
        if self.0.is_empty() {
            return;
        }
        let key = key_in_kind(object);
        if self.0.get(&key).is_some_and(|copy| copy.resource_version != object.resource_version) {
            self.0.remove(&key);
        }
    }

    /// The object is gone.
    pub(super) fn removed(&mut self, object: &Object) {
        if !self.0.is_empty() {
            self.0.remove(&key_in_kind(object));
        }
    }

    /// All assumed copies, by namespace and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.0.values()
    }
}

/// # Assumed objects
impl ObjectStore {
    /// One object as it is expected to be: the assumed copy if there is one, else what [`get`](Self::get) gives.
    pub fn latest(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Object>> {
        let store = self.kind(group, kind)?;
        Some(store.assumed.over(store.by_namespace.get(namespace)?.get(name)?))
    }

    /// Checks whether `object` can be [assumed](Self::assume) now.
    ///
    /// # Errors
    /// If there is no such object, or it has another resource version than `object`.
    pub fn check_assumable(&self, object: &Object) -> Result<(), AssumeObjectError> {
        let stored = self.get(&object.group, &object.kind, &object.namespace, &object.name);
        match stored {
            None => {
                Err(AssumeObjectError::NotFound { kind: object.kind.clone(), key: object.key() })
            }
            Some(stored) if stored.resource_version != object.resource_version => {
                Err(AssumeObjectError::OutOfSync {
                    key: object.key(),
                    stored: stored.resource_version.clone(),
                    assumed: object.resource_version.clone(),
                })
            }
            Some(_) => Ok(()),
        }
    }

    /// Expects an existing object to become `object`, a changed copy of its present revision. An earlier copy is
    /// replaced. Counts as a change of the kind.
    ///
    /// # Errors
    /// As [`check_assumable`](Self::check_assumable); nothing changes then.
    pub fn assume(&mut self, object: Arc<Object>) -> Result<(), AssumeObjectError> {
        self.check_assumable(&object)?;
        if let Some(store) = self.kind_mut(&object.group, &object.kind) {
            store.assumed.0.insert(key_in_kind(&object), object);
            let changed = store.count_change();
            self.versions.count_change(changed);
        }
        Ok(())
    }

    /// Expects the object to stay as it is, if what is assumed of it is of the same revision as `object`. Says whether
    /// that was so.
    pub fn restore(&mut self, object: &Object) -> bool {
        let Some(store) = self.kind_mut(&object.group, &object.kind) else { return false };
        let key = key_in_kind(object);
        let is_same = store
            .assumed
            .0
            .get(&key)
            .is_some_and(|copy| copy.resource_version == object.resource_version);
        if is_same {
            store.assumed.0.remove(&key);
            let changed = store.count_change();
            self.versions.count_change(changed);
        }
        is_same
    }

    /// How many objects are assumed, of all kinds.
    pub fn n_assumed(&self) -> usize {
        self.kinds.iter().map(|store| store.assumed.0.len()).sum()
    }

    /// All assumed copies, by kind, namespace and name.
    pub fn assumed(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.kinds.iter().flat_map(|store| store.assumed.iter())
    }
}

impl KindStore {
    /// An object of this kind by namespace and name, as it is expected to be.
    pub(super) fn latest_in<'a>(
        &'a self,
        namespace: &str,
        names: impl Iterator<Item = &'a Arc<str>> + 'a,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let by_name = self.by_namespace.get(namespace);
        names.filter_map(move |name| by_name?.get(name)).map(|reported| self.assumed.over(reported))
    }
}
