//! What eviction could free on a node: the sums of what its pods ask for, by priority.
//!
//! Preemption asks this of thousands of nodes, each time for all pods below one priority, and must not look at every pod
//! for it. A node has pods of few priorities, so that a short sorted list is enough.
//!
//! Invariants: levels are sorted by priority, lowest first; each has at least one pod; of scalar resources only those are summed
//! up that some node offers.

use std::sync::Arc;

use kube_scheduler_api_types::{NonZeroRequest, Pod, Resources};
use smallvec::SmallVec;

use crate::resource_columns::ResourceColumns;

/// All pods of one priority on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) priority: i32,
    pub(crate) n_pods: i64,
    pub(crate) requested: Resources,
    pub(crate) non_zero: NonZeroRequest,
}

/// All pods on one node by priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels(SmallVec<[Level; 1]>);

impl Levels {
    /// Notes a pod, where nodes have `offered`. O(pod + log priorities).
    pub(crate) fn add(&mut self, pod: &Pod, offered: &ResourceColumns) {
        let priority = pod.priority();
        let at = match self.find(priority) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, Level { priority, ..Level::default() });
                at
            }
        };
        let level = &mut self.0[at];
        level.n_pods += 1;
        level.requested.add(&offered.known_of(&pod.requests.accounted));
        let non_zero = pod.requests.non_zero;
        level.non_zero.milli_cpu = level.non_zero.milli_cpu.wrapping_add(non_zero.milli_cpu);
        level.non_zero.memory = level.non_zero.memory.wrapping_add(non_zero.memory);
    }

    /// Forgets a pod that was added before.
    pub(crate) fn remove(&mut self, pod: &Pod, offered: &ResourceColumns) {
        let Ok(at) = self.find(pod.priority()) else { return };
        let level = &mut self.0[at];
        level.n_pods -= 1;
        if level.n_pods == 0 {
            self.0.remove(at);
            return;
        }
        level.requested.subtract(&offered.known_of(&pod.requests.accounted));
        let non_zero = pod.requests.non_zero;
        level.non_zero.milli_cpu = level.non_zero.milli_cpu.wrapping_sub(non_zero.milli_cpu);
        level.non_zero.memory = level.non_zero.memory.wrapping_sub(non_zero.memory);
    }

    /// A pod that is noted requests this of a scalar resource which no node has offered so far.
    pub(crate) fn add_scalar(&mut self, priority: i32, name: &Arc<str>, amount: i64) {
        let Ok(at) = self.find(priority) else { return };
        let place = self.0[at].requested.scalar_mut(name);
        *place = place.wrapping_add(amount);
    }

    /// No node offers this any more.
    pub(crate) fn forget_scalar(&mut self, name: &str) {
        for level in &mut self.0 {
            level.requested.scalars.retain(|(known, _)| **known != *name);
        }
    }

    /// The levels below a priority, lowest first.
    pub(crate) fn below(&self, priority: i32) -> &[Level] {
        let end = self.0.partition_point(|level| level.priority < priority);
        &self.0[..end]
    }

    /// All levels, lowest first.
    pub(crate) fn all(&self) -> &[Level] {
        &self.0
    }

    fn find(&self, priority: i32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&priority, |level| level.priority)
    }
}
