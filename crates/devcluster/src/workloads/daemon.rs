//! DaemonSets: a pod for every node that it may run on.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_api_types::Node;
use kube_scheduler_workloads::daemon_set::{self, Eligibility};
use kube_scheduler_workloads::stateful_set::REVISION;
use kube_scheduler_workloads::template_hash;
use serde_json::{Value, json};

use super::owned::{Controller, remove};
use super::pods::{self, BURST, has_ended, is_ready, is_terminating, label};
use super::rollout::{Rounding, portion};
use crate::kinds::{NODES, PODS};
use crate::object::{at, text_at};
use crate::status::StatusError;
use crate::store::State;

/// Creates and deletes pods, and writes the status.
pub(super) fn settle(state: &mut State, set: &Controller<'_>) -> bool {
    let Some(selector) = set.selector() else { return false };
    let nodes = eligible_nodes(state, set);
    let owned = set.owned(state, PODS, Some(&selector));
    let mut result = Ok(false);
    if !set.is_terminating() {
        result = step(state, set, &nodes, &owned);
    }
    let owned = set.owned(state, PODS, None);
    put_status(state, set, &nodes, &owned, result.as_ref().err());
    result.unwrap_or(false)
}

/// The node that a pod runs on or is meant for.
pub(super) fn node_of(pod: &Value) -> &str {
    match text_at(pod, &["spec", "nodeName"]) {
        "" => {
            let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                        /nodeSelectorTerms/0/matchFields/0/values/0";
            pod.pointer(path).and_then(Value::as_str).unwrap_or_default()
        }
        name => name,
    }
}

/// The names of the nodes that get a pod.
fn eligible_nodes(state: &State, set: &Controller<'_>) -> BTreeSet<String> {
    let eligibility = Eligibility::new(set);
    let nodes = state.objects(NODES).filter(|node| !node.is_terminating());
    nodes
        .filter(|node| {
            Node::from_json(node.json().clone()).is_ok_and(|node| eligibility.includes(&node))
        })
        .map(|node| node.name().to_owned())
        .collect()
}

fn step(
    state: &mut State,
    set: &Controller<'_>,
    nodes: &BTreeSet<String>,
    owned: &[Value],
) -> Result<bool, StatusError> {
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    owned.iter().for_each(|pod| by_node.entry(node_of(pod)).or_default().push(pod));
    for (node, pods) in &by_node {
        let n_kept = usize::from(nodes.contains(*node));
        let present = pods.iter().filter(|pod| !is_terminating(pod));
        for (at, pod) in present.enumerate() {
            if at >= n_kept || has_ended(pod) {
                remove(state, PODS, pod);
            }
        }
    }
    let missing = nodes.iter().filter(|node| !by_node.contains_key(node.as_str()));
    let mut n_created = 0;
    for node in missing {
        if n_created == BURST {
            return Ok(true);
        }
        pods::create(state, set, daemon_set::pod(set, node))?;
        n_created += 1;
    }
    if n_created == 0 {
        update(state, set, nodes, owned);
    }
    Ok(false)
}

/// Replaces pods of old templates, as long as not too many are unavailable.
fn update(state: &mut State, set: &Controller<'_>, nodes: &BTreeSet<String>, owned: &[Value]) {
    if text_at(set.value, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return;
    }
    let wanted = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
    let most = at(set.value, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
    let most = most.map_or(1, |most| portion(most, wanted, Rounding::Up)).max(1);
    let available = owned.iter().filter(|pod| is_ready(pod) && !is_terminating(pod)).count();
    let mut room = most - (wanted - i64::try_from(available).unwrap_or(0));
    let revision = template_hash(set.template());
    let is_old = |pod: &&Value| label(pod, REVISION) != revision && !is_terminating(pod);
    // Old pods that are not available cost nothing.
    let (healthy, broken): (Vec<&Value>, Vec<&Value>) =
        owned.iter().filter(is_old).partition(|pod| is_ready(pod));
    broken.into_iter().for_each(|pod| remove(state, PODS, pod));
    for pod in healthy {
        if room <= 0 {
            return;
        }
        room -= 1;
        remove(state, PODS, pod);
    }
}

fn put_status(
    state: &mut State,
    set: &Controller<'_>,
    nodes: &BTreeSet<String>,
    owned: &[Value],
    error: Option<&StatusError>,
) {
    let revision = template_hash(set.template());
    let is_wanted = |pod: &&Value| nodes.contains(node_of(pod));
    let placed: Vec<&Value> = owned.iter().filter(|pod| !is_terminating(pod)).collect();
    let of_nodes: Vec<&Value> = placed.iter().copied().filter(is_wanted).collect();
    let ready = of_nodes.iter().filter(|pod| is_ready(pod)).count();
    let status = json!({
        "currentNumberScheduled": of_nodes.len(), "numberMisscheduled": placed.len() - of_nodes.len(),
        "desiredNumberScheduled": nodes.len(), "numberReady": ready,
    });
    let updated = of_nodes.iter().filter(|pod| label(pod, REVISION) == revision).count();
    let counts = [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", ready),
        ("numberUnavailable", nodes.len().saturating_sub(ready)),
    ];
    set.put_counts(state, status, &counts, error);
}
