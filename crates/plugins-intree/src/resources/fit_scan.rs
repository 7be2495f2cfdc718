//! Comparing one demand with all nodes, column by column.
//!
//! Invariant: [`Scan::check`] and [`Scan::nowhere`] find the same shortages as a check of the node itself;
//! [`Scan::visit_short`] leaves out no node for which they find any.

use kube_scheduler_framework::columns::{
    COLUMN_CHUNK, Column, Headroom, RequiredHeadroom, runs_by_chunk,
};
use kube_scheduler_framework::{ClusterView, NodeIdx};
use smallvec::SmallVec;

use super::demand::{Demand, Shortages, is_full, is_short};
use super::resource::COMPUTE;

/// From how many nodes in a chunk on it is worth looking at all of the chunk. Without that an attempt takes two percent longer
/// with 5,000 nodes, and as long with 500 (`bench core --workload EveryPodDifferent`).
const WORTH_A_CHUNK: usize = COLUMN_CHUNK / 8;

/// The columns that a demand has to be compared with, found once for all nodes.
pub(super) struct Scan<'a> {
    headroom: &'a Column<Headroom>,
    /// `None` when headroom alone cannot decide, which is so where scalar resources are compared. Without headroom an
    /// attempt takes a sixth longer (`bench core --workload EveryPodDifferent`).
    needed: Option<RequiredHeadroom>,
    pod_count: &'a Column<i64>,
    allowed_pods: &'a Column<i64>,
    items: SmallVec<[ScanItem<'a>; 4]>,
    /// Scalar resources that no node has: every node is short of them, whatever else it has.
    nowhere: SmallVec<[u16; 2]>,
}

/// One resource that is asked for.
struct ScanItem<'a> {
    what: u16,
    request: i64,
    allocatable: &'a Column<i64>,
    /// `None`: no pod has any.
    requested: Option<&'a Column<i64>>,
    /// Dynamic resource allocation decides for nodes that have none.
    is_served: bool,
}

impl<'a> Scan<'a> {
    /// Finds the columns. `is_served` says which scalar resources dynamic resource allocation may provide instead.
    pub(super) fn new(
        cluster: ClusterView<'a>,
        demand: &Demand,
        is_served: impl Fn(&str) -> bool,
    ) -> Self {
        let (allocatable, requested) = (cluster.allocatable(), cluster.requested());
        let mut items: SmallVec<[ScanItem<'a>; 4]> = SmallVec::new();
        for (what, (resource, request)) in
            (Shortages::CPU..).zip(COMPUTE.iter().zip(demand.compute))
        {
            // A request of zero is never short, even on an over-committed node, so it needs no comparison.
            if request > 0
                && let Some(allocatable) = resource.column(allocatable)
            {
                let requested = resource.column(requested);
                items.push(ScanItem { what, request, allocatable, requested, is_served: false });
            }
        }
        let n_compute = items.len();
        let mut nowhere = SmallVec::new();
        for (what, scalar) in (Shortages::FIRST_SCALAR..).zip(&demand.scalars) {
            let (request, is_served) = (scalar.amount, is_served(&scalar.name));
            let requested = requested.scalar(&scalar.name);
            match allocatable.scalar(&scalar.name) {
                Some(allocatable) => {
                    items.push(ScanItem { what, request, allocatable, requested, is_served });
                }
                // No node has any: dynamic resource allocation decides, or every node is short.
                None if is_served || request <= 0 => {}
                None => nowhere.push(what),
            }
        }
        let is_compute_only = items.len() == n_compute && nowhere.is_empty();
        let [milli_cpu, memory, ephemeral_storage] = demand.compute;
        let needed = RequiredHeadroom::new(milli_cpu, memory, ephemeral_storage);
        Self {
            headroom: cluster.headroom(),
            needed: needed.filter(|_| is_compute_only),
            pod_count: cluster.pod_count(),
            allowed_pods: cluster.allowed_pods(),
            items,
            nowhere,
        }
    }

    /// Visits those of `nodes` that may be short of something: all that are, and perhaps others.
    pub(super) fn visit_short(&self, nodes: &[NodeIdx], mut visit: impl FnMut(NodeIdx)) {
        let Some(needed) = self.needed else {
            return nodes.iter().filter(|idx| !self.fits(**idx)).for_each(|idx| visit(*idx));
        };
        for (at, run) in runs_by_chunk(nodes) {
            // Columns have a chunk for every slot.
            let Some(free) = self.headroom.chunk(at) else { return };
            if run.len() >= WORTH_A_CHUNK && Headroom::all_have(free, needed) {
                continue;
            }
            let in_doubt = run.iter().filter(|idx| {
                !free[idx.index() % COLUMN_CHUNK].surely_has(needed) && !self.fits(**idx)
            });
            in_doubt.for_each(|idx| visit(*idx));
        }
    }

    /// What every node is short of, beside what [`check`](Self::check) finds.
    pub(super) fn nowhere(&self) -> &[u16] {
        &self.nowhere
    }

    /// Whether a node is short of nothing, which most nodes are: the fast way to an empty [`check`](Self::check).
    #[inline]
    fn fits(&self, node: NodeIdx) -> bool {
        if !self.nowhere.is_empty() {
            return false;
        }
        let has_room = !is_full(self.pod_count.get(node), self.allowed_pods.get(node));
        self.items.iter().fold(has_room, |fits, item| {
            let requested = item.requested.map_or(0, |column| column.get(node));
            fits & !is_short(item.request, item.allocatable.get(node), requested)
        })
    }

    /// What a node is short of, except for what no node has.
    #[inline]
    pub(super) fn check(&self, node: NodeIdx, shortages: &mut Shortages) {
        shortages.clear();
        shortages.check_pods(self.pod_count.get(node), self.allowed_pods.get(node));
        for item in &self.items {
            let capacity = item.allocatable.get(node);
            if capacity > 0 || !item.is_served {
                let requested = item.requested.map_or(0, |column| column.get(node));
                shortages.check(item.what, item.request, capacity, requested);
            }
        }
    }
}
