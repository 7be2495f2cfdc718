//! Which existing volume a claim gets on a node (`docs/spec/plugins-storage.md` §2.4), and what is written when it gets it
//! (§2.5).
//!
//! Everything that does not depend on the node is settled once per attempt: what is left are the volumes that the claim
//! could have, smallest first, and nodes only differ in which of them they reach.
//!
//! Invariant: the answer is that of going through all volumes of the class in the order of their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::wire;
use kube_scheduler_framework::api::{Json, LabelSelector, Labels, Object, Quantity};
use serde::Deserialize;
use serde_json::json;

use super::affinity::VolumeAffinity;
use crate::volumes::{BOUND_BY_CONTROLLER, PersistentVolume, SELECTED_NODE, VolumeClaim};

#[derive(Clone, Debug)]
struct Candidate {
    volume: Arc<Object>,
    affinity: VolumeAffinity,
}

/// The volumes that a claim could have.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// Those that are reserved for the claim, by name: nothing else counts where there is one.
    reserved: Vec<Candidate>,
    /// The others, by capacity, then name.
    free: Vec<Candidate>,
    /// Ranks in `free` of the volumes that only nodes with one value of one label reach, by label and value.
    pinned: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<usize>>>,
    /// All other ranks in `free`.
    loose: Vec<usize>,
}

impl Candidates {
    /// Looks through the volumes of the claim's class. The error is that of a selector that makes no sense.
    pub(super) fn new(cluster: ClusterView<'_>, claim: VolumeClaim<'_>) -> Result<Self, String> {
        let request = claim.requested_storage().unwrap_or_default();
        let selector = claim.selector().map(compile_selector).transpose().map_err(|error| {
            let key = claim.object().key();
            format!("error creating internal label selector for claim: {key}: {error}")
        })?;
        let modes: Vec<&str> = claim.access_modes().collect();
        let mut reserved = Vec::new();
        let mut free: Vec<(Quantity, Candidate)> = Vec::new();
        for object in cluster.latest_volumes_of_class(claim.class()) {
            let volume = PersistentVolume::new(object);
            let is_reserved = is_bound_to(volume, claim);
            let capacity = volume.capacity().unwrap_or_default();
            if volume.claim_ref().is_some() && !is_reserved
                || capacity < request
                || volume.volume_mode() != claim.volume_mode()
                || volume.attributes_class() != claim.attributes_class()
                || volume.is_being_deleted()
            {
                continue;
            }
            let candidate =
                || Candidate { volume: object.clone(), affinity: VolumeAffinity::new(volume) };
            if is_reserved {
                reserved.push(candidate());
            } else if volume.phase() == "Available"
                && selector.as_ref().is_none_or(|selector| selector.matches(&object.labels))
                && modes.iter().all(|mode| volume.access_modes().any(|has| has == *mode))
            {
                free.push((capacity, candidate()));
            }
        }
        // They came by name, and equal capacities stay in that order.
        free.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut candidates = Self { reserved, ..Self::default() };
        for (rank, (_, candidate)) in free.into_iter().enumerate() {
            match candidate.affinity.pin().and_then(|pin| Some((&pin.key, pin.values.first()?))) {
                Some((key, value)) => {
                    let by_value = candidates.pinned.entry(key.clone()).or_default();
                    by_value.entry(value.clone()).or_default().push(rank);
                }
                None => candidates.loose.push(rank),
            }
            candidates.free.push(candidate);
        }
        Ok(candidates)
    }

    /// The volume for a node with these labels, leaving out those in `taken`.
    pub(super) fn choose(&self, labels: &Labels, taken: &[Arc<Object>]) -> Option<&Arc<Object>> {
        let is_open =
            |candidate: &&Candidate| !taken.iter().any(|other| other.name == candidate.volume.name);
        if let Some(first) = self.reserved.iter().find(is_open) {
            return first.affinity.matches(labels).then_some(&first.volume);
        }
        let first_of = |ranks: &[usize]| {
            ranks.iter().copied().find(|rank| {
                self.free.get(*rank).is_some_and(|candidate| {
                    is_open(&candidate) && candidate.affinity.matches(labels)
                })
            })
        };
        let pinned = self
            .pinned
            .iter()
            .filter_map(|(key, by_value)| first_of(by_value.get(labels.get(key)?)?));
        let rank = pinned.chain(first_of(&self.loose)).min()?;
        self.free.get(rank).map(|candidate| &candidate.volume)
    }
}

fn compile_selector(selector: &Json) -> Result<LabelSelector, String> {
    let wire = wire::LabelSelector::deserialize(selector).map_err(|error| error.to_string())?;
    LabelSelector::from_wire(&wire).map_err(|error| error.to_string())
}

/// Whether a volume is the claim's, or reserved for it by name.
fn is_bound_to(volume: PersistentVolume<'_>, claim: VolumeClaim<'_>) -> bool {
    let Some(reference) = volume.claim_ref() else { return false };
    let is =
        |field: &str, expected: &str| reference[field].as_str().unwrap_or_default() == expected;
    let object = claim.object();
    is("name", &object.name)
        && is("namespace", &object.namespace)
        && (is("uid", "") || is("uid", &object.uid))
}

/// A volume as it will be once it is the claim's; `None` when it is so already.
pub(super) fn bound_to_claim(volume: &Object, claim: &Object) -> Option<Arc<Object>> {
    let view = PersistentVolume::new(volume);
    let names_claim = view.claim_ref().is_some_and(|reference| {
        let is =
            |field: &str, expected: &str| reference[field].as_str().unwrap_or_default() == expected;
        is("name", &claim.name) && is("namespace", &claim.namespace) && is("uid", &claim.uid)
    });
    let needs_mark = !is_bound_to(view, VolumeClaim::new(claim))
        && view.annotation(BOUND_BY_CONTROLLER).is_none();
    if names_claim && !needs_mark {
        return None;
    }
    let reference = json!({
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": &*claim.namespace,
        "name": &*claim.name,
        "uid": &*claim.uid,
        "resourceVersion": &*claim.resource_version,
    });
    let mut volume = volume.clone();
    if !names_claim {
        volume.set_field(&["spec", "claimRef"], reference.into());
    }
    if needs_mark {
        volume.set_field(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes".into());
    }
    Some(Arc::new(volume))
}

/// A claim with a node to provision its volume for.
pub(super) fn with_selected_node(claim: &Object, node: &str) -> Arc<Object> {
    let mut claim = claim.clone();
    claim.set_field(&["metadata", "annotations", SELECTED_NODE], node.into());
    Arc::new(claim)
}

#[cfg(test)]
mod tests;
