//! Watches: a cursor into a kind's history that is read in batches.
//!
//! Invariants: a watch has no queue, so a slow reader costs no memory, and gets status 410 once its position in the
//! history is gone; an object that starts or ceases to match the selection appears as added or deleted; applying all
//! events to the list at the starting version gives the current list.

use std::sync::Arc;

use crate::history::{Change, ChangeType};
use crate::kinds::KindId;
use crate::object::StoredObject;
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{Page, State, Store, reversioned};

/// How many changes are read in one turn, so that a long backlog does not hold the lock.
const TURN: usize = 2048;

/// One change of a selected object.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// What happened, from the point of view of the selection.
    pub change_type: ChangeType,
    /// The object after the change, or its last state that matched the selection.
    pub object: Arc<StoredObject>,
}

/// A running watch inside of this process.
pub struct Watcher {
    store: Arc<Store>,
    kind: KindId,
    selection: Selection,
    cursor: u64,
    signal: tokio::sync::watch::Receiver<u64>,
}

/// The changes read in one turn.
struct Turn {
    events: Vec<WatchEvent>,
    /// Whether no changes are left.
    is_last: bool,
}

impl Watcher {
    /// A watch of all changes after `version`.
    pub(crate) fn resume(
        store: Arc<Store>,
        kind: KindId,
        selection: Selection,
        version: u64,
    ) -> Self {
        let signal = store.signal(kind.storage());
        Self { store, kind, selection, cursor: version, signal }
    }

    /// The selected objects of a kind, and a watch of all changes after that.
    ///
    /// # Errors
    /// None in practice: listing the current state cannot fail.
    pub fn list_and_watch(
        store: Arc<Store>,
        kind: KindId,
        selection: Selection,
    ) -> Result<(Vec<Arc<StoredObject>>, Self), StatusError> {
        let listing = store.list_page(kind, &selection, &Page::default())?;
        let watcher = Self::resume(store, kind, selection, listing.resource_version);
        Ok((listing.items, watcher))
    }

    /// The resource version up to which all events have been returned.
    pub(crate) fn position(&self) -> u64 {
        self.cursor
    }

    /// Waits for events; never returns an empty batch.
    ///
    /// # Errors
    /// Status 410 if the watch is further behind than the history reaches; start over with a list.
    pub async fn next(&mut self) -> Result<Vec<WatchEvent>, StatusError> {
        loop {
            self.signal.mark_unchanged();
            let batch = self.poll()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            if self.signal.changed().await.is_err() {
                return Err(StatusError::with_code(503, "the store is gone"));
            }
        }
    }

    /// The events since the last call; empty if there are none.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(crate) fn poll(&mut self) -> Result<Vec<WatchEvent>, StatusError> {
        loop {
            let store = self.store.clone();
            let turn = store.read(|state| self.turn(state))?;
            if turn.is_last || !turn.events.is_empty() {
                return Ok(turn.events);
            }
        }
    }

    fn turn(&mut self, state: &State) -> Result<Turn, StatusError> {
        let asked = self.cursor;
        let mut changes = state
            .history(self.kind)
            .since(asked)
            .map_err(|oldest| StatusError::too_old(asked, oldest))?;
        let mut events = Vec::new();
        for change in changes.by_ref().take(TURN) {
            self.cursor = change.version();
            events.extend(self.event_of(change));
        }
        let is_last = changes.next().is_none();
        if is_last {
            self.cursor = self.cursor.max(state.version());
        }
        Ok(Turn { events, is_last })
    }

    /// The event that a change is for this selection; `None` if it concerns no selected object.
    fn event_of(&self, change: &Change) -> Option<WatchEvent> {
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
