//! All pods that have a node, by UID and by node.
//!
//! Invariants: a pod is in the list of exactly one slot, at the place its record says; a list of a node changes the
//! way the reference's does: additions at the end, the last one into the place of a removed one. Every operation is
//! O(1) and allocates nothing once its lists have grown.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;

pub(crate) use crate::claims::VolumeCounts;
use crate::claims::{NodeClaims, claims_of};
use crate::fingerprint::Fingerprint;
use crate::fork::{Column, CowMap};
use crate::freeable::Levels;
use crate::node_set::NodeSet;
use crate::node_table::NodeIdx;
use crate::ports::HostPorts;

/// The place of a pod in the pod table, while the pod is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodIdx(u32);

impl From<PodIdx> for usize {
    fn from(pod: PodIdx) -> Self {
        pod.0 as usize
    }
}

/// In none of the lists in question.
const UNLISTED: u32 = u32::MAX;

/// The lists of a node, as indexes into [`NodePods::lists`].
pub(crate) const ALL: usize = 0;
/// Pods with any pod affinity or anti-affinity, even without terms.
pub(crate) const WITH_AFFINITY: usize = 1;
/// Pods with at least one required anti-affinity term.
pub(crate) const WITH_REQUIRED_ANTI_AFFINITY: usize = 2;
const N_LISTS: usize = 3;

#[derive(Clone, Debug)]
struct PodRecord {
    pod: Arc<Pod>,
    node: NodeIdx,
    fingerprint: Fingerprint,
    /// The place in each list of the node.
    places: [u32; N_LISTS],
    /// The place in the list of assumed pods.
    assumed_place: u32,
}

/// What a node holds because of its pods, apart from sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePods {
    lists: [Vec<PodIdx>; N_LISTS],
    pub(crate) ports: HostPorts,
    pub(crate) claims: NodeClaims,
    pub(crate) levels: Levels,
}

/// Pods and the lists of every node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodTable {
    records: Column<Option<PodRecord>, 256>,
    by_uid: CowMap<Arc<str>, PodIdx>,
    free: Column<PodIdx>,
    assumed: Column<PodIdx>,
    nodes: Column<Arc<NodePods>, 128>,
    pub(crate) volumes: Column<VolumeCounts>,
    /// The nodes with host ports in use.
    pub(crate) with_ports: NodeSet,
    /// How many pods have which priority; a cluster uses few.
    priorities: BTreeMap<i32, usize>,
}

/// Which lists a pod belongs to.
pub(crate) fn memberships(pod: &Pod) -> [bool; N_LISTS] {
    let anti_affinity = pod.spec.pod_anti_affinity.as_ref();
    [
        true,
        pod.spec.pod_affinity.is_some() || anti_affinity.is_some(),
        anti_affinity.is_some_and(|affinity| !affinity.required.is_empty()),
    ]
}

impl PodTable {
    pub(crate) fn grow(&mut self, capacity: usize) {
        self.nodes.grow(capacity);
        self.volumes.grow(capacity);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(crate) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.first_key_value().map(|(priority, _)| *priority)
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
    pub(crate) fn on_node(&self, node: NodeIdx) -> Option<&NodePods> {
        self.nodes.try_get(node).map(|pods| &**pods)
    }

    pub(crate) fn list(&self, node: NodeIdx, list: usize) -> &[PodIdx] {
        self.on_node(node).map_or(&[], |pods| &pods.lists[list])
    }

    pub(crate) fn pods_in(&self, node: NodeIdx, list: usize) -> impl Iterator<Item = &Arc<Pod>> {
        self.list(node, list).iter().filter_map(|idx| self.pod(*idx))
    }

    /// Adds a pod that is not in the table yet.
    pub(crate) fn insert(&mut self, pod: Arc<Pod>, node: NodeIdx, is_assumed: bool) -> PodIdx {
        let idx = match self.free.pop() {
            Some(idx) => idx,
            None => {
                self.records.push(None);
                PodIdx((self.records.len() - 1) as u32)
            }
        };
        let mut record = PodRecord {
            fingerprint: Fingerprint::of(&pod),
            pod,
            node,
            places: [UNLISTED; N_LISTS],
            assumed_place: UNLISTED,
        };
        if is_assumed {
            record.assumed_place = self.assumed.len() as u32;
            self.assumed.push(idx);
        }
        let on_node = Arc::make_mut(self.nodes.get_mut(node));
        let is_member = memberships(&record.pod);
        for ((list, place), is_member) in
            on_node.lists.iter_mut().zip(&mut record.places).zip(is_member)
        {
            if is_member {
                *place = list.len() as u32;
                list.push(idx);
            }
        }
        for port in record.pod.spec.host_ports.iter() {
            on_node.ports.insert(port);
            self.with_ports.insert(node);
        }
        on_node.levels.add(&record.pod);
        for claim in claims_of(&record.pod) {
            on_node.claims.insert(claim);
        }
        if !record.pod.volumes.is_empty() {
            self.volumes.get_mut(node).add(VolumeCounts::of(&record.pod));
        }
        *self.priorities.entry(record.pod.priority()).or_default() += 1;
        self.by_uid.insert(record.pod.uid.clone(), idx);
        self.records.set(idx, Some(record));
        idx
    }

    /// Removes a pod; returns it with the node it was on.
    pub(crate) fn remove(&mut self, idx: PodIdx) -> Option<(Arc<Pod>, NodeIdx)> {
        let record = self.records.take(idx)?;
        let on_node = Arc::make_mut(self.nodes.get_mut(record.node));
        for (which, (list, place)) in on_node.lists.iter_mut().zip(record.places).enumerate() {
            if place == UNLISTED {
                continue;
            }
            list.swap_remove(place as usize);
            if let Some(moved) = list.get(place as usize)
                && let Some(moved) = self.records.get_mut(*moved)
            {
                moved.places[which] = place;
            }
        }
        for port in record.pod.spec.host_ports.iter() {
            on_node.ports.remove(port);
        }
        if on_node.ports.is_empty() {
            self.with_ports.remove(record.node);
        }
        on_node.levels.remove(&record.pod);
        for claim in claims_of(&record.pod) {
            on_node.claims.remove(&claim);
        }
        if !record.pod.volumes.is_empty() {
            self.volumes.get_mut(record.node).subtract(VolumeCounts::of(&record.pod));
        }
        self.unlist_assumed(record.assumed_place);
        if let Some(n) = self.priorities.get_mut(&record.pod.priority()) {
            *n -= 1;
            if *n == 0 {
                self.priorities.remove(&record.pod.priority());
            }
        }
        self.by_uid.remove(&*record.pod.uid);
        self.free.push(idx);
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
