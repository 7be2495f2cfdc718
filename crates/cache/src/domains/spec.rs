//! What a counter counts.
//!
//! Invariant: equal specifications give equal counts on every state; whether two are equal depends on their content
//! alone.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube_scheduler_api_types::{
    LabelSelector, Labels, Node, NodeSelector, Operator, Pod, Toleration, untolerated_taint,
};

use crate::objects::ObjectStore;

/// Which pods count, on which nodes, and by which label of the node they are added up.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct CounterSpec {
    /// Which pods count.
    pub pods: CountedPods,
    /// On which nodes.
    pub nodes: CountedNodes,
    /// The node label whose values are the domains; only nodes that have it count. `None`: there is one domain, of
    /// all nodes that count.
    pub topology_key: Option<Arc<str>>,
}

/// Which pods count: those that fulfil all terms. Without terms no pod counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CountedPods {
    /// A pod must fulfil each of them.
    pub terms: Arc<[PodTerm]>,
    /// Whether pods count that are being deleted (`deletionTimestamp` is set).
    pub counts_terminating: bool,
}

/// One condition on a pod: its namespace is one of those named or selected, and its labels match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Namespaces named outright.
    pub namespaces: Arc<[Arc<str>]>,
    /// Namespaces selected by the labels of their objects. The empty selector means all namespaces, with or without
    /// an object; `None` means none.
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the pod.
    pub selector: LabelSelector,
}

/// Which nodes count, beside that they have the topology key. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct CountedNodes {
    /// Labels that a node must have, whatever their value.
    pub required_keys: Arc<[Arc<str>]>,
    /// What the node must match, as a pod requires it.
    pub affinity: Option<RequiredNodeAffinity>,
    /// A node counts only if nothing but tolerated taints would keep a pod out.
    pub tolerated: Option<PodTolerations>,
    /// Whether nodes without the topology key count too, as a domain of their own, the one of
    /// [`ValueId::ABSENT`](crate::ValueId::ABSENT).
    pub counts_unlabelled: bool,
}

/// A pod's `nodeSelector` and required node affinity.
#[derive(Clone, Debug, PartialEq)]
pub struct RequiredNodeAffinity {
    pub(super) pairs: Option<Labels>,
    pub(super) required: Option<NodeSelector>,
}

/// The tolerations of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTolerations {
    /// In the order given.
    pub tolerations: Arc<[Toleration]>,
    /// Whether `Lt` and `Gt` count (`TaintTolerationComparisonOperators`).
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
    pub(crate) fn tells_apart(&self, old: Option<&Labels>, new: Option<&Labels>) -> bool {
        let mut selectors = self.terms.iter().filter_map(|term| term.namespace_selector.as_ref());
        selectors.any(|selector| selects(selector, old) != selects(selector, new))
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
        (self.namespaces.contains(&pod.namespace)
            || self.namespace_selector.as_ref().is_some_and(is_selected))
            && self.selector.matches(&pod.labels)
    }
}

fn selects(selector: &LabelSelector, namespace: Option<&Labels>) -> bool {
    selector.is_empty() || namespace.is_some_and(|labels| selector.matches(labels))
}

impl CounterSpec {
    /// Whether a node counts.
    pub(crate) fn includes_node(&self, node: &Node) -> bool {
        self.nodes.includes(node, self.topology_key.as_deref())
    }
}

impl CountedNodes {
    fn includes(&self, node: &Node, topology_key: Option<&str>) -> bool {
        let has_key = topology_key.is_none_or(|key| node.labels.contains_key(key));
        (has_key || self.counts_unlabelled)
            && self.required_keys.iter().all(|key| node.labels.contains_key(key))
            && self.tolerated.as_ref().is_none_or(|tolerated| tolerated.lets_in(node))
            && self.affinity.as_ref().is_none_or(|affinity| affinity.matches(node))
    }
}

impl RequiredNodeAffinity {
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
