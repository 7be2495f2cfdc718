//! The amounts that resource scores are computed from: allocatable, used before, used with the pod.
//!
//! Invariants: a resource that cannot count for a pod (not a compute or scalar resource, or a scalar one the pod does
//! not ask for) is left out when the plan for the pod is made; a resource that a node does not have is left out for
//! that node. What one node view and a whole scan see is computed by the same code.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.4.

use kube_scheduler_framework::api::{Pod, Resources};
use kube_scheduler_framework::columns::Column;
use kube_scheduler_framework::{ClusterView, NodeIdx, NodeView};
use smallvec::SmallVec;

use super::resource::Resource;
use crate::dynamic_resources::totals::{DeviceTotals, ScoredDevices};

/// A configured resource and its weight. Of a name that is no resource to the scheduler, no node has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoredResource {
    pub(crate) resource: Resource,
    pub(crate) weight: i64,
}

/// Which "used" counts for CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedBasis {
    /// With defaults filled in for containers that ask for nothing.
    NonZero,
    /// As asked for.
    Plain,
}

/// One resource of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amounts {
    /// Never zero.
    pub(crate) allocatable: i64,
    pub(crate) before: i64,
    pub(crate) after: i64,
    pub(crate) weight: i64,
}

/// What the scores of one pod are computed from.
pub(super) struct Scoring<'a> {
    /// The reference's name of what computes the scores.
    pub(super) scorer: &'static str,
    pub(super) resources: &'a [ScoredResource],
    pub(super) request: &'a Resources,
    pub(super) basis: UsedBasis,
    /// Present if device classes may serve extended resources.
    pub(super) devices: Option<&'a ScoredDevices>,
}

/// Makes a score of the amounts of the resources that count on a node, each with an allocatable other than zero.
pub(super) trait ScoreAmounts {
    fn score(&self, amounts: impl Iterator<Item = Amounts>) -> i64;
}

impl Scoring<'_> {
    /// The score of one node, which may be hypothetical.
    pub(super) fn of_node(&self, node: &NodeView<'_>, how: &impl ScoreAmounts) -> i64 {
        let plan = Plan::new(self.resources, |it| it.of(self.request), self.basis);
        let totals = plan.totals(self.devices, node.cluster());
        how.score(plan.on_view(node, totals.as_ref()))
    }

    /// The scores of many nodes, which go to the log as well.
    pub(super) fn of_nodes(
        &self,
        cluster: ClusterView<'_>,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
        how: &impl ScoreAmounts,
    ) {
        let plan = Plan::new(self.resources, |it| it.of(self.request), self.basis);
        let totals = plan.totals(self.devices, cluster);
        let scan = plan.over(cluster);
        let both = nodes.iter().zip(scores.iter_mut());
        // Two loops: looking at each node whether there are devices adds a sixth to the instructions of a score.
        if totals.is_some() {
            for (&idx, score) in both {
                let score_on = |node| how.score(plan.on_view(&node, totals.as_ref()));
                *score = cluster.node(idx).map_or(0, score_on);
            }
        } else {
            both.for_each(|(&idx, score)| *score = how.score(scan.at(idx)));
        }
        self.log(cluster, pod, nodes, scores, totals.as_ref());
    }
}

/// What has to be looked at for one pod: the resources that can count, with what the pod asks of each.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    items: SmallVec<[Item<'a>; 4]>,
    basis: UsedBasis,
}

#[derive(Clone, Copy, Debug)]
struct Item<'a> {
    resource: &'a Resource,
    request: i64,
    weight: i64,
}

impl<'a> Plan<'a> {
    /// `request` says how much is asked for of a resource.
    pub(super) fn new(
        scored: &'a [ScoredResource],
        request: impl Fn(&Resource) -> i64,
        basis: UsedBasis,
    ) -> Self {
        let items = scored.iter().filter_map(|scored| {
            let resource = &scored.resource;
            let request = request(resource);
            let counts = request != 0 || !matches!(resource, Resource::Scalar(_));
            counts.then_some(Item { resource, request, weight: scored.weight })
        });
        Self { items: items.collect(), basis }
    }

    /// The devices behind the resources that device classes serve; `None` if there are none.
    pub(super) fn totals(
        &self,
        devices: Option<&'a ScoredDevices>,
        cluster: ClusterView<'_>,
    ) -> Option<DeviceTotals<'a>> {
        let scalars = self.items.iter().filter_map(|item| match item.resource {
            Resource::Scalar(name) => Some(name),
            _ => None,
        });
        devices?.totals(cluster, scalars)
    }

    /// The amounts on one node, which may be hypothetical. Of a resource that the node itself has none of, those of its
    /// devices in `totals`.
    pub(super) fn on_view(
        &self,
        node: &NodeView<'_>,
        totals: Option<&DeviceTotals<'_>>,
    ) -> impl Iterator<Item = Amounts> {
        let allocatable = node.allocatable();
        self.items.iter().filter_map(move |item| {
            let (capacity, used) = match (item.resource, self.basis) {
                (Resource::Cpu, UsedBasis::NonZero) => {
                    (allocatable.milli_cpu, node.non_zero_requested().milli_cpu)
                }
                (Resource::Memory, UsedBasis::NonZero) => {
                    (allocatable.memory, node.non_zero_requested().memory)
                }
                (Resource::Scalar(name), _) if item.resource.of(allocatable) == 0 => {
                    totals?.on(name, node)?
                }
                (resource, _) => (resource.of(allocatable), resource.requested_on(node)),
            };
            item.amounts(capacity, used)
        })
    }

    /// This plan for many nodes: finds the columns once, for all of them.
    pub(super) fn over(&self, cluster: ClusterView<'a>) -> ScanPlan<'a> {
        let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
        let items = self.items.iter().filter_map(|&item| {
            let capacity = item.resource.column(allocatable)?;
            let used = match (item.resource, self.basis) {
                (Resource::Cpu, UsedBasis::NonZero) => Some(cluster.non_zero_milli_cpu()),
                (Resource::Memory, UsedBasis::NonZero) => Some(cluster.non_zero_memory()),
                (resource, _) => resource.column(requested),
            };
            Some(ScanItem { item, capacity, used })
        });
        ScanPlan { items: items.collect() }
    }
}

impl Item<'_> {
    fn amounts(&self, allocatable: i64, before: i64) -> Option<Amounts> {
        if allocatable == 0 {
            return None;
        }
        Some(Amounts {
            allocatable,
            before,
            after: before.wrapping_add(self.request),
            weight: self.weight,
        })
    }
}

/// A [`Plan`] with its columns.
#[derive(Debug)]
pub(super) struct ScanPlan<'a> {
    items: SmallVec<[ScanItem<'a>; 4]>,
}

#[derive(Debug)]
struct ScanItem<'a> {
    item: Item<'a>,
    capacity: &'a Column<i64>,
    /// `None` when no pod uses any of it.
    used: Option<&'a Column<i64>>,
}

impl ScanPlan<'_> {
    /// The amounts on one node. O(resources), no hashing, no allocation.
    #[inline]
    pub(super) fn at(&self, node: NodeIdx) -> impl Iterator<Item = Amounts> {
        self.items.iter().filter_map(move |item| {
            item.item
                .amounts(item.capacity.get(node), item.used.map_or(0, |column| column.get(node)))
        })
    }

    /// The amounts of all these nodes together.
    pub(super) fn of_all(&self, nodes: &[NodeIdx]) -> impl Iterator<Item = Amounts> {
        let sum = |column: &Column<i64>| {
            nodes.iter().fold(0, |sum: i64, node| sum.wrapping_add(column.get(*node)))
        };
        self.items.iter().filter_map(move |ScanItem { item, capacity, used }| {
            item.amounts(sum(capacity), used.map_or(0, sum))
        })
    }
}
