//! Announcements: nominations of pods to the nodes that they are being bound to. They wait until a binding takes long.
//!
//! An announcement is for those who look at a pod whose binding is not written yet, because a volume is made or a device prepared.
//! For a pod that is bound a moment later it says nothing, and the binding takes it away again: an API server clears the
//! nomination of a pod that it binds. So it costs a request for nothing, and is written only when the pod has had nothing else to write for
//! [`PATIENCE`].
//!
//! Parity: the reference writes it before PreBind, and waits for the answer; with the gate SchedulerAsyncAPICalls a binding takes the place
//! of an announcement that waits, as here.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

use crate::lanes::PodWrite;

/// How long the writes of a pod have to pause.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// When an announcement may be written; the number keeps those of the same moment in order.
type Due = (Timestamp, u64);

/// A nomination that is not written yet.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) write: PodWrite,
    /// Its entry in [`Announcements`], while the pod has nothing else to write.
    pub(crate) due: Option<Due>,
}

/// The pods that have nothing to write but an announcement.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    pods: BTreeMap<Due, Arc<str>>,
    n_added: u64,
    /// Those that are due by then may be written.
    now: Timestamp,
}

impl Announcements {
    pub(crate) fn add(&mut self, uid: Arc<str>, due: Timestamp) -> Due {
        self.n_added += 1;
        let due = (due, self.n_added);
        self.pods.insert(due, uid);
        due
    }

    pub(crate) fn remove(&mut self, due: Due) {
        self.pods.remove(&due);
    }

    /// It is so late now.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The pod whose announcement may be written next.
    pub(crate) fn first(&self) -> Option<&Arc<str>> {
        let (due, uid) = self.pods.first_key_value()?;
        (due.0 <= self.now).then_some(uid)
    }

    /// How many may be written.
    pub(crate) fn n_due(&self) -> usize {
        self.pods.range(..=(self.now, u64::MAX)).count()
    }

    /// When the next one may be written that may not be yet.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let later = (Bound::Excluded((self.now, u64::MAX)), Bound::Unbounded);
        self.pods.range(later).next().map(|((due, _), _)| *due)
    }
}
