//! One pod against the limits of all nodes.
//!
//! Which volumes of the pod count depends on a node only in whether it has a CSINode, and few distinct limits exist. So two
//! small numbers are enough to let most nodes pass: an upper bound of the volumes of the pods there, and the number of
//! attached volumes. Only nodes that these bring near a limit are checked in full.
//!
//! Invariant: a node that surely passes is one that [`NodeVolumeLimits::check`] accepts.

use std::cell::OnceCell;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::columns::{Column, CsiLimitsId, VolumeCounts};
use kube_scheduler_framework::{ClusterView, NodeIdx, NodeView, Status};

use super::{NewVolumes, NodeVolumeLimits};

/// What a node with certain limits has to fulfil to pass without a closer look.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Nothing.
    Any,
    /// At most this many volumes are in use and attached before.
    UpTo(i64),
    /// Has to be looked at.
    Unclear,
}

pub(super) struct Scan<'a> {
    plugin: &'a NodeVolumeLimits,
    cluster: ClusterView<'a>,
    pod: &'a Pod,
    /// What the pod brings to nodes without and with a CSINode.
    new: [OnceCell<Result<NewVolumes, Status>>; 2],
    /// By number of limits.
    rooms: Vec<Option<Room>>,
    limits: &'a Column<CsiLimitsId>,
    used: OnceCell<VolumeUsage<'a>>,
}

/// How many volumes there are at most on each node.
struct VolumeUsage<'a> {
    by_pods: &'a Column<VolumeCounts>,
    attached: &'a Column<u32>,
}

impl VolumeUsage<'_> {
    /// How many there are on a node, `None` where that takes a closer look.
    #[inline]
    fn on(&self, node: NodeIdx) -> Option<i64> {
        let VolumeCounts { n_claims, n_others } = self.by_pods.get(node);
        (n_others == 0).then(|| i64::from(n_claims) + i64::from(self.attached.get(node)))
    }
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        plugin: &'a NodeVolumeLimits,
        cluster: ClusterView<'a>,
        pod: &'a Pod,
    ) -> Self {
        let rooms = vec![None; cluster.n_csi_limits_ids()];
        let (new, used) = (Default::default(), OnceCell::new());
        Self { plugin, cluster, pod, new, rooms, limits: cluster.csi_limits_ids(), used }
    }

    /// Read once it matters: what is read of pods has to be read again when they change.
    fn used(&self) -> &VolumeUsage<'a> {
        self.used.get_or_init(|| VolumeUsage {
            by_pods: self.cluster.volume_counts(),
            attached: self.cluster.n_attachments(),
        })
    }

    fn new_volumes(&self, has_csi_node: bool) -> &Result<NewVolumes, Status> {
        let new = &self.new[usize::from(has_csi_node)];
        new.get_or_init(|| NewVolumes::of(self.cluster, self.pod, has_csi_node))
    }

    /// For all nodes with the limits that `node` has.
    fn room(&self, node: NodeIdx) -> Room {
        let csi_node = self.cluster.csi_limits(node);
        let Ok(new) = self.new_volumes(csi_node.is_some()) else { return Room::Unclear };
        if new.volumes.is_empty() {
            return Room::Any;
        }
        if self.plugin.missing_driver(self.cluster, new, csi_node).is_some() {
            return Room::Unclear;
        }
        let limits = new.volumes.iter().filter_map(|volume| csi_node?.limit(&volume.driver));
        match (limits.min(), i64::try_from(new.volumes.len())) {
            // A limit on a driver that the pod does not use takes a closer look only where volumes cannot be counted.
            (None, _) if csi_node.is_none_or(|node| !node.has_limits()) => Room::Any,
            (None, _) => Room::UpTo(i64::MAX),
            (Some(least), Ok(n_new)) => Room::UpTo(least.saturating_sub(n_new)),
            (Some(_), Err(_)) => Room::Unclear,
        }
    }

    /// Whether the columns alone show that a node passes.
    pub(super) fn surely_passes(&mut self, node: NodeIdx) -> bool {
        let id = self.limits.get(node).index();
        let known = self.rooms.get(id).copied().flatten();
        let room = known.unwrap_or_else(|| self.room(node));
        if let (None, Some(unknown)) = (known, self.rooms.get_mut(id)) {
            *unknown = Some(room);
        }
        match room {
            Room::Any => true,
            Room::UpTo(most) => self.used().on(node).is_some_and(|used| used <= most),
            Room::Unclear => false,
        }
    }

    /// The answer for a node, as [`NodeVolumeLimits::check`] has it.
    pub(super) fn filter(&mut self, node: &NodeView<'_>) -> Status {
        if self.surely_passes(node.idx()) {
            return Status::SUCCESS;
        }
        let has_csi_node = self.cluster.csi_limits(node.idx()).is_some();
        let checked = self.plugin.check(self.cluster, node, self.new_volumes(has_csi_node));
        checked.err().unwrap_or_default()
    }
}
