//! What the pods on a node request of scalar resources, also of those that no node offers.
//!
//! Sums are kept for resources that some node offers ([`ResourceColumns`](crate::columns::ResourceColumns)). Pods may name thousands
//! of others; what they request of these is looked up in the pods when it is asked for, and no decision asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Resources};

use crate::change_log::ChangeKinds;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// # What pods request
impl ClusterState {
    /// How much of a scalar resource the pods on a node request; `None` if none of them names it. O(log scalar resources) if some
    /// node offers it, O(pods on the node) if not.
    pub fn requested_scalar(&self, name: &str, node: NodeIdx) -> Option<i64> {
        if self.columns.requested.scalar(name).is_some() {
            return self.columns.requested.scalar_at(name, node);
        }
        let asked = self.pods.with_scalars(node);
        asked.filter_map(|pod| pod.requests.accounted.scalar(name)).reduce(i64::wrapping_add)
    }

    /// Everything that the pods on a node request. O(scalar resources + what these pods name).
    pub fn requested_on(&self, node: NodeIdx) -> Resources {
        let mut requested = self.columns.requested.resources_of(node);
        self.add_unoffered(self.pods.with_scalars(node), &mut requested);
        requested
    }

    /// Adds what pods request of scalar resources that no node offers.
    pub(crate) fn add_unoffered<'a>(
        &self,
        pods: impl Iterator<Item = &'a Arc<Pod>>,
        requested: &mut Resources,
    ) {
        let mut unoffered: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for (name, amount) in pods.flat_map(|pod| &pod.requests.accounted.scalars) {
            if self.columns.allocatable.scalar(name).is_none() {
                let sum = unoffered.entry(name.clone()).or_default();
                *sum = sum.wrapping_add(*amount);
            }
        }
        if !unoffered.is_empty() {
            requested.scalars.extend(unoffered);
            requested.scalars.sort_unstable();
        }
    }

    /// What a node has for pods from now on. O(names); O(pods) if some node offers a resource now and none did before, or none
    /// does any more.
    pub(crate) fn set_allocatable(&mut self, node: NodeIdx, amounts: &Resources) {
        let followed = self.columns.set_allocatable(node, amounts);
        let mut others = Vec::new();
        for name in &followed.lost {
            others.extend(self.pods.scalar_lost(name));
        }
        for name in &followed.gained {
            for (node, amount) in self.pods.scalar_gained(name) {
                self.columns.requested.add_scalar(name, node, amount);
                others.push(node);
            }
        }
        others.sort_unstable();
        others.dedup();
        // Their sums are others now, which plugins may have read.
        others.into_iter().for_each(|other| self.record(other, ChangeKinds::PODS));
    }
}
