//! Which existing volume a claim gets on a node (`docs/spec/plugins-storage.md` §2.4), and what is written when it gets it
//! (§2.5).
//!
//! Everything that does not depend on the node is settled once per attempt: what is left are the volumes that the claim
//! could have, smallest first, and nodes only differ in which of them they reach. Claims that ask for the same but the size share
//! these volumes.
//!
//! Invariant: the answer is that of going through all volumes of the class in the order of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::well_known::{BOUND_BY_CONTROLLER, SELECTED_NODE};
use kube_scheduler_framework::api::wire;
use kube_scheduler_framework::api::{Json, LabelSelector, Labels, Object, Quantity};
use serde::Deserialize;
use serde_json::json;

use super::reach::{Pins, Places};
use super::volume_form::{VolumeForm, VolumeKind};
use crate::volumes::{PersistentVolume, VolumeClaim};

/// A volume that a claim could have.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) volume: Arc<Object>,
    form: Arc<VolumeForm>,
}

impl Candidate {
    pub(super) fn is_reached_by(&self, labels: &Labels) -> bool {
        self.form.affinity.matches(labels)
    }
}

/// The volumes of a class that claims of one namespace could have.
#[derive(Clone, Debug)]
pub(super) struct ClassVolumes<'a> {
    /// Those that are reserved for a claim of this name, each list by the name of the volume.
    reserved: BTreeMap<&'a str, Vec<Candidate>>,
    /// Those that anybody could have, by capacity, then name.
    free: Arc<[Candidate]>,
}

/// What a claim asks of the volumes of its class besides the size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demand<'a> {
    pub(super) class: &'a str,
    kind: VolumeKind,
    access_modes: BTreeSet<&'a str>,
    selector: Option<LabelSelector>,
}

/// The free volumes that meet a demand.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// All free volumes of the class.
    free: Arc<[Candidate]>,
    /// Which of them meet it, by what a node needs to reach them.
    pub(super) pins: Pins,
}

impl<'a> ClassVolumes<'a> {
    pub(super) fn new(cluster: ClusterView<'a>, class: &str, namespace: &str) -> Self {
        let mut reserved: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
        let mut free = Vec::new();
        for object in cluster.latest_volumes_of_class(class) {
            let volume = PersistentVolume::new(object);
            let form = VolumeForm::of(volume);
            let is_free = form.is_free;
            let candidate = || Candidate { volume: object.clone(), form };
            if is_free {
                free.push(candidate());
            } else if let Some(claim) = volume.claim_ref()
                && claim["namespace"].as_str().unwrap_or_default() == namespace
                && !volume.is_being_deleted()
            {
                let claim = claim["name"].as_str().unwrap_or_default();
                reserved.entry(claim).or_default().push(candidate());
            }
        }
        // They came by name, and equal capacities stay in that order.
        free.sort_by(|a, b| a.form.capacity.cmp(&b.form.capacity));
        Self { reserved, free: free.into() }
    }

    /// Those that are reserved for the claim: nothing else counts where there is one.
    pub(super) fn reserved_for(&self, claim: VolumeClaim<'_>, size: &Quantity) -> Vec<Candidate> {
        let of_name = self.reserved.get(&*claim.object().name).into_iter().flatten();
        let is_usable = |Candidate { volume, form }: &&Candidate| {
            is_bound_to(PersistentVolume::new(volume), claim)
                && form.capacity >= *size
                && form.kind == VolumeKind::of(*claim)
        };
        of_name.filter(is_usable).cloned().collect()
    }

    /// How many of the free ones are too small.
    pub(super) fn n_smaller(&self, size: &Quantity) -> usize {
        self.free.partition_point(|candidate| candidate.form.capacity < *size)
    }
}

impl<'a> Demand<'a> {
    /// The error is that of a selector that makes no sense.
    pub(super) fn of(claim: VolumeClaim<'a>) -> Result<Self, String> {
        let selector = claim.selector().map(compile_selector).transpose().map_err(|error| {
            let key = claim.object().key();
            format!("error creating internal label selector for claim: {key}: {error}")
        })?;
        let (kind, access_modes) = (VolumeKind::of(*claim), claim.access_modes().collect());
        Ok(Self { class: claim.class(), kind, access_modes, selector })
    }

    fn is_met_by(&self, Candidate { volume, form }: &Candidate) -> bool {
        self.kind == form.kind
            && self
                .access_modes
                .iter()
                .all(|mode| form.access_modes.iter().any(|has| **has == **mode))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
    }
}

impl Candidates {
    pub(super) fn new(volumes: &ClassVolumes<'_>, demand: &Demand<'_>) -> Self {
        let mut pins = Pins::default();
        for (at, candidate) in volumes.free.iter().enumerate() {
            if demand.is_met_by(candidate) {
                pins.push(at, candidate.form.affinity.requirements());
            }
        }
        Self { free: volumes.free.clone(), pins }
    }

    /// The next one that suits, of those that are left.
    pub(super) fn next(
        &self,
        left: &mut Places<'_>,
        suits: impl Fn(&Candidate) -> bool,
    ) -> Option<&Arc<Object>> {
        let mut left = left.filter_map(|at| self.free.get(at));
        left.find(|candidate| suits(candidate)).map(|candidate| &candidate.volume)
    }
}

/// The selector that is written.
///
/// # Errors
/// What is wrong with the selector.
pub(super) fn compile_selector(selector: &Json) -> Result<LabelSelector, String> {
    let wire = wire::LabelSelector::deserialize(selector).map_err(|error| error.to_string())?;
    LabelSelector::from_wire(&wire).map_err(|error| error.to_string())
}

/// Whether a volume is the claim's, or reserved for it by name.
pub(super) fn is_bound_to(volume: PersistentVolume<'_>, claim: VolumeClaim<'_>) -> bool {
    let object = claim.object();
    volume.claim_ref().is_some_and(|reference| {
        refers_to(reference, object, "") || refers_to(reference, object, &object.uid)
    })
}

/// Whether a reference names the claim, with this UID.
fn refers_to(reference: &Json, claim: &Object, uid: &str) -> bool {
    let is =
        |field: &str, expected: &str| reference[field].as_str().unwrap_or_default() == expected;
    is("name", &claim.name) && is("namespace", &claim.namespace) && is("uid", uid)
}

/// A volume as it will be once it is the claim's; `None` when it is so already.
pub(super) fn bound_to_claim(volume: &Object, claim: &Object) -> Option<Arc<Object>> {
    let view = PersistentVolume::new(volume);
    let reference = view.claim_ref();
    let names_claim = reference.is_some_and(|reference| refers_to(reference, claim, &claim.uid));
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
