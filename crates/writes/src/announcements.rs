//! Announcements: nominations of pods to the nodes that they are being bound to. They wait until a binding takes long.
//!
//! An announcement shows users where a pod is going while its binding takes long, because a volume is made or a device prepared.
//! For a pod that is bound a moment later it shows nothing, as an API server clears the nomination of a pod that it binds. To save
//! that request it is written only when the pod has had nothing else to write for [`PATIENCE`].
//!
//! Parity: the reference writes it before PreBind, and waits for the answer; with the gate SchedulerAsyncAPICalls a binding takes the place
//! of an announcement that waits, as here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

use crate::pod_write::PodWrite;

/// How long the writes of a pod have to pause.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// When an announcement may be written; the number keeps those of the same moment in order.
type DueTime = (Timestamp, u64);

/// A nomination that is not written yet.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) write: PodWrite,
    /// Its entry in [`Announcements`], while the pod has nothing else to write.
    pub(crate) due: Option<DueTime>,
}

/// The pods that have nothing to write but an announcement.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    waiting: BTreeMap<DueTime, Arc<str>>,
    /// Those that may be written.
    due: BTreeMap<DueTime, Arc<str>>,
    n_added: u64,
    now: Timestamp,
}

impl Announcements {
    /// Adds a pod whose announcement may be written from `due` on.
    pub(crate) fn add(&mut self, uid: Arc<str>, due: Timestamp) -> DueTime {
        self.n_added += 1;
        let due = (due, self.n_added);
        let is_due = due.0 <= self.now;
        let pods = if is_due { &mut self.due } else { &mut self.waiting };
        pods.insert(due, uid);
        due
    }

    pub(crate) fn remove(&mut self, due: DueTime) {
        if self.waiting.remove(&due).is_none() {
            self.due.remove(&due);
        }
    }

    /// Lets those be written that are due by `now`.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.now = now;
        let later = self.waiting.split_off(&(now, u64::MAX));
        self.due.append(&mut std::mem::replace(&mut self.waiting, later));
    }

    /// The pod whose announcement may be written next.
    pub(crate) fn first(&self) -> Option<&Arc<str>> {
        self.due.first_key_value().map(|(_, uid)| uid)
    }

    /// How many may be written.
    pub(crate) fn n_due(&self) -> usize {
        self.due.len()
    }

    /// When the next one may be written that may not be yet.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }
}
