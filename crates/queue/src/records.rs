//! Where all queued pods are kept: one slab of records, found by namespace and name.
//!
//! Invariants: a name has at most one record; a record is in the one container that its place names, or, in the middle
//! of an operation, in none. Pods in flight have no record.

use std::fmt;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use kube_scheduler_primitives::KeyedState;

use crate::entry::{QueueEntry, QueuedPod};
use crate::heap::Slot;

/// One of the three queues that metrics and logs distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// Pods that are ready to be tried.
    Active,
    /// Pods that wait until their backoff is over.
    Backoff,
    /// Pods that wait for an event, gated ones included.
    Unschedulable,
}

impl QueueName {
    /// All three queues.
    pub const ALL: [Self; 3] = [Self::Active, Self::Backoff, Self::Unschedulable];

    /// The value of the label `queue` in metrics.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
        }
    }
}

/// The name used in logs.
impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "Active",
            Self::Backoff => "Backoff",
            Self::Unschedulable => "Unschedulable",
        })
    }
}

/// The container a queued pod is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The pod is ready to be tried.
    Active,
    /// Waits for its backoff after plugins rejected it, and may be popped earlier.
    Backoff,
    /// Waits for its backoff, and is not popped earlier: after an error, or after a rejection if it is a member of a group or has to
    /// [wait](crate::QueuedPod::wait_until).
    ErrorBackoff,
    /// The pod waits for an event, or is gated.
    Unschedulable,
}

impl Place {
    /// The queue of metrics and logs that the container belongs to.
    pub const fn queue(self) -> QueueName {
        match self {
            Self::Active => QueueName::Active,
            Self::Backoff | Self::ErrorBackoff => QueueName::Backoff,
            Self::Unschedulable => QueueName::Unschedulable,
        }
    }
}

/// What it takes to find a record by its name, and to keep its order in a container, about, in bytes.
const BYTES_OF_PLACE: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Record<E> {
    pub(crate) pod: QueuedPod<E>,
    /// `None` only in the middle of an operation.
    pub(crate) place: Option<Place>,
    key_hash: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Records<E> {
    slots: Vec<Option<Record<E>>>,
    free: Vec<Slot>,
    by_key: HashTable<Slot>,
}

impl<E> Default for Records<E> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_key: HashTable::new() }
    }
}

impl<E: QueueEntry> Records<E> {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// What they take in memory, about, in bytes, with their places in the containers. O(1).
    pub(crate) fn n_bytes(&self) -> usize {
        self.len() * (size_of::<Option<Record<E>>>() + BYTES_OF_PLACE)
    }

    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Slot> {
        self.by_key
            .find(hash(namespace, name), |&slot| self.is_named(slot, namespace, name))
            .copied()
    }

    pub(crate) fn find_entry(&self, entry: &E) -> Option<Slot> {
        self.find(entry.namespace(), entry.name())
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Record<E>> {
        self.slots.get(slot.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Record<E>> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    pub(crate) fn pod(&self, slot: Slot) -> Option<&QueuedPod<E>> {
        self.get(slot).map(|record| &record.pod)
    }

    pub(crate) fn place(&self, slot: Slot) -> Option<Place> {
        self.get(slot)?.place
    }

    /// Stores a pod whose name has no record yet, in no container.
    pub(crate) fn insert(&mut self, pod: QueuedPod<E>) -> Slot {
        let key_hash = hash(pod.entry.namespace(), pod.entry.name());
        let record = Some(Record { pod, place: None, key_hash });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = Slot(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
                self.slots.push(None);
                slot
            }
        };
        if let Some(free) = self.slots.get_mut(slot.index()) {
            *free = record;
        }
        let slots = &self.slots;
        self.by_key.insert_unique(key_hash, slot, |slot| {
            slots.get(slot.index()).and_then(Option::as_ref).map_or(0, |record| record.key_hash)
        });
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<QueuedPod<E>> {
        let record = self.slots.get_mut(slot.index())?.take()?;
        if let Ok(found) = self.by_key.find_entry(record.key_hash, |&other| other == slot) {
            found.remove();
        }
        self.free.push(slot);
        Some(record.pod)
    }

    fn is_named(&self, slot: Slot, namespace: &str, name: &str) -> bool {
        self.pod(slot)
            .is_some_and(|pod| pod.entry.name() == name && pod.entry.namespace() == namespace)
    }
}

fn hash(namespace: &str, name: &str) -> u64 {
    KeyedState::default().hash_one((namespace, name))
}
