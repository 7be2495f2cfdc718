//! The volumes in use on one node, as it is or as it would be with other pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use super::counts::group_of;
use super::{Standing, UsedVolume, VolumesInUse, for_each_standing};
use crate::node_table::NodeIdx;
use crate::objects::ObjectStore;

/// The volumes that the pods on a node use, and that may take a place of a CSI driver there.
#[derive(Debug)]
pub struct NodeVolumes<'a> {
    volumes: &'a VolumesInUse,
    node: NodeIdx,
    changes: Option<&'a VolumeChanges>,
}

/// How the volumes of a node with other pods differ from those of the node as it is, followed as pods come and go: preemption asks
/// about a node with all its pods gone, and again with each of them put back.
///
/// Invariant: no entry is zero; it is of meaning for the state and the node it was made for.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeChanges {
    /// By how much the number of uses differs.
    uses: BTreeMap<UsedVolume, i64>,
    /// By how much the number of volumes of a driver differs, and of a class.
    groups: [BTreeMap<Arc<str>, i64>; 2],
    /// How many pods have come, other than the node's own, that have volumes which cannot be counted; by UID.
    broken: BTreeMap<Arc<str>, i64>,
    /// How much more often each of the node's own pods is there; less than zero if it is gone. Which of these have volumes that cannot
    /// be counted is known.
    own: BTreeMap<Arc<str>, i64>,
    /// How many volumes were looked at.
    #[cfg(test)]
    pub(crate) n_looked_up: usize,
}

impl VolumeChanges {
    /// `n` more pods like this one are on a node; fewer if it is less than zero. O(volumes of the pod). `is_own` says whether the node has
    /// it in the cluster as it is.
    pub(crate) fn change(
        &mut self,
        (objects, there): (&ObjectStore, &VolumesInUse),
        node: NodeIdx,
        (pod, is_own): (&Pod, bool),
        n: i64,
    ) {
        #[cfg(test)]
        {
            self.n_looked_up += pod.volumes.len();
        }
        let mut is_broken = false;
        for_each_standing(objects, pod, |standing| match standing {
            Standing::Nothing => {}
            Standing::Used(volume) => self.change_use(there, node, volume, n),
            Standing::Broken => is_broken = true,
        });
        if is_own {
            add(&mut self.own, &pod.uid, n);
        } else if is_broken {
            add(&mut self.broken, &pod.uid, n);
        }
    }

    fn change_use(&mut self, there: &VolumesInUse, node: NodeIdx, volume: &UsedVolume, n: i64) {
        let n_uses = i64::from(there.counts.n_uses(node, volume));
        let before = self.uses.get(volume).copied().unwrap_or(0);
        let was_there = n_uses + before > 0;
        let is_there = n_uses + before + n > 0;
        add(&mut self.uses, volume, n);
        let (is_class, name) = group_of(volume);
        let n_volumes = i64::from(is_there) - i64::from(was_there);
        add(&mut self.groups[usize::from(is_class)], name, n_volumes);
    }
}

/// Adds to a number, and drops it if nothing is left.
fn add<K: Ord + Clone>(numbers: &mut BTreeMap<K, i64>, key: &K, n: i64) {
    let sum = numbers.get(key).copied().unwrap_or(0) + n;
    if sum == 0 {
        numbers.remove(key);
    } else {
        numbers.insert(key.clone(), sum);
    }
}

impl<'a> NodeVolumes<'a> {
    /// Those on a node as it is. O(1).
    pub(crate) fn new(volumes: &'a VolumesInUse, node: NodeIdx) -> Self {
        Self { volumes, node, changes: None }
    }

    /// Those on a node as it would be with other pods. O(1).
    pub(crate) fn with_changes(self, changes: &'a VolumeChanges) -> Self {
        Self { changes: Some(changes), ..self }
    }

    /// Whether a pod on the node uses the volume.
    pub fn contains(&self, volume: &UsedVolume) -> bool {
        let changes = self.changes.and_then(|changes| changes.uses.get(volume));
        let n_uses = i64::from(self.volumes.counts.n_uses(self.node, volume));
        n_uses + changes.unwrap_or(&0) > 0
    }

    /// How many existing volumes of a driver are used.
    pub fn n_of_driver(&self, driver: &str) -> usize {
        self.n_of(false, driver)
    }

    /// How many volumes are used that a class is to make.
    pub fn n_of_class(&self, class: &str) -> usize {
        self.n_of(true, class)
    }

    /// Whether volumes of a pod cannot be counted. Then the counts say nothing.
    pub fn has_broken_pods(&self) -> bool {
        let is_there = |uid: &Arc<str>| !self.has_lost(uid);
        let broken = self.volumes.counts.broken_on(self.node);
        broken.is_some_and(|pods| pods.keys().any(is_there))
            || self.changes.is_some_and(|changes| !changes.broken.is_empty())
    }

    /// Whether it is the volumes of this pod.
    pub fn is_broken(&self, uid: &str) -> bool {
        let broken = self.volumes.counts.broken_on(self.node);
        broken.is_some_and(|pods| pods.contains_key(uid) && !self.has_lost(uid))
            || self.changes.is_some_and(|changes| changes.broken.contains_key(uid))
    }

    fn has_lost(&self, uid: &str) -> bool {
        let own = self.changes.and_then(|changes| changes.own.get(uid));
        own.is_some_and(|n| *n < 0)
    }

    fn n_of(&self, is_class: bool, name: &str) -> usize {
        let n = i64::from(self.volumes.counts.n_of(self.node, is_class, name));
        let changes = self.changes.and_then(|it| it.groups[usize::from(is_class)].get(name));
        usize::try_from(n + changes.unwrap_or(&0)).unwrap_or(0)
    }
}
