//! Deployments: a ReplicaSet for each template, and the way from one to the next.

use kube_scheduler_workloads::deployment::{HASH, replica_set};
use serde_json::{Value, json};

use super::owned::{Controller, change, remove, scale, update_condition};
use super::pods;
use super::rollout::limits;
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::clock::to_rfc3339;
use crate::kinds::{PODS, REPLICA_SETS};
use crate::object::{annotations_mut, at, int_at, labels_mut, list_at, text_at};
use crate::status::StatusError;
use crate::store::State;

const REVISION: &str = "deployment.kubernetes.io/revision";
/// How many old ReplicaSets are kept by default.
const HISTORY: i64 = 10;

/// Takes the next steps of a rollout, and writes the status.
pub(super) fn settle(state: &mut State, deployment: &Controller<'_>) -> bool {
    let Some(selector) = deployment.selector() else { return false };
    let mut sets = deployment.owned(state, REPLICA_SETS, Some(&selector));
    sets.sort_by_key(|set| (revision_of(set), text_at(set, &["metadata", "name"]).to_owned()));
    let mut error = None;
    if !deployment.is_terminating() {
        let is_paused = at(deployment.value, &["spec", "paused"]) == Some(&true.into());
        let new = sets.iter().position(|set| has_template(set, deployment.template()));
        match new {
            None if is_paused => hold(state, deployment, &sets),
            None => error = add_set(state, deployment, &sets).err(),
            Some(new) => {
                let new = sets.remove(new);
                let new = mark_as_newest(state, deployment, new, &sets);
                if is_paused {
                    hold(state, deployment, &[sets.as_slice(), &[new]].concat());
                } else {
                    roll(state, deployment, &new, &sets);
                    forget(state, deployment, &sets);
                }
            }
        }
    }
    put_status(state, deployment, error.as_ref());
    false
}

/// One step from the old sets to the new one.
fn roll(state: &mut State, deployment: &Controller<'_>, new: &Value, old: &[Value]) {
    let wanted = deployment.count("replicas", 1);
    let old_total: i64 = old.iter().map(replicas).sum();
    if text_at(deployment.value, &["spec", "strategy", "type"]) == "Recreate" {
        for set in old.iter().filter(|set| replicas(set) > 0) {
            scale(state, REPLICA_SETS, set, 0);
        }
        // Terminating pods count: the old ones have to be gone before the first new one starts.
        let is_left = old.iter().any(|set| has_pods(state, set));
        if (old_total == 0 && !is_left || replicas(new) > wanted) && replicas(new) != wanted {
            scale(state, REPLICA_SETS, new, wanted);
        }
        return;
    }
    let limits = limits(at(deployment.value, &["spec", "strategy", "rollingUpdate"]), wanted);
    let total = old_total + replicas(new);
    if replicas(new) > wanted {
        scale(state, REPLICA_SETS, new, wanted);
        return;
    }
    let room = wanted + limits.surge - total;
    if replicas(new) < wanted && room > 0 {
        scale(state, REPLICA_SETS, new, (replicas(new) + room).min(wanted));
        return;
    }
    let least = wanted - limits.unavailable;
    let new_unavailable = (replicas(new) - available(new)).max(0);
    let mut removable = total - least - new_unavailable;
    if removable <= 0 {
        return;
    }
    // Pods that are not available go first: that makes no fewer pods available.
    let mut left: Vec<i64> = old.iter().map(replicas).collect();
    for (set, left) in old.iter().zip(&mut left) {
        let broken = (*left - available(set)).clamp(0, removable.max(0));
        *left -= broken;
        removable -= broken;
    }
    let all_available: i64 = old.iter().chain([new]).map(available).sum();
    let mut surplus = (all_available - least).min(removable);
    for left in &mut left {
        let healthy = (*left).clamp(0, surplus.max(0));
        *left -= healthy;
        surplus -= healthy;
    }
    for (set, left) in old.iter().zip(left).filter(|(set, left)| replicas(set) != *left) {
        scale(state, REPLICA_SETS, set, left);
    }
}

/// A paused rollout: only the wanted number is followed, by the newest set that has pods.
fn hold(state: &mut State, deployment: &Controller<'_>, sets: &[Value]) {
    let Some(newest) = sets.iter().rev().find(|set| replicas(set) > 0).or(sets.last()) else {
        return;
    };
    let total: i64 = sets.iter().map(replicas).sum();
    let replicas = (replicas(newest) + deployment.count("replicas", 1) - total).max(0);
    scale(state, REPLICA_SETS, newest, replicas);
}

/// Deletes old sets without pods, except for the most recent ones.
fn forget(state: &mut State, deployment: &Controller<'_>, old: &[Value]) {
    let kept =
        usize::try_from(deployment.count("revisionHistoryLimit", HISTORY)).unwrap_or(usize::MAX);
    let is_empty =
        |set: &&Value| replicas(set) == 0 && int_at(set, &["status", "replicas"]).unwrap_or(0) == 0;
    let empty: Vec<&Value> = old.iter().filter(is_empty).collect();
    let n_forgotten = empty.len().saturating_sub(kept);
    empty.into_iter().take(n_forgotten).for_each(|set| remove(state, REPLICA_SETS, set));
}

/// Creates the set of the current template, without pods.
fn add_set(
    state: &mut State,
    deployment: &Controller<'_>,
    old: &[Value],
) -> Result<(), StatusError> {
    let mut set = replica_set(deployment, collisions(deployment), 0);
    let newest = old.iter().map(revision_of).max().unwrap_or(0);
    annotate(deployment, &mut set, newest + 1);
    create_in(state, REPLICA_SETS, deployment.namespace, set, &WriteOptions::default())?;
    put_revision(state, deployment, newest + 1);
    Ok(())
}

/// How often the name of a new set was taken.
fn collisions(deployment: &Controller<'_>) -> i64 {
    int_at(deployment.value, &["status", "collisionCount"]).unwrap_or(0)
}

/// Gives the set of the current template the highest revision, as after a rollback.
fn mark_as_newest(
    state: &mut State,
    deployment: &Controller<'_>,
    new: Value,
    old: &[Value],
) -> Value {
    let newest = old.iter().map(revision_of).max().unwrap_or(0);
    let revision = revision_of(&new).max(newest + 1);
    let changed = change(state, REPLICA_SETS, &new, |set| annotate(deployment, set, revision));
    put_revision(state, deployment, revision);
    changed.unwrap_or(new)
}

fn annotate(deployment: &Controller<'_>, set: &mut Value, revision: i64) {
    let wanted = deployment.count("replicas", 1);
    let limits = limits(at(deployment.value, &["spec", "strategy", "rollingUpdate"]), wanted);
    let annotations = annotations_mut(set);
    let cause = "kubernetes.io/change-cause";
    if let Some(cause_text) = at(deployment.value, &["metadata", "annotations", cause]) {
        annotations.insert(cause.into(), cause_text.clone());
    }
    annotations.insert(REVISION.into(), revision.to_string().into());
    annotations
        .insert("deployment.kubernetes.io/desired-replicas".into(), wanted.to_string().into());
    let most = wanted + limits.surge;
    annotations.insert("deployment.kubernetes.io/max-replicas".into(), most.to_string().into());
}

fn put_revision(state: &mut State, deployment: &Controller<'_>, revision: i64) {
    change(state, deployment.kind, deployment.value, |deployment| {
        annotations_mut(deployment).insert(REVISION.into(), revision.to_string().into());
    });
}

fn put_status(state: &mut State, deployment: &Controller<'_>, error: Option<&StatusError>) {
    let sets = deployment.owned(state, REPLICA_SETS, None);
    let is_new = |set: &&Value| has_template(set, deployment.template());
    let sum = |field: &str| -> i64 {
        sets.iter().map(|set| int_at(set, &["status", field]).unwrap_or(0)).sum()
    };
    let updated =
        sets.iter().find(is_new).map_or(0, |set| int_at(set, &["status", "replicas"]).unwrap_or(0));
    let wanted = deployment.count("replicas", 1);
    let (total, ready, available) =
        (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let all: i64 = sets.iter().map(replicas).sum();
    let mut status = json!({});
    let counts = [
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", (all - available).max(0)),
    ];
    for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[field] = count.into();
    }
    let is_collision = error.is_some_and(|error| error.reason() == "AlreadyExists");
    let collisions = collisions(deployment) + i64::from(is_collision);
    if collisions > 0 {
        // The next attempt takes another name.
        status["collisionCount"] = collisions.into();
    }
    let counts = Counts { wanted, total, updated, available };
    status["conditions"] = conditions(state, deployment, &sets, counts, error).into();
    deployment.put_status(state, status);
}

/// How many pods a deployment has.
#[derive(Debug, Clone, Copy)]
struct Counts {
    wanted: i64,
    total: i64,
    updated: i64,
    available: i64,
}

fn conditions(
    state: &State,
    deployment: &Controller<'_>,
    sets: &[Value],
    counts: Counts,
    error: Option<&StatusError>,
) -> Vec<Value> {
    let Counts { wanted, total, updated, available } = counts;
    let (now, mut conditions) = (to_rfc3339(state.now), deployment.conditions());
    let limits = limits(at(deployment.value, &["spec", "strategy", "rollingUpdate"]), wanted);
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    };
    let availability = if available >= wanted - limits.unavailable {
        let message = "Deployment has minimum availability.";
        condition("Available", true, "MinimumReplicasAvailable", message)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition("Available", false, "MinimumReplicasUnavailable", message)
    };
    let new = sets.iter().find(|set| has_template(set, deployment.template()));
    let name = new.map_or("", |set| text_at(set, &["metadata", "name"]));
    let is_complete = updated == wanted && total == wanted && available >= wanted;
    let progress = match error {
        Some(error) => condition("Progressing", false, "ReplicaSetCreateError", &error.to_string()),
        None if is_complete => {
            let message = format!("ReplicaSet {name:?} has successfully progressed.");
            condition("Progressing", true, "NewReplicaSetAvailable", &message)
        }
        None => {
            let message = format!("ReplicaSet {name:?} is progressing.");
            condition("Progressing", true, "ReplicaSetUpdated", &message)
        }
    };
    let mut conditions_of_sets =
        sets.iter().flat_map(|set| list_at(set, &["status", "conditions"]));
    let failure =
        conditions_of_sets.find(|one| text_at(one, &["type"]) == "ReplicaFailure").cloned();
    update_condition(&mut conditions, "Available", Some(availability), &now);
    update_condition(&mut conditions, "Progressing", Some(progress), &now);
    update_condition(&mut conditions, "ReplicaFailure", failure, &now);
    conditions
}

/// Whether a set makes pods of this template.
fn has_template(set: &Value, template: &Value) -> bool {
    let mut own = at(set, &["spec", "template"]).cloned().unwrap_or_default();
    let mut template = template.clone();
    for template in [&mut own, &mut template] {
        labels_mut(template).remove(HASH);
    }
    own == template
}

fn has_pods(state: &State, set: &Value) -> bool {
    let uid = text_at(set, &["metadata", "uid"]);
    state.dependents.of(uid).any(|(kind, key)| {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        *kind == PODS
            && state.get(PODS, namespace, name).is_some_and(|pod| !pods::has_ended(&pod.value()))
    })
}

fn revision_of(set: &Value) -> i64 {
    text_at(set, &["metadata", "annotations", REVISION]).parse().unwrap_or(0)
}

fn replicas(set: &Value) -> i64 {
    int_at(set, &["spec", "replicas"]).unwrap_or(0)
}

fn available(set: &Value) -> i64 {
    // The status may count more pods than are wanted by now.
    int_at(set, &["status", "availableReplicas"]).unwrap_or(0)
}
