//! The sums of preferences for each topology domain: those of the pod itself, and those that pods in the domain have
//! about it.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.5 and §5.6.

use std::sync::Arc;

use kube_scheduler_framework::affinity::TermKind;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::VecPool;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, FeasibleNodes, NodeIdx, NodeView, Normalization, PreScore,
    Score, Status,
};

use super::own_terms::{compile_error, has_preferred, preferred_counters};
use super::sums::{Amount, DomainSums};
use super::{InterPodAffinity, Preferences};

const NO_STATE: &str = "failed to read \"PreScoreInterPodAffinity\" from cycleState: not found";

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
}

impl PreScore for InterPodAffinity {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        if !self.scores(pod) {
            return Status::skip();
        }
        if let Some(error) = compile_error(pod) {
            return Status::error(format!("failed to parse pod: {error}"));
        }
        let found = state.get::<Preferences>().map(|found| found.0.clone());
        let attraction = found.unwrap_or_else(|| self.attraction(cx.cluster(), pod));
        // Where no pod is meant, all nodes have the same score.
        if !attraction.0.iter().any(|sum| sum.is_any(cx.cluster())) {
            return Status::skip();
        }
        state.insert(attraction);
        Status::SUCCESS
    }
}

impl Score for InterPodAffinity {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let Attraction(sums) = state.get().ok_or_else(no_state)?;
        Ok(sums.iter().filter_map(|sum| sum.number_at(node.cluster(), node.idx())).sum())
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let Attraction(sums) = state.get().ok_or_else(no_state)?;
        let cluster = cx.cluster();
        scores.fill(0);
        for sum in sums.iter().filter(|sum| sum.is_any(cluster)) {
            if sum.add_of_few_domains(cluster, nodes, scores).is_some() {
                continue;
            }
            if let Some(numbers) = sum.numbers(cluster, nodes.len(), &self.spare) {
                numbers.add_to(nodes, scores);
            }
        }
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::MinMax
    }
}

fn no_state() -> Status {
    Status::error(NO_STATE)
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
