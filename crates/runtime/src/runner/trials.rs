//! Trials of nodes without some of their pods, for preemption.
//!
//! In most cases the sums of requests decide ([`SumsFilters`]), and nothing of a node is copied. Where a filter reads single
//! pods, or a plugin follows them, the node is copied, and plugins are notified of every pod that is removed and put back.
//!
//! Behaviour: `docs/spec/preemption.md` §5.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::Reads;
use kube_scheduler_cache::{NodeIdx, NodeOverlay};
use kube_scheduler_framework::preemption::EvictionTrials;
use kube_scheduler_framework::{CycleState, PreFilterExtensions, Status};
use smallvec::SmallVec;

use super::{PodChange, Runner, SumsFilters, ok};
use crate::profile::PluginIdx;
use crate::reads::EvaluationReads;
use crate::skip_set::SkipSet;

/// The filters of a profile for one pod, to be asked about nodes without some of their pods.
pub(super) struct NodeTrials<'a> {
    runner: Runner<'a>,
    state: &'a CycleState,
    pod: &'a Pod,
    skip: &'a SkipSet,
    /// The plugins that are notified of pods that are removed and put back.
    following: SmallVec<[(PluginIdx, &'a dyn PreFilterExtensions); 4]>,
    /// Trials by sums, of the filters before the first that follows single pods.
    sums: SumsFilters<'a>,
    /// The current node, and the priority from which on pods stay there.
    at: (NodeIdx, i32),
    /// The trial of the current node in which single pods are gone, if there is one.
    full: Option<FullTrial>,
}

/// A copy of a node with some of its pods gone, and what plugins have stored about that.
struct FullTrial {
    state: CycleState,
    overlay: NodeOverlay,
    /// Plugins that are not asked. Once the node has passed, filters that read nothing of its pods are among them: their answer
    /// stays what it was.
    skip: SkipSet,
}

impl<'a> NodeTrials<'a> {
    pub(super) fn new(
        runner: Runner<'a>,
        state: &'a CycleState,
        pod: &'a Pod,
        skip: &'a SkipSet,
    ) -> Self {
        let counts = |idx: PluginIdx| !skip.contains(idx);
        let pre_filters = runner.profile.pre_filter().filter(|(idx, ..)| counts(*idx));
        let following =
            pre_filters.filter_map(|(idx, _, plugin)| Some((idx, plugin.extensions()?)));
        let following = following.collect();
        let sums = SumsFilters::unfollowed(runner, state, pod, skip);
        let at = (NodeIdx::default(), 0);
        let mut trials = Self { runner, state, pod, skip, following, sums, at, full: None };
        let Self { following, sums, .. } = &mut trials;
        sums.keep_until(|plugin| following.iter().any(|(idx, _)| *idx == plugin));
        trials
    }

    fn follows_pods(&self, plugin: PluginIdx) -> bool {
        self.following.iter().any(|(idx, _)| *idx == plugin)
    }

    /// What a full trial of the current node would begin with, from sums alone. `None` when they are not enough for that.
    fn start_by_sums(&mut self) -> Option<Status> {
        let (node, priority) = self.at;
        if self.following.is_empty() {
            return self.sums.without_pods_below(node, priority);
        }
        // A plugin that fails when it is notified of a removed pod decides before any filter does: sums cannot show that.
        let may_fail = self.following.iter().any(|(_, extensions)| extensions.may_fail(self.state));
        let name = self.runner.cx.cluster.node_name(node)?;
        if may_fail || !self.runner.nominated_that_count(self.pod, name).is_empty() {
            return None;
        }
        // What those filters say that are not asked is not known.
        self.sums.without_pods_below(node, priority).filter(|status| !status.is_success())
    }

    /// A trial of the current node without all pods that may go, or why the pod in question does not fit there even so.
    fn start_full(&self) -> Result<FullTrial, Status> {
        let (node, priority) = self.at;
        let (state, overlay) = (self.state.clone(), NodeOverlay::new(node));
        let mut trial = FullTrial { state, overlay, skip: self.skip.clone() };
        let pods = self.runner.cx.cluster.pods_on(node);
        for gone in pods.filter(|other| other.priority() < priority) {
            self.remove(&mut trial, gone)?;
        }
        let reads = EvaluationReads::new(self.runner.profile.plugins().len());
        ok(self.filter(&self.runner.recording(&reads), &trial))?;
        self.leave_out_settled(&mut trial.skip, &reads);
        Ok(trial)
    }

    /// Leaves out the filters that accepted the node and have read nothing of its pods.
    fn leave_out_settled(&self, skip: &mut SkipSet, reads: &EvaluationReads) {
        for (idx, ..) in self.runner.profile.filter() {
            let read = reads.of_plugin(idx).map(|reads| reads.per_node.get());
            let has_read_pods =
                read.is_none_or(|read| read.has_single_pods() || read.intersects(Reads::POD_SUMS));
            if !has_read_pods && !self.follows_pods(idx) {
                skip.insert(idx);
            }
        }
    }

    fn filter(&self, runner: &Runner<'_>, trial: &FullTrial) -> Status {
        runner.filter_with_nominated_pods(&trial.state, self.pod, &trial.overlay, &trial.skip)
    }

    fn remove(&self, trial: &mut FullTrial, victim: &Arc<Pod>) -> Result<(), Status> {
        let FullTrial { state, overlay, .. } = trial;
        overlay
            .remove_pod(self.runner.cx.cluster, &victim.uid)
            .map_err(|error| Status::error(error.to_string()))?;
        let change = PodChange::Removed;
        ok(self.runner.pod_changed(change, state, self.pod, victim, overlay, self.skip))
    }

    fn add(&self, trial: &mut FullTrial, victim: &Arc<Pod>) -> Result<(), Status> {
        let FullTrial { state, overlay, .. } = trial;
        overlay.add_pod(self.runner.cx.cluster, victim);
        let change = PodChange::Added;
        ok(self.runner.pod_changed(change, state, self.pod, victim, overlay, self.skip))
    }
}

impl EvictionTrials for NodeTrials<'_> {
    fn start(&mut self, node: NodeIdx, priority: i32) -> Status {
        (self.at, self.full) = ((node, priority), None);
        if let Some(status) = self.start_by_sums() {
            return status;
        }
        match self.start_full() {
            Ok(trial) => self.full = Some(trial),
            Err(status) => return status,
        }
        Status::SUCCESS
    }

    fn victims(&mut self, pods: &[&Arc<Pod>]) -> Result<Vec<usize>, Status> {
        let mut trial = match self.full.take() {
            Some(trial) => trial,
            None if self.following.is_empty() => match self.sums.victims(pods) {
                Some(victims) => return Ok(victims),
                // Sums were enough for the node without these pods, and are not with some of them.
                None => self.start_full()?,
            },
            None => self.start_full()?,
        };
        let mut victims = Vec::new();
        for (at, pod) in pods.iter().enumerate() {
            self.add(&mut trial, pod)?;
            if !self.filter(&self.runner, &trial).is_success() {
                self.remove(&mut trial, pod)?;
                victims.push(at);
            }
        }
        Ok(victims)
    }
}
