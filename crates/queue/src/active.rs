//! The pods that are ready to be tried, in the order of the policy's sort.

use std::cmp::Ordering;

use crate::entry::{QueueEntry, QueuedPod};
use crate::heap::{Heap, Slot};
use crate::policy::QueuePolicy;
use crate::records::Records;

/// A policy's sort key, or nothing if it only compares.
pub(crate) type SortKey = Option<(i64, i64)>;

/// The policy's order of two records: by comparing them, unless the policy gives keys, which then are equal already.
pub(crate) fn policy_order<E, O, P>(
    records: &Records<E>,
    policy: &P,
    key: SortKey,
    a: Slot,
    b: Slot,
) -> Ordering
where
    E: QueueEntry,
    P: QueuePolicy<E, O> + ?Sized,
{
    if key.is_some() {
        return Ordering::Equal;
    }
    let (Some(a), Some(b)) = (records.pod(a), records.pod(b)) else { return Ordering::Equal };
    if policy.precedes(a, b) {
        Ordering::Less
    } else if policy.precedes(b, a) {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveQueue {
    heap: Heap<SortKey>,
}

impl ActiveQueue {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.heap.slots()
    }

    /// Adds the record of `slot`, which is `pod`, or re-sorts it if it is here already.
    pub(crate) fn push<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        seq: u64,
        records: &Records<E>,
        policy: &P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let Some(pod) = records.pod(slot) else { return };
        self.heap.push(slot, policy.sort_key(pod), seq, |key, a, b| {
            policy_order(records, policy, key, a, b)
        });
    }

    pub(crate) fn pop<E: QueueEntry, O, P>(
        &mut self,
        records: &Records<E>,
        policy: &P,
    ) -> Option<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.heap.pop(|key, a, b| policy_order(records, policy, key, a, b))
    }

    /// The members in the order in which they would be popped.
    pub(crate) fn in_order<E: QueueEntry, O, P>(
        &self,
        records: &Records<E>,
        policy: &P,
    ) -> Vec<Slot>
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let mut rest = self.clone();
        std::iter::from_fn(|| rest.pop(records, policy)).collect()
    }

    pub(crate) fn remove<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        records: &Records<E>,
        policy: &P,
    ) -> bool
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.heap.remove(slot, |key, a, b| policy_order(records, policy, key, a, b))
    }

    /// Puts a member whose pod was replaced where it belongs now.
    pub(crate) fn resort<E: QueueEntry, O, P>(
        &mut self,
        slot: Slot,
        records: &Records<E>,
        policy: &P,
    ) where
        P: QueuePolicy<E, O> + ?Sized,
    {
        let key = records.pod(slot).and_then(|pod: &QueuedPod<E>| policy.sort_key(pod));
        self.heap.rekey(slot, key, |key, a, b| policy_order(records, policy, key, a, b));
    }
}
