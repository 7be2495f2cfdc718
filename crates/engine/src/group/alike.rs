//! Groups whose members are all alike: how many of them fit is counted, node by node, instead of tried.
//!
//! Where a member fits depends on nothing but the node in question and what the pods there ask for in sum, then, and all
//! ask for the same: whichever nodes the members before have taken, as many fit as the nodes have room for together.
//! [`group::placement`](crate::group::placement) tries only the placement that is taken in the end, and
//! [`group::preemption`](crate::group::preemption) counts anew on the nodes whose pods go or come back.
//!
//! Invariant: counting gives what trying would give. Where that is not known, as of plugins that do not say so of
//! themselves, there is no [`AlikeGroup`]. One thing is not seen on nodes that members are only counted on: that a scorer
//! fails.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::{CycleState, NodeIdx};
use kube_scheduler_runtime::{Runner, SkipSet, SumsFilters};

use crate::core::Core;
use crate::cycle::SchedulingCycle;
use crate::group::Group;
use crate::guard::guarded;
use crate::numbered::class_of;
use crate::price::Price;

/// A group whose members can be counted.
#[derive(Debug)]
pub(crate) struct AlikeGroup {
    /// How many members must find a node for the group to be scheduled.
    pub(crate) needed: usize,
    /// What PreFilter left for a member, and which plugins it left out.
    state: CycleState,
    skip: SkipSet,
}

impl AlikeGroup {
    /// `None` where members have to be tried.
    pub(crate) fn of(cycle: &SchedulingCycle, core: &Core, group: &Group) -> Option<Self> {
        let profile = &core.plans.profiles[group.profile];
        let share = profile.percentage_of_nodes_to_score.or(cycle.options.percentage);
        let scores_all = share.is_none() || group.exact.is_some();
        let is_undisturbed = cycle.options.uses_class_cache
            && scores_all
            && core.extenders.is_empty()
            && core.permits.len() == 0
            && group.pods.iter().all(|pod| core.queue().nomination(&pod.uid).is_none());
        let (pod, _) = group.pods.split_first()?;
        if !is_undisturbed || !are_alike(core, group) {
            return None;
        }
        let limits = cycle.budgets.of(&group.namespace, &core.cluster, core.now);
        if Price::of(pod, &core.cluster).search > limits.soft {
            return None;
        }
        guarded(|| Self::ask(core, group, pod)).ok()?
    }

    /// Asks the plugins whether members can be counted.
    fn ask(core: &Core, group: &Group, pod: &Arc<Pod>) -> Option<Self> {
        let profile = &core.plans.profiles[group.profile];
        if !profile.reserve().all(|(_, _, plugin)| plugin.is_idle_for(pod))
            || !profile.placement_score().all(|(_, _, plugin)| plugin.goes_by_members())
        {
            return None;
        }
        let needed = group.members_needed(core)?.max(1);
        let mut state = CycleState::new();
        state.insert(group.shared.clone());
        let run = Runner::new(profile, core.sources()).pre_filter(&mut state, pod);
        let reads = run.reads.without(&SkipSet::default(), &SkipSet::default());
        let is_known = run.status.is_success() && run.node_names.is_none() && reads.can_be_cached();
        is_known.then_some(Self { needed, state, skip: run.skip })
    }

    /// The nodes that members get, one entry for each member: a node is listed as often as members fit there. Ends with `most`
    /// members or when no more fit. `None` if the filters cannot count, so that members have to be tried.
    pub(crate) fn places(
        &self,
        core: &Core,
        group: &Group,
        nodes: &[NodeIdx],
        most: usize,
    ) -> Option<Vec<NodeIdx>> {
        let mut places = Vec::new();
        self.with_filters(core, group, |filters| {
            for node in nodes {
                let left = most - places.len();
                if left == 0 {
                    break;
                }
                let n = filters.n_fitting(NodeOverlay::new(*node), left)?;
                places.extend(std::iter::repeat_n(*node, n));
            }
            Some(())
        })?;
        Some(places)
    }

    /// What `ask` finds out from the filters, which judge nodes for any one of the members; `None` if they cannot do so by the sums
    /// of nodes' requests, or if `ask` gives up.
    pub(crate) fn with_filters<T>(
        &self,
        core: &Core,
        group: &Group,
        ask: impl FnOnce(&mut SumsFilters<'_>) -> Option<T>,
    ) -> Option<T> {
        let profile = &core.plans.profiles[group.profile];
        let runner = Runner::new(profile, core.sources());
        let pod = group.pods.first()?;
        let asked = guarded(|| ask(&mut SumsFilters::new(runner, &self.state, pod, &self.skip)?));
        asked.ok()?
    }
}

/// Whether nothing tells the members apart, and none brings affinity with it that others might be judged by.
fn are_alike(core: &Core, group: &Group) -> bool {
    let Some((first, others)) = group.pods.split_first() else { return false };
    let class = group.members.first().and_then(|queued| class_of(core, queued));
    // Nominated nodes come first unless all members are planned together.
    let is_free = |pod: &Pod| group.exact.is_some() || pod.nominated_node_name().is_none();
    let is_same = |pod: &Arc<Pod>| {
        let same_requests = Arc::ptr_eq(&pod.requests, &first.requests)
            || pod.requests.accounted == first.requests.accounted
                && pod.requests.non_zero == first.requests.non_zero
                && pod.requests.fit_score == first.requests.fit_score;
        same_requests && pod.priority() == first.priority() && is_free(pod)
    };
    class.is_some()
        && !first.has_pod_affinity()
        && is_free(first)
        && group.members.iter().all(|queued| class_of(core, queued) == class)
        && others.iter().all(is_same)
}
