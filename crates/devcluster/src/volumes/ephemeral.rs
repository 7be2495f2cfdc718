//! Claims of generic ephemeral volumes: created for a pod, owned by it, and deleted with it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::history::ChangeType;
use crate::kinds::{PERSISTENT_VOLUME_CLAIMS, PODS};
use crate::object::{StoredObject, at, list_at, meta_mut, text_at};
use crate::store::{State, Store};
use crate::watch::WatchEvent;

/// Creates and deletes the claims of pods that were added and deleted.
pub(super) fn follow(store: &Store, events: &[WatchEvent]) {
    let came = events.iter().filter(|event| event.change_type == ChangeType::Added);
    create_claims(store, came.map(|event| &event.object));
    let gone: Vec<&Arc<StoredObject>> = events
        .iter()
        .filter(|event| event.change_type == ChangeType::Deleted && may_have_claims(&event.object))
        .map(|event| &event.object)
        .collect();
    if gone.is_empty() {
        return;
    }
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        for pod in gone {
            for volume in volumes(&pod.value()) {
                remove_claim(state, pod.namespace(), &claim_name(pod, &volume), pod.uid());
            }
        }
        Ok(())
    });
}

/// Creates the claims of pods that have none yet.
pub(super) fn create_claims<'o>(store: &Store, pods: impl Iterator<Item = &'o Arc<StoredObject>>) {
    let pods: Vec<&Arc<StoredObject>> =
        pods.filter(|pod| !pod.is_terminating() && may_have_claims(pod)).collect();
    if pods.is_empty() {
        return;
    }
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        for pod in pods {
            let is_there = state
                .get(PODS, pod.namespace(), pod.name())
                .is_some_and(|current| current.uid() == pod.uid());
            if !is_there {
                continue;
            }
            for volume in volumes(&pod.value()) {
                // As in Kubernetes, another claim of that name is left alone.
                let claim = claim(pod, &volume);
                let _ = create_in(
                    state,
                    PERSISTENT_VOLUME_CLAIMS,
                    pod.namespace(),
                    claim,
                    &WriteOptions::default(),
                );
            }
        }
        Ok(())
    });
}

/// Deletes claims of pods that are gone. Needed at the start and after watch events were lost.
pub(super) fn remove_orphans(store: &Store, claims: &[Arc<StoredObject>]) {
    let owned = claims.iter().filter_map(|claim| Some((claim, owner(&claim.value())?)));
    let owned: Vec<_> = owned.collect();
    if owned.is_empty() {
        return;
    }
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        for (claim, (name, uid)) in owned {
            let is_there =
                state.get(PODS, claim.namespace(), &name).is_some_and(|pod| pod.uid() == uid);
            if !is_there {
                remove_claim(state, claim.namespace(), claim.name(), &uid);
            }
        }
        Ok(())
    });
}

fn remove_claim(state: &mut State, namespace: &str, name: &str, owner_uid: &str) {
    let found = state.get(PERSISTENT_VOLUME_CLAIMS, namespace, name);
    let is_owned =
        found.and_then(|claim| owner(&claim.value())).is_some_and(|(_, uid)| uid == owner_uid);
    if is_owned {
        // Rejected only when it is gone.
        let options = DeleteOptions::default();
        let _ = delete_in(state, PERSISTENT_VOLUME_CLAIMS, namespace, name, &options);
    }
}

/// A cheap look at the text: most pods have no such volume and need not be parsed.
fn may_have_claims(pod: &StoredObject) -> bool {
    const FIELD: &[u8] = b"\"ephemeral\":";
    pod.json().windows(FIELD.len()).any(|window| window == FIELD)
}

/// The generic ephemeral volumes of a pod.
fn volumes(pod: &Value) -> Vec<Value> {
    let all = list_at(pod, &["spec", "volumes"]).iter();
    all.filter(|volume| at(volume, &["ephemeral", "volumeClaimTemplate"]).is_some())
        .cloned()
        .collect()
}

fn claim_name(pod: &StoredObject, volume: &Value) -> String {
    format!("{}-{}", pod.name(), text_at(volume, &["name"]))
}

fn claim(pod: &StoredObject, volume: &Value) -> Value {
    let template = at(volume, &["ephemeral", "volumeClaimTemplate"]).cloned().unwrap_or_default();
    let mut claim = json!({"metadata": {}, "spec": template["spec"]});
    let meta = meta_mut(&mut claim);
    for field in ["labels", "annotations"] {
        if let Some(value) = at(&template, &["metadata", field]) {
            meta.insert(field.into(), value.clone());
        }
    }
    meta.insert("name".into(), claim_name(pod, volume).into());
    meta.insert(
        "ownerReferences".into(),
        json!([{
            "apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }]),
    );
    claim
}

/// Name and uid of the pod that a claim belongs to.
fn owner(claim: &Value) -> Option<(String, String)> {
    let owners = list_at(claim, &["metadata", "ownerReferences"]);
    let pod = owners.iter().find(|owner| {
        owner.get("controller") == Some(&Value::Bool(true)) && text_at(owner, &["kind"]) == "Pod"
    })?;
    Some((text_at(pod, &["name"]).to_owned(), text_at(pod, &["uid"]).to_owned()))
}
