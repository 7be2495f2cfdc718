//! Dry runs on sums: would the pod fit if some of a node's pods were gone?
//!
//! Preemption tries hundreds of nodes for one pod. Mostly no filter reads more of the pods there than what they ask for
//! in sum ([`PodsRead`]), and no plugin keeps a state that follows single pods. Then a node can be tried without copying
//! its list of pods or the plugins' state, and putting a pod back asks only those filters again that read sums: the
//! others said yes, and would say the same again.
//!
//! Invariant: the answers are those of [`Runner::filter_with_nominated_pods`] on an overlay with the same pods.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use smallvec::SmallVec;

use super::{Runner, SkipSet, filter_failure};
use crate::cycle_state::CycleState;
use crate::meter::MeteredPoint;
use crate::points::{Filter, PodsRead};
use crate::profile::PluginIdx;
use crate::status::{PluginName, Status};
use crate::view::NodeView;

/// All filters of a profile for one pod, none of which reads more than sums of the pods on a node.
pub struct SumsFilters<'a> {
    runner: Runner<'a>,
    state: &'a CycleState,
    pod: &'a Pod,
    filters: SmallVec<[SumsFilter<'a>; 8]>,
    has_nominated_pods: bool,
}

struct SumsFilter<'a> {
    idx: PluginIdx,
    name: &'a PluginName,
    filter: &'a dyn Filter,
    reads_sums: bool,
}

impl<'a> SumsFilters<'a> {
    /// `None` when a filter or a plugin's state depends on more than sums. `skip` are the plugins left out, `state` is what
    /// PreFilter left behind.
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
        let mut filters = SmallVec::new();
        for (idx, name, filter) in runner.profile.filter().filter(|(idx, ..)| counts(*idx)) {
            let reads_sums = match filter.reads_of_pods(pod) {
                PodsRead::Nothing => false,
                PodsRead::Sums => true,
                PodsRead::Everything => return None,
            };
            filters.push(SumsFilter { idx, name, filter, reads_sums });
        }
        let has_nominated_pods = runner.cx.nominated.has_nominated_pods();
        Some(Self { runner, state, pod, filters, has_nominated_pods })
    }

    /// A node without all its pods of less than `priority`. O(priorities on the node + pods nominated to it).
    pub fn without_pods_below(&self, node: NodeIdx, priority: i32) -> SumsTrial<'_, 'a> {
        let cluster = self.runner.cx.cluster;
        let plain = NodeOverlay::sums_without_pods_below(cluster, node, priority);
        let mut crowded = None;
        if self.has_nominated_pods
            && let Some(name) = cluster.node_name(node)
        {
            for other in self.runner.nominated_that_count(self.pod, name) {
                crowded.get_or_insert_with(|| plain.clone()).add_sums(&other);
            }
        }
        SumsTrial { filters: self, plain, crowded }
    }

    /// The rejection of a node with these pods added, those that count of the ones nominated to it; `None` when it would
    /// still pass all filters that it passes without them.
    pub fn rejection_with<'p>(
        &self,
        node: NodeIdx,
        nominated: impl Iterator<Item = &'p Pod>,
    ) -> Option<Status> {
        let mut crowded = NodeOverlay::new(node);
        nominated.for_each(|other| crowded.add_sums(other));
        Some(self.ask(&crowded, false)).filter(|status| !status.is_success())
    }

    /// What the first filter says that does not accept.
    fn ask(&self, overlay: &NodeOverlay, is_again: bool) -> Status {
        let cx = &self.runner.cx;
        let Some(view) = NodeView::hypothetical(cx.cluster, overlay) else {
            return Status::SUCCESS;
        };
        for SumsFilter { idx, name, filter, reads_sums } in &self.filters {
            if is_again && !reads_sums {
                continue;
            }
            let status = filter.filter(cx, self.state, self.pod, &view);
            self.runner.called(*idx, MeteredPoint::Filter, 1);
            if !status.is_success() {
                return filter_failure(status, name);
            }
        }
        Status::SUCCESS
    }
}

impl std::fmt::Debug for SumsFilters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SumsFilters({} filters)", self.filters.len())
    }
}

/// One node with some of its pods gone, as far as sums go.
#[derive(Debug)]
pub struct SumsTrial<'f, 'a> {
    filters: &'f SumsFilters<'a>,
    plain: NodeOverlay,
    /// The same with the nominated pods that count, if there are any.
    crowded: Option<NodeOverlay>,
}

impl SumsTrial<'_, '_> {
    /// What the filters say, with nominated pods taken into account.
    pub fn filter(&self) -> Status {
        self.ask(false)
    }

    /// Puts a pod of the node back if the pod in question still fits then; whether it does. To be asked after
    /// [`filter`](Self::filter) accepted the node. A filter that fails counts as no room.
    pub fn reprieve(&mut self, victim: &Pod) -> bool {
        self.overlays().for_each(|overlay| overlay.add_sums(victim));
        let fits = self.ask(true).is_success();
        if !fits {
            self.overlays().for_each(|overlay| overlay.remove_sums(victim));
        }
        fits
    }

    fn ask(&self, is_again: bool) -> Status {
        if let Some(crowded) = &self.crowded {
            let status = self.filters.ask(crowded, is_again);
            if !status.is_success() {
                return status;
            }
        }
        self.filters.ask(&self.plain, is_again)
    }

    fn overlays(&mut self) -> impl Iterator<Item = &mut NodeOverlay> {
        self.crowded.iter_mut().chain([&mut self.plain])
    }
}
