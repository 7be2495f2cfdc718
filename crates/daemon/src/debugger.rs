//! What SIGUSR2 asks for: whether the caches agree with what the watches brought, and what is in them.
//!
//! The texts are the reference's, to the letter; where it prints nodes in the order of a Go map, these are sorted by name.
//! The sizes of tables, which come last, are an addition.
//!
//! Invariant: looking changes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Resources};
use kube_scheduler_engine::{Engine, SharedSize, TableSize};
use kube_scheduler_framework::NodeIdx;

/// The nodes and pods that the watches brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedState {
    /// Names of nodes.
    pub(crate) nodes: Vec<Arc<str>>,
    /// UIDs of pods.
    pub(crate) pods: Vec<Arc<str>>,
    /// What the watches keep to find equal parts of objects, by kind.
    pub(crate) parts: [(&'static str, SharedSize); 2],
}

/// Compares, then dumps, into the log.
pub(crate) fn run(engine: &Engine, actual: WatchedState) {
    let tables = dump_tables(engine, actual.parts);
    compare(engine, actual);
    let nodes = dump_nodes(engine);
    tracing::info!(nodes, "Dump of cached NodeInfo");
    let (summary, pods) = (engine.queue().summary(), dump_queue(engine));
    tracing::info!(summary, pods, "Dump of scheduling queue");
    tracing::info!(tables, "Dump of table sizes");
}

/// One line for each table: its name, its entries, and its bytes if they are known; then the sum of the bytes.
fn dump_tables(engine: &Engine, parts: [(&str, SharedSize); 2]) -> String {
    let line = |size: TableSize| {
        let n_bytes = size.n_bytes.map(|n| format!(", {n} bytes")).unwrap_or_default();
        format!("{}: {}{n_bytes}", size.table, size.n_entries)
    };
    let of_parts = |(kind, size): (&str, SharedSize)| {
        format!("equal parts of {kind}: {}, {} bytes", size.n_parts, size.n_bytes)
    };
    let sizes = engine.table_sizes();
    let of_tables = sizes.iter().filter_map(|size| size.n_bytes).sum::<usize>();
    let total = of_tables + parts.iter().map(|(_, size)| size.n_bytes).sum::<usize>();
    let lines = sizes.into_iter().map(line).chain(parts.map(of_parts));
    let lines = lines.chain([format!("all of these: {total} bytes")]);
    lines.collect::<Vec<_>>().join("\n")
}

fn compare(engine: &Engine, actual: WatchedState) {
    tracing::debug!(target: "V3", "Cache comparer started");
    let cluster = engine.cluster();
    let cached: Vec<Arc<str>> =
        cached_nodes(engine).into_iter().map(|(name, _)| name.clone()).collect();
    let difference = Difference::between(actual.nodes, cached);
    if !difference.is_empty() {
        let Difference { missed, redundant } = difference;
        tracing::info!(missedNodes = ?missed, redundantNodes = ?redundant, "Cache mismatch");
    }
    let assigned = cluster.all_pods().map(|(pod, _)| pod.uid.clone());
    let queued = engine.queue().pending_pods().map(|(_, pod)| pod.entry().0.uid.clone());
    let difference = Difference::between(actual.pods, assigned.chain(queued).collect());
    if !difference.is_empty() {
        let Difference { missed, redundant } = difference;
        tracing::info!(missedPods = ?missed, redundantPods = ?redundant, "Cache mismatch");
    }
    tracing::debug!(target: "V3", "Cache comparer finished");
}

/// How two multisets differ.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// What is there, but not known.
    missed: Vec<Arc<str>>,
    /// What is known, but not there.
    redundant: Vec<Arc<str>>,
}

impl Difference {
    fn between(mut actual: Vec<Arc<str>>, mut cached: Vec<Arc<str>>) -> Self {
        actual.sort_unstable();
        cached.sort_unstable();
        let (mut actual, mut cached) =
            (actual.into_iter().peekable(), cached.into_iter().peekable());
        let mut difference = Self::default();
        loop {
            match (actual.peek(), cached.peek()) {
                (Some(one), Some(other)) if one == other => {
                    actual.next();
                    cached.next();
                }
                (Some(one), Some(other)) if one > other => {
                    difference.redundant.extend(cached.next())
                }
                (Some(_), _) => difference.missed.extend(actual.next()),
                (None, Some(_)) => difference.redundant.extend(cached.next()),
                (None, None) => return difference,
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.missed.is_empty() && self.redundant.is_empty()
    }
}

/// Nodes by name, and those without an object that pods are on.
fn cached_nodes(engine: &Engine) -> Vec<(&Arc<str>, NodeIdx)> {
    let cluster = engine.cluster();
    let mut nodes: Vec<_> = cluster
        .live_nodes()
        .iter()
        .chain(cluster.all_pods().map(|(_, node)| node))
        .filter_map(|node| Some((cluster.node_name(node)?, node)))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn dump_nodes(engine: &Engine) -> String {
    let cluster = engine.cluster();
    let mut text = String::new();
    for (number, (name, node)) in cached_nodes(engine).into_iter().enumerate() {
        if number > 0 {
            text.push_str("\n\n");
        }
        let allocatable = cluster.allocatable().resources_of(node);
        let allowed = cluster.allowed_pods().get(node);
        let requested = cluster.requested_on(node);
        let _ = write!(
            text,
            "Node name: {name}\nDeleted: {}\nRequested Resources: {}\nAllocatable Resources:{}\n\
             Scheduled Pods(number: {}):\n",
            cluster.node(node).is_none(),
            resources(&requested, 0),
            resources(&allocatable, allowed),
            cluster.n_pods_on(node),
        );
        cluster.pods_on(node).for_each(|pod| describe(&mut text, pod));
        let nominated: Vec<_> = engine.queue().nominated_pods_for_node(name).collect();
        if !nominated.is_empty() {
            let _ = writeln!(text, "Nominated Pods(number: {}):", nominated.len());
            for nominee in nominated {
                match nominee.pod {
                    Some(pod) => describe(&mut text, &pod.entry().0),
                    // In an attempt just now.
                    None => line(&mut text, nominee.name, nominee.namespace, nominee.uid, "", name),
                }
            }
        }
    }
    text
}

fn dump_queue(engine: &Engine) -> String {
    let mut text = String::new();
    engine.queue().pending_pods().for_each(|(_, pod)| describe(&mut text, &pod.entry().0));
    text
}

fn describe(text: &mut String, pod: &Pod) {
    let nominated = pod.nominated_node_name().unwrap_or_default();
    line(text, &pod.name, &pod.namespace, &pod.uid, &pod.status.phase, nominated);
}

fn line(text: &mut String, name: &str, namespace: &str, uid: &str, phase: &str, nominated: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "name: {name}, namespace: {namespace}, uid: {uid}, phase: {phase}, nominated node: {nominated}"
    );
}

/// As Go prints a pointer to its `Resource`.
fn resources(resources: &Resources, allowed_pods: i64) -> String {
    let scalars: Vec<String> =
        resources.scalars.iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
    format!(
        "&{{MilliCPU:{} Memory:{} EphemeralStorage:{} AllowedPodNumber:{allowed_pods} ScalarResources:map[{}]}}",
        resources.milli_cpu,
        resources.memory,
        resources.ephemeral_storage,
        scalars.join(" ")
    )
}

#[cfg(test)]
mod tests;
