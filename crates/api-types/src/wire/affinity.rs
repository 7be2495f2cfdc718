//! Selectors, affinities and spread constraints as written.

use std::sync::Arc;

use serde::Deserialize;

use super::de::{List, Text, or_default};
use crate::labels::Labels;

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    pub match_labels: Labels,
    /// Requirements that must hold besides.
    pub match_expressions: List<SelectorRequirement>,
}

/// One requirement of a label selector or a node selector term.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    /// The label key, or the path of the field.
    pub key: Text,
    /// The operator, such as `In`.
    pub operator: Text,
    /// Values; absent and empty print differently in errors.
    pub values: Option<List<Text>>,
}

impl SelectorRequirement {
    /// The values as plain shared strings.
    pub(crate) fn shared_values(&self) -> Option<Vec<Arc<str>>> {
        self.values.as_ref().map(|values| values.iter().map(|value| value.0.clone()).collect())
    }
}

/// `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Which nodes the pod requires or prefers.
    pub node_affinity: Option<NodeAffinity>,
    /// Near which pods it must or should be.
    pub pod_affinity: Option<PodAffinity>,
    /// Near which pods it must not or should not be.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// `affinity.nodeAffinity`; also the added affinity of the NodeAffinity plugin's arguments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// What a node must match.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// What nodes should match, with weights.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Option<List<PreferredSchedulingTerm>>,
}

/// A node selector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms, of which one must match.
    pub node_selector_terms: List<NodeSelectorTerm>,
}

/// One term of a node selector, all of whose requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on labels of the node.
    pub match_expressions: List<SelectorRequirement>,
    /// Requirements on fields of the node.
    pub match_fields: List<SelectorRequirement>,
}

/// A preferred node selector term.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    /// What is added to the score of nodes that match.
    pub weight: Option<i32>,
    /// What a node has to match.
    #[serde(deserialize_with = "or_default")]
    pub preference: NodeSelectorTerm,
}

/// `affinity.podAffinity` or `affinity.podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Terms that must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: List<PodAffinityTerm>,
    /// Terms that should hold, with weights.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: List<WeightedPodAffinityTerm>,
}

/// One pod affinity term. `matchLabelKeys` and `mismatchLabelKeys` are the API server's business: it has merged them
/// into the selector when the pod was created.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// The pods that the term is about, by their labels.
    pub label_selector: Option<LabelSelector>,
    /// The namespaces of these pods, by name.
    pub namespaces: List<Text>,
    /// The namespaces of these pods, by their labels.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose values are the topology domains.
    pub topology_key: Text,
}

/// A pod affinity term with its weight.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// What is added to the score where the term holds.
    pub weight: Option<i32>,
    /// The term that has this weight.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// One topology spread constraint; also the default constraints of the plugin's arguments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// By how many pods two domains may differ.
    pub max_skew: Option<i32>,
    /// The node label whose values are the topology domains.
    pub topology_key: Text,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Text,
    /// The pods that are counted, by their labels.
    pub label_selector: Option<LabelSelector>,
    /// Labels of the pod whose values are added to the selector.
    pub match_label_keys: List<Text>,
    /// The number of domains that must have nodes; with fewer, the smallest count is taken as 0.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`: whether the pod's node affinity limits the nodes that count.
    pub node_affinity_policy: Option<Text>,
    /// `Honor` or `Ignore`: whether taints limit the nodes that count.
    pub node_taints_policy: Option<Text>,
}
