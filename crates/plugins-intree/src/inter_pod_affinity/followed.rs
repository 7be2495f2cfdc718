//! Cached answers of InterPodAffinity, kept up to date: which pods and which terms of pods there are in a node's domains.
//!
//! The engine groups nodes with equal standings. For a topology key with few values a node's standing is the value; for
//! one with many (host names above all) it is what the domain holds: whether there is a pod that the affinity requires,
//! one that the anti-affinity forbids, or one whose anti-affinity keeps the pod out, and the sum of preferences.
//!
//! Invariant: all numbers are read from the cluster's counters and carried terms when an answer is needed; cached is only
//! which of them concern the pod.

use std::sync::Arc;

use kube_scheduler_framework::affinity::{AffinityTermsVersion, TermId, TermKind};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::ValueId as LabelValueId;
use kube_scheduler_framework::counters::{CounterId, CounterSpec};
use kube_scheduler_framework::{
    Candidates, ClusterView, Context, CycleState, DomainAnswers, DomainScoped, GroupKey, NodeIdx,
    Normalization,
};
use smallvec::SmallVec;

use super::InterPodAffinity;
use super::attraction::{Attraction, pull_of};
use super::neighbours::Neighbours;
use super::own_terms::{Required, compile_error, has_preferred, preferred_of};

/// A topology key with more values than this groups nodes by what their domains hold, not by the value.
const FEW_VALUES: usize = 64;
/// With more terms about one kind of pod than this it is cheaper to add them up afresh.
const MANY_TERMS: usize = 64;

impl DomainScoped for InterPodAffinity {
    fn domain_answers(&self, cx: &Context<'_>, pod: &Pod) -> Option<Box<dyn DomainAnswers>> {
        if compile_error(pod).is_some() {
            return None;
        }
        let own = Required::of(pod);
        if own.is_empty() && !has_preferred(pod) && cx.cluster().affinity_terms().is_empty() {
            return None;
        }
        let scores = has_preferred(pod) || !self.ignores_preferences_of_others;
        let hard_weight = if scores { self.hard_pod_affinity_weight } else { 0 };
        let answers = AffinityAnswers::new(cx.cluster(), pod, own, scores, hard_weight)?;
        Some(Box::new(answers))
    }

    fn forget(&self, state: &mut CycleState) {
        state.remove::<Neighbours>();
        state.remove::<Attraction>();
    }
}

/// What the numbers of one topology key are read from.
struct Key {
    key: Arc<str>,
    /// Whether the key has more than [`FEW_VALUES`] values.
    is_fine: bool,
    /// Pods that the pod requires around it.
    wanted: Option<CounterId>,
    /// Pods that it must not have around it.
    unwanted: SmallVec<[CounterId; 1]>,
    /// Pods it would like to have around it or not, with the weight.
    preferred: SmallVec<[(i64, CounterId); 1]>,
    /// Terms of others that keep it out.
    minding: SmallVec<[TermId; 1]>,
    /// Terms of others that draw it or drive it away.
    drawing: SmallVec<[TermId; 1]>,
    hard_weight: i32,
}

struct AffinityAnswers {
    counters: Vec<CounterId>,
    wanted: Vec<CounterId>,
    matches_itself: bool,
    /// No pod matches the required affinity in any domain yet, and the pod matches it itself.
    may_be_first: bool,
    scores: bool,
    hard_weight: i32,
    keys: Vec<Key>,
    /// The terms that concern the pod, and up to when that was so.
    terms: Vec<TermId>,
    n_turnovers: u64,
    namespaces: AffinityTermsVersion,
}

impl AffinityAnswers {
    /// `None` when a counter is not followed or too many terms concern the pod.
    fn new(
        cluster: ClusterView<'_>,
        pod: &Pod,
        own: Required,
        scores: bool,
        hard_weight: i32,
    ) -> Option<Self> {
        let mut answers = Self {
            counters: Vec::new(),
            wanted: Vec::new(),
            matches_itself: own
                .wanted
                .first()
                .is_some_and(|spec| spec.pods.includes(pod, cluster.objects())),
            may_be_first: false,
            scores,
            hard_weight,
            keys: Vec::new(),
            terms: Vec::new(),
            n_turnovers: cluster.affinity_terms().n_turnovers(),
            namespaces: cluster.affinity_terms_version(),
        };
        // Answers can only be kept up to date while the cluster does so with every counter that they are read from.
        for spec in &own.wanted {
            let id = answers.follow(cluster, spec)?;
            answers.wanted.push(id);
            answers.key(cluster, spec.topology_key.as_ref()?)?.wanted = Some(id);
        }
        for spec in &own.unwanted {
            let id = answers.follow(cluster, spec)?;
            answers.key(cluster, spec.topology_key.as_ref()?)?.unwanted.push(id);
        }
        if scores {
            for (weight, spec) in preferred_of(pod) {
                let id = answers.follow(cluster, &spec)?;
                answers.key(cluster, spec.topology_key.as_ref()?)?.preferred.push((weight, id));
            }
        }
        let terms = answers.terms_about(cluster, pod);
        if terms.len() > MANY_TERMS {
            return None;
        }
        for id in &terms {
            let carried = cluster.affinity_terms().get(*id)?;
            let key = answers.key(cluster, &carried.term().topology_key)?;
            match carried.kind() {
                TermKind::RequiredAntiAffinity => key.minding.push(*id),
                _ => key.drawing.push(*id),
            }
        }
        answers.terms = terms;
        Some(answers)
    }

    fn follow(&mut self, cluster: ClusterView<'_>, spec: &CounterSpec) -> Option<CounterId> {
        let id = cluster.followed_id(spec)?;
        self.counters.push(id);
        Some(id)
    }

    fn key(&mut self, cluster: ClusterView<'_>, key: &Arc<str>) -> Option<&mut Key> {
        let at = match self.keys.iter().position(|known| known.key == *key) {
            Some(at) => at,
            None => {
                let is_fine = cluster.label_column(key)?.n_values() > FEW_VALUES;
                self.keys.push(Key {
                    key: key.clone(),
                    is_fine,
                    wanted: None,
                    unwanted: SmallVec::new(),
                    preferred: SmallVec::new(),
                    minding: SmallVec::new(),
                    drawing: SmallVec::new(),
                    hard_weight: self.hard_weight,
                });
                self.keys.len() - 1
            }
        };
        self.keys.get_mut(at)
    }

    /// The terms of others that concern the pod.
    fn terms_about(&self, cluster: ClusterView<'_>, pod: &Pod) -> Vec<TermId> {
        let concerns = |kind| match kind {
            TermKind::RequiredAntiAffinity => true,
            TermKind::RequiredAffinity => self.scores && self.hard_weight > 0,
            TermKind::PreferredAffinity | TermKind::PreferredAntiAffinity => self.scores,
        };
        let about = cluster.affinity_terms_about(pod, concerns);
        let mut terms: Vec<TermId> = about.map(|(id, _)| id).collect();
        terms.sort_unstable();
        terms
    }
}

/// How many of what `counter` counts are in the domain.
fn counted(cluster: ClusterView<'_>, counter: CounterId, value: LabelValueId) -> i64 {
    cluster.followed_by_id(counter).map_or(0, |counts| counts.n_pods_in(value))
}

impl Key {
    fn value(&self, cluster: ClusterView<'_>, node: NodeIdx) -> LabelValueId {
        let column = cluster.label_column(&self.key);
        column.map_or(LabelValueId::ABSENT, |column| column.id(node))
    }

    fn is_wanted(&self, cluster: ClusterView<'_>, value: LabelValueId) -> bool {
        self.wanted.is_none_or(|counter| counted(cluster, counter, value) > 0)
    }

    /// Whether the domain has a pod that the pod's anti-affinity forbids.
    fn is_unwanted(&self, cluster: ClusterView<'_>, value: LabelValueId) -> bool {
        self.unwanted.iter().map(|counter| counted(cluster, *counter, value)).sum::<i64>() > 0
    }

    /// Whether the domain has a pod whose required anti-affinity keeps the pod out.
    fn is_minded(&self, cluster: ClusterView<'_>, value: LabelValueId) -> bool {
        let mut minding = self.minding.iter().filter_map(|id| cluster.affinity_terms().get(*id));
        minding.any(|term| !term.domains().get(value).is_none())
    }

    fn attraction(&self, cluster: ClusterView<'_>, value: LabelValueId) -> i64 {
        let own = self.preferred.iter().map(|(weight, id)| weight * counted(cluster, *id, value));
        let drawing = self.drawing.iter().filter_map(|id| cluster.affinity_terms().get(*id));
        let of_others =
            drawing.map(|term| pull_of(term.kind(), term.domains().get(value), self.hard_weight));
        own.chain(of_others).sum()
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
            let terms = self.terms_about(cluster, pod);
            if !(self.terms.is_empty() && terms.is_empty()) {
                return false;
            }
            self.n_turnovers = n_turnovers;
        }
        let n_wanted: usize = self
            .wanted
            .iter()
            .filter_map(|id| cluster.followed_by_id(*id))
            .map(|counts| counts.n_domains().saturating_sub(counts.n_domains_with(0) as usize))
            .sum();
        self.may_be_first = n_wanted == 0 && self.matches_itself;
        for key in self.keys.iter().filter(|key| key.is_fine) {
            let Some(column) = cluster.label_column(&key.key) else { return false };
            for node in changed {
                let neighbours = column.nodes(column.id(*node)).filter(|nodes| nodes.len() > 1);
                moved.extend(neighbours.into_iter().flat_map(|nodes| nodes.iter()));
            }
        }
        true
    }

    fn stand(&self, cluster: ClusterView<'_>, node: NodeIdx, standing: &mut GroupKey) {
        for key in &self.keys {
            let value = key.value(cluster, node);
            if !key.is_fine {
                standing.push(value.index() as u32);
                continue;
            }
            let flags = [
                value != LabelValueId::ABSENT,
                key.is_wanted(cluster, value),
                key.is_unwanted(cluster, value),
                key.is_minded(cluster, value),
            ];
            standing.push(flags.iter().fold(0, |bits, flag| bits << 1 | u32::from(*flag)));
            let attraction = key.attraction(cluster, value).cast_unsigned();
            standing.push(attraction as u32);
            standing.push((attraction >> 32) as u32);
        }
    }

    fn fits(&self, cluster: ClusterView<'_>, node: NodeIdx) -> bool {
        self.keys.iter().all(|key| {
            let value = key.value(cluster, node);
            if value == LabelValueId::ABSENT {
                return key.wanted.is_none();
            }
            (self.may_be_first || key.is_wanted(cluster, value))
                && !key.is_unwanted(cluster, value)
                && !key.is_minded(cluster, value)
        })
    }

    fn score(
        &mut self,
        cluster: ClusterView<'_>,
        candidates: &[Candidates],
        scores: &mut [i64],
    ) -> bool {
        if !self.scores {
            return false;
        }
        let draws = |key: &&Key| !key.preferred.is_empty() || !key.drawing.is_empty();
        for (candidates, score) in candidates.iter().zip(scores.iter_mut()) {
            *score = 0;
            for key in self.keys.iter().filter(draws) {
                let value = key.value(cluster, candidates.node);
                if value != LabelValueId::ABSENT {
                    *score += key.attraction(cluster, value);
                }
            }
        }
        Normalization::MinMax.apply(scores);
        true
    }
}
