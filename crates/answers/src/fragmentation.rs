//! How much of what is free the pods that a cluster runs could not use.
//!
//! The measure is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
//! Descent" (USENIX ATC 2023), for every resource: the workload is the mix of shapes of the cluster's own pods, each as frequent
//! as it is; for one shape all that is free on a node is a fragment if the shape cannot be placed there, and nothing otherwise;
//! what counts is the mean over the workload. For each resource the workload is that part of it which asks for the resource.
//!
//! Invariant: the fragments of a resource by plugin add up to its fragments, except for less than one unit for each plugin.

mod data;
mod shapes;
mod table;
mod visibility;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_engine::{AttemptExplanation, Engine};

pub use self::data::{FragmentCause, Fragmentation, FragmentedResource, NodePool, ShapeAnswer};
use self::shapes::{Shape, Shapes};
use crate::API_VERSION;
use crate::amounts::{allocatable, free, quantity, requested};
use crate::course::Course;
use crate::explanation::Rejection;
use crate::format::{as_of, count};
use crate::interrupt::Interrupt;

/// The options of [`fragmentation`].
#[derive(Clone, Debug)]
pub struct FragmentationOptions {
    /// The label of nodes by whose values they are distinguished.
    pub by: Option<String>,
    /// How many shapes are tried, the most frequent first.
    pub max_shapes: usize,
    /// Leaves out the shapes that have not been tried by then.
    pub interrupt: Interrupt,
}

impl Default for FragmentationOptions {
    fn default() -> Self {
        Self { by: None, max_shapes: 50, interrupt: Interrupt::default() }
    }
}

/// Says which share of what is free the mix of running and pending pods could not use, by resource and pool of nodes.
///
/// O(pods log pods) for the mix, O(nodes + pods) for a copy, and O(nodes × plugins) for each shape. The engine is not changed.
pub fn fragmentation(
    engine: &Engine,
    options: &FragmentationOptions,
    now: Timestamp,
) -> Fragmentation {
    let mut shapes = Shapes::of(engine);
    let n_shapes = shapes.all.len();
    shapes.all.truncate(options.max_shapes);
    let mut course = Course::new(engine, now, 0, &options.interrupt);
    course.leave_pending_aside();
    let mut tally = Tally::default();
    let mut answers: Vec<ShapeAnswer> = Vec::new();
    let mut n_failed = 0;
    for shape in shapes.all.iter().take_while(|_| !options.interrupt.is_set()) {
        let engine = &mut course.engine;
        let random = engine.next_random();
        let found = engine.explain(&shape.pod, random, now).filter(|found| found.error.is_none());
        let Some(found) = found else {
            n_failed += shape.n_pods;
            continue;
        };
        tally.add(engine.cluster(), shape, &found, options.by.as_deref());
        answers.push(shape_answer(shape, &found));
    }
    let n_judged: usize = answers.iter().map(|shape| shape.pods).sum();
    let mut warnings = Vec::new();
    if shapes.n_with_claims > 0 {
        let pods = count(shapes.n_with_claims, "pod");
        warnings.push(format!("{pods} with resource claims left aside: devices are not counted"));
    }
    if n_failed > 0 {
        warnings.push(format!("{} left aside because a plugin failed", count(n_failed, "pod")));
    }
    warnings.extend(course.warnings_about_outside());
    let cluster = course.engine.cluster();
    let pools = pools(cluster, &tally, options);
    if options.interrupt.is_set() {
        warnings.push("the answer is cut short: it took too long".to_owned());
    }
    Fragmentation {
        api_version: API_VERSION,
        kind: "Fragmentation",
        as_of: as_of(now),
        pods: n_judged,
        other_pods: shapes.n_pods - n_judged - n_failed,
        n_shapes,
        shapes: answers,
        resources: tally.resources(cluster, None, cluster.order()),
        pools,
        by: options.by.clone(),
        warnings,
    }
}

fn shape_answer(shape: &Shape, found: &AttemptExplanation) -> ShapeAnswer {
    let asked = requested(&shape.pod).into_iter().filter(|(_, amount)| *amount > 0);
    ShapeAnswer {
        example: shape.example.clone(),
        pods: shape.n_pods,
        requests: asked.map(|(name, n)| (name.to_string(), quantity(&name, n))).collect(),
        feasible: found.nodes.iter().filter(|node| node.status.is_success()).count(),
    }
}

/// The value of a label of nodes; `None` for nodes without it.
type Pool = Option<Arc<str>>;

/// Amounts by the plugin that is in the way.
type ByPlugin = BTreeMap<String, i128>;

/// Free amounts times the pods that could not use them, by resource, pool and the plugin that is in the way.
#[derive(Debug, Default)]
struct Tally {
    lost: BTreeMap<Arc<str>, BTreeMap<Pool, ByPlugin>>,
    /// How many pods ask for a resource.
    asked: BTreeMap<Arc<str>, i128>,
}

impl Tally {
    fn add(
        &mut self,
        cluster: &ClusterState,
        shape: &Shape,
        found: &AttemptExplanation,
        by: Option<&str>,
    ) {
        let n_pods = i128::try_from(shape.n_pods).unwrap_or(i128::MAX);
        let asked = requested(&shape.pod).into_iter().filter(|(_, amount)| *amount > 0);
        let asked: Vec<Arc<str>> = asked.map(|(name, _)| name).collect();
        for resource in &asked {
            *self.asked.entry(resource.clone()).or_default() += n_pods;
        }
        for node in found.nodes.iter().filter(|node| !node.status.is_success()) {
            let Some(idx) = cluster.node_idx(&node.name) else { continue };
            let pool = pool_of(cluster, idx, by);
            let plugin = Rejection::from(&node.status).plugin;
            for resource in &asked {
                let free = i128::from(free(cluster, resource, idx).max(0));
                let by_pool = self.lost.entry(resource.clone()).or_default();
                let lost = by_pool.entry(pool.clone()).or_default();
                let sum = lost.entry(plugin.clone()).or_default();
                *sum = sum.saturating_add(free.saturating_mul(n_pods));
            }
        }
    }

    /// What is lost of each resource on the nodes of a pool, or of all pools.
    fn resources(
        &self,
        cluster: &ClusterState,
        pool: Option<&Pool>,
        nodes: &[NodeIdx],
    ) -> Vec<FragmentedResource> {
        let nodes = || nodes.iter().copied();
        let resources = self.asked.iter().map(|(resource, n_asking)| {
            let has = nodes().map(|idx| i128::from(allocatable(cluster, resource, idx))).sum();
            let free: i128 =
                nodes().map(|idx| i128::from(free(cluster, resource, idx).max(0))).sum();
            let mut by_plugin: BTreeMap<&str, i128> = BTreeMap::new();
            for (plugin, lost) in self.lost_of(resource, pool).into_iter().flatten() {
                *by_plugin.entry(plugin).or_default() += lost;
            }
            let unusable = by_plugin.values().sum::<i128>() / n_asking;
            let mut because: Vec<(&str, i128)> =
                by_plugin.into_iter().map(|(plugin, lost)| (plugin, lost / n_asking)).collect();
            because.sort_by_key(|(_, lost)| Reverse(*lost));
            let amount = |n: i128| quantity(resource, i64::try_from(n).unwrap_or(i64::MAX));
            FragmentedResource {
                resource: resource.to_string(),
                allocatable: amount(has),
                free: amount(free),
                unusable: amount(unusable),
                permille: permille(unusable, free),
                because: because
                    .into_iter()
                    .filter(|(_, lost)| *lost > 0)
                    .map(|(plugin, lost)| FragmentCause {
                        plugin: plugin.to_owned(),
                        unusable: amount(lost),
                    })
                    .collect(),
            }
        });
        resources.collect()
    }

    /// What is lost of a resource on the nodes of a pool, or in each pool.
    fn lost_of(&self, resource: &str, pool: Option<&Pool>) -> Vec<&ByPlugin> {
        let Some(by_pool) = self.lost.get(resource) else { return Vec::new() };
        match pool {
            Some(pool) => by_pool.get(pool).into_iter().collect(),
            None => by_pool.values().collect(),
        }
    }
}

/// A share in thousandths, to the nearest; 0 of nothing.
fn permille(part: i128, all: i128) -> u32 {
    if all == 0 {
        return 0;
    }
    u32::try_from((part * 1_000 + all / 2) / all).unwrap_or(u32::MAX)
}

fn pool_of(cluster: &ClusterState, idx: NodeIdx, by: Option<&str>) -> Pool {
    let value = cluster.node(idx)?.labels.get(by?)?;
    Some(value.into())
}

/// What is lost in each pool; each node is looked at in its own.
fn pools(cluster: &ClusterState, tally: &Tally, options: &FragmentationOptions) -> Vec<NodePool> {
    let by = options.by.as_deref();
    if by.is_none() {
        return Vec::new();
    }
    let mut nodes: BTreeMap<Pool, Vec<NodeIdx>> = BTreeMap::new();
    for idx in cluster.order() {
        nodes.entry(pool_of(cluster, *idx, by)).or_default().push(*idx);
    }
    let nodes = nodes.into_iter().take_while(|_| !options.interrupt.is_set());
    let pools = nodes.map(|(pool, nodes)| NodePool {
        nodes: nodes.len(),
        resources: tally.resources(cluster, Some(&pool), &nodes),
        pool: pool.map(|value| value.to_string()),
    });
    pools.collect()
}

#[cfg(test)]
mod tests {
    use super::permille;

    #[test]
    fn shares_are_rounded_to_the_nearest() {
        assert_eq!(
            [permille(1, 3), permille(2, 3), permille(5, 5), permille(0, 0)],
            [333, 667, 1_000, 0]
        );
    }
}
