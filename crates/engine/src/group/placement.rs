//! Where a pod group may go: placements are generated, tried one by one, and the best is taken.
//!
//! Behaviour: `docs/spec/podgroups.md` §6.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_api_types::numbers::Numbers;
use kube_scheduler_framework::groups::{Placement, ProposedPlacement};
use kube_scheduler_framework::{NodeIdx, PluginName, Status};
use kube_scheduler_runtime::{Profile, is_within_bounds};

use crate::core::Core;
use crate::cycle::{NodeSubset, SchedulingCycle, Scope};
use crate::exact::{Finding, refusal};
use crate::group::alike::AlikeGroup;
use crate::group::report::{GroupReport, PlacementAttempt, PlacementScores};
use crate::group::{Group, GroupWork, PlacementOutcome};
use crate::guard::guarded;
use crate::price::{KeptCounters, Price, ScopeSize, n_kept_counters};

const NO_PLACEMENTS: &str = "no feasible placements found";

/// A placement that a group can go to.
#[derive(Debug)]
enum PlacementTrial {
    /// As it went when all members were tried.
    Whole(PlacementOutcome),
    /// All members fit.
    Counted(CountedMembers),
}

/// What counting the members in a placement gives.
enum Count {
    /// All fit, and that is enough.
    All(CountedMembers),
    /// Fewer fit than are needed.
    TooFew,
}

/// Members that were counted in a placement.
#[derive(Debug)]
struct CountedMembers {
    /// Nodes for all of them; which member goes where is open.
    places: Vec<NodeIdx>,
    /// The number of the latest attempt before they would have been tried.
    before: u64,
}

/// How the members are tried in a placement.
#[derive(Clone, Copy)]
struct Trial {
    /// Whether PostFilter is asked about those that fit nowhere.
    may_preempt: bool,
    counters: KeptCounters,
}

/// How a group fared in all placements.
struct PlacementTrials {
    /// In the first one, if the group can go to none that was tried by then.
    first: Option<PlacementOutcome>,
    /// The placements that it can go to.
    kept: Vec<(Placement, PlacementTrial)>,
    /// What a gang that is planned as a whole was refused for.
    findings: Vec<Finding>,
}

impl PlacementTrial {
    fn assignments(&self, pods: &[Arc<Pod>]) -> Vec<(Arc<Pod>, NodeIdx)> {
        match self {
            Self::Whole(tried) => {
                let members = tried.outcomes.iter().zip(pods);
                let placed = members.filter_map(|(it, pod)| Some((pod.clone(), it.fit()?.node)));
                placed.collect()
            }
            Self::Counted(CountedMembers { places, .. }) => {
                pods.iter().cloned().zip(places.iter().copied()).collect()
            }
        }
    }
}

impl SchedulingCycle {
    /// Decides where the members go. Whether PostFilter is asked about those that fit nowhere is up to `may_preempt`.
    pub(crate) fn decide(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        may_preempt: bool,
        report: &mut GroupReport,
    ) -> PlacementOutcome {
        let by_name = self.options.breaks_ties_by_name;
        // What is planned as a whole does not depend on the order of the list of nodes.
        self.options.breaks_ties_by_name |= group.exact.is_some();
        // Nor on where earlier attempts stopped looking.
        self.plans_as_a_whole = group.exact.is_some();
        let tried = self.decide_among_placements(cx, group, may_preempt, report);
        self.options.breaks_ties_by_name = by_name;
        self.plans_as_a_whole = false;
        tried
    }

    fn decide_among_placements(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        may_preempt: bool,
        report: &mut GroupReport,
    ) -> PlacementOutcome {
        let everywhere = Scope { may_preempt, group: Some(&group.shared), ..Scope::ALL };
        if !cx.core.plans.groups.places_groups {
            return self.decide_anywhere(cx, group, everywhere, report);
        }
        let placements = match placements(cx.core, group) {
            Ok(placements) => placements,
            Err(status) => {
                report.placement_failure = Some(status.clone());
                return PlacementOutcome::failed(status);
            }
        };
        let n_placements = placements.len();
        // Of several, one is chosen when all are tried.
        let was_final = cx.is_final;
        cx.is_final &= n_placements == 1;
        let tried = self.try_all(cx, group, placements, may_preempt, report);
        cx.is_final = was_final;
        let PlacementTrials { first, mut kept, findings } = match tried {
            Ok(tried) => tried,
            Err(broken) => return broken,
        };
        let best = match kept.len() {
            0 => None,
            1 => kept.pop(),
            _ => match self.best_placement(cx.core, group, &kept, report) {
                Ok(at) => Some(kept.swap_remove(at)),
                Err(status) => return PlacementOutcome::failed(status),
            },
        };
        if let Some((placement, tried)) = best {
            report.chosen = Some(placement.name.clone());
            return match tried {
                PlacementTrial::Whole(tried) => tried,
                PlacementTrial::Counted(counted) => {
                    self.try_counted(cx, group, &placement, &counted)
                }
            };
        }
        let mut tried = first.unwrap_or_else(|| PlacementOutcome::failed(Status::SUCCESS));
        let why = tried.status.error_text().unwrap_or_default();
        tried.status = Status::unschedulable(match group.exact {
            Some(_) => refusal(cx, group, &findings),
            None => {
                format!("0/{n_placements} placements are available, first placement status: {why}")
            }
        });
        tried
    }

    /// Tries one placement after the other, or counts the members in it; an error ends it.
    fn try_all(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        placements: Vec<Placement>,
        may_preempt: bool,
        report: &mut GroupReport,
    ) -> Result<PlacementTrials, PlacementOutcome> {
        let alike = match placements.len() {
            2.. if !cx.observer.wants_group_attempts() => AlikeGroup::of(self, cx.core, group),
            _ => None,
        };
        let profile = &cx.core.plans.profiles[group.profile];
        let asks_post_filter = may_preempt && profile.post_filter().next().is_some();
        // Most groups have one placement.
        let (mut first, mut kept, mut findings) = (None, Vec::with_capacity(1), Vec::new());
        let mut trial = Trial { may_preempt, counters: KeptCounters::default() };
        if placements.len() > 2 {
            let of_members = group.pods.iter().map(|pod| n_kept_counters(pod, &cx.core.cluster));
            let n_counters: Option<u64> = of_members.sum();
            cx.effort.counts_anew = n_counters.is_none();
            // All that may be tried, if there is room for the counters of all members.
            if n_counters.is_some_and(|n| cx.core.cluster.can_follow(n)) {
                trial.counters.up_to = self.limits_of(cx, group).hard;
                let n_labels = group.pods.iter().map(|pod| pod.labels.len());
                trial.counters.most_labels = n_labels.max().unwrap_or(0);
            }
        }
        for (at, placement) in placements.into_iter().enumerate() {
            // Some counters are kept only once they were needed twice, and what scores need may be counted later.
            trial.counters.are_there = at >= 2;
            match alike.as_ref().and_then(|alike| self.count(cx, group, alike, &placement, trial)) {
                Some(Count::All(counted)) => {
                    kept.push((placement, PlacementTrial::Counted(counted)));
                    continue;
                }
                // How its members fare is only said of the first placement.
                Some(Count::TooFew)
                    if !asks_post_filter && (first.is_some() || !kept.is_empty()) =>
                {
                    self.pass_over(cx, group, &placement.nodes, trial);
                    continue;
                }
                _ => {}
            }
            let had_hit_limit = std::mem::take(&mut cx.effort.hit_limit);
            let tried = self.try_placement(cx, group, &placement, trial, &mut findings);
            let hit_limit = cx.effort.hit_limit;
            cx.effort.hit_limit |= had_hit_limit;
            if cx.observer.wants_group_attempts() {
                report.attempts.push(PlacementAttempt {
                    placement: Some(placement.name.clone()),
                    nodes: names_of(cx.core, &placement.nodes),
                    ..tried.report(group)
                });
            }
            if !tried.status.is_success() && !tried.status.is_rejected() {
                // Work that is used up here does not undo what was found before.
                if hit_limit && !kept.is_empty() {
                    break;
                }
                // The error that counts says whether a limit was the reason.
                cx.effort.hit_limit = hit_limit;
                return Err(tried);
            }
            if tried.status.is_success() || tried.waits {
                kept.push((placement, PlacementTrial::Whole(tried)));
            } else if first.is_none() && kept.is_empty() {
                first = Some(tried);
            }
        }
        Ok(PlacementTrials { first, kept, findings })
    }

    /// Tries all members in a placement.
    fn try_placement(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        placement: &Placement,
        trial: Trial,
        findings: &mut Vec<Finding>,
    ) -> PlacementOutcome {
        let Trial { may_preempt, counters } = trial;
        let part = part_of(cx.core, &placement.nodes).map(|names| {
            let n_pods = if may_preempt { n_pods_on(cx.core, group, &placement.nodes) } else { 0 };
            let size = ScopeSize { n_nodes: names.len(), n_pods, counters };
            NodeSubset { names, size }
        });
        let (nodes, group_state) = (part.as_ref(), Some(&group.shared));
        let scope = Scope { nodes, may_preempt, group: group_state, ..Scope::ALL };
        self.try_group(cx, group, (&placement.name, &placement.nodes), scope, findings)
    }

    /// Counts the members that fit in a placement; `None` if they have to be tried.
    fn count(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        alike: &AlikeGroup,
        placement: &Placement,
        trial: Trial,
    ) -> Option<Count> {
        let n_members = group.pods.len();
        let work = work_of_members(cx.core, group, &placement.nodes, trial);
        if n_members < alike.needed || !self.may_spend(cx, group, work) {
            return None;
        }
        let places = alike.places(cx.core, group, &placement.nodes, n_members)?;
        if places.len() < n_members {
            let is_too_few = places.len() < alike.needed && group.exact.is_none();
            return is_too_few.then_some(Count::TooFew);
        }
        let before = self.number;
        self.pass_over(cx, group, &placement.nodes, trial);
        Some(Count::All(CountedMembers { places, before }))
    }

    /// Leaves everything as if each member had been tried, so that what comes after does not depend on it.
    fn pass_over(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        nodes: &[NodeIdx],
        trial: Trial,
    ) {
        self.number += group.pods.len() as u64;
        let work = work_of_members(cx.core, group, nodes, trial);
        cx.effort.one_by_one = cx.effort.one_by_one.saturating_add(work);
    }

    /// Places the members that were counted.
    fn try_counted(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        placement: &Placement,
        counted: &CountedMembers,
    ) -> PlacementOutcome {
        let (number, effort) = (self.number, cx.effort);
        self.number = counted.before;
        cx.effort.one_by_one = 0;
        // All fit, so that none has to make room.
        let trial = Trial { may_preempt: false, counters: KeptCounters::default() };
        let tried = self.try_placement(cx, group, placement, trial, &mut Vec::new());
        self.number = number;
        cx.effort.one_by_one = effort.one_by_one;
        tried
    }

    /// Decides without placements.
    fn decide_anywhere(
        &mut self,
        cx: &mut GroupWork<'_>,
        group: &Group,
        everywhere: Scope<'_>,
        report: &mut GroupReport,
    ) -> PlacementOutcome {
        let nodes = match group.exact {
            Some(_) => cx.core.cluster.order().to_vec(),
            None => Vec::new(),
        };
        let mut findings = Vec::new();
        let on = (&Arc::default(), &nodes[..]);
        let mut tried = self.try_group(cx, group, on, everywhere, &mut findings);
        if group.exact.is_some() && tried.status.is_rejected() {
            tried.status = Status::unschedulable(refusal(cx, group, &findings));
        }
        if cx.observer.wants_group_attempts() {
            let nodes = names_of(cx.core, cx.core.cluster.order());
            report.attempts.push(PlacementAttempt { nodes, ..tried.report(group) });
        }
        tried
    }

    /// The placement with the highest total score, by its number.
    fn best_placement(
        &mut self,
        core: &Core,
        group: &Group,
        kept: &[(Placement, PlacementTrial)],
        report: &mut GroupReport,
    ) -> Result<usize, Status> {
        report.scores = scores(core, group, kept)?;
        let best = report.scores.iter().map(|scores| scores.total).max();
        let ties: Vec<usize> =
            (0..kept.len()).filter(|at| Some(report.scores[*at].total) == best).collect();
        self.number += 1;
        let drawn = match self.options.seed {
            _ if self.options.breaks_ties_by_name => {
                return Ok(ties.into_iter().min_by_key(|at| &kept[*at].0.name).unwrap_or(0));
            }
            0 => 0,
            seed => Numbers::nth(seed, self.number) % (ties.len().max(1) as u64),
        };
        Ok(usize::try_from(drawn).ok().and_then(|at| ties.get(at)).copied().unwrap_or(0))
    }
}

/// The names of some nodes; `None` if they are all there are.
fn part_of(core: &Core, nodes: &Arc<[NodeIdx]>) -> Option<BTreeSet<Arc<str>>> {
    // Most groups may go anywhere: going through all nodes for each would cost more than placing a small one.
    if Arc::ptr_eq(nodes, &core.cluster.shared_order()) {
        return None;
    }
    let names: BTreeSet<Arc<str>> = names_of(core, nodes).into_iter().collect();
    (names.len() != core.cluster.n_nodes()).then_some(names)
}

/// How many pods these nodes have at most while the members are tried there.
fn n_pods_on(core: &Core, group: &Group, nodes: &[NodeIdx]) -> usize {
    nodes.iter().map(|node| core.cluster.n_pods_on(*node)).sum::<usize>() + group.pods.len()
}

fn names_of(core: &Core, nodes: &[NodeIdx]) -> Vec<Arc<str>> {
    nodes.iter().filter_map(|idx| core.cluster.node_name(*idx).cloned()).collect()
}

/// What it costs to try all members on some nodes, if they are alike.
fn work_of_members(core: &Core, group: &Group, nodes: &[NodeIdx], trial: Trial) -> u64 {
    let all = ScopeSize::all(&core.cluster);
    let is_part = nodes.len() != core.cluster.n_nodes();
    let size = match is_part {
        true => ScopeSize { n_nodes: nodes.len(), counters: trial.counters, ..all },
        false => all,
    };
    let work = group.pods.first().map_or(0, |pod| Price::on(pod, &core.cluster, size).search);
    work.saturating_mul(group.pods.len() as u64)
}

/// The placements that are worth a try; all nodes if no plugin generates others.
pub(crate) fn placements(core: &Core, group: &Group) -> Result<Vec<Placement>, Status> {
    let parent = Placement { name: Arc::default(), nodes: core.cluster.shared_order() };
    let profile = &core.plans.profiles[group.profile];
    let Some((_, name, plugin)) = profile.placement_generate().next() else {
        return Ok(vec![parent]);
    };
    let cx = core.context();
    let placements = guarded(|| plugin.generate(&cx, group.placed(), &parent)).and_then(|all| all);
    let placements = placements.map_err(|status| status.from_plugin(name))?;
    if placements.is_empty() {
        return Err(Status::unschedulable(NO_PLACEMENTS).from_plugin(name));
    }
    Ok(placements)
}

/// What the PlacementScore plugins give, normalised and weighted.
fn scores(
    core: &Core,
    group: &Group,
    kept: &[(Placement, PlacementTrial)],
) -> Result<Vec<PlacementScores>, Status> {
    let profile: &Profile = &core.plans.profiles[group.profile];
    let assignments: Vec<Vec<_>> =
        kept.iter().map(|(_, tried)| tried.assignments(&group.pods)).collect();
    let mut totals: Vec<PlacementScores> = kept
        .iter()
        .map(|(placement, _)| PlacementScores {
            placement: placement.name.clone(),
            by_plugin: Vec::new(),
            total: 0,
        })
        .collect();
    let cx = core.context();
    let failed = |what: &str, name: &PluginName, status: &Status| {
        status.wrapped(format!("{what} PlacementScore plugins: plugin \"{name}\" failed with"))
    };
    for (idx, name, plugin) in profile.placement_score() {
        let mut raw = Vec::with_capacity(kept.len());
        for ((placement, _), assignments) in kept.iter().zip(&assignments) {
            let proposed = ProposedPlacement { placement, assignments };
            let score = guarded(|| plugin.score(&cx, group.placed(), proposed));
            raw.push(score.and_then(|all| all).map_err(|s| failed("running", name, &s))?);
        }
        guarded(|| plugin.normalize(&mut raw))
            .and_then(|all| all)
            .map_err(|s| failed("running NormalizePlacementScore on", name, &s))?;
        for (scores, score) in totals.iter_mut().zip(raw) {
            if !is_within_bounds(score) {
                return Err(Status::error(format!(
                    "applying score defaultWeights on PlacementScore plugins: plugin \"{name}\" returns an invalid score \
                     {score}, it should in the range of [0, 100] after normalizing"
                )));
            }
            let weighted = score.wrapping_mul(profile.placement_weight(idx));
            scores.by_plugin.push((name.clone(), weighted));
            scores.total = scores.total.wrapping_add(weighted);
        }
    }
    Ok(totals)
}
