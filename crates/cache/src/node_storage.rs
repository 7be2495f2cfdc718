//! What nodes can attach and what is attached to them, from CSINode and VolumeAttachment objects, each decoded once on arrival.
//!
//! The search for a node for a pod with volumes reads the limits of every node. The objects are JSON, by the name of the
//! node; here the limits are a number per node slot, and a thousand nodes share a handful of numbers.
//!
//! Invariants: a slot with a name, live or ghost, shows the CSINode and the attachments of that name as the API server
//! reported them; equal limits have equal numbers and different ones different numbers; number 0 means that there is no
//! CSINode.

mod cluster;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::STORAGE_GROUP;

use crate::fork::{Column, CowMap};
use crate::interner::{Interner, NOTHING};
use crate::node_table::NodeIdx;
use crate::objects::ObjectStore;

const CSI_NODE: &str = "CSINode";
const ATTACHMENT: &str = "VolumeAttachment";

/// The CSI drivers of a node, with how many volumes each can attach, as its CSINode lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiLimits {
    drivers: Box<[(Arc<str>, Option<i64>)]>,
}

impl CsiLimits {
    /// Reads a CSINode. What is of the wrong type reads as absent.
    pub fn of(csi_node: &Object) -> Self {
        let drivers = csi_node.json["spec"]["drivers"].as_array().into_iter().flatten();
        let drivers = drivers.map(|driver| {
            let name = driver["name"].as_str().unwrap_or_default();
            (Arc::from(name), driver["allocatable"]["count"].as_i64())
        });
        Self { drivers: drivers.collect() }
    }

    /// The drivers in the order in which they are listed.
    pub fn drivers(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        self.drivers.iter().map(|(name, count)| (&**name, *count))
    }

    /// How many volumes a driver can attach; of a name listed twice the last counts.
    pub fn limit(&self, driver: &str) -> Option<i64> {
        self.drivers().filter_map(|(name, count)| count.filter(|_| name == driver)).last()
    }

    /// Whether a driver is installed on the node.
    pub fn has_driver(&self, driver: &str) -> bool {
        self.drivers().any(|(name, _)| name == driver)
    }

    /// Whether any driver on the node has a limit of volumes.
    pub fn has_limits(&self) -> bool {
        self.drivers().any(|(_, count)| count.is_some())
    }
}

/// The number of a list of drivers with their limits of volumes. Nodes with equal lists have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CsiLimitsId(u32);

impl CsiLimitsId {
    /// The number of a node without CSINode.
    pub const NONE: Self = Self(NOTHING);

    /// The number as an index, for tables with one entry per id.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A volume that is attached to a node, or about to be. Those of inline volumes, and those that do not say who attaches
/// them, are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the driver that attaches the volume.
    pub attacher: Arc<str>,
    /// Name of the persistent volume.
    pub volume: Arc<str>,
}

impl Attachment {
    fn of(object: &Object) -> Option<Self> {
        let spec = &object.json["spec"];
        let attacher = spec["attacher"].as_str().filter(|attacher| !attacher.is_empty())?;
        let volume = spec["source"]["persistentVolumeName"].as_str()?;
        Some(Self { attacher: attacher.into(), volume: volume.into() })
    }
}

fn node_of(attachment: &Object) -> &str {
    attachment.json["spec"]["nodeName"].as_str().unwrap_or_default()
}

type ByName = BTreeMap<Arc<str>, Attachment>;

/// Limits and attachments of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeStorage {
    limits_ids: Column<CsiLimitsId>,
    /// Behind an `Arc` because it changes with CSINodes alone.
    limits: Arc<Interner<Arc<CsiLimits>>>,
    /// By the name of the node, whether or not there is such a node.
    attachments: CowMap<Arc<str>, Arc<ByName>>,
    n_attachments: Column<u32>,
}

impl NodeStorage {
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.limits_ids.resize(capacity);
        self.n_attachments.resize(capacity);
    }

    /// A slot got a name.
    pub(crate) fn slot_claimed(&mut self, node: NodeIdx, name: &str, objects: &ObjectStore) {
        let csi_node = objects.get(STORAGE_GROUP, CSI_NODE, "", name);
        self.set_limits(node, csi_node.map(|object| CsiLimits::of(object)));
        self.count_attachments(node, name);
    }

    /// A slot lost its name.
    pub(crate) fn slot_freed(&mut self, node: NodeIdx) {
        self.set_limits(node, None);
        self.n_attachments.set(node, 0);
    }

    fn set_limits(&mut self, node: NodeIdx, limits: Option<CsiLimits>) {
        let old = self.limits_ids.get(node);
        if self.limits.get(old.0).map(|limits| &**limits) == limits.as_ref() {
            return;
        }
        let table = Arc::make_mut(&mut self.limits);
        let new = limits
            .map_or(CsiLimitsId::NONE, |limits| CsiLimitsId(table.acquire(&Arc::new(limits))));
        table.release(old.0);
        self.limits_ids.set(node, new);
    }

    fn count_attachments(&mut self, node: NodeIdx, name: &str) {
        let n = self.attachments.get(name).map_or(0, |attachments| attachments.len());
        self.n_attachments.set(node, u32::try_from(n).unwrap_or(u32::MAX));
    }

    fn detach(&mut self, object: &Object) {
        let node = node_of(object);
        let Some(attachments) = self.attachments.get_mut(node) else { return };
        if attachments.contains_key(&object.name) {
            Arc::make_mut(attachments).remove(&object.name);
            if attachments.is_empty() {
                self.attachments.remove(node);
            }
        }
    }

    fn attach(&mut self, object: &Object) {
        let Some(attachment) = Attachment::of(object) else { return };
        let node = Arc::from(node_of(object));
        let attachments = self.attachments.get_or_insert_with(&node, Arc::default);
        Arc::make_mut(attachments).insert(object.name.clone(), attachment);
    }
}
