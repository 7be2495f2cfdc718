//! The score of a placement: how full its nodes would be, all together.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.7.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Resources};
use kube_scheduler_framework::{ClusterView, NodeIdx};

use super::scored::{Amounts, Kind, Scored};
use super::strategy::Strategy;

/// Most allocated, whatever the strategy for single nodes is.
pub(super) fn score(
    cluster: ClusterView<'_>,
    resources: &[Scored],
    nodes: &[NodeIdx],
    assignments: &[(Arc<Pod>, NodeIdx)],
) -> i64 {
    let amounts = resources.iter().filter_map(|scored| {
        let requested = assignments
            .iter()
            .map(|(pod, _)| amount(&pod.requests.fit_score, &scored.kind))
            .fold(0, i64::wrapping_add);
        if matches!(scored.kind, Kind::Scalar(_)) && requested == 0 {
            return None;
        }
        let (mut allocatable, mut before) = (0_i64, 0_i64);
        for &node in nodes {
            let (capacity, used) = on_node(cluster, node, &scored.kind);
            allocatable = allocatable.wrapping_add(capacity);
            before = before.wrapping_add(used);
        }
        let after = before.wrapping_add(requested);
        let weight = scored.weight;
        (allocatable != 0).then_some(Amounts { allocatable, before, after, weight })
    });
    Strategy::MostAllocated.score(amounts)
}

fn amount(resources: &Resources, kind: &Kind) -> i64 {
    match kind {
        Kind::Cpu => resources.milli_cpu,
        Kind::Memory => resources.memory,
        Kind::EphemeralStorage => resources.ephemeral_storage,
        Kind::Scalar(name) => resources.scalar(name).unwrap_or(0),
        Kind::Other(_) => 0,
    }
}

/// What the node has, and what of it its pods ask for.
fn on_node(cluster: ClusterView<'_>, node: NodeIdx, kind: &Kind) -> (i64, i64) {
    let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
    let (cpu, memory) = cluster.non_zero_requested();
    match kind {
        Kind::Cpu => (allocatable.milli_cpu().get(node), cpu.get(node)),
        Kind::Memory => (allocatable.memory().get(node), memory.get(node)),
        Kind::EphemeralStorage => {
            (allocatable.ephemeral_storage().get(node), requested.ephemeral_storage().get(node))
        }
        Kind::Scalar(name) => {
            let capacity = allocatable.scalar_at(name, node).unwrap_or(0);
            (capacity, requested.scalar_at(name, node).unwrap_or(0))
        }
        Kind::Other(_) => (0, 0),
    }
}
