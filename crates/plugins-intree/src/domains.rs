//! What the plugins that look at topology domains have in common: counters that the cluster follows or that are counted
//! for one attempt, and which nodes stand alike.

use std::sync::Arc;

use kube_scheduler_framework::columns::LabelColumn;
use kube_scheduler_framework::counters::{CounterId, CounterSpec, DomainCounts};
use kube_scheduler_framework::{ClusterView, NodeIdx};

/// A topology key with more values than this groups nodes by what their domains hold, not by the value.
const FEW_VALUES: usize = 64;

/// A counter that an attempt reads.
#[derive(Clone, Debug)]
pub(crate) enum Counter {
    /// Kept up to date by the cluster. By number, since a shared reference would make the next change copy it.
    Followed(CounterId),
    /// Counted for this attempt.
    Counted(Arc<DomainCounts>),
}

impl Counter {
    /// The counters of `specs`, in their order. O(1) for each that the cluster follows.
    pub(crate) fn all<'a>(
        cluster: ClusterView<'_>,
        specs: impl Iterator<Item = &'a CounterSpec> + Clone,
    ) -> Vec<Self> {
        let ids: Vec<_> = specs.clone().map(|spec| cluster.followed_id(spec)).collect();
        let others = specs.zip(&ids).filter(|(_, id)| id.is_none()).map(|(spec, _)| spec);
        let mut counted = cluster.count_pods_of_each(others).into_iter();
        let counter = |id: Option<CounterId>| {
            id.map(Self::Followed).or_else(|| counted.next().map(Self::Counted))
        };
        ids.into_iter().filter_map(counter).collect()
    }

    /// What it counts now; `None` when the cluster no longer follows it.
    #[inline]
    pub(crate) fn counts<'a>(&'a self, cluster: ClusterView<'a>) -> Option<&'a DomainCounts> {
        match self {
            Self::Followed(id) => cluster.followed_by_id(*id),
            Self::Counted(counts) => Some(counts),
        }
    }
}

/// The numbers of counters; `None` when one of them is not followed.
pub(crate) fn followed(
    cluster: ClusterView<'_>,
    specs: impl Iterator<Item = CounterSpec>,
) -> Option<Vec<CounterId>> {
    specs.map(|spec| cluster.followed_id(&spec)).collect()
}

/// Whether a topology key has so many values that nodes are told apart by what their domains hold.
pub(crate) fn has_many_values(column: &LabelColumn) -> bool {
    column.n_values() > FEW_VALUES
}

/// Adds to `moved` the nodes that share a domain with one of `changed`, if their standing shows what the domain holds.
pub(crate) fn add_neighbours(column: &LabelColumn, changed: &[NodeIdx], moved: &mut Vec<NodeIdx>) {
    if has_many_values(column) {
        for node in changed {
            let neighbours = column.nodes(column.id(*node)).filter(|nodes| nodes.len() > 1);
            moved.extend(neighbours.into_iter().flat_map(|nodes| nodes.iter()));
        }
    }
}
