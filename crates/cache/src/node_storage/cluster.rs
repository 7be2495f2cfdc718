//! The storage of a cluster's nodes: how it is read, and how it follows the objects that describe it.

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::STORAGE_GROUP;

use super::{ATTACHMENT, Attachment, CSI_NODE, CsiLimits, CsiLimitsId, node_of};
use crate::fork::Column;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// # Storage of nodes
impl ClusterState {
    /// The drivers of a node; `None` without a CSINode.
    pub fn csi_limits(&self, node: NodeIdx) -> Option<&CsiLimits> {
        let number = self.storage.limits_ids.try_get(node)?.0;
        self.storage.limits.get(number).map(|limits| &**limits)
    }

    /// The drivers of all nodes, by number: equal numbers mean equal drivers with equal limits.
    pub fn csi_limits_ids(&self) -> &Column<CsiLimitsId> {
        &self.storage.limits_ids
    }

    /// One more than the highest number of limits that was ever used: the length of a table by number.
    pub fn n_csi_limits_ids(&self) -> usize {
        self.storage.limits.n_numbers()
    }

    /// How many volumes are attached to each node.
    pub fn n_attachments(&self) -> &Column<u32> {
        &self.storage.n_attachments
    }

    /// The volumes attached to a node, by the name of the attachment.
    pub fn attachments_on(&self, node: &str) -> impl Iterator<Item = &Attachment> {
        self.storage.attachments.get(node).into_iter().flat_map(|by_name| by_name.values())
    }

    pub(crate) fn storage_limits_in_use(&self) -> usize {
        self.storage.limits.len()
    }

    /// Follows an object that was added (`old` is `None`), changed or removed (`new` is `None`). Both have the same name.
    pub(crate) fn storage_changed(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let Some(object) = new.or(old).filter(|object| *object.group == *STORAGE_GROUP) else {
            return;
        };
        match &*object.kind {
            CSI_NODE => {
                // A node that comes later finds the object when its slot is claimed.
                if let Some(node) = self.nodes.slot_of(&object.name) {
                    self.storage.set_limits(node, new.map(CsiLimits::of));
                }
            }
            ATTACHMENT => {
                old.into_iter().for_each(|old| self.storage.detach(old));
                new.into_iter().for_each(|new| self.storage.attach(new));
                // An attachment that was made again under its name may be at another node.
                for name in [old, new].into_iter().flatten().map(node_of) {
                    if let Some(node) = self.nodes.slot_of(name) {
                        self.storage.count_attachments(node, name);
                    }
                }
            }
            _ => {}
        }
    }
}
