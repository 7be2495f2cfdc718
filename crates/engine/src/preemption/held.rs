//! The pods that must not be tried yet because their victims are still being evicted.

use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;
use kube_scheduler_framework::RunningPreemptions;

/// The number of preemptions that hold a pod back, by its UID. Whether a pod is held back is one look-up, however many
/// preemptions run.
#[derive(Debug, Default)]
pub(crate) struct HeldPreemptors(KeyedMap<Arc<str>, usize>);

impl HeldPreemptors {
    /// How many pods are held back.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// One more preemption holds the pod back.
    pub(super) fn hold(&mut self, uid: &Arc<str>) {
        *self.0.entry(uid.clone()).or_default() += 1;
    }

    /// One of the preemptions that hold the pod back does so no more.
    pub(super) fn release(&mut self, uid: &str) {
        let Some(n) = self.0.get_mut(uid) else { return };
        *n -= 1;
        if *n == 0 {
            self.0.remove(uid);
        }
    }
}

impl RunningPreemptions for HeldPreemptors {
    fn is_preempting(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }
}
