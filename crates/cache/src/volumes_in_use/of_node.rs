//! The volumes in use on one node, as it is or as it would be with other pods.

use std::collections::{BTreeMap, BTreeSet};
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
    changes: Option<Changes>,
}

/// What differs from the cluster as it is.
#[derive(Debug, Default)]
struct Changes {
    /// By how much the number of uses differs.
    uses: BTreeMap<UsedVolume, i64>,
    /// Pods that have come with volumes that cannot be counted.
    broken: BTreeSet<Arc<str>>,
    /// Pods that are gone.
    removed: BTreeSet<Arc<str>>,
}

impl Changes {
    fn change(&mut self, objects: &ObjectStore, pod: &Pod, n: i64) {
        for_each_standing(objects, pod, |standing| match standing {
            Standing::Nothing => {}
            Standing::Used(volume) => *self.uses.entry(volume.clone()).or_default() += n,
            Standing::Broken if n > 0 => {
                self.broken.insert(pod.uid.clone());
            }
            Standing::Broken => {}
        });
    }
}

impl<'a> NodeVolumes<'a> {
    /// Those on a node as it is. O(1).
    pub(crate) fn new(volumes: &'a VolumesInUse, node: NodeIdx) -> Self {
        Self { volumes, node, changes: None }
    }

    /// Those on a node as it would be without some of its pods and with others. O(volumes of these pods).
    pub(crate) fn with_changes(
        self,
        objects: &ObjectStore,
        removed: &[&Arc<Pod>],
        added: &[&Arc<Pod>],
    ) -> Self {
        let mut changes = Changes::default();
        changes.removed.extend(removed.iter().map(|pod| pod.uid.clone()));
        removed.iter().for_each(|pod| changes.change(objects, pod, -1));
        added.iter().for_each(|pod| changes.change(objects, pod, 1));
        Self { changes: Some(changes), ..self }
    }

    /// Whether pods use a volume.
    pub fn contains(&self, volume: &UsedVolume) -> bool {
        let changes = self.changes.as_ref();
        let change = changes.and_then(|changes| changes.uses.get(volume)).unwrap_or(&0);
        self.n_uses(volume) + change > 0
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
            || self.changes.as_ref().is_some_and(|changes| !changes.broken.is_empty())
    }

    /// Whether it is the volumes of this pod.
    pub fn is_broken(&self, uid: &str) -> bool {
        let broken = self.volumes.counts.broken_on(self.node);
        broken.is_some_and(|pods| pods.contains_key(uid) && !self.has_lost(uid))
            || self.changes.as_ref().is_some_and(|changes| changes.broken.contains(uid))
    }

    fn has_lost(&self, uid: &str) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.removed.contains(uid))
    }

    fn n_uses(&self, volume: &UsedVolume) -> i64 {
        i64::from(self.volumes.counts.n_uses(self.node, volume))
    }

    fn n_of(&self, is_class: bool, name: &str) -> usize {
        let n = self.volumes.counts.n_of(self.node, is_class, name) as usize;
        let changed = self.changes.iter().flat_map(|changes| &changes.uses);
        changed
            .filter(|(volume, _)| {
                let (is_of_class, of) = group_of(volume);
                is_of_class == is_class && **of == *name
            })
            .fold(n, |n, (volume, change)| {
                let before = self.n_uses(volume);
                let is_there = before + change > 0;
                match (before > 0, is_there) {
                    (false, true) => n + 1,
                    (true, false) => n - 1,
                    _ => n,
                }
            })
    }
}
