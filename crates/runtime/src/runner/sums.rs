//! Dry runs on sums: would the pod fit if some of a node's pods were gone?
//!
//! Preemption tries hundreds of nodes for one pod. Usually the filters read only the sum of what a node's pods request, and no
//! plugin keeps state about single pods. Then a node can be tried without copying its list of pods or the plugins' state, and
//! after a pod is put back only the filters that read sums are asked again: the others accepted the node, and their answer
//! cannot have changed. A trial in which a filter reads single pods gives no answer.
//!
//! Invariant: the answers are those of [`Runner::filter_with_nominated_pods`] on an overlay with the same pods.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::{ReadSet, Reads};
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::{CycleState, Filter, NodeView, PluginName, Status};
use smallvec::SmallVec;

use super::{Runner, filter_failure};
use crate::meter::MeteredPoint;
use crate::profile::PluginIdx;
use crate::skip_set::SkipSet;

/// All filters of a profile for one pod, to be asked about nodes of which only the sums are changed.
pub struct SumsFilters<'a> {
    runner: Runner<'a>,
    state: &'a CycleState,
    pod: &'a Pod,
    filters: SmallVec<[SumsFilter<'a>; 8]>,
    has_nominated_pods: bool,
    /// The node that is tried, with some of its pods gone as far as sums go: with the nominated pods that count, if there are any, and
    /// without; none before the first trial.
    overlays: SmallVec<[NodeOverlay; 2]>,
    /// What each filter has read here or on nodes before: noting a thing for the first time takes longer than reading it, and
    /// most nodes are read alike.
    reads: SmallVec<[ReadSet; 8]>,
}

/// What filters say about a node of which only the sums are changed.
enum Verdict<'a> {
    Accepted,
    /// The first filter that does not accept, and what it says.
    Refused(&'a PluginName, Status),
    /// A filter has read single pods.
    Unknown,
}

/// As [`Profile::filter`](crate::profile::Profile::filter) gives them.
type SumsFilter<'a> = (PluginIdx, &'a PluginName, &'a dyn Filter);

impl<'a> SumsFilters<'a> {
    /// `None` when a plugin's state follows single pods. `skip` are the plugins left out, `state` is what PreFilter left
    /// behind.
    pub fn new(
        runner: Runner<'a>,
        state: &'a CycleState,
        pod: &'a Pod,
        skip: &SkipSet,
    ) -> Option<Self> {
        let counts = |idx: PluginIdx| !skip.contains(idx);
        let mut pre_filters = runner.profile.pre_filter();
        if pre_filters.any(|(idx, _, plugin)| counts(idx) && plugin.extensions().is_some()) {
            return None;
        }
        Some(Self::unfollowed(runner, state, pod, skip))
    }

    /// As [`new`](Self::new), to be asked about changes that concern no plugin which follows single pods.
    pub(super) fn unfollowed(
        runner: Runner<'a>,
        state: &'a CycleState,
        pod: &'a Pod,
        skip: &SkipSet,
    ) -> Self {
        let counts = |idx: PluginIdx| !skip.contains(idx);
        let filters = runner.profile.filter().filter(|(idx, ..)| counts(*idx)).collect();
        let has_nominated_pods = runner.cx.nominated.has_nominated_pods();
        let (overlays, reads) = (SmallVec::new(), SmallVec::new());
        Self { runner, state, pod, filters, has_nominated_pods, overlays, reads }
    }

    /// Asks only the filters before the first of those that `are_left_out`.
    pub(super) fn keep_until(&mut self, are_left_out: impl Fn(PluginIdx) -> bool) {
        let end = self.filters.iter().position(|(idx, ..)| are_left_out(*idx));
        self.filters.truncate(end.unwrap_or(self.filters.len()));
    }

    /// What the filters say about a node that passes them, with these pods added. `None` when a filter needs single pods.
    pub(super) fn filter_with<'p>(
        &mut self,
        node: NodeIdx,
        nominated: impl Iterator<Item = &'p Pod>,
    ) -> Option<Status> {
        let mut crowded = NodeOverlay::new(node);
        nominated.for_each(|other| crowded.add_sums(self.runner.cx.cluster, other));
        self.begin([crowded]);
        self.ask_trial(false).status()
    }

    /// How many pods like the one in question fit on a node as it is in `overlay`, one after the other, up to `most`. `None`
    /// when a filter fails, or needs more than the node and the sums of its pods.
    pub fn n_fitting(&mut self, overlay: NodeOverlay, most: usize) -> Option<usize> {
        self.try_node(overlay);
        let mut n = 0;
        while n < most {
            match self.ask_trial(n > 0) {
                Verdict::Accepted => n += 1,
                Verdict::Refused(_, status) if status.is_rejected() => break,
                Verdict::Refused(..) | Verdict::Unknown => return None,
            }
            let cluster = self.runner.cx.cluster;
            self.overlays.iter_mut().for_each(|overlay| overlay.add_sums(cluster, self.pod));
        }
        self.reads.iter().all(|reads| reads.get().can_be_followed()).then_some(n)
    }

    /// What the filters read for their latest answer, and perhaps more.
    pub(super) fn reads(&self) -> Reads {
        self.reads.iter().fold(Reads::NOTHING, |all, reads| all.union(reads.get()))
    }

    /// What the filters say about a node without all its pods of less than `priority`, with nominated pods taken into account.
    /// `None` when a filter needs single pods. O(priorities on the node + pods nominated to it).
    pub(super) fn without_pods_below(&mut self, node: NodeIdx, priority: i32) -> Option<Status> {
        let cluster = self.runner.cx.cluster;
        self.try_node(NodeOverlay::sums_without_pods_below(cluster, node, priority));
        self.ask_trial(false).status()
    }

    /// Puts these pods back onto the node that passed without them, one after the other, except for those that would take the
    /// room of the pod in question; returns their positions. `None` when a filter needs single pods.
    pub(super) fn victims(&mut self, pods: &[&Arc<Pod>]) -> Option<Vec<usize>> {
        let cluster = self.runner.cx.cluster;
        let mut victims = Vec::new();
        for (at, pod) in pods.iter().enumerate() {
            self.overlays.iter_mut().for_each(|overlay| overlay.add_sums(cluster, pod));
            match self.ask_trial(true) {
                Verdict::Accepted => {}
                Verdict::Refused(..) => {
                    self.overlays.iter_mut().for_each(|overlay| overlay.remove_sums(cluster, pod));
                    victims.push(at);
                }
                Verdict::Unknown => return None,
            }
        }
        Some(victims)
    }

    /// Begins a trial of a node with the nominated pods that count there, and as it is.
    fn try_node(&mut self, plain: NodeOverlay) {
        let cluster = self.runner.cx.cluster;
        let mut crowded = None;
        if self.has_nominated_pods
            && let Some(name) = cluster.node_name(plain.node())
        {
            for other in self.runner.nominated_that_count(self.pod, name) {
                crowded.get_or_insert_with(|| plain.clone()).add_sums(cluster, &other);
            }
        }
        self.begin(crowded.into_iter().chain([plain]));
    }

    /// Begins a trial of a node in each of these states.
    fn begin(&mut self, states: impl IntoIterator<Item = NodeOverlay>) {
        let Self { overlays, reads, .. } = self;
        overlays.clear();
        overlays.extend(states);
        let says_nothing = |reads: Reads| reads.has_single_pods() || !reads.can_be_followed();
        // What ended one trial without an answer need not end the next.
        if reads.iter().any(|reads| says_nothing(reads.get())) {
            reads.clear();
        }
        reads.resize_with(self.filters.len(), ReadSet::new);
    }

    fn ask_trial(&self, is_again: bool) -> Verdict<'a> {
        for overlay in &self.overlays {
            let verdict = self.ask(overlay, &self.reads, is_again);
            if !matches!(verdict, Verdict::Accepted) {
                return verdict;
            }
        }
        Verdict::Accepted
    }

    /// What the filters say. `is_again` leaves out those that read no sums the first time.
    fn ask(&self, overlay: &NodeOverlay, reads: &[ReadSet], is_again: bool) -> Verdict<'a> {
        let Some(view) = NodeView::hypothetical(self.runner.cx.cluster, overlay) else {
            return Verdict::Accepted;
        };
        let mut cx = self.runner.cx.unrecorded();
        for ((idx, name, filter), reads) in self.filters.iter().zip(reads) {
            if is_again && !reads.get().intersects(Reads::POD_SUMS) {
                continue;
            }
            cx.note_in(reads);
            let status = filter.filter(&cx, self.state, self.pod, &view.with_reads(reads));
            if reads.get().has_single_pods() {
                return Verdict::Unknown;
            }
            self.runner.profile.called(*idx, MeteredPoint::Filter, 1);
            if !status.is_success() {
                return Verdict::Refused(name, status);
            }
        }
        Verdict::Accepted
    }
}

impl Verdict<'_> {
    /// As the runner says it; `None` if it is unknown.
    fn status(self) -> Option<Status> {
        match self {
            Self::Accepted => Some(Status::SUCCESS),
            Self::Refused(name, status) => Some(filter_failure(status, name)),
            Self::Unknown => None,
        }
    }
}

impl std::fmt::Debug for SumsFilters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SumsFilters({} filters)", self.filters.len())
    }
}
