//! The latest changes of the objects of devices, for followers that keep something up to date about all of them: claims
//! are too many to be looked at for every pod.
//!
//! Invariant: two stores with the same latest change of a kind have the same objects of that kind. A change is itself and
//! no other, so copies of a store that went different ways are distinguished.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::ObjectStore;

/// The API group of claims, slices and classes of devices.
pub(crate) const DEVICE_GROUP: &str = "resource.k8s.io";

/// How many changes of a kind are kept. Followers that fall further behind start over.
const MAX_CHANGES: usize = 1024;

/// A change of one object.
#[derive(Debug)]
pub struct ObjectChange {
    /// What it was before; `None` if it was added.
    pub old: Option<Arc<Object>>,
    /// What it is now; `None` if it was removed.
    pub new: Option<Arc<Object>>,
    /// Whether it is about the [pending](ObjectStore::pending) form.
    pub is_pending: bool,
}

/// The latest changes of one kind, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<Arc<ObjectChange>>);

impl History {
    fn push(&mut self, change: ObjectChange) {
        if self.0.len() == MAX_CHANGES {
            self.0.pop_front();
        }
        self.0.push_back(Arc::new(change));
    }
}

/// # Changes
impl ObjectStore {
    /// The latest change of a kind of `resource.k8s.io`; `None` if there never was one. Of other kinds no changes are kept.
    pub fn latest_change(&self, group: &str, kind: &str) -> Option<&Arc<ObjectChange>> {
        self.kind(group, kind)?.history.0.back()
    }

    /// The changes of a kind after `last`, oldest first. `None` if that is not known: `last` is too long ago, or did not
    /// happen in this copy of the store. O(changes).
    pub fn changes_after(
        &self,
        group: &str,
        kind: &str,
        last: &Arc<ObjectChange>,
    ) -> Option<impl Iterator<Item = &Arc<ObjectChange>>> {
        let changes = &self.kind(group, kind)?.history.0;
        let at = changes.iter().rposition(|change| Arc::ptr_eq(change, last))?;
        Some(changes.range(at + 1..))
    }

    /// Keeps a change of an object of `group` and `kind`, if changes of that kind are kept.
    pub(super) fn note_change(&mut self, group: &str, kind: &str, change: ObjectChange) {
        if group != DEVICE_GROUP {
            return;
        }
        if let Some(store) = self.kind_mut(group, kind) {
            store.history.push(change);
        }
    }
}
