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
            n_violations += usize::from(i < n_violating);
            victims.push(victim);
        }
    }
    if has_both {
        sort_by_importance(&mut victims, cx.cx.now);
    }
    Ok(Candidate { node, victims, n_violations })
}

/// Higher priority first, then the one that started earlier.
fn sort_by_importance(pods: &mut [Arc<Pod>], now: Timestamp) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), started(pod, now)));
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
