//! Node and pod affinity, compiled.

use std::sync::Arc;

use crate::labels::Labels;
use crate::node::Node;
use crate::pod::Pod;
use crate::selector::{LabelSelector, NodeSelector, PreferredNodeTerm, SelectorError};

/// A pod's `affinity.nodeAffinity`, compiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAffinity {
    /// Required terms; a term that cannot be parsed matches nothing (`docs/spec/plugins-node.md` §2.7, lazy form).
    pub required: Option<NodeSelector>,
    /// Preferred terms; `None` when the list is absent, which differs from an empty one.
    pub preferred: Option<PreferredNodeTerms>,
}

/// The preferred terms of a node affinity: all compiled, or why that failed (strict form).
pub type PreferredNodeTerms = Result<Arc<[PreferredNodeTerm]>, SelectorError>;

/// `affinity.podAffinity` or `affinity.podAntiAffinity`. A list with an invalid term is empty as a whole
/// (`docs/spec/core.md` §15).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAffinity {
    /// Terms that must hold.
    pub required: Arc<[PodAffinityTerm]>,
    /// Terms that should hold.
    pub preferred: Arc<[WeightedPodAffinityTerm]>,
    /// How many required terms the object has, whether or not they compile.
    pub n_required_given: usize,
    /// How many preferred terms the object has, whether or not they compile.
    pub n_preferred_given: usize,
    /// Why `required` is empty although terms were given.
    pub required_error: Option<Arc<SelectorError>>,
    /// Why `preferred` is empty although terms were given.
    pub preferred_error: Option<Arc<SelectorError>>,
}

/// One pod affinity or anti-affinity term, compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// Which pods; `None` matches nothing. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into it
    /// when the pod was created; the scheduler must not do so again (`docs/spec/plugins-topology.md` §5.11).
    pub selector: Option<LabelSelector>,
    /// Namespaces named outright, sorted; the pod's own when the term names none and has no namespace selector; empty
    /// when it names none and has one.
    pub namespaces: Arc<[Arc<str>]>,
    /// Namespaces chosen by their labels; `None` chooses none.
    pub namespace_selector: Option<LabelSelector>,
    /// Node label whose values are the domains.
    pub topology_key: Arc<str>,
}

impl PodAffinityTerm {
    /// Whether the term covers the namespace of this name with these labels.
    pub fn includes_namespace(&self, namespace: &Arc<str>, labels: &Labels) -> bool {
        // The usual case first, in which names are shared: without looking at the text.
        self.namespaces.first().is_some_and(|first| Arc::ptr_eq(first, namespace))
            || self.namespaces.binary_search(namespace).is_ok()
            || self.namespace_selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// Whether it selects pods by one of the [labels that number them](crate::well_known::NUMBERING_LABELS).
    pub fn selects_by_number(&self) -> bool {
        self.selector.as_ref().is_some_and(LabelSelector::selects_by_number)
    }

    /// Whether the term matches `pod`, whose namespace has these labels (`docs/spec/plugins-topology.md` §1.4).
    pub fn matches(&self, pod: &Pod, namespace_labels: &Labels) -> bool {
        self.includes_namespace(&pod.namespace, namespace_labels)
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// A pod affinity term with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedPodAffinityTerm {
    /// What is added to the score of nodes in a domain where the term matches.
    pub weight: i32,
    /// The term.
    pub term: PodAffinityTerm,
}

/// Whether the pod's `nodeSelector` and required node affinity match the node. An error counts as no match.
pub fn node_satisfies_required_affinity(pod: &Pod, node: &Node) -> bool {
    matches_node_selector(pod, node)
        && required(pod).is_none_or(|selector| selector.matches(&node.labels, &node.name))
}

/// As [`node_satisfies_required_affinity`], but reports terms that cannot be compiled.
///
/// # Errors
/// If no term matched and some could not be compiled, so that the answer is unknown.
pub fn required_node_affinity_matches(pod: &Pod, node: &Node) -> Result<bool, SelectorError> {
    if !matches_node_selector(pod, node) {
        return Ok(false);
    }
    required(pod).map_or(Ok(true), |selector| selector.matches_or_error(&node.labels, &node.name))
}

fn matches_node_selector(pod: &Pod, node: &Node) -> bool {
    let Some(wanted) = &pod.spec.node_selector else { return true };
    wanted.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

fn required(pod: &Pod) -> Option<&NodeSelector> {
    pod.spec.node_affinity.as_ref()?.required.as_ref()
}
