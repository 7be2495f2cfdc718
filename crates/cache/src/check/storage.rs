//! Limits, attachments and numbers of volumes, recomputed from objects and pods.

use std::sync::Arc;

use kube_scheduler_api_types::well_known::STORAGE_GROUP;
use kube_scheduler_api_types::{Object, VolumeSource};

use super::{PlainNode, Report};
use crate::node_storage::CsiLimits;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;
use crate::volume_counts::{VolumeCounts, is_local};

pub(super) fn check_node(
    cluster: &ClusterState,
    name: &str,
    idx: NodeIdx,
    plain: &PlainNode,
    report: &mut Report,
) {
    let csi_node = cluster.objects().get(STORAGE_GROUP, "CSINode", "", name);
    let expected = csi_node.map(|object| CsiLimits::of(object));
    report.compare(|| format!("limits of node {name}"), expected.as_ref(), cluster.csi_limits(idx));
    let attachments: Vec<(&str, &str)> = cluster
        .objects()
        .list(STORAGE_GROUP, "VolumeAttachment")
        .filter_map(|object| attachment_to(name, object))
        .collect();
    let found: Vec<(&str, &str)> = cluster
        .attachments_on(name)
        .map(|attachment| (&*attachment.attacher, &*attachment.volume))
        .collect();
    report.compare(
        || format!("number of attachments of node {name}"),
        attachments.len(),
        cluster.n_attachments().get(idx) as usize,
    );
    report.compare(|| format!("attachments of node {name}"), attachments, found);

    // Claims may or may not be CSI volumes, which their objects decide; local, inline CSI, RBD and iSCSI volumes never take
    // a place; whatever is left may be translated to a CSI driver.
    let mut counts = VolumeCounts::default();
    for volume in plain.pods.values().flat_map(|pod| pod.volumes.iter()) {
        match &volume.source {
            VolumeSource::Claim { claim, .. } if !claim.is_empty() => counts.n_claims += 1,
            VolumeSource::Other { kind, .. } if is_local(kind) => {}
            VolumeSource::Csi { .. } | VolumeSource::Rbd { .. } | VolumeSource::Iscsi { .. } => {}
            _ => counts.n_others += 1,
        }
    }
    report.compare(
        || format!("number of volumes on node {name}"),
        counts,
        cluster.volume_counts().get(idx),
    );
}

fn attachment_to<'a>(node: &str, object: &'a Arc<Object>) -> Option<(&'a str, &'a str)> {
    let spec = object.json.get("spec")?;
    let attacher = spec.get("attacher")?.as_str()?;
    let volume = spec.get("source")?.get("persistentVolumeName")?.as_str()?;
    let on = spec.get("nodeName").and_then(|name| name.as_str()).unwrap_or_default();
    (on == node && !attacher.is_empty()).then_some((attacher, volume))
}

/// Equal limits are kept once, and only as long as a slot has them.
pub(super) fn check_limits(cluster: &ClusterState, report: &mut Report) {
    let slots = (0..cluster.capacity()).map(NodeIdx::from_index);
    let mut seen: Vec<(&CsiLimits, usize)> = Vec::new();
    for idx in slots {
        let id = cluster.csi_limits_ids().get(idx).index();
        let Some(limits) = cluster.csi_limits(idx) else {
            report.compare(|| format!("number of no limits in slot {idx:?}"), 0, id);
            continue;
        };
        match seen.iter().find(|(known, _)| *known == limits) {
            Some((_, known)) => {
                report.compare(|| format!("number of limits in slot {idx:?}"), *known, id);
            }
            None => seen.push((limits, id)),
        }
        let is_free = cluster.node_name(idx).is_none();
        report.require(|| format!("no limits in free slot {idx:?}"), !is_free);
    }
    let n_kept = cluster.storage_limits_in_use();
    report.compare(|| "number of distinct limits".to_owned(), seen.len(), n_kept);
}
