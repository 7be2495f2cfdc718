//! What the evaluation of a class takes in memory, computed from the pod and the number of nodes before it is made.
//!
//! An evaluation holds a few words for each node, groups of nodes, which say themselves what they take, and what plugins prepared,
//! whose size the engine cannot see. That part grows with what the pod asks about other pods: each pod affinity term and each
//! spread constraint may add a number for each node or domain. So the figure is an upper bound; `tests/tests/memory.rs` compares
//! it with what is allocated.

use kube_scheduler_api_types::{LabelSelector, Pod, Volume, VolumeSource};

use super::MAX_EVALUATIONS;

/// Bytes of an evaluation apart from nodes and counters.
const FIXED: usize = 8 << 10;
/// For each node: its verdict, its total and its place in the order, tables half full.
const PER_NODE: usize = 96;
/// For each term or constraint: its description, and what its answers are by.
const PER_COUNTER: usize = 2 << 10;
/// For each of these and each node.
const PER_COUNTER_AND_NODE: usize = 32;
/// For each claim: its object, and what is to be allocated for it.
const PER_CLAIM: usize = 32 << 10;
/// For each persistent volume claim: where its volume is, or what it could get.
const PER_VOLUME_CLAIM: usize = 2 << 10;
/// For each node, if there is such a claim: capacities are published for a node or for several.
const PER_CAPACITY: usize = 128;
/// For each value in a selector: its text may be held more than once.
const PER_VALUE: usize = 128;
/// This many terms and constraints of a pod are usual. Pods without constraints may be spread by default, by two.
const USUAL: usize = 8;

/// What the evaluation of a class of pods takes at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    fixed: usize,
    per_node: usize,
}

impl Footprint {
    pub(super) fn new(pod: &Pod) -> Self {
        let spec = &pod.spec;
        let (mut n_counters, mut n_text_bytes) = (0, 0);
        for term in spec.affinity_terms() {
            n_counters += 1;
            n_text_bytes +=
                term.selector.iter().chain(&term.namespace_selector).map(of_texts).sum::<usize>();
        }
        let constraints = &spec.topology_spread_constraints;
        n_counters += constraints.len().max(2);
        n_text_bytes += constraints
            .iter()
            .flat_map(|constraint| &constraint.selector)
            .map(of_texts)
            .sum::<usize>();
        let n_claims = spec.resource_claims.len();
        // Those of ephemeral volumes do not count: their pods are of no class.
        let is_claim = |volume: &&Volume| matches!(volume.source, VolumeSource::Claim { .. });
        let n_volume_claims = pod.volumes.iter().filter(is_claim).count();
        let mut footprint = Self::with_counters(n_counters);
        footprint.fixed += n_claims * PER_CLAIM + n_volume_claims * PER_VOLUME_CLAIM + n_text_bytes;
        footprint.per_node += PER_CAPACITY * n_volume_claims.min(1);
        footprint
    }

    fn with_counters(n_counters: usize) -> Self {
        Self {
            fixed: FIXED + n_counters * PER_COUNTER,
            per_node: PER_NODE + n_counters * PER_COUNTER_AND_NODE,
        }
    }

    /// The size with this many nodes, in bytes.
    pub(super) const fn with_nodes(self, n_nodes: usize) -> usize {
        self.fixed.saturating_add(self.per_node.saturating_mul(n_nodes))
    }
}

/// How many bytes the values in a selector take.
fn of_texts(selector: &LabelSelector) -> usize {
    let values = selector.requirements().iter().flat_map(|requirement| requirement.values.iter());
    values.map(|value| PER_VALUE + 2 * value.len()).sum()
}

/// How many bytes all evaluations together may take: as much as [`MAX_EVALUATIONS`] evaluations of pods with [`USUAL`] terms and
/// constraints.
pub(super) fn of_all(n_nodes: usize) -> usize {
    Footprint::with_counters(USUAL).with_nodes(n_nodes).saturating_mul(MAX_EVALUATIONS)
}

/// An evaluation that takes more than this share of the limit is not kept: others would have no room.
pub(super) const SHARE: usize = 4;

/// Whether it takes more than its share of the limit.
pub(super) fn is_too_large(pod: &Pod, n_nodes: usize) -> bool {
    Footprint::new(pod).with_nodes(n_nodes) > of_all(n_nodes) / SHARE
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_with_very_many_claims_is_not_kept() {
        let with_claims = |n: usize| {
            let volume = |at: usize| json!({"name": at.to_string(), "persistentVolumeClaim": {"claimName": "c"}});
            let volumes: Vec<_> = (0..n).map(volume).collect();
            let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}});
            Footprint::new(&Pod::from_value(&pod).unwrap()).with_nodes(0)
        };
        let n_bytes = with_claims(5000);
        assert_eq!(n_bytes - with_claims(0), 5000 * PER_VOLUME_CLAIM);
        assert!(n_bytes > of_all(100) / SHARE);
    }
}
