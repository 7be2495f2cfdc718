//! The score of a placement: how full its nodes would be, all together.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.7.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{ClusterView, NodeIdx};

use super::resource::Resource;
use super::scored::{Amounts, Kind, ScoredResource};
use super::strategy::Strategy;

/// Most allocated, whatever the strategy for single nodes is.
pub(super) fn score(
    cluster: ClusterView<'_>,
    resources: &[ScoredResource],
    nodes: &[NodeIdx],
    assignments: &[(Arc<Pod>, NodeIdx)],
) -> i64 {
    let amounts = resources.iter().filter_map(|scored| {
        let Kind::Counted(resource) = &scored.kind else { return None };
        let requested = assignments
            .iter()
            .map(|(pod, _)| resource.of(&pod.requests.fit_score))
            .fold(0, i64::wrapping_add);
        if matches!(resource, Resource::Scalar(_)) && requested == 0 {
            return None;
        }
        let (mut allocatable, mut before) = (0_i64, 0_i64);
        for &node in nodes {
            let (capacity, used) = on_node(cluster, node, resource);
            allocatable = allocatable.wrapping_add(capacity);
            before = before.wrapping_add(used);
        }
        let after = before.wrapping_add(requested);
        let weight = scored.weight;
        (allocatable != 0).then_some(Amounts { allocatable, before, after, weight })
    });
    Strategy::MostAllocated.score(amounts)
}

/// What the node has, and what of it its pods ask for, with defaults for those that ask for no CPU or memory.
fn on_node(cluster: ClusterView<'_>, node: NodeIdx, resource: &Resource) -> (i64, i64) {
    let (has, asked) = resource.on_node(cluster, node);
    match resource {
        Resource::Cpu => (has, cluster.non_zero_milli_cpu().get(node)),
        Resource::Memory => (has, cluster.non_zero_memory().get(node)),
        Resource::EphemeralStorage | Resource::Scalar(_) => (has, asked),
    }
}
