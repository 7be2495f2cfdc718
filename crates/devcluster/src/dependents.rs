//! Which objects own which, by `metadata.ownerReferences`, and what the garbage collector has to look at again.
//!
//! Invariant: the index has exactly the references of the stored objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::KindId;
use crate::object::{StoredObject, key_of};

/// A stored object: its kind and its key.
pub(crate) type ObjectKey = (KindId, String);

/// The owners of a store and their dependents.
#[derive(Debug, Default)]
pub(crate) struct Dependents {
    by_owner: BTreeMap<Box<str>, BTreeSet<ObjectKey>>,
    /// Owners that are deleted after their dependents.
    foreground: BTreeMap<Box<str>, ObjectKey>,
    /// Uids of owners that something has happened to; empty if no garbage collector runs.
    stale: BTreeSet<Box<str>>,
    collects: bool,
}

impl Dependents {
    /// Remembers from now on what a garbage collector has to look at, beginning with everything.
    pub(crate) fn start_collecting(&mut self) {
        self.collects = true;
        self.stale = self.by_owner.keys().cloned().collect();
    }

    /// Whether a garbage collector runs.
    pub(crate) fn are_collected(&self) -> bool {
        self.collects
    }

    /// Whether the garbage collector has something to do.
    pub(crate) fn has_work(&self) -> bool {
        !self.stale.is_empty()
    }

    /// The next owner that the garbage collector has to look at.
    pub(crate) fn take_stale(&mut self) -> Option<Box<str>> {
        self.stale.pop_first()
    }

    /// The objects that name this uid as their owner.
    pub(crate) fn of(&self, owner: &str) -> impl Iterator<Item = &ObjectKey> {
        self.by_owner.get(owner).into_iter().flatten()
    }

    /// The owner that waits for its dependents, if it does.
    pub(crate) fn waiting_owner(&self, uid: &str) -> Option<&ObjectKey> {
        self.foreground.get(uid)
    }

    /// Notes that an owner is deleted after its dependents.
    pub(crate) fn wait_for(&mut self, kind: KindId, owner: &StoredObject) {
        let key = (kind, key_of(owner.namespace(), owner.name()));
        self.foreground.insert(owner.uid().into(), key);
        self.stale.insert(owner.uid().into());
    }

    /// Takes in a change of an object: its states before and after, either of which may be missing.
    pub(crate) fn change(
        &mut self,
        kind: KindId,
        before: Option<&StoredObject>,
        after: Option<&StoredObject>,
    ) {
        let owners = |object: Option<&StoredObject>| {
            object.map_or(Vec::new(), |object| object.owners().to_vec())
        };
        let (old, new) = (owners(before), owners(after));
        if let (Some(before), None) = (before, after) {
            self.foreground.remove(before.uid());
            if self.by_owner.contains_key(before.uid()) {
                self.mark(before.uid());
            }
            old.iter().for_each(|owner| self.mark(owner));
        }
        if old == new {
            return;
        }
        let Some(object) = after.or(before) else { return };
        let key = (kind, key_of(object.namespace(), object.name()));
        for owner in old.iter().filter(|owner| !new.contains(owner)) {
            self.mark(owner);
            if let Some(dependents) = self.by_owner.get_mut(owner) {
                dependents.remove(&key);
                if dependents.is_empty() {
                    self.by_owner.remove(owner);
                }
            }
        }
        for owner in new.into_iter().filter(|owner| !old.contains(owner)) {
            self.mark(&owner);
            self.by_owner.entry(owner).or_default().insert(key.clone());
        }
    }

    fn mark(&mut self, owner: &str) {
        if self.collects {
            self.stale.insert(owner.into());
        }
    }
}
