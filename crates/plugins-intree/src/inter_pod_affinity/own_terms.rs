//! What the pod that is to be placed asks of the pods around it, as counters of the cluster.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §1.4 and §5.1.

use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::validation::aggregate;
use kube_scheduler_framework::api::{
    LabelSelector, Labels, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm,
};
use kube_scheduler_framework::counters::{CountedNodes, CountedPods, CounterSpec, PodTerm};

use super::neighbours::Rule;

/// What the pod requires: for [`Rule::Affinity`] pods that match all affinity terms at once, by each topology key of the
/// terms; for [`Rule::AntiAffinity`] pods that match an anti-affinity term, term by term. What cannot change the answer is left
/// out.
pub(super) fn required_counters(cluster: ClusterView<'_>, pod: &Pod) -> Vec<(Rule, CounterSpec)> {
    let terms = required(&pod.spec.pod_affinity);
    let mut keys: Vec<&Arc<str>> = terms.iter().map(|term| &term.topology_key).collect();
    keys.sort_unstable();
    keys.dedup();
    // A key that no node has rejects every node. The others need no counters then: to look one up, all terms are compared.
    if let Some(missing) = keys.iter().position(|key| !cluster.is_on_nodes(key)) {
        keys = vec![keys[missing]];
    }
    // One list of terms for the counters of all keys.
    let pods = pods(terms);
    let wanted = keys.into_iter().map(|key| (Rule::Affinity, counter(pods.clone(), key)));
    // Anti-affinity by a key that no node has keeps the pod out of nowhere.
    let unwanted = required(&pod.spec.pod_anti_affinity).iter();
    let unwanted = unwanted.filter(|term| cluster.is_on_nodes(&term.topology_key));
    wanted.chain(unwanted.map(|term| (Rule::AntiAffinity, counter_of(term)))).collect()
}

/// What the pod would like to have around it, with the weight: negative for what it would rather not. Terms with a key that no
/// node has are left out: they say nothing about any.
pub(super) fn preferred_counters(
    cluster: ClusterView<'_>,
    pod: &Pod,
) -> impl Iterator<Item = (i64, CounterSpec)> {
    let liked = preferred(&pod.spec.pod_affinity).iter().map(|weighted| (1, weighted));
    let disliked = preferred(&pod.spec.pod_anti_affinity).iter().map(|weighted| (-1, weighted));
    let all = liked.chain(disliked);
    let on_nodes =
        all.filter(move |(_, weighted)| cluster.is_on_nodes(&weighted.term.topology_key));
    on_nodes.map(|(sign, weighted)| (sign * i64::from(weighted.weight), counter_of(&weighted.term)))
}

fn counter_of(term: &PodAffinityTerm) -> CounterSpec {
    counter(pods(std::slice::from_ref(term)), &term.topology_key)
}

/// Pods that match all of `terms`, those included that are being deleted.
fn pods(terms: &[PodAffinityTerm]) -> CountedPods {
    // A term without selector selects no pod, and neither does a counter without terms.
    let terms: Option<Arc<[PodTerm]>> = terms.iter().map(pod_term).collect();
    CountedPods { terms: terms.unwrap_or_default(), counts_terminating: true }
}

fn counter(pods: CountedPods, key: &Arc<str>) -> CounterSpec {
    CounterSpec { pods, nodes: CountedNodes::default(), topology_key: Some(key.clone()) }
}

/// Which pods a term of the pod selects.
///
/// Quirk: the reference adds the namespaces that the selector chooses to those named but goes on asking the selector as
/// well, with no labels at all. So a selector that only excludes (`NotIn`, `DoesNotExist`) selects every namespace.
/// Pinned by `a_namespace_selector_that_only_excludes_means_all`.
fn pod_term(term: &PodAffinityTerm) -> Option<PodTerm> {
    let means_all = term.namespace_selector.as_ref().is_some_and(|s| s.matches(&Labels::default()));
    Some(PodTerm {
        namespaces: term.namespaces.clone(),
        namespace_selector: if means_all {
            Some(LabelSelector::default())
        } else {
            term.namespace_selector.clone()
        },
        selector: term.selector.clone()?,
    })
}

/// The required terms of an affinity.
pub(super) fn required(affinity: &Option<Arc<PodAffinity>>) -> &[PodAffinityTerm] {
    affinity.as_ref().map_or(&[], |affinity| &affinity.required)
}

fn preferred(affinity: &Option<Arc<PodAffinity>>) -> &[WeightedPodAffinityTerm] {
    affinity.as_ref().map_or(&[], |affinity| &affinity.preferred)
}

/// Whether the pod has preferred terms of either kind, good or bad.
pub(super) fn has_preferred(pod: &Pod) -> bool {
    let n_given = |affinity: &Option<Arc<PodAffinity>>| {
        affinity.as_ref().map_or(0, |affinity| affinity.n_preferred_given)
    };
    n_given(&pod.spec.pod_affinity) + n_given(&pod.spec.pod_anti_affinity) > 0
}

/// What is wrong with the pod's terms, list by list.
pub(super) fn compile_error(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.pod_affinity.as_deref();
    let anti_affinity = pod.spec.pod_anti_affinity.as_deref();
    let lists = [
        ("requiredAffinityTerms", affinity.and_then(|a| a.required_error.as_ref())),
        ("requiredAntiAffinityTerms", anti_affinity.and_then(|a| a.required_error.as_ref())),
        ("preferredAffinityTerms", affinity.and_then(|a| a.preferred_error.as_ref())),
        ("preferredAntiAffinityTerms", anti_affinity.and_then(|a| a.preferred_error.as_ref())),
    ];
    let errors: Vec<String> = lists
        .into_iter()
        .filter_map(|(list, error)| error.map(|error| format!("{list}: {error}")))
        .collect();
    (!errors.is_empty()).then(|| aggregate(&errors))
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::fixture;
    use serde_json::json;

    use super::*;

    /// What a pod requires if it has a required affinity term for each of these keys, on a node with the labels `a` and `b`.
    fn wanted(keys: &[&str]) -> Vec<(Rule, CounterSpec)> {
        let world = fixture("node n1 label:a=1 label:b=2");
        let term = |key| json!({"topologyKey": key, "labelSelector": {}});
        let terms: Vec<_> = keys.iter().map(term).collect();
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        let pod = Pod::from_value(&json!({
            "metadata": {"namespace": "default", "name": "p"},
            "spec": {"affinity": {"podAffinity": affinity}},
        }));
        required_counters(ClusterView::unrecorded(world.cluster()), &pod.unwrap())
    }

    #[test]
    fn the_counters_of_all_keys_share_one_list_of_terms() {
        let wanted = wanted(&["a", "b", "a"]);
        assert_eq!(wanted.len(), 2);
        let lists = wanted.iter().map(|(_, spec)| &spec.pods.terms);
        assert!(lists.clone().all(|terms| Arc::ptr_eq(terms, &wanted[0].1.pods.terms)));
        assert_eq!(lists.map(|terms| terms.len()).max(), Some(3));
    }

    /// A pod with 4,000 terms, each with a key of its own, took 758 ms where each key was looked up with all terms.
    #[test]
    fn with_a_key_that_no_node_has_nothing_else_is_counted() {
        let wanted = wanted(&["b", "y", "a", "x"]);
        let keys: Vec<_> = wanted.iter().map(|(_, spec)| spec.topology_key.as_deref()).collect();
        assert_eq!(keys, [Some("x")]);
        assert_eq!(wanted[0].1.pods.terms.len(), 4);
    }
}
