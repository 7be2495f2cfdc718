//! Makes a report from the state at the end of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Pod};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_engine::Engine;
use kube_scheduler_framework::NodeIdx;
use kube_scheduler_runtime::cluster_alone;

use super::data::{
    NodeCounts, NodeUsage, OutcomeCounts, PendingPod, PendingReason, PlacedPod, PreemptedPod,
    Report,
};
use crate::devices;
use crate::ledger::{Account, Fate, Ledger};

/// The report without warnings, explanations and speed.
pub(crate) fn compose(engine: &Engine, ledger: &Ledger, n_decisions: u64) -> Report {
    let cluster = engine.cluster();
    // Lists come first and counts follow from them, so that the two cannot disagree.
    let pending = pending(engine, ledger);
    let count = |reason| pending.iter().filter(|pending| pending.reason == reason).count();
    let running = ledger.accounts().iter().filter(|account| account.fate == Fate::AlreadyRunning);
    let placements = placements(ledger);
    let preempted = preempted(ledger);
    let nodes = all_nodes(cluster);
    Report {
        pods: OutcomeCounts {
            total: ledger.accounts().len(),
            scheduled: placements.len(),
            unschedulable: count(PendingReason::Unschedulable)
                + count(PendingReason::SchedulerError),
            gated: count(PendingReason::SchedulingGated),
            already_running: running.count(),
            preempted: preempted.len(),
            skipped: count(PendingReason::Skipped),
            deleted: count(PendingReason::Deleted),
            finished: 0,
        },
        nodes: NodeCounts {
            total: cluster.n_nodes(),
            used: nodes.iter().filter(|(_, idx)| cluster.n_pods_on(*idx) > 0).count(),
        },
        utilisation: utilisation(cluster, &nodes),
        decisions: n_decisions,
        decisions_per_second: None,
        placements,
        pending,
        preempted,
        node_usage: nodes
            .iter()
            .map(|(name, idx)| NodeUsage {
                node: name.to_string(),
                pods: cluster.pod_count().get(*idx),
                utilisation: utilisation(cluster, &[(name.clone(), *idx)]),
            })
            .collect(),
        timeline: None,
        devices: devices::report(cluster.objects()),
        explanations: Vec::new(),
        warnings: Vec::new(),
    }
}

/// All nodes in the order of the input, which is that of their slots because a simulation deletes no node.
fn all_nodes(cluster: &ClusterState) -> Vec<(Arc<str>, NodeIdx)> {
    let named = |idx| Some((cluster.node(idx)?.name.clone(), idx));
    cluster.live_nodes().iter().filter_map(named).collect()
}

fn placements(ledger: &Ledger) -> Vec<PlacedPod> {
    let accounts = ledger.placed.iter().map(|at| ledger.account(*at));
    accounts
        .filter(|account| matches!(account.fate, Fate::Placed | Fate::Ended))
        .map(|account| PlacedPod { pod: account.pod.key(), node: node_of(&account.pod) })
        .collect()
}

fn preempted(ledger: &Ledger) -> Vec<PreemptedPod> {
    let made = |account: &Account| {
        let Fate::Preempted { node, by } = &account.fate else { return None };
        Some(PreemptedPod {
            pod: account.pod.key(),
            node: node.as_deref().unwrap_or_default().to_owned(),
            by: by.as_ref().map(ToString::to_string),
        })
    };
    ledger.preempted.iter().filter_map(|at| made(ledger.account(*at))).collect()
}

fn node_of(pod: &Pod) -> String {
    pod.node_name.as_deref().unwrap_or_default().to_owned()
}

fn pending(engine: &Engine, ledger: &Ledger) -> Vec<PendingPod> {
    let mut accounts: Vec<&Account> = ledger
        .accounts()
        .iter()
        .filter(|account| matches!(account.fate, Fate::Pending | Fate::Deleted))
        .collect();
    accounts.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
    accounts
        .into_iter()
        .map(|account| {
            let (reason, message) = obstacle(engine, account);
            PendingPod { pod: account.pod.key(), reason, message }
        })
        .collect()
}

/// Why a pod has no node, as a category and in words.
fn obstacle(engine: &Engine, account: &Account) -> (PendingReason, String) {
    let pod = &account.pod;
    if account.fate == Fate::Deleted {
        let last = account.last_failure.as_ref().map(|failure| failure.message.clone());
        return (PendingReason::Deleted, last.unwrap_or_else(|| "its time was over".to_owned()));
    }
    let scheduler = &pod.spec.scheduler_name;
    let Some(profile) =
        engine.profiles().iter().find(|profile| profile.scheduler_name == *scheduler)
    else {
        return (PendingReason::Skipped, format!("no profile for scheduler name \"{scheduler}\""));
    };
    if pod.deletion_requested.is_some() {
        return (PendingReason::Skipped, "the pod is being deleted".to_owned());
    }
    if let Some(failure) = &account.last_failure {
        let reason = if failure.is_error {
            PendingReason::SchedulerError
        } else {
            PendingReason::Unschedulable
        };
        return (reason, failure.message.clone());
    }
    let queued = engine.queue().get(&pod.namespace, &pod.name);
    if let Some(queued) = queued.filter(|queued| queued.is_gated()) {
        // As the engine has it: plugins may have put it into a group.
        let pod = &queued.entry().0;
        let now = kube_scheduler_api_types::Timestamp::EPOCH;
        let cx = cluster_alone(engine.cluster(), now).unrecorded();
        let mut gates = profile.pre_enqueue().map(|(_, _, plugin)| plugin.pre_enqueue(&cx, pod));
        let status = gates.find(|status| !status.is_success());
        let message = status.map_or_else(|| "gated".to_owned(), |status| status.message());
        return (PendingReason::SchedulingGated, message);
    }
    (
        PendingReason::SchedulerError,
        "the simulation ended before the pod was decided about".to_owned(),
    )
}

/// Requested over allocatable, by resource, for resources that some of the nodes have.
fn utilisation(cluster: &ClusterState, nodes: &[(Arc<str>, NodeIdx)]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
    let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
    for &(_, idx) in nodes {
        let mut add = |name, requested: i64, allocatable: i64| {
            let (used, there) = sums.entry(name).or_default();
            *used += i128::from(requested);
            *there += i128::from(allocatable);
        };
        add(CPU, requested.milli_cpu().get(idx), allocatable.milli_cpu().get(idx));
        add(MEMORY, requested.memory().get(idx), allocatable.memory().get(idx));
        let storage =
            (requested.ephemeral_storage().get(idx), allocatable.ephemeral_storage().get(idx));
        add(EPHEMERAL_STORAGE, storage.0, storage.1);
        add(PODS, cluster.pod_count().get(idx), cluster.allowed_pods().get(idx));
        for (name, amounts) in allocatable.scalars() {
            let used = requested.scalar_at(name, idx).unwrap_or_default();
            add(name, used, amounts.get(idx));
        }
    }
    let fraction = |(name, (used, there)): (&str, (i128, i128))| {
        (there > 0).then(|| (name.to_owned(), rounded(used as f64 / there as f64)))
    };
    sums.into_iter().filter_map(fraction).collect()
}

/// Rounded to six decimal places, so that reports are short.
fn rounded(fraction: f64) -> f64 {
    (fraction * 1e6).round() / 1e6
}
