//! Whether a new volume can be made for a claim where a node is: class, topology and capacity
//! (`docs/spec/plugins-storage.md` §2.3 and §3.7).
//!
//! What does not depend on the node is settled once per attempt and class, and what does not depend on the claim once per node and
//! class. A capacity is compiled once, and kept with its object.

use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::well_known::{NO_PROVISIONER, STORAGE_GROUP};
use kube_scheduler_framework::api::wire::{self, List, SelectorRequirement, Text};
use kube_scheduler_framework::api::{Json, LabelSelector, Labels, Object, Quantity};

use super::matching::compile_selector;
use super::reach::{Pins, Places};
use crate::volumes::{StorageClass, amount, csi_driver};

/// What a class can do.
#[derive(Clone, Debug)]
pub(super) enum Provisioning {
    /// It makes no volumes.
    Never,
    /// It makes volumes on nodes with these labels.
    Somewhere {
        /// Terms of which one must hold; `None` allows every node.
        topologies: Option<Vec<LabelSelector>>,
        /// Where there is room; `None` when the driver does not say.
        capacities: Option<Capacities>,
    },
}

/// The capacities of a class, smallest name first.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacities {
    all: Vec<Arc<Capacity>>,
    pins: Pins,
}

/// What a CSIStorageCapacity object says.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    class: Box<str>,
    /// The largest volume that fits; `None` if it promises nothing.
    limit: Option<i64>,
    /// Where; `None` if it is nowhere.
    nodes: Option<LabelSelector>,
    /// `capacity`, if the object states it.
    pub(super) total: Option<Quantity>,
}

/// What a node says to provisioning.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// The volume can be made; with the capacity that was counted on, if any was.
    Fits(Option<&'a Capacity>),
    /// The class makes no volumes.
    Never,
    /// The class makes no volumes there.
    Unavailable,
    /// There is no room for it.
    Full,
}

/// What a class can do on one node.
#[derive(Clone, Debug)]
pub(super) enum Room<'a> {
    /// Every volume has this place, whatever its size.
    Always(Place<'a>),
    /// It depends on the size of the volume.
    Limited {
        all: &'a [Arc<Capacity>],
        /// Which of them are still to be looked at.
        next: Places<'a>,
        /// Those that the node reaches, each with a greater limit than all before it: others are the first for no size.
        rising: Vec<(i64, &'a Capacity)>,
    },
}

impl Provisioning {
    pub(super) fn new(cluster: ClusterView<'_>, class: StorageClass<'_>) -> Self {
        let provisioner = class.provisioner();
        if provisioner.is_empty() || provisioner == NO_PROVISIONER {
            return Self::Never;
        }
        let topologies = class.allowed_topologies();
        let topologies = topologies.map(|terms| terms.iter().filter_map(compile_term).collect());
        let says = csi_driver(cluster, provisioner).is_some_and(|it| it.publishes_capacity());
        let capacities = says.then(|| Capacities::of_class(cluster, class.name()));
        Self::Somewhere { topologies, capacities }
    }

    /// What it can do on a node with these labels.
    pub(super) fn on(&self, labels: &Labels) -> Room<'_> {
        let Self::Somewhere { topologies, capacities } = self else {
            return Room::Always(Place::Never);
        };
        if topologies.as_ref().is_some_and(|terms| !terms.iter().any(|term| term.matches(labels))) {
            return Room::Always(Place::Unavailable);
        }
        match capacities {
            None => Room::Always(Place::Fits(None)),
            Some(Capacities { all, pins }) => {
                Room::Limited { all, next: pins.on(labels), rising: Vec::new() }
            }
        }
    }
}

impl<'a> Room<'a> {
    /// Where a volume of this size goes, on the node whose labels these are. The first capacity counts that is large enough.
    pub(super) fn place(&mut self, labels: &Labels, size: Option<i64>) -> Place<'a> {
        let (all, next, rising) = match self {
            Self::Always(place) => return *place,
            Self::Limited { all, next, rising } => (*all, next, rising),
        };
        let Some(size) = size else { return Place::Fits(None) };
        let n_too_small = rising.partition_point(|(limit, _)| *limit < size);
        if let Some((_, capacity)) = rising.get(n_too_small) {
            return Place::Fits(Some(capacity));
        }
        for capacity in next.filter_map(|at| all.get(at)) {
            let Some((limit, nodes)) = capacity.limit.zip(capacity.nodes.as_ref()) else {
                continue;
            };
            let is_rise = rising.last().is_none_or(|(largest, _)| *largest < limit);
            if is_rise && nodes.matches(labels) {
                rising.push((limit, capacity));
                if limit >= size {
                    return Place::Fits(Some(capacity));
                }
            }
        }
        Place::Full
    }
}

impl Capacities {
    fn of_class(cluster: ClusterView<'_>, class: &str) -> Self {
        let mut capacities = Self::default();
        for object in cluster.objects_of(STORAGE_GROUP).list("CSIStorageCapacity") {
            let capacity = object.read_as(|_| Capacity::new(object));
            if *capacity.class != *class || capacity.limit.is_none() {
                continue;
            }
            if let Some(nodes) = &capacity.nodes {
                capacities.pins.push(capacities.all.len(), nodes.requirements());
                capacities.all.push(capacity);
            }
        }
        capacities
    }
}

impl Capacity {
    fn new(object: &Object) -> Self {
        let topology = Some(&object.json["nodeTopology"]).filter(|json| !json.is_null());
        let nodes = topology.and_then(|topology| compile_selector(topology).ok());
        Self {
            class: object.json["storageClassName"].as_str().unwrap_or_default().into(),
            limit: limit_of(object).map(|limit| limit.value()),
            nodes,
            total: amount(&object.json["capacity"]),
        }
    }
}

/// The largest volume that a CSIStorageCapacity promises; `None` when it promises nothing.
pub(super) fn limit_of(capacity: &Object) -> Option<Quantity> {
    amount(&capacity.json["maximumVolumeSize"]).or_else(|| amount(&capacity.json["capacity"]))
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
