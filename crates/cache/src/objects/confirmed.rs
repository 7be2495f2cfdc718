//! Objects that are known from the API server's answer to a write, before the watch reports them
//! (`docs/spec/plugins-dra.md` §5.1).
//!
//! Invariant: what the watch reports of a confirmed object is stale until it is a newer revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::{KeyInKind, ObjectStore, key_in_kind};

/// The confirmed objects of one kind, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfirmedObjects(BTreeSet<KeyInKind>);

impl ConfirmedObjects {
    /// A newer revision was reported, or the object is gone.
    pub(super) fn forget(&mut self, object: &Object) {
        // Nearly always there is none.
        if !self.0.is_empty() {
            self.0.remove(&key_in_kind(object));
        }
    }
}

/// # Confirmed objects
impl ObjectStore {
    /// Whether a watch event with this revision of an object is older than what a write was answered with, or the same.
    pub fn is_stale(&self, object: &Object) -> bool {
        let Some(store) = self.kind(&object.group, &object.kind) else { return false };
        let is_confirmed = store.confirmed.0.contains(&key_in_kind(object));
        // One with another uid was made after this one was deleted.
        is_confirmed && self.present(object).is_some_and(|known| !is_older(known, object))
    }

    /// Whether `object` is a newer revision of a known object, which is known if both revisions are numbers.
    pub(super) fn is_newer(&self, object: &Object) -> bool {
        self.present(object).is_some_and(|known| is_older(known, object))
    }

    /// The present revision of this object; `None` if there is none, or another one of the same name.
    fn present(&self, object: &Object) -> Option<&Arc<Object>> {
        let known = self.get(&object.group, &object.kind, &object.namespace, &object.name);
        known.filter(|known| known.uid == object.uid)
    }

    /// Notes that the present revision of an object is known from an answer.
    pub(super) fn note_confirmed(&mut self, object: &Object) {
        if let Some(store) = self.kind_mut(&object.group, &object.kind) {
            store.confirmed.0.insert(key_in_kind(object));
        }
    }
}

fn is_older(object: &Object, than: &Object) -> bool {
    let number = |object: &Object| object.resource_version.parse::<u64>().ok();
    number(object).zip(number(than)).is_some_and(|(object, than)| object < than)
}
