//! Objects that pods on their way to a node are about to have written, in the form that they will have
//! (`docs/spec/plugins-dra.md` §5.2).
//!
//! Unlike an assumed object, a pending one does not stand in for what the API server reported: a caller that decides looks at
//! both. It need not exist at the API server yet.
//!
//! Invariant: an object is pending as long as one of the pods that share it has not taken it back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use kube_scheduler_api_types::Object;

use super::{ObjectChange, ObjectStore};

#[derive(Clone, Debug)]
struct PendingObject {
    object: Arc<Object>,
    n_sharers: usize,
}

/// The pending objects of one kind, by uid.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingObjects(BTreeMap<Arc<str>, PendingObject>);

impl PendingObjects {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// # Pending objects
impl ObjectStore {
    /// The pending form of an object; `None` when nothing is about to be written.
    pub fn pending(&self, group: &str, kind: &str, uid: &str) -> Option<&Arc<Object>> {
        self.kind(group, kind)?.pending.0.get(uid).map(|pending| &pending.object)
    }

    /// All pending objects of a kind, by uid.
    pub fn list_pending(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<Object>> {
        let store = self.kind(group, kind).into_iter();
        store.flat_map(|store| store.pending.0.values()).map(|pending| &pending.object)
    }

    /// Makes an object pending, or adds a sharer to the one that is: that one stays as it is. Counts as a change of the
    /// kind.
    pub fn add_pending(&mut self, object: Arc<Object>) {
        let store = self.kind_or_new(&object.group, &object.kind);
        let changed = store.count_change();
        match store.pending.0.entry(object.uid.clone()) {
            Entry::Occupied(mut known) => known.get_mut().n_sharers += 1,
            Entry::Vacant(free) => {
                free.insert(PendingObject { object: object.clone(), n_sharers: 1 });
                let change =
                    ObjectChange { old: None, new: Some(object.clone()), is_pending: true };
                self.note_change(&object.group, &object.kind, change);
            }
        }
        self.versions.count_change(changed);
    }

    /// Takes one sharer of a pending object away, or all. Returns the object if it is no longer pending because of that.
    pub fn remove_pending(
        &mut self,
        group: &str,
        kind: &str,
        uid: &str,
        for_all: bool,
    ) -> Option<Arc<Object>> {
        let store = self.kind_mut(group, kind)?;
        let pending = store.pending.0.get_mut(uid)?;
        pending.n_sharers -= 1;
        let is_over = for_all || pending.n_sharers == 0;
        let changed = store.count_change();
        let removed = if is_over { store.pending.0.remove(uid) } else { None };
        self.versions.count_change(changed);
        let PendingObject { object, .. } = removed?;
        let change = ObjectChange { old: Some(object.clone()), new: None, is_pending: true };
        self.note_change(group, kind, change);
        Some(object)
    }

    /// How many objects are pending, of all kinds.
    pub fn n_pending(&self) -> usize {
        self.kinds.iter().map(|store| store.pending.len()).sum()
    }
}
