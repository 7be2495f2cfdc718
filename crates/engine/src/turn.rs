//! What one turn of the scheduling loop did.

use std::sync::Arc;

use kube_scheduler_queue::QueuedPod;

use crate::effect::PodRef;
use crate::policy::Entry;

/// How an attempt ended, as far as the scheduling cycle goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AttemptResult {
    /// A node was found and the pod assumed there; binding is under way.
    Assumed(Arc<str>),
    /// The pod fits nowhere; the text of the event and the condition.
    Unschedulable(String),
    /// Something failed.
    Error(String),
    /// The pod need not be scheduled any more: it is being deleted, or placed already.
    #[default]
    Skipped,
}

/// One attempt at one pod, as [`Engine::schedule_next`](crate::Engine::schedule_next) reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The pod that was tried.
    pub pod: PodRef,
    /// The profile that the pod belongs to.
    pub profile: Arc<str>,
    /// How the attempt ended.
    pub result: AttemptResult,
    /// The attempt's number, from 1 on.
    pub attempts: u32,
    /// How many nodes passed the filters.
    pub n_feasible: usize,
    /// How many nodes were looked at.
    pub n_evaluated: usize,
    /// The node that was chosen, if one was; the pod went there unless a recorded decision was followed, or a plugin
    /// objected afterwards.
    pub chosen: Option<Arc<str>>,
    /// What the attempt costs at most, in units of work: comparisons, table entries and slots of columns. An attempt that may
    /// cost more than [`WorkLimits`](crate::WorkLimits) allow was not made.
    pub work: u64,
    /// The group cycle that the turn was, if the pod belongs to a group; all else is about the pod itself.
    pub group: Option<GroupTurn>,
}

impl Turn {
    /// How it ended for each pod that was tried: for the members of the group, or for the one pod.
    pub fn into_results(self) -> Vec<(PodRef, AttemptResult)> {
        match self.group {
            Some(group) => group.members,
            None => vec![(self.pod, self.result)],
        }
    }
}

/// What a turn did for a group of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTurn {
    /// Name of the group, in the pod's namespace.
    pub name: Arc<str>,
    /// The members that were taken out of the queue, in the order in which they were tried, and how it ended for each. Those
    /// that need not be tried (that are being deleted, or are assumed) are left out.
    pub members: Vec<(PodRef, AttemptResult)>,
}

impl Turn {
    /// A turn that has not decided anything yet.
    pub(crate) fn new(queued: &QueuedPod<Entry>) -> Self {
        let pod = &*queued.entry().0;
        Self {
            pod: PodRef::from(pod),
            profile: pod.spec.scheduler_name.clone(),
            attempts: queued.attempts(),
            ..Self::default()
        }
    }
}
