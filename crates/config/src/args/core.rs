//! The parts of `core/v1` that plugin arguments contain, in their JSON shape.
//!
//! Invariants: plain data, printed as it was read; nothing is parsed or checked here. `to_wire` turns it into what
//! `api-types` compiles selectors from, which cannot be printed.

use std::collections::BTreeMap;

use kube_scheduler_api_types::wire;
use serde::{Deserialize, Serialize};

/// Which nodes a pod requires and which it prefers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinityJson {
    /// What a node must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required_during_scheduling_ignored_during_execution: Option<NodeSelectorJson>,
    /// What nodes should match, with weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) preferred_during_scheduling_ignored_during_execution:
        Vec<PreferredSchedulingTermJson>,
}

/// A selector of nodes: terms of which one must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelectorJson {
    /// The terms, one of which must match.
    pub node_selector_terms: Vec<NodeSelectorTermJson>,
}

/// One term of a node selector: requirements that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelectorTermJson {
    /// Requirements on the labels of the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirementJson>,
    /// Requirements on fields of the node, such as `metadata.name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirementJson>,
}

/// One requirement on a label or a field of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeSelectorRequirementJson {
    /// The label key, or the name of the field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// What to compare with; absent and empty differ only in error texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// A term, and the weight of nodes that match it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PreferredSchedulingTermJson {
    /// What a node that matches adds to the score, 1 to 100.
    pub weight: i32,
    /// The nodes that are preferred.
    pub preference: NodeSelectorTermJson,
}

/// How evenly pods spread over a topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraintJson {
    /// By how many pods two domains may differ.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// The pods that are counted, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelectorJson>,
    /// The number of domains that must have nodes; with fewer, the smallest count is taken as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`: whether the pod's node affinity limits the nodes that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`: whether taints limit the nodes that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Labels whose values must equal the incoming pod's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// A selector over labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelectorJson {
    /// Labels that must have these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirementJson>,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelectorRequirementJson {
    /// The label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values that `In` and `NotIn` compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

impl NodeAffinityJson {
    /// The same affinity as compilers of selectors take it.
    #[must_use]
    pub fn to_wire(&self) -> wire::NodeAffinity {
        let required = self.required_during_scheduling_ignored_during_execution.as_ref();
        let preferred = &self.preferred_during_scheduling_ignored_during_execution;
        wire::NodeAffinity {
            required: required.map(|selector| wire::NodeSelector {
                node_selector_terms: list(
                    &selector.node_selector_terms,
                    NodeSelectorTermJson::to_wire,
                ),
            }),
            preferred: (!preferred.is_empty()).then(|| {
                list(preferred, |term| wire::PreferredSchedulingTerm {
                    weight: Some(term.weight),
                    preference: term.preference.to_wire(),
                })
            }),
        }
    }
}

impl NodeSelectorTermJson {
    fn to_wire(&self) -> wire::NodeSelectorTerm {
        let requirement = |of: &NodeSelectorRequirementJson| {
            requirement(&of.key, &of.operator, of.values.as_deref())
        };
        wire::NodeSelectorTerm {
            match_expressions: list(&self.match_expressions, requirement),
            match_fields: list(&self.match_fields, requirement),
        }
    }
}

impl TopologySpreadConstraintJson {
    /// The same constraint as compilers of constraints take it.
    #[must_use]
    pub fn to_wire(&self) -> wire::TopologySpreadConstraint {
        wire::TopologySpreadConstraint {
            max_skew: Some(self.max_skew),
            topology_key: text(&self.topology_key),
            when_unsatisfiable: text(&self.when_unsatisfiable),
            label_selector: self.label_selector.as_ref().map(LabelSelectorJson::to_wire),
            match_label_keys: list(&self.match_label_keys, text),
            min_domains: self.min_domains,
            node_affinity_policy: self.node_affinity_policy.as_ref().map(text),
            node_taints_policy: self.node_taints_policy.as_ref().map(text),
        }
    }
}

impl LabelSelectorJson {
    fn to_wire(&self) -> wire::LabelSelector {
        wire::LabelSelector {
            match_labels: (self.match_labels.iter())
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            match_expressions: list(&self.match_expressions, |of| {
                requirement(&of.key, &of.operator, of.values.as_deref())
            }),
        }
    }
}

fn requirement(key: &str, operator: &str, values: Option<&[String]>) -> wire::SelectorRequirement {
    wire::SelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.map(|values| list(values, text)),
    }
}

fn list<T, W>(items: &[T], convert: impl FnMut(&T) -> W) -> wire::List<W> {
    wire::List(items.iter().map(convert).collect())
}

#[expect(clippy::ptr_arg, reason = "passed where a function over list elements is expected")]
fn text(text: &String) -> wire::Text {
    text.as_str().into()
}

#[cfg(test)]
mod tests;
