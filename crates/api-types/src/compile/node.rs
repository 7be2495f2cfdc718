//! Nodes.

use std::sync::Arc;

use crate::Timestamp;
use crate::features::feature_bits;
use crate::names;
use crate::node::{Node, NodeImage};
use crate::quantity::Quantity;
use crate::requests::add_amount;
use crate::resources::Resources;
use crate::taint::{Taint, TaintEffect};
use crate::wire;

impl Node {
    /// Compiles a node: keeps what decisions depend on.
    pub fn from_wire(node: &wire::Node) -> Self {
        let (metadata, status) = (&node.metadata, &node.status);
        let mut allocatable = Resources::default();
        for (name, amount) in status.allocatable.iter() {
            add_amount(&mut allocatable, name, amount);
        }
        Self {
            name: metadata.name.0.clone(),
            uid: metadata.uid.0.clone(),
            resource_version: metadata.resource_version.0.clone(),
            created: metadata.creation_timestamp.0,
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            unschedulable: node.spec.unschedulable.unwrap_or_default(),
            taints: node.spec.taints.iter().map(Taint::from_wire).collect(),
            taint_times: taint_times(&node.spec.taints),
            allocatable,
            allowed_pods: status.allocatable.get(names::PODS).map_or(0, Quantity::value),
            allocatable_quantities: status.allocatable.iter().cloned().collect(),
            images: status
                .images
                .iter()
                .map(|image| NodeImage {
                    names: image.names.iter().map(|name| name.0.clone()).collect(),
                    size_bytes: image.size_bytes.unwrap_or_default(),
                })
                .collect(),
            conditions: status
                .conditions
                .iter()
                .map(|condition| (condition.kind.0.clone(), condition.status.0.clone()))
                .collect(),
            declared_features: status.declared_features.iter().map(|name| name.0.clone()).collect(),
            feature_bits: feature_bits(
                &status.declared_features.iter().map(|name| &**name).collect::<Vec<_>>(),
            ),
            source: None,
        }
    }
}

/// When the taints were added; empty if none says so.
fn taint_times(taints: &[wire::Taint]) -> Arc<[Option<Timestamp>]> {
    if taints.iter().all(|taint| taint.time_added.0.is_none()) {
        return Arc::default();
    }
    taints.iter().map(|taint| taint.time_added.0).collect()
}

impl Taint {
    /// Makes a taint of its JSON form.
    pub fn from_wire(taint: &wire::Taint) -> Self {
        Self {
            key: taint.key.0.clone(),
            value: taint.value.0.clone(),
            effect: TaintEffect::from(&taint.effect.0),
        }
    }
}
