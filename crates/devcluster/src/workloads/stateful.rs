//! StatefulSets: pods with numbers, one after the other.

use std::collections::BTreeMap;

use kube_scheduler_workloads::stateful_set::{self, REVISION};
use kube_scheduler_workloads::template_hash;
use serde_json::{Value, json};

use super::owned::{Controller, remove};
use super::pods::{self, BURST, MOST_PODS, has_ended, is_ready, is_terminating, label};
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::kinds::{PERSISTENT_VOLUME_CLAIMS, PODS};
use crate::object::{int_at, text_at};
use crate::status::StatusError;
use crate::store::State;

/// Creates, replaces or deletes pods, and writes the status.
pub(super) fn settle(state: &mut State, set: &Controller<'_>) -> bool {
    let Some(selector) = set.selector() else { return false };
    let owned = set.owned(state, PODS, Some(&selector));
    let mut error = None;
    if !set.is_terminating() {
        error = step(state, set, &by_number(set, owned)).err();
    }
    let owned = set.owned(state, PODS, None);
    put_status(state, set, &by_number(set, owned), error.as_ref());
    false
}

/// The pods by their numbers.
fn by_number(set: &Controller<'_>, pods: Vec<Value>) -> BTreeMap<i64, Value> {
    let number = |pod: &Value| -> Option<i64> {
        let name = text_at(pod, &["metadata", "name"]);
        name.strip_prefix(set.name)?.strip_prefix('-')?.parse().ok()
    };
    pods.into_iter().filter_map(|pod| Some((number(&pod)?, pod))).collect()
}

/// The numbers that there should be, no more than a controller has here.
fn wanted(set: &Controller<'_>) -> std::ops::Range<i64> {
    let all = stateful_set::ordinals(set);
    all.start..all.end.min(all.start.saturating_add(MOST_PODS))
}

fn is_ordered(set: &Controller<'_>) -> bool {
    text_at(set.value, &["spec", "podManagementPolicy"]) != "Parallel"
}

fn step(
    state: &mut State,
    set: &Controller<'_>,
    present: &BTreeMap<i64, Value>,
) -> Result<(), StatusError> {
    let wanted = wanted(set);
    let mut n_created = 0;
    for number in wanted.clone() {
        match present.get(&number) {
            None if n_created < BURST => {
                add_pod(state, set, number)?;
                n_created += 1;
                if is_ordered(set) {
                    return Ok(());
                }
            }
            None => return Ok(()),
            // Ended pods are replaced under their name.
            Some(pod) if has_ended(pod) && !is_terminating(pod) => {
                remove(state, PODS, pod);
                return Ok(());
            }
            Some(pod) if is_ordered(set) && (is_terminating(pod) || !is_ready(pod)) => {
                // The exception: a pod of an old template that never became ready may be replaced.
                return update(state, set, present, &wanted);
            }
            Some(_) => {}
        }
    }
    for (_, pod) in present.iter().rev().filter(|(number, _)| !wanted.contains(number)) {
        if !is_terminating(pod) {
            remove(state, PODS, pod);
        }
        if is_ordered(set) {
            return Ok(());
        }
    }
    update(state, set, present, &wanted)
}

/// Replaces the last pod of an old template, if all pods behind it are up to date and ready.
fn update(
    state: &mut State,
    set: &Controller<'_>,
    present: &BTreeMap<i64, Value>,
    wanted: &std::ops::Range<i64>,
) -> Result<(), StatusError> {
    if text_at(set.value, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Ok(());
    }
    let path = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    let first = int_at(set.value, &path).unwrap_or(0).max(wanted.start);
    let revision = template_hash(set.template());
    for (_, pod) in present.range(first.min(wanted.end)..wanted.end).rev() {
        if is_terminating(pod) {
            return Ok(());
        }
        if label(pod, REVISION) != revision {
            remove(state, PODS, pod);
            return Ok(());
        }
        if !is_ready(pod) {
            return Ok(());
        }
    }
    Ok(())
}

fn add_pod(state: &mut State, set: &Controller<'_>, number: i64) -> Result<(), StatusError> {
    for claim in stateful_set::claims(set, number) {
        let name = text_at(&claim, &["metadata", "name"]);
        // A claim that exists is used as it is.
        if state.get(PERSISTENT_VOLUME_CLAIMS, set.namespace, name).is_none() {
            let options = WriteOptions::default();
            create_in(state, PERSISTENT_VOLUME_CLAIMS, set.namespace, claim, &options)?;
        }
    }
    pods::create(state, set, stateful_set::pod(set, number))
}

fn put_status(
    state: &mut State,
    set: &Controller<'_>,
    present: &BTreeMap<i64, Value>,
    error: Option<&StatusError>,
) {
    let update = format!("{}-{}", set.name, template_hash(set.template()));
    let before = text_at(set.value, &["status", "currentRevision"]);
    let revision = |pod: &Value| format!("{}-{}", set.name, label(pod, REVISION));
    let count = |test: &dyn Fn(&Value) -> bool| present.values().filter(|pod| test(pod)).count();
    let ready = count(&|pod| is_ready(pod) && !is_terminating(pod));
    let updated = count(&|pod| revision(pod) == update && !is_terminating(pod));
    let n_wanted = usize::try_from(set.count("replicas", 1)).unwrap_or(usize::MAX);
    let is_done = updated == n_wanted && present.len() == n_wanted && ready == n_wanted;
    let current = if before.is_empty() || is_done { update.clone() } else { before.to_owned() };
    let status = json!({
        "replicas": present.len(), "availableReplicas": ready, "currentRevision": current,
        "updateRevision": update,
    });
    let counts = [
        ("readyReplicas", ready),
        ("currentReplicas", count(&|pod| revision(pod) == current && !is_terminating(pod))),
        ("updatedReplicas", updated),
    ];
    set.put_counts(state, status, &counts, error);
}
