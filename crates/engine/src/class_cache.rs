//! One evaluation for each class of pods, brought up to date from the change log.
//!
//! Pods with equal signatures under the same profile are of one class. An entry says up to which change it is up to date;
//! the next pod of the class looks only at nodes that changed since, usually one. Many a class has one pod only, so an
//! entry is made when a class comes up for the second time.
//!
//! Invariants: an entry is used only if everything that its answers were read from, beside single nodes, is unchanged, or is
//! followed by the plugin that reads it ([`PreFilterFollower`](kube_scheduler_framework::following::PreFilterFollower)); what all
//! entries take is bounded ([`footprint`]).

mod footprint;
mod signatures;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::reads::PhaseReads;
use kube_scheduler_cache::{ChangeKinds, Changes, ClusterState, Versions};
use kube_scheduler_framework::following::FollowOutcome;
use kube_scheduler_framework::{Code, CycleState, NodeIdx, Status};
use kube_scheduler_runtime::{MeteredPoint, Runner, SkipSet};
use rustc_hash::FxHashMap;

use self::footprint::Footprint;
use crate::buffers::Buffers;
use crate::evaluation::{Evaluation, NominatedVerdicts, verdicts_with_nominated_pods};
use crate::preference::TieBreak;
use crate::ranking::{DOMAINS_START_OVER, DomainPlugins, Ranking};

pub(crate) use self::signatures::{SignPlan, Signatures};

/// How many evaluations are kept, and no more than what [`footprint::of_all`] says they may take; the ones unused for longest
/// are evicted. With 5,000 nodes each takes some 150 KiB.
const MAX_EVALUATIONS: usize = 64;
/// How many classes without an evaluation are remembered before the table starts over.
const MAX_CLASSES: usize = 1 << 14;
/// How many attempts pass before a class is tried again of which no evaluation could be kept. Making one costs two
/// attempts, so this adds a sixteenth at most. In `bench core --workload EveryPodDifferent`, whose classes do not come again, it
/// makes no difference.
const ATTEMPTS_WITHOUT: u32 = 32;
/// With more than one changed node in this many, a fresh evaluation is cheaper than an update: evaluating one node by
/// itself takes about four times as long as in a scan. Without updates `bench core --workload FiftyAntiAffinities` takes four
/// times as long.
const CATCH_UP_SHARE: usize = 4;

/// Set in the number of a class where ties between equally good nodes are broken by name. A ranking is made for one way of breaking
/// ties, so the same class has another entry for each.
const BY_NAME: u64 = 1 << 63;

/// The evaluation of a class.
#[derive(Debug)]
pub(crate) struct ClassEvaluation {
    /// By the plugins that look at nodes alone.
    pub(crate) evaluation: Evaluation,
    /// Made when there is a choice between nodes for the first time, or when plugins look at topology domains.
    ranking: Option<Ranking>,
    /// What nodes answer with the pods that are nominated to them.
    nominated: NominatedVerdicts,
    /// Whether the ranking is made for ties that fall by name.
    by_name: bool,
    /// Plugins whose reads do not matter, because they are asked about groups of nodes instead.
    left_out: SkipSet,
    /// Plugins that prepare for each pod of the class themselves, and name the nodes of which their answers differ.
    following: SkipSet,
    /// What the answers about single nodes were read from, as far as they were given.
    reads: PhaseReads,
    seen_to: u64,
    versions: Versions,
    last_used: u64,
    footprint: Footprint,
    /// What it takes in memory at most, in bytes, with as many nodes as there were when it was kept last.
    n_bytes: usize,
}

impl ClassEvaluation {
    /// Looks at every node of `nodes`, `None` for all; `None` when the answers about such pods cannot be kept up to date, or
    /// there are none.
    fn new(
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
        (nodes, by_name): (Option<&BTreeSet<Arc<str>>>, bool),
    ) -> Option<Self> {
        let mut left_out = SkipSet::default();
        loop {
            let evaluation = Evaluation::before_filters(runner, pod, buffers).ok()?;
            let mut evaluation = evaluation.kept_to(nodes);
            let reads = evaluation.pre_filter.reads.clone();
            DomainPlugins::find(runner, &reads, &mut left_out);
            let following = runner.following(&evaluation.pre_filter, &evaluation.state);
            // What PreFilter read may be enough to see that nothing can be cached, before any node is looked at.
            if !evaluation.reads_without(&left_out, &following).can_be_cached() {
                return None;
            }
            let domains = DomainPlugins::new(runner, pod, &left_out)?;
            domains.add_to(&mut evaluation.pre_filter.skip);
            evaluation.look_at_all(runner, pod, buffers).ok()?;
            let skips = (left_out.clone(), following);
            let mut class = Self::of(runner, pod, evaluation, skips, by_name);
            if !domains.is_empty() || class.evaluation.verdicts.n_passing() > 1 {
                let domains = (domains, by_name);
                let ranking = Ranking::new(runner, pod, buffers, &mut class.evaluation, domains);
                if DomainPlugins::find(runner, &reads, &mut left_out) {
                    // PreScore asked for counters, so a plugin joins those that are asked about groups. Each round adds at least
                    // one: this ends.
                    continue;
                }
                class.ranking = Some(ranking?);
            }
            return class.note_reads().then_some(class);
        }
    }

    fn of(
        runner: &Runner<'_>,
        pod: &Pod,
        evaluation: Evaluation,
        (left_out, following): (SkipSet, SkipSet),
        by_name: bool,
    ) -> Self {
        let cluster = runner.cx.cluster;
        let footprint = Footprint::new(pod);
        Self {
            n_bytes: footprint.with_nodes(cluster.capacity()),
            footprint,
            reads: evaluation.reads_without(&left_out, &following),
            evaluation,
            ranking: None,
            nominated: NominatedVerdicts::default(),
            by_name,
            left_out,
            following,
            seen_to: cluster.sequence(),
            versions: Versions::of(cluster),
            last_used: 0,
        }
    }

    /// Notes what the answers about single nodes were read from. Returns whether they can be kept up to date.
    fn note_reads(&mut self) -> bool {
        self.reads = self.evaluation.reads_without(&self.left_out, &self.following);
        self.reads.can_be_cached()
    }

    /// Whether all plugins were asked about each node, so that the verdicts are complete. Otherwise some plugins were asked about
    /// groups of nodes.
    pub(crate) fn is_by_node(&self) -> bool {
        !self.ranking.as_ref().is_some_and(Ranking::follows_domains)
    }

    /// What it takes in memory at most with this many nodes, in bytes.
    fn n_bytes_with(&self, n_nodes: usize) -> usize {
        let groups = self.ranking.as_ref().map_or(0, Ranking::n_bytes);
        let nominated = self.nominated.n_bytes();
        self.footprint.with_nodes(n_nodes).saturating_add(groups).saturating_add(nominated)
    }

    /// What PreFilter and PreScore left.
    pub(crate) fn state(&self) -> CycleState {
        let mut state = self.evaluation.state.clone();
        if let Some(ranking) = &self.ranking {
            ranking.add_state_to(&mut state);
        }
        state
    }

    /// The best node that passes, with the number of those that do. `None` when none passes.
    pub(crate) fn best(&self, cluster: &ClusterState, ties: TieBreak) -> Option<(NodeIdx, usize)> {
        match &self.ranking {
            Some(ranking) => Some((ranking.best(cluster, ties)?, ranking.n_feasible())),
            None if self.evaluation.verdicts.n_passing() == 0 => None,
            None => Some((*self.evaluation.feasible(cluster).first()?, 1)),
        }
    }

    /// The answers of nodes that differ because pods are nominated to them. The error is a filter's.
    pub(crate) fn verdicts_with_nominated_pods(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
    ) -> Result<Vec<(NodeIdx, Option<Status>)>, Status> {
        // Plugins that follow say for which pods of the class their answers differ, but not with others nominated there.
        let may_keep = self.following.is_empty();
        let kept = may_keep.then_some((&mut self.nominated, self.reads.per_node));
        verdicts_with_nominated_pods(runner, pod, &self.evaluation, kept)
    }

    /// Updates the cached evaluation for the nodes that changed, and for the pod where plugins follow by themselves.
    fn catch_up(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
        changes: &mut ChangedNodes,
    ) -> CatchUp {
        let now = Versions::of(runner.cx.cluster);
        if !self.versions.agree(&now, self.reads.union()) {
            return CatchUp::Impossible;
        }
        let Evaluation { state, pre_filter, .. } = &mut self.evaluation;
        let followed = runner.recording(&pre_filter.reads).follow(&self.following, state, pod);
        let followed = match followed {
            FollowOutcome::Except(nodes) => nodes,
            FollowOutcome::Apart => return CatchUp::Apart,
            FollowOutcome::Outdated => return CatchUp::Impossible,
        };
        let is_done =
            self.look_at_changes(runner, pod, buffers, changes, (&followed, now)).is_some();
        if is_done { CatchUp::Done } else { CatchUp::Impossible }
    }

    /// Looks again at nodes that have changed, and at those in `followed`; the versions are `now`. `None` when that is not
    /// enough, or costs more than a fresh evaluation.
    fn look_at_changes(
        &mut self,
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
        changes: &mut ChangedNodes,
        (followed, now): (&[NodeIdx], Versions),
    ) -> Option<()> {
        let cluster = runner.cx.cluster;
        let follows_domains = !self.is_by_node();
        if self.seen_to == cluster.sequence() && !follows_domains && followed.is_empty() {
            return Some(());
        }
        let kinds = self.reads.per_node.node_kinds();
        changes.read(cluster, self.seen_to, kinds, follows_domains, followed)?;
        let ChangedNodes { changed, with_pods } = changes;
        self.seen_to = cluster.sequence();
        self.versions = now;
        let started = runner.profile.point_start();
        self.nominated.forget(changed);
        self.evaluation.look_again(runner, pod, changed).ok()?;
        // The scores' measuring begins where the filters' ends, which saves reading the timer.
        let filtered = runner.profile.point_ended(MeteredPoint::Filter, Code::Success, started);
        if let Some(ranking) = &mut self.ranking {
            ranking.catch_up(runner, pod, &self.evaluation, changed, with_pods, &now)?;
            runner.profile.point_ended(MeteredPoint::Score, Code::Success, filtered);
        } else if self.evaluation.verdicts.n_passing() > 1 {
            let domains = (DomainPlugins::default(), self.by_name);
            self.ranking = Some(Ranking::new(runner, pod, buffers, &mut self.evaluation, domains)?);
        }
        // Plugins may have read more than the first time.
        self.note_reads().then_some(())
    }
}

/// What became of bringing an evaluation up to date.
enum CatchUp {
    Done,
    /// The pod is to be evaluated on its own. The entry stays as it is.
    Apart,
    /// Changes are not enough, or cost more than a fresh evaluation: the entry is invalid and must be discarded.
    Impossible,
}

/// Which nodes an evaluation has to look at again.
#[derive(Debug, Default)]
struct ChangedNodes {
    /// Those whose own answers may differ, in the order of their slots.
    changed: Vec<NodeIdx>,
    /// Those whose pods changed, in the order of their slots. Used when plugins look at domains.
    with_pods: Vec<NodeIdx>,
}

impl ChangedNodes {
    /// Reads the change log, and adds the nodes that plugins `followed`; `None` when the log does not go back so far, or too
    /// much has changed.
    fn read(
        &mut self,
        cluster: &ClusterState,
        seen_to: u64,
        kinds: ChangeKinds,
        follows_domains: bool,
        followed: &[NodeIdx],
    ) -> Option<()> {
        let Changes::Entries(changes) = cluster.changes_since(seen_to) else { return None };
        let kinds = kinds | ChangeKinds::ADDED | ChangeKinds::REMOVED;
        self.changed.clear();
        self.changed.extend_from_slice(followed);
        self.with_pods.clear();
        for change in changes {
            if follows_domains && change.kinds.intersects(DOMAINS_START_OVER) {
                return None;
            }
            if change.kinds.intersects(kinds) {
                self.changed.push(change.node);
            }
            if follows_domains && change.kinds.intersects(ChangeKinds::PODS) {
                self.with_pods.push(change.node);
            }
        }
        for nodes in [&mut self.changed, &mut self.with_pods] {
            nodes.sort_unstable();
            nodes.dedup();
            if nodes.len() > cluster.capacity().div_ceil(CATCH_UP_SHARE) {
                return None;
            }
        }
        Some(())
    }
}

/// A class that has no evaluation.
#[derive(Clone, Copy, Debug, Default)]
struct UnevaluatedClass {
    /// How many attempts pass until making one is tried.
    attempts_left: u32,
    /// Whether making an evaluation has failed before.
    has_failed: bool,
}

/// Evaluations by signature number.
#[derive(Debug, Default)]
pub(crate) struct ClassCache {
    evaluations: FxHashMap<u64, Box<ClassEvaluation>>,
    /// What they take at most.
    n_bytes: usize,
    /// Classes that came up before and have no evaluation.
    without: FxHashMap<u64, UnevaluatedClass>,
    clock: u64,
    changes: ChangedNodes,
    /// Whether ties fall by name just now; evaluations for that are others.
    pub(crate) by_name: bool,
    /// How often an evaluation was brought up to date, and how often one was made.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl ClassCache {
    fn key(&self, class: u64) -> u64 {
        if self.by_name { class | BY_NAME } else { class }
    }

    /// Takes the evaluation of a class, brought up to date, or made if the class came up before; `None` when there is none.
    /// Give it back with [`put`](Self::put). The class may go to `nodes` only, `None` for all; they must be the same for all
    /// that one cache is asked about.
    pub(crate) fn take(
        &mut self,
        class: u64,
        runner: &Runner<'_>,
        pod: &Pod,
        buffers: &Buffers,
        nodes: Option<&BTreeSet<Arc<str>>>,
    ) -> Option<Box<ClassEvaluation>> {
        let class = self.key(class);
        if let Some(mut evaluation) = self.remove(class) {
            match evaluation.catch_up(runner, pod, buffers, &mut self.changes) {
                CatchUp::Done => {
                    self.hits += 1;
                    return Some(evaluation);
                }
                CatchUp::Apart => {
                    self.insert(class, evaluation);
                    return None;
                }
                CatchUp::Impossible => {}
            }
        } else if footprint::is_too_large(pod, runner.cx.cluster.capacity())
            || !self.is_worth_making(class)
        {
            return None;
        }
        let made = ClassEvaluation::new(runner, pod, buffers, (nodes, self.by_name));
        match &made {
            Some(_) => self.misses += 1,
            None => self.note_failure(class),
        }
        made.map(Box::new)
    }

    /// Keeps the evaluation of a class for the next attempt, in place of those that were not used for longest; not if its groups
    /// leave too little room for others.
    pub(crate) fn put(
        &mut self,
        class: u64,
        runner: &Runner<'_>,
        mut evaluation: Box<ClassEvaluation>,
    ) {
        let class = self.key(class);
        let ClassEvaluation { evaluation: kept, following, .. } = &mut *evaluation;
        runner.rest(following, &mut kept.state);
        let n_nodes = runner.cx.cluster.capacity();
        let most = footprint::of_all(n_nodes);
        evaluation.n_bytes = evaluation.n_bytes_with(n_nodes);
        if evaluation.n_bytes > most / footprint::SHARE {
            self.note_failure(class);
            return;
        }
        while self.evaluations.len() >= MAX_EVALUATIONS || self.n_bytes + evaluation.n_bytes > most
        {
            let ages = self.evaluations.iter().map(|(class, entry)| (entry.last_used, *class));
            let Some((_, oldest)) = ages.min() else { break };
            self.remove(oldest);
        }
        self.clock += 1;
        evaluation.last_used = self.clock;
        self.insert(class, evaluation);
    }

    fn insert(&mut self, class: u64, evaluation: Box<ClassEvaluation>) {
        self.n_bytes += evaluation.n_bytes;
        if let Some(former) = self.evaluations.insert(class, evaluation) {
            self.n_bytes -= former.n_bytes;
        }
    }

    fn remove(&mut self, class: u64) -> Option<Box<ClassEvaluation>> {
        let evaluation = self.evaluations.remove(&class)?;
        self.n_bytes -= evaluation.n_bytes;
        Some(evaluation)
    }

    /// Keeps what was found out about a pod that fits nowhere, if that can be kept up to date: there are no scores to make
    /// for its class, so it is worth keeping from the first time on.
    pub(crate) fn put_unfit(
        &mut self,
        class: u64,
        runner: &Runner<'_>,
        pod: &Pod,
        evaluation: &Evaluation,
    ) {
        let following = runner.following(&evaluation.pre_filter, &evaluation.state);
        let left_out = SkipSet::default();
        let is_too_large = footprint::is_too_large(pod, runner.cx.cluster.capacity());
        if evaluation.reads_without(&left_out, &following).can_be_cached() && !is_too_large {
            let (evaluation, skips) = (evaluation.clone(), (left_out, following));
            let made = ClassEvaluation::of(runner, pod, evaluation, skips, self.by_name);
            self.put(class, runner, Box::new(made));
        }
    }

    /// Announces that the class will come up several times, so that an evaluation is worth making the first time already.
    pub(crate) fn expect(&mut self, class: u64) {
        let class = self.key(class);
        if self.without.len() < MAX_CLASSES {
            self.without.entry(class).or_default();
        }
    }

    /// Notes that a class came up. Returns whether it had come up before, and no evaluation of it failed a short while ago.
    fn is_worth_making(&mut self, class: u64) -> bool {
        match self.without.get_mut(&class) {
            Some(UnevaluatedClass { attempts_left: 0, .. }) => true,
            Some(UnevaluatedClass { attempts_left, .. }) => {
                *attempts_left -= 1;
                false
            }
            None => {
                if self.without.len() >= MAX_CLASSES {
                    self.without.clear();
                }
                self.without.insert(class, UnevaluatedClass::default());
                false
            }
        }
    }

    /// No evaluation could be made. The first time that may be because the cluster had to count pods that it counts
    /// from now on; the next attempt shows.
    fn note_failure(&mut self, class: u64) {
        let without = self.without.entry(class).or_default();
        without.attempts_left = if without.has_failed { ATTEMPTS_WITHOUT } else { 0 };
        without.has_failed = true;
    }

    /// Whether anything is kept of a class, up to date or not.
    pub(crate) fn contains(&self, class: u64) -> bool {
        self.evaluations.contains_key(&self.key(class))
    }

    /// Of how many classes evaluations are kept.
    pub(crate) fn len(&self) -> usize {
        self.evaluations.len()
    }

    /// What the evaluations that are kept take at most, in bytes.
    pub(crate) const fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.evaluations.clear();
        self.n_bytes = 0;
        self.without.clear();
    }
}
