//! Preemption for a whole pod group: pods anywhere in the cluster make room, one by one or group by group.
//!
//! Answers to `framework/preemption/podgrouppreemption.go` of the reference; behaviour in `docs/spec/podgroups.md` §9.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{DisruptionMode, Pod, Timestamp};
use kube_scheduler_framework::groups::{GroupTrial, PlacedGroup, PodGroupPostFilter};
use kube_scheduler_framework::{ClusterView, Status};

use super::choose::started;
use super::disruption::{Budgets, RemainingBudgets};
use super::{DefaultPreemption, NEVER};
use crate::pod_groups::text_of;

const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";
const CONSTRAINED: &str =
    "workload aware preemption is not supported for pod groups with scheduling constraints";

/// Pods that are evicted together or not at all.
#[derive(Debug)]
struct Unit {
    priority: i32,
    /// In the order in which they stand on nodes; never empty.
    pods: Vec<Arc<Pod>>,
    /// When the first of them started.
    started: Timestamp,
}

impl Unit {
    /// Quirk: what the first pod says, also of pods that are evicted one by one.
    fn is_group(&self) -> bool {
        self.pods.first().is_some_and(|pod| pod.spec.pod_group.is_some())
    }

    /// Whether one of the pods belongs to the group.
    fn has_member_of(&self, group: PlacedGroup<'_>) -> bool {
        self.pods.iter().any(|pod| {
            *pod.namespace == *group.namespace
                && pod.spec.pod_group.as_ref().is_some_and(|name| **name == *group.name)
        })
    }

    /// Lower is more important.
    fn rank(&self) -> impl Ord + use<> {
        let is_group = self.is_group();
        let n_pods = if is_group { self.pods.len() } else { 0 };
        (Reverse(self.priority), Reverse(is_group), Reverse(n_pods), self.started)
    }
}

impl PodGroupPostFilter for DefaultPreemption {
    fn pod_group_post_filter(
        &self,
        group: PlacedGroup<'_>,
        trial: &mut dyn GroupTrial,
    ) -> Result<Vec<Arc<Pod>>, Status> {
        let cx = trial.context();
        let found = cx.cluster().pod_group_object(group.namespace, group.name);
        let preemptor = found.map_err(|error| {
            let why = text_of(&error, group.name);
            Status::error(format!("failed to get pod group object: {why}"))
        })?;
        let priority = group.priority(preemptor);
        let is_constrained = preemptor.topology_keys.as_ref().is_some_and(|keys| !keys.is_empty());
        if is_constrained && !trial.plans_as_a_whole() {
            return Err(Status::unschedulable(CONSTRAINED));
        }
        // Those of the group and its pods are the same where the API has both; Kubernetes 1.37 refuses groups where they differ.
        if preemptor.never_preempts || group.members.iter().any(|pod| pod.spec.never_preempts) {
            return Err(Status::unschedulable(NEVER));
        }
        let mut candidates = units(cx.cluster(), cx.now());
        candidates.retain(|unit| unit.priority < priority);
        if trial.plans_as_a_whole() {
            // Quirk of the reference: a group may evict its own members, whose priority may be lower than its own. The others would
            // take their places, and so on without end.
            candidates.retain(|unit| !unit.has_member_of(group));
        }
        if candidates.is_empty() {
            return Err(Status::unresolvable(NO_VICTIMS));
        }
        for unit in &candidates {
            trial.take_off(&unit.pods);
        }
        let status = trial.try_group();
        if !status.is_success() {
            return Err(status);
        }
        candidates.sort_by_key(Unit::rank);
        let mut victims = Vec::new();
        let cx = trial.context();
        let mut budgets = Budgets::of(cx.cluster(), group.namespace);
        let mut left = RemainingBudgets::default();
        let violates = |unit: &Unit| unit.pods.iter().any(|pod| !budgets.let_go(pod, &mut left));
        let (violating, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(violates);
        cx.count_work(budgets.take_work());
        for unit in violating.into_iter().chain(others) {
            trial.put_back(&unit.pods);
            let status = trial.try_group();
            if !status.is_success() {
                // An error, such as a limit of work that is reached, says nothing of this unit: taken for a rejection, it
                // would make victims of all units that are left.
                if !status.is_rejected() {
                    return Err(status);
                }
                trial.take_off(&unit.pods);
                victims.push(unit);
            }
        }
        victims.sort_by_key(Unit::rank);
        Ok(victims.into_iter().flat_map(|unit| unit.pods).collect())
    }
}

/// Every pod on a node, in the units in which they would be evicted.
fn units(cluster: ClusterView<'_>, now: Timestamp) -> Vec<Unit> {
    // By namespace and name: the priorities of groups that go as a whole, and the place of their unit once there is one.
    type WholeGroup = Option<(i32, Option<usize>)>;
    let mut groups: BTreeMap<(Arc<str>, Arc<str>), WholeGroup> = BTreeMap::new();
    let mut units: Vec<Unit> = Vec::new();
    for pod in cluster.order().iter().flat_map(|node| cluster.pods_on(*node)) {
        let started = started(pod, now);
        let group = pod.spec.pod_group.as_ref().and_then(|name| {
            let key = (pod.namespace.clone(), name.clone());
            let found = groups.entry(key).or_insert_with(|| {
                let group = cluster.pod_group_object(&pod.namespace, name).ok()?;
                let is_whole = group.disruption_mode == DisruptionMode::PodGroup;
                is_whole.then_some((group.priority, None))
            });
            found.as_mut()
        });
        let priority = match group {
            None => pod.priority(),
            Some((_, Some(unit))) => {
                units[*unit].pods.push(pod.clone());
                continue;
            }
            Some((priority, unit)) => {
                *unit = Some(units.len());
                *priority
            }
        };
        units.push(Unit { priority, pods: vec![pod.clone()], started });
    }
    units
}
