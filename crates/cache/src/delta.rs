//! Nodes come, change and go.
//!
//! Invariants: a refresh touches only the columns of what differs; a node that goes while pods are on it becomes a
//! ghost, which keeps its slot and what its pods request and nothing else; the last pod of a ghost takes the ghost
//! with it.

use std::sync::Arc;

use kube_scheduler_api_types::{Labels, Node};

use crate::change_log::ChangeKinds;
use crate::error::CacheError;
use crate::fork::COLUMN_CHUNK;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

impl ClusterState {
    /// Adds a node or replaces it by a newer version, and returns its slot. A ghost of this name becomes a node.
    /// O(labels in use + images + what differs).
    pub fn add_node(&mut self, node: Arc<Node>) -> NodeIdx {
        let idx = self.claim_slot(&node.name);
        let old = self.nodes.set_node(idx, node.clone());
        let kinds = old.as_ref().map_or(ChangeKinds::NODE, |old| differences(old, &node));

        // Counters find the domain of a node in the label columns. So the node leaves them while the columns still have
        // its old labels, and enters them again once they have the new ones.
        let counted_by = kinds & (ChangeKinds::LABELS | ChangeKinds::TAINTS);
        if !counted_by.is_empty() {
            self.uncount_node(idx, counted_by);
        }
        if kinds.contains(ChangeKinds::LABELS) {
            let old_labels = old.as_ref().map(|old| old.labels.clone()).unwrap_or_default();
            self.update_labels(idx, &old_labels, &node.labels);
        }
        if kinds.contains(ChangeKinds::TAINTS) {
            self.set_taints(idx, &node);
        }
        if kinds.contains(ChangeKinds::ALLOCATABLE) {
            self.set_allocatable(idx, &node.allocatable);
            self.columns.allowed_pods.set(idx, node.allowed_pods);
        }
        if kinds.contains(ChangeKinds::UNSCHEDULABLE) {
            self.columns.unschedulable.set(idx, node.unschedulable);
        }
        if !counted_by.is_empty() {
            self.count_node(idx, &node, counted_by);
        }
        // A ghost's pods are known already, but their claims count only on nodes that have an object.
        if old.is_none() {
            self.count_claims(idx);
        }
        // Even a refresh with the same list can change the size of an image.
        let old_images = old.as_ref().map_or(&[][..], |old| &old.images);
        let images_changed = self.images.update(idx, old_images, &node.images);
        let kinds = match old {
            Some(_) if images_changed => kinds | ChangeKinds::IMAGES,
            Some(_) => kinds,
            None => kinds | ChangeKinds::ADDED,
        };
        // Last, since recording a change recomputes the headroom from the columns.
        if !kinds.is_empty() {
            self.record(idx, kinds);
        }
        if images_changed {
            self.image_sequence = self.sequence();
        }
        idx
    }

    /// The same as [`add_node`](Self::add_node): a watch cannot always tell an added node from an updated one.
    pub fn update_node(&mut self, node: Arc<Node>) -> NodeIdx {
        self.add_node(node)
    }

    /// Removes a node. While it has pods it stays as a ghost, which no cycle sees. Removing a ghost changes nothing.
    ///
    /// # Errors
    /// If there is neither a node nor a ghost of this name.
    pub fn remove_node(&mut self, name: &str) -> Result<(), CacheError> {
        let idx = self
            .nodes
            .slot_of(name)
            .ok_or_else(|| CacheError::NodeNotFound { name: name.into() })?;
        let Some(old) = self.nodes.clear_node(idx) else { return Ok(()) };

        // As in `add_node`: the node leaves counters while the label columns still have its domain.
        let nothing = Node::default();
        self.uncount_node(idx, ChangeKinds::NODE);
        self.update_labels(idx, &old.labels, &nothing.labels);
        self.set_taints(idx, &nothing);
        self.set_allocatable(idx, &nothing.allocatable);
        self.columns.allowed_pods.set(idx, 0);
        self.columns.unschedulable.remove(idx);
        self.uncount_claims(idx);
        let images_changed = self.images.update(idx, &old.images, &nothing.images);
        // Its pods as well: no attempt sees those on a ghost.
        self.record(idx, ChangeKinds::NODE | ChangeKinds::PODS | ChangeKinds::REMOVED);
        if images_changed {
            self.image_sequence = self.sequence();
        }
        // Last: the slot may go to another node from here on.
        self.drop_if_unused(idx);
        Ok(())
    }

    /// The slot of a name, made as a ghost when it is new.
    pub(crate) fn claim_slot(&mut self, name: &Arc<str>) -> NodeIdx {
        let (idx, is_new) = self.nodes.claim_slot(name);
        if !is_new {
            return idx;
        }
        if self.taint_ids.len() < self.nodes.capacity() {
            self.resize_columns();
        }
        self.storage.slot_claimed(idx, name, &self.objects);
        idx
    }

    /// Makes all columns as long as there are slots.
    fn resize_columns(&mut self) {
        let capacity = self.nodes.capacity();
        self.columns.resize(capacity);
        self.taint_ids.resize(capacity);
        self.labels.resize(capacity);
        self.pods.resize(capacity);
        self.affinity_terms.resize(capacity);
        self.storage.resize(capacity);
    }

    /// Gives the slots behind the last one in use back. Pods may name thousands of nodes that do not exist; once they are gone, nothing
    /// is left of these. Waits for the next order of nodes if the present one lists nodes that are gone.
    pub(crate) fn drop_free_slots(&mut self) {
        let before = self.nodes.capacity();
        if !self.nodes.drop_free_slots() {
            return;
        }
        self.resize_columns();
        let after = self.nodes.capacity();
        if after.div_ceil(COLUMN_CHUNK) < before.div_ceil(COLUMN_CHUNK) {
            self.counters.drop_slots_from(after);
        }
    }

    /// Frees a slot that has neither a node object nor pods.
    pub(crate) fn drop_if_unused(&mut self, idx: NodeIdx) {
        if self.node(idx).is_none() && self.n_pods_on(idx) == 0 {
            self.storage.slot_freed(idx);
            self.pods.slot_freed(idx);
            self.nodes.free_slot(idx);
            self.drop_free_slots();
        }
    }

    /// The claims of the pods on a slot that has just got a node object count cluster-wide from now on.
    fn count_claims(&mut self, idx: NodeIdx) {
        let Self { pods, volumes, .. } = self;
        pods.on_node(idx).for_each(|pod| volumes.change_live(pod, true));
    }

    /// The claims of the pods on a slot that has lost its node object no longer count cluster-wide.
    fn uncount_claims(&mut self, idx: NodeIdx) {
        let Self { pods, volumes, .. } = self;
        pods.on_node(idx).for_each(|pod| volumes.change_live(pod, false));
    }

    /// Columns and what is counted by their values follow the labels of a node.
    fn update_labels(&mut self, idx: NodeIdx, old: &Labels, new: &Labels) {
        let Self { affinity_terms, labels, counters, .. } = self;
        affinity_terms.leave_domains(idx, labels);
        labels.update(idx, old, new, |key| {
            counters.needs_label(key) || affinity_terms.counts_by(key)
        });
        affinity_terms.enter_domains(idx, labels);
    }

    fn set_taints(&mut self, idx: NodeIdx, node: &Node) {
        let old = self.taint_ids.get(idx);
        if *self.taint_sets.taints(old) == *node.taints {
            return;
        }
        let sets = Arc::make_mut(&mut self.taint_sets);
        sets.release(old);
        let new = sets.acquire(&node.taints);
        self.taint_ids.set(idx, new);
    }
}

/// What two versions of a node differ in.
fn differences(old: &Node, new: &Node) -> ChangeKinds {
    let allocatable_differs = old.allocatable != new.allocatable
        || old.allowed_pods != new.allowed_pods
        || old.allocatable_quantities != new.allocatable_quantities;
    let features_differ =
        old.feature_bits != new.feature_bits || old.declared_features != new.declared_features;
    [
        (old.labels != new.labels, ChangeKinds::LABELS),
        (old.taints != new.taints, ChangeKinds::TAINTS),
        (allocatable_differs, ChangeKinds::ALLOCATABLE),
        (old.unschedulable != new.unschedulable, ChangeKinds::UNSCHEDULABLE),
        (features_differ, ChangeKinds::FEATURES),
        (old.annotations != new.annotations, ChangeKinds::ANNOTATIONS),
        (old.conditions != new.conditions, ChangeKinds::CONDITIONS),
        (old.images != new.images, ChangeKinds::IMAGES),
        (old.uid != new.uid || old.created != new.created, ChangeKinds::IDENTITY),
    ]
    .into_iter()
    .filter(|(differs, _)| *differs)
    .fold(ChangeKinds::NONE, |kinds, (_, kind)| kinds | kind)
}
