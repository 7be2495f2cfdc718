//! Log lines about resource scores at its highest verbosity (`docs/spec/observability.md` §5.2).

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{ClusterView, NodeIdx};
use tracing::{Level, enabled, trace};

use super::scored::{Plan, Scoring};
use crate::dynamic_resources::totals::DeviceTotals;

impl Scoring<'_> {
    /// One line for each node, if the log shows such lines; otherwise this costs one atomic load.
    pub(super) fn log(
        &self,
        cluster: ClusterView<'_>,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &[i64],
        totals: Option<&DeviceTotals<'_>>,
    ) {
        if !enabled!(target: "V10", Level::TRACE) {
            return;
        }
        let pod = pod.key();
        for (idx, score) in nodes.iter().zip(scores) {
            let Some(node) = cluster.node(*idx) else { continue };
            // In the order of the configuration; what does not count for the pod, or is not there, has zeroes.
            let (allocatable, requested): (Vec<i64>, Vec<i64>) = self
                .resources
                .iter()
                .map(|one| {
                    let plan =
                        Plan::new(std::slice::from_ref(one), |it| it.of(self.request), self.basis);
                    let amounts = plan.on_view(&node, totals).next();
                    amounts.map_or((0, 0), |amounts| (amounts.allocatable, amounts.after))
                })
                .unzip();
            trace!(
                target: "V10",
                pod,
                node = &**node.name(),
                resourceAllocationScorer = self.scorer,
                allocatableResource = ?allocatable,
                requestedResource = ?requested,
                resourceScore = score,
                "Listed internal info for allocatable resources, requested resources and score"
            );
        }
    }
}
