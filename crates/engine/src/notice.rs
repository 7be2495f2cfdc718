//! What the engine tells a shell that writes a log.
//!
//! Invariant: unless a shell asks for it, nothing is kept, and nothing is allocated.

use std::sync::Arc;

use kube_scheduler_framework::PluginName;
use kube_scheduler_queue::{EventLabel, Queue};

use crate::effect::PodRef;

/// From this verbosity on, moves of pods between queues are told.
const MOVES_FROM: u8 = 3;

/// What became of a victim of preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimEnd {
    /// It was deleted, or is on its way out.
    Evicted,
    /// There was no such pod any more.
    AlreadyGone,
    /// It was on its way to its node, and was turned back.
    TurnedBack,
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
        queue: Queue,
        /// What the events that it missed meant for it, after a failed attempt.
        hint: Option<&'static str>,
        /// Whether a gate held it, on its way to another queue.
        is_gated: bool,
        /// The plugins that reject it.
        rejectors: Vec<PluginName>,
    },
    /// Reserve or Permit turned a pod down.
    RejectedByPlugin {
        /// Which pod.
        pod: PodRef,
        /// The plugin.
        plugin: PluginName,
        /// Why.
        status: String,
    },
    /// PreFilter turned a pod down.
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
    /// Plugins made a pod wait on Permit.
    WaitsOnPermit(PodRef),
    /// A pod that waited on Permit was turned down.
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
        /// The pod that needs room.
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
    verbosity: u8,
    waiting: Vec<Notice>,
}

impl Notices {
    /// How much the shell wants to know, as the log's verbosity.
    pub(crate) fn set_verbosity(&mut self, verbosity: u8) {
        self.verbosity = verbosity;
    }

    /// Whether moves between queues are wanted.
    pub(crate) const fn wants_moves(&self) -> bool {
        self.verbosity >= MOVES_FROM
    }

    /// Keeps a notice, if lines of this verbosity are wanted.
    pub(crate) fn add(&mut self, verbosity: u8, notice: impl FnOnce() -> Notice) {
        if self.verbosity >= verbosity {
            self.waiting.push(notice());
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.waiting)
    }
}
