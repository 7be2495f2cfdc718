//! The sums of preferences for each topology domain: those of the pod itself, and those that pods in the domain have
//! about it.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.5 and §5.6.

use std::sync::Arc;

use kube_scheduler_framework::affinity::{TermCount, TermKind};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::VecPool;
use kube_scheduler_framework::{ClusterView, NodeIdx, NodeView};

use super::own_terms::preferred_of;
use super::tally::{KeyTally, Tally};

/// What PreScore stores for Score: the sums by domain.
#[derive(Clone, Debug)]
pub(super) struct Attraction(Arc<Tally>);

impl Attraction {
    /// Adds up all preferences about `pod`; `None` when none of them says anything, as opposed to cancelling out.
    pub(super) fn sum(
        cluster: ClusterView<'_>,
        pod: &Pod,
        hard_pod_affinity_weight: i32,
        spare: &Arc<VecPool<i64>>,
    ) -> Option<Self> {
        let mut tally = Tally::new(spare);
        let is_drawn = count_others(cluster, pod, hard_pod_affinity_weight, &mut tally);
        let draws = count_own(cluster, pod, &mut tally);
        (is_drawn || draws).then(|| Self(Arc::new(tally)))
    }

    /// The sum over all topology keys of a node.
    pub(super) fn of_node(&self, node: &NodeView<'_>) -> i64 {
        let number = |key: &KeyTally| key.of_node(node.cluster(), node.idx(), node.labels());
        self.0.keys().iter().filter_map(number).sum()
    }

    /// The same for many nodes.
    pub(super) fn of_nodes(&self, cluster: ClusterView<'_>, nodes: &[NodeIdx], scores: &mut [i64]) {
        let Some((first, others)) = self.0.keys().split_first() else { return scores.fill(0) };
        first.put(cluster, nodes, scores, |score, number| *score = number);
        for key in others {
            key.put(cluster, nodes, scores, |score, number| *score += number);
        }
    }
}

/// What the terms of pods on nodes say about `pod`; whether they say anything.
fn count_others(
    cluster: ClusterView<'_>,
    pod: &Pod,
    hard_pod_affinity_weight: i32,
    tally: &mut Tally,
) -> bool {
    let mut says_anything = false;
    let draws = move |kind| match kind {
        TermKind::RequiredAntiAffinity => false,
        TermKind::RequiredAffinity => hard_pod_affinity_weight > 0,
        TermKind::PreferredAffinity | TermKind::PreferredAntiAffinity => true,
    };
    for (_, carried) in cluster.affinity_terms_about(pod, draws) {
        let kind = carried.kind();
        let pull = |carried: TermCount| pull_of(kind, carried, hard_pod_affinity_weight);
        let (term, domains) = (carried.term(), carried.domains());
        if !domains.is_empty() {
            tally.add_carried(cluster, &term.topology_key, domains, pull);
            says_anything = true;
        }
    }
    says_anything
}

/// What pods that carry a term of this kind add to the score of a domain for a pod that the term selects.
pub(super) fn pull_of(kind: TermKind, carried: TermCount, hard_pod_affinity_weight: i32) -> i64 {
    match kind {
        TermKind::RequiredAffinity => i64::from(hard_pod_affinity_weight) * i64::from(carried.n),
        TermKind::PreferredAffinity => carried.weight,
        TermKind::PreferredAntiAffinity => -carried.weight,
        TermKind::RequiredAntiAffinity => 0,
    }
}

/// What `pod` says about the pods on nodes; whether it says anything.
fn count_own(cluster: ClusterView<'_>, pod: &Pod, tally: &mut Tally) -> bool {
    let mut says_anything = false;
    for (weight, spec) in preferred_of(pod) {
        let counts = cluster.count_pods(&spec);
        if counts.n_pods() > 0 {
            tally.add_counter(cluster, &counts, weight);
            says_anything = true;
        }
    }
    says_anything
}
