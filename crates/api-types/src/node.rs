//! A node as the scheduler keeps it: compiled once from the API object.

use std::sync::Arc;

use crate::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};

use crate::Timestamp;
use crate::labels::Labels;
use crate::quantity::Quantity;
use crate::resources::{ResourceName, Resources};
use crate::source::Source;
use crate::taint::Taint;

/// One node. Cloning copies a few pointers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Name, unique in the cluster.
    pub name: Arc<str>,
    /// `metadata.uid`: tells nodes of the same name apart.
    pub uid: Arc<str>,
    /// Opaque revision, compared for equality only.
    pub resource_version: Arc<str>,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// `spec.taints` in order.
    pub taints: Arc<[Taint]>,
    /// `timeAdded` of the taints in order, empty if none has it. No decision reads the times, but a taint that was added again is
    /// a change. They are beside the taints and not in them, so that nodes have equal taints whenever they got them.
    pub taint_times: Arc<[Option<Timestamp>]>,
    /// `status.allocatable` in the scheduler's units; names that are not scalar resources are dropped.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// `status.allocatable` exactly, sorted by name, to recognise changes that rounding hides.
    pub allocatable_quantities: Arc<[(ResourceName, Quantity)]>,
    /// `status.images` in order.
    pub images: Arc<[NodeImage]>,
    /// Condition type and status in order.
    pub conditions: Arc<[(Arc<str>, Arc<str>)]>,
    /// `status.declaredFeatures` in order.
    pub declared_features: Arc<[Arc<str>]>,
    /// The known ones of `declared_features`, one bit per registered feature.
    pub feature_bits: u64,
    /// The object in full, if its decoder was configured to keep it. No decision reads it.
    pub source: Option<Arc<Source>>,
}

impl Node {
    /// What it takes in memory, about, in bytes, beside the parts that it may have in common with other nodes: texts of its
    /// labels, annotations, taints, quantities, images, and conditions. O(1) for a node that is not kept in full.
    pub fn own_bytes(&self) -> usize {
        let texts = self.name.len() + self.uid.len() + self.resource_version.len();
        let labels = self.labels.len() * size_of::<(Arc<str>, Arc<str>)>();
        let scalars = size_of_val(&*self.allocatable.scalars);
        let times = size_of_val(&*self.taint_times);
        let source = self.source.as_ref().map_or(0, |source| source.n_bytes());
        size_of::<Self>() + texts + labels + scalars + times + source
    }

    /// The zone the node tree groups by: `region:\0:zone`, empty when the node names neither
    /// (`docs/spec/core.md` §14.1).
    pub fn zone_key(&self) -> String {
        let pick = |beta: &str, stable: &str| {
            self.labels.get(beta).or_else(|| self.labels.get(stable)).unwrap_or_default()
        };
        let zone = pick(BETA_ZONE, ZONE);
        let region = pick(BETA_REGION, REGION);
        if zone.is_empty() && region.is_empty() {
            String::new()
        } else {
            format!("{region}:\0:{zone}")
        }
    }
}

/// One entry of `status.images`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeImage {
    /// All names of the image, verbatim.
    pub names: Arc<[Arc<str>]>,
    /// Size in bytes.
    pub size_bytes: i64,
}
