//! One column per property of a node, for scans that never touch an object.
//!
//! Invariants: all columns have one value per slot; the values of a slot without a node object are zero, apart from
//! what its pods request. Amounts wrap like the reference's 64-bit integers.

use std::sync::Arc;

use kube_scheduler_api_types::{NonZeroRequest, Resources};

use crate::fork::Column;
use crate::headroom::Headroom;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;

/// Amounts of every resource by node: CPU in milli-CPU, memory and ephemeral storage in bytes, scalar resources in
/// units.
///
/// The column of a scalar resource exists as long as some node or its pods mention it. "Mentions it with zero" and
/// "does not mention it" are distinguished by [`scalar_at`](Self::scalar_at); the amount is 0 in both cases.
#[derive(Clone, Debug, Default)]
pub struct ResourceColumns {
    milli_cpu: Column<i64>,
    memory: Column<i64>,
    ephemeral_storage: Column<i64>,
    /// Sorted by name.
    scalars: Vec<ScalarColumn>,
}

#[derive(Clone, Debug)]
struct ScalarColumn {
    name: Arc<str>,
    amounts: Column<i64>,
    present: NodeSet,
}

impl ResourceColumns {
    /// CPU in milli-CPU.
    pub fn milli_cpu(&self) -> &Column<i64> {
        &self.milli_cpu
    }

    /// Memory in bytes.
    pub fn memory(&self) -> &Column<i64> {
        &self.memory
    }

    /// Ephemeral storage in bytes.
    pub fn ephemeral_storage(&self) -> &Column<i64> {
        &self.ephemeral_storage
    }

    /// A scalar resource; `None` when no node mentions it, which means 0 everywhere. O(log scalars).
    pub fn scalar(&self, name: &str) -> Option<&Column<i64>> {
        self.find(name).map(|scalar| &scalar.amounts)
    }

    /// The amount of a scalar resource on one node, `None` when the node does not mention it.
    pub fn scalar_at(&self, name: &str, node: NodeIdx) -> Option<i64> {
        self.find(name)
            .filter(|scalar| scalar.present.contains(node))
            .map(|scalar| scalar.amounts.get(node))
    }

    /// All scalar resources by name.
    pub fn scalars(&self) -> impl Iterator<Item = (&Arc<str>, &Column<i64>)> {
        self.scalars.iter().map(|scalar| (&scalar.name, &scalar.amounts))
    }

    /// Everything about one node, as a vector.
    pub fn resources_of(&self, node: NodeIdx) -> Resources {
        let scalars = self.scalars.iter().filter(|scalar| scalar.present.contains(node));
        Resources {
            milli_cpu: self.milli_cpu.get(node),
            memory: self.memory.get(node),
            ephemeral_storage: self.ephemeral_storage.get(node),
            scalars: scalars
                .map(|scalar| (scalar.name.clone(), scalar.amounts.get(node)))
                .collect(),
        }
    }

    fn find(&self, name: &str) -> Option<&ScalarColumn> {
        let at = self.scalars.binary_search_by(|scalar| (*scalar.name).cmp(name)).ok()?;
        self.scalars.get(at)
    }

    fn find_or_add(&mut self, name: &Arc<str>) -> &mut ScalarColumn {
        let at = match self.scalars.binary_search_by(|scalar| scalar.name.cmp(name)) {
            Ok(at) => at,
            Err(at) => {
                let mut amounts = Column::new();
                amounts.grow(self.milli_cpu.len());
                self.scalars.insert(
                    at,
                    ScalarColumn { name: name.clone(), amounts, present: NodeSet::new() },
                );
                at
            }
        };
        &mut self.scalars[at]
    }

    pub(crate) fn grow(&mut self, capacity: usize) {
        self.milli_cpu.grow(capacity);
        self.memory.grow(capacity);
        self.ephemeral_storage.grow(capacity);
        for scalar in &mut self.scalars {
            scalar.amounts.grow(capacity);
        }
    }

    /// Replaces all amounts of a node.
    pub(crate) fn set(&mut self, node: NodeIdx, amounts: &Resources) {
        self.clear(node);
        self.add(node, amounts);
    }

    /// Zeroes all amounts of a node; it mentions no scalar resource any more.
    pub(crate) fn clear(&mut self, node: NodeIdx) {
        self.milli_cpu.set(node, 0);
        self.memory.set(node, 0);
        self.ephemeral_storage.set(node, 0);
        let mut is_any_unused = false;
        for scalar in &mut self.scalars {
            if scalar.present.remove(node) {
                scalar.amounts.set(node, 0);
                is_any_unused |= scalar.present.is_empty();
            }
        }
        if is_any_unused {
            self.scalars.retain(|scalar| !scalar.present.is_empty());
        }
    }

    pub(crate) fn add(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine(node, amounts, i64::wrapping_add);
    }

    /// Subtracts amounts; the scalar resources stay mentioned, with amount 0 if need be.
    pub(crate) fn subtract(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine(node, amounts, i64::wrapping_sub);
    }

    fn combine(&mut self, node: NodeIdx, amounts: &Resources, operation: fn(i64, i64) -> i64) {
        let dimensions = [
            (&mut self.milli_cpu, amounts.milli_cpu),
            (&mut self.memory, amounts.memory),
            (&mut self.ephemeral_storage, amounts.ephemeral_storage),
        ];
        for (column, amount) in dimensions {
            if amount != 0 {
                let place = column.get_mut(node);
                *place = operation(*place, amount);
            }
        }
        for (name, amount) in &amounts.scalars {
            let scalar = self.find_or_add(name);
            scalar.present.insert(node);
            if *amount != 0 {
                let place = scalar.amounts.get_mut(node);
                *place = operation(*place, *amount);
            }
        }
    }
}

/// The columns that are plain numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeColumns {
    pub(crate) allocatable: ResourceColumns,
    pub(crate) requested: ResourceColumns,
    pub(crate) non_zero_milli_cpu: Column<i64>,
    pub(crate) non_zero_memory: Column<i64>,
    pub(crate) allowed_pods: Column<i64>,
    pub(crate) pod_count: Column<i64>,
    pub(crate) headroom: Column<Headroom>,
    pub(crate) feature_bits: Column<u64>,
    pub(crate) unschedulable: NodeSet,
}

impl NodeColumns {
    pub(crate) fn grow(&mut self, capacity: usize) {
        self.allocatable.grow(capacity);
        self.requested.grow(capacity);
        self.non_zero_milli_cpu.grow(capacity);
        self.non_zero_memory.grow(capacity);
        self.allowed_pods.grow(capacity);
        self.pod_count.grow(capacity);
        self.headroom.grow(capacity);
        self.feature_bits.grow(capacity);
    }

    /// What is free on a node, from the exact amounts.
    pub(crate) fn headroom_of(&self, node: NodeIdx) -> Headroom {
        let (has, used) = (&self.allocatable, &self.requested);
        let free =
            |has: &Column<i64>, used: &Column<i64>| has.get(node).wrapping_sub(used.get(node));
        Headroom::new([
            free(&self.allowed_pods, &self.pod_count),
            free(&has.milli_cpu, &used.milli_cpu),
            free(&has.memory, &used.memory),
            free(&has.ephemeral_storage, &used.ephemeral_storage),
        ])
    }

    pub(crate) fn add_pod(
        &mut self,
        node: NodeIdx,
        accounted: &Resources,
        non_zero: NonZeroRequest,
    ) {
        self.requested.add(node, accounted);
        let place = self.non_zero_milli_cpu.get_mut(node);
        *place = place.wrapping_add(non_zero.milli_cpu);
        let place = self.non_zero_memory.get_mut(node);
        *place = place.wrapping_add(non_zero.memory);
        *self.pod_count.get_mut(node) += 1;
    }

    pub(crate) fn remove_pod(
        &mut self,
        node: NodeIdx,
        accounted: &Resources,
        non_zero: NonZeroRequest,
    ) {
        self.requested.subtract(node, accounted);
        let place = self.non_zero_milli_cpu.get_mut(node);
        *place = place.wrapping_sub(non_zero.milli_cpu);
        let place = self.non_zero_memory.get_mut(node);
        *place = place.wrapping_sub(non_zero.memory);
        *self.pod_count.get_mut(node) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(amount: i64) -> Resources {
        let mut resources = Resources { milli_cpu: 10, ..Resources::default() };
        *resources.scalar_mut(&"gpu".into()) = amount;
        resources
    }

    #[test]
    fn zero_and_absent_differ_and_a_column_goes_with_its_last_mention() {
        let mut columns = ResourceColumns::default();
        columns.grow(2);
        let (a, b) = (NodeIdx::from_index(0), NodeIdx::from_index(1));
        columns.add(a, &gpus(2));
        columns.subtract(a, &gpus(2));
        assert_eq!(columns.scalar_at("gpu", a), Some(0));
        assert_eq!(columns.scalar_at("gpu", b), None);
        assert_eq!(columns.scalar("gpu").map(|column| column.get(b)), Some(0));
        assert_eq!(columns.resources_of(a).scalar("gpu"), Some(0));
        columns.set(a, &Resources::default());
        assert!(columns.scalar("gpu").is_none());
    }

    #[test]
    fn sums_wrap() {
        let mut columns = ResourceColumns::default();
        columns.grow(1);
        let node = NodeIdx::from_index(0);
        columns.add(node, &Resources { memory: i64::MAX, ..Resources::default() });
        columns.add(node, &Resources { memory: 1, ..Resources::default() });
        assert_eq!(columns.memory().get(node), i64::MIN);
    }
}
