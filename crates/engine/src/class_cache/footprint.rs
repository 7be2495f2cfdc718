//! What the evaluation of a class takes in memory, computed from the pod and the number of nodes before it is made.
//!
//! An evaluation holds a few words for each node, and what plugins prepared, which is theirs and cannot be weighed. But it
//! grows with what the pod asks about other pods: each pod affinity term and each spread constraint may bring a number for
//! each node or domain. So the figure is a limit from above; `tests/tests/memory.rs` compares it with what is allocated.

use kube_scheduler_api_types::{Pod, PodAffinity};

use super::MAX_EVALUATIONS;

/// What there is beside nodes and counters.
const FIXED: usize = 8 << 10;
/// For each node: its verdict, its total and its place in the order, tables half full.
const PER_NODE: usize = 96;
/// For each term or constraint: its description, and what its answers are by.
const PER_COUNTER: usize = 2 << 10;
/// For each of these and each node.
const PER_COUNTER_AND_NODE: usize = 32;
/// So many terms and constraints of a pod are usual. Pods without constraints may be spread by default, by two.
const USUAL: usize = 8;

/// What the evaluation of a class of pods takes at most, in bytes.
pub(super) fn of(pod: &Pod, n_nodes: usize) -> usize {
    let terms = |affinity: &PodAffinity| affinity.required.len() + affinity.preferred.len();
    let affinities = [&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity];
    let n_terms: usize = affinities.into_iter().flatten().map(|affinity| terms(affinity)).sum();
    let n_constraints = pod.spec.topology_spread_constraints.len().max(2);
    with_counters(n_terms.saturating_add(n_constraints), n_nodes)
}

/// What all evaluations may take: as much as pods have whose terms and constraints are as many as usual.
pub(super) fn of_all(n_nodes: usize) -> usize {
    with_counters(USUAL, n_nodes).saturating_mul(MAX_EVALUATIONS)
}

/// Whether it would be one of four at most, so that others would have no room.
pub(super) fn is_too_large(pod: &Pod, n_nodes: usize) -> bool {
    of(pod, n_nodes) > of_all(n_nodes) / 4
}

fn with_counters(n_counters: usize, n_nodes: usize) -> usize {
    let per_counter = PER_COUNTER + PER_COUNTER_AND_NODE * n_nodes;
    FIXED + PER_NODE * n_nodes + n_counters.saturating_mul(per_counter)
}
