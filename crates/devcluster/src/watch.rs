//! Watches: a cursor into a kind's history that is read in batches.
//!
//! Invariants: a watch holds no queue, so a slow reader costs no memory and gets 410 once its place in the history is
//! gone; an object that enters or leaves the selection appears as added or deleted; applying all events to the state at
//! the starting version gives the current list.

use std::sync::Arc;

use crate::history::{Change, ChangeType};
use crate::kinds::KindId;
use crate::object::Object;
use crate::selectors::Selection;
use crate::status::ApiError;
use crate::store::{Page, State, Store, reversioned};

/// How many changes one turn looks at, so that a long backlog does not hold the lock.
const TURN: usize = 2048;

/// What a watch delivers.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// What happened, as seen through the selection.
    pub change_type: ChangeType,
    /// The object after the change, or its last selected state when it was deleted or left the selection.
    pub object: Arc<Object>,
}

/// A running watch.
pub struct Watcher {
    store: Arc<Store>,
    kind: KindId,
    selection: Selection,
    cursor: u64,
    signal: tokio::sync::watch::Receiver<u64>,
}

impl Watcher {
    /// Everything after `version`.
    pub fn resume(store: Arc<Store>, kind: KindId, selection: Selection, version: u64) -> Self {
        let signal = store.signal(kind.storage());
        Self { store, kind, selection, cursor: version, signal }
    }

    /// The selected objects as they are now, and everything after that.
    pub fn list_and_watch(
        store: Arc<Store>,
        kind: KindId,
        selection: Selection,
    ) -> Result<(Vec<Arc<Object>>, Self), ApiError> {
        let listing = store.list_page(kind, &selection, &Page::default())?;
        let watcher = Self::resume(store, kind, selection, listing.resource_version);
        Ok((listing.items, watcher))
    }

    /// The version up to which everything has been delivered.
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// Waits for events; never returns an empty batch.
    pub async fn next(&mut self) -> Result<Vec<WatchEvent>, ApiError> {
        loop {
            self.signal.mark_unchanged();
            let batch = self.poll()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            if self.signal.changed().await.is_err() {
                return Err(ApiError::with_code(503, "the store is gone"));
            }
        }
    }

    /// What has happened since the last call; empty when nothing has.
    pub fn poll(&mut self) -> Result<Vec<WatchEvent>, ApiError> {
        loop {
            let store = self.store.clone();
            let (batch, done) = store.read(|state| self.turn(state))?;
            if done || !batch.is_empty() {
                return Ok(batch);
            }
        }
    }

    fn turn(&mut self, state: &State) -> Result<(Vec<WatchEvent>, bool), ApiError> {
        let asked = self.cursor;
        let mut changes = state
            .history(self.kind)
            .since(asked)
            .map_err(|oldest| ApiError::too_old(asked, oldest))?;
        let mut batch = Vec::new();
        for change in changes.by_ref().take(TURN) {
            self.cursor = change.version();
            batch.extend(self.seen(change));
        }
        let done = changes.next().is_none();
        if done {
            self.cursor = self.cursor.max(state.version());
        }
        Ok((batch, done))
    }

    fn seen(&self, change: &Change) -> Option<WatchEvent> {
        let before = change.previous.as_ref().filter(|previous| self.selection.matches(previous));
        let is_deleted = change.change_type == ChangeType::Deleted;
        let now = !is_deleted && self.selection.matches(&change.object);
        let (change_type, object) = match (before, now) {
            (None, false) => return None,
            (None, true) => (ChangeType::Added, change.object.clone()),
            (Some(_), true) => (ChangeType::Modified, change.object.clone()),
            (Some(_), false) if is_deleted => (ChangeType::Deleted, change.object.clone()),
            (Some(last), false) => {
                let object = reversioned(self.kind.storage(), last, change.version());
                (ChangeType::Deleted, Arc::new(object))
            }
        };
        Some(WatchEvent { change_type, object })
    }
}
