//! Changes of where a pod's volumes are, and of where its storage classes make them.
//!
//! Ephemeral volumes are left alone, and so are those that already are where a node is.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::{BETA_REGION, BETA_ZONE, REGION, STORAGE_GROUP, ZONE};
use kube_scheduler_api_types::{Json, Labels, Node, NodeSelector, Object, Pod, VolumeSource, wire};
use kube_scheduler_cache::storage_class_of;
use kube_scheduler_framework::ObjectStore;
use serde::Deserialize;
use serde_json::{Value, json};

use super::candidates::Candidate;
use crate::rehearsal::edited;

/// The labels of a volume that say where it is.
const PLACES: [&str; 4] = [ZONE, REGION, BETA_ZONE, BETA_REGION];
/// Between the values of such a label.
const DELIMITER: &str = "__";

/// Labels of nodes with their values.
type Place = Vec<(Arc<str>, Arc<str>)>;

/// One change of a volume or a storage class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VolumeChange {
    Move { claim: Arc<str>, volume: Arc<str>, to: Place },
    Allow { class: Arc<str>, place: Place },
}

impl VolumeChange {
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Move { .. } => "MoveVolume",
            Self::Allow { .. } => "AllowTopology",
        }
    }

    pub(super) const fn size(&self) -> u32 {
        match self {
            Self::Move { .. } => 70,
            Self::Allow { .. } => 45,
        }
    }

    /// The change without the places that it is about.
    pub(super) fn kind(&self) -> Self {
        match self {
            Self::Move { claim, volume, .. } => {
                Self::Move { claim: claim.clone(), volume: volume.clone(), to: Vec::new() }
            }
            Self::Allow { class, .. } => Self::Allow { class: class.clone(), place: Vec::new() },
        }
    }
}

impl fmt::Display for VolumeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self {
            Self::Move { claim, to, .. } => {
                write!(f, "the volume of claim {claim} at ")?;
                to
            }
            Self::Allow { class, place } => {
                write!(f, "let storage class {class} make volumes at ")?;
                place
            }
        };
        for (at, (key, value)) in place.iter().enumerate() {
            let before = if at == 0 { "" } else { "," };
            write!(f, "{before}{key}={value}")?;
        }
        Ok(())
    }
}

/// A volume that is there.
struct Volume {
    claim: Arc<str>,
    name: Arc<str>,
    affinity: Option<NodeSelector>,
    /// Labels that say where it is.
    labels: Place,
    /// The keys of labels that its nodes are selected by.
    keys: Vec<Arc<str>>,
}

impl Volume {
    fn new(claim: &Object, volume: &Object) -> Self {
        let required = &volume.json["spec"]["nodeAffinity"]["required"];
        let affinity =
            wire::NodeSelector::deserialize(required).ok().filter(|_| !required.is_null());
        let labels = volume.labels.iter_shared().filter(|(key, _)| PLACES.contains(&&***key));
        let labels: Place =
            labels.map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        let of_affinity = keys(&required["nodeSelectorTerms"], "matchExpressions");
        let mut keys: Vec<Arc<str>> = labels.iter().map(|(key, _)| key.clone()).collect();
        keys.extend(of_affinity);
        keys.sort_unstable();
        keys.dedup();
        Self {
            claim: claim.key().into(),
            name: volume.name.clone(),
            affinity: affinity.map(|affinity| NodeSelector::from_wire(&affinity)),
            labels,
            keys,
        }
    }

    fn is_at(&self, node: &Labels) -> bool {
        let is_selected = |affinity: &NodeSelector| affinity.matches(node, "");
        self.affinity.as_ref().is_none_or(is_selected)
            && self.labels.iter().all(|(key, values)| {
                node.get(key).is_some_and(|at| values.split(DELIMITER).any(|one| one.trim() == at))
            })
    }
}

/// The topologies of a class that makes volumes when they are needed.
struct Class {
    name: Arc<str>,
    terms: Json,
    keys: Vec<Arc<str>>,
}

impl Class {
    fn allows(&self, node: &Labels) -> bool {
        let allows = |expression: &Json| {
            let at = expression["key"].as_str().and_then(|key| node.get(key));
            at.is_some_and(|at| list(&expression["values"]).any(|value| value.as_str() == Some(at)))
        };
        list(&self.terms).any(|term| list(&term["matchLabelExpressions"]).all(allows))
    }
}

/// The volumes of a pod, and the classes of those that are not made yet.
pub(super) struct PodVolumes {
    volumes: Vec<Volume>,
    classes: Vec<Class>,
}

impl PodVolumes {
    pub(super) fn of(objects: &ObjectStore, pod: &Pod) -> Self {
        let (mut volumes, mut classes): (Vec<Volume>, Vec<Class>) = (Vec::new(), Vec::new());
        for volume in pod.volumes.iter() {
            let VolumeSource::Claim { claim, .. } = &volume.source else { continue };
            let claim = objects.latest("", "PersistentVolumeClaim", &pod.namespace, claim);
            let Some(claim) = claim else { continue };
            match claim.json["spec"]["volumeName"].as_str().filter(|name| !name.is_empty()) {
                Some(name) => {
                    let volume = objects.latest("", "PersistentVolume", "", name);
                    volumes.extend(volume.map(|volume| Volume::new(claim, volume)));
                }
                None => {
                    let name = storage_class_of(claim);
                    let class = objects.latest(STORAGE_GROUP, "StorageClass", "", name);
                    let Some(class) = class else { continue };
                    let terms = &class.json["allowedTopologies"];
                    let is_new = classes.iter().all(|known| *known.name != *name);
                    if list(terms).next().is_some() && is_new {
                        let keys = keys(terms, "matchLabelExpressions");
                        classes.push(Class { name: name.into(), terms: terms.clone(), keys });
                    }
                }
            }
        }
        Self { volumes, classes }
    }

    /// What brings the volumes to a node: those that are elsewhere moved there, those that are not made yet allowed there, or both.
    pub(super) fn ways(&self, node: &Node) -> Vec<Vec<Candidate>> {
        let labels = &node.labels;
        let elsewhere = self.volumes.iter().filter(|volume| !volume.is_at(labels));
        let moves = elsewhere.map(|volume| {
            let (claim, volume, keys) = (volume.claim.clone(), volume.name.clone(), &volume.keys);
            place(labels, keys).map(|to| VolumeChange::Move { claim, volume, to })
        });
        let moves: Option<Vec<VolumeChange>> = moves.collect();
        let barred = self.classes.iter().filter(|class| !class.allows(labels));
        let allowed = barred.map(|class| {
            let place = place(labels, &class.keys)?;
            Some(VolumeChange::Allow { class: class.name.clone(), place })
        });
        let allowed: Option<Vec<VolumeChange>> = allowed.collect();
        let both =
            moves.iter().zip(&allowed).map(|(moves, allowed)| [&moves[..], allowed].concat());
        let both: Vec<_> = both.collect();
        let ways = moves.into_iter().chain(allowed).chain(both).filter(|way| !way.is_empty());
        ways.map(|way| {
            let mut way: Vec<Candidate> = way.into_iter().map(Candidate::OfVolumes).collect();
            way.sort();
            way
        })
        .collect()
    }
}

/// A node's labels with some keys; `None` if it lacks one, or if there is none to go by.
fn place(labels: &Labels, keys: &[Arc<str>]) -> Option<Place> {
    let place: Option<Place> =
        keys.iter().map(|key| Some((key.clone(), Arc::from(labels.get(key)?)))).collect();
    place.filter(|place| !place.is_empty())
}

/// The keys of the expressions of some terms, each once.
fn keys(terms: &Json, expressions: &str) -> Vec<Arc<str>> {
    let expressions = list(terms).flat_map(|term| list(&term[expressions]));
    let keys = expressions.filter_map(|expression| expression["key"].as_str());
    let mut keys: Vec<Arc<str>> = keys.map(Arc::from).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The volume or the class after the change; `None` if it is not there any more.
pub(super) fn of_volumes(change: &VolumeChange, objects: &ObjectStore) -> Option<Object> {
    let expressions = |place: &Place, operator: Option<&str>| -> Value {
        let expressions = place.iter().map(|(key, value)| {
            let mut expression = json!({"key": &**key, "values": [&**value]});
            if let Some(operator) = operator {
                expression["operator"] = operator.into();
            }
            expression
        });
        expressions.collect()
    };
    match change {
        VolumeChange::Move { volume, to, .. } => {
            let object = objects.latest("", "PersistentVolume", "", volume)?;
            edited(object, |json| {
                let affinity = &mut json["spec"]["nodeAffinity"];
                if !affinity.is_null() {
                    let term = json!({"matchExpressions": expressions(to, Some("In"))});
                    affinity["required"] = json!({"nodeSelectorTerms": [term]});
                }
                for (key, value) in to {
                    if let Some(label) = json["metadata"]["labels"].get_mut(&**key) {
                        *label = (**value).into();
                    }
                }
            })
        }
        VolumeChange::Allow { class, place } => {
            let object = objects.latest(STORAGE_GROUP, "StorageClass", "", class)?;
            edited(object, |json| {
                let term = json!({"matchLabelExpressions": expressions(place, None)});
                if let Some(terms) = json["allowedTopologies"].as_array_mut() {
                    terms.push(term);
                }
            })
        }
    }
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}
