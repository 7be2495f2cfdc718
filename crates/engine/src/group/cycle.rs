//! The group cycle: all pods of a pod group that are ready are tried together, and only then is it decided what becomes of
//! each.
//!
//! Members are placed on trial, one after the other, so that each sees the earlier ones; then all of it is taken back, the
//! last one first: plugins unreserve, and the cluster forgets the pod, unless all members are going to be bound where they are
//! and nothing would show that they stay there until then. Both ways are in the change log, so evaluations of classes of pods
//! are kept over trials and from group to group. [`group::placement`](crate::group::placement) decides where the
//! members may go, [`group::submission`](crate::group::submission) what becomes of them.
//!
//! Behaviour: `docs/spec/podgroups.md` §4 and §5.

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::groups::{ExactPlanning, GroupCycleState};
use kube_scheduler_framework::{Code, Command, Commands, NominatingInfo, Status};
use kube_scheduler_queue::{ProfileId, QueuedPod};
use smallvec::SmallVec;

use crate::attempt::{Choice, FitFailure, NoChoice};
use crate::backfill::held_objects::show_held_to;
use crate::binding::{Bindings, Placement};
use crate::budget::{AttemptLimits, PLAIN_PER_NODE};
use crate::class_cache::ClassCache;
use crate::core::Core;
use crate::cycle::{SchedulingCycle, Scope, must_skip, notice_verdicts};
use crate::diagnosis::FitError;
use crate::effect::PodRef;
use crate::exact::{restore_nominations, withdraw_nominations};
use crate::failure::Failure;
use crate::group::report::GroupReport;
use crate::group::submission::refuse_all;
use crate::group::{
    Effort, Fit, GangRequirement, Group, GroupWork, Outcome, PlacementOutcome, UNSCHEDULABLE,
    foreseen,
};
use crate::numbered::class_of;
use crate::observer::Observer;
use crate::policy::Entry;
use crate::preemption::Preemptions;
use crate::price::PartsInTurn;
use crate::turn::{GroupTurn, Turn};

const WAITING: &str = "pod group is waiting for preemption to complete";

/// What Permit would say of a member before the last one that is needed. Asked only where reasons are reported.
static WAITS: LazyLock<Status> = LazyLock::new(|| Status::new(Code::Wait, []));

/// A group's work limit is half the limit of one pod, times the number of its pods, which is taken for this many at most.
const MAX_PODS_PAID: usize = 80;
/// The same number for a group with pods whose counters cannot be kept, so that everything is counted anew in each placement.
const MAX_PODS_PAID_ANEW: usize = 20;

/// What a member costs at most that is like the one before, which was refused, in units; each node that it may go to adds one.
const REFUSED_ALIKE: u64 = 100;

/// A member that fits nowhere, for which nothing was asked for.
#[derive(Debug)]
struct RefusedMember {
    /// Class and priority: those of the same are refused in the same way.
    class: (u64, i32),
    error: Box<FitError>,
    nomination: NominatingInfo,
    /// What it was allowed to cost.
    limits: AttemptLimits,
    /// What it cost at most, in units.
    work: u64,
    /// How many attempts at preemption were counted.
    n_preemptions: u64,
}

impl RefusedMember {
    /// Whether what was found out about this member holds for another, with nothing changed in between.
    fn is_like(&self, core: &Core, queued: &QueuedPod<Entry>) -> bool {
        let pod = &queued.entry().0;
        class_of(core, queued).map(|class| (class, pod.priority())) == Some(self.class)
            && pod.nominated_node_name().is_none()
    }
}

/// What plugins asked for while a member was tried.
#[derive(Clone, Copy, Debug, Default)]
struct PluginRequests {
    /// How many attempts at preemption are to be counted.
    n_preemptions: u64,
    /// Whether there is anything else.
    more: bool,
}

/// What a group may cost by a limit of one member's attempt.
fn for_all_members(limit: u64, cx: &GroupWork<'_>, group: &Group) -> u64 {
    let most = if cx.effort.counts_anew { MAX_PODS_PAID_ANEW } else { MAX_PODS_PAID };
    limit.saturating_mul(group.pods.len().min(most) as u64) / 2
}

impl SchedulingCycle {
    /// Tries the group of a pod that was popped.
    pub(crate) fn group_turn(
        &mut self,
        parts: (&mut Core, &mut Bindings, &mut Preemptions),
        queued: QueuedPod<Entry>,
        turn: &mut Turn,
        observer: &mut dyn Observer,
    ) {
        let (core, bindings, preemptions) = parts;
        let mut ahead = None;
        (self.n_searched, self.n_charged) = (0, 0);
        let mut cx = GroupWork {
            core: &mut *core,
            bindings,
            preemptions,
            observer,
            later: Commands::default(),
            started: Vec::new(),
            effort: Effort::default(),
            is_final: true,
            is_permitted: None,
        };
        let mut group_turn = GroupTurn::default();
        if let Some(group) = group_of(cx.core, queued, &mut group_turn) {
            let mut report = GroupReport {
                namespace: group.namespace.clone(),
                name: group.name.clone(),
                members: match cx.observer.wants_group_attempts() {
                    true => group.pods.iter().map(|pod| PodRef::from(&**pod)).collect(),
                    false => Vec::new(),
                },
                ..GroupReport::default()
            };
            if let [first, others @ ..] = &*group.pods {
                show_held_to(cx.core, group.profile, first, others);
            }
            let nominations = withdraw_nominations(cx.core, &group);
            let mut tried = self.decide(&mut cx, &group, true, &mut report);
            if cx.core.plans.groups.preempts_for_groups
                && tried.status.code() == Code::Unschedulable
            {
                self.preempt_for_group(&mut cx, &group, &mut tried, &mut report);
            }
            // Planning ahead has limits of its own.
            let is_over = cx.effort.hit_limit;
            ahead = self.look_ahead(&mut cx, &group, &tried);
            self.settle(&cx, &group, &mut tried, is_over);
            restore_nominations(cx.core, &group, nominations);
            report.status = tried.status.clone();
            report.waits_for_preemption = tried.waits;
            cx.observer.group_decided(&report);
            turn.work = cx.effort.one_by_one.saturating_add(cx.effort.as_a_whole);
            group_turn.members = cx.submit(group, tried);
        }
        if let Some(ahead) = ahead {
            ahead.carry_out(core);
        }
        if let Some((_, result)) = group_turn.members.iter().find(|(pod, _)| *pod == turn.pod) {
            turn.result = result.clone();
        }
        turn.group = Some(group_turn);
    }

    /// Takes what the group has cost from the allowance of its namespace if it is much, and has a group wait that was too
    /// expensive.
    fn settle(
        &mut self,
        cx: &GroupWork<'_>,
        group: &Group,
        tried: &mut PlacementOutcome,
        is_over: bool,
    ) {
        let (namespace, now) = (&group.namespace, cx.core.now);
        let Effort { one_by_one, one_by_one_paid, .. } = cx.effort;
        let one_by_one = one_by_one.saturating_add(self.n_searched);
        let soft = self.limits_of(cx, group).soft;
        let n_nodes = cx.core.cluster.n_nodes() as u64;
        // Single pods that are as cheap as plain ones are not charged either, however many there are.
        let plain = PLAIN_PER_NODE.saturating_mul(n_nodes).saturating_mul(group.pods.len() as u64);
        if one_by_one > for_all_members(soft, cx, group).max(plain) {
            self.budgets.spend(namespace, one_by_one.saturating_sub(one_by_one_paid), now);
        }
        self.spend_on_searches(cx, group);
        if is_over && !tried.status.is_success() && !tried.status.is_rejected() {
            let n_errors = group.members.iter().map(QueuedPod::consecutive_errors).max();
            let limits = self.limits_of(cx, group);
            let next = self.budgets.next_try(limits, namespace, n_errors.unwrap_or(0), now);
            tried.not_before = Some(next);
        }
    }

    /// Tries all members on the nodes of a placement, and takes back what it did (`docs/spec/podgroups.md` §5.2).
    pub(crate) fn try_members(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        scope: Scope<'_>,
    ) -> PlacementOutcome {
        // The reference does not look for the anti-affinity of earlier members against later ones.
        let freezes = group.exact.is_none()
            && group.pods.iter().any(|pod| pod.has_pod_affinity())
            && cx.core.cluster.freeze_affinity_lists();
        // What is found out about some nodes is of no use for all of them.
        let kept = scope.nodes.map(|_| std::mem::take(&mut self.classes));
        self.classes.by_name = self.options.breaks_ties_by_name;
        for class in &group.classes {
            self.classes.expect(*class);
        }
        let mut n_placed = 0;
        let mut tried = PlacementOutcome::failed(Status::SUCCESS);
        tried.outcomes = Vec::with_capacity(group.members.len());
        let (mut is_decided, mut needs_victims) = (false, false);
        let mut refused = None;
        // Observers are to see what plugins said.
        let needed = group.foreseen.filter(|_| !cx.observer.wants_group_attempts());
        let mut parts = PartsInTurn::default();
        for queued in &group.members {
            let parts = parts.of(&queued.entry().0, &cx.core.cluster, scope.counters());
            let scope = Scope { parts: Some(parts), ..scope };
            cx.is_permitted = needed.map(|needed| n_placed + 1 >= needed);
            let outcome = match self.refuse_alike(cx, group, queued, scope, refused.as_ref()) {
                Some(outcome) => outcome,
                None => self.try_member_after(cx, group, queued, scope, &mut refused),
            };
            let is_over = match &outcome {
                Outcome::Fits(fit) | Outcome::Preempts(fit, _) => {
                    n_placed += 1;
                    needs_victims |= matches!(outcome, Outcome::Preempts(..));
                    if fit.permit.is_success() {
                        is_decided = true;
                        tried.waits = needs_victims;
                        tried.status = if needs_victims {
                            Status::unschedulable(UNSCHEDULABLE).with_reason(WAITING)
                        } else {
                            Status::SUCCESS
                        };
                    }
                    false
                }
                Outcome::Failed(failure) if failure.is_rejection() => false,
                Outcome::Failed(failure) => {
                    let context = "failed to schedule other pod from a pod group";
                    is_decided = true;
                    tried.status = failure.status().wrapped(context);
                    tried.waits = false;
                    true
                }
            };
            tried.outcomes.push(outcome);
            if is_over {
                break;
            }
        }
        cx.is_permitted = None;
        if !is_decided {
            tried.status = Status::unschedulable(UNSCHEDULABLE);
        }
        if !tried.status.is_success() && !tried.waits {
            tried.ask_late(cx);
        }
        tried.take_back(group, cx);
        if freezes {
            cx.core.cluster.thaw_affinity_lists();
        }
        if let Some(kept) = kept {
            self.put_back_classes(kept);
        }
        tried
    }

    /// Ends the use of a class cache that was put in the place of `kept` for a while.
    pub(crate) fn put_back_classes(&mut self, kept: ClassCache) {
        let used = std::mem::replace(&mut self.classes, kept);
        self.classes.hits += used.hits;
        self.classes.misses += used.misses;
    }

    /// Whether so much more work may be spent on members one after the other.
    pub(crate) fn may_spend(&self, cx: &GroupWork<'_>, group: &Group, more: u64) -> bool {
        self.spent_on_members(cx).saturating_add(more) <= self.limit_of(cx, group)
    }

    /// How much work was spent on members one after the other, what plugins have counted included.
    const fn spent_on_members(&self, cx: &GroupWork<'_>) -> u64 {
        let searched = self.n_searched.saturating_sub(cx.effort.searched);
        cx.effort.one_by_one.saturating_add(searched)
    }

    /// How much work may be spent on members one after the other, in units.
    fn limit_of(&self, cx: &GroupWork<'_>, group: &Group) -> u64 {
        for_all_members(self.limits_of(cx, group).hard, cx, group)
    }

    /// The limits of one member's attempt.
    pub(crate) fn limits_of(&self, cx: &GroupWork<'_>, group: &Group) -> AttemptLimits {
        self.budgets.of(&group.namespace, &cx.core.cluster, cx.core.now)
    }

    /// Tries a member, and remembers in `refused` what came of it if others like it need not be tried.
    fn try_member_after(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        queued: &QueuedPod<Entry>,
        scope: Scope<'_>,
        refused: &mut Option<RefusedMember>,
    ) -> Outcome {
        let (limits, before) = (self.limits_of(cx, group), cx.effort.one_by_one);
        let (outcome, fits_nowhere, asked) = self.try_apart(cx, group, queued, scope);
        *refused = match &outcome {
            Outcome::Failed(Failure::Unfit(error, nomination))
                // What is asked for more than to be counted is not asked for twice.
                if fits_nowhere
                    && !asked.more
                    && !matches!(nomination, NominatingInfo::Override(Some(_)))
                    && queued.entry().0.nominated_node_name().is_none()
                    && cx.core.extenders.is_empty() =>
            {
                class_of(cx.core, queued).map(|class| RefusedMember {
                    class: (class, queued.entry().0.priority()),
                    error: error.clone(),
                    nomination: nomination.clone(),
                    limits,
                    work: cx.effort.one_by_one - before,
                    n_preemptions: asked.n_preemptions,
                })
            }
            _ => None,
        };
        outcome
    }

    /// What becomes of a member like the one that was refused last, with nothing changed in between. It costs the same where
    /// nothing that is found out is kept, so that all members are tried: what is too expensive does not depend on that.
    fn refuse_alike(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        queued: &QueuedPod<Entry>,
        scope: Scope<'_>,
        refused: Option<&RefusedMember>,
    ) -> Option<Outcome> {
        let core = &*cx.core;
        let refused = refused.filter(|refused| refused.is_like(core, queued))?;
        let n_nodes = scope.nodes.map_or(cx.core.cluster.n_nodes(), |nodes| nodes.names.len());
        let price = REFUSED_ALIKE.saturating_add(n_nodes as u64).min(refused.work);
        if !self.may_spend(cx, group, price) {
            return None;
        }
        let effort = cx.effort.one_by_one.saturating_add(price);
        let outcome = if self.options.uses_class_cache {
            let RefusedMember { error, nomination, n_preemptions, .. } = refused;
            self.number += 1;
            if *n_preemptions > 0 {
                cx.later.push(Command::CountPreemptionAttempts(*n_preemptions));
            }
            notice_verdicts(cx.core, &PodRef::from(&*queued.entry().0), group.profile, error);
            Outcome::Failed(Failure::Unfit(error.clone(), nomination.clone()))
        } else {
            let scope = Scope { paid: Some(refused.limits), ..scope };
            self.try_apart(cx, group, queued, scope).0
        };
        cx.effort.one_by_one = effort;
        Some(outcome)
    }

    /// [Tries a member](Self::try_member). Also returns whether no node was found, and what plugins asked for. They are not shown
    /// what they asked for with earlier members: attempts at preemption of two of them would be one request otherwise.
    fn try_apart(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        queued: &QueuedPod<Entry>,
        scope: Scope<'_>,
    ) -> (Outcome, bool, PluginRequests) {
        let earlier = std::mem::take(&mut cx.later);
        let (outcome, fits_nowhere) = self.try_member(cx, group, queued, scope);
        let mut asked = PluginRequests::default();
        for command in std::mem::replace(&mut cx.later, earlier).into_vec() {
            match &command {
                Command::CountPreemptionAttempts(n) => asked.n_preemptions += n,
                _ => asked.more = true,
            }
            cx.later.push(command);
        }
        (outcome, fits_nowhere, asked)
    }

    /// Tries one member on the cluster as the earlier ones left it (`docs/spec/podgroups.md` §5.1); says also whether no node was
    /// found, as opposed to one that a plugin objected to.
    pub(crate) fn try_member(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        queued: &QueuedPod<Entry>,
        scope: Scope<'_>,
    ) -> (Outcome, bool) {
        let (limit, spent) = (self.limit_of(cx, group), self.spent_on_members(cx));
        if spent > limit {
            cx.effort.hit_limit = true;
            let text = format!(
                "the pod group is too expensive to schedule: the pods before this one cost up to {spent} units of work, more \
                 than the {limit} that are allowed"
            );
            return (Outcome::Failed(Failure::Error(text)), false);
        }
        let before = self.n_charged;
        let asked = (queued, group.profile);
        let (found, work) = self.look(cx.core, asked, scope, cx.observer, |search| search.run());
        let Effort { one_by_one, one_by_one_paid, .. } = &mut cx.effort;
        *one_by_one = one_by_one.saturating_add(work);
        *one_by_one_paid = one_by_one_paid.saturating_add(self.n_charged - before);
        let fits_nowhere = matches!(found, Err(NoChoice::Unfit(_)));
        cx.effort.hit_limit |= matches!(found, Err(NoChoice::OverBudget(_)));
        let outcome = match found {
            Ok(choice) => cx.place(group, queued, choice, None),
            Err(NoChoice::Unfit(unfit)) if scope.may_preempt => {
                let pod = PodRef::from(&*queued.entry().0);
                notice_verdicts(cx.core, &pod, group.profile, &unfit.error);
                cx.make_room(group, queued, *unfit)
            }
            Err(other) => Outcome::Failed(other.into_failure()),
        };
        (outcome, fits_nowhere)
    }
}

impl GroupWork<'_> {
    /// Places a member on trial; `failure` is why it cannot be bound there yet.
    fn place(
        &mut self,
        group: &Group,
        queued: &QueuedPod<Entry>,
        choice: Choice,
        failure: Option<Failure>,
    ) -> Outcome {
        let node = choice.node;
        let placement = Placement { queued: queued.clone(), profile: group.profile, choice };
        let tried = match self.is_permitted {
            Some(is_permitted) => {
                let trial = self.bindings.try_unasked(self.core, placement);
                let permit = if is_permitted { Status::SUCCESS } else { WAITS.clone() };
                trial.map(|trial| (trial, permit))
            }
            None => self.bindings.try_out(self.core, placement, &mut self.later),
        };
        match tried {
            Ok((trial, permit)) => {
                let fit = Fit::new(node, trial, permit);
                match failure {
                    None => Outcome::Fits(fit),
                    Some(failure) => Outcome::Preempts(fit, Box::new(failure)),
                }
            }
            Err(status) => Outcome::Failed(Failure::on_chosen_node(status)),
        }
    }

    /// A member fits nowhere. If PostFilter found victims, they are going to be evicted, whatever becomes of the group, and
    /// the member is placed where they are.
    fn make_room(
        &mut self,
        group: &Group,
        queued: &QueuedPod<Entry>,
        unfit: FitFailure,
    ) -> Outcome {
        let FitFailure { error, nominating, victims, found_by, commands, state } = unfit;
        self.later.extend(commands.into_vec());
        let pod = &queued.entry().0;
        let plan = self.preemptions.plan(self.observer, pod, &nominating, victims, found_by);
        if let Some(plan) = plan {
            self.started.push(self.preemptions.register(self.core, pod.clone(), plan, None));
        }
        let node = match &nominating {
            NominatingInfo::Override(Some(node)) => self.core.cluster.node_idx(node),
            _ => None,
        };
        let failure = Failure::Unfit(error, nominating);
        match node {
            None => Outcome::Failed(failure),
            Some(node) => {
                let choice = Choice { node, state, n_feasible: 0, n_evaluated: 0 };
                self.place(group, queued, choice, Some(failure))
            }
        }
    }
}

/// Takes the other members out of the queue (`docs/spec/podgroups.md` §4). `None` when nothing is left to be tried; members
/// that have failed by then are in `turn`.
fn group_of(core: &mut Core, popped: QueuedPod<Entry>, turn: &mut GroupTurn) -> Option<Group> {
    let first = &popped.entry().0;
    let (namespace, name) = (first.namespace.clone(), first.spec.pod_group.clone()?);
    turn.name = name.clone();
    let mut members = core.pop_group_of(popped, &name);
    let exact = GangRequirement::of(core, &namespace, &name);
    members.sort_by_cached_key(|queued| {
        let pod = &queued.entry().0;
        let since = queued.initial_attempt_timestamp().filter(|_| exact.is_none());
        (Reverse(pod.priority()), since, pod.name.clone())
    });
    let profile = match common_profile(core, &members) {
        Ok(profile) => profile,
        Err(message) => {
            refuse_all(core, (&namespace, &name), members, &message, turn);
            return None;
        }
    };
    members.retain(|queued| {
        let pod = &queued.entry().0;
        let is_skipped = must_skip(core, pod, profile);
        if is_skipped {
            core.done(&pod.uid);
        }
        !is_skipped
    });
    let pods: Vec<Arc<Pod>> = members.iter().map(|queued| queued.entry().0.clone()).collect();
    core.cluster.refresh_order();
    let mut classes: SmallVec<[u64; 8]> =
        members.iter().filter_map(|queued| class_of(core, queued)).collect();
    classes.sort_unstable();
    classes =
        classes.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect();
    let shared = GroupCycleState::default();
    if exact.is_some() {
        shared.with(|shared| shared.insert(ExactPlanning));
    }
    let mut group = Group {
        namespace,
        name,
        profile,
        members,
        pods,
        classes,
        shared,
        planning: LazyLock::new(GroupCycleState::default),
        exact,
        foreseen: None,
    };
    group.foreseen = foreseen(core, &group);
    (!group.pods.is_empty()).then_some(group)
}

/// The profile of all members.
fn common_profile(core: &Core, members: &[QueuedPod<Entry>]) -> Result<ProfileId, String> {
    let Some(first) = members.first() else { return Err(String::new()) };
    let mut names = members.iter().map(|queued| &queued.entry().0.spec.scheduler_name);
    let name = &first.entry().0.spec.scheduler_name;
    if let Some(other) = names.find(|other| *other != name) {
        return Err(format!(
            "all pods in a single pod group should have the same .spec.schedulerName set, got: \"{other}\" and \"{name}\""
        ));
    }
    let profile = core.plans.profiles.of(&first.entry().0);
    profile.ok_or_else(|| format!("profile not found for scheduler name \"{name}\""))
}
