//! All pods that have a node, by UID and by node.
//!
//! Invariants: a pod is in the list of exactly one slot, at the place its record says; the list of a node changes the
//! way the reference's does: additions at the end, the last one into the place of a removed one. Every operation is
//! O(1) on average, and allocates nothing while its lists are about as long as before.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use crate::fingerprint::Fingerprint;
use crate::fork::{Column, CowMap, WIDE_CHUNK};
use crate::freeable::Levels;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;
use crate::ports::HostPorts;
use crate::resource_columns::ResourceColumns;
use crate::room::room_to_keep;
use crate::volume_counts::VolumeCounts;

/// The place of a pod in the pod table, while the pod is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodIdx(u32);

impl From<PodIdx> for usize {
    fn from(pod: PodIdx) -> Self {
        pod.0 as usize
    }
}

/// Not in the list of assumed pods.
const UNLISTED: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct PodRecord {
    pod: Arc<Pod>,
    node: NodeIdx,
    fingerprint: Fingerprint,
    /// Whether the pod requests scalar resources.
    has_scalars: bool,
    /// The place in the list of the node.
    place: u32,
    /// The place in the list of assumed pods.
    assumed_place: u32,
}

/// What a node holds because of its pods, apart from sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePods {
    pods: Vec<PodIdx>,
    pub(crate) ports: HostPorts,
    pub(crate) levels: Levels,
}

/// Pods and the lists of every node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodTable {
    records: Column<Option<PodRecord>, WIDE_CHUNK>,
    by_uid: CowMap<Arc<str>, PodIdx>,
    /// How many pods there are of each namespace that has any.
    by_namespace: CowMap<Arc<str>, u32>,
    free: Column<PodIdx>,
    assumed: Column<PodIdx>,
    nodes: Column<Arc<NodePods>, WIDE_CHUNK>,
    /// What a slot without pods holds.
    nothing: Arc<NodePods>,
    pub(crate) volumes: Column<VolumeCounts>,
    /// The nodes with host ports in use.
    pub(crate) with_ports: NodeSet,
}

impl PodTable {
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.nodes.resize(capacity);
        self.volumes.resize(capacity);
    }

    /// A slot without pods is given up.
    pub(crate) fn slot_freed(&mut self, node: NodeIdx) {
        self.nodes.set(node, self.nothing.clone());
    }

    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// How many pods of a namespace there are.
    pub(crate) fn n_in(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).map_or(0, |n_pods| *n_pods as usize)
    }

    /// How many namespaces have pods.
    pub(crate) fn n_namespaces(&self) -> usize {
        self.by_namespace.len()
    }

    pub(crate) fn n_assumed(&self) -> usize {
        self.assumed.len()
    }

    pub(crate) fn idx(&self, uid: &str) -> Option<PodIdx> {
        self.by_uid.get(uid).copied()
    }

    pub(crate) fn pod(&self, idx: PodIdx) -> Option<&Arc<Pod>> {
        self.record(idx).map(|record| &record.pod)
    }

    pub(crate) fn node_of(&self, idx: PodIdx) -> Option<NodeIdx> {
        self.record(idx).map(|record| record.node)
    }

    pub(crate) fn is_assumed(&self, idx: PodIdx) -> bool {
        self.record(idx).is_some_and(|record| record.assumed_place != UNLISTED)
    }

    pub(crate) fn assumed(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.assumed.iter().filter_map(|idx| self.pod(*idx))
    }

    /// All pods, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<Pod>, NodeIdx)> {
        self.records.iter().flatten().map(|record| (&record.pod, record.node))
    }

    /// All pods that may be among those that count, and others; in no order that means anything.
    pub(crate) fn iter_with(
        &self,
        needed: Fingerprint,
    ) -> impl Iterator<Item = (&Arc<Pod>, NodeIdx)> {
        let records = self.records.iter().flatten();
        records
            .filter(move |record| record.fingerprint.has(needed))
            .map(|record| (&record.pod, record.node))
    }

    /// What a node holds; `None` for slots that never were.
    pub(crate) fn held_by(&self, node: NodeIdx) -> Option<&NodePods> {
        self.nodes.try_get(node).map(|pods| &**pods)
    }

    /// The pods on a node by number, in the order the reference keeps them in.
    pub(crate) fn list(&self, node: NodeIdx) -> &[PodIdx] {
        self.held_by(node).map_or(&[], |held| &held.pods)
    }

    /// The pods on a node, in the same order.
    pub(crate) fn on_node(&self, node: NodeIdx) -> impl Iterator<Item = &Arc<Pod>> {
        self.list(node).iter().filter_map(|idx| self.pod(*idx))
    }

    /// The pods on a node that request scalar resources. O(pods on the node).
    pub(crate) fn with_scalars(&self, node: NodeIdx) -> impl Iterator<Item = &Arc<Pod>> {
        let records = self.list(node).iter().filter_map(|idx| self.record(*idx));
        records.filter(|record| record.has_scalars).map(|record| &record.pod)
    }

    /// Some node offers a scalar resource now and none did before: returns what pods request of it, by node. O(pods).
    pub(crate) fn scalar_gained(&mut self, name: &Arc<str>) -> Vec<(NodeIdx, i64)> {
        let records = self.records.iter().flatten().filter(|record| record.has_scalars);
        let asked = records.filter_map(|record| {
            let amount = record.pod.requests.accounted.scalar(name)?;
            Some((record.node, record.pod.priority(), amount))
        });
        let asked: Vec<_> = asked.collect();
        for (node, priority, amount) in &asked {
            let held = Arc::make_mut(self.nodes.get_mut(*node));
            held.levels.add_scalar(*priority, name, *amount);
        }
        asked.into_iter().map(|(node, _, amount)| (node, amount)).collect()
    }

    /// No node offers a scalar resource any more: returns the nodes with pods that request it. O(pods).
    pub(crate) fn scalar_lost(&mut self, name: &str) -> Vec<NodeIdx> {
        let records = self.records.iter().flatten().filter(|record| record.has_scalars);
        let asking = records.filter(|it| it.pod.requests.accounted.scalar(name).is_some());
        let mut nodes: Vec<_> = asking.map(|record| record.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in &nodes {
            Arc::make_mut(self.nodes.get_mut(*node)).levels.forget_scalar(name);
        }
        nodes
    }

    /// Adds a pod that is not in the table yet, where nodes have `offered`.
    pub(crate) fn insert(
        &mut self,
        pod: Arc<Pod>,
        node: NodeIdx,
        is_assumed: bool,
        offered: &ResourceColumns,
    ) {
        let idx = self.free_place();
        self.by_uid.insert(pod.uid.clone(), idx);
        *self.by_namespace.get_or_insert_with(&pod.namespace, || 0) += 1;
        self.list_on_node(idx, pod, (node, is_assumed), offered);
    }

    /// Removes a pod; returns it with the node it was on.
    pub(crate) fn remove(
        &mut self,
        idx: PodIdx,
        offered: &ResourceColumns,
    ) -> Option<(Arc<Pod>, NodeIdx)> {
        let (pod, node) = self.unlist(idx, offered)?;
        self.by_uid.remove(&*pod.uid);
        self.leave_namespace(&pod.namespace);
        self.free_record(idx);
        Some((pod, node))
    }

    /// A place without a record. The list of free places may have some that were given back, or that are taken by now.
    fn free_place(&mut self) -> PodIdx {
        while let Some(idx) = self.free.pop() {
            if self.records.try_get(idx).is_some_and(Option::is_none) {
                return idx;
            }
        }
        self.records.push(None);
        PodIdx((self.records.len() - 1) as u32)
    }

    /// A place has lost its record. Those at the end are given back.
    fn free_record(&mut self, idx: PodIdx) {
        let mut len = self.records.len();
        if usize::from(idx) + 1 < len {
            return self.free.push(idx);
        }
        while len > 0 && self.records.try_get(len - 1).is_some_and(Option::is_none) {
            len -= 1;
        }
        self.records.resize(len);
        if len == 0 {
            self.free = Column::new();
        }
    }

    /// Puts a pod in place of the one of the same UID, on `node` and not assumed, and returns that one with the node it was on.
    /// As removing one and adding the other, but found by number alone.
    pub(crate) fn replace(
        &mut self,
        idx: PodIdx,
        pod: Arc<Pod>,
        node: NodeIdx,
        offered: &ResourceColumns,
    ) -> Option<(Arc<Pod>, NodeIdx)> {
        let (old, old_node) = self.unlist(idx, offered)?;
        if old.namespace != pod.namespace {
            self.leave_namespace(&old.namespace);
            *self.by_namespace.get_or_insert_with(&pod.namespace, || 0) += 1;
        }
        self.list_on_node(idx, pod, (node, false), offered);
        Some((old, old_node))
    }

    fn leave_namespace(&mut self, namespace: &str) {
        if let Some(n_pods) = self.by_namespace.get_mut(namespace) {
            *n_pods -= 1;
            if *n_pods == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// Writes the record of a pod and puts it into the lists.
    fn list_on_node(
        &mut self,
        idx: PodIdx,
        pod: Arc<Pod>,
        (node, is_assumed): (NodeIdx, bool),
        offered: &ResourceColumns,
    ) {
        let assumed_place = if is_assumed { self.assumed.len() as u32 } else { UNLISTED };
        if is_assumed {
            self.assumed.push(idx);
        }
        let on_node = Arc::make_mut(self.nodes.get_mut(node));
        let place = on_node.pods.len() as u32;
        on_node.pods.push(idx);
        if !pod.spec.host_ports.is_empty() {
            on_node.ports.insert(&pod.spec.host_ports);
            self.with_ports.insert(node);
        }
        on_node.levels.add(&pod, offered);
        if !pod.volumes.is_empty() {
            self.volumes.get_mut(node).add(VolumeCounts::of(&pod));
        }
        let fingerprint = Fingerprint::of(&pod);
        let has_scalars = !pod.requests.accounted.scalars.is_empty();
        let record = PodRecord { pod, node, fingerprint, has_scalars, place, assumed_place };
        self.records.set(idx, Some(record));
    }

    /// Takes a record out of its place and the lists.
    fn unlist(&mut self, idx: PodIdx, offered: &ResourceColumns) -> Option<(Arc<Pod>, NodeIdx)> {
        let record = self.records.take(idx)?;
        let on_node = Arc::make_mut(self.nodes.get_mut(record.node));
        on_node.pods.swap_remove(record.place as usize);
        // The last pod of the list has taken the place.
        if let Some(moved) = on_node.pods.get(record.place as usize)
            && let Some(moved) = self.records.get_mut(*moved)
        {
            moved.place = record.place;
        }
        if let Some(room) = room_to_keep(on_node.pods.len(), on_node.pods.capacity()) {
            on_node.pods.shrink_to(room);
        }
        if !record.pod.spec.host_ports.is_empty() {
            on_node.ports.remove(&record.pod.spec.host_ports);
        }
        // The set is asked, not the other pods: of two pods with one port, the first that leaves frees it.
        if on_node.ports.is_empty() {
            self.with_ports.remove(record.node);
        }
        on_node.levels.remove(&record.pod, offered);
        if !record.pod.volumes.is_empty() {
            self.volumes.get_mut(record.node).subtract(VolumeCounts::of(&record.pod));
        }
        self.unlist_assumed(record.assumed_place);
        Some((record.pod, record.node))
    }

    fn unlist_assumed(&mut self, place: u32) {
        if place == UNLISTED {
            return;
        }
        let Some(last) = self.assumed.pop() else { return };
        if (place as usize) < self.assumed.len() {
            self.assumed.set(place as usize, last);
            if let Some(moved) = self.records.get_mut(last) {
                moved.assumed_place = place;
            }
        }
    }

    fn record(&self, idx: PodIdx) -> Option<&PodRecord> {
        self.records.try_get(idx)?.as_ref()
    }
}
