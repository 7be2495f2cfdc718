//! Whether a new volume can be made for a claim where a node is: class, topology and capacity
//! (`docs/spec/plugins-storage.md` §2.3 and §3.7).
//!
//! All that does not depend on the node is settled once per attempt.

use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::wire::{self, List, SelectorRequirement, Text};
use kube_scheduler_framework::api::{Json, LabelSelector, Labels, Object, Quantity};
use serde::Deserialize;

use crate::volumes::{NO_PROVISIONER, VolumeClaim, csi_driver, storage_class};

/// What the class of a claim can do.
#[derive(Clone, Debug)]
pub(super) enum Provisioning {
    /// It cannot even be asked.
    Broken(String),
    /// It makes no volumes.
    Never,
    /// It makes volumes on nodes with these labels.
    Somewhere {
        /// Terms of which one must hold; `None` allows every node.
        topologies: Option<Vec<LabelSelector>>,
        /// Where there is room, smallest name first; `None` when the driver does not say.
        capacities: Option<Vec<Capacity>>,
    },
}

/// Where a volume of the wanted size fits.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    nodes: LabelSelector,
    /// `capacity`, if the object states it.
    pub(super) total: Option<Quantity>,
}

/// What a node says to provisioning.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// The volume can be made; with the capacity that was counted on, if any was.
    Fits(Option<&'a Capacity>),
    /// The class makes no volumes there.
    Unavailable,
    /// There is no room for it.
    Full,
}

impl Provisioning {
    pub(super) fn new(cluster: ClusterView<'_>, claim: VolumeClaim<'_>) -> Self {
        let name = claim.class();
        if name.is_empty() {
            return Self::Broken(format!("no class for claim \"{}\"", claim.object().key()));
        }
        let Ok(class) = storage_class(cluster, name) else {
            return Self::Broken(format!("failed to find storage class \"{name}\""));
        };
        let provisioner = class.provisioner();
        if provisioner.is_empty() || provisioner == NO_PROVISIONER {
            return Self::Never;
        }
        let topologies = class.allowed_topologies();
        let topologies = topologies.map(|terms| terms.iter().filter_map(compile_term).collect());
        let capacities = claim.requested_storage().filter(|_| {
            csi_driver(cluster, provisioner).is_some_and(|driver| driver.publishes_capacity())
        });
        let capacities = capacities.map(|request| {
            let all = cluster.objects_of("storage.k8s.io").list("CSIStorageCapacity");
            all.filter_map(|object| Capacity::new(object, class.name(), request.value())).collect()
        });
        Self::Somewhere { topologies, capacities }
    }

    /// Whether a volume can be made on a node with these labels.
    pub(super) fn on(&self, labels: &Labels) -> Result<Place<'_>, String> {
        let (topologies, capacities) = match self {
            Self::Broken(text) => return Err(text.clone()),
            Self::Never => return Ok(Place::Unavailable),
            Self::Somewhere { topologies, capacities } => (topologies, capacities),
        };
        if topologies.as_ref().is_some_and(|terms| !terms.iter().any(|term| term.matches(labels))) {
            return Ok(Place::Unavailable);
        }
        let Some(capacities) = capacities else { return Ok(Place::Fits(None)) };
        let found = capacities.iter().find(|capacity| capacity.nodes.matches(labels));
        Ok(found.map_or(Place::Full, |capacity| Place::Fits(Some(capacity))))
    }
}

impl Capacity {
    /// The capacity in a CSIStorageCapacity object; `None` when it is another class's, too small, or nowhere.
    fn new(object: &Arc<Object>, class: &str, request: i64) -> Option<Self> {
        if object.json["storageClassName"].as_str().unwrap_or_default() != class {
            return None;
        }
        if limit_of(object).is_none_or(|limit| limit.value() < request) {
            return None;
        }
        let topology = Some(&object.json["nodeTopology"]).filter(|json| !json.is_null())?;
        let topology = wire::LabelSelector::deserialize(topology).ok()?;
        let nodes = LabelSelector::from_wire(&topology).ok()?;
        Some(Self { nodes, total: amount(&object.json["capacity"]) })
    }
}

/// The largest volume that a CSIStorageCapacity promises; `None` when it promises nothing.
pub(super) fn limit_of(capacity: &Object) -> Option<Quantity> {
    amount(&capacity.json["maximumVolumeSize"]).or_else(|| amount(&capacity.json["capacity"]))
}

fn amount(json: &Json) -> Option<Quantity> {
    if json.is_null() { None } else { Quantity::from_json(&json.into()).ok() }
}

/// One term of `allowedTopologies`; `None` when it can never match.
fn compile_term(term: &Json) -> Option<LabelSelector> {
    let expressions = term["matchLabelExpressions"].as_array().filter(|list| !list.is_empty())?;
    let requirement = |expression: &Json| SelectorRequirement {
        key: Text::from(expression["key"].as_str().unwrap_or_default()),
        operator: Text::from("In"),
        values: Some(List(
            expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| Text::from(value.as_str().unwrap_or_default()))
                .collect(),
        )),
    };
    let selector = wire::LabelSelector {
        match_labels: Labels::default(),
        match_expressions: List(expressions.iter().map(requirement).collect()),
    };
    LabelSelector::from_wire(&selector).ok()
}
