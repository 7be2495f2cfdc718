//! Which volume a claim gets, and what both say once it has it.

use std::collections::BTreeMap;

use kube_scheduler_api_types::Quantity;
use kube_scheduler_api_types::well_known::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE};
use serde_json::{Map, Value, json};

use super::claims::{claim_of, claim_value, class_of};
use super::provisioner;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::kinds::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use crate::object::{at, child_mut, labels_of, list_at, map_mut, meta_mut, text_at};
use crate::selectors::label_selector_in;
use crate::store::State;

/// What a claim still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It is bound, gone, or waits for a scheduler.
    Nothing,
    /// A volume that no provisioner here makes: one has to be created.
    Volume,
    /// A volume that a provisioner makes.
    Provisioning,
}

/// Binds a claim if it can be bound, and returns what it still needs.
pub(super) fn needs_of_claim(
    state: &mut State,
    key: &str,
    volumes: &BTreeMap<String, Value>,
) -> Need {
    let Some(claim) = claim_value(state, key) else { return Need::Nothing };
    let named = text_at(&claim, &["spec", "volumeName"]);
    if !named.is_empty() {
        return keep_or_complete(state, key, &claim, named);
    }
    let class = state.get(STORAGE_CLASSES, "", class_of(&claim)).map(|class| class.value());
    let is_late = class
        .as_ref()
        .is_some_and(|class| text_at(class, &["volumeBindingMode"]) == "WaitForFirstConsumer");
    let candidates = volumes.iter().filter(|(_, volume)| {
        if claim_of(volume).is_some_and(|owner| owner == key) {
            is_claimed_by(volume, &claim) && fits(volume, &claim)
        } else {
            !is_late && is_free(volume) && is_wanted(volume, &claim) && fits(volume, &claim)
        }
    });
    // A volume that names the claim comes before all others, then the smallest.
    let best = candidates
        .min_by_key(|(_, volume)| (claim_of(volume).is_none(), capacity(volume)))
        .map(|(name, _)| name.clone());
    if let Some(name) = best {
        return bind(state, &name, key, &claim);
    }
    let is_placed = at(&claim, &["metadata", "annotations", SELECTED_NODE]).is_some();
    match class {
        Some(_) if is_late && !is_placed => Need::Nothing,
        Some(class) if provisioner::can_provision(&class) => Need::Provisioning,
        _ => Need::Volume,
    }
}

/// Handles a claim that names its volume, whether its author or an earlier binding has written the name.
fn keep_or_complete(state: &mut State, key: &str, claim: &Value, name: &str) -> Need {
    let is_complete = at(claim, &["metadata", "annotations", BIND_COMPLETED]).is_some();
    match state.get(PERSISTENT_VOLUMES, "", name).map(|volume| volume.value()) {
        Some(volume) if claim_of(&volume).is_none() || is_claimed_by(&volume, claim) => {
            bind(state, name, key, claim)
        }
        None if is_complete => {
            let mut lost = claim.clone();
            child_mut(&mut lost, "status").insert("phase".into(), "Lost".into());
            put(state, PERSISTENT_VOLUME_CLAIMS, claim, lost);
            Need::Nothing
        }
        _ => Need::Volume,
    }
}

/// Writes both sides of a binding, as far as they are not written yet.
fn bind(state: &mut State, name: &str, key: &str, claim: &Value) -> Need {
    let Some(volume) = state.get(PERSISTENT_VOLUMES, "", name).map(|volume| volume.value()) else {
        return Need::Volume;
    };
    let is_named = claim_of(&volume).is_some();
    if is_named && (claim_of(&volume).as_deref() != Some(key) || !is_claimed_by(&volume, claim)) {
        // The volume has been bound to another claim in the meantime; its watch event will arrive here.
        return Need::Volume;
    }
    let mut bound = volume.clone();
    if text_at(&volume, &["spec", "claimRef", "uid"]).is_empty() {
        let meta = |field: &str| text_at(claim, &["metadata", field]);
        child_mut(&mut bound, "spec").insert(
            "claimRef".into(),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta("namespace"),
                "name": meta("name"), "uid": meta("uid"), "resourceVersion": meta("resourceVersion"),
            }),
        );
    }
    if !is_named {
        annotations(&mut bound).insert(BOUND_BY_CONTROLLER.into(), "yes".into());
    }
    child_mut(&mut bound, "status").insert("phase".into(), "Bound".into());
    put(state, PERSISTENT_VOLUMES, &volume, bound);

    let mut owner = claim.clone();
    if text_at(claim, &["spec", "volumeName"]).is_empty() {
        child_mut(&mut owner, "spec").insert("volumeName".into(), name.into());
        annotations(&mut owner).insert(BOUND_BY_CONTROLLER.into(), "yes".into());
    }
    annotations(&mut owner).entry(BIND_COMPLETED).or_insert("yes".into());
    let status = child_mut(&mut owner, "status");
    status.insert("phase".into(), "Bound".into());
    for field in ["accessModes", "capacity"] {
        if let Some(value) = at(&volume, &["spec", field]) {
            status.insert(field.into(), value.clone());
        }
    }
    put(state, PERSISTENT_VOLUME_CLAIMS, claim, owner);
    Need::Nothing
}

/// Brings the phase of a volume up to date, and releases it from a claim that is gone or has another volume.
pub(super) fn settle_volume(state: &mut State, name: &str) {
    let Some(object) = state.get(PERSISTENT_VOLUMES, "", name) else { return };
    if object.is_terminating() {
        return;
    }
    let volume = object.value();
    let mut settled = volume.clone();
    let uid = text_at(&volume, &["spec", "claimRef", "uid"]);
    let phase = match claim_of(&volume) {
        Some(key) if !uid.is_empty() => {
            let owner = key
                .split_once('/')
                .and_then(|(namespace, name)| state.get(PERSISTENT_VOLUME_CLAIMS, namespace, name))
                .filter(|owner| owner.uid() == uid)
                .map(|owner| owner.value());
            match owner {
                None if text_at(&volume, &["spec", "persistentVolumeReclaimPolicy"])
                    == "Delete" =>
                {
                    // Rejected only when it is gone.
                    let _ =
                        delete_in(state, PERSISTENT_VOLUMES, "", name, &DeleteOptions::default());
                    return;
                }
                None => "Released",
                Some(owner) => match text_at(&owner, &["spec", "volumeName"]) {
                    own if own == name => "Bound",
                    "" => "Available",
                    _ => {
                        unbind(&mut settled);
                        "Available"
                    }
                },
            }
        }
        _ => "Available",
    };
    child_mut(&mut settled, "status").insert("phase".into(), phase.into());
    put(state, PERSISTENT_VOLUMES, &volume, settled);
}

/// Removes a claim reference that a controller has written; one by the volume's author stays, without its uid.
fn unbind(volume: &mut Value) {
    let by_software = annotations(volume).remove(BOUND_BY_CONTROLLER).is_some();
    let spec = child_mut(volume, "spec");
    if by_software {
        spec.remove("claimRef");
    } else if let Some(reference) = spec.get_mut("claimRef") {
        map_mut(reference).remove("uid");
    }
}

fn put(state: &mut State, kind: crate::kinds::KindId, before: &Value, after: Value) {
    if *before != after {
        state.put(kind, after);
    }
}

fn annotations(value: &mut Value) -> &mut Map<String, Value> {
    map_mut(meta_mut(value).entry("annotations").or_insert(Value::Null))
}

/// Whether the volume names this claim, with its uid or with none.
fn is_claimed_by(volume: &Value, claim: &Value) -> bool {
    let meta = |field: &str| text_at(claim, &["metadata", field]);
    let named = |field: &str| text_at(volume, &["spec", "claimRef", field]);
    named("name") == meta("name")
        && named("namespace") == meta("namespace")
        && (named("uid").is_empty() || named("uid") == meta("uid"))
}

fn is_free(volume: &Value) -> bool {
    claim_of(volume).is_none()
        && text_at(volume, &["status", "phase"]) == "Available"
        && at(volume, &["metadata", "deletionTimestamp"]).is_none()
}

/// Whether class, access modes and labels are what the claim asks for.
fn is_wanted(volume: &Value, claim: &Value) -> bool {
    let modes = list_at(volume, &["spec", "accessModes"]);
    class_of(volume) == class_of(claim)
        && list_at(claim, &["spec", "accessModes"]).iter().all(|mode| modes.contains(mode))
        && at(claim, &["spec", "selector"]).is_none_or(|selector| {
            label_selector_in(selector).is_some_and(|selector| selector.matches(&labels_of(volume)))
        })
}

/// Whether the volume is large enough and has the right mode.
fn fits(volume: &Value, claim: &Value) -> bool {
    let mode = |value: &Value| text_at(value, &["spec", "volumeMode"]) == "Block";
    let wanted = text_at(claim, &["spec", "resources", "requests", "storage"]);
    capacity(volume) >= Quantity::parse(wanted).ok() && mode(volume) == mode(claim)
}

fn capacity(volume: &Value) -> Option<Quantity> {
    Quantity::parse(text_at(volume, &["spec", "capacity", "storage"])).ok()
}
