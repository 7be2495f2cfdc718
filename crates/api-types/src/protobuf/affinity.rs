//! Selectors, affinities and spread constraints.

use super::fault::FieldContext;
use super::fields::{FieldResult, Message, Pairs, fields};
use crate::wire::{
    Affinity, LabelSelector, List, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PreferredSchedulingTerm, SelectorRequirement, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

impl Message for LabelSelector {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let mut labels = Pairs::default();
        fields(bytes, |number, value| match number {
            1 => labels.take("matchLabels", value),
            2 => value.push("matchExpressions", &mut self.match_expressions),
            _ => Ok(()),
        })?;
        labels.add_to(&mut self.match_labels);
        Ok(())
    }
}

/// The requirements of label selectors and of node selectors have the same fields.
impl Message for SelectorRequirement {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.key = value.text().at("key")?,
                2 => self.operator = value.text().at("operator")?,
                3 => value.push_text("values", self.values.get_or_insert_with(List::default))?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for Affinity {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => value.merge_some(&mut self.node_affinity).at("nodeAffinity"),
            2 => value.merge_some(&mut self.pod_affinity).at("podAffinity"),
            3 => value.merge_some(&mut self.pod_anti_affinity).at("podAntiAffinity"),
            _ => Ok(()),
        })
    }
}

impl Message for NodeAffinity {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => value.merge_some(&mut self.required).at(REQUIRED),
            2 => value.push(PREFERRED, self.preferred.get_or_insert_with(List::default)),
            _ => Ok(()),
        })
    }
}

impl Message for NodeSelector {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => value.push("nodeSelectorTerms", &mut self.node_selector_terms),
            _ => Ok(()),
        })
    }
}

impl Message for NodeSelectorTerm {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => value.push("matchExpressions", &mut self.match_expressions),
            2 => value.push("matchFields", &mut self.match_fields),
            _ => Ok(()),
        })
    }
}

impl Message for PreferredSchedulingTerm {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.weight = Some(value.int32().at("weight")?),
                2 => value.merge(&mut self.preference).at("preference")?,
                _ => {}
            }
            Ok(())
        })
    }
}

/// Affinity and anti-affinity have the same fields.
impl Message for PodAffinity {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => value.push(REQUIRED, &mut self.required),
            2 => value.push(PREFERRED, &mut self.preferred),
            _ => Ok(()),
        })
    }
}

impl Message for PodAffinityTerm {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => value.merge_some(&mut self.label_selector).at("labelSelector")?,
                2 => value.push_text("namespaces", &mut self.namespaces)?,
                3 => self.topology_key = value.text().at("topologyKey")?,
                4 => value.merge_some(&mut self.namespace_selector).at("namespaceSelector")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for WeightedPodAffinityTerm {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.weight = Some(value.int32().at("weight")?),
                2 => value.merge(&mut self.pod_affinity_term).at("podAffinityTerm")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for TopologySpreadConstraint {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.max_skew = Some(value.int32().at("maxSkew")?),
                2 => self.topology_key = value.text().at("topologyKey")?,
                3 => self.when_unsatisfiable = value.text().at("whenUnsatisfiable")?,
                4 => value.merge_some(&mut self.label_selector).at("labelSelector")?,
                5 => self.min_domains = Some(value.int32().at("minDomains")?),
                6 => self.node_affinity_policy = Some(value.text().at("nodeAffinityPolicy")?),
                7 => self.node_taints_policy = Some(value.text().at("nodeTaintsPolicy")?),
                8 => value.push_text("matchLabelKeys", &mut self.match_label_keys)?,
                _ => {}
            }
            Ok(())
        })
    }
}
