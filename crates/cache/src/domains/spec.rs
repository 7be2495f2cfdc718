//! What a counter counts.
//!
//! Invariant: equal specifications give equal counts on every state; whether two are equal depends on their content
//! alone.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube_scheduler_api_types::{
    LabelSelector, Labels, Node, NodeSelector, NodeSelectorTerm, Operator, Pod, Toleration,
    untolerated_taint,
};

use crate::objects::ObjectStore;

/// Which pods count, on which nodes, and by which label of the node they are added up.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct CounterSpec {
    /// Which pods are counted.
    pub pods: CountedPods,
    /// The nodes on which pods are counted.
    pub nodes: CountedNodes,
    /// The node label whose values are the domains; only nodes that have it count. `None`: there is one domain, of
    /// all nodes that count.
    pub topology_key: Option<Arc<str>>,
}

/// Which pods count: those that fulfil all terms. Without terms no pod counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CountedPods {
    /// The conditions, each of which a pod must fulfil.
    pub terms: Arc<[PodTerm]>,
    /// Whether pods count that are being deleted (`deletionTimestamp` is set).
    pub counts_terminating: bool,
}

/// One condition on a pod: its namespace is one of those named or selected, and its labels match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Namespaces named outright, sorted.
    pub namespaces: Arc<[Arc<str>]>,
    /// Namespaces selected by the labels of their objects. The empty selector means all namespaces, with or without
    /// an object; `None` means none.
    pub namespace_selector: Option<LabelSelector>,
    /// What the labels of the pod must match.
    pub selector: LabelSelector,
}

/// Which nodes count, beside that they have the topology key. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct CountedNodes {
    /// Labels that a node must have, whatever their value.
    pub required_keys: Arc<[Arc<str>]>,
    /// What the node must match, as a pod requires it.
    pub affinity: Option<RequiredNodeAffinity>,
    /// A node counts only if all of its taints that keep pods out are tolerated.
    pub tolerated: Option<PodTolerations>,
    /// Whether nodes without the topology key count too, as a domain of their own, the one of
    /// [`ValueId::ABSENT`](crate::columns::ValueId::ABSENT).
    pub counts_unlabelled: bool,
}

/// A pod's `nodeSelector` and required node affinity.
#[derive(Clone, Debug)]
pub struct RequiredNodeAffinity {
    pub(super) pairs: Option<Labels>,
    pub(super) required: Option<NodeSelector>,
}

/// The tolerations of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTolerations {
    /// The tolerations, in the order in which the pod lists them.
    pub tolerations: Arc<[Toleration]>,
    /// Whether the operators `Lt` and `Gt` count (feature gate `TaintTolerationComparisonOperators`).
    pub compares_numbers: bool,
}

impl CountedPods {
    /// Whether a pod counts, given the objects that namespaces are selected from.
    pub fn includes(&self, pod: &Pod, objects: &ObjectStore) -> bool {
        !self.terms.is_empty()
            && (self.counts_terminating || pod.deletion_requested.is_none())
            && self.terms.iter().all(|term| term.matches(pod, objects))
    }

    /// Whether the change of a namespace's labels (`None`: no object) from `old` to `new` matters to any term.
    pub(crate) fn distinguishes(&self, old: Option<&Labels>, new: Option<&Labels>) -> bool {
        let mut selectors = self.terms.iter().filter_map(|term| term.namespace_selector.as_ref());
        selectors.any(|selector| selects(selector, old) != selects(selector, new))
    }

    /// How many namespaces and values of labels are listed.
    fn n_listed(&self) -> usize {
        let of_selector = |selector: &LabelSelector| {
            selector.requirements().iter().map(|requirement| 1 + requirement.values.len()).sum()
        };
        let of_term = |term: &PodTerm| -> usize {
            let selected: usize = term.namespace_selector.as_ref().map_or(0, of_selector);
            let labels: usize = of_selector(&term.selector);
            1 + term.namespaces.len() + selected + labels
        };
        self.terms.iter().map(of_term).sum()
    }

    /// Whether both are the same allocation, and so equal. With `false` they may be equal or not.
    pub(super) fn is_same_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.terms, &other.terms)
            && self.counts_terminating == other.counts_terminating
    }

    /// The only namespaces in which pods count; `None` when any namespace may have pods that count.
    pub(crate) fn only_namespaces(&self) -> Option<&[Arc<str>]> {
        let named = self.terms.iter().find(|term| term.namespace_selector.is_none());
        named.map(|term| &*term.namespaces)
    }

    /// A label and values such that every pod that counts has one of the values; `None` when there is no such label.
    pub(crate) fn only_values(&self) -> Option<(&Arc<str>, &[Arc<str>])> {
        let mut requirements = self.terms.iter().flat_map(|term| term.selector.requirements());
        let listed = requirements.find(|requirement| requirement.operator == Operator::In);
        listed.map(|requirement| (&requirement.key, &*requirement.values))
    }
}

impl PodTerm {
    /// Whether a pod fulfils the term, given the objects that namespaces are selected from.
    pub fn matches(&self, pod: &Pod, objects: &ObjectStore) -> bool {
        let is_selected = |selector: &LabelSelector| {
            selector.is_empty() || selects(selector, objects.namespace_labels(&pod.namespace))
        };
        // The usual case first, in which names are shared: without looking at the text.
        (self.namespaces.first().is_some_and(|first| Arc::ptr_eq(first, &pod.namespace))
            || self.namespaces.binary_search(&pod.namespace).is_ok()
            || self.namespace_selector.as_ref().is_some_and(is_selected))
            && self.selector.matches(&pod.labels)
    }
}

fn selects(selector: &LabelSelector, namespace: Option<&Labels>) -> bool {
    selector.is_empty() || namespace.is_some_and(|labels| selector.matches(labels))
}

impl CounterSpec {
    /// How many keys, namespaces and values are listed: what a counter takes to be kept and found, beside its numbers.
    pub(crate) fn n_listed(&self) -> usize {
        self.pods.n_listed() + self.nodes.n_listed()
    }

    /// Labels without which no node counts.
    pub(crate) fn needed_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let key = self.topology_key.iter().filter(|_| !self.nodes.counts_unlabelled);
        key.chain(self.nodes.required_keys.iter())
    }

    /// Whether a node counts.
    pub(crate) fn includes_node(&self, node: &Node) -> bool {
        self.nodes.includes(node, self.topology_key.as_deref())
    }
}

impl CountedNodes {
    fn n_listed(&self) -> usize {
        let affinity = self.affinity.as_ref().map_or(0, RequiredNodeAffinity::n_listed);
        let tolerated = self.tolerated.as_ref().map_or(0, |tolerated| tolerated.tolerations.len());
        self.required_keys.len() + affinity + tolerated
    }

    fn includes(&self, node: &Node, topology_key: Option<&str>) -> bool {
        let has_key = topology_key.is_none_or(|key| node.labels.contains_key(key));
        (has_key || self.counts_unlabelled)
            && self.required_keys.iter().all(|key| node.labels.contains_key(key))
            && self.tolerated.as_ref().is_none_or(|tolerated| tolerated.lets_in(node))
            && self.affinity.as_ref().is_none_or(|affinity| affinity.matches(node))
    }
}

impl RequiredNodeAffinity {
    /// How many terms, keys, fields and values are listed.
    pub fn n_listed(&self) -> usize {
        let terms = self.required.iter().flat_map(|selector| selector.terms().iter()).flatten();
        let of_term = |term: &NodeSelectorTerm| -> usize {
            let values: usize = term.expressions.iter().map(|listed| 1 + listed.values.len()).sum();
            1 + values + term.fields.len()
        };
        self.pairs.as_ref().map_or(0, Labels::len) + terms.map(of_term).sum::<usize>()
    }

    /// What a pod requires; `None` when it requires nothing.
    pub fn of(pod: &Pod) -> Option<Self> {
        let pairs = pod.spec.node_selector.clone().filter(|pairs| !pairs.is_empty());
        let required =
            pod.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.clone());
        (pairs.is_some() || required.is_some()).then_some(Self { pairs, required })
    }

    /// Whether a node is as required. A term that cannot be read matches nothing.
    pub fn matches(&self, node: &Node) -> bool {
        self.pairs
            .iter()
            .flat_map(Labels::iter)
            .all(|(key, value)| node.labels.get(key) == Some(value))
            && self
                .required
                .as_ref()
                .is_none_or(|selector| selector.matches(&node.labels, &node.name))
    }
}

impl PartialEq for RequiredNodeAffinity {
    fn eq(&self, other: &Self) -> bool {
        let has_same_pairs = match (&self.pairs, &other.pairs) {
            (Some(pairs), Some(others)) => pairs.is_same_allocation(others) || pairs == others,
            (pairs, others) => pairs == others,
        };
        has_same_pairs
            && match (&self.required, &other.required) {
                (Some(terms), Some(others)) => terms.is_same_allocation(others) || terms == others,
                (terms, others) => terms == others,
            }
    }
}

impl Hash for RequiredNodeAffinity {
    /// Leaves out terms that cannot be read.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pairs.hash(state);
        let terms = self.required.iter().flat_map(|selector| selector.terms().iter());
        terms.flatten().for_each(|term| term.hash(state));
    }
}

impl PodTolerations {
    /// Whether every taint of the node that keeps pods out is tolerated.
    pub(super) fn lets_in(&self, node: &Node) -> bool {
        untolerated_taint(&node.taints, &self.tolerations, self.compares_numbers).is_none()
    }
}
