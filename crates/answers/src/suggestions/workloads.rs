//! How many pods fewer of a workload would help, and which of its pods would go.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod};
use kube_scheduler_cache::NodeIdx;
use kube_scheduler_engine::Engine;

use super::candidates::Candidate;
use super::repairs::{Crowd, PODS};
use crate::amounts::requested;
use crate::pod_name::PodName;
use crate::readiness::is_ready;

/// How many workloads are looked at, the largest first, and how many pods fewer of one.
const MAX_WORKLOADS: usize = 6;
const MAX_PODS: usize = 64;
/// How many numbers of pods are tried of one workload.
const MAX_STEPS: usize = 4;

/// The pods of one controller.
struct Workload<'a> {
    /// Kind and name.
    name: Arc<str>,
    pods: Vec<&'a Arc<Pod>>,
}

/// Smaller workloads of the pod's namespace after which some of the `crowded` nodes have what is missing there.
pub(super) fn scale_downs(
    engine: &Engine,
    pod: &Pod,
    crowded: &BTreeMap<NodeIdx, Crowd>,
) -> Vec<Candidate> {
    if crowded.is_empty() {
        return Vec::new();
    }
    let mut workloads = workloads(engine, pod);
    workloads.sort_by_key(|workload| (Reverse(workload.pods.len()), workload.name.clone()));
    workloads.truncate(MAX_WORKLOADS);
    let mut found = Vec::new();
    for Workload { name, mut pods } in workloads {
        in_order_of_deletion(&mut pods);
        pods.truncate(MAX_PODS);
        found.extend(steps(engine, &pods, crowded).into_iter().map(|n| {
            let pods = pods[..n].iter().map(|pod| PodName::from(&***pod)).collect();
            Candidate::ScaleDown { workload: name.clone(), pods }
        }));
    }
    found
}

/// The workloads of the pod's namespace, but for its own, of which the pod itself would be the first to go, and for those that
/// have a pod on each node.
fn workloads<'a>(engine: &'a Engine, pod: &Pod) -> Vec<Workload<'a>> {
    let own = pod.controller.as_ref().map(|controller| &controller.uid);
    let mut workloads: BTreeMap<&str, Workload<'_>> = BTreeMap::new();
    for other in engine.known_pods() {
        let Some(controller) = &other.controller else { continue };
        if other.namespace != pod.namespace
            || other.deletion_requested.is_some()
            || Some(&controller.uid) == own
            || matches!(&*controller.kind, "DaemonSet" | "Node")
        {
            continue;
        }
        let new = || {
            let name = format!("{} {}", controller.kind, controller.name).into();
            Workload { name, pods: Vec::new() }
        };
        workloads.entry(&*controller.uid).or_insert_with(new).pods.push(other);
    }
    workloads.into_values().collect()
}

/// The pods in the order in which their controller would delete them: of a StatefulSet the last one first, of others those first
/// that are of least use.
fn in_order_of_deletion(pods: &mut [&Arc<Pod>]) {
    let is_set = |pod: &Pod| pod.controller.as_ref().is_some_and(|it| *it.kind == *"StatefulSet");
    let ordinal = |pod: &Pod| pod.name.rsplit_once('-')?.1.parse::<u64>().ok();
    let mut on_node: KeyedMap<Arc<str>, usize> = KeyedMap::default();
    for node in pods.iter().filter_map(|pod| pod.node_name.as_ref()) {
        *on_node.entry(node.clone()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let last_first = Reverse(ordinal(pod).filter(|_| is_set(pod)));
        let n_on_node = pod.node_name.as_ref().and_then(|node| on_node.get(node)).copied();
        let use_of_it = (
            pod.is_assigned(),
            *pod.status.phase == *"Running",
            is_ready(pod),
            Reverse(n_on_node),
            Reverse(pod.created),
        );
        (last_first, use_of_it, pod.name.clone())
    });
}

/// After how many pods fewer a node has what is missing there that had it not before.
fn steps(engine: &Engine, pods: &[&Arc<Pod>], crowded: &BTreeMap<NodeIdx, Crowd>) -> Vec<usize> {
    let cluster = engine.cluster();
    // Where nothing is missing any more, each further pod may help.
    let is_open = |crowd: &Crowd| crowd.is_in_the_way && crowd.missing.is_empty();
    let mut any_may_help = crowded.values().any(is_open);
    let mut missing: BTreeMap<NodeIdx, BTreeMap<Arc<str>, i64>> = BTreeMap::new();
    let mut steps = Vec::new();
    for (at, pod) in pods.iter().enumerate() {
        let mut helps = any_may_help;
        let idx = pod.node_name.as_ref().and_then(|name| cluster.node_idx(name));
        if let Some((idx, crowd)) = idx.and_then(|idx| Some((idx, crowded.get(&idx)?))) {
            let left =
                missing.entry(idx).or_insert_with(|| crowd.missing.iter().cloned().collect());
            let given_back = requested(pod).into_iter().chain([(PODS.into(), 1)]);
            for (resource, amount) in given_back {
                if let Some(left) = left.get_mut(&resource) {
                    *left = left.saturating_sub(amount);
                }
            }
            let is_enough = left.values().all(|left| *left <= 0);
            helps |= is_enough;
            any_may_help |= is_enough && crowd.is_in_the_way;
        }
        if helps {
            steps.push(at + 1);
        }
        if steps.len() == MAX_STEPS {
            break;
        }
    }
    steps
}
