//! The affinity terms of the pod that is to be placed, with their namespaces resolved.
//!
//! Behaviour in `spec/plugins-topology.md` §1.4 and §5.1.

use std::sync::Arc;

use kube_scheduler_framework::ClusterState;
use kube_scheduler_framework::api::validation::aggregate;
use kube_scheduler_framework::api::{
    LabelSelector, Labels, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm,
};

/// A term of the pod that is to be placed.
#[derive(Debug)]
pub(super) struct OwnTerm {
    scope: Scope,
    /// `None` means no pod.
    selector: Option<LabelSelector>,
    pub(super) topology_key: Arc<str>,
}

/// The namespaces that a term is about.
#[derive(Debug)]
enum Scope {
    All,
    /// Sorted.
    Names(Arc<[Arc<str>]>),
}

impl OwnTerm {
    /// Resolves the namespaces of `term` as they are now.
    ///
    /// Quirk: the reference adds the namespaces that the selector chooses to the list but goes on asking the selector as
    /// well, with no labels at all. A selector that only excludes (`NotIn`, `DoesNotExist`) thus means every namespace.
    /// Pinned by `a_namespace_selector_that_only_excludes_means_all`.
    pub(super) fn resolve(cluster: &ClusterState, term: &PodAffinityTerm) -> Self {
        let scope = match &term.namespace_selector {
            Some(selector) if selector.matches(&Labels::default()) => Scope::All,
            Some(selector) => {
                let chosen = cluster.objects().namespaces();
                let chosen = chosen.filter(|(_, labels)| selector.matches(labels));
                let mut names: Vec<Arc<str>> =
                    term.namespaces.iter().chain(chosen.map(|(name, _)| name)).cloned().collect();
                names.sort_unstable();
                names.dedup();
                Scope::Names(names.into())
            }
            None => Scope::Names(term.namespaces.clone()),
        };
        let (selector, topology_key) = (term.selector.clone(), term.topology_key.clone());
        Self { scope, selector, topology_key }
    }

    /// Whether the term means `other`.
    pub(super) fn matches(&self, other: &Pod) -> bool {
        let is_in_scope = match &self.scope {
            Scope::All => true,
            Scope::Names(names) => names.binary_search(&other.namespace).is_ok(),
        };
        is_in_scope && self.selector.as_ref().is_some_and(|s| s.matches(&other.labels))
    }
}

/// What the pod requires of the pods around it.
#[derive(Debug, Default)]
pub(super) struct Required {
    pub(super) affinity: Vec<OwnTerm>,
    pub(super) anti_affinity: Vec<OwnTerm>,
}

impl Required {
    pub(super) fn of(cluster: &ClusterState, pod: &Pod) -> Self {
        let resolve = |affinity: &Option<Arc<PodAffinity>>| {
            required(affinity).iter().map(|term| OwnTerm::resolve(cluster, term)).collect()
        };
        Self {
            affinity: resolve(&pod.spec.pod_affinity),
            anti_affinity: resolve(&pod.spec.pod_anti_affinity),
        }
    }

    /// Whether `other` is what the required affinity asks for: all terms at once. Without terms nobody is.
    pub(super) fn is_wanted(&self, other: &Pod) -> bool {
        !self.affinity.is_empty() && self.affinity.iter().all(|term| term.matches(other))
    }
}

/// What the pod would like to have around it, with the weight: negative for what it would rather not.
pub(super) fn preferred_of(cluster: &ClusterState, pod: &Pod) -> Vec<(i64, OwnTerm)> {
    let resolve = |sign: i64| {
        move |weighted: &WeightedPodAffinityTerm| {
            (sign * i64::from(weighted.weight), OwnTerm::resolve(cluster, &weighted.term))
        }
    };
    let liked = preferred(&pod.spec.pod_affinity).iter().map(resolve(1));
    liked.chain(preferred(&pod.spec.pod_anti_affinity).iter().map(resolve(-1))).collect()
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

/// Whether the pod has required terms of either kind, good or bad.
pub(super) fn has_required(pod: &Pod) -> bool {
    let n_given = |affinity: &Option<Arc<PodAffinity>>| {
        affinity.as_ref().map_or(0, |affinity| affinity.n_required_given)
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
