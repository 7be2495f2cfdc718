//! The recent changes of one kind, which watches read and from which past states are reconstructed.
//!
//! Invariants: changes are in strictly rising order of resource version; every change after `compacted` is present;
//! at most `capacity` changes are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::object::{StoredObject, key_of};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    /// It was created, or started to match the watch's selection.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted, or no longer matches the watch's selection. The object is its last state with the resource version
    /// of the deletion.
    Deleted,
}

/// One write.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) change_type: ChangeType,
    pub(crate) object: Arc<StoredObject>,
    pub(crate) previous: Option<Arc<StoredObject>>,
}

impl Change {
    pub(crate) fn version(&self) -> u64 {
        self.object.resource_version()
    }
}

#[derive(Debug)]
pub(crate) struct History {
    changes: VecDeque<Change>,
    compacted: u64,
    capacity: usize,
}

impl History {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { changes: VecDeque::new(), compacted: 0, capacity: capacity.max(1) }
    }

    pub(crate) fn push(&mut self, change: Change) {
        if self.changes.len() >= self.capacity
            && let Some(oldest) = self.changes.pop_front()
        {
            self.compacted = oldest.version();
        }
        self.changes.push_back(change);
    }

    /// Changes after `version`.
    ///
    /// # Errors
    /// The oldest version that a watch can still resume from, if `version` is older.
    pub(crate) fn since(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Change>, u64> {
        if version < self.compacted {
            return Err(self.compacted);
        }
        let start = self.changes.partition_point(|change| change.version() <= version);
        Ok(self.changes.range(start..))
    }

    /// Drops all changes up to `version`.
    pub(crate) fn compact(&mut self, version: u64) {
        let keep_from = self.changes.partition_point(|change| change.version() <= version);
        self.changes.drain(..keep_from);
        self.compacted = self.compacted.max(version);
    }

    /// For each key that has changed after `version`, the object it had at `version`, if any.
    ///
    /// # Errors
    /// As [`Self::since`].
    pub(crate) fn undone_to(
        &self,
        version: u64,
    ) -> Result<BTreeMap<String, Option<Arc<StoredObject>>>, u64> {
        let mut before = BTreeMap::new();
        for change in self.since(version)?.rev() {
            let key = key_of(change.object.namespace(), change.object.name());
            before.insert(key, change.previous.clone());
        }
        Ok(before)
    }
}
