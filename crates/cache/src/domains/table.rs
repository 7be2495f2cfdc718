//! All followed counters, and which of them a pod may concern.
//!
//! Invariants: every counter is found by its specification, and by every pod that counts in it: through one of the
//! namespaces and one of the label values that its pods must have, as far as it names any (through the shorter of the two
//! lists alone if there are many pairs); a pod finds a counter at most once; all counters together take no more than
//! [`MAX_BYTES`].

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{Equivalent, HashTable};
use kube_scheduler_api_types::{KeyedMap, KeyedSet, KeyedState, Node, Pod};
use smallvec::SmallVec;

use super::counts::DomainCounts;
use super::spec::{CountedPods, CounterSpec};
use crate::change_log::ChangeKinds;
use crate::fork::{Column, SPARSE_CHUNK};
use crate::label_index::LabelIndex;
use crate::node_table::NodeIdx;
use crate::objects::ObjectStore;
use crate::requests::ReadMark;

/// What a counter takes for a node where every node is a domain, about.
const NODE_BYTES: usize = 16;
/// This many slots are 128 MiB at worst.
const MAX_SLOTS: usize = 8 << 20;
/// What all counters may take, in bytes, each counted at its largest.
const MAX_BYTES: usize = 48 << 20;
/// A counter is filed under up to this many pairs of a namespace and a label, else under namespaces or labels alone.
const MAX_PAIRS: usize = 16;
/// How many label columns are kept that no counter needs, in node slots: 4 bytes each, and more for distinct values.
const MAX_LABEL_SLOTS: usize = 1 << 20;
/// The number of specifications that are remembered after they were requested once.
const MAX_ASKED: usize = 4096;

type Slots = SmallVec<[u32; 2]>;

/// What pods that count have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CommonTraits {
    namespace: Option<Arc<str>>,
    label: Option<(Arc<str>, Arc<str>)>,
}

/// Lets a pod look without allocating; field order and types hash like [`CommonTraits`].
#[derive(Hash)]
struct BorrowedCommon<'a> {
    namespace: Option<&'a str>,
    label: Option<(&'a str, &'a str)>,
}

impl Equivalent<CommonTraits> for BorrowedCommon<'_> {
    fn equivalent(&self, key: &CommonTraits) -> bool {
        self.namespace == key.namespace.as_deref()
            && self.label == key.label.as_ref().map(|(key, value)| (&**key, &**value))
    }
}

/// Slots by the hash of something that a specification says; several may have the same. Half of a hash is stored, and the table
/// goes by that.
#[derive(Clone, Debug, Default)]
struct ByHash(HashTable<(u32, u32)>);

impl ByHash {
    fn slots(&self, hash: u64) -> impl Iterator<Item = u32> {
        let half = hash as u32;
        self.0.iter_hash(spread(half)).filter(move |entry| entry.0 == half).map(|(_, slot)| *slot)
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let half = hash as u32;
        self.0.insert_unique(spread(half), (half, slot), |entry| spread(entry.0));
    }

    fn remove(&mut self, hash: u64, slot: u32) {
        let half = hash as u32;
        if let Ok(entry) = self.0.find_entry(spread(half), |entry| *entry == (half, slot)) {
            entry.remove();
        }
    }
}

/// The table uses the lowest and the highest bits.
fn spread(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

#[derive(Clone, Debug, Default)]
struct Index {
    by_spec: ByHash,
    by_common: KeyedMap<CommonTraits, Slots>,
    /// By what pods count.
    by_pods: ByHash,
    /// By which nodes count, and by what key.
    by_nodes: ByHash,
    /// How many counters need the column of a label key.
    n_by_key: KeyedMap<Arc<str>, usize>,
}

/// A followed counter, by number: found without comparing specifications, for as long as it is followed and was not
/// counted again from scratch. Of meaning for the state that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterId {
    slot: u32,
    counted_at: u64,
}

/// The followed counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterTable {
    slots: Column<Option<Arc<DomainCounts>>, SPARSE_CHUNK>,
    free: Vec<u32>,
    /// By slot: whether it was read lately.
    marks: Vec<ReadMark>,
    /// The slot that is the next candidate for eviction.
    hand: usize,
    /// By slot: the number of the counter that is there. Never the same for two of them.
    counted_at: Column<u64, SPARSE_CHUNK>,
    n_counted: u64,
    /// By slot: what the counter takes at most, in bytes.
    sizes: Column<u32, SPARSE_CHUNK>,
    n_counters: usize,
    n_bytes: usize,
    /// Behind an `Arc` because it changes with the set of counters alone.
    index: Arc<Index>,
    /// Label keys that are read without a counter, next candidate for eviction first.
    labels: VecDeque<Arc<str>>,
    /// Hashes of specifications that were requested lately and are not followed.
    asked: Arc<KeyedSet<u64>>,
}

impl CounterTable {
    /// How many counters a cluster with this many node slots may have.
    pub(crate) fn limit(capacity: usize) -> usize {
        (MAX_SLOTS / capacity.max(1)).clamp(64, 4096)
    }

    /// Whether so many counters take no more than half of what all may, in a cluster with this many node slots.
    pub(crate) fn can_hold(capacity: usize, n_counters: u64) -> bool {
        let most_bytes = NODE_BYTES.saturating_mul(capacity).max(1);
        let most = (Self::limit(capacity) / 2).min(MAX_BYTES / 2 / most_bytes);
        n_counters <= most as u64
    }

    /// How many label columns a cluster with this many node slots may have that no counter needs.
    pub(crate) fn label_limit(capacity: usize) -> usize {
        (MAX_LABEL_SLOTS / capacity.max(1)).clamp(32, 512)
    }

    pub(crate) fn len(&self) -> usize {
        self.n_counters
    }

    /// What all counters take, in bytes, each counted at its largest.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Under how many namespaces and labels counters are filed.
    #[cfg(test)]
    pub(crate) fn n_filings(&self) -> usize {
        self.index.by_common.values().map(|slots| slots.len()).sum()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<DomainCounts>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get(&self, spec: &CounterSpec) -> Option<&Arc<DomainCounts>> {
        self.at_slot(self.find(spec)? as usize)
    }

    /// Reads a slot.
    #[inline]
    fn at_slot(&self, slot: usize) -> Option<&Arc<DomainCounts>> {
        let counts = self.slots.try_get(slot)?.as_ref()?;
        self.marks.get(slot)?.set();
        Some(counts)
    }

    /// A counter of the same pods.
    pub(crate) fn with_pods(&self, pods: &CountedPods) -> Option<&Arc<DomainCounts>> {
        let slots = self.index.by_pods.slots(KeyedState::default().hash_one(pods));
        self.at(slots).find(|counts| counts.spec().pods == *pods)
    }

    /// A counter on the same nodes, by the same key.
    pub(crate) fn with_nodes(&self, spec: &CounterSpec) -> Option<&Arc<DomainCounts>> {
        let slots = self.index.by_nodes.slots(hash_of_nodes(spec));
        let is_same = |other: &CounterSpec| {
            other.topology_key == spec.topology_key && other.nodes == spec.nodes
        };
        self.at(slots).find(|counts| is_same(counts.spec()))
    }

    fn at<'a>(
        &'a self,
        slots: impl Iterator<Item = u32> + 'a,
    ) -> impl Iterator<Item = &'a Arc<DomainCounts>> + 'a {
        slots.filter_map(|slot| self.slots.try_get(slot as usize)?.as_ref())
    }

    /// The number under which a counter is found as long as it is the same one.
    pub(crate) fn id_of(&self, spec: &CounterSpec) -> Option<CounterId> {
        let slot = self.find(spec)?;
        Some(CounterId { slot, counted_at: self.counted_at[slot as usize] })
    }

    /// The counter with a number, `None` when it is not followed any more or was counted again.
    #[inline]
    pub(crate) fn by_id(&self, id: CounterId) -> Option<&Arc<DomainCounts>> {
        let slot = id.slot as usize;
        let is_same = self.counted_at.try_get(slot).is_some_and(|at| *at == id.counted_at);
        is_same.then(|| self.at_slot(slot))?
    }

    /// Whether a specification that is not followed was requested lately. Remembers this request.
    pub(crate) fn was_asked(&mut self, spec: &CounterSpec) -> bool {
        let hash = hash_of(spec);
        if self.asked.contains(&hash) {
            return true;
        }
        let asked = Arc::make_mut(&mut self.asked);
        if asked.len() >= MAX_ASKED {
            asked.clear();
        }
        asked.insert(hash);
        false
    }

    /// Keeps the column of a label key. Returns a key whose column is no longer kept, if there are too many.
    pub(crate) fn keep_label(
        &mut self,
        key: &Arc<str>,
        columns: &LabelIndex,
        limit: usize,
    ) -> Option<Arc<str>> {
        if self.labels.contains(key) {
            return None;
        }
        while self.labels.len() >= limit {
            let candidate = self.labels.pop_front()?;
            if columns.was_read(&candidate) {
                self.labels.push_back(candidate);
                continue;
            }
            self.labels.push_back(key.clone());
            return (!self.needs_label(&candidate)).then_some(candidate);
        }
        self.labels.push_back(key.clone());
        None
    }

    /// Whether a counter needs the column of a label key, or [`keep_label`](Self::keep_label) keeps it.
    pub(crate) fn needs_label(&self, key: &str) -> bool {
        self.labels.iter().any(|wanted| **wanted == *key) || self.index.n_by_key.contains_key(key)
    }

    /// Adds a counter that is not there yet, and drops others while there are more than `limit`, or all would be larger
    /// than they may. `n_bytes` is what the new one takes at most. Returns label keys whose columns are no longer used.
    pub(crate) fn insert(
        &mut self,
        counts: Arc<DomainCounts>,
        n_bytes: usize,
        limit: usize,
    ) -> Vec<Arc<str>> {
        let mut dropped = Vec::new();
        let is_full =
            |table: &Self| table.n_counters >= limit.max(1) || table.n_bytes + n_bytes > MAX_BYTES;
        // Before the new one is there, so that it is not a candidate itself. A counter that was read since the hand passed it
        // last is spared, and loses its mark: so two rounds find one to drop.
        while self.n_counters > 0 && is_full(self) {
            let candidate = self.hand;
            self.hand = if candidate + 1 < self.slots.len() { candidate + 1 } else { 0 };
            if self.slots[candidate].is_some() && !self.marks[candidate].take() {
                dropped.extend(self.remove(candidate));
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.marks.push(ReadMark::default());
            self.counted_at.push(0);
            self.sizes.push(0);
            (self.slots.len() - 1) as u32
        });
        // The mark of a counter that was in this slot before would spare the new one.
        self.marks[slot as usize].take();
        // A new number: ids of a counter that was in this slot before must not lead to this one.
        self.n_counted += 1;
        self.counted_at.set(slot as usize, self.n_counted);
        let size = u32::try_from(n_bytes).unwrap_or(u32::MAX);
        self.sizes.set(slot as usize, size);
        self.n_bytes += size as usize;
        self.n_counters += 1;
        let index = Arc::make_mut(&mut self.index);
        index.by_spec.insert(hash_of(counts.spec()), slot);
        index.by_pods.insert(hash_of_pods(counts.spec()), slot);
        index.by_nodes.insert(hash_of_nodes(counts.spec()), slot);
        for common in commons(counts.spec()) {
            index.by_common.entry(common).or_default().push(slot);
        }
        if let Some(key) = &counts.spec().topology_key {
            *index.n_by_key.entry(key.clone()).or_default() += 1;
        }
        self.slots.set(slot as usize, Some(counts));
        // Only now: the new counter may need a column that a dropped one has used.
        dropped.retain(|key| !self.needs_label(key));
        dropped
    }

    /// Puts a counter in place of the one with the same specification.
    pub(crate) fn replace(&mut self, counts: Arc<DomainCounts>) {
        if let Some(slot) = self.find(counts.spec()) {
            self.n_counted += 1;
            self.counted_at.set(slot as usize, self.n_counted);
            self.slots.set(slot as usize, Some(counts));
        }
    }

    /// A pod comes to a node or leaves it. O(labels of the pod + counters that it may concern).
    pub(crate) fn shift(
        &mut self,
        pod: &Pod,
        node: NodeIdx,
        delta: i32,
        labels: &LabelIndex,
        objects: &ObjectStore,
    ) {
        if self.n_counters == 0 {
            return;
        }
        let pairs = pod.labels.iter().map(Some).chain([None]);
        for label in pairs {
            for namespace in [Some(&*pod.namespace), None] {
                let common = BorrowedCommon { namespace, label };
                for slot in self.index.by_common.get(&common).into_iter().flatten() {
                    let slot = *slot as usize;
                    let counts = self.slots.try_get(slot).and_then(Option::as_ref);
                    if counts.is_some_and(|counts| counts.includes(pod, objects))
                        && let Some(counts) = self.slots.get_mut(slot)
                    {
                        Arc::make_mut(counts).shift(node, delta, labels);
                    }
                }
            }
        }
    }

    /// Slots of nodes from this one on are gone.
    pub(crate) fn drop_slots_from(&mut self, capacity: usize) {
        for slot in 0..self.slots.len() {
            let has_more = |counts: &Arc<DomainCounts>| counts.has_slots_from(capacity);
            if self.slots[slot].as_ref().is_some_and(has_more)
                && let Some(counts) = self.slots.get_mut(slot)
            {
                Arc::make_mut(counts).drop_slots_from(capacity);
            }
        }
    }

    /// A node is about to change in `kinds`, or to go.
    pub(crate) fn hide_node(&mut self, node: NodeIdx, kinds: ChangeKinds, labels: &LabelIndex) {
        self.change_all(
            |counts| is_concerned(counts.spec(), kinds) && counts.is_eligible(node),
            |counts| counts.hide_node(node, labels),
        );
    }

    /// A node has changed in `kinds`, or has come.
    pub(crate) fn show_node(
        &mut self,
        idx: NodeIdx,
        node: &Node,
        kinds: ChangeKinds,
        labels: &LabelIndex,
    ) {
        self.change_all(
            |counts| is_concerned(counts.spec(), kinds) && counts.spec().includes_node(node),
            |counts| counts.show_node(idx, labels),
        );
    }

    /// Changes those counters that `concerns` names. Counters that others share are not copied unless they change.
    fn change_all(
        &mut self,
        concerns: impl Fn(&DomainCounts) -> bool,
        change: impl Fn(&mut DomainCounts),
    ) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_deref().is_some_and(&concerns)
                && let Some(counts) = self.slots.get_mut(slot)
            {
                change(Arc::make_mut(counts));
            }
        }
    }

    fn find(&self, spec: &CounterSpec) -> Option<u32> {
        let is_wanted = |slot: &u32| {
            let counts = self.slots.try_get(*slot as usize).and_then(Option::as_ref);
            counts.is_some_and(|counts| counts.spec() == spec)
        };
        self.index.by_spec.slots(hash_of(spec)).find(is_wanted)
    }

    /// Drops a counter and returns its topology key.
    fn remove(&mut self, slot: usize) -> Option<Arc<str>> {
        let counts = self.slots.take(slot)?;
        let number = slot as u32;
        self.n_counters -= 1;
        self.n_bytes -= self.sizes.take(slot) as usize;
        self.free.push(number);
        let index = Arc::make_mut(&mut self.index);
        index.by_spec.remove(hash_of(counts.spec()), number);
        index.by_pods.remove(hash_of_pods(counts.spec()), number);
        index.by_nodes.remove(hash_of_nodes(counts.spec()), number);
        if let Some(key) = &counts.spec().topology_key
            && let Some(n) = index.n_by_key.get_mut(key)
        {
            *n -= 1;
            // A key is needed as long as it has an entry.
            if *n == 0 {
                index.n_by_key.remove(key);
            }
        }
        for common in commons(counts.spec()) {
            if let Some(slots) = index.by_common.get_mut(&common) {
                slots.retain(|slot| *slot != number);
                if slots.is_empty() {
                    index.by_common.remove(&common);
                }
            }
        }
        counts.spec().topology_key.clone()
    }
}

/// Whether a change of a node in `kinds` can matter to a counter.
fn is_concerned(spec: &CounterSpec, kinds: ChangeKinds) -> bool {
    kinds.intersects(ChangeKinds::LABELS)
        || kinds.intersects(ChangeKinds::TAINTS) && spec.nodes.tolerated.is_some()
}

fn hash_of(spec: &CounterSpec) -> u64 {
    KeyedState::default().hash_one(spec)
}

fn hash_of_pods(spec: &CounterSpec) -> u64 {
    KeyedState::default().hash_one(&spec.pods)
}

fn hash_of_nodes(spec: &CounterSpec) -> u64 {
    KeyedState::default().hash_one((&spec.nodes, &spec.topology_key))
}

/// What to file a counter under: each combination is met by a pod at most once, since a pod has one namespace and one
/// value of a label. O(namespaces + values).
fn commons(spec: &CounterSpec) -> Vec<CommonTraits> {
    if spec.pods.terms.is_empty() {
        return Vec::new();
    }
    let mut namespaces: Vec<Option<Arc<str>>> = match spec.pods.only_namespaces() {
        Some(names) => names.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    // Filed twice under a namespace that is listed twice, the counter would count each pod twice.
    namespaces.sort_unstable();
    namespaces.dedup();
    let labels: Vec<Option<(Arc<str>, Arc<str>)>> = match spec.pods.only_values() {
        Some((key, values)) => {
            values.iter().map(|value| Some((key.clone(), value.clone()))).collect()
        }
        None => vec![None],
    };
    if namespaces.len() * labels.len() > MAX_PAIRS {
        return if labels.len() <= namespaces.len() {
            labels.into_iter().map(|label| CommonTraits { namespace: None, label }).collect()
        } else {
            namespaces
                .into_iter()
                .map(|namespace| CommonTraits { namespace, label: None })
                .collect()
        };
    }
    let of_namespace = |namespace: &Option<Arc<str>>| {
        let namespace = namespace.clone();
        labels
            .iter()
            .map(move |label| CommonTraits { namespace: namespace.clone(), label: label.clone() })
            .collect::<Vec<_>>()
    };
    namespaces.iter().flat_map(of_namespace).collect()
}
