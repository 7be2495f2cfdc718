//! What waits to be written about pods: one pod's writes in order, different pods' by urgency.
//!
//! Invariants: a pod has at most one write under way; its writes start in the order in which they came in; patches of one
//! pod's status that wait are one per kind of condition; among pods whose turn it is, bindings and evictions go before
//! status patches, and each class is first come, first served.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_engine::{PodRef, StatusPatch, Token};
use tokio::time::Instant;

/// A write to a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PodWrite {
    Bind {
        token: Token,
        pod: PodRef,
        node: Arc<str>,
    },
    /// Mark a victim of preemption, then delete it.
    Evict {
        token: Token,
        pod: PodRef,
        patch: Option<StatusPatch>,
    },
    /// Take a nomination away.
    ClearNomination {
        token: Token,
        pod: PodRef,
    },
    Patch {
        pod: PodRef,
        patch: StatusPatch,
    },
    /// Something else that the pod's binding waits for.
    Object {
        token: Token,
        pod: PodRef,
        object: Arc<Object>,
    },
}

impl PodWrite {
    pub(crate) const fn pod(&self) -> &PodRef {
        match self {
            Self::Bind { pod, .. }
            | Self::Evict { pod, .. }
            | Self::ClearNomination { pod, .. }
            | Self::Patch { pod, .. }
            | Self::Object { pod, .. } => pod,
        }
    }

    /// The HTTP method of its request, or of the last one.
    pub(crate) const fn method(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "POST",
            Self::Evict { .. } => "DELETE",
            Self::ClearNomination { .. } | Self::Patch { .. } => "PATCH",
            Self::Object { .. } => "PUT",
        }
    }

    /// What the reference calls it where it dispatches calls asynchronously.
    pub(crate) const fn async_call_type(&self) -> Option<&'static str> {
        match self {
            Self::Bind { .. } => Some("pod_binding"),
            Self::Patch { .. } | Self::ClearNomination { .. } => Some("pod_status_patch"),
            Self::Evict { .. } | Self::Object { .. } => None,
        }
    }

    pub(crate) const fn urgency(&self) -> Urgency {
        match self {
            Self::Bind { .. }
            | Self::Evict { .. }
            | Self::ClearNomination { .. }
            | Self::Object { .. } => Urgency::Now,
            Self::Patch { .. } => Urgency::Soon,
        }
    }
}

/// Which writes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Pods wait for it.
    Now,
    /// People wait for it.
    Soon,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<PodWrite>,
    is_busy: bool,
    /// How often the server asked for patience with the write that is under way or comes next.
    n_asked: u32,
}

/// All pods' writes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// By uid. Looked up only, never walked through.
    lanes: HashMap<Arc<str>, Lane>,
    now: VecDeque<Arc<str>>,
    soon: VecDeque<Arc<str>>,
    /// Pods whose write comes again, by when; the number keeps those of the same moment apart.
    delayed: BTreeMap<(Instant, u64), Arc<str>>,
    n_delayed: u64,
}

impl Lanes {
    /// Adds a write behind the others of its pod.
    pub(crate) fn push(&mut self, write: PodWrite) {
        let uid = write.pod().uid.clone();
        let lane = self.lanes.entry(uid.clone()).or_default();
        if let (PodWrite::Patch { patch, .. }, Some(PodWrite::Patch { patch: waiting, .. })) =
            (&write, lane.waiting.back_mut())
            && waiting.absorb(patch)
        {
            return;
        }
        lane.waiting.push_back(write);
        if !lane.is_busy && lane.waiting.len() == 1 {
            self.announce(uid, false);
        }
    }

    /// The next write of this urgency. [`finish`](Self::finish) must follow.
    pub(crate) fn pop(&mut self, urgency: Urgency) -> Option<PodWrite> {
        let uid = match urgency {
            Urgency::Now => self.now.pop_front(),
            Urgency::Soon => self.soon.pop_front(),
        }?;
        let lane = self.lanes.get_mut(&uid)?;
        lane.is_busy = true;
        lane.waiting.pop_front()
    }

    /// A pod's write has ended; its next one may start.
    pub(crate) fn finish(&mut self, uid: &Arc<str>) {
        let Some(lane) = self.lanes.get_mut(uid) else { return };
        lane.is_busy = false;
        lane.n_asked = 0;
        if lane.waiting.is_empty() {
            self.lanes.remove(uid);
        } else {
            self.announce(uid.clone(), false);
        }
    }

    /// The server asked for patience with a pod's write: it comes first again at `due`, instead of
    /// [`finish`](Self::finish). Gives the write back if the server asked more than `max_asked` times.
    pub(crate) fn put_back(
        &mut self,
        write: PodWrite,
        due: Instant,
        max_asked: u32,
    ) -> Option<PodWrite> {
        let uid = write.pod().uid.clone();
        let lane = self.lanes.entry(uid.clone()).or_default();
        lane.n_asked += 1;
        if lane.n_asked > max_asked {
            return Some(write);
        }
        // What was told meanwhile is newer.
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
        self.n_delayed += 1;
        self.delayed.insert((due, self.n_delayed), uid);
        None
    }

    /// Lets the writes go on whose time has come.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let uid = first.remove();
            if let Some(lane) = self.lanes.get_mut(&uid) {
                lane.is_busy = false;
            }
            self.announce(uid, true);
        }
    }

    /// When the next write comes again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    /// How many pods have a write of this urgency that could start.
    pub(crate) fn len(&self, urgency: Urgency) -> usize {
        match urgency {
            Urgency::Now => self.now.len(),
            Urgency::Soon => self.soon.len(),
        }
    }

    /// The next write of this urgency, to look at.
    pub(crate) fn peek(&self, urgency: Urgency) -> Option<&PodWrite> {
        let uid = match urgency {
            Urgency::Now => self.now.front(),
            Urgency::Soon => self.soon.front(),
        }?;
        self.lanes.get(uid)?.waiting.front()
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Puts a pod in line for its next write; at the head if it had its turn before.
    fn announce(&mut self, uid: Arc<str>, is_again: bool) {
        let Some(urgency) =
            self.lanes.get(&uid).and_then(|lane| lane.waiting.front()).map(PodWrite::urgency)
        else {
            return;
        };
        let line = match urgency {
            Urgency::Now => &mut self.now,
            Urgency::Soon => &mut self.soon,
        };
        if is_again {
            line.push_front(uid);
        } else {
            line.push_back(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::{ConditionText, PodCondition};

    use super::*;

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
        PodWrite::Patch { pod: pod(name), patch }
    }

    #[test]
    fn bindings_overtake_patches_of_other_pods_only() {
        let mut lanes = Lanes::default();
        lanes.push(patch("a", "n1"));
        lanes.push(bind("a"));
        lanes.push(bind("b"));
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")));
        assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is first");
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
        assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is under way");
        lanes.finish(&"a".into());
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
        lanes.finish(&"a".into());
        lanes.finish(&"b".into());
        assert!(lanes.is_empty());
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
            PodWrite::Patch { pod: pod("a"), patch }
        };
        let mut lanes = Lanes::default();
        lanes.push(condition("DisruptionTarget"));
        lanes.push(condition("PodScheduled"));
        for kind in ["DisruptionTarget", "PodScheduled"] {
            assert_eq!(lanes.pop(Urgency::Soon), Some(condition(kind)));
            lanes.finish(&"a".into());
        }
    }

    #[test]
    fn what_the_server_wants_later_keeps_its_place() {
        let mut lanes = Lanes::default();
        let start = Instant::now();
        let due = start + std::time::Duration::from_secs(1);
        lanes.push(bind("a"));
        lanes.push(patch("a", "n1"));
        lanes.push(bind("b"));
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(lanes.put_back(write, due, 2), None);
        lanes.wake(start);
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")), "others go on");
        assert_eq!(lanes.pop(Urgency::Now), None);
        assert_eq!(lanes.pop(Urgency::Soon), None, "the pod's later writes wait with it");
        assert_eq!(lanes.next_due(), Some(due));
        lanes.push(bind("c"));
        lanes.wake(due);
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(write, bind("a"), "before those that came later");
        assert_eq!(lanes.put_back(write, due, 2), None);
        lanes.wake(due);
        let write = lanes.pop(Urgency::Now).unwrap();
        assert_eq!(lanes.put_back(write, due, 2), Some(bind("a")), "there is an end to patience");
        lanes.finish(&"a".into());
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
        for pod in ["a", "b"] {
            lanes.finish(&pod.into());
        }
        assert_eq!(lanes.pop(Urgency::Now), Some(bind("c")));
        lanes.finish(&"c".into());
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_newer_patch_takes_the_place_of_one_that_was_put_back() {
        let mut lanes = Lanes::default();
        let now = Instant::now();
        lanes.push(patch("a", "n1"));
        let write = lanes.pop(Urgency::Soon).unwrap();
        lanes.push(patch("a", "n2"));
        assert_eq!(lanes.put_back(write, now, 2), None);
        lanes.wake(now);
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
        lanes.finish(&"a".into());
        assert!(lanes.is_empty());
    }

    #[test]
    fn patches_that_wait_are_one() {
        let mut lanes = Lanes::default();
        lanes.push(patch("a", "n1"));
        lanes.push(patch("a", "n2"));
        assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
        lanes.push(patch("a", "n3"));
        lanes.push(patch("a", "n4"));
        lanes.finish(&"a".into());
        assert_eq!(
            lanes.pop(Urgency::Soon),
            Some(patch("a", "n4")),
            "what was under way is not touched"
        );
        lanes.finish(&"a".into());
        assert!(lanes.is_empty());
    }
}
