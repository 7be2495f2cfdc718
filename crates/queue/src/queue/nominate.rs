//! Nominating pods to nodes.

use super::SchedulingQueue;
use crate::entry::{HintObject, QueueEntry};
use crate::policy::{Nomination, QueuePolicy};

impl<E: QueueEntry, O: HintObject<E>> SchedulingQueue<E, O> {
    /// Nominates a pod to a node, in place of any earlier nomination of it. Nothing is nominated if the pod no longer
    /// exists or has a node, by [`QueuePolicy::latest`].
    pub fn nominate<P>(&mut self, entry: &E, nomination: Nomination<'_>, policy: &P)
    where
        P: QueuePolicy<E, O> + ?Sized,
    {
        self.nominator.add(entry, nomination, |namespace, name| policy.latest(namespace, name));
    }

    /// Withdraws the nomination of the pod, if it has one.
    pub fn withdraw_nomination(&mut self, uid: &str) {
        self.nominator.remove(uid);
    }
}
