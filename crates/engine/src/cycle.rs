//! The scheduling cycle: from the queue's next pod to a node, or to the reasons why there is none.
//!
//! [`SchedulingCycle`] owns what is kept from attempt to attempt: evaluations of pods that are alike, where the next sampled
//! scan starts, and the number of the attempt, from which its random number follows. What happens to the pod afterwards is the
//! task of [`Bindings`] and [`Preemptions`].
//!
//! Behaviour: `docs/spec/core.md` §3 and §4.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_api_types::numbers::Numbers;
use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::Status;
use kube_scheduler_framework::groups::GroupCycleState;
use kube_scheduler_queue::{ProfileId, QueuedPod};
use kube_scheduler_runtime::Runner;

use crate::apart::GIVEN_UP;
use crate::attempt::{FitFailure, NoChoice, Search};
use crate::backfill::held_objects::show_held_to;
use crate::binding::{Bindings, Placement};
use crate::budget::{AttemptLimits, Budgets, WorkLimits};
use crate::buffers::Buffers;
use crate::class_cache::ClassCache;
use crate::core::{Core, PodEvent};
use crate::diagnosis::{Diagnosis, FitError};
use crate::effect::PodRef;
use crate::failure::{Failure, send_back};
use crate::guard::guarded;
use crate::notice::Notice;
use crate::numbered::class_of;
use crate::observer::{ObservedSearch, Observer, SearchStep};
use crate::policy::Entry;
use crate::preemption::{HeldAttempt, Preemptions};
use crate::preference::TieBreak;
use crate::price::{AllParts, KeptCounters, Price, ScopeSize, most_expensive_part};
use crate::turn::{AttemptResult, Turn};

/// What costs most, for messages, where plugins have counted too much.
pub(crate) const SEARCHES: &str = "searches, such as for devices";

/// What the cycle is made with.
#[derive(Clone, Debug)]
pub(crate) struct CycleOptions {
    pub(crate) buffers: Buffers,
    pub(crate) uses_class_cache: bool,
    /// Score only this share of the nodes, where a profile does not say otherwise; `None` scores all.
    pub(crate) percentage: Option<i32>,
    pub(crate) seed: u64,
    pub(crate) work: WorkLimits,
    pub(crate) breaks_ties_by_name: bool,
}

impl CycleOptions {
    /// How an attempt with this random number chooses one of several equally good nodes.
    pub(crate) const fn ties(&self, random: u64) -> TieBreak {
        match self.seed {
            _ if self.breaks_ties_by_name => TieBreak::ByName,
            0 => TieBreak::First,
            _ => TieBreak::Drawn(random),
        }
    }
}

/// What is kept from attempt to attempt.
#[derive(Debug)]
pub(crate) struct SchedulingCycle {
    pub(crate) options: CycleOptions,
    pub(crate) classes: ClassCache,
    pub(crate) budgets: Budgets,
    /// Whether a gang is planned as a whole just now. All nodes are scored then, whatever share profiles name: where a sampled
    /// scan begins depends on the attempts before. And nodes that pods are nominated to are not preferred to others.
    pub(crate) plans_as_a_whole: bool,
    next_start: usize,
    /// The number of the latest attempt, from 1 on.
    pub(crate) number: u64,
    /// What plugins have counted since that was set to zero, in units. It depends on which of their answers were kept, and is no
    /// part of what attempts are said to cost.
    pub(crate) n_searched: u64,
    /// How many units were taken from allowances since that was set to zero.
    pub(crate) n_charged: u64,
}

/// Some of the nodes.
#[derive(Debug)]
pub(crate) struct NodeSubset {
    pub(crate) names: BTreeSet<Arc<str>>,
    /// Without pods where none may be evicted, for nothing depends on their number then.
    pub(crate) size: ScopeSize,
}

/// Where and how to search for a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The nodes that it may go to; `None` for all. A caller that names nodes sees to it that the cycle's class cache is one
    /// for these nodes.
    pub(crate) nodes: Option<&'a NodeSubset>,
    /// Whether PostFilter is asked when there is none.
    pub(crate) may_preempt: bool,
    /// What the members of the pod's group share, if they are tried together.
    pub(crate) group: Option<&'a GroupCycleState>,
    /// The limits under which a pod like this one was tried just before, if that paid for this one, too.
    pub(crate) paid: Option<AttemptLimits>,
    /// The parts of the pod's price with these counters, if they are known from [one like it](crate::price::PartsInTurn).
    pub(crate) parts: Option<&'a AllParts>,
}

impl Scope<'_> {
    /// All nodes, with preemption, outside of a group.
    pub(crate) const ALL: Self =
        Self { nodes: None, may_preempt: true, group: None, paid: None, parts: None };

    /// Which counters are kept for searches on other nodes.
    pub(crate) fn counters(&self) -> KeptCounters {
        self.nodes.map_or_else(KeptCounters::default, |nodes| nodes.size.counters)
    }

    fn size(&self, cluster: &ClusterState) -> ScopeSize {
        self.nodes.map_or_else(|| ScopeSize::all(cluster), |nodes| nodes.size)
    }
}

impl SchedulingCycle {
    pub(crate) fn new(options: CycleOptions) -> Self {
        let (budgets, classes) = (Budgets::new(options.work), ClassCache::default());
        Self {
            options,
            classes,
            budgets,
            plans_as_a_whole: false,
            next_start: 0,
            number: 0,
            n_searched: 0,
            n_charged: 0,
        }
    }

    /// A copy without cached evaluations, and with buffers of its own, as it works beside the original.
    pub(crate) fn fork(&self) -> Self {
        let Self { next_start, number, plans_as_a_whole, .. } = *self;
        let options = CycleOptions { buffers: Buffers::default(), ..self.options.clone() };
        let budgets = self.budgets.clone();
        Self { budgets, plans_as_a_whole, next_start, number, ..Self::new(options) }
    }

    /// Decides about the next pod; `None` when none is ready, or when the last attempt still waits for its victims. The node of a
    /// `recorded` decision is followed instead of the engine's own choice.
    pub(crate) fn next(
        &mut self,
        core: &mut Core,
        bindings: &mut Bindings,
        preemptions: &mut Preemptions,
        recorded: Option<&str>,
        observer: &mut dyn Observer,
    ) -> Option<Turn> {
        if preemptions.holds_an_attempt() {
            return None;
        }
        let queued = core.pop()?;
        let mut turn = Turn::new(&queued);
        let pod = queued.entry().0.clone();
        if pod.spec.pod_group.is_some() {
            self.group_turn((core, bindings, preemptions), queued, &mut turn, observer);
            return Some(turn);
        }
        let Some(profile) = core.plans.profiles.of(&pod) else {
            let name = &pod.spec.scheduler_name;
            core.note(format!("profile not found for scheduler name \"{name}\""));
            core.done(&pod.uid);
            return Some(turn);
        };
        if must_skip(core, &pod, profile) {
            core.done(&pod.uid);
            return Some(turn);
        }
        show_held_to(core, profile, &pod, &[]);
        let (found, work) =
            self.look(core, (&queued, profile), Scope::ALL, observer, |search| search.run());
        turn.work = work;
        let failure = match found {
            Ok(mut choice) => {
                turn.chosen = core.cluster.node_name(choice.node).cloned();
                // A replay goes on with the recorded node, so that one difference does not cause others; the turn reports
                // the engine's own choice for comparison.
                let recorded = recorded.and_then(|name| core.cluster.node_idx(name));
                choice.node = recorded.unwrap_or(choice.node);
                (turn.n_feasible, turn.n_evaluated) = (choice.n_feasible, choice.n_evaluated);
                turn.result = bindings.start(core, Placement { queued, profile, choice });
                return Some(turn);
            }
            Err(NoChoice::Unfit(unfit)) => {
                turn.n_evaluated = unfit.error.n_nodes;
                notice_verdicts(core, &turn.pod, profile, &unfit.error);
                let parts = (bindings, preemptions, observer);
                turn.result = unfit_pod(core, parts, queued, profile, *unfit);
                return Some(turn);
            }
            Err(other) => other.into_failure(),
        };
        turn.result = send_back(core, queued, profile, None, failure);
        Some(turn)
    }

    /// Calls `search` for a pod if that does not cost too much; what it costs at most. A panic of a plugin is an error of the
    /// attempt.
    pub(crate) fn look<T>(
        &mut self,
        core: &mut Core,
        (queued, profile): (&QueuedPod<Entry>, ProfileId),
        scope: Scope<'_>,
        observer: &mut dyn Observer,
        run: impl FnOnce(Search<'_, '_>) -> Result<T, NoChoice>,
    ) -> (Result<T, NoChoice>, u64) {
        if core.is_given_up() {
            return (Err(NoChoice::Broken(Status::error(GIVEN_UP))), 0);
        }
        let pod = &PodRef::from(&*queued.entry().0);
        let watched = ObservedSearch::new(pod, observer);
        self.number += 1;
        if let Some(meter) = core.plans.profiles[profile].meter() {
            meter.begin_cycle();
        }
        core.cluster.refresh_order();
        let (pod, now) = (&queued.entry().0, core.now);
        let usual = || self.budgets.of(&pod.namespace, &core.cluster, now);
        let limits = scope.paid.unwrap_or_else(usual);
        let size = scope.size(&core.cluster);
        let own_parts;
        let parts = match scope.parts {
            Some(parts) => parts,
            None => {
                own_parts = AllParts::of(pod, &core.cluster, size.counters);
                &own_parts
            }
        };
        let price = parts.price(pod, &core.cluster, size);
        debug_assert_eq!(price, Price::on(pod, &core.cluster, size), "parts of another pod");
        if price.search > limits.hard {
            // There is no search, so no step of one is reported.
            let n_errors = queued.consecutive_errors();
            let price = (price.search, most_expensive_part(pod, &core.cluster, size));
            let refusal = self.budgets.refusal(limits, &pod.namespace, price, n_errors, now);
            return (Err(NoChoice::OverBudget(refusal)), price.0);
        }
        let is_kept = price.is_kept(limits.soft);
        let may_preempt =
            scope.may_preempt && price.search.saturating_add(price.preemption) <= limits.hard;
        let scope = Scope { may_preempt, ..scope };
        core.work = limits.meter(price.search);
        let found = guarded(|| run(self.search(core, (queued, profile), scope, is_kept, &watched)));
        if is_kept || price.search <= size.counters.up_to {
            // Before the pod is placed: what was counted for it can be taken over as it is.
            core.cluster.follow_requested();
        } else {
            core.cluster.forget_requested();
        }
        watched.reached(SearchStep::Ended);
        let found = found.unwrap_or_else(|panic| {
            // After a panic an evaluation may be half done. The cluster is unchanged: searching does not change it.
            self.classes.clear();
            Err(NoChoice::Broken(panic))
        });
        let has_tried_to_preempt = may_preempt && matches!(found, Err(NoChoice::Unfit(_)));
        let preemption = if has_tried_to_preempt { price.preemption } else { 0 };
        let cost = price.search.saturating_add(preemption);
        self.n_searched = self.n_searched.saturating_add(core.work.done());
        let all = cost.saturating_add(core.work.done());
        if all > limits.soft && scope.paid.is_none() {
            self.budgets.spend(&pod.namespace, all, now);
            self.n_charged = self.n_charged.saturating_add(all);
        }
        let is_paid = scope.paid.is_some();
        let costs = (all, all - preemption);
        let failed = |failure| self.failed(core, queued, limits, costs, is_paid, failure);
        (found.map_err(failed), cost)
    }

    /// Why an attempt has failed that cost so much in all, and so much without looking for pods to evict.
    fn failed(
        &mut self,
        core: &Core,
        queued: &QueuedPod<Entry>,
        limits: AttemptLimits,
        (all, search): (u64, u64),
        is_paid: bool,
        failure: NoChoice,
    ) -> NoChoice {
        let (namespace, now) = (&queued.entry().0.namespace, core.now);
        match failure {
            // Whatever the plugin said: it was stopped, and would be again.
            NoChoice::Broken(_) if core.work.left() == 0 => {
                let n_errors = queued.consecutive_errors();
                let price = (all, SEARCHES);
                let refusal = self.budgets.refusal(limits, namespace, price, n_errors, now);
                NoChoice::OverBudget(refusal)
            }
            NoChoice::Unfit(mut unfit)
                if !is_paid && unfit.victims.is_empty() && queued.attempts() > 1 =>
            {
                // The price of looking for pods to evict is far above what that costs with caches.
                let n_nodes = core.cluster.n_nodes();
                unfit.error.not_before =
                    self.budgets.count_in_vain(namespace, search, n_nodes, now);
                NoChoice::Unfit(unfit)
            }
            failure => failure,
        }
    }

    /// A search; `is_kept` says whether what it finds out may be kept for other attempts.
    fn search<'a, 'w>(
        &'a mut self,
        core: &'a Core,
        (queued, profile): (&'a QueuedPod<Entry>, ProfileId),
        scope: Scope<'a>,
        is_kept: bool,
        watched: &'a ObservedSearch<'w>,
    ) -> Search<'a, 'w> {
        let options = &self.options;
        let pod = &queued.entry().0;
        let profile = &core.plans.profiles[profile];
        // A profile's 0 is not overruled by the global share: it is the one that adapts.
        let percentage = profile.percentage_of_nodes_to_score.or(options.percentage);
        let percentage = percentage.filter(|_| !self.plans_as_a_whole);
        let random = Numbers::nth(options.seed, self.number);
        self.classes.by_name = options.breaks_ties_by_name;
        Search {
            runner: Runner::new(profile, core.sources()),
            extenders: &core.extenders,
            buffers: &options.buffers,
            classes: &mut self.classes,
            pod,
            class: class_of(core, queued).filter(|_| options.uses_class_cache && is_kept),
            may_preempt: scope.may_preempt,
            nodes: scope.nodes.map(|nodes| &nodes.names),
            group: scope.group,
            percentage,
            next_start: &mut self.next_start,
            prefers_nominated: !self.plans_as_a_whole,
            random,
            ties: options.ties(random),
            watched,
        }
    }
}

/// How often pods that are alike shared the work of their evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCacheCounts {
    /// The number of evaluations that were brought up to date.
    pub hits: u64,
    /// The number of evaluations that were made from scratch.
    pub misses: u64,
}

/// For the log: what PreFilter and PostFilter said.
pub(crate) fn notice_verdicts(core: &mut Core, pod: &PodRef, profile: ProfileId, error: &FitError) {
    let Diagnosis { pre_filter_message, post_filter_message, .. } = &error.diagnosis;
    if !pre_filter_message.is_empty() {
        let (pod, status) = (pod, pre_filter_message);
        core.notices.add(5, || Notice::PreFilterEnded { pod: pod.clone(), status: status.clone() });
    }
    if core.plans.profiles[profile].post_filter().next().is_some() {
        let (pod, status) = (pod, post_filter_message);
        core.notices
            .add(5, || Notice::PostFilterEnded { pod: pod.clone(), status: status.clone() });
    }
}

/// The pod fits nowhere: it goes back to the queue, and its victims, if there are any, are evicted.
fn unfit_pod(
    core: &mut Core,
    (bindings, preemptions, observer): (&mut Bindings, &mut Preemptions, &mut dyn Observer),
    queued: QueuedPod<Entry>,
    profile: ProfileId,
    unfit: FitFailure,
) -> AttemptResult {
    let FitFailure { error, nominating, victims, found_by, commands, .. } = unfit;
    let pod = queued.entry().0.clone();
    let plan = preemptions.plan(observer, &pod, &nominating, victims, found_by);
    match plan {
        Some(plan) if !preemptions.is_in_background => {
            let result = AttemptResult::Unschedulable(error.to_string());
            let held = HeldAttempt { queued, profile, error, commands };
            let id = preemptions.register(core, pod, plan, Some(held));
            preemptions.advance(core, bindings, id);
            result
        }
        plan => {
            // Registered before the pod is in the queue again, so that nothing takes it out meanwhile; carried out after its
            // nomination is set, so that the room that victims leave is kept for it.
            let id = plan.map(|plan| preemptions.register(core, pod, plan, None));
            let failure = Failure::Unfit(error, nominating);
            let result = send_back(core, queued, profile, None, failure);
            bindings.carry_out(core, commands);
            if let Some(id) = id {
                preemptions.advance(core, bindings, id);
            }
            result
        }
    }
}

/// Pods that are going away or placed already need no attempt.
pub(crate) fn must_skip(core: &mut Core, pod: &Arc<Pod>, profile: ProfileId) -> bool {
    if pod.deletion_requested.is_some() {
        let note = format!("skip schedule deleting pod: {}/{}", pod.namespace, pod.name);
        let reporting = &core.plans.profiles[profile].scheduler_name;
        core.record(pod, PodEvent::failed_scheduling(&note, reporting));
        return true;
    }
    core.cluster.is_assumed(&pod.uid)
}
