//! The sums of preferences for each topology domain: those of the pod itself, and those that pods in the domain have
//! about it.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.5 and §5.6.

use std::sync::Arc;

use kube_scheduler_framework::affinity::TermKind;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::VecPool;
use kube_scheduler_framework::{ClusterView, NodeIdx};

use super::own_terms::{has_preferred, preferred_counters};
use super::sums::{Amount, DomainSums};

/// Where the sums by domain come from.
#[derive(Clone, Debug)]
pub(super) struct Attraction(Arc<DomainSums>);

impl Attraction {
    /// All preferences about `pod`. O(terms of and about it), if the cluster follows what the pod's own terms count.
    pub(super) fn of(
        cluster: ClusterView<'_>,
        pod: &Pod,
        hard_pod_affinity_weight: i32,
        spare: &Arc<VecPool<i64>>,
    ) -> Self {
        let mut sums = DomainSums::default();
        let own: Vec<_> = preferred_counters(cluster, pod).collect();
        let counters = cluster.count_pods_of_each(own.iter().map(|(_, spec)| spec));
        for ((weight, spec), counter) in own.iter().zip(counters) {
            sums.add_counter(spec, counter, *weight);
        }
        let draws = move |kind| pull_of(kind, hard_pod_affinity_weight).is_some();
        // Quirk: only a pod with preferences of its own notices all terms of others (`docs/spec/podgroups.md` §7.5).
        for (id, kind, term) in cluster.affinity_terms_about(pod, has_preferred(pod), draws) {
            if let Some(pull) = pull_of(kind, hard_pod_affinity_weight) {
                sums.add_term(&term.topology_key, cluster.carriers(id, term), pull);
            }
        }
        sums.condense(cluster, spare);
        Self(Arc::new(sums))
    }

    /// Whether any preference says anything, as opposed to all cancelling out.
    pub(super) fn is_any(&self, cluster: ClusterView<'_>) -> bool {
        self.0.is_any(cluster)
    }

    /// The sum over all topology keys of a node.
    pub(super) fn of_node(&self, cluster: ClusterView<'_>, node: NodeIdx) -> i64 {
        self.0.iter().filter_map(|sum| sum.number_at(cluster, node)).sum()
    }

    /// The sums over all topology keys of many nodes.
    pub(super) fn of_nodes(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        scores: &mut [i64],
        spare: &Arc<VecPool<i64>>,
    ) {
        scores.fill(0);
        let is_sorted = nodes.is_sorted();
        for sum in self.0.iter().filter(|sum| sum.is_any(cluster)) {
            if is_sorted && sum.add_of_few_domains(cluster, nodes, scores).is_some() {
                continue;
            }
            if let Some(numbers) = sum.numbers(cluster, nodes.len(), spare) {
                numbers.add_to(nodes, scores);
            }
        }
    }
}

/// What pods that carry a term of this kind add to the score of a domain for a pod that the term selects.
fn pull_of(kind: TermKind, hard_pod_affinity_weight: i32) -> Option<Amount> {
    let hard = i64::from(hard_pod_affinity_weight);
    match kind {
        TermKind::RequiredAntiAffinity => None,
        TermKind::RequiredAffinity => (hard > 0).then_some(Amount { per_pod: hard, per_weight: 0 }),
        TermKind::PreferredAffinity => Some(Amount { per_pod: 0, per_weight: 1 }),
        TermKind::PreferredAntiAffinity => Some(Amount { per_pod: 0, per_weight: -1 }),
    }
}
