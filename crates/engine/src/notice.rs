//! What the engine reports to a shell that writes a log.
//!
//! Invariant: unless a shell asks for it, nothing is kept, and nothing is allocated.

use std::sync::Arc;

use kube_scheduler_framework::PluginName;
use kube_scheduler_queue::{EventLabel, QueueName};

use crate::effect::PodRef;

/// From this verbosity on, there are notices of what the queue does.
pub(crate) const QUEUE_REPORTS_FROM: u8 = 3;

/// What became of a victim of preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimEnd {
    /// It was deleted, or is on its way out.
    Evicted,
    /// There was no such pod any more.
    AlreadyGone,
    /// It waited on Permit, and was rejected.
    RejectedOnPermit,
    /// It was in PreBind, and was rejected.
    RejectedInPreBind,
    /// It was being deleted before, so there is nothing to do.
    Terminating,
}

/// What rejected a pod that had a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionStage {
    /// A Reserve or Permit plugin.
    BeforeBinding,
    /// A PreBind plugin.
    PreBind,
    /// A Bind plugin.
    Bind,
}

/// Something worth a line in the log (`docs/spec/observability.md` §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A pod came into a queue.
    PodMoved {
        /// Which pod.
        pod: PodRef,
        /// Why.
        event: EventLabel,
        /// Where to.
        queue: QueueName,
        /// What the events that it missed meant for it, after a failed attempt.
        hint: Option<&'static str>,
        /// Whether a gate held it on its way to another queue.
        is_gated: bool,
        /// Whether a change of the pod itself moved it.
        is_update: bool,
        /// The plugins that reject it.
        rejectors: Vec<PluginName>,
    },
    /// An event leaves an unschedulable pod where it is.
    EventDoesNotHelp {
        /// Which pod.
        pod: PodRef,
        /// Which event.
        event: EventLabel,
    },
    /// An event came while attempts were under way, and will be looked at again should they fail.
    EventSeenInFlight(EventLabel),
    /// A gate holds a pod back.
    Gated {
        /// Which pod.
        pod: PodRef,
        /// The plugin.
        plugin: PluginName,
        /// Why.
        status: String,
    },
    /// A plugin rejected a pod that had a node.
    RejectedByPlugin {
        /// Which pod.
        pod: PodRef,
        /// The node.
        node: Arc<str>,
        /// The plugin.
        plugin: PluginName,
        /// At which point.
        at: RejectionStage,
        /// Why.
        status: String,
    },
    /// PreFilter rejected a pod.
    PreFilterEnded {
        /// Which pod.
        pod: PodRef,
        /// What it said.
        status: String,
    },
    /// PostFilter was asked.
    PostFilterEnded {
        /// For which pod.
        pod: PodRef,
        /// What it said.
        status: String,
    },
    /// Permit plugins make a pod wait.
    WaitsOnPermit(PodRef),
    /// A pod that waited on Permit was rejected.
    RejectedOnPermit {
        /// Which pod.
        pod: PodRef,
        /// Why.
        status: String,
    },
    /// A pod is bound.
    Bound {
        /// Which pod.
        pod: PodRef,
        /// To which node.
        node: Arc<str>,
        /// The number of nodes that were looked at.
        n_evaluated: usize,
        /// The number of those that fit.
        n_feasible: usize,
    },
    /// A preemption begins in the background.
    PreemptionStarted {
        /// The pod that needs room.
        preemptor: PodRef,
        /// Where.
        node: Arc<str>,
        /// The number of pods that have to go.
        n_victims: usize,
        /// The number of those that are not going yet.
        n_to_delete: usize,
    },
    /// A victim of preemption is out of the way.
    VictimGone {
        /// What needs room: `pod` or `podgroup`.
        preemptor_type: &'static str,
        /// The pod or pod group that needs room.
        preemptor: PodRef,
        /// The pod that made room.
        victim: PodRef,
        /// Where.
        node: Arc<str>,
        /// How.
        end: VictimEnd,
    },
    /// A preemption in the background is over.
    PreemptionEnded {
        /// The pod that needs room.
        preemptor: PodRef,
        /// Where.
        node: Arc<str>,
        /// Whether a write failed.
        is_error: bool,
    },
}

/// The notices that the shell has not fetched yet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Which notices are kept, as the log's verbosity; with 0 none.
    pub(crate) verbosity: u8,
    pub(crate) waiting: Vec<Notice>,
}

impl Notices {
    /// Whether the queue has to report what it does.
    pub(crate) const fn wants_queue_reports(&self) -> bool {
        self.verbosity >= QUEUE_REPORTS_FROM
    }

    /// Keeps a notice if the log shows lines of this verbosity; otherwise it is not even made.
    #[inline]
    pub(crate) fn add(&mut self, verbosity: u8, notice: impl FnOnce() -> Notice) {
        if self.verbosity >= verbosity {
            self.waiting.push(notice());
        }
    }
}
