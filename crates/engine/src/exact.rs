//! Gangs that are planned as a whole: opt-in, in place of the reference's greedy algorithm.
//!
//! A gang is first counted (is there room in sum?), then tried as the reference does, member by member, and if that fails
//! [searched](search) for in any order, on one placement after the other. What counting or a search that came to its end
//! rules out does not fit now; a search that ends at its limit says so. A gang that does not fit holds nothing, unless it is the one
//! for which room is [kept](crate::backfill).
//!
//! Invariant: nothing here depends on the order in which pods, nodes and groups arrived: members are taken by priority and
//! name, and of equally good nodes and placements the first by name is.
//!
//! Behaviour: `docs/groups.md`, "Exact mode".

mod board;
mod classes;
mod search;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{NodeIdx, Status};
use kube_scheduler_queue::Nomination;

use self::board::{GangBoard, PlacedMember, counted_out, demand_of, price_of_counting};
use self::classes::choosing;
use self::search::{Answer, Halt, search};
use crate::core::Core;
use crate::cycle::{SchedulingCycle, Scope};
use crate::group::{
    Effort, Fit, GangRequirement, Group, GroupWork, Outcome, PlacementOutcome, UNSCHEDULABLE,
};
use crate::price::Price;

/// How many times the work of the most expensive pod the exact searches of one stage of an attempt may cost.
const MAX_SEARCH_WORK: u64 = 10;
/// The part of what is left of that for one try in a changed cluster: a try that ends at its limit leaves something for others.
const TRY_PART: u64 = 4;

/// The name of the widest level.
const CLUSTER: &str = "cluster";

/// Why a gang was not placed on some nodes.
#[derive(Clone, Debug)]
enum GangFailure {
    /// Too few of its pods can be tried.
    TooFew(usize),
    /// There is not enough room in sum.
    Counted(String),
    /// Everything was tried.
    Nowhere,
    /// The search has cost as much as it may, or choices were too many to be found out.
    Limit,
    /// Extenders would have to be asked at every step.
    Extenders,
}

impl GangFailure {
    /// Equal for reasons of one kind; lower for those that are named first.
    const fn kind(&self) -> u8 {
        match self {
            Self::TooFew(_) => 0,
            Self::Counted(_) => 1,
            Self::Nowhere => 2,
            Self::Limit => 3,
            Self::Extenders => 4,
        }
    }
}

/// Why a gang was not placed in a placement.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    placement: Arc<str>,
    why: GangFailure,
}

impl SchedulingCycle {
    /// Tries a group on the nodes of a placement, in the way that it is to be planned.
    pub(crate) fn try_group(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        (placement, nodes): (&Arc<str>, &[NodeIdx]),
        scope: Scope<'_>,
        findings: &mut Vec<Finding>,
    ) -> PlacementOutcome {
        let Some(exact) = &group.exact else { return self.try_members(cx, group, scope) };
        // No pod is evicted for a single member: the gang might not fit then either.
        let scope = Scope { may_preempt: false, ..scope };
        let (tried, why) = self.try_gang(cx, group, exact.needed, (scope, nodes));
        findings.extend(why.map(|why| Finding { placement: placement.clone(), why }));
        tried
    }

    fn try_gang(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        needed: usize,
        (scope, nodes): (Scope<'_>, &[NodeIdx]),
    ) -> (PlacementOutcome, Option<GangFailure>) {
        let refused =
            |why| (PlacementOutcome::failed(Status::unschedulable(UNSCHEDULABLE)), Some(why));
        if group.pods.len() < needed {
            return refused(GangFailure::TooFew(group.pods.len()));
        }
        let limits = self.limits_of(cx, group);
        // What is too expensive to be tried is too expensive to be counted: trying it says so.
        let is_counted = |pod: &Arc<Pod>| Price::of(pod, &cx.core.cluster).search <= limits.hard;
        if group.pods.iter().all(is_counted) {
            let spent = &mut cx.effort.as_a_whole;
            *spent = spent.saturating_add(price_of_counting(&group.pods, nodes.len()));
            let (_, limit) = self.search_limits(cx, group);
            let demand = demand_of(group, (&group.pods[..], needed), nodes);
            match counted_out(cx, group, demand, limit) {
                Ok(None) => {}
                Ok(Some(text)) => return refused(GangFailure::Counted(text)),
                Err(status) => return (PlacementOutcome::failed(status), None),
            }
        }
        let greedy = self.try_members(cx, group, scope);
        if !greedy.status.is_rejected() {
            return (greedy, None);
        }
        if !cx.core.plans.extenders.is_empty() {
            return (greedy, Some(GangFailure::Extenders));
        }
        let (stage, limit) = self.search_limits(cx, group);
        let mut board = GangBoard::new(self, cx, group, (scope, nodes), limit);
        let problem = board.problem(needed);
        match search(&mut board, &problem) {
            Ok(Answer::Found) => {
                let placed = std::mem::take(&mut board.placed);
                (self.keep(cx, group, scope, placed), None)
            }
            Ok(Answer::Nowhere) => (greedy, Some(GangFailure::Nowhere)),
            Ok(Answer::Unknown) => (greedy, Some(GangFailure::Limit)),
            Err(Halt::Broken(status)) => (PlacementOutcome::failed(status), None),
            Err(Halt::Limit | Halt::LooksFurther) => {
                // A try that ends at its own limit has not found a way, and those that come later may.
                let left = stage.saturating_sub(cx.effort.planned());
                cx.effort.hit_limit |= cx.effort.until.is_none() || left < limits.hard;
                (greedy, Some(GangFailure::Limit))
            }
        }
    }

    /// Adds the other members where they fit, and takes all of it back.
    fn keep(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        scope: Scope<'_>,
        placed: Vec<PlacedMember>,
    ) -> PlacementOutcome {
        let mut outcomes: Vec<Option<Outcome>> = group.members.iter().map(|_| None).collect();
        let mut tried = PlacementOutcome::failed(Status::unschedulable(UNSCHEDULABLE));
        for placed in placed {
            let PlacedMember { member, node, trial, permit, commands, .. } = placed;
            cx.later.extend(commands.into_vec());
            if permit.is_success() {
                tried.status = Status::SUCCESS;
            }
            tried.order.push(member);
            outcomes[member] = Some(Outcome::Fits(Fit::new(node, trial, permit)));
        }
        let kept = scope.nodes.map(|_| std::mem::take(&mut self.classes));
        for (member, queued) in group.members.iter().enumerate() {
            if outcomes[member].is_none() {
                let (outcome, _) = self.try_member(cx, group, queued, scope);
                if outcome.fit().is_some() {
                    tried.order.push(member);
                }
                outcomes[member] = Some(outcome);
            }
        }
        tried.outcomes = outcomes.into_iter().flatten().collect();
        tried.take_back(group, cx);
        if let Some(kept) = kept {
            self.put_back_classes(kept);
        }
        tried
    }

    /// What planning as a whole may have cost at the end of the present stage.
    fn search_limit(&self, cx: &GroupWork<'_>, group: &Group) -> u64 {
        let limit = self.limits_of(cx, group).hard;
        cx.effort.before_stage.saturating_add(limit.saturating_mul(MAX_SEARCH_WORK))
    }

    /// The same, and what it may have cost at the end of the present try.
    fn search_limits(&self, cx: &GroupWork<'_>, group: &Group) -> (u64, u64) {
        let stage = self.search_limit(cx, group);
        (stage, cx.effort.until.unwrap_or(stage).min(stage))
    }

    /// What planning as a whole may have cost at the end of a try in a changed cluster. What is not found by then counts as not
    /// there, unless nothing is left for later tries.
    pub(crate) fn try_limit(&self, cx: &GroupWork<'_>, group: &Group) -> u64 {
        let spent = cx.effort.planned();
        spent.saturating_add(self.search_limit(cx, group).saturating_sub(spent) / TRY_PART)
    }

    /// Takes what the searches have cost from the allowance of the group's namespace, but for what is taken already.
    pub(crate) fn spend_on_searches(&mut self, cx: &GroupWork<'_>, group: &Group) {
        let Effort { as_a_whole, chosen, paid, .. } = cx.effort;
        let owed = as_a_whole.saturating_add(chosen);
        if owed > self.limits_of(cx, group).soft && owed > paid {
            self.budgets.spend(&group.namespace, owed - paid, cx.core.now);
        }
    }
}

/// Members do not keep room from each other: their nominations do not count while they are planned together. What was
/// withdrawn, by number of the member; nothing where they are tried one after the other.
pub(crate) fn withdraw_nominations(core: &mut Core, group: &Group) -> Vec<(usize, Arc<str>)> {
    if group.exact.is_none() {
        return Vec::new();
    }
    let nominations =
        group.pods.iter().enumerate().filter_map(|(member, pod)| {
            Some((member, Arc::from(core.queue().nomination(&pod.uid)?)))
        });
    let nominations: Vec<(usize, Arc<str>)> = nominations.collect();
    for (member, _) in &nominations {
        let uid = group.pods[*member].uid.clone();
        core.with_queue(|queue, _| queue.withdraw_nomination(&uid));
    }
    nominations
}

/// Gives members their [nominations](withdraw_nominations) back.
pub(crate) fn restore_nominations(
    core: &mut Core,
    group: &Group,
    nominations: Vec<(usize, Arc<str>)>,
) {
    for (member, node) in nominations {
        let Some(queued) = group.members.get(member) else { continue };
        core.with_queue(|queue, policy| {
            queue.nominate(queued.entry(), Nomination::Override(&node), policy);
        });
    }
}

/// Why a gang was not placed, level by level.
pub(crate) fn refusal(cx: &mut GroupWork<'_>, group: &Group, findings: &[Finding]) -> String {
    let mut text = UNSCHEDULABLE.to_owned();
    let Some(GangRequirement { needed, level }) = &group.exact else { return text };
    let (members, core) = (&group.pods[..], &*cx.core);
    let chosen = match members.iter().any(|pod| choosing(core, group.profile, pod).0.leaves_some) {
        true => ", with what is found first for them, such as volumes",
        false => "",
    };
    let said = |why: &GangFailure| match why {
        GangFailure::TooFew(n) => {
            format!("{needed} pods have to be placed, and only {n} can be tried")
        }
        GangFailure::Counted(text) => text.clone(),
        GangFailure::Nowhere => format!("no way to place {needed} pods, in any order{chosen}"),
        GangFailure::Limit => {
            format!(
                "the search for a way to place {needed} pods ended at its limit, there may be one"
            )
        }
        GangFailure::Extenders => {
            format!(
                "no way to place {needed} pods one after the other; with extenders, other orders are not tried"
            )
        }
    };
    let Some(level) = level else {
        for Finding { why, .. } in findings {
            write!(text, ", {CLUSTER}: {}", said(why)).ok();
        }
        return text;
    };
    let nodes = core.cluster.order().to_vec();
    // However much was spent: it is counted once. Tries in a changed cluster are many, and each has its limit.
    let limit = cx.effort.until.unwrap_or(u64::MAX);
    match counted_out(cx, group, demand_of(group, (members, *needed), &nodes), limit) {
        Ok(Some(counted)) => write!(text, ", {CLUSTER}: {counted}").ok(),
        _ => write!(text, ", {CLUSTER}: enough room in sum").ok(),
    };
    // One domain stands for all that were refused in the same way.
    let mut by_kind: BTreeMap<u8, (usize, &Finding)> = BTreeMap::new();
    for finding in findings {
        by_kind.entry(finding.why.kind()).or_insert((0, finding)).0 += 1;
    }
    let all = findings.len();
    for (n, Finding { placement, why }) in by_kind.values() {
        write!(text, ", {level}: {n} of {all} domains{SUCH_AS}{placement}: {}", said(why)).ok();
    }
    text
}

/// What stands before the name of a domain in a reason.
const SUCH_AS: &str = ", such as ";

/// A reason of a gang that is planned as a whole, without the names of domains, which may be those of nodes.
pub fn without_domains(reason: &str) -> String {
    let mut parts = reason.split(SUCH_AS);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Values of labels have no colon.
        text.push_str(part.find(": ").map_or("", |end| &part[end..]));
    }
    text
}
