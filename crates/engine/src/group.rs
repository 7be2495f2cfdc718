//! A pod group while it is decided about: its members, how they fared, and what that takes.
//!
//! Invariant: a member that stays on its node when its group was [taken back](PlacementOutcome::take_back) is one of a group of
//! which all members do, and is bound there next, together with the others, or leaves.

pub(crate) mod ahead;
pub(crate) mod alike;
pub(crate) mod condition;
pub(crate) mod cycle;
pub(crate) mod foreign;
pub(crate) mod incomplete;
pub(crate) mod membership;
pub(crate) mod parent;
pub(crate) mod placement;
pub(crate) mod preemption;
pub(crate) mod report;
pub(crate) mod submission;
pub(crate) mod waits;

use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_cache::PodGroupState;
use kube_scheduler_framework::groups::{GroupCycleState, PlacedGroup};
use kube_scheduler_framework::{Commands, CycleState, NodeIdx, Reserve, Status};
use kube_scheduler_queue::{ProfileId, QueuedPod};
use kube_scheduler_runtime::PluginIdx;
use smallvec::SmallVec;

use crate::binding::{Bindings, Trial};
use crate::core::Core;
use crate::effect::PodRef;
use crate::failure::Failure;
use crate::group::report::{MemberAttempt, PlacementAttempt};
use crate::guard::guarded;
use crate::observer::Observer;
use crate::policy::Entry;
use crate::preemption::{Preemptions, TaskId};

/// What is said of a group that cannot be scheduled.
pub(crate) const UNSCHEDULABLE: &str = "pod group is unschedulable";

/// What is asked of a gang that is planned as a whole.
#[derive(Clone, Debug)]
pub(crate) struct GangRequirement {
    /// How many of the members that are tried have to be placed.
    pub(crate) needed: usize,
    /// The label whose values are the domains that it may go to, if it has to keep to one.
    pub(crate) level: Option<Arc<str>>,
}

impl GangRequirement {
    /// What is asked of a group; `None` if it is no gang, or gangs are not planned as a whole.
    pub(crate) fn of(core: &Core, namespace: &str, name: &str) -> Option<Self> {
        let gates = &core.plans.groups;
        if !gates.plans_gangs_exactly || !gates.has_gangs_like(name) {
            return None;
        }
        let (found, state) = core.cluster.pod_group_with_pods(namespace, name).ok()?;
        let min_count = usize::try_from(found.min_count()?).unwrap_or(0);
        let n_scheduled = state.map_or(0, PodGroupState::n_scheduled);
        // A gang that has enough grows pod by pod.
        let needed = min_count.saturating_sub(n_scheduled).max(1);
        let keys = found.topology_keys.as_ref().filter(|_| gates.places_groups);
        let level = keys.and_then(|keys| keys.first().cloned());
        Some(Self { needed, level })
    }
}

/// The members of a group that are tried together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) profile: ProfileId,
    /// In the order in which they are tried.
    pub(crate) members: Vec<QueuedPod<Entry>>,
    /// The pods of the members, in their order.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The classes that several members belong to.
    pub(crate) classes: SmallVec<[u64; 8]>,
    /// What plugins share between the members for this cycle.
    pub(crate) shared: GroupCycleState,
    /// What plugins keep as long as the group is planned as a whole. The states of members, which last until these are bound, do not
    /// hold it.
    pub(crate) planning: LazyLock<GroupCycleState>,
    /// What is asked of a gang that is planned as a whole; `None` for other groups.
    pub(crate) exact: Option<GangRequirement>,
    /// How many members have to be placed before one is bound, if that is [all](foreseen) that decides about those that have a
    /// node.
    pub(crate) foreseen: Option<usize>,
}

impl Group {
    /// The group as plugins see it.
    pub(crate) fn placed(&self) -> PlacedGroup<'_> {
        PlacedGroup { namespace: &self.namespace, name: &self.name, members: &self.pods }
    }

    /// How many members have to be placed before one is bound; `None` if a Permit plugin does not go by their number alone.
    pub(crate) fn members_needed(&self, core: &Core) -> Option<usize> {
        let cx = core.context();
        let mut permit = core.plans.profiles[self.profile].permit();
        permit.try_fold(0, |needed, (_, _, plugin)| {
            Some(needed.max(plugin.members_needed(&cx, self.placed())?))
        })
    }
}

/// What a group cycle works on, and what it has to do once it is over.
pub(crate) struct GroupWork<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) bindings: &'a mut Bindings,
    pub(crate) preemptions: &'a mut Preemptions,
    pub(crate) observer: &'a mut dyn Observer,
    /// What plugins asked for.
    pub(crate) later: Commands,
    /// Preemptions to set going.
    pub(crate) started: Vec<TaskId>,
    pub(crate) effort: Effort,
    /// Whether members are going to be bound where they are tried next, if all of them fit there.
    pub(crate) is_final: bool,
    /// Whether Permit would let the member be bound that is tried next, if that is known without asking.
    pub(crate) is_permitted: Option<bool>,
}

/// What a group cycle has cost at most so far, in units of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// What was spent on members one after the other.
    pub(crate) one_by_one: u64,
    /// How much of `one_by_one` is taken from the allowance of the namespace already.
    pub(crate) one_by_one_paid: u64,
    /// What was spent on planning a gang as a whole.
    pub(crate) as_a_whole: u64,
    /// What plugins have counted in the steps of that: no part of what the attempt is said to cost.
    pub(crate) searched: u64,
    /// How much of `searched` was for choices, which are paid for with `as_a_whole`.
    pub(crate) chosen: u64,
    /// How much of all that was spent before the present stage: the group is tried, makes room, and is planned ahead. Each stage
    /// has an allowance of its own.
    pub(crate) before_stage: u64,
    /// What it may come to in the present try, if that is less than the stage may cost.
    pub(crate) until: Option<u64>,
    /// How much of `as_a_whole` and `chosen` is taken from the allowance of the namespace already.
    pub(crate) paid: u64,
    /// Whether pods of the group have more counted in the whole cluster, in each placement, than is kept for the next one.
    pub(crate) counts_anew: bool,
    /// Whether something was given up because of a limit of work: what is not found then may exist all the same.
    pub(crate) hit_limit: bool,
}

impl Effort {
    /// All that planning as a whole has cost.
    pub(crate) const fn planned(&self) -> u64 {
        self.as_a_whole.saturating_add(self.searched)
    }

    /// Plugins have counted so much while they chose for members, or looked at what there is to choose from.
    pub(crate) const fn chose(&mut self, work: u64) {
        self.searched = self.searched.saturating_add(work);
        self.chosen = self.chosen.saturating_add(work);
    }

    /// What comes now has an allowance of its own.
    pub(crate) const fn begin_stage(&mut self) {
        self.before_stage = self.planned();
        self.hit_limit = false;
    }
}

/// A node for a member.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) node: NodeIdx,
    pub(crate) node_name: Arc<str>,
    /// The member on its node, for as long as it is there.
    pub(crate) on_node: Option<Trial>,
    /// What plugins left for later extension points, once it is not.
    pub(crate) left: Option<Box<CycleState>>,
    /// Success, or `Wait` with the reasons.
    pub(crate) permit: Status,
    pub(crate) n_evaluated: usize,
    pub(crate) n_feasible: usize,
}

/// How a member fared.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It fits.
    Fits(Fit),
    /// It fits once victims are gone; until then the attempt has failed.
    Preempts(Fit, Box<Failure>),
    /// It fits nowhere, or something broke.
    Failed(Failure),
}

impl Fit {
    /// The member is on trial on a node, and Permit says this.
    pub(crate) fn new(node: NodeIdx, trial: Trial, permit: Status) -> Self {
        let (node_name, (n_evaluated, n_feasible)) = (trial.node_name().clone(), trial.n_nodes());
        let on_node = Some(trial);
        Self { node, node_name, on_node, left: None, permit, n_evaluated, n_feasible }
    }

    /// The member leaves its node, if it is there.
    pub(crate) fn leave(&mut self, core: &mut Core) {
        if let Some(trial) = self.on_node.take() {
            self.left = Some(Box::new(trial.leave(core)));
        }
    }
}

impl Outcome {
    /// Why it cannot be bound.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Fits(_) => None,
            Self::Preempts(_, failure) => Some(failure),
            Self::Failed(failure) => Some(failure),
        }
    }

    pub(crate) const fn fit(&self) -> Option<&Fit> {
        match self {
            Self::Fits(fit) | Self::Preempts(fit, _) => Some(fit),
            Self::Failed(_) => None,
        }
    }

    pub(crate) const fn fit_mut(&mut self) -> Option<&mut Fit> {
        match self {
            Self::Fits(fit) | Self::Preempts(fit, _) => Some(fit),
            Self::Failed(_) => None,
        }
    }
}

/// How a group fared in one placement.
#[derive(Debug)]
pub(crate) struct PlacementOutcome {
    /// By member, in order; those after an error have none.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) status: Status,
    /// Whether the group has to wait for victims to go.
    pub(crate) waits: bool,
    /// The members that were placed, in the order in which they were, if that is not their own.
    pub(crate) order: Vec<usize>,
    /// When members that fail may be tried again, if the group was too expensive.
    pub(crate) not_before: Option<Timestamp>,
}

impl PlacementOutcome {
    /// The group fails before any member is tried.
    pub(crate) const fn failed(status: Status) -> Self {
        Self { outcomes: Vec::new(), status, waits: false, order: Vec::new(), not_before: None }
    }

    /// Takes back what was tried, the last one first, unless it can stay; members that fit keep what plugins left for them.
    pub(crate) fn take_back(&mut self, group: &Group, cx: &mut GroupWork<'_>) {
        let all_fit = self.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Fits(_)));
        let stays = cx.is_final
            && self.status.is_success()
            && all_fit
            && self.outcomes.len() == group.pods.len()
            && group.foreseen.is_some();
        for nth in (0..self.outcomes.len()).rev() {
            let at = if self.order.is_empty() { Some(nth) } else { self.order.get(nth).copied() };
            let fit = at.and_then(|at| self.outcomes.get_mut(at)).and_then(Outcome::fit_mut);
            let Some(fit) = fit else { continue };
            if let Some(trial) = &mut fit.on_node {
                trial.unreserve(cx.core, &mut cx.later);
            }
            if !stays {
                fit.leave(cx.core);
            }
        }
    }

    /// Asks Permit about the members that were placed without, so that they can say what they wait for.
    pub(crate) fn ask_late(&mut self, cx: &mut GroupWork<'_>) {
        for fit in self.outcomes.iter_mut().filter_map(Outcome::fit_mut) {
            if let Some(trial) = fit.on_node.as_mut().filter(|trial| !trial.is_asked()) {
                // An error is not what it has promised; it is one more reason.
                fit.permit = trial.ask(cx.core, &mut cx.later).unwrap_or_else(|status| status);
            }
        }
    }

    /// What observers hear about it.
    pub(crate) fn report(&self, group: &Group) -> PlacementAttempt {
        let members = self.outcomes.iter().zip(&group.pods).map(|(outcome, pod)| MemberAttempt {
            pod: PodRef::from(&**pod),
            node: outcome.fit().map(|fit| fit.node_name.clone()),
            n_feasible: outcome.fit().map_or(0, |fit| fit.n_feasible),
            status: outcome.failure().map_or(Status::SUCCESS, Failure::status),
            rejected_by: outcome.failure().map_or_else(Vec::new, Failure::rejectors),
            permit: outcome.fit().map(|fit| fit.permit.clone()),
            requires_preemption: matches!(outcome, Outcome::Preempts(..)),
        });
        PlacementAttempt {
            members: members.collect(),
            status: self.status.clone(),
            waits_for_preemption: self.waits,
            ..PlacementAttempt::default()
        }
    }
}

/// How many members must be placed before one of them is bound, if that is already known to be all of them (or more than there are),
/// and if it is all that plugins would decide by once a member has its node:
///
/// - Permit plugins go by the number of members that are placed, and no pod waits that they could let through.
/// - Reserve and PreBind plugins have nothing to do for any member.
/// - No member has affinity to other pods: the terms of members on trial are not
///   [listed](kube_scheduler_cache::ClusterState::freeze_affinity_lists).
///
/// Then no plugin need be asked about a member on trial: it can stay on its node until it is bound, and all members
/// [set off together](Bindings::start_together). Must be called before any of them is on trial.
pub(crate) fn foreseen(core: &Core, group: &Group) -> Option<usize> {
    if core.permits.len() > 0 {
        return None;
    }
    let profile = &core.plans.profiles[group.profile];
    let asked = guarded(|| {
        let needed = group.members_needed(core)?;
        let reserve: SmallVec<[(PluginIdx, &dyn Reserve); 4]> =
            profile.reserve().map(|(idx, _, plugin)| (idx, plugin)).collect();
        let reserves = |idx: PluginIdx| reserve.iter().any(|(other, _)| *other == idx);
        let is_plain = |pod: &Arc<Pod>| {
            !pod.has_pod_affinity() && reserve.iter().all(|(_, plugin)| plugin.is_idle_for(pod))
        };
        let is_idle = profile.pre_bind().all(|(idx, ..)| reserves(idx));
        let is_known = needed >= group.pods.len() && is_idle && group.pods.iter().all(is_plain);
        is_known.then_some(needed)
    });
    asked.ok().flatten()
}
