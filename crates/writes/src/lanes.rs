//! What waits to be written about pods: one pod's writes in order, different pods' by urgency.
//!
//! Invariants: a pod has at most one write under way; its writes start in the order in which they came in, except
//! [announcements](crate::announcements), which wait until the pod has nothing else to write and are dropped when the pod's binding
//! is to be written or has failed; patches of one pod's status that wait are one per kind of condition; among pods whose turn it
//! is, bindings and evictions go before status patches, and each class is first come, first served, except that a pod whose
//! binding goes on with another write is before those whose binding starts. So pods are bound one after the other, where
//! otherwise the claims of all would be written before the first of them is bound.

mod started;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Timestamp};

use self::started::StartedBindings;
use crate::announcements::{Announcement, Announcements, PATIENCE};
use crate::pod_write::{PodWrite, Urgency};

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<PodWrite>,
    is_busy: bool,
    /// How often the server asked for patience with the write that is under way or comes next.
    n_deferrals: u32,
    announcement: Option<Announcement>,
    /// Whether what is under way is not to be written again if it is an announcement.
    is_withdrawn: bool,
}

/// All pods' writes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// By uid. Looked up only, never walked through.
    lanes: KeyedMap<Arc<str>, Lane>,
    /// Pods whose next write may start and is urgent, in the order in which that came to be; first those that had their turn
    /// before.
    again: VecDeque<Arc<str>>,
    now: VecDeque<Arc<str>>,
    /// Pods whose next write may start and is not urgent, in the order in which that came to be.
    soon: VecDeque<Arc<str>>,
    /// Pods whose write comes again, by when; the number keeps those of the same moment in order.
    deferred: BTreeMap<(Timestamp, u64), Arc<str>>,
    n_deferred: u64,
    /// Pods without another write.
    announcements: Announcements,
    started: StartedBindings,
}

impl Lanes {
    /// Adds a write behind the others of its pod.
    pub(crate) fn push(&mut self, write: PodWrite, now: Timestamp) {
        let uid = write.pod().uid.clone();
        if matches!(write, PodWrite::Patch { is_announcement: true, .. }) {
            return self.announce(uid, write, now + PATIENCE);
        }
        // A write without a waiting binding does not continue one: a plugin takes back what it has written.
        let ends = matches!(write, PodWrite::Object { token: None, .. });
        let is_urgent = write.urgency() == Urgency::Now;
        let goes_on = is_urgent && self.started.remove(&uid) && !ends;
        let lane = self.lanes.entry(uid.clone()).or_default();
        if let Some(due) = lane.announcement.as_mut().and_then(|waiting| waiting.due.take()) {
            self.announcements.remove(due);
        }
        if write.ends_announcement() {
            lane.announcement = None;
        }
        if let (PodWrite::Patch { patch, .. }, Some(PodWrite::Patch { patch: waiting, .. })) =
            (&write, lane.waiting.back_mut())
            && waiting.absorb(patch)
        {
            return;
        }
        lane.waiting.push_back(write);
        if !lane.is_busy && lane.waiting.len() == 1 {
            self.line_up(uid, if goes_on { Place::Again } else { Place::Back });
        }
    }

    /// Lets an announcement wait beside the pod's other writes, in the place of an older one. It is due then, if the pod has nothing
    /// else to write.
    fn announce(&mut self, uid: Arc<str>, write: PodWrite, due: Timestamp) {
        let lane = self.lanes.entry(uid.clone()).or_default();
        if let Some(due) = lane.announcement.take().and_then(|older| older.due) {
            self.announcements.remove(due);
        }
        let is_idle = !lane.is_busy && lane.waiting.is_empty();
        let due = is_idle.then(|| self.announcements.add(uid, due));
        lane.announcement = Some(Announcement { write, due });
    }

    /// The binding of a pod has failed: that it is on its way is not announced any more.
    pub(crate) fn withdraw_announcement(&mut self, uid: &Arc<str>) {
        let Some(lane) = self.lanes.get_mut(uid) else { return };
        lane.is_withdrawn = lane.is_busy;
        if let Some(due) = lane.announcement.take().and_then(|waiting| waiting.due) {
            self.announcements.remove(due);
            // It was all that the pod had.
            self.lanes.remove(uid);
        }
    }

    /// Notes that a write which a pod's binding waited for has ended: the binding's next write goes before those of pods whose
    /// binding starts.
    pub(crate) fn go_on(&mut self, uid: &Arc<str>) {
        self.started.insert(uid);
    }

    /// The next write of this urgency. [`finish`](Self::finish) or [`defer`](Self::defer) must follow.
    pub(crate) fn pop(&mut self, urgency: Urgency) -> Option<PodWrite> {
        let next = match urgency {
            Urgency::Now => self.again.pop_front().or_else(|| self.now.pop_front()),
            Urgency::Soon => self.soon.pop_front(),
        };
        let Some(uid) = next else { return self.pop_announcement(urgency) };
        let lane = self.lanes.get_mut(&uid)?;
        lane.is_busy = true;
        lane.waiting.pop_front()
    }

    fn pop_announcement(&mut self, urgency: Urgency) -> Option<PodWrite> {
        let uid = self.announcements.first().filter(|_| urgency == Urgency::Soon)?;
        let lane = self.lanes.get_mut(uid)?;
        let Announcement { write, due } = lane.announcement.take()?;
        lane.is_busy = true;
        due.into_iter().for_each(|due| self.announcements.remove(due));
        Some(write)
    }

    /// A pod's write has ended; its next one may start.
    pub(crate) fn finish(&mut self, uid: &Arc<str>, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(uid) {
            lane.n_deferrals = 0;
            self.free(uid, now + PATIENCE);
        }
    }

    /// Nothing of a pod is under way any more. If it has nothing to write but an announcement, that is due then.
    fn free(&mut self, uid: &Arc<str>, due: Timestamp) {
        let Some(lane) = self.lanes.get_mut(uid) else { return };
        lane.is_busy = false;
        lane.is_withdrawn = false;
        if !lane.waiting.is_empty() {
            self.line_up(uid.clone(), Place::Back);
        } else if let Some(announcement) = &mut lane.announcement {
            announcement.due = Some(self.announcements.add(uid.clone(), due));
        } else {
            self.lanes.remove(uid);
        }
    }

    /// The server asked for patience with a pod's write: it goes out again at `due`, before the pod's other writes.
    /// Gives the write back if the server asked more than `max_deferrals` times; [`finish`](Self::finish) must follow
    /// then.
    pub(crate) fn defer(
        &mut self,
        write: PodWrite,
        due: Timestamp,
        max_deferrals: u32,
    ) -> Option<PodWrite> {
        let uid = write.pod().uid.clone();
        let lane = self.lanes.entry(uid.clone()).or_default();
        lane.n_deferrals += 1;
        if lane.n_deferrals > max_deferrals {
            return Some(write);
        }
        if matches!(write, PodWrite::Patch { is_announcement: true, .. }) {
            // Nothing waits for it, and there may be a newer one, or no need of it any more.
            let is_over = lane.is_withdrawn || lane.waiting.iter().any(PodWrite::ends_announcement);
            if lane.announcement.is_none() && !is_over {
                lane.announcement = Some(Announcement { write, due: None });
            }
            self.free(&uid, due);
            return None;
        }
        // A patch that came in meanwhile is newer: where both say something, it wins.
        let newer = match (&write, lane.waiting.front()) {
            (PodWrite::Patch { patch: old, .. }, Some(PodWrite::Patch { patch: new, .. })) => {
                let mut merged = old.clone();
                merged.absorb(new).then_some(merged)
            }
            _ => None,
        };
        match (newer, lane.waiting.front_mut()) {
            (Some(merged), Some(PodWrite::Patch { patch, .. })) => *patch = merged,
            _ => lane.waiting.push_front(write),
        }
        // The lane stays busy until then, so that none of the pod's later writes overtakes this one.
        self.n_deferred += 1;
        self.deferred.insert((due, self.n_deferred), uid);
        None
    }

    /// Lets the deferred writes start whose time has come.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.announcements.wake(now);
        while let Some(first) = self.deferred.first_entry().filter(|first| first.key().0 <= now) {
            let uid = first.remove();
            if let Some(lane) = self.lanes.get_mut(&uid) {
                lane.is_busy = false;
            }
            self.line_up(uid, Place::Front);
        }
    }

    /// When a write may start that only has to wait until then.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let deferred = self.deferred.first_key_value().map(|((due, _), _)| *due);
        deferred.into_iter().chain(self.announcements.next_due()).min()
    }

    /// How many pods have a write of this urgency that could start.
    pub(crate) fn len(&self, urgency: Urgency) -> usize {
        match urgency {
            Urgency::Now => self.again.len() + self.now.len(),
            Urgency::Soon => self.soon.len() + self.announcements.n_due(),
        }
    }

    /// The write that [`pop`](Self::pop) would give.
    pub(crate) fn peek(&self, urgency: Urgency) -> Option<&PodWrite> {
        let uid = match urgency {
            Urgency::Now => self.again.front().or_else(|| self.now.front()),
            Urgency::Soon => self.soon.front(),
        };
        if let Some(uid) = uid {
            return self.lanes.get(uid)?.waiting.front();
        }
        let uid = self.announcements.first().filter(|_| urgency == Urgency::Soon)?;
        self.lanes.get(uid)?.announcement.as_ref().map(|announcement| &announcement.write)
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Puts a pod in the line of its next write.
    fn line_up(&mut self, uid: Arc<str>, place: Place) {
        let Some(urgency) =
            self.lanes.get(&uid).and_then(|lane| lane.waiting.front()).map(PodWrite::urgency)
        else {
            return;
        };
        match (urgency, place) {
            (Urgency::Now, Place::Front) => self.again.push_front(uid),
            (Urgency::Now, Place::Again) => self.again.push_back(uid),
            (Urgency::Now, Place::Back) => self.now.push_back(uid),
            (Urgency::Soon, Place::Front) => self.soon.push_front(uid),
            (Urgency::Soon, Place::Again | Place::Back) => self.soon.push_back(uid),
        }
    }
}

/// Where in a line a pod goes.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It had its turn before, with this write.
    Front,
    /// It had its turn before, with another write of its binding.
    Again,
    Back,
}

#[cfg(test)]
mod tests;
