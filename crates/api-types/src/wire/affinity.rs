//! Selectors, affinities and spread constraints as written.

use std::sync::Arc;

use serde::Deserialize;

use super::de::{List, Text, or_default};
use crate::labels::Labels;

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Pairs that must be present.
    pub match_labels: Labels,
    /// Further requirements.
    pub match_expressions: List<SelectorRequirement>,
}

/// One requirement of a label selector or a node selector term.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    /// Label key or field path.
    pub key: Text,
    /// Operator.
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
    /// Affinity to nodes.
    pub node_affinity: Option<NodeAffinity>,
    /// Affinity to pods.
    pub pod_affinity: Option<PodAffinity>,
    /// Aversion to pods.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// `affinity.nodeAffinity`; also the added affinity of the NodeAffinity plugin's arguments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// Should hold.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Option<List<PreferredSchedulingTerm>>,
}

/// A node selector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Alternatives.
    pub node_selector_terms: List<NodeSelectorTerm>,
}

/// One alternative of a node selector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub match_expressions: List<SelectorRequirement>,
    /// Requirements on fields.
    pub match_fields: List<SelectorRequirement>,
}

/// A preferred node selector term.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    /// Weight.
    pub weight: Option<i32>,
    /// Term.
    #[serde(deserialize_with = "or_default")]
    pub preference: NodeSelectorTerm,
}

/// `affinity.podAffinity` or `affinity.podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: List<PodAffinityTerm>,
    /// Should hold.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: List<WeightedPodAffinityTerm>,
}

/// One pod affinity term. `matchLabelKeys` and `mismatchLabelKeys` are the API server's business: it has merged them
/// into the selector when the pod was created.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Which pods.
    pub label_selector: Option<LabelSelector>,
    /// In which namespaces, by name.
    pub namespaces: List<Text>,
    /// In which namespaces, by label.
    pub namespace_selector: Option<LabelSelector>,
    /// Node label that makes the domains.
    pub topology_key: Text,
}

/// A pod affinity term with its weight.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// Weight.
    pub weight: Option<i32>,
    /// Term.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// One topology spread constraint; also the default constraints of the plugin's arguments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// Permitted skew.
    pub max_skew: Option<i32>,
    /// Node label that makes the domains.
    pub topology_key: Text,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Text,
    /// Which pods count.
    pub label_selector: Option<LabelSelector>,
    /// Pod labels whose values join the selector.
    pub match_label_keys: List<Text>,
    /// Least number of domains.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    pub node_affinity_policy: Option<Text>,
    /// `Honor` or `Ignore`.
    pub node_taints_policy: Option<Text>,
}
