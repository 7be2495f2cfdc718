//! The amounts that resource scores are computed from: allocatable, used before, used with the pod.
//!
//! Invariants: a resource that cannot count for a pod (not a compute or scalar resource, or a scalar one the pod does
//! not ask for) is left out when the plan for the pod is made; a resource that a node does not have is left out for
//! that node. What one node view and a whole scan see is computed by the same code.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.4.

use std::sync::Arc;

use kube_scheduler_framework::api::{
    CPU, EPHEMERAL_STORAGE, MEMORY, Resources, is_scalar_resource,
};
use kube_scheduler_framework::columns::Column;
use kube_scheduler_framework::{ClusterView, NodeIdx, NodeView};
use smallvec::SmallVec;

use super::resource::Resource;
use crate::dynamic_resources::totals::{DeviceTotals, ScoredDevices};

/// A resource named by a plugin's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A compute or scalar resource.
    Counted(Resource),
    /// Never has a capacity to the scheduler; kept because a request for it still counts as a request.
    Other(Arc<str>),
}

/// A configured resource and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoredResource {
    pub(crate) kind: Kind,
    pub(crate) weight: i64,
}

impl ScoredResource {
    pub(crate) fn new(name: &str, weight: i64) -> Self {
        let kind = match name {
            CPU | MEMORY | EPHEMERAL_STORAGE => Kind::Counted(Resource::named(name)),
            _ if is_scalar_resource(name) => Kind::Counted(Resource::named(name)),
            _ => Kind::Other(name.into()),
        };
        Self { kind, weight }
    }
}

/// Which "used" counts for CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedBasis {
    /// With defaults filled in for containers that ask for nothing.
    NonZero,
    /// As asked for.
    Plain,
}

/// One resource of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// Never zero.
    pub(crate) allocatable: i64,
    pub(crate) before: i64,
    pub(crate) after: i64,
    pub(crate) weight: i64,
}

/// What has to be looked at for one pod: the resources that can count, with what the pod asks of each.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
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
    pub(crate) fn new(scored: &'a [ScoredResource], request: &Resources, basis: UsedBasis) -> Self {
        let items = scored.iter().filter_map(|scored| {
            let Kind::Counted(resource) = &scored.kind else { return None };
            let request = resource.of(request);
            let counts = request != 0 || !matches!(resource, Resource::Scalar(_));
            counts.then_some(Item { resource, request, weight: scored.weight })
        });
        Self { items: items.collect(), basis }
    }

    /// The devices behind the resources that device classes serve; `None` if there are none.
    pub(crate) fn totals(
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
    pub(crate) fn on_view(
        &self,
        node: &NodeView<'_>,
        totals: Option<&DeviceTotals<'_>>,
    ) -> impl Iterator<Item = Amounts> {
        let allocatable = node.allocatable();
        self.items.iter().filter_map(move |item| {
            let (capacity, used) = match item.resource {
                Resource::Cpu => (
                    allocatable.milli_cpu,
                    match self.basis {
                        UsedBasis::NonZero => node.non_zero_requested().milli_cpu,
                        UsedBasis::Plain => node.requested_milli_cpu(),
                    },
                ),
                Resource::Memory => (
                    allocatable.memory,
                    match self.basis {
                        UsedBasis::NonZero => node.non_zero_requested().memory,
                        UsedBasis::Plain => node.requested_memory(),
                    },
                ),
                Resource::EphemeralStorage => {
                    (allocatable.ephemeral_storage, node.requested_ephemeral_storage())
                }
                Resource::Scalar(name) => match allocatable.scalar(name).unwrap_or(0) {
                    0 => totals?.on(name, node)?,
                    own => (own, node.requested_scalar(name)),
                },
            };
            item.amounts(capacity, used)
        })
    }

    /// This plan for many nodes: finds the columns once, for all of them.
    pub(crate) fn over(&self, cluster: ClusterView<'a>) -> ScanPlan<'a> {
        let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
        let items = self.items.iter().filter_map(|&item| {
            let (capacity, used) = match item.resource {
                Resource::Cpu => (
                    allocatable.milli_cpu(),
                    Some(match self.basis {
                        UsedBasis::NonZero => cluster.non_zero_milli_cpu(),
                        UsedBasis::Plain => requested.milli_cpu(),
                    }),
                ),
                Resource::Memory => (
                    allocatable.memory(),
                    Some(match self.basis {
                        UsedBasis::NonZero => cluster.non_zero_memory(),
                        UsedBasis::Plain => requested.memory(),
                    }),
                ),
                Resource::EphemeralStorage => {
                    (allocatable.ephemeral_storage(), Some(requested.ephemeral_storage()))
                }
                Resource::Scalar(name) => (allocatable.scalar(name)?, requested.scalar(name)),
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
pub(crate) struct ScanPlan<'a> {
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
    pub(crate) fn at(&self, node: NodeIdx) -> impl Iterator<Item = Amounts> {
        self.items.iter().filter_map(move |item| {
            item.item
                .amounts(item.capacity.get(node), item.used.map_or(0, |column| column.get(node)))
        })
    }
}
