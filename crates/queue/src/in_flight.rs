//! Pods being tried, and what happened meanwhile.
//!
//! Answers to the in-flight list of the reference's active queue. One log for all: a marker where a pod was popped, events
//! where they came in. What a pod missed is what stands behind its marker.
//!
//! Invariants: the log never begins with an event (nobody in flight could have missed it), so it is empty when nothing is in
//! flight; every UID has at most one marker.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};

use crate::entry::QueueEntry;
use crate::event::{ClusterEvent, EventLabel};
use crate::profile::ResolvedId;

/// An event that came in while pods were in flight.
#[derive(Debug)]
pub(crate) struct LoggedEvent<O> {
    pub(crate) event: ClusterEvent,
    pub(crate) resolved: ResolvedId,
    pub(crate) old: Option<O>,
    pub(crate) new: Option<O>,
}

#[derive(Debug)]
enum LogItem<E, O> {
    Popped(E),
    Happened(LoggedEvent<O>),
    /// Where the marker of a pod was that is no longer in flight.
    Left,
}

#[derive(Debug)]
pub(crate) struct InFlight<E, O> {
    log: VecDeque<LogItem<E, O>>,
    /// The position that the front of the log has had since the first entry ever.
    front: u64,
    /// Positions of markers, found by UID.
    markers: HashTable<(u64, u64)>,
    counts: FxHashMap<EventLabel, u64>,
}

impl<E, O> Default for InFlight<E, O> {
    fn default() -> Self {
        Self {
            log: VecDeque::new(),
            front: 0,
            markers: HashTable::new(),
            counts: FxHashMap::default(),
        }
    }
}

impl<E: QueueEntry, O> InFlight<E, O> {
    /// How many pods are in flight.
    pub(crate) fn len(&self) -> usize {
        self.markers.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.markers.is_empty()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.position(uid).is_some()
    }

    /// The pods in flight, in the order in which they were popped.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.log.iter().filter_map(|item| match item {
            LogItem::Popped(entry) => Some(entry),
            LogItem::Happened(_) | LogItem::Left => None,
        })
    }

    /// Takes the pod in; false, and nothing changes, if one with its UID is in flight.
    pub(crate) fn pop(&mut self, entry: E) -> bool {
        if self.contains(entry.uid()) {
            return false;
        }
        let hash = hash(entry.uid());
        let position = self.front + self.log.len() as u64;
        self.log.push_back(LogItem::Popped(entry));
        self.markers.insert_unique(hash, (hash, position), |&(hash, _)| hash);
        true
    }

    /// Notes an event if any pod is in flight.
    pub(crate) fn note(&mut self, event: LoggedEvent<O>) {
        if self.is_empty() {
            return;
        }
        *self.counts.entry(event.event.label()).or_default() += 1;
        self.log.push_back(LogItem::Happened(event));
    }

    /// The events since the pod was popped; `None` if it is not in flight.
    pub(crate) fn events_since(&self, uid: &str) -> Option<impl Iterator<Item = &LoggedEvent<O>>> {
        let start = usize::try_from(self.position(uid)? - self.front).ok()?;
        Some(self.log.range(start.min(self.log.len())..).filter_map(|item| match item {
            LogItem::Happened(event) => Some(event),
            LogItem::Popped(_) | LogItem::Left => None,
        }))
    }

    /// Lets the pod go, and with it the events that only it could have missed.
    pub(crate) fn done(&mut self, uid: &str) {
        let Some(position) = self.position(uid) else { return };
        if let Ok(found) = self.markers.find_entry(hash(uid), |&(_, at)| at == position) {
            found.remove();
        }
        if let Some(item) =
            usize::try_from(position - self.front).ok().and_then(|at| self.log.get_mut(at))
        {
            *item = LogItem::Left;
        }
        while let Some(item) = self.log.front() {
            match item {
                LogItem::Popped(_) => break,
                LogItem::Left => {}
                LogItem::Happened(event) => {
                    if let Some(count) = self.counts.get_mut(&event.event.label()) {
                        *count = count.saturating_sub(1);
                    }
                }
            }
            self.log.pop_front();
            self.front += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.front += self.log.len() as u64;
        self.log.clear();
        self.markers.clear();
        self.counts.values_mut().for_each(|count| *count = 0);
    }

    /// How many events of each label are in the log; labels seen before stay, with zero.
    pub(crate) fn event_counts(&self) -> &FxHashMap<EventLabel, u64> {
        &self.counts
    }

    fn position(&self, uid: &str) -> Option<u64> {
        let is_it = |&(_, at): &(u64, u64)| {
            let item = usize::try_from(at - self.front).ok().and_then(|at| self.log.get(at));
            matches!(item, Some(LogItem::Popped(entry)) if entry.uid() == uid)
        };
        self.markers.find(hash(uid), is_it).map(|&(_, at)| at)
    }
}

fn hash(uid: &str) -> u64 {
    let mut hasher = FxHasher::default();
    uid.hash(&mut hasher);
    hasher.finish()
}
