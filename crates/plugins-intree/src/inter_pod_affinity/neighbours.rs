//! The pods in each topology domain that matter to a pod's required affinity and to required anti-affinity on either
//! side.
//!
//! Counted once per attempt in PreFilter; hypothetical pods are laid over as differences, so that a copy for a dry run
//! costs a pointer and a few numbers.
//!
//! Invariants: adding a pod and removing it again leaves what was before; `n_wanted` is the number of domains in which
//! the count of wanted pods is not 0, which the rule for the first pod of a group looks at.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.2 to §5.4.

use std::sync::Arc;

use kube_scheduler_framework::api::{Labels, Pod};
use kube_scheduler_framework::{
    ClusterView, CounterSpec, FilterSink, NodeIdx, NodeView, Status, TermKind, VecPool,
};
use smallvec::SmallVec;

use super::own_terms::{Required, required};
use super::tally::Tally;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Pods that match all of the pod's required affinity terms.
    Wanted,
    /// Pods that match one of the pod's required anti-affinity terms, once for each.
    Unwanted,
    /// Required anti-affinity terms of others that match the pod.
    Minding,
}

/// Why a node is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The pod's required affinity is not met.
    Affinity,
    /// The pod's required anti-affinity is violated.
    AntiAffinity,
    /// The required anti-affinity of a pod that is there already is violated.
    ExistingAntiAffinity,
}

/// What PreFilter stores for Filter: the counts by domain.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    counted: Arc<Census>,
    /// What hypothetical pods change, none of it 0.
    differences: SmallVec<[Difference; 2]>,
    n_wanted: usize,
}

#[derive(Debug)]
struct Census {
    own: Required,
    matches_itself: bool,
    wanted: Tally,
    unwanted: Tally,
    minding: Tally,
}

#[derive(Clone, Debug)]
struct Difference {
    counted: Counted,
    key: Arc<str>,
    value: Arc<str>,
    amount: i64,
}

impl Neighbours {
    /// Counts for `pod`; `None` when no pod has required anti-affinity to it and it requires nothing itself.
    pub(super) fn count(
        cluster: ClusterView<'_>,
        pod: &Pod,
        spare: &Arc<VecPool<i64>>,
    ) -> Option<Self> {
        let mut own = Required::of(pod);
        let minding = minding(cluster, pod, spare);
        if own.is_empty() && minding.keys().is_empty() {
            return None;
        }
        // Anti-affinity by a key that no node has keeps the pod out of nowhere.
        own.unwanted.retain(|spec| {
            let column = spec.topology_key.as_ref().and_then(|key| cluster.label_column(key));
            column.is_none_or(|column| column.n_values() > 0)
        });
        let count =
            |specs: &[CounterSpec]| Tally::of_counters(cluster, &cluster.counted_all(specs), spare);
        let (wanted, unwanted) = (count(&own.wanted), count(&own.unwanted));
        Some(Self {
            n_wanted: wanted.n_domains(),
            differences: SmallVec::new(),
            counted: Arc::new(Census {
                matches_itself: own
                    .wanted
                    .first()
                    .is_some_and(|spec| spec.pods.includes(pod, cluster.objects())),
                own,
                wanted,
                unwanted,
                minding,
            }),
        })
    }

    /// Updates the counts for `other` being added to `node` (`sign` 1) or removed from it (-1). `pod` is the one to be
    /// placed.
    pub(super) fn change(&mut self, pod: &Pod, other: &Pod, node: &NodeView<'_>, sign: i64) {
        let census = self.counted.clone();
        let objects = node.cluster().objects();
        let nothing = Labels::default();
        let namespace_labels = objects.namespace_labels(&pod.namespace).unwrap_or(&nothing);
        for term in required(&other.spec.pod_anti_affinity) {
            if term.matches(pod, namespace_labels) {
                self.shift(Counted::Minding, &term.topology_key, node, sign);
            }
        }
        // The counters of what is wanted count the same pods.
        let is_wanted = |spec: &CounterSpec| spec.pods.includes(other, objects);
        if census.own.wanted.first().is_some_and(is_wanted) {
            for key in census.own.wanted.iter().filter_map(|spec| spec.topology_key.as_ref()) {
                self.shift(Counted::Wanted, key, node, sign);
            }
        }
        for spec in &census.own.unwanted {
            if let Some(key) = &spec.topology_key
                && spec.pods.includes(other, objects)
            {
                self.shift(Counted::Unwanted, key, node, sign);
            }
        }
    }

    fn shift(&mut self, counted: Counted, key: &Arc<str>, node: &NodeView<'_>, amount: i64) {
        let Some(value) = node.labels().get_shared(key) else { return };
        let before = self.number(counted, key, node);
        let known = self
            .differences
            .iter()
            .position(|d| d.counted == counted && d.key == *key && d.value == *value);
        match known {
            Some(at) => {
                self.differences[at].amount += amount;
                if self.differences[at].amount == 0 {
                    self.differences.remove(at);
                }
            }
            None => {
                let (key, value) = (key.clone(), value.clone());
                self.differences.push(Difference { counted, key, value, amount });
            }
        }
        if counted == Counted::Wanted {
            self.n_wanted += usize::from(before == 0);
            self.n_wanted -= usize::from(before + amount == 0);
        }
    }

    fn tally(&self, counted: Counted) -> &Tally {
        match counted {
            Counted::Wanted => &self.counted.wanted,
            Counted::Unwanted => &self.counted.unwanted,
            Counted::Minding => &self.counted.minding,
        }
    }

    /// The number in the domain of `node`, 0 when the node lacks the label.
    fn number(&self, counted: Counted, key: &str, node: &NodeView<'_>) -> i64 {
        let tally = self.tally(counted).key(key);
        let base = tally.and_then(|t| t.of_node(node.cluster(), node.idx(), node.labels()));
        let is_about = |difference: &&Difference| {
            difference.counted == counted
                && *difference.key == *key
                && node.labels().get(key) == Some(&*difference.value)
        };
        let differences = self.differences.iter().filter(is_about);
        base.unwrap_or(0) + differences.map(|difference| difference.amount).sum::<i64>()
    }

    /// Why `node` is rejected; `None` when it passes.
    pub(super) fn refusal(&self, node: &NodeView<'_>) -> Option<Refusal> {
        let is_any = |counted, key: &str| self.number(counted, key, node) > 0;
        let mut is_missing = false;
        for tally in self.counted.wanted.keys() {
            if !node.labels().contains_key(&tally.key) {
                return Some(Refusal::Affinity);
            }
            is_missing |= !is_any(Counted::Wanted, &tally.key);
        }
        if is_missing && !self.may_be_first() {
            return Some(Refusal::Affinity);
        }
        if self.counted.unwanted.keys().iter().any(|tally| is_any(Counted::Unwanted, &tally.key)) {
            return Some(Refusal::AntiAffinity);
        }
        let counted = self.counted.minding.keys().iter().map(|tally| &tally.key);
        let added = self.differences.iter().map(|difference| &difference.key);
        counted
            .chain(added)
            .any(|key| is_any(Counted::Minding, key))
            .then_some(Refusal::ExistingAntiAffinity)
    }

    /// Whether the pod may be the first of its group: no pod matches its required affinity in any domain yet, and it
    /// matches that affinity itself.
    fn may_be_first(&self) -> bool {
        self.n_wanted == 0 && self.counted.matches_itself
    }

    /// The same as [`refusal`](Self::refusal) for many nodes, in order of precedence. `None` when hypothetical pods are
    /// involved.
    pub(super) fn refuse_all<'a>(
        &self,
        cluster: ClusterView<'_>,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
        rejection: impl Fn(Refusal) -> &'a Status,
    ) -> Option<()> {
        if !self.differences.is_empty() {
            return None;
        }
        let may_be_first = self.may_be_first();
        let is_missing = |n: Option<i64>| n.is_none_or(|n| n <= 0 && !may_be_first);
        for tally in self.counted.wanted.keys() {
            tally.reject_where(cluster, nodes, sink, rejection(Refusal::Affinity), is_missing);
            if tally.is_nowhere(cluster) {
                // No node is left to be rejected.
                return Some(());
            }
        }
        let is_any = |n: Option<i64>| n.is_some_and(|n| n > 0);
        for tally in self.counted.unwanted.keys() {
            tally.reject_where(cluster, nodes, sink, rejection(Refusal::AntiAffinity), is_any);
        }
        for tally in self.counted.minding.keys() {
            let rejection = rejection(Refusal::ExistingAntiAffinity);
            tally.reject_where(cluster, nodes, sink, rejection, is_any);
        }
        Some(())
    }
}

/// Which pods on nodes would mind `pod`, by domain. Keys without any are left out.
fn minding(cluster: ClusterView<'_>, pod: &Pod, spare: &Arc<VecPool<i64>>) -> Tally {
    let mut tally = Tally::new(spare);
    if cluster.affinity_terms().n_terms(TermKind::RequiredAntiAffinity) == 0 {
        return tally;
    }
    let minds = |kind| kind == TermKind::RequiredAntiAffinity;
    for (_, carried) in cluster.affinity_terms_about(pod, minds) {
        let (term, domains) = (carried.term(), carried.domains());
        if !domains.is_empty() {
            tally.add_carried(cluster, &term.topology_key, domains, |carried| i64::from(carried.n));
        }
    }
    tally
}
