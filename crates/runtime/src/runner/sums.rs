//! Dry runs on sums: would the pod fit if some of a node's pods were gone?
//!
//! Preemption tries hundreds of nodes for one pod. Usually the filters read only the sum of what a node's pods request, and no
//! plugin keeps state about single pods. Then a node can be tried without copying its list of pods or the plugins' state, and
//! after a pod is put back only the filters that read sums are asked again: the others accepted the node, and their answer
//! cannot have changed. A trial in which a filter reads single pods gives no answer.
//!
//! Invariant: the answers are those of [`Runner::filter_with_nominated_pods`] on an overlay with the same pods.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::{ReadSet, Reads};
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::preemption::SumsTrial;
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
    trial: Trial,
}

/// One node with some of its pods gone, as far as sums go.
#[derive(Default)]
struct Trial {
    /// With the nominated pods that count, if there are any, and without; none before the first trial.
    overlays: SmallVec<[NodeOverlay; 2]>,
    reads: TrialReads,
}

impl Trial {
    fn change_sums(&mut self, change: impl FnMut(&mut NodeOverlay)) {
        self.overlays.iter_mut().for_each(change);
    }
}

struct SumsFilter<'a> {
    idx: PluginIdx,
    name: &'a PluginName,
    filter: &'a dyn Filter,
}

/// What each filter has read in one trial.
type TrialReads = SmallVec<[ReadSet; 8]>;

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
        let filters = runner.profile.filter().filter(|(idx, ..)| counts(*idx));
        let filters = filters.map(|(idx, name, filter)| SumsFilter { idx, name, filter }).collect();
        let has_nominated_pods = runner.cx.nominated.has_nominated_pods();
        Some(Self { runner, state, pod, filters, has_nominated_pods, trial: Trial::default() })
    }

    /// What the filters say about a node that passes them, with these pods added. `None` when a filter needs single pods.
    pub fn filter_with<'p>(
        &self,
        node: NodeIdx,
        nominated: impl Iterator<Item = &'p Pod>,
    ) -> Option<Status> {
        let mut crowded = NodeOverlay::new(node);
        nominated.for_each(|other| crowded.add_sums(self.runner.cx.cluster, other));
        self.ask(&crowded, &self.nothing_read(), false)
    }

    /// How many pods like the one in question fit on a node as it is in `overlay`, one after the other, up to `most`. `None`
    /// when a filter fails, or needs more than the node and the sums of its pods.
    pub fn n_fitting(&mut self, overlay: NodeOverlay, most: usize) -> Option<usize> {
        let overlays = self.with_nominated_pods(overlay);
        self.trial = Trial { overlays, reads: self.nothing_read() };
        let mut n = 0;
        while n < most {
            let status = self.ask_trial(n > 0)?;
            if !status.is_success() {
                if !status.is_rejected() {
                    return None;
                }
                break;
            }
            n += 1;
            self.trial.change_sums(|overlay| overlay.add_sums(self.runner.cx.cluster, self.pod));
        }
        self.trial.reads.iter().all(|reads| reads.get().can_be_followed()).then_some(n)
    }

    fn nothing_read(&self) -> TrialReads {
        self.filters.iter().map(|_| ReadSet::new()).collect()
    }

    /// What the first filter says that does not accept; `None` when one of them has read single pods. `is_again` leaves out
    /// those that read no sums the first time.
    fn ask(&self, overlay: &NodeOverlay, reads: &TrialReads, is_again: bool) -> Option<Status> {
        let Some(view) = NodeView::hypothetical(self.runner.cx.cluster, overlay) else {
            return Some(Status::SUCCESS);
        };
        let mut cx = self.runner.cx.unrecorded();
        for (SumsFilter { idx, name, filter }, reads) in self.filters.iter().zip(reads) {
            if is_again && !reads.get().intersects(Reads::POD_SUMS) {
                continue;
            }
            cx.note_in(reads);
            let status = filter.filter(&cx, self.state, self.pod, &view.with_reads(reads));
            if reads.get().has_single_pods() {
                return None;
            }
            self.runner.called(*idx, MeteredPoint::Filter, 1);
            if !status.is_success() {
                return Some(filter_failure(status, name));
            }
        }
        Some(Status::SUCCESS)
    }
}

impl std::fmt::Debug for SumsFilters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SumsFilters({} filters)", self.filters.len())
    }
}

impl SumsFilters<'_> {
    /// A node with the nominated pods that count there, if there are any, and as it is.
    fn with_nominated_pods(&self, plain: NodeOverlay) -> SmallVec<[NodeOverlay; 2]> {
        let mut crowded = None;
        if self.has_nominated_pods
            && let Some(name) = self.runner.cx.cluster.node_name(plain.node())
        {
            for other in self.runner.nominated_that_count(self.pod, name) {
                let crowded = crowded.get_or_insert_with(|| plain.clone());
                crowded.add_sums(self.runner.cx.cluster, &other);
            }
        }
        crowded.into_iter().chain([plain]).collect()
    }

    fn ask_trial(&self, is_again: bool) -> Option<Status> {
        let mut status = Status::SUCCESS;
        for overlay in &self.trial.overlays {
            status = self.ask(overlay, &self.trial.reads, is_again)?;
            if !status.is_success() {
                break;
            }
        }
        Some(status)
    }
}

impl SumsTrial for SumsFilters<'_> {
    fn start(&mut self, node: NodeIdx, priority: i32) -> Option<Status> {
        let cluster = self.runner.cx.cluster;
        let plain = NodeOverlay::sums_without_pods_below(cluster, node, priority);
        let overlays = self.with_nominated_pods(plain);
        self.trial = Trial { overlays, reads: self.nothing_read() };
        self.ask_trial(false)
    }

    fn reprieve(&mut self, victim: &Pod) -> Option<bool> {
        let cluster = self.runner.cx.cluster;
        self.trial.change_sums(|overlay| overlay.add_sums(cluster, victim));
        let fits = self.ask_trial(true)?.is_success();
        if !fits {
            self.trial.change_sums(|overlay| overlay.remove_sums(cluster, victim));
        }
        Some(fits)
    }
}
