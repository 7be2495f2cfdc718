//! The cluster as the [board](super::search::Board) of an exact search: members are placed on trial.

use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, KeyedSet, Pod, Resources, WorkMeter};
use kube_scheduler_cache::reads::Reads;
use kube_scheduler_cache::{ClusterState, Versions};
use kube_scheduler_framework::groups::{ChoiceOutcome, GroupDemand, MemberOnNode};
use kube_scheduler_framework::{Commands, CycleState, NodeIdx, Status};
use rustc_hash::FxHashMap;

use super::classes::{Class, choosing, classes};
use super::search::{Board, Choices, Halt, PlacingResult, Problem};
use crate::attempt::{Candidates, Choice, NoChoice};
use crate::binding::{Placement, Trial};
use crate::core::Core;
use crate::cycle::{SchedulingCycle, Scope};
use crate::group::{Group, GroupWork};
use crate::guard::guarded;
use crate::observer::NoObserver;

/// What placing a member and taking it back counts as, in units of work.
const STEP: u64 = 500;
/// How many bytes of marks of choices are kept in one search. Of later ones it is not seen any more that they are equal: they are
/// as good as none, as for the notes about what failed.
const MAX_MARK_BYTES: usize = 8 << 20;

/// A member on its node.
#[derive(Debug)]
pub(super) struct PlacedMember {
    class: usize,
    /// Its number in the group.
    pub(super) member: usize,
    pub(super) node: NodeIdx,
    pub(super) trial: Trial,
    pub(super) permit: Status,
    /// What plugins asked for.
    pub(super) commands: Commands,
}

pub(super) struct GangBoard<'b, 'w> {
    pub(super) cycle: &'b mut SchedulingCycle,
    pub(super) cx: &'b mut GroupWork<'w>,
    group: &'b Group,
    scope: Scope<'b>,
    nodes: &'b [NodeIdx],
    classes: Vec<Class>,
    /// In the order in which they were placed.
    pub(super) placed: Vec<PlacedMember>,
    versions: Versions,
    /// What answers were read from.
    reads: Reads,
    /// Whether all answers so far go by sums.
    goes_by_sums: bool,
    marks: Marks,
    /// What exact searches for the group may cost in sum.
    limit: u64,
}

impl<'b, 'w> GangBoard<'b, 'w> {
    pub(super) fn new(
        cycle: &'b mut SchedulingCycle,
        cx: &'b mut GroupWork<'w>,
        group: &'b Group,
        (scope, nodes): (Scope<'b>, &'b [NodeIdx]),
        limit: u64,
    ) -> Self {
        cx.core.work = WorkMeter::new(limit.saturating_sub(cx.effort.planned()));
        let classes = classes(cx.core, group);
        cx.effort.chose(cx.core.work.done());
        let versions = Versions::of(&cx.core.cluster);
        Self {
            cycle,
            cx,
            group,
            scope,
            nodes,
            classes,
            placed: Vec::new(),
            versions,
            reads: Reads::NOTHING,
            goes_by_sums: true,
            marks: Marks::default(),
            limit,
        }
    }

    pub(super) fn problem(&self, needed: usize) -> Problem {
        // Of a member that nothing is known of, more may matter than its place, unless that is what is chosen for it: this has a
        // mark.
        let remembers_order = |Class { is_unknown, choosing, .. }: &Class| {
            choosing.leaves_some || *is_unknown && !choosing.has_choices
        };
        Problem {
            sizes: self.classes.iter().map(|class| class.members.len()).collect(),
            remembers_order: self.classes.iter().map(remembers_order).collect(),
            chooses: self.classes.iter().map(|class| class.choosing.has_choices).collect(),
            needed,
        }
    }

    fn spend(&mut self, units: u64) -> Result<(), Halt> {
        let spent = &mut self.cx.effort.as_a_whole;
        *spent = spent.saturating_add(units);
        if self.cx.effort.planned() > self.limit { Err(Halt::Limit) } else { Ok(()) }
    }

    /// Has a plugin take the choice of this number for a member on a node, where there are several.
    fn choose(
        &mut self,
        member: usize,
        (node, number): (NodeIdx, usize),
        state: &mut CycleState,
    ) -> Result<PlacingResult, Halt> {
        let group = self.group;
        let left = self.limit.saturating_sub(self.cx.effort.planned());
        self.cx.core.work = WorkMeter::new(left);
        let core = &*self.cx.core;
        let pod = &group.pods[member];
        let member = MemberOnNode { pod, node, members: &group.pods };
        let choice = match choosing(core, group.profile, pod).1 {
            Some(chooser) => guarded(|| chooser.choose(&core.context(), state, member, number)),
            None if number == 0 => Ok(ChoiceOutcome::Made(None)),
            None => Ok(ChoiceOutcome::Unknown),
        };
        let done = core.work.done();
        // It depends on which answers about devices are known already.
        self.cx.effort.chose(done);
        self.spend(0)?;
        Ok(match choice.map_err(Halt::Broken)? {
            ChoiceOutcome::Made(mark) => {
                let (number, n_new) = self.marks.number(mark);
                self.spend(n_new)?;
                PlacingResult::Placed(number)
            }
            ChoiceOutcome::NoMore => PlacingResult::NoMore,
            ChoiceOutcome::Unknown => PlacingResult::Unknown,
        })
    }
}

/// Numbers for the marks of choices.
#[derive(Default)]
struct Marks {
    numbers: KeyedMap<Arc<str>, u32>,
    /// How many numbers were given, those of choices without a mark included.
    n_given: u32,
    n_bytes: usize,
}

impl Marks {
    /// The number of a mark, and how many bytes it has if it was not known; without a mark, a number of its own.
    fn number(&mut self, mark: Option<Arc<str>>) -> (u32, u64) {
        let known = mark.as_ref().and_then(|mark| self.numbers.get(mark));
        if let Some(known) = known {
            return (*known, 0);
        }
        self.n_given = self.n_given.saturating_add(1);
        let Some(mark) = mark else { return (self.n_given, 0) };
        let n_new = mark.len();
        let n_bytes = self.n_bytes.saturating_add(n_new);
        if n_bytes <= MAX_MARK_BYTES {
            self.n_bytes = n_bytes;
            self.numbers.insert(mark, self.n_given);
        }
        (self.n_given, n_new as u64)
    }
}

impl Board for GangBoard<'_, '_> {
    /// What plugins left, and on how many nodes the pod fits.
    type State = (CycleState, usize);

    fn choices(&mut self, class: usize) -> Result<Choices<Self::State>, Halt> {
        let nowhere = Choices { nodes: Vec::new(), state: (CycleState::new(), 0), is_local: true };
        let Class { members, n_placed, is_unknown, choosing } = &self.classes[class];
        let Some(member) = members.get(*n_placed) else { return Ok(nowhere) };
        let queued = &self.group.members[*member];
        // What is chosen on one node may be missing on another.
        let goes_further = *is_unknown || choosing.has_choices;
        let who = (queued, self.group.profile);
        let (core, scope) = (&mut *self.cx.core, self.scope);
        let before = (self.cycle.n_searched, self.cycle.n_charged);
        let (found, work) =
            self.cycle.look(core, who, scope, &mut NoObserver, |search| search.candidates());
        let searched = self.cycle.n_searched - before.0;
        let charged = self.cycle.n_charged - before.1;
        // A step that is refused beforehand costs nothing.
        let is_refused = matches!(found, Err(NoChoice::OverBudget(_))) && charged == 0;
        let work = if is_refused { 0 } else { work };
        // What was taken from the allowance with the step: its price, and what plugins have counted.
        let of_price = charged.min(work);
        let effort = &mut self.cx.effort;
        effort.searched = effort.searched.saturating_add(searched);
        effort.paid = effort.paid.saturating_add(of_price);
        effort.one_by_one_paid = effort.one_by_one_paid.saturating_add(charged - of_price);
        self.spend(work.saturating_add(STEP))?;
        let Candidates { nodes, state, reads, is_local, goes_by_sums } = match found {
            Ok(candidates) => candidates,
            Err(NoChoice::NoNodes) => return Ok(nowhere),
            Err(NoChoice::Unfit(unfit)) => {
                return Err(Halt::Broken(Status::error(unfit.error.to_string())));
            }
            Err(NoChoice::Broken(status)) => return Err(Halt::Broken(status)),
            Err(NoChoice::OverBudget(_)) => {
                self.cx.effort.hit_limit = true;
                return Err(Halt::Limit);
            }
        };
        self.reads = self.reads.union(reads);
        self.goes_by_sums &= goes_by_sums;
        let n_feasible = nodes.len();
        Ok(Choices { nodes, state: (state, n_feasible), is_local: is_local && !goes_further })
    }

    fn place(
        &mut self,
        class: usize,
        (node, choice): (NodeIdx, usize),
        (state, n_feasible): &Self::State,
    ) -> Result<PlacingResult, Halt> {
        self.spend(STEP)?;
        let Class { members, n_placed, choosing, .. } = &self.classes[class];
        let Some(member) = members.get(*n_placed).copied() else {
            return Ok(PlacingResult::NoMore);
        };
        let mut state = state.clone();
        let chosen = match (choosing.has_choices, choice) {
            (true, _) => self.choose(member, (node, choice), &mut state)?,
            (false, 0) => PlacingResult::Placed(0),
            (false, _) => PlacingResult::NoMore,
        };
        if !matches!(chosen, PlacingResult::Placed(_)) {
            return Ok(chosen);
        }
        let (n_evaluated, n_feasible) = (self.nodes.len(), *n_feasible);
        let placement = Placement {
            queued: self.group.members[member].clone(),
            profile: self.group.profile,
            choice: Choice { node, state, n_evaluated, n_feasible },
        };
        let mut commands = Commands::default();
        let GroupWork { core, bindings, .. } = &mut *self.cx;
        match bindings.try_out(core, placement, &mut commands) {
            Ok((trial, permit)) => {
                self.classes[class].n_placed += 1;
                self.placed.push(PlacedMember { class, member, node, trial, permit, commands });
                Ok(chosen)
            }
            Err(status) if status.is_rejected() => Ok(PlacingResult::Objected),
            Err(status) => Err(Halt::Broken(status)),
        }
    }

    fn take_back(&mut self) {
        if let Some(placed) = self.placed.pop() {
            self.classes[placed.class].n_placed -= 1;
            // What was only tried on the way asks for nothing.
            placed.trial.take_back(self.cx.core, &mut Commands::default());
        }
    }

    fn is_still_local(&self) -> bool {
        self.versions.agree(&Versions::of(&self.cx.core.cluster), self.reads)
    }

    fn rules_out(&mut self, left: &[usize], needed: usize) -> Result<bool, Halt> {
        let mut members: Vec<Arc<Pod>> = Vec::new();
        for (class, n_left) in self.classes.iter().zip(left) {
            let rest = class.members.iter().skip(class.n_placed).take(*n_left);
            members.extend(rest.map(|member| self.group.pods[*member].clone()));
        }
        self.spend(price_of_counting(&members, self.nodes.len()))?;
        let demand = demand_of(self.group, (&members[..], needed), self.nodes);
        let counted = counted_out(self.cx, self.group, demand, self.limit);
        self.spend(0)?;
        Ok(counted.map_err(Halt::Broken)?.is_some())
    }

    fn distinct(&self, nodes: Vec<NodeIdx>, fits: &FxHashMap<NodeIdx, u64>) -> Vec<NodeIdx> {
        if !self.goes_by_sums {
            return nodes;
        }
        let cluster = &self.cx.core.cluster;
        let mut seen = KeyedSet::default();
        let is_new = |node: &NodeIdx| match fits.get(node) {
            Some(fits) => seen.insert((*fits, standing(cluster, *node))),
            None => true,
        };
        nodes.into_iter().filter(is_new).collect()
    }
}

/// The sums that a node is judged by: what it has and what is used of it, and how many pods it accepts and has.
type Standing = (Resources, Resources, i64, i64);

fn standing(cluster: &ClusterState, node: NodeIdx) -> Standing {
    let has = cluster.allocatable().resources_of(node);
    let used = cluster.requested().resources_of(node);
    (has, used, cluster.allowed_pods().get(node), cluster.pod_count().get(node))
}

/// What [`counted_out`] costs, apart from what plugins count: the resources of each node that all nodes have and of which a pod asks
/// for most, and what all pods ask for, claims included.
pub(super) fn price_of_counting(members: &[Arc<Pod>], n_nodes: usize) -> u64 {
    let n_scalars = members.iter().map(|pod| pod.requests.fit.scalars.len());
    let n_kinds = 3 + n_scalars.clone().max().unwrap_or(0) as u64;
    let n_claims = members.iter().map(|pod| pod.spec.resource_claims.len());
    let n_amounts = n_scalars.sum::<usize>() + n_claims.sum::<usize>() + members.len();
    n_kinds.saturating_mul(n_nodes as u64).saturating_add(n_amounts as u64)
}

/// What is asked about some of a group's members and some nodes.
pub(super) fn demand_of<'a>(
    group: &'a Group,
    (members, needed): (&'a [Arc<Pod>], usize),
    nodes: &'a [NodeIdx],
) -> GroupDemand<'a> {
    GroupDemand { members, needed, nodes, all: &group.pods, shared: &group.planning }
}

/// What rules the nodes out by counting, in the words of the first plugin that can tell before planning as a whole has cost `limit`.
pub(super) fn counted_out(
    cx: &mut GroupWork<'_>,
    group: &Group,
    demand: GroupDemand<'_>,
    limit: u64,
) -> Result<Option<String>, Status> {
    let meter = WorkMeter::new(limit.saturating_sub(cx.effort.planned()));
    let before = std::mem::replace(&mut cx.core.work, meter);
    let reason = ask_bounds(cx.core, group, demand);
    cx.effort.chose(cx.core.work.done());
    cx.core.work = before;
    reason
}

fn ask_bounds(
    core: &Core,
    group: &Group,
    demand: GroupDemand<'_>,
) -> Result<Option<String>, Status> {
    let profile = &core.plans.profiles[group.profile];
    let cx = core.context();
    for (idx, name, _) in profile.filter() {
        let Some(plugin) = profile.plugin(idx) else { continue };
        let Some(bound) = plugin.plugin.as_placement_bound() else { continue };
        let answer = guarded(|| bound.rules_out(&cx, demand));
        if let Some(text) = answer.map_err(|status| status.from_plugin(name))? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_marks_have_one_number_until_too_many_bytes_are_kept() {
        let mut marks = Marks::default();
        let mut number = |text: Option<&str>| marks.number(text.map(Arc::from));
        let quarters = ["a", "b", "c", "d"].map(|text| text.repeat(MAX_MARK_BYTES / 4));
        let n_bytes = (MAX_MARK_BYTES / 4) as u64;
        for (quarter, expected) in quarters.iter().zip(1..) {
            assert_eq!(number(Some(quarter.as_str())), (expected, n_bytes));
        }
        assert_eq!(number(Some(quarters[0].as_str())), (1, 0));
        assert_eq!((number(None), number(None)), ((5, 0), (6, 0)));
        // No byte more is kept.
        assert_eq!((number(Some("e")), number(Some("e"))), ((7, 1), (8, 1)));
        assert_eq!(number(Some(quarters[3].as_str())), (4, 0));
    }
}
