//! Nodes whose answer changes because other pods are nominated to them.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{NodeIdx, NodeOverlay, Status};
use kube_scheduler_runtime::{Runner, SumsFilters, must_leave_room};

use super::Evaluation;

/// The answers that differ from those of `evaluation` when `pod` leaves room for nominated pods (`docs/spec/core.md` §10.6).
/// The error is a filter's.
pub(crate) fn verdicts_with_nominated_pods(
    runner: &Runner<'_>,
    pod: &Pod,
    evaluation: &Evaluation,
) -> Result<Vec<(NodeIdx, Option<Status>)>, Status> {
    let cx = runner.cx;
    if !cx.nominated.has_nominated_pods() {
        return Ok(Vec::new());
    }
    let (state, skip) = (&evaluation.state, &evaluation.pre_filter.skip);
    let sums = SumsFilters::new(*runner, state, pod, skip);
    let mut changed = Vec::new();
    for (name, mut pods) in cx.nominated.nominations() {
        pods.retain(|other| must_leave_room(pod, other));
        if pods.is_empty() {
            continue;
        }
        let Some(idx) = cx.cluster.node_idx(&name) else { continue };
        if evaluation.is_left_out(idx) {
            continue;
        }
        let alone = || evaluation.verdicts.rejection(idx).cloned().unwrap_or_default();
        let by_sums =
            sums.as_ref().and_then(|sums| sums.filter_with(idx, pods.iter().map(|pod| &**pod)));
        let status = match by_sums {
            // Without the pods, the node's answer is the one there is.
            Some(status) if status.is_success() => alone(),
            Some(rejection) => rejection,
            None => {
                let overlay = NodeOverlay::new(idx);
                runner.filter_with_nominated_pods(state, pod, &overlay, skip)
            }
        };
        if !status.is_success() && !status.is_rejected() {
            return Err(status);
        }
        if status != alone() {
            changed.push((idx, Some(status)));
        }
    }
    Ok(changed)
}
