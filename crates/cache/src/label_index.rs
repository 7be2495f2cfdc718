//! Label keys in use as dictionary columns: per node a small number for the value, per value the nodes.
//!
//! A column exists for a key once it was requested; from then on it follows the nodes. A key that no node has needs none,
//! however many pods name it: an empty column stands for all of them, until a node has the key.
//!
//! Invariants: value 0 means that the node lacks the label (an empty value is a value); an id means the same value as
//! long as a node has it; the group of a value holds exactly the nodes whose column shows it, and is never empty.

use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Labels, Node};

use crate::fork::{COLUMN_CHUNK, Column, CowMap, WIDE_CHUNK};
use crate::node_group::NodeGroup;
use crate::node_table::NodeIdx;
use crate::requests::ReadMark;

/// A value of one label key, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);

impl ValueId {
    /// Stands for nodes without the label.
    pub const ABSENT: Self = Self(0);

    /// The id with this number, as [`index`](Self::index) gives it.
    pub const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// The number of the id, for tables with one entry per id. See [`LabelColumn::n_ids`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The values of one label key on all nodes, by slot.
#[derive(Clone, Debug)]
pub struct LabelColumn {
    key: Arc<str>,
    ids: Column<ValueId>,
    /// By id; the first entry stands for "absent".
    values: Column<Option<LabelValue>, WIDE_CHUNK>,
    by_value: CowMap<Arc<str>, ValueId>,
    free: Column<ValueId>,
    n_labelled: usize,
    mark: ReadMark,
}

#[derive(Clone, Debug)]
struct LabelValue {
    value: Arc<str>,
    nodes: NodeGroup,
}

impl LabelColumn {
    /// The column of `key` over `nodes`. O(nodes).
    pub(crate) fn new<'a>(
        key: Arc<str>,
        capacity: usize,
        nodes: impl Iterator<Item = (NodeIdx, &'a Node)>,
    ) -> Self {
        let mut ids = Column::new();
        ids.grow(capacity);
        let mut values = Column::new();
        values.push(None);
        let (by_value, free) = (CowMap::new(), Column::new());
        let mark = ReadMark::default();
        let mut column = Self { key, ids, values, by_value, free, n_labelled: 0, mark };
        for (idx, node) in nodes {
            let value = node.labels.get_shared(&column.key);
            column.set(idx, value.as_deref());
        }
        column
    }

    /// The label key that the column is about.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The id of the value in every node slot.
    pub fn ids(&self) -> &Column<ValueId> {
        &self.ids
    }

    /// The id of the value of one node.
    #[inline]
    pub fn id(&self, node: NodeIdx) -> ValueId {
        self.ids.get(node)
    }

    /// The id of a value, `None` when no node has it.
    pub fn id_of(&self, value: &str) -> Option<ValueId> {
        self.by_value.get(value).copied()
    }

    /// The value behind an id, `None` for ids that are not in use and for [`ValueId::ABSENT`].
    pub fn value(&self, id: ValueId) -> Option<&Arc<str>> {
        self.entry(id).map(|entry| &entry.value)
    }

    /// The nodes with a value; `None` as for [`value`](Self::value).
    pub fn nodes(&self, id: ValueId) -> Option<&NodeGroup> {
        self.entry(id).map(|entry| &entry.nodes)
    }

    /// How many nodes have the value with this id.
    pub fn n_nodes(&self, id: ValueId) -> usize {
        self.nodes(id).map_or(0, NodeGroup::len)
    }

    /// How many nodes have the label.
    pub(crate) fn n_labelled(&self) -> usize {
        self.n_labelled
    }

    /// How many distinct values the nodes have.
    pub fn n_values(&self) -> usize {
        self.by_value.len()
    }

    /// One more than the highest id that was ever used: the length of a table by id.
    pub fn n_ids(&self) -> usize {
        self.values.len()
    }

    /// All values that nodes have, by id.
    pub fn values(&self) -> impl Iterator<Item = (ValueId, &Arc<str>, &NodeGroup)> {
        let entries = self.values.iter().enumerate();
        entries.filter_map(|(at, entry)| {
            entry.as_ref().map(|entry| (ValueId(at as u32), &entry.value, &entry.nodes))
        })
    }

    /// What the column takes in memory, about, in bytes: an id for each slot, the values without their texts, which are the
    /// nodes', and a place in a group for each node with the label. O(1).
    pub(crate) fn n_bytes(&self) -> usize {
        let of_value = size_of::<Option<LabelValue>>();
        let of_name = size_of::<(Arc<str>, ValueId)>() + size_of::<u8>();
        size_of::<Self>()
            + self.ids.len().next_multiple_of(COLUMN_CHUNK) * size_of::<ValueId>()
            + self.values.len().next_multiple_of(WIDE_CHUNK) * of_value
            + self.by_value.len() * of_name
            + self.free.len().next_multiple_of(COLUMN_CHUNK) * size_of::<ValueId>()
            + self.n_labelled * size_of::<NodeIdx>()
    }

    fn entry(&self, id: ValueId) -> Option<&LabelValue> {
        self.values.try_get(id.index())?.as_ref()
    }

    fn set(&mut self, node: NodeIdx, value: Option<&Arc<str>>) {
        let old = self.id(node);
        if value == self.value(old) {
            return;
        }
        if let Some(entry) = self.values.get_mut(old.index()) {
            self.n_labelled -= usize::from(entry.nodes.remove(node));
            if entry.nodes.is_empty() {
                if let Some(gone) = self.values.take(old.index()) {
                    self.by_value.remove(&*gone.value);
                }
                self.free.push(old);
            }
        }
        let new = value.map_or(ValueId::ABSENT, |value| self.id_for(value));
        if let Some(entry) = self.values.get_mut(new.index()) {
            self.n_labelled += usize::from(entry.nodes.insert(node));
        }
        self.ids.set(node, new);
    }

    fn id_for(&mut self, value: &Arc<str>) -> ValueId {
        if let Some(id) = self.id_of(value) {
            return id;
        }
        let entry = Some(LabelValue { value: value.clone(), nodes: NodeGroup::new() });
        let id = match self.free.pop() {
            Some(id) => {
                self.values.set(id.index(), entry);
                id
            }
            None => {
                self.values.push(entry);
                ValueId((self.values.len() - 1) as u32)
            }
        };
        self.by_value.insert(value.clone(), id);
        id
    }
}

/// The columns of all requested keys.
#[derive(Clone, Debug)]
pub(crate) struct LabelIndex {
    /// Sorted by key.
    columns: Vec<LabelColumn>,
    /// How many nodes have each key.
    n_by_key: Arc<KeyedMap<Arc<str>, u32>>,
    /// The column of every key that no node has.
    empty: LabelColumn,
    /// How many columns have been dropped: one that is made again may number values differently.
    n_dropped: u64,
}

impl Default for LabelIndex {
    fn default() -> Self {
        let empty = LabelColumn::new("".into(), 0, std::iter::empty());
        Self { columns: Vec::new(), n_by_key: Arc::default(), empty, n_dropped: 0 }
    }
}

impl LabelIndex {
    /// The column of a key, which no node need have; `None` when nodes have it and its column was not requested.
    pub(crate) fn column(&self, key: &str) -> Option<&LabelColumn> {
        match self.find(key) {
            Ok(at) => self.columns.get(at),
            Err(_) => (!self.is_on_nodes(key)).then_some(&self.empty),
        }
    }

    /// The column of `key` for a reader from outside.
    pub(crate) fn read(&self, key: &str) -> Option<&LabelColumn> {
        let column = self.column(key)?;
        column.mark.set();
        Some(column)
    }

    /// Whether the column of `key` was read since this was last called.
    pub(crate) fn was_read(&self, key: &str) -> bool {
        self.column(key).is_some_and(|column| column.mark.take())
    }

    /// Whether any node has the key.
    pub(crate) fn is_on_nodes(&self, key: &str) -> bool {
        self.n_by_key.contains_key(key)
    }

    /// All keys that nodes have, with how many do, in no particular order.
    pub(crate) fn n_by_key(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.n_by_key.iter().map(|(key, n)| (key, *n as usize))
    }

    /// The columns that were made.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &LabelColumn> {
        self.columns.iter()
    }

    /// Makes the column of `key` if there is none. O(nodes) then, O(log columns) otherwise.
    pub(crate) fn ensure<'a>(
        &mut self,
        key: &str,
        capacity: usize,
        nodes: impl Iterator<Item = (NodeIdx, &'a Node)>,
    ) {
        if let Err(at) = self.find(key) {
            self.columns.insert(at, LabelColumn::new(key.into(), capacity, nodes));
        }
    }

    pub(crate) fn drop_column(&mut self, key: &str) {
        if let Ok(at) = self.find(key) {
            self.columns.remove(at);
            self.n_dropped += 1;
        }
    }

    /// How many columns have been dropped so far.
    pub(crate) fn n_dropped(&self) -> u64 {
        self.n_dropped
    }

    pub(crate) fn resize(&mut self, capacity: usize) {
        for column in self.columns.iter_mut().chain([&mut self.empty]) {
            column.ids.resize(capacity);
        }
    }

    /// The labels of a node change from `old` to `new`. A key that no node had gets its column if it `is_needed`.
    pub(crate) fn update(
        &mut self,
        node: NodeIdx,
        old: &Labels,
        new: &Labels,
        is_needed: impl Fn(&str) -> bool,
    ) {
        for (key, _) in new.iter().filter(|(key, _)| !old.contains_key(key)) {
            let n_by_key = Arc::make_mut(&mut self.n_by_key);
            if let Some(n_nodes) = n_by_key.get_mut(key) {
                *n_nodes += 1;
                continue;
            }
            let key: Arc<str> = key.into();
            n_by_key.insert(key.clone(), 1);
            // While no node had the key, one empty column stood for it.
            if is_needed(&key)
                && let Err(at) = self.find(&key)
            {
                self.columns.insert(at, LabelColumn { key, ..self.empty.clone() });
            }
        }
        for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
            let n_by_key = Arc::make_mut(&mut self.n_by_key);
            if let Some(n_nodes) = n_by_key.get_mut(key) {
                *n_nodes -= 1;
                if *n_nodes == 0 {
                    n_by_key.remove(key);
                }
            }
        }
        // Last, so that columns that were just made get the value, too.
        for column in &mut self.columns {
            let value = new.get_shared(&column.key);
            column.set(node, value.as_deref());
        }
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.columns.binary_search_by(|column| (*column.key).cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[&str]) -> LabelColumn {
        let mut column = LabelColumn::new("k".into(), 8, std::iter::empty());
        for (at, value) in values.iter().enumerate() {
            column.set(NodeIdx::from_index(at), Some(&(*value).into()));
        }
        column
    }

    #[test]
    fn an_empty_value_is_a_value() {
        let column = column(&["", "x"]);
        assert_ne!(column.id(NodeIdx::from_index(0)), ValueId::ABSENT);
        assert_eq!(column.id(NodeIdx::from_index(5)), ValueId::ABSENT);
        assert_eq!(
            column.id_of("").and_then(|id| column.value(id)).map(|value| &**value),
            Some("")
        );
        assert_eq!(column.value(ValueId::ABSENT), None);
    }

    #[test]
    fn a_column_takes_more_with_each_value_and_node() {
        let sizes = [&[][..], &["a"], &["a", "a"], &["a", "b"]].map(|it| column(it).n_bytes());
        assert!(sizes.is_sorted() && sizes[0] >= 8 * size_of::<ValueId>(), "{sizes:?}");
        assert_eq!(sizes[2] - sizes[1], size_of::<NodeIdx>());
    }

    #[test]
    fn an_id_is_reused_only_after_its_last_node() {
        let mut column = column(&["a", "a", "b"]);
        let (n0, n1, n2) = (NodeIdx::from_index(0), NodeIdx::from_index(1), NodeIdx::from_index(2));
        let a = column.id(n0);
        column.set(n0, Some(&"b".into()));
        assert_eq!(column.n_nodes(a), 1);
        column.set(n1, None);
        assert_eq!((column.id_of("a"), column.value(a)), (None, None));
        column.set(n2, Some(&"c".into()));
        assert_eq!(column.id(n2), a);
        let values: Vec<_> =
            column.values().map(|(_, value, nodes)| (&**value, nodes.len())).collect();
        assert_eq!(values, [("c", 1), ("b", 1)]);
        assert_eq!((column.n_values(), column.n_ids()), (2, 3));
    }
}
