//! Which volumes are attached to which node, looked up once per attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use kube_scheduler_framework::ClusterState;

use super::counted::{CountedVolume, Handle};
use crate::volumes::{volume, volume_attachments};

type ByNode = BTreeMap<String, Vec<(String, String)>>;

/// Attacher and volume of every attachment, by node. Filled by the first node that needs it: the objects do not change
/// during an attempt, and answers that came from them are not kept when they do.
#[derive(Clone, Debug, Default)]
pub(super) struct Attachments(Arc<OnceLock<ByNode>>);

impl Attachments {
    /// How many volumes are attached to a node, at most.
    pub(super) fn n_on(&self, cluster: &ClusterState, node: &str) -> usize {
        self.0.get_or_init(|| by_node(cluster)).get(node).map_or(0, Vec::len)
    }

    /// Adds the attached volumes of a node, whether or not a pod uses them. Attachments of inline volumes, of volumes
    /// that are gone and of volumes without a CSI source do not count.
    pub(super) fn collect<'c>(
        &self,
        cluster: &'c ClusterState,
        node: &str,
        into: &mut BTreeSet<CountedVolume<'c>>,
    ) {
        let by_node = self.0.get_or_init(|| by_node(cluster));
        for (attacher, name) in by_node.get(node).into_iter().flatten() {
            let Ok(volume) = volume(cluster, name) else { continue };
            let Some((_, handle)) = volume.csi_source() else { continue };
            into.insert(CountedVolume {
                driver: attacher.clone().into(),
                handle: Handle::Volume(handle.into()),
            });
        }
    }
}

fn by_node(cluster: &ClusterState) -> ByNode {
    let mut by_node = ByNode::new();
    for attachment in volume_attachments(cluster) {
        let Some(volume) = attachment.volume_name() else { continue };
        if attachment.attacher().is_empty() {
            continue;
        }
        by_node
            .entry(attachment.node_name().to_owned())
            .or_default()
            .push((attachment.attacher().to_owned(), volume.to_owned()));
    }
    by_node
}
