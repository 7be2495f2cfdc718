//! One column per property of a node, for scans that never touch an object.
//!
//! Invariants: all columns have one value per slot; the values of a slot without a node object are zero, apart from
//! what its pods request. Requested scalar resources have columns exactly where allocatable ones have. Amounts wrap like
//! the reference's 64-bit integers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{NonZeroRequest, Resources};

use crate::fork::Column;
use crate::headroom::Headroom;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;

/// Amounts of every resource by node: CPU in milli-CPU, memory and ephemeral storage in bytes, scalar resources in
/// units.
///
/// A scalar resource is mentioned by a node, or by the pods on it, as long as one of them names it. "Mentions it with zero"
/// and "does not mention it" are distinguished by [`scalar_at`](Self::scalar_at); the amount is 0 in both cases.
///
/// Resources that some node offers have a column. What pods request beside that has none, whatever names they invent: it
/// is a list of the nodes with such pods, and gone with the last of them.
#[derive(Clone, Debug, Default)]
pub struct ResourceColumns {
    milli_cpu: Column<i64>,
    memory: Column<i64>,
    ephemeral_storage: Column<i64>,
    /// Sorted by name.
    scalars: Vec<ScalarColumn>,
    /// Scalar resources without a column, each with the nodes that mention it, sorted; no list is empty.
    others: Arc<BTreeMap<Arc<str>, Vec<Mention>>>,
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

/// A scalar resource on one node.
#[derive(Clone, Copy, Debug)]
struct Mention {
    node: NodeIdx,
    amount: i64,
    /// How often it is mentioned.
    n: u32,
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

    /// The amount of a scalar resource on one node, `None` when the node does not mention it.
    pub fn scalar_at(&self, name: &str, node: NodeIdx) -> Option<i64> {
        match self.find(name) {
            Ok(at) => self.scalars.get(at)?.at(node),
            Err(_) => {
                let mentions = self.others.get(name)?;
                let at = mentions.binary_search_by_key(&node, |mention| mention.node).ok()?;
                mentions.get(at).map(|mention| mention.amount)
            }
        }
    }

    /// All scalar resources that some node offers, by name.
    pub fn scalars(&self) -> impl Iterator<Item = (&Arc<str>, &Column<i64>)> {
        self.scalars.iter().map(|scalar| (&scalar.name, &scalar.amounts))
    }

    /// How many scalar resources are mentioned that no node offers.
    pub fn n_others(&self) -> usize {
        self.others.len()
    }

    /// Everything about one node, as a vector. O(scalar resources).
    pub fn resources_of(&self, node: NodeIdx) -> Resources {
        let named = |scalar: &ScalarColumn| Some((scalar.name.clone(), scalar.at(node)?));
        let mut scalars: Vec<_> = self.scalars.iter().filter_map(named).collect();
        if !self.others.is_empty() {
            scalars.extend(self.others.iter().filter_map(|(name, mentions)| {
                let at = mentions.binary_search_by_key(&node, |mention| mention.node).ok()?;
                Some((name.clone(), mentions.get(at)?.amount))
            }));
            scalars.sort_unstable();
        }
        Resources {
            milli_cpu: self.milli_cpu.get(node),
            memory: self.memory.get(node),
            ephemeral_storage: self.ephemeral_storage.get(node),
            scalars: scalars.into_iter().collect(),
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.scalars.binary_search_by(|scalar| (*scalar.name).cmp(name))
    }

    fn add_column(&mut self, at: usize, name: &Arc<str>) {
        self.scalars.insert(at, ScalarColumn::new(name.clone(), self.milli_cpu.len()));
    }

    pub(crate) fn grow(&mut self, capacity: usize) {
        self.milli_cpu.grow(capacity);
        self.memory.grow(capacity);
        self.ephemeral_storage.grow(capacity);
        for scalar in &mut self.scalars {
            scalar.amounts.grow(capacity);
            scalar.mentions.grow(capacity);
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
            self.scalars[at].add(node, *amount, 1);
        }
        self.scalars.retain(|scalar| scalar.n_mentions > 0);
    }

    fn add(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine_base(node, amounts, i64::wrapping_add);
        for (name, amount) in &amounts.scalars {
            if let Ok(at) = self.find(name) {
                self.scalars[at].add(node, *amount, 1);
                continue;
            }
            let others = Arc::make_mut(&mut self.others);
            if !others.contains_key(name) {
                others.insert(name.clone(), Vec::with_capacity(1));
            }
            let Some(mentions) = others.get_mut(name) else { continue };
            match mentions.binary_search_by_key(&node, |mention| mention.node) {
                Ok(at) => {
                    mentions[at].amount = mentions[at].amount.wrapping_add(*amount);
                    mentions[at].n += 1;
                }
                Err(at) => mentions.insert(at, Mention { node, amount: *amount, n: 1 }),
            }
        }
    }

    /// Takes away what was added.
    fn subtract(&mut self, node: NodeIdx, amounts: &Resources) {
        self.combine_base(node, amounts, i64::wrapping_sub);
        for (name, amount) in &amounts.scalars {
            if let Ok(at) = self.find(name) {
                self.scalars[at].subtract(node, *amount);
                continue;
            }
            let others = Arc::make_mut(&mut self.others);
            let Some(mentions) = others.get_mut(name) else { continue };
            if let Ok(at) = mentions.binary_search_by_key(&node, |mention| mention.node) {
                mentions[at].amount = mentions[at].amount.wrapping_sub(*amount);
                mentions[at].n -= 1;
                if mentions[at].n == 0 {
                    mentions.remove(at);
                }
            }
            if mentions.is_empty() {
                others.remove(name);
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

    /// Has columns for the same scalar resources as `offered`, and lists for others. O(names) if nothing differs.
    fn follow(&mut self, offered: &Self) {
        if self.scalars().map(|(name, _)| name).eq(offered.scalars().map(|(name, _)| name)) {
            return;
        }
        let (kept, dropped) =
            self.scalars.drain(..).partition(|scalar| offered.find(&scalar.name).is_ok());
        self.scalars = kept;
        for scalar in Vec::<ScalarColumn>::into_iter(dropped) {
            let mentions = scalar.listed();
            if !mentions.is_empty() {
                Arc::make_mut(&mut self.others).insert(scalar.name, mentions);
            }
        }
        for (name, _) in offered.scalars() {
            let Err(at) = self.find(name) else { continue };
            self.add_column(at, name);
            if self.others.contains_key(name) {
                let mentions = Arc::make_mut(&mut self.others).remove(name).unwrap_or_default();
                for Mention { node, amount, n } in mentions {
                    self.scalars[at].add(node, amount, n);
                }
            }
        }
    }
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

    fn add(&mut self, node: NodeIdx, amount: i64, n: u32) {
        if amount != 0 {
            let place = self.amounts.get_mut(node);
            *place = place.wrapping_add(amount);
        }
        *self.mentions.get_mut(node) += n;
        self.n_mentions += n as usize;
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

    fn listed(&self) -> Vec<Mention> {
        let all = self.amounts.iter().zip(self.mentions.iter()).enumerate();
        let mentioned = all.filter(|(_, (_, n))| **n > 0);
        mentioned
            .map(|(at, (amount, n))| Mention {
                node: NodeIdx::from_index(at),
                amount: *amount,
                n: *n,
            })
            .collect()
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

    /// What a node has for pods from now on.
    pub(crate) fn set_allocatable(&mut self, node: NodeIdx, amounts: &Resources) {
        self.allocatable.set(node, amounts);
        self.requested.follow(&self.allocatable);
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
        columns.grow(2);
        (columns, NodeIdx::from_index(0), NodeIdx::from_index(1))
    }

    #[test]
    fn zero_and_absent_differ_and_a_name_goes_with_its_last_mention() {
        let (mut columns, a, b) = columns();
        let none = NonZeroRequest::default();
        for is_offered in [false, true] {
            if is_offered {
                columns.set_allocatable(b, &gpus(8));
            }
            columns.add_pod(a, &gpus(0), none);
            columns.add_pod(a, &gpus(2), none);
            columns.remove_pod(a, &gpus(2), none);
            let requested = &columns.requested;
            assert_eq!(
                (requested.scalar_at("gpu", a), requested.scalar_at("gpu", b)),
                (Some(0), None)
            );
            assert_eq!(requested.resources_of(a).scalar("gpu"), Some(0));
            assert_eq!(requested.scalar("gpu").is_some(), is_offered);
            columns.remove_pod(a, &gpus(0), none);
            assert_eq!(columns.requested.scalar_at("gpu", a), None);
            assert_eq!(columns.requested.n_others(), 0);
        }
        columns.set_allocatable(b, &Resources::default());
        assert!(
            columns.allocatable.scalar("gpu").is_none()
                && columns.requested.scalar("gpu").is_none()
        );
    }

    #[test]
    fn what_is_requested_is_the_same_before_and_after_a_node_offers_it() {
        let (mut columns, a, b) = columns();
        let none = NonZeroRequest::default();
        columns.add_pod(a, &gpus(2), none);
        columns.add_pod(a, &gpus(3), none);
        assert!(columns.requested.scalar("gpu").is_none());
        columns.set_allocatable(b, &gpus(8));
        assert_eq!(columns.requested.scalar("gpu").map(|column| column.get(a)), Some(5));
        columns.set_allocatable(b, &Resources::default());
        assert_eq!(columns.requested.scalar_at("gpu", a), Some(5));
        columns.remove_pod(a, &gpus(2), none);
        columns.remove_pod(a, &gpus(3), none);
        assert_eq!(columns.requested.n_others(), 0);
    }

    /// 64 pods with 1,000 names of their own hold lists of one node each, and nothing once they are gone.
    #[test]
    fn invented_names_have_no_columns_and_leave_nothing() {
        let (mut columns, a, _) = columns();
        let none = NonZeroRequest::default();
        let invented = |pod: usize| {
            let names = (0..1000).map(|at| (format!("example.com/{pod}-{at}").into(), 1));
            Resources { scalars: names.collect(), ..Resources::default() }
        };
        (0..64).for_each(|pod| columns.add_pod(a, &invented(pod), none));
        assert_eq!((columns.requested.scalars.len(), columns.requested.n_others()), (0, 64_000));
        let n_places: usize = columns.requested.others.values().map(Vec::capacity).sum();
        assert_eq!(n_places, 64_000, "one place for each node that mentions a name");
        (0..64).for_each(|pod| columns.remove_pod(a, &invented(pod), none));
        assert_eq!((columns.requested.scalars.len(), columns.requested.n_others()), (0, 0));
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
