//! The dry run on one node: the pods to evict so that the pod fits, and no more than needed.
//!
//! In most cases the sums of requests decide ([`SumsTrial`]), and nothing of a node is copied. Where a filter reads
//! single pods, a full trial notifies the plugins of every pod that is removed and put back.
//!
//! Behaviour in `docs/spec/preemption.md` §5.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::preemption::SumsTrial;
use kube_scheduler_framework::{CycleState, NodeIdx, NodeOverlay, PostFilterContext, Status};

use super::candidate::{Candidate, SomePods};
use super::choose::started;
use super::disruption::Budgets;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Finds victims for one pod, node by node.
pub(super) struct DryRun<'a, 'b> {
    cx: &'a PostFilterContext<'b>,
    state: &'a CycleState,
    pod: &'a Arc<Pod>,
    budgets: Budgets,
    /// Trials by sums, if no plugin follows single pods.
    sums: Option<Box<dyn SumsTrial + 'a>>,
}

impl<'a, 'b: 'a> DryRun<'a, 'b> {
    pub(super) fn new(
        cx: &'a PostFilterContext<'b>,
        state: &'a CycleState,
        pod: &'a Arc<Pod>,
    ) -> Self {
        let budgets = Budgets::of(cx.cx.cluster());
        let sums = cx.filters.by_sums(&cx.cx, state, pod);
        Self { cx, state, pod, budgets, sums }
    }

    /// How many disruption budgets there are.
    pub(super) fn n_budgets(&self) -> usize {
        self.budgets.len()
    }

    /// The victims on `node`, possibly none, or why preemption does not help there.
    pub(super) fn on(&mut self, node: NodeIdx) -> Result<Candidate<'b>, Status> {
        let cluster = self.cx.cx.cluster();
        let priority = self.pod.priority();
        if cluster.lowest_priority_on(node).is_none_or(|lowest| lowest >= priority) {
            return Err(Status::unresolvable(NO_VICTIMS));
        }
        let below = || cluster.pods_on(node).filter(|other| other.priority() < priority);
        if let Some(mut sums) = self.sums.take() {
            let found = self.on_sums(node, || below().collect(), &mut *sums);
            self.sums = Some(sums);
            if let Some(found) = found {
                return found;
            }
        }
        // What the trial below would end with, from columns.
        let (cx, filters) = (&self.cx.cx, self.cx.filters);
        if let Some(status) =
            filters.rejection_without_pods_below(cx, self.state, self.pod, node, priority)
        {
            return Err(status);
        }
        let potential: SomePods<'_> = below().collect();
        let (state, overlay) = (self.state.clone(), NodeOverlay::new(node));
        let mut trial = FullTrial { cx: self.cx, pod: self.pod, state, overlay };
        for victim in &potential {
            trial.remove(victim)?;
        }
        let emptied = trial.filter();
        if !emptied.is_success() {
            return Err(emptied);
        }
        self.reprieve(node, potential, &mut trial).map_err(|stopped| match stopped {
            Stopped::Failed(status) => status,
            Stopped::CannotTell => Status::error("the trial of a node gave no answer"),
        })
    }

    /// For each victim, in their order, the budgets that its eviction violates: as counted before the victims were found.
    pub(super) fn violated_budgets(&self, candidate: &Candidate<'_>) -> Vec<Vec<Arc<str>>> {
        let cluster = self.cx.cx.cluster();
        let mut potential: SomePods<'_> = cluster
            .pods_on(candidate.node)
            .filter(|other| other.priority() < self.pod.priority())
            .collect();
        sort_by_importance(&mut potential, self.cx.cx.now());
        let violations = self.budgets.violations(potential);
        let of_victim = |victim: &&Arc<Pod>| {
            let found = violations.iter().find(|(pod, _)| pod.uid == victim.uid);
            found.map(|(_, names)| names.clone()).unwrap_or_default()
        };
        candidate.victims.iter().map(of_victim).collect()
    }

    /// The dry run on `node` by sums alone, without `potential` victims; `None` when a filter has to read single pods.
    fn on_sums(
        &self,
        node: NodeIdx,
        potential: impl FnOnce() -> SomePods<'b>,
        sums: &mut (dyn SumsTrial + 'a),
    ) -> Option<Result<Candidate<'b>, Status>> {
        let emptied = sums.start(node, self.pod.priority())?;
        if !emptied.is_success() {
            return Some(Err(emptied));
        }
        match self.reprieve(node, potential(), sums) {
            Ok(candidate) => Some(Ok(candidate)),
            Err(Stopped::CannotTell) => None,
            Err(Stopped::Failed(status)) => Some(Err(status)),
        }
    }

    /// Puts back the pods that the node has room for; the others are the victims.
    fn reprieve(
        &self,
        node: NodeIdx,
        mut potential: SomePods<'b>,
        trial: &mut (impl Trial + ?Sized),
    ) -> Result<Candidate<'b>, Stopped> {
        let now = self.cx.cx.now();
        sort_by_importance(&mut potential, now);
        let (violating, others) = self.budgets.split(potential);
        let has_both = !violating.is_empty() && !others.is_empty();
        let n_violating = violating.len();
        let mut victims = SomePods::new();
        let mut n_violations = 0;
        for (i, victim) in violating.into_iter().chain(others).enumerate() {
            if !trial.reprieve(victim)? {
                n_violations += i64::from(i < n_violating);
                victims.push(victim);
            }
        }
        if has_both {
            sort_by_importance(&mut victims, now);
        }
        Ok(Candidate { node, victims, n_violations })
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

/// Why a trial ended early.
enum Stopped {
    /// A plugin failed.
    Failed(Status),
    /// Sums are not enough.
    CannotTell,
}

/// A node that some pods are gone from.
trait Trial {
    /// Puts a pod back if there is room for both; whether there is. A filter that fails counts as no room.
    fn reprieve(&mut self, victim: &Arc<Pod>) -> Result<bool, Stopped>;
}

impl Trial for dyn SumsTrial + '_ {
    fn reprieve(&mut self, victim: &Arc<Pod>) -> Result<bool, Stopped> {
        SumsTrial::reprieve(self, victim).ok_or(Stopped::CannotTell)
    }
}

/// The node with some of its pods gone, and the plugins' view of that.
struct FullTrial<'a, 'b> {
    cx: &'a PostFilterContext<'b>,
    pod: &'a Arc<Pod>,
    state: CycleState,
    overlay: NodeOverlay,
}

impl FullTrial<'_, '_> {
    fn remove(&mut self, victim: &Arc<Pod>) -> Result<(), Status> {
        let cx = &self.cx.cx;
        cx.cluster()
            .remove_pod_from(&mut self.overlay, &victim.uid)
            .map_err(|error| Status::error(error.to_string()))?;
        ok(self.cx.filters.remove_pod(cx, &mut self.state, self.pod, victim, &self.overlay))
    }

    fn add(&mut self, victim: &Arc<Pod>) -> Result<(), Status> {
        let cx = &self.cx.cx;
        cx.cluster().add_pod_to(&mut self.overlay, victim);
        ok(self.cx.filters.add_pod(cx, &mut self.state, self.pod, victim, &self.overlay))
    }

    fn filter(&self) -> Status {
        self.cx.filters.filter_with_nominated_pods(
            &self.cx.cx,
            &self.state,
            self.pod,
            &self.overlay,
        )
    }
}

impl Trial for FullTrial<'_, '_> {
    fn reprieve(&mut self, victim: &Arc<Pod>) -> Result<bool, Stopped> {
        self.add(victim).map_err(Stopped::Failed)?;
        let fits = self.filter().is_success();
        if !fits {
            self.remove(victim).map_err(Stopped::Failed)?;
        }
        Ok(fits)
    }
}

fn ok(status: Status) -> Result<(), Status> {
    if status.is_success() { Ok(()) } else { Err(status) }
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
