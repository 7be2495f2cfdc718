//! What waits to be written about pods: one pod's writes in order, different pods' by urgency.
//!
//! Invariants: a pod has at most one write under way; its writes start in the order in which they came in, except
//! [announcements](crate::announcements), which wait until the pod has nothing else to write and are dropped when the pod's binding
//! is to be written or has failed; patches of one pod's status that wait are one per kind of condition; among pods whose turn it
//! is, bindings and evictions go before status patches, and each class is first come, first served, except that a pod whose
//! binding goes on with another write is before those whose binding starts. So pods are bound one after the other, where
//! otherwise the claims of all would be written before the first of them is bound.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Timestamp};

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
    started: Started,
}

/// How many pods are known whose binding has started with a write.
const MAX_STARTED: usize = 4_096;

/// Pods whose binding has started with a write about another object, so that more writes are likely to come: those that started
/// most recently, since nothing says that a binding was given up.
#[derive(Debug, Default)]
struct Started {
    /// Each with the number of its entry in `order`. Looked up only, never walked through.
    pods: KeyedMap<Arc<str>, u64>,
    /// In the order in which they started. A pod that came again after it was removed has several entries; the others than its
    /// latest one say nothing any more.
    order: VecDeque<(u64, Arc<str>)>,
    latest: u64,
}

impl Started {
    fn insert(&mut self, uid: &Arc<str>) {
        if self.pods.contains_key(uid) {
            return;
        }
        self.latest += 1;
        self.pods.insert(uid.clone(), self.latest);
        self.order.push_back((self.latest, uid.clone()));
        while self.pods.len() > MAX_STARTED || self.order.len() > 2 * MAX_STARTED {
            let Some((number, oldest)) = self.order.pop_front() else { return };
            if self.pods.get(&oldest) == Some(&number) {
                self.pods.remove(&oldest);
            }
        }
    }

    fn remove(&mut self, uid: &Arc<str>) -> bool {
        self.pods.remove(uid).is_some()
    }
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
mod tests {
    use kube_scheduler_api_types::{ConditionText, PodCondition};
    use kube_scheduler_engine::{PodRef, StatusPatch, Token};
    use kube_scheduler_framework::ObjectWrite;

    use super::*;

    const NOW: Timestamp = Timestamp::EPOCH;

    fn pod(name: &str) -> PodRef {
        PodRef { namespace: "x".into(), name: name.into(), uid: name.into() }
    }

    fn bind(name: &str) -> PodWrite {
        PodWrite::Bind { token: Token(1), pod: pod(name), node: "n".into() }
    }

    fn patch(name: &str, nominated: &str) -> PodWrite {
        let patch = StatusPatch {
            condition: None,
            nominated_node_name: Some(Some(nominated.into())),
            has_conditions: false,
        };
        PodWrite::Patch { pod: pod(name), patch, is_announcement: false }
    }

    #[test]
    fn bindings_overtake_patches_of_other_pods_only() {
        let mut lanes = Lanes::default();
        lanes.push(patch("a", "n1"), NOW);
        lanes.push(bind("a"), NOW);
        lanes.push(bind("b"), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")));
        assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is first");
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
        assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is under way");
        lanes.finish(&"a".into(), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
        lanes.finish(&"a".into(), NOW);
        lanes.finish(&"b".into(), NOW);
        assert!(lanes.is_empty());
    }

    fn claim(name: &str) -> PodWrite {
        let key = kube_scheduler_framework::ObjectKey {
            group: "resource.k8s.io".into(),
            kind: "ResourceClaim".into(),
            namespace: "x".into(),
            name: name.into(),
        };
        PodWrite::Object { token: Some(Token(1)), pod: pod(name), write: ObjectWrite::Get(key) }
    }

    fn announcement(name: &str, node: &str) -> PodWrite {
        let PodWrite::Patch { pod, patch, .. } = patch(name, node) else { panic!("no patch") };
        PodWrite::Patch { pod, patch, is_announcement: true }
    }

    #[test]
    fn a_binding_that_goes_on_is_not_announced() {
        let mut lanes = Lanes::default();
        lanes.push(announcement("a", "n"), NOW);
        lanes.push(claim("a"), NOW);
        let late = NOW + 2 * PATIENCE;
        lanes.wake(late);
        assert_eq!(lanes.pop(Urgency::Soon), None, "the claim comes first");
        assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
        lanes.go_on(&"a".into());
        lanes.finish(&"a".into(), late);
        assert_eq!((lanes.pop(Urgency::Soon), lanes.next_due()), (None, Some(late + PATIENCE)));
        lanes.push(bind("a"), late);
        lanes.wake(late + 2 * PATIENCE);
        assert_eq!(lanes.len(Urgency::Soon), 0);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
        lanes.finish(&"a".into(), late);
        assert!(lanes.is_empty());
        assert_eq!(lanes.next_due(), None);
    }

    #[test]
    fn a_binding_that_takes_long_is_announced() {
        let mut lanes = Lanes::default();
        lanes.push(announcement("a", "n"), NOW);
        lanes.push(announcement("a", "m"), NOW);
        lanes.wake(NOW);
        assert_eq!(lanes.peek(Urgency::Soon), None);
        assert_eq!(lanes.next_due(), Some(NOW + PATIENCE));
        lanes.wake(NOW + PATIENCE);
        assert_eq!((lanes.next_due(), lanes.len(Urgency::Soon)), (None, 1));
        assert_eq!(lanes.peek(Urgency::Soon), Some(&announcement("a", "m")));
        assert_eq!(lanes.pop(Urgency::Now), None);
        assert_eq!(lanes.pop(Urgency::Soon), Some(announcement("a", "m")));
        lanes.push(bind("a"), NOW);
        assert_eq!(lanes.pop(Urgency::Now), None, "one write at a time");
        lanes.finish(&"a".into(), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
    }

    #[test]
    fn a_binding_that_has_failed_is_not_announced() {
        let mut lanes = Lanes::default();
        lanes.push(announcement("a", "n"), NOW);
        lanes.withdraw_announcement(&"a".into());
        assert!(lanes.is_empty() && lanes.next_due().is_none());
        // What else the pod has to write stays.
        lanes.push(claim("a"), NOW);
        lanes.push(announcement("a", "n"), NOW);
        lanes.withdraw_announcement(&"a".into());
        lanes.push(patch("a", "elsewhere"), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
        lanes.finish(&"a".into(), NOW);
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "elsewhere")));
        lanes.finish(&"a".into(), NOW);
        assert!(lanes.is_empty());
    }

    #[test]
    fn an_announcement_that_the_server_wants_later_holds_nothing_up() {
        let mut lanes = Lanes::default();
        let due = NOW + 10 * PATIENCE;
        lanes.push(announcement("a", "n"), NOW);
        lanes.wake(NOW + PATIENCE);
        let write = lanes.pop(Urgency::Soon).unwrap();
        assert_eq!(lanes.defer(write, due, 2), None);
        assert_eq!(lanes.next_due(), Some(due));
        lanes.push(claim("a"), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
        lanes.finish(&"a".into(), due);
        lanes.wake(due + PATIENCE);
        let write = lanes.pop(Urgency::Soon).unwrap();
        lanes.push(bind("a"), NOW);
        assert_eq!(lanes.defer(write, due, 2), None);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
        lanes.finish(&"a".into(), NOW);
        assert!(lanes.is_empty() && lanes.next_due().is_none());
        // Nor is it written again after the binding has failed meanwhile.
        lanes.push(announcement("a", "n"), NOW);
        let write = lanes.pop(Urgency::Soon).unwrap();
        lanes.withdraw_announcement(&"a".into());
        assert_eq!(lanes.defer(write, due, 2), None);
        assert!(lanes.is_empty() && lanes.next_due().is_none());
    }

    #[test]
    fn a_binding_that_has_started_goes_before_those_that_start() {
        let mut lanes = Lanes::default();
        for name in ["a", "b", "c"] {
            lanes.push(claim(name), NOW);
        }
        lanes.push(bind("plain"), NOW);
        for name in ["a", "b"] {
            assert_eq!(lanes.pop(Urgency::Now), Some(claim(name)));
        }
        for name in ["b", "a"] {
            lanes.go_on(&name.into());
            lanes.finish(&name.into(), NOW);
        }
        for name in ["b", "a"] {
            lanes.push(bind(name), NOW);
        }
        assert_eq!(lanes.len(Urgency::Now), 4);
        for write in [bind("b"), bind("a"), claim("c"), bind("plain")] {
            assert_eq!(lanes.peek(Urgency::Now), Some(&write));
            assert_eq!(lanes.pop(Urgency::Now), Some(write));
        }
        // A binding that starts has to wait.
        lanes.finish(&"a".into(), NOW);
        lanes.push(bind("d"), NOW);
        lanes.push(bind("a"), NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("d")));
    }

    #[test]
    fn bindings_that_were_given_up_do_not_pile_up() {
        let mut started = Started::default();
        for i in 0..3 * MAX_STARTED {
            started.insert(&i.to_string().into());
        }
        assert_eq!((started.pods.len(), started.order.len()), (MAX_STARTED, MAX_STARTED));
        assert!(started.remove(&(3 * MAX_STARTED - 1).to_string().into()));
        assert!(!started.remove(&"0".into()));
        // So do those that started and went on, although there are few pods.
        for _ in 0..3 * MAX_STARTED {
            started.insert(&"a".into());
            assert!(started.remove(&"a".into()));
        }
        assert!(started.order.len() <= 2 * MAX_STARTED);
    }

    #[test]
    fn a_pod_that_starts_again_is_not_forgotten_for_its_first_start() {
        let mut started = Started::default();
        let again: Arc<str> = "again".into();
        started.insert(&again);
        assert!(started.remove(&again));
        (0..MAX_STARTED - 1).for_each(|i| started.insert(&i.to_string().into()));
        started.insert(&again);
        // The entry of the first start goes, then the oldest pod.
        started.insert(&"one more".into());
        assert!(!started.remove(&"0".into()));
        assert!(started.remove(&again));
    }

    #[test]
    fn what_takes_back_does_not_go_before_bindings() {
        let mut lanes = Lanes::default();
        lanes.push(bind("plain"), NOW);
        lanes.go_on(&"a".into());
        let PodWrite::Object { pod, write, .. } = claim("a") else { panic!("no object") };
        lanes.push(PodWrite::Object { token: None, pod, write }, NOW);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("plain")));
        lanes.push(bind("b"), NOW);
        assert!(lanes.pop(Urgency::Now).is_some());
        lanes.finish(&"a".into(), NOW);
        lanes.push(bind("a"), NOW);
        assert_eq!(
            lanes.pop(Urgency::Now),
            Some(bind("b")),
            "the next binding of a starts from the beginning"
        );
    }

    #[test]
    fn conditions_of_different_kinds_stay_apart() {
        let condition = |kind: &str| {
            let condition = PodCondition {
                text: Arc::new(ConditionText {
                    kind: kind.into(),
                    status: "True".into(),
                    ..ConditionText::default()
                }),
                last_transition: None,
            };
            let patch = StatusPatch {
                condition: Some(condition),
                nominated_node_name: None,
                has_conditions: false,
            };
            PodWrite::Patch { pod: pod("a"), patch, is_announcement: false }
        };
        let mut lanes = Lanes::default();
        lanes.push(condition("DisruptionTarget"), NOW);
        lanes.push(condition("PodScheduled"), NOW);
        for kind in ["DisruptionTarget", "PodScheduled"] {
            assert_eq!(lanes.pop(Urgency::Soon), Some(condition(kind)));
            lanes.finish(&"a".into(), NOW);
        }
    }

    #[test]
    fn what_the_server_wants_later_keeps_its_place() {
        let mut lanes = Lanes::default();
        let start = Timestamp::EPOCH;
        let due = start + std::time::Duration::from_secs(1);
        lanes.push(bind("a"), NOW);
        lanes.push(patch("a", "n1"), NOW);
        lanes.push(bind("b"), NOW);
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(lanes.defer(write, due, 2), None);
        lanes.wake(start);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")), "others go on");
        assert_eq!(lanes.pop(Urgency::Now), None);
        assert_eq!(lanes.pop(Urgency::Soon), None, "the pod's later writes wait with it");
        assert_eq!(lanes.next_due(), Some(due));
        lanes.push(bind("c"), NOW);
        lanes.wake(due);
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(write, bind("a"), "before those that came later");
        assert_eq!(lanes.defer(write, due, 2), None);
        lanes.wake(due);
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(lanes.defer(write, due, 2), Some(bind("a")), "the server asked too often");
        lanes.finish(&"a".into(), NOW);
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
        for pod in ["a", "b"] {
            lanes.finish(&pod.into(), NOW);
        }
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("c")));
        lanes.finish(&"c".into(), NOW);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_newer_patch_takes_the_place_of_one_that_was_deferred() {
        let mut lanes = Lanes::default();
        let now = Timestamp::EPOCH;
        lanes.push(patch("a", "n1"), NOW);
        let write = lanes.pop(Urgency::Soon).unwrap();
        lanes.push(patch("a", "n2"), NOW);
        assert_eq!(lanes.defer(write, now, 2), None);
        lanes.wake(now);
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
        lanes.finish(&"a".into(), NOW);
        assert!(lanes.is_empty());
    }

    #[test]
    fn patches_that_wait_are_one() {
        let mut lanes = Lanes::default();
        lanes.push(patch("a", "n1"), NOW);
        lanes.push(patch("a", "n2"), NOW);
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
        lanes.push(patch("a", "n3"), NOW);
        lanes.push(patch("a", "n4"), NOW);
        lanes.finish(&"a".into(), NOW);
        assert_eq!(
            lanes.pop(Urgency::Soon),
            Some(patch("a", "n4")),
            "what was under way is not touched"
        );
        lanes.finish(&"a".into(), NOW);
        assert!(lanes.is_empty());
    }
}
