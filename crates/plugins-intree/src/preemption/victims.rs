//! The dry run on one node: the pods to evict so that the pod fits, and no more than needed.
//!
//! Behaviour in `docs/spec/preemption.md` §5.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::preemption::{EvictionTrials, PreemptionCandidate};
use kube_scheduler_framework::{CycleState, NodeIdx, PostFilterContext, Status};
use smallvec::SmallVec;

use super::choose::started;
use super::disruption::Budgets;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Pods of one node. Few nodes have more that could go.
pub(super) type SomePods<'a> = SmallVec<[&'a Arc<Pod>; 8]>;

/// Finds victims for one pod, node by node.
pub(super) struct DryRun<'a, 'b> {
    cx: &'a PostFilterContext<'b>,
    pod: &'a Arc<Pod>,
    budgets: Budgets<'b>,
    trials: Box<dyn EvictionTrials + 'a>,
}

impl<'a, 'b: 'a> DryRun<'a, 'b> {
    pub(super) fn new(
        cx: &'a PostFilterContext<'b>,
        state: &'a CycleState,
        pod: &'a Arc<Pod>,
    ) -> Self {
        let budgets = Budgets::of(cx.cx.cluster(), &pod.namespace);
        let trials = cx.filters.eviction_trials(&cx.cx, state, pod);
        Self { cx, pod, budgets, trials }
    }

    /// How many disruption budgets there are.
    pub(super) fn n_budgets(&self) -> usize {
        self.budgets.len()
    }

    /// The victims on `node`, possibly none, or why preemption does not help there.
    pub(super) fn on(&mut self, node: NodeIdx) -> Result<PreemptionCandidate, Status> {
        let cluster = self.cx.cx.cluster();
        let priority = self.pod.priority();
        if cluster.lowest_priority_on(node).is_none_or(|lowest| lowest >= priority) {
            return Err(Status::unresolvable(NO_VICTIMS));
        }
        let emptied = self.trials.start(node, priority);
        if !emptied.is_success() {
            return Err(emptied);
        }
        let (mut ordered, others) = self.budgets.split(self.below(node));
        self.cx.cx.count_work(self.budgets.take_work());
        let n_violating = ordered.len();
        let has_both = n_violating > 0 && !others.is_empty();
        ordered.extend(others);
        // Puts back the pods that the node has room for; the others are the victims.
        let evicted = self.trials.victims(&ordered)?;
        let n_violations = evicted.iter().filter(|at| **at < n_violating).count();
        let n_pdb_violations = i64::try_from(n_violations).unwrap_or(i64::MAX);
        let victims = evicted.iter().filter_map(|at| ordered.get(*at).copied());
        let mut victims: SomePods<'_> = victims.collect();
        if has_both {
            sort_by_importance(&mut victims, self.cx.cx.now());
        }
        let victims = victims.into_iter().cloned().collect();
        Ok(PreemptionCandidate { node, victims, n_pdb_violations })
    }

    /// The pods of a node that have a lower priority, most important first.
    fn below(&self, node: NodeIdx) -> SomePods<'b> {
        let pods = self.cx.cx.cluster().pods_on(node);
        let mut below: SomePods<'b> =
            pods.filter(|other| other.priority() < self.pod.priority()).collect();
        sort_by_importance(&mut below, self.cx.cx.now());
        below
    }

    /// For each victim, in their order, the budgets that its eviction violates: as counted before the victims were found.
    pub(super) fn violated_budgets(
        &mut self,
        candidate: &PreemptionCandidate,
    ) -> Vec<Vec<Arc<str>>> {
        let violations = self.budgets.violations(self.below(candidate.node));
        let of_victim = |victim: &Arc<Pod>| {
            let found = violations.iter().find(|(pod, _)| pod.uid == victim.uid);
            found.map(|(_, names)| names.clone()).unwrap_or_default()
        };
        candidate.victims.iter().map(of_victim).collect()
    }
}

/// Higher priority first, then the one that started earlier, then the ones that have not started, in reverse.
///
/// Quirk: two pods of equal priority that have not started are each "earlier" than the other for the reference, because it
/// looks at the clock for every comparison; its sort turns their order round, every time it runs. Any order would be
/// legal, but a comparison of decisions with the reference sees this one.
fn sort_by_importance(pods: &mut [&Arc<Pod>], now: Timestamp) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), started(pod, now)));
    let is_unstarted = |pod: &Pod| pod.status.started.is_none();
    let runs = pods
        .chunk_by_mut(|a, b| a.priority() == b.priority() && is_unstarted(a) && is_unstarted(b));
    runs.for_each(<[_]>::reverse);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_have_not_started_change_places_with_every_sort() {
        let pod = |name: &str, priority: i32, start: Option<&str>| {
            let pod = serde_json::json!({
                "metadata": {"name": name, "uid": name},
                "spec": {"priority": priority},
                "status": {"startTime": start},
            });
            Arc::new(Pod::from_value(&pod).unwrap())
        };
        let owned = [
            pod("a", 1, None),
            pod("b", 1, None),
            pod("c", 1, Some("2026-01-01T00:00:02Z")),
            pod("d", 2, Some("2026-01-01T00:00:03Z")),
            pod("e", 1, Some("2026-01-01T00:00:02Z")),
            pod("f", 1, None),
        ];
        let mut pods: Vec<&Arc<Pod>> = owned.iter().collect();
        let now = Timestamp::parse("2026-01-01T01:00:00Z").unwrap();
        let names =
            |pods: &[&Arc<Pod>]| pods.iter().map(|pod| pod.name.to_string()).collect::<String>();
        sort_by_importance(&mut pods, now);
        assert_eq!(names(&pods), "dcefba");
        sort_by_importance(&mut pods, now);
        assert_eq!(names(&pods), "dceabf");
    }
}
