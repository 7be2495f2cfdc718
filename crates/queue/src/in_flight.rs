//! Pods being tried, and what happened meanwhile.
//!
//! Answers to the in-flight list of the reference's active queue. One log of events for all; every pod in flight has a
//! marker that says how long the log was when it was popped. What the pod missed is what was logged since.
//!
//! Invariants: every UID has at most one marker; markers are in the order of popping; the log begins where the oldest
//! marker points (no pod in flight was popped before the earlier events), so it is empty when nothing is in flight.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use kube_scheduler_primitives::KeyedState;
use rustc_hash::FxHashMap;

use crate::entry::QueueEntry;
use crate::event::{ClusterEvent, EventLabel};
use crate::profile::ResolvedId;

/// An event that came in while pods were in flight.
#[derive(Clone, Debug)]
pub(crate) struct LoggedEvent<O> {
    pub(crate) event: ClusterEvent,
    pub(crate) resolved: ResolvedId,
    pub(crate) old: Option<O>,
    pub(crate) new: Option<O>,
}

#[derive(Clone, Debug)]
struct Marker<E> {
    /// `None` once the pod is done.
    entry: Option<E>,
    /// The number of the first event that the pod misses.
    missed_from: u64,
}

/// Where a marker is, by the hash of its UID.
#[derive(Clone, Copy, Debug)]
struct Position {
    hash: u64,
    marker: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct InFlightPods<E, O> {
    markers: VecDeque<Marker<E>>,
    /// The number of the first marker. Markers and events are numbered from the creation of the queue on.
    first_marker: u64,
    events: VecDeque<LoggedEvent<O>>,
    /// The number of the first event.
    first_event: u64,
    by_uid: HashTable<Position>,
    counts: FxHashMap<EventLabel, u64>,
}

impl<E, O> Default for InFlightPods<E, O> {
    fn default() -> Self {
        Self {
            markers: VecDeque::new(),
            first_marker: 0,
            events: VecDeque::new(),
            first_event: 0,
            by_uid: HashTable::new(),
            counts: FxHashMap::default(),
        }
    }
}

impl<E: QueueEntry, O> InFlightPods<E, O> {
    /// How many pods are in flight.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.position(hash(uid), uid).is_some()
    }

    /// The pods in flight, in the order in which they were popped.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.markers.iter().filter_map(|marker| marker.entry.as_ref())
    }

    /// Takes the pod in; false, and nothing changes, if one with its UID is in flight.
    pub(crate) fn pop(&mut self, entry: E) -> bool {
        let hash = hash(entry.uid());
        if self.position(hash, entry.uid()).is_some() {
            return false;
        }
        let marker = self.first_marker + self.markers.len() as u64;
        let missed_from = self.first_event + self.events.len() as u64;
        self.markers.push_back(Marker { entry: Some(entry), missed_from });
        self.by_uid.insert_unique(hash, Position { hash, marker }, |position| position.hash);
        true
    }

    /// Notes an event if any pod is in flight.
    pub(crate) fn note(&mut self, event: LoggedEvent<O>) {
        if self.is_empty() {
            return;
        }
        *self.counts.entry(event.event.label()).or_default() += 1;
        self.events.push_back(event);
    }

    /// The events since the pod was popped; `None` if it is not in flight.
    pub(crate) fn events_since(&self, uid: &str) -> Option<impl Iterator<Item = &LoggedEvent<O>>> {
        let position = self.position(hash(uid), uid)?;
        let marker = self.markers.get(offset(position.marker, self.first_marker))?;
        let start = offset(marker.missed_from, self.first_event);
        Some(self.events.range(start.min(self.events.len())..))
    }

    /// Lets the pod go, and with it the events that only it could have missed.
    pub(crate) fn done(&mut self, uid: &str) {
        let Self { markers, first_marker, by_uid, .. } = self;
        let is_it = |position: &Position| is_marked(markers, *first_marker, *position, uid);
        let Ok(found) = by_uid.find_entry(hash(uid), is_it) else { return };
        let at = offset(found.remove().0.marker, self.first_marker);
        if let Some(marker) = self.markers.get_mut(at) {
            marker.entry = None;
        }
        // Only from the front: positions count from the first marker.
        while self.markers.front().is_some_and(|marker| marker.entry.is_none()) {
            self.markers.pop_front();
            self.first_marker += 1;
        }
        let end = self.first_event + self.events.len() as u64;
        // Pods that were popped later have missed no earlier event than the first one has.
        let keep_from = self.markers.front().map_or(end, |marker| marker.missed_from);
        let n_missed_by_none = offset(keep_from, self.first_event).min(self.events.len());
        for event in self.events.drain(..n_missed_by_none) {
            if let Some(count) = self.counts.get_mut(&event.event.label()) {
                *count = count.saturating_sub(1);
            }
        }
        self.first_event = keep_from;
    }

    /// How many events of each label are in the log; labels seen before stay, with zero.
    pub(crate) fn event_counts(&self) -> &FxHashMap<EventLabel, u64> {
        &self.counts
    }

    /// The place of the marker of a UID with this hash.
    fn position(&self, hash: u64, uid: &str) -> Option<Position> {
        let Self { markers, first_marker, .. } = self;
        let is_it = |position: &Position| is_marked(markers, *first_marker, *position, uid);
        self.by_uid.find(hash, is_it).copied()
    }
}

/// Whether the marker at a position is that of a UID.
fn is_marked<E: QueueEntry>(
    markers: &VecDeque<Marker<E>>,
    first: u64,
    position: Position,
    uid: &str,
) -> bool {
    let marker = markers.get(offset(position.marker, first));
    marker.and_then(|marker| marker.entry.as_ref()).is_some_and(|entry| entry.uid() == uid)
}

/// The distance from `first` to `number`; 0 if `number` is smaller.
fn offset(number: u64, first: u64) -> usize {
    usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX)
}

fn hash(uid: &str) -> u64 {
    KeyedState::default().hash_one(uid)
}
