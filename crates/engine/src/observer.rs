//! Reports the steps of a search while it goes on, so that a caller with a clock can measure them.
//!
//! Invariant: nothing that an observer does can change what is decided.

use std::cell::RefCell;
use std::sync::Arc;

use crate::effect::PodRef;
use crate::evaluation::NodeScores;
use crate::group::report::GroupReport;

/// A step of one pod's search for a node (`docs/spec/observability.md` §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchStep {
    /// The search begins.
    Started,
    /// It is known which nodes fit, if any.
    NodesFiltered,
    /// The nodes that fit are scored and one is chosen; not reported when there was no choice.
    NodesScored,
    /// The search is over, well or not. What PostFilter does comes after.
    Ended,
}

/// Is notified of the steps and scores of searches while they go on. What it does changes no decision.
pub trait Observer {
    /// A step has just been reached. Called up to four times per attempt.
    fn reached(&mut self, pod: &PodRef, step: SearchStep);

    /// Whether [`scored`](Self::scored) is worth computing.
    fn wants_scores(&self) -> bool {
        false
    }

    /// What the Score plugins gave to the nodes that fit, in the order in which those were looked at. Called when there is a
    /// choice of at least two nodes, and Score plugins that make it.
    fn scored(&mut self, pod: &PodRef, nodes: &[(Arc<str>, NodeScores)]) {
        let _ = (pod, nodes);
    }

    /// Whether [`group_decided`](Self::group_decided) wants to see every placement and member that was tried.
    fn wants_group_attempts(&self) -> bool {
        true
    }

    /// What a group cycle found, when it is decided what happens to the members and before anything is done. The steps and
    /// scores of single members are reported besides, as they are reached. Not called when the cycle does not start, as
    /// when no member is left to be tried.
    fn group_decided(&mut self, report: &GroupReport) {
        let _ = report;
    }

    /// The pods that are going to be evicted, most important first, and those of them that are going already. `target` is
    /// the node, or `cluster` when `preemptor` is a PodGroup.
    fn preempting(&mut self, preemptor: &PodRef, target: &str, victims: &[PodRef]) {
        let _ = (preemptor, target, victims);
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn reached(&mut self, _: &PodRef, _: SearchStep) {}

    fn wants_group_attempts(&self) -> bool {
        false
    }
}

/// One search being watched.
pub(crate) struct ObservedSearch<'o> {
    pod: &'o PodRef,
    observer: RefCell<(&'o mut dyn Observer, bool)>,
}

impl<'o> ObservedSearch<'o> {
    pub(crate) fn new(pod: &'o PodRef, observer: &'o mut dyn Observer) -> Self {
        Self { pod, observer: RefCell::new((observer, false)) }
    }

    /// Reports a step; nothing is reported after the end.
    pub(crate) fn reached(&self, step: SearchStep) {
        let mut observer = self.observer.borrow_mut();
        if !observer.1 {
            observer.1 = step == SearchStep::Ended;
            observer.0.reached(self.pod, step);
        }
    }

    pub(crate) fn wants_scores(&self) -> bool {
        self.observer.borrow().0.wants_scores()
    }

    pub(crate) fn scored(&self, nodes: &[(Arc<str>, NodeScores)]) {
        self.observer.borrow_mut().0.scored(self.pod, nodes);
    }
}
