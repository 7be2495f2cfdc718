//! Cached answers of InterPodAffinity: what Filter and Score prepare, with nodes grouped by what it says about them.
//!
//! For a topology key with few values a node's standing is the value; for one with many (host names above all) it is what
//! the domain holds: whether there are pods that a rule goes by, and the sum of preferences.

use kube_scheduler_framework::affinity::{AffinityTermsVersion, TermKind};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::counters::CounterId;
use kube_scheduler_framework::{
    Candidates, ClusterView, Context, CycleState, DomainAnswers, DomainScoped, GroupKey, NodeIdx,
    Normalization,
};

use super::InterPodAffinity;
use super::attraction::{Attraction, pull_of};
use super::neighbours::{Neighbours, is_nowhere};
use super::own_terms::{compile_error, counters};
use super::sums::{DomainSum, MANY_TERMS};
use crate::domains::{add_neighbours, followed, has_many_values};

impl DomainScoped for InterPodAffinity {
    fn domain_answers(&self, cx: &Context<'_>, pod: &Pod) -> Option<Box<dyn DomainAnswers>> {
        let cluster = cx.cluster();
        if compile_error(pod).is_some()
            || counters(pod).next().is_none() && cluster.affinity_terms().is_empty()
        {
            return None;
        }
        let answers = AffinityAnswers {
            // What a key that no node has says about nodes changes with the nodes alone, and then the engine starts over.
            counters: followed(cluster, counters(pod).filter(|spec| !is_nowhere(cluster, spec)))?,
            neighbours: Neighbours::of(cluster, pod, &self.spare),
            attraction: self
                .scores(pod)
                .then(|| Attraction::of(cluster, pod, self.hard_pod_affinity_weight, &self.spare)),
            hard_weight: self.scores(pod).then_some(self.hard_pod_affinity_weight),
            n_turnovers: cluster.affinity_terms().n_turnovers(),
            namespaces: cluster.affinity_terms_version(),
        };
        // With very many terms it is cheaper to add them up afresh.
        (answers.n_terms()? <= MANY_TERMS).then(|| Box::new(answers) as _)
    }

    fn forget(&self, state: &mut CycleState) {
        state.remove::<Neighbours>();
        state.remove::<Attraction>();
    }
}

struct AffinityAnswers {
    counters: Vec<CounterId>,
    neighbours: Neighbours,
    attraction: Option<Attraction>,
    /// `None` when PreScore skips the pod.
    hard_weight: Option<i32>,
    /// Which terms there were when the answers were prepared, and what they meant.
    n_turnovers: u64,
    namespaces: AffinityTermsVersion,
}

impl AffinityAnswers {
    fn sums(&self) -> impl Iterator<Item = &DomainSum> {
        let drawing = self.attraction.iter().flat_map(Attraction::sums);
        self.neighbours.sums().map(|(_, sum)| sum).chain(drawing)
    }

    fn n_terms(&self) -> Option<usize> {
        self.sums().map(DomainSum::n_terms).sum()
    }

    /// Whether no term of other pods concerns `pod`.
    fn has_no_terms(&self, cluster: ClusterView<'_>, pod: &Pod) -> bool {
        let draws = |kind| self.hard_weight.is_some_and(|weight| pull_of(kind, weight).is_some());
        let concerns = |kind| kind == TermKind::RequiredAntiAffinity || draws(kind);
        cluster.affinity_terms_about(pod, concerns).next().is_none()
    }
}

impl DomainAnswers for AffinityAnswers {
    fn catch_up(
        &mut self,
        cx: &Context<'_>,
        pod: &Pod,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) -> bool {
        let cluster = cx.cluster();
        if !cluster.affinity_terms_version().has_namespaces_of(&self.namespaces)
            || self.counters.iter().any(|id| cluster.followed_by_id(*id).is_none())
        {
            return false;
        }
        let n_turnovers = cluster.affinity_terms().n_turnovers();
        if n_turnovers != self.n_turnovers {
            // A number may have gone to another term, so equal numbers prove nothing; no terms before and after do.
            if self.n_terms() != Some(0) || !self.has_no_terms(cluster, pod) {
                return false;
            }
            self.n_turnovers = n_turnovers;
        }
        for sum in self.sums() {
            let Some(column) = sum.column(cluster) else { return false };
            add_neighbours(column, changed, moved);
        }
        true
    }

    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey) {
        let value = |sum: &DomainSum| {
            let column = sum.column(cluster).filter(|column| !has_many_values(column))?;
            Some(column.id(node).index() as u32)
        };
        for (_, sum) in self.neighbours.sums() {
            standing.push(value(sum).unwrap_or_else(|| match sum.number_at(cluster, node) {
                None => 2,
                Some(number) => u32::from(number > 0),
            }));
        }
        for sum in self.attraction.iter().flat_map(Attraction::sums) {
            match value(sum) {
                Some(value) => standing.push(value),
                None => {
                    let number = sum.number_at(cluster, node).unwrap_or(0).cast_unsigned();
                    standing.extend([number as u32, (number >> 32) as u32]);
                }
            }
        }
    }

    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        cluster.node(node).is_some_and(|node| self.neighbours.refusal(&node).is_none())
    }

    fn score(
        &mut self,
        cluster: ClusterView<'_>,
        candidates: &[Candidates],
        scores: &mut [i64],
    ) -> bool {
        let Some(attraction) = &self.attraction else { return false };
        for (candidates, score) in candidates.iter().zip(scores.iter_mut()) {
            *score = attraction.of_node(cluster, candidates.node);
        }
        Normalization::MinMax.apply(scores);
        true
    }
}
