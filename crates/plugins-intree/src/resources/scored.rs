//! The amounts that resource scores are computed from: allocatable, used before, used with the pod.
//!
//! Invariants: a resource that cannot count for a pod (not a compute or scalar resource, or a scalar one the pod does
//! not ask for) is left out when the plan for the pod is made; a resource that a node does not have is left out for
//! that node. What one node view and a whole scan see is computed by the same code.
//!
//! Behaviour in `spec/plugins-node.md` §4.8.4.

use std::sync::Arc;

use kube_scheduler_framework::api::{Resources, is_scalar_resource};
use kube_scheduler_framework::{ClusterState, Column, MAX_NODE_SCORE, NodeIdx, NodeView};
use smallvec::SmallVec;

use super::strategy::Strategy;

/// A resource named by a plugin's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Arc<str>),
    /// Never has a capacity to the scheduler; kept because a request for it still counts as a request.
    Other(Arc<str>),
}

/// A configured resource and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scored {
    pub(crate) kind: Kind,
    pub(crate) weight: i64,
}

impl Scored {
    pub(crate) fn new(name: &str, weight: i64) -> Self {
        let kind = match name {
            "cpu" => Kind::Cpu,
            "memory" => Kind::Memory,
            "ephemeral-storage" => Kind::EphemeralStorage,
            _ if is_scalar_resource(name) => Kind::Scalar(name.into()),
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
    kind: &'a Kind,
    request: i64,
    weight: i64,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(scored: &'a [Scored], request: &Resources, basis: UsedBasis) -> Self {
        let items = scored.iter().filter_map(|scored| {
            let request = match &scored.kind {
                Kind::Cpu => request.milli_cpu,
                Kind::Memory => request.memory,
                Kind::EphemeralStorage => request.ephemeral_storage,
                Kind::Scalar(name) => request.scalar(name).filter(|amount| *amount != 0)?,
                Kind::Other(_) => return None,
            };
            Some(Item { kind: &scored.kind, request, weight: scored.weight })
        });
        Self { items: items.collect(), basis }
    }

    /// The amounts on one node, which may be hypothetical.
    pub(crate) fn on_view(&self, node: &NodeView<'_>) -> impl Iterator<Item = Amounts> {
        let allocatable = node.allocatable();
        self.items.iter().filter_map(move |item| {
            let (capacity, used) = match item.kind {
                Kind::Cpu => (
                    allocatable.milli_cpu,
                    match self.basis {
                        UsedBasis::NonZero => node.non_zero_requested().milli_cpu,
                        UsedBasis::Plain => node.requested_milli_cpu(),
                    },
                ),
                Kind::Memory => (
                    allocatable.memory,
                    match self.basis {
                        UsedBasis::NonZero => node.non_zero_requested().memory,
                        UsedBasis::Plain => node.requested_memory(),
                    },
                ),
                Kind::EphemeralStorage => {
                    (allocatable.ephemeral_storage, node.requested_ephemeral_storage())
                }
                Kind::Scalar(name) => {
                    (allocatable.scalar(name).unwrap_or(0), node.requested_scalar(name))
                }
                Kind::Other(_) => return None,
            };
            item.amounts(capacity, used)
        })
    }

    /// The same over columns: finds the columns once, for all nodes.
    pub(crate) fn over(&self, cluster: &'a ClusterState) -> ScanPlan<'a> {
        let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
        let (non_zero_milli_cpu, non_zero_memory) = cluster.non_zero_requested();
        let items = self.items.iter().filter_map(|&item| {
            let (capacity, used) = match item.kind {
                Kind::Cpu => (
                    allocatable.milli_cpu(),
                    Some(match self.basis {
                        UsedBasis::NonZero => non_zero_milli_cpu,
                        UsedBasis::Plain => requested.milli_cpu(),
                    }),
                ),
                Kind::Memory => (
                    allocatable.memory(),
                    Some(match self.basis {
                        UsedBasis::NonZero => non_zero_memory,
                        UsedBasis::Plain => requested.memory(),
                    }),
                ),
                Kind::EphemeralStorage => {
                    (allocatable.ephemeral_storage(), Some(requested.ephemeral_storage()))
                }
                Kind::Scalar(name) => (allocatable.scalar(name)?, requested.scalar(name)),
                Kind::Other(_) => return None,
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
    /// `None`: nobody uses any.
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

impl<'a> ScanPlan<'a> {
    /// The plan's two resources, if it has exactly two: the common case, which is worth a loop of its own.
    pub(crate) fn pair(&self) -> Option<Pair<'a>> {
        let [a, b] = &*self.items else { return None };
        let columns = |item: &ScanItem<'a>| {
            let ScanItem { item: Item { request, weight, .. }, capacity, used } = *item;
            Some(Columns { request, weight, capacity, used: used? })
        };
        Some(Pair([columns(a)?, columns(b)?]))
    }
}

/// Two resources with their columns.
#[derive(Debug)]
pub(crate) struct Pair<'a>([Columns<'a>; 2]);

#[derive(Debug)]
struct Columns<'a> {
    request: i64,
    weight: i64,
    capacity: &'a Column<i64>,
    used: &'a Column<i64>,
}

impl Columns<'_> {
    #[inline]
    fn at(&self, node: NodeIdx) -> Option<Amounts> {
        let Self { request, weight, .. } = *self;
        let (allocatable, before) = (self.capacity.get(node), self.used.get(node));
        let after = before.wrapping_add(request);
        (allocatable != 0).then_some(Amounts { allocatable, before, after, weight })
    }
}

impl Pair<'_> {
    /// The amounts on one node; `None` for a resource that it does not have.
    #[inline]
    pub(crate) fn at(&self, node: NodeIdx) -> [Option<Amounts>; 2] {
        [self.0[0].at(node), self.0[1].at(node)]
    }

    /// What [`Strategy::LeastAllocated`](super::strategy::Strategy) gives to each of `nodes`.
    pub(crate) fn score_least_allocated(&self, nodes: &[NodeIdx], scores: &mut [i64]) {
        let weights = self.0[0].weight + self.0[1].weight;
        for (&idx, score) in nodes.iter().zip(scores) {
            *score = match self.at(idx) {
                [Some(a), Some(b)] => {
                    let sum = free_percent(&a).wrapping_mul(a.weight);
                    let sum = sum.wrapping_add(free_percent(&b).wrapping_mul(b.weight));
                    quotient(sum, weights)
                }
                amounts => Strategy::LeastAllocated.score(amounts.into_iter().flatten()),
            };
        }
    }
}

/// How much of a resource stays free, in percent, truncated; 0 when more is used than there is.
#[inline]
fn free_percent(amounts: &Amounts) -> i64 {
    /// Up to here a product with 100 is an exact float, and rounding a quotient of such numbers never reaches the next
    /// whole percent: the two differ by 1/allocatable at least, which is more than the rounding of a number below 128.
    const EXACT: i64 = 1 << 45;
    let Amounts { allocatable, after, .. } = *amounts;
    if after > allocatable {
        return 0;
    }
    let free = allocatable.wrapping_sub(after);
    if allocatable > 0 && allocatable < EXACT && after >= 0 {
        return ((free * 100) as f64 / allocatable as f64) as i64;
    }
    free.wrapping_mul(MAX_NODE_SCORE).wrapping_div(allocatable)
}

/// Truncated division; the short form takes a fraction of the time.
#[inline]
fn quotient(sum: i64, weights: i64) -> i64 {
    match (u32::try_from(sum), u32::try_from(weights)) {
        (Ok(sum), Ok(weights)) if weights > 0 => i64::from(sum / weights),
        _ if weights == 0 => 0,
        _ => sum.wrapping_div(weights),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy as AnyStrategy;

    use super::*;

    fn amount() -> impl AnyStrategy<Value = i64> {
        prop_oneof![0_i64..300, 0_i64..1 << 46, any::<i64>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn short_forms_give_what_the_long_ones_give(
            allocatable in amount().prop_filter("resource exists", |n| *n != 0),
            before in amount(),
            request in amount(),
            weight in 1_i64..200,
        ) {
            let after = before.wrapping_add(request);
            let amounts = Amounts { allocatable, before, after, weight };
            let long = Strategy::LeastAllocated.score(std::iter::once(amounts));
            let short = quotient(free_percent(&amounts).wrapping_mul(weight), weight);
            prop_assert_eq!(short, long);
        }
    }
}
