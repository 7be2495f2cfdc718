//! The dry run on one node: whom to evict so that the pod fits, and nobody more than needed.
//!
//! Behaviour in `spec/preemption.md` §5.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Timestamp};
use kube_scheduler_framework::{CycleState, NodeIdx, NodeOverlay, PostFilterContext, Status};

use super::candidates::Candidate;
use super::choose::started;
use super::disruption::Budgets;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// The victims on `node`, possibly none, or why preemption does not help there.
pub(super) fn select(
    cx: &PostFilterContext<'_>,
    state: &CycleState,
    pod: &Arc<Pod>,
    node: NodeIdx,
    budgets: &Budgets,
) -> Result<Candidate, Status> {
    let cluster = cx.cx.cluster;
    let priority = pod.priority();
    if cluster.lowest_priority_on(node).is_none_or(|lowest| lowest >= priority) {
        return Err(Status::unresolvable(NO_VICTIMS));
    }
    // What the trial below would end with, from columns.
    if let Some(status) =
        cx.filters.rejection_without_pods_below(&cx.cx, state, pod, node, priority)
    {
        return Err(status);
    }
    let mut potential: Vec<Arc<Pod>> =
        cluster.pods_on(node).filter(|other| other.priority() < priority).cloned().collect();
    let mut trial = Trial { cx, pod, state: state.clone(), overlay: NodeOverlay::new(node) };
    for victim in &potential {
        trial.remove(victim)?;
    }
    let emptied = trial.filter();
    if !emptied.is_success() {
        return Err(emptied);
    }
    sort_by_importance(&mut potential, cx.cx.now);
    let (violating, others) = budgets.split(potential);
    let has_both = !violating.is_empty() && !others.is_empty();
    let n_violating = violating.len();
    let mut victims = Vec::new();
    let mut n_violations = 0;
    for (i, victim) in violating.into_iter().chain(others).enumerate() {
        if !trial.reprieve(&victim)? {
            n_violations += i64::from(i < n_violating);
            victims.push(victim);
        }
    }
    if has_both {
        sort_by_importance(&mut victims, cx.cx.now);
    }
    Ok(Candidate { node, victims, n_violations })
}

/// Higher priority first, then the one that started earlier, then the ones that have not started, in reverse.
///
/// Quirk: two pods of equal priority that have not started are each "earlier" than the other for the reference, because it
/// looks at the clock for every comparison; its sort turns their order round, every time it runs. Any order would be
/// legal, but whoever compares decisions sees this one.
fn sort_by_importance(pods: &mut [Arc<Pod>], now: Timestamp) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), started(pod, now)));
    let is_unstarted = |pod: &Arc<Pod>| pod.status.started.is_none();
    let runs = pods
        .chunk_by_mut(|a, b| a.priority() == b.priority() && is_unstarted(a) && is_unstarted(b));
    runs.for_each(<[_]>::reverse);
}

/// The node with some of its pods gone, and the plugins' view of that.
struct Trial<'a, 'b> {
    cx: &'a PostFilterContext<'b>,
    pod: &'a Arc<Pod>,
    state: CycleState,
    overlay: NodeOverlay,
}

impl Trial<'_, '_> {
    fn remove(&mut self, victim: &Arc<Pod>) -> Result<(), Status> {
        let cx = &self.cx.cx;
        self.overlay
            .remove_pod(cx.cluster, &victim.uid)
            .map_err(|error| Status::error(error.to_string()))?;
        ok(self.cx.filters.remove_pod(cx, &mut self.state, self.pod, victim, &self.overlay))
    }

    fn add(&mut self, victim: &Arc<Pod>) -> Result<(), Status> {
        let cx = &self.cx.cx;
        self.overlay.add_pod(cx.cluster, victim);
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

    /// Puts a pod back if there is room for both; whether there is. A filter that fails counts as no room.
    fn reprieve(&mut self, victim: &Arc<Pod>) -> Result<bool, Status> {
        self.add(victim)?;
        let fits = self.filter().is_success();
        if !fits {
            self.remove(victim)?;
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
        let mut pods = vec![
            pod("a", 1, None),
            pod("b", 1, None),
            pod("c", 1, Some("2026-01-01T00:00:02Z")),
            pod("d", 2, Some("2026-01-01T00:00:03Z")),
            pod("e", 1, Some("2026-01-01T00:00:02Z")),
            pod("f", 1, None),
        ];
        let now = Timestamp::parse("2026-01-01T01:00:00Z").unwrap();
        let names =
            |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.to_string()).collect::<String>();
        sort_by_importance(&mut pods, now);
        assert_eq!(names(&pods), "dcefba");
        sort_by_importance(&mut pods, now);
        assert_eq!(names(&pods), "dceabf");
    }
}
