//! The recent changes of one kind, from which watches are fed and past states are rebuilt.
//!
//! Invariants: changes are in strictly rising order of resource version; every change after `compacted` is present;
//! at most `capacity` changes are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::object::{Object, key_of};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    /// It came into being.
    Added,
    /// It changed.
    Modified,
    /// It is gone; the object shown is its last state under a new resource version.
    Deleted,
}

/// One write.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) change_type: ChangeType,
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
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

    /// Changes after `version`, or the oldest version that can still be resumed from.
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

    /// Forgets everything up to `version`.
    pub(crate) fn compact(&mut self, version: u64) {
        let keep_from = self.changes.partition_point(|change| change.version() <= version);
        self.changes.drain(..keep_from);
        self.compacted = self.compacted.max(version);
    }

    /// What the keys that changed after `version` held at `version`.
    pub(crate) fn undone_to(
        &self,
        version: u64,
    ) -> Result<BTreeMap<String, Option<Arc<Object>>>, u64> {
        let mut before = BTreeMap::new();
        for change in self.since(version)?.rev() {
            let key = key_of(change.object.namespace(), change.object.name());
            before.insert(key, change.previous.clone());
        }
        Ok(before)
    }
}
