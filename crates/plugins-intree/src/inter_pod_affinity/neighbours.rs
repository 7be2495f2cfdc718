//! The pods in each topology domain that matter to a pod's required affinity and to required anti-affinity on either
//! side.
//!
//! Each attempt prepares references to the counters that the numbers come from. Hypothetical pods are kept as differences to
//! them, so that a copy for a dry run costs a pointer and a few numbers.
//!
//! Invariant: adding a pod and removing it again leaves what was before.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.2 to §5.4.

use std::sync::Arc;

use kube_scheduler_framework::affinity::TermKind;
use kube_scheduler_framework::api::{Labels, Pod};
use kube_scheduler_framework::columns::{NodeGroup, VecPool};
use kube_scheduler_framework::counters::CounterSpec;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, Filter, FilterSink, NodeIdx, NodeView, PreFilterExtensions,
    Status,
};
use smallvec::SmallVec;

use super::InterPodAffinity;
use super::own_terms::{required, required_counters};
use super::sums::{Amount, DomainSum, DomainSums, DomainVerdicts};

const NO_STATE: &str = "error reading \"PreFilterInterPodAffinity\" from cycleState: not found";

/// What a node may be rejected by; each goes by a number of pods in the node's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The pod's required affinity: by pods that match all of its terms.
    Affinity,
    /// The pod's required anti-affinity: by pods that match one of its terms, once for each.
    AntiAffinity,
    /// The required anti-affinity of others: by their terms that match the pod.
    ExistingAntiAffinity,
}

impl Rule {
    /// In order of precedence.
    const ALL: [Self; 3] = [Self::Affinity, Self::AntiAffinity, Self::ExistingAntiAffinity];

    /// Whether a node is rejected with this number in its domain; `None`: the node lacks the label.
    fn rejects(self, number: Option<i64>, may_be_first: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Affinity => number.is_none_or(|number| number <= 0 && !may_be_first()),
            _ => number.is_some_and(|number| number > 0),
        }
    }
}

/// What PreFilter stores for Filter.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    prepared: Arc<PreparedTerms>,
    /// What hypothetical pods change, none of it 0.
    differences: SmallVec<[Difference; 2]>,
    /// By how much hypothetical pods change the number of domains with pods that the pod's affinity requires.
    more_wanted: i64,
}

#[derive(Debug)]
struct PreparedTerms {
    /// Whether the pod has required terms, even if no node has their topology keys.
    has_own: bool,
    own: Vec<(Rule, CounterSpec)>,
    matches_itself: bool,
    /// In the order of [`Rule`].
    sums: [DomainSums; 3],
}

#[derive(Clone, Debug)]
struct Difference {
    rule: Rule,
    key: Arc<str>,
    value: Arc<str>,
    amount: i64,
}

impl Neighbours {
    /// O(terms of and about `pod`), if the cluster follows what the pod's own terms count.
    pub(super) fn of(cluster: ClusterView<'_>, pod: &Pod, spare: &Arc<VecPool<i64>>) -> Self {
        let own = required_counters(cluster, pod);
        let wanted = own.first().filter(|(rule, _)| *rule == Rule::Affinity);
        let matches_itself =
            wanted.is_some_and(|(_, spec)| spec.pods.includes(pod, cluster.objects()));
        let affinities = [&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity];
        let has_own = affinities.iter().any(|affinity| !required(affinity).is_empty());
        let mut sums = <[DomainSums; 3]>::default();
        let counters = cluster.count_pods_of_each(own.iter().map(|(_, spec)| spec));
        for ((rule, spec), counter) in own.iter().zip(counters) {
            sums[*rule as usize].add_counter(spec, counter, 1);
        }
        let minding = &mut sums[Rule::ExistingAntiAffinity as usize];
        let minds = |kind| kind == TermKind::RequiredAntiAffinity;
        for (id, _, term) in cluster.affinity_terms_about(pod, false, minds) {
            let once = Amount { per_pod: 1, per_weight: 0 };
            minding.add_term(&term.topology_key, cluster.carriers(id, term), once);
        }
        minding.condense(cluster, spare);
        let prepared = Arc::new(PreparedTerms { has_own, own, matches_itself, sums });
        Self { prepared, differences: SmallVec::new(), more_wanted: 0 }
    }

    /// Whether there are rules to check: the pod requires something, or a pod has required anti-affinity to it.
    pub(super) fn is_any(&self) -> bool {
        self.prepared.has_own || self.of_rule(Rule::ExistingAntiAffinity).iter().next().is_some()
    }

    fn shift(&mut self, rule: Rule, key: &Arc<str>, node: &NodeView<'_>, amount: i64) {
        let Some(value) = node.labels().get_shared(key) else { return };
        let sum = self.of_rule(rule).of_key(key);
        let counted = sum.and_then(|sum| sum.number_at(node.cluster(), node.idx()));
        let before = self.number(rule, key, counted, node).unwrap_or(0);
        let is_about = |d: &Difference| d.rule == rule && d.key == *key && d.value == *value;
        match self.differences.iter().position(is_about) {
            Some(at) => {
                self.differences[at].amount += amount;
                if self.differences[at].amount == 0 {
                    self.differences.remove(at);
                }
            }
            None => {
                let (key, value) = (key.clone(), value.into_owned());
                self.differences.push(Difference { rule, key, value, amount });
            }
        }
        if rule == Rule::Affinity {
            self.more_wanted += i64::from(before == 0) - i64::from(before + amount == 0);
        }
    }

    /// `counted` in the domain of `node`, with what hypothetical pods change; `None` when the node lacks the label.
    fn number(
        &self,
        rule: Rule,
        key: &str,
        counted: Option<i64>,
        node: &NodeView<'_>,
    ) -> Option<i64> {
        if self.differences.is_empty() {
            return counted;
        }
        let value = node.labels().get(key)?;
        let is_about = |d: &&Difference| d.rule == rule && *d.key == *key && *d.value == *value;
        let differences = self.differences.iter().filter(is_about);
        Some(counted.unwrap_or(0) + differences.map(|difference| difference.amount).sum::<i64>())
    }

    /// Whether the pod may be the first of its group: no pod matches its required affinity in any domain yet, and it
    /// matches that affinity itself.
    fn may_be_first(&self, cluster: ClusterView<'_>) -> bool {
        let wanted = self.of_rule(Rule::Affinity).iter();
        self.prepared.matches_itself
            && wanted.map(|sum| sum.n_occupied(cluster)).sum::<i64>() + self.more_wanted == 0
    }

    fn of_rule(&self, rule: Rule) -> &DomainSums {
        &self.prepared.sums[rule as usize]
    }

    /// What the rules go by, in order of precedence.
    fn sums(&self) -> impl Iterator<Item = (Rule, &DomainSum)> {
        let of_rule = |rule| self.of_rule(rule).iter().map(move |sum| (rule, sum));
        Rule::ALL.into_iter().flat_map(of_rule)
    }
}

impl PreFilterExtensions for InterPodAffinity {
    fn concerns(&self, cx: &Context<'_>, state: &CycleState, pod: &Pod, added: &Pod) -> bool {
        let Some(neighbours) = state.get::<Neighbours>() else { return true };
        let objects = cx.cluster().objects();
        let nothing = Labels::default();
        let namespace_labels = objects.namespace_labels(&pod.namespace).unwrap_or(&nothing);
        let mut others_terms = required(&added.spec.pod_anti_affinity).iter();
        let mut own = neighbours.prepared.own.iter();
        others_terms.any(|term| term.matches(pod, namespace_labels))
            || own
                .any(|(_, spec)| spec.topology_key.is_some() && spec.pods.includes(added, objects))
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        added: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, added, node, 1)
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        removed: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        change(state, pod, removed, node, -1)
    }
}

/// Updates the numbers for `other` being added to `node` (`sign` 1) or removed from it (-1). `pod` is the one to be placed.
fn change(
    state: &mut CycleState,
    pod: &Pod,
    other: &Pod,
    node: &NodeView<'_>,
    sign: i64,
) -> Status {
    let Some(neighbours) = state.get_mut::<Neighbours>() else { return no_state() };
    let prepared = neighbours.prepared.clone();
    let objects = node.cluster().objects();
    let nothing = Labels::default();
    let namespace_labels = objects.namespace_labels(&pod.namespace).unwrap_or(&nothing);
    for term in required(&other.spec.pod_anti_affinity) {
        if term.matches(pod, namespace_labels) {
            neighbours.shift(Rule::ExistingAntiAffinity, &term.topology_key, node, sign);
        }
    }
    // The counters of what is wanted count the same pods.
    let mut is_wanted = None;
    for (rule, spec) in &prepared.own {
        let Some(key) = &spec.topology_key else { continue };
        let includes = || spec.pods.includes(other, objects);
        let is_meant = match rule {
            Rule::Affinity => *is_wanted.get_or_insert_with(includes),
            _ => includes(),
        };
        if is_meant {
            neighbours.shift(*rule, key, node, sign);
        }
    }
    Status::SUCCESS
}

impl Filter for InterPodAffinity {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(neighbours) = state.get::<Neighbours>() else { return no_state() };
        let rejects = |rule: Rule, key: &str, counted: Option<i64>| {
            let number = neighbours.number(rule, key, counted, node);
            rule.rejects(number, || neighbours.may_be_first(node.cluster()))
        };
        let counted = neighbours.sums().find(|(rule, sum)| {
            rejects(*rule, &sum.key, sum.number_at(node.cluster(), node.idx()))
        });
        // A hypothetical pod may carry the first term with its key.
        let added = || {
            let added = neighbours.differences.iter().find(|Difference { rule, key, .. }| {
                neighbours.of_rule(*rule).of_key(key).is_none() && rejects(*rule, key, None)
            });
            added.map(|difference| difference.rule)
        };
        let rule = counted.map(|(rule, _)| rule).or_else(added);
        rule.map_or(Status::SUCCESS, |rule| self.rejections[rule as usize].clone())
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let Some(neighbours) = state.get::<Neighbours>().filter(|it| it.differences.is_empty())
        else {
            return sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node));
        };
        let cluster = cx.cluster();
        let (live, may_be_first) = (cluster.live_nodes(), neighbours.may_be_first(cluster));
        for (rule, sum) in neighbours.sums() {
            let spares_empty = rule != Rule::Affinity;
            if spares_empty && !sum.is_any(cluster) {
                continue;
            }
            let id = sink.code_for(self.rejections[rule as usize].clone());
            let mut rejects_domain = |domain: &NodeGroup| {
                // Only nodes that are asked about are open.
                for idx in domain.iter().filter(|idx| live.contains(*idx)) {
                    if sink.is_open(idx) {
                        sink.reject_with(idx, id);
                    }
                }
            };
            if spares_empty && sum.visit_few_of_many(cluster, &mut rejects_domain) {
                continue;
            }
            let Some(numbers) = sum.numbers(cluster, nodes.len(), &self.spare) else { continue };
            let rejects = |number| rule.rejects(number, || may_be_first);
            match numbers.judged(rejects) {
                Err(near) => {
                    for idx in nodes.iter().copied().filter(|idx| live.contains(*idx)) {
                        if sink.is_open(idx) && rejects(near.number_at(idx)) {
                            sink.reject_with(idx, id);
                        }
                    }
                }
                // By domain where that is fewer nodes than were asked about.
                Ok(judged) if judged.n_nodes() < nodes.len() => {
                    judged.nodes().for_each(rejects_domain);
                }
                Ok(DomainVerdicts { column, is_rejected }) => {
                    let is_rejected = &is_rejected[..];
                    sink.reject_by_value(nodes, id, column.ids(), |idx, value| {
                        live.contains(idx) & is_rejected[value.index()]
                    });
                }
            }
            if rule == Rule::Affinity && numbers.is_nowhere() {
                // No node is left to be rejected.
                break;
            }
        }
        Ok(())
    }
}

fn no_state() -> Status {
    Status::error(NO_STATE)
}
