//! Filters on a node that other pods are nominated to.
//!
//! Behaviour: `docs/spec/core.md` §10.6.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::{ReadSet, Reads};
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::{CycleState, NodeView, PreFilterExtensions, Status};
use smallvec::SmallVec;

use super::{PodChange, Runner, SumsFilters, ok};
use crate::reads::EvaluationReads;
use crate::skip_set::SkipSet;

impl Runner<'_> {
    /// The pods nominated to a node that `pod` must leave room for: others that are at least as important.
    pub(crate) fn nominated_that_count(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let mut nominated = self.cx.nominated.nominated_pods(node);
        nominated.retain(|other| must_leave_room(pod, other));
        nominated
    }

    /// All filters on one node with pods nominated to it taken into account (`docs/spec/core.md` §10.6).
    ///
    /// `overlay` holds hypothetical changes to start from; pass an empty one for the node as it is.
    pub fn filter_with_nominated_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
    ) -> Status {
        let filter =
            |state: &CycleState, view: &NodeView<'_>| ok(self.filter(state, pod, view, skip));
        let asked = self.with_and_without_nominated_pods(state, pod, overlay, skip, filter);
        asked.err().unwrap_or(Status::SUCCESS)
    }

    /// Calls `ask` about the node with the nominated pods that count, if there are any, and then about the node without
    /// them, until it fails. An error of a plugin that is notified of these pods is a failure, too.
    pub(super) fn with_and_without_nominated_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        skip: &SkipSet,
        mut ask: impl FnMut(&CycleState, &NodeView<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let Some(plain) = NodeView::hypothetical(self.cx.cluster, overlay) else {
            return Ok(());
        };
        let counted = self.nominated_that_count(pod, plain.name());
        if !counted.is_empty() {
            self.with_pods(state, pod, overlay, &counted, skip, &mut ask)?;
        }
        ask(state, &plain)
    }

    /// Calls `ask` about the node with these pods added.
    fn with_pods(
        &self,
        state: &CycleState,
        pod: &Pod,
        overlay: &NodeOverlay,
        others: &[Arc<Pod>],
        skip: &SkipSet,
        ask: &mut impl FnMut(&CycleState, &NodeView<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut with_them = overlay.clone();
        let mut state = state.clone();
        for other in others {
            with_them.add_pod(self.cx.cluster, other);
            let change = PodChange::Added;
            let status = self.pod_changed(change, &mut state, pod, other, &with_them, skip);
            if !status.is_success() {
                let text = status.error_text().unwrap_or_default();
                return Err(Status::error(text));
            }
        }
        match NodeView::hypothetical(self.cx.cluster, &with_them) {
            Some(view) => ask(&state, &view),
            None => Ok(()),
        }
    }
}

/// The filters of a profile for one pod, to be asked about nodes with the pods that are nominated to them, where it is known what they
/// say without these pods.
///
/// Any tenant's pods may be nominated to thousands of nodes, and each pod of others that is unlike the ones before is asked about there.
/// So a node is asked by sums where that is enough, and where it fits as it is, filters that read nothing of its pods are left out.
///
/// Invariant: where the answer is success, the node's answer is the one without the pods; else it is what
/// [`Runner::filter_with_nominated_pods`] says.
pub struct NominatedFilters<'a> {
    runner: Runner<'a>,
    state: &'a CycleState,
    pod: &'a Pod,
    skip: &'a SkipSet,
    following: SmallVec<[&'a dyn PreFilterExtensions; 4]>,
    /// All filters, and those that may say something else of a node that fits without the pods.
    all: SumsFilters<'a>,
    of_fitting: SumsFilters<'a>,
}

impl<'a> NominatedFilters<'a> {
    /// `skip` are the plugins left out, `state` is what PreFilter left behind, `known` is what all filters read when they were asked about
    /// nodes as they are.
    pub fn new(
        runner: Runner<'a>,
        state: &'a CycleState,
        pod: &'a Pod,
        skip: &'a SkipSet,
        known: &EvaluationReads,
    ) -> Self {
        let pre_filters = runner.profile.pre_filter().filter(|(idx, ..)| !skip.contains(*idx));
        let following = pre_filters.filter_map(|(.., plugin)| plugin.extensions()).collect();
        let mut apart = skip.clone();
        for (idx, ..) in runner.profile.filter() {
            let reads = known.of_plugin(idx).map(|reads| reads.per_node.get());
            if reads.is_some_and(Reads::are_apart_from_pods) {
                apart.insert(idx);
            }
        }
        let all = SumsFilters::unfollowed(runner, state, pod, skip);
        let of_fitting = SumsFilters::unfollowed(runner, state, pod, &apart);
        Self { runner, state, pod, skip, following, all, of_fitting }
    }

    /// What the filters say about a node with `others` added; `fits` if it does without them. Also what was read for that, unless
    /// single pods were.
    pub fn filter_with(
        &mut self,
        node: NodeIdx,
        others: &[Arc<Pod>],
        fits: bool,
    ) -> (Status, Option<Reads>) {
        let noted = ReadSet::new();
        if !others.iter().any(|other| self.is_concerned(other, &noted)) {
            let sums = if fits { &mut self.of_fitting } else { &mut self.all };
            if let Some(status) = sums.filter_with(node, others.iter().map(|other| &**other)) {
                return (status, Some(sums.reads().union(noted.get())));
            }
        }
        let Self { runner, state, pod, skip, .. } = self;
        let mut ask =
            |state: &CycleState, view: &NodeView<'_>| ok(runner.filter(state, pod, view, skip));
        let overlay = NodeOverlay::new(node);
        let asked = runner.with_pods(state, pod, &overlay, others, skip, &mut ask);
        (asked.err().unwrap_or(Status::SUCCESS), None)
    }

    /// Whether a plugin that follows single pods has to be notified of `other`.
    fn is_concerned(&self, other: &Pod, noted: &ReadSet) -> bool {
        let cx = self.runner.cx.recorded_by(noted);
        self.following.iter().any(|plugin| plugin.concerns(&cx, self.state, self.pod, other))
    }
}

impl std::fmt::Debug for NominatedFilters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NominatedFilters").field("all", &self.all).finish_non_exhaustive()
    }
}

/// Whether `pod` must leave room for `other`, where that one is nominated: it is another one and at least as important.
pub fn must_leave_room(pod: &Pod, other: &Pod) -> bool {
    other.priority() >= pod.priority() && other.uid != pod.uid
}
