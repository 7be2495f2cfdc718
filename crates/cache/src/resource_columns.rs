//! One column per property of a node, for scans that never touch an object.
//!
//! Invariants: all columns have one value per slot; the values of a slot without a node object are zero, apart from
//! what its pods request. Requested scalar resources have columns exactly where allocatable ones have. Amounts wrap like
//! the reference's 64-bit integers.
//!
//! Resources that no node offers have no column, whatever names pods invent: nothing is decided by how much of them pods request.

use std::borrow::Cow;
use std::sync::Arc;

use kube_scheduler_api_types::{NonZeroRequest, Resources};

use crate::fork::Column;
use crate::headroom::Headroom;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;

/// Amounts of every resource by node: CPU in milli-CPU, memory and ephemeral storage in bytes, scalar resources in
/// units.
///
/// Scalar resources are those that some node offers. One is mentioned by a node, or by the pods on it, as long as one of
/// them names it. "Mentions it with zero" and "does not mention it" are distinguished by [`scalar_at`](Self::scalar_at); the
/// amount is 0 in both cases. What pods request of others is found by
/// [`ClusterState::requested_scalar`](crate::ClusterState::requested_scalar).
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
    /// How often each node mentions it.
    mentions: Column<u32>,
    /// How often all nodes do.
    n_mentions: usize,
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

    /// A scalar resource that some node offers; `None` for others, even if pods request them. O(log scalars).
    pub fn scalar(&self, name: &str) -> Option<&Column<i64>> {
        let at = self.find(name).ok()?;
        self.scalars.get(at).map(|scalar| &scalar.amounts)
    }

    /// The amount of a scalar resource that some node offers on one node, `None` when that node does not mention it.
    pub fn scalar_at(&self, name: &str, node: NodeIdx) -> Option<i64> {
        self.scalars.get(self.find(name).ok()?)?.at(node)
    }

    /// All scalar resources that some node offers, by name.
    pub fn scalars(&self) -> impl Iterator<Item = (&Arc<str>, &Column<i64>)> {
        self.scalars.iter().map(|scalar| (&scalar.name, &scalar.amounts))
    }

    /// Everything about one node, as a vector. O(scalar resources).
    pub fn resources_of(&self, node: NodeIdx) -> Resources {
        let named = |scalar: &ScalarColumn| Some((scalar.name.clone(), scalar.at(node)?));
        Resources {
            milli_cpu: self.milli_cpu.get(node),
            memory: self.memory.get(node),
            ephemeral_storage: self.ephemeral_storage.get(node),
            scalars: self.scalars.iter().filter_map(named).collect(),
        }
    }

    /// `amounts` without the scalar resources that have no column here. O(the shorter of both lists, but for logarithms).
    pub(crate) fn known_of<'r>(&self, amounts: &'r Resources) -> Cow<'r, Resources> {
        let named = &amounts.scalars;
        if named.len() <= self.scalars.len()
            && named.iter().all(|(name, _)| self.find(name).is_ok())
        {
            return Cow::Borrowed(amounts);
        }
        let known =
            |scalar: &ScalarColumn| Some((scalar.name.clone(), amounts.scalar(&scalar.name)?));
        let scalars = self.scalars.iter().filter_map(known).collect();
        let Resources { milli_cpu, memory, ephemeral_storage, .. } = *amounts;
        Cow::Owned(Resources { milli_cpu, memory, ephemeral_storage, scalars })
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.scalars.binary_search_by(|scalar| (*scalar.name).cmp(name))
    }

    fn add_column(&mut self, at: usize, name: &Arc<str>) {
        self.scalars.insert(at, ScalarColumn::new(name.clone(), self.milli_cpu.len()));
    }

    pub(crate) fn resize(&mut self, capacity: usize) {
        self.milli_cpu.resize(capacity);
        self.memory.resize(capacity);
        self.ephemeral_storage.resize(capacity);
        for scalar in &mut self.scalars {
            scalar.amounts.resize(capacity);
            scalar.mentions.resize(capacity);
        }
    }

    /// Replaces all amounts of a node; every scalar resource has a column.
    fn set(&mut self, node: NodeIdx, amounts: &Resources) {
        self.milli_cpu.set(node, amounts.milli_cpu);
        self.memory.set(node, amounts.memory);
        self.ephemeral_storage.set(node, amounts.ephemeral_storage);
        for scalar in &mut self.scalars {
            scalar.clear(node);
        }
        for (name, amount) in &amounts.scalars {
            let at = match self.find(name) {
                Ok(at) => at,
                Err(at) => {
                    self.add_column(at, name);
                    at
                }
            };
            self.scalars[at].add(node, *amount);
        }
        self.scalars.retain(|scalar| scalar.n_mentions > 0);
    }

    /// Adds what has a column.
    fn add(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine_base(node, amounts, i64::wrapping_add);
        for (name, amount) in &self.known_of(amounts).scalars {
            self.add_scalar(name, node, *amount);
        }
    }

    /// Adds to a scalar resource that has a column.
    pub(crate) fn add_scalar(&mut self, name: &str, node: NodeIdx, amount: i64) {
        if let Ok(at) = self.find(name) {
            self.scalars[at].add(node, amount);
        }
    }

    /// Takes away what was added.
    fn subtract(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine_base(node, amounts, i64::wrapping_sub);
        for (name, amount) in &self.known_of(amounts).scalars {
            if let Ok(at) = self.find(name) {
                self.scalars[at].subtract(node, *amount);
            }
        }
    }

    fn combine_base(&mut self, node: NodeIdx, amounts: &Resources, by: fn(i64, i64) -> i64) {
        let dimensions = [
            (&mut self.milli_cpu, amounts.milli_cpu),
            (&mut self.memory, amounts.memory),
            (&mut self.ephemeral_storage, amounts.ephemeral_storage),
        ];
        for (column, amount) in dimensions {
            if amount != 0 {
                let place = column.get_mut(node);
                *place = by(*place, amount);
            }
        }
    }

    /// Has columns for the same scalar resources as `offered`; new ones are empty. O(names) if nothing differs.
    fn follow(&mut self, offered: &Self) -> ScalarDifference {
        let mut followed = ScalarDifference::default();
        if self.scalars().map(|(name, _)| name).eq(offered.scalars().map(|(name, _)| name)) {
            return followed;
        }
        self.scalars.retain(|scalar| {
            let is_offered = offered.find(&scalar.name).is_ok();
            if !is_offered {
                followed.lost.push(scalar.name.clone());
            }
            is_offered
        });
        for (name, _) in offered.scalars() {
            let Err(at) = self.find(name) else { continue };
            self.add_column(at, name);
            followed.gained.push(name.clone());
        }
        followed
    }
}

/// The scalar resources that some node offers now and none did before, and the other way round.
#[derive(Clone, Debug, Default)]
#[must_use]
pub(crate) struct ScalarDifference {
    /// What pods request of these has to be added.
    pub(crate) gained: Vec<Arc<str>>,
    pub(crate) lost: Vec<Arc<str>>,
}

impl ScalarColumn {
    fn new(name: Arc<str>, capacity: usize) -> Self {
        let (mut amounts, mut mentions) = (Column::new(), Column::new());
        amounts.grow(capacity);
        mentions.grow(capacity);
        Self { name, amounts, mentions, n_mentions: 0 }
    }

    fn at(&self, node: NodeIdx) -> Option<i64> {
        (self.mentions.get(node) > 0).then(|| self.amounts.get(node))
    }

    fn add(&mut self, node: NodeIdx, amount: i64) {
        if amount != 0 {
            let place = self.amounts.get_mut(node);
            *place = place.wrapping_add(amount);
        }
        *self.mentions.get_mut(node) += 1;
        self.n_mentions += 1;
    }

    fn subtract(&mut self, node: NodeIdx, amount: i64) {
        if amount != 0 {
            let place = self.amounts.get_mut(node);
            *place = place.wrapping_sub(amount);
        }
        *self.mentions.get_mut(node) -= 1;
        self.n_mentions -= 1;
    }

    fn clear(&mut self, node: NodeIdx) {
        if self.mentions.get(node) > 0 {
            self.amounts.set(node, 0);
            self.n_mentions -= self.mentions.take(node) as usize;
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
    pub(crate) unschedulable: NodeSet,
}

impl NodeColumns {
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.allocatable.resize(capacity);
        self.requested.resize(capacity);
        self.non_zero_milli_cpu.resize(capacity);
        self.non_zero_memory.resize(capacity);
        self.allowed_pods.resize(capacity);
        self.pod_count.resize(capacity);
        self.headroom.resize(capacity);
    }

    /// What a node has for pods from now on.
    pub(crate) fn set_allocatable(
        &mut self,
        node: NodeIdx,
        amounts: &Resources,
    ) -> ScalarDifference {
        self.allocatable.set(node, amounts);
        self.requested.follow(&self.allocatable)
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

    fn columns() -> (NodeColumns, NodeIdx, NodeIdx) {
        let mut columns = NodeColumns::default();
        columns.resize(2);
        (columns, NodeIdx::from_index(0), NodeIdx::from_index(1))
    }

    #[test]
    fn zero_and_absent_differ_and_what_no_node_offers_has_no_column() {
        let (mut columns, a, b) = columns();
        let none = NonZeroRequest::default();
        columns.add_pod(a, &gpus(2), none);
        assert_eq!(columns.requested.scalar_at("gpu", a), None);
        columns.remove_pod(a, &gpus(2), none);
        let followed = columns.set_allocatable(b, &gpus(8));
        assert_eq!((followed.gained, followed.lost), (vec!["gpu".into()], vec![]));
        columns.add_pod(a, &gpus(0), none);
        columns.add_pod(a, &gpus(2), none);
        columns.remove_pod(a, &gpus(2), none);
        let requested = &columns.requested;
        assert_eq!((requested.scalar_at("gpu", a), requested.scalar_at("gpu", b)), (Some(0), None));
        assert_eq!(requested.resources_of(a).scalar("gpu"), Some(0));
        columns.remove_pod(a, &gpus(0), none);
        assert_eq!(columns.requested.scalar_at("gpu", a), None);
        let followed = columns.set_allocatable(b, &Resources::default());
        assert_eq!((followed.gained, followed.lost), (vec![], vec!["gpu".into()]));
        let NodeColumns { allocatable, requested, .. } = &columns;
        assert!(allocatable.scalar("gpu").is_none() && requested.scalar("gpu").is_none());
    }

    #[test]
    fn what_has_a_column_is_known() {
        let (mut columns, _, b) = columns();
        let _ = columns.set_allocatable(b, &gpus(8));
        let known = |amounts: &Resources| columns.requested.known_of(amounts).into_owned();
        let invented = (0..1000).map(|at| (format!("example.com/{at:03}").into(), 1));
        let mut many =
            Resources { milli_cpu: 3, scalars: invented.collect(), ..Resources::default() };
        assert_eq!(known(&many), Resources { milli_cpu: 3, ..Resources::default() });
        *many.scalar_mut(&"gpu".into()) = 2;
        assert_eq!(known(&many), Resources { milli_cpu: 3, ..gpus(2) });
        assert!(matches!(columns.requested.known_of(&gpus(2)), Cow::Borrowed(_)));
        assert_eq!(known(&gpus(2)), gpus(2));
    }

    #[test]
    fn sums_wrap() {
        let mut columns = ResourceColumns::default();
        columns.resize(1);
        let node = NodeIdx::from_index(0);
        columns.add(node, &Resources { memory: i64::MAX, ..Resources::default() });
        columns.add(node, &Resources { memory: 1, ..Resources::default() });
        assert_eq!(columns.memory().get(node), i64::MIN);
    }
}
