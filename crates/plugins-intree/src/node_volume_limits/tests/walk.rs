//! The verdict of a node by a walk through all volumes of all pods there, as the rules are written.
//!
//! A limit that is exceeded by what is there does not concern a pod whose volumes of that driver are all there already. So the walk
//! cannot end when the limit is exceeded.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kube_scheduler_framework::api::{ClaimOfVolume, InTreePlugin, Pod, Volume, VolumeSource};
use kube_scheduler_framework::{ClusterView, NodeView, Status};

use crate::node_volume_limits::REASON;
use crate::volumes::{
    PersistentVolume, VolumeClaim, check_ownership, claim, csi_driver, storage_class, volume,
};

/// A volume that takes one of the places of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedVolume<'a> {
    pub(super) driver: Cow<'a, str>,
    pub(super) handle: Handle<'a>,
}

/// The identity of a volume among those of its driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Handle<'a> {
    /// A volume, by the name its driver has for it.
    Volume(Cow<'a, str>),
    /// The volume that a claim will get.
    Unbound {
        /// Namespace of the claim.
        namespace: &'a str,
        /// Name of the claim.
        name: &'a str,
    },
}

/// Counts the volumes of pods for one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collector<'c> {
    pub(super) cluster: ClusterView<'c>,
    /// Whether the node has a CSINode: volumes of in-tree plugins count as those of their drivers only there.
    pub(super) has_csi_node: bool,
}

impl<'c> Collector<'c> {
    /// Adds the volumes of the pod to be scheduled.
    pub(super) fn collect_new(
        self,
        pod: &Pod,
        into: &mut BTreeSet<CountedVolume<'c>>,
    ) -> Result<(), Status> {
        self.collect(pod, true, into)
    }

    /// Adds the volumes of a pod on the node. Claims that are gone do not count.
    pub(super) fn collect_existing(
        self,
        pod: &Pod,
        into: &mut BTreeSet<CountedVolume<'c>>,
    ) -> Result<(), String> {
        self.collect(pod, false, into).map_err(|status| status.error_text().unwrap_or_default())
    }

    /// Adds the attached volumes of a node, whether or not a pod uses them. Attachments of inline volumes, of volumes
    /// that are gone and of volumes without a CSI source do not count.
    pub(super) fn collect_attached(self, node: &str, into: &mut BTreeSet<CountedVolume<'c>>) {
        for attachment in self.cluster.attachments_on(node) {
            let Ok(volume) = volume(self.cluster, &attachment.volume) else { continue };
            let Some((_, handle)) = volume.csi_source() else { continue };
            into.insert(CountedVolume {
                driver: (&*attachment.attacher).into(),
                handle: Handle::Volume(handle.into()),
            });
        }
    }

    fn collect(
        self,
        pod: &Pod,
        is_new: bool,
        into: &mut BTreeSet<CountedVolume<'c>>,
    ) -> Result<(), Status> {
        for volume in pod.volumes.iter() {
            let counted = match volume.claim_in(&pod.name) {
                None => self.inline(volume).map_err(Status::error)?,
                Some(wanted) => match self.claim(pod, &wanted, is_new)? {
                    Some(claim) => self.of_claim(claim),
                    None => None,
                },
            };
            into.extend(counted);
        }
        Ok(())
    }

    fn inline(self, volume: &Volume) -> Result<Option<CountedVolume<'c>>, String> {
        let source: &VolumeSource = &volume.source;
        let Some(plugin) = InTreePlugin::of_inline(source).filter(|plugin| self.migrates(*plugin))
        else {
            return Ok(None);
        };
        let translated = plugin.translate_inline(source).map_err(|error| {
            format!("converting volume({}) from inline to csi: {error}", volume.name)
        })?;
        Ok(Some(CountedVolume {
            driver: translated.driver.into(),
            handle: Handle::Volume(translated.handle.into()),
        }))
    }

    /// Parity: what the node's CSINode lists as migrated does not matter here, unlike in VolumeBinding.
    fn migrates(self, plugin: InTreePlugin) -> bool {
        self.has_csi_node && plugin.is_migration_on()
    }

    fn claim(
        self,
        pod: &Pod,
        wanted: &ClaimOfVolume<'_>,
        is_new: bool,
    ) -> Result<Option<VolumeClaim<'c>>, Status> {
        if wanted.name.is_empty() {
            return Err(Status::error("PersistentVolumeClaim had no name"));
        }
        let claim = match claim(self.cluster, &pod.namespace, &wanted.name) {
            Ok(claim) => claim,
            Err(missing) if is_new => {
                let (namespace, name) = (&pod.namespace, &wanted.name);
                return Err(Status::unresolvable(format!(
                    "looking up PVC {namespace}/{name}: {missing}"
                )));
            }
            Err(_) => return Ok(None),
        };
        if wanted.is_ephemeral {
            check_ownership(pod, claim).map_err(Status::error)?;
        }
        Ok(Some(claim))
    }

    fn of_claim(self, claim: VolumeClaim<'c>) -> Option<CountedVolume<'c>> {
        let bound = Some(claim.volume_name()).filter(|name| !name.is_empty());
        let counted = match bound.and_then(|name| volume(self.cluster, name).ok()) {
            Some(volume) => self.of_volume(volume)?,
            None => self.of_class(claim)?,
        };
        let is_named = !matches!(&counted.handle, Handle::Volume(handle) if handle.is_empty());
        (is_named && !counted.driver.is_empty()).then_some(counted)
    }

    fn of_volume(self, volume: PersistentVolume<'c>) -> Option<CountedVolume<'c>> {
        if let Some((driver, handle)) = volume.csi_source() {
            return Some(CountedVolume {
                driver: driver.into(),
                handle: Handle::Volume(handle.into()),
            });
        }
        let plugin =
            InTreePlugin::of_volume(volume.object()).filter(|plugin| self.migrates(*plugin))?;
        let translated = plugin.translate_volume(volume.object()).ok()?;
        Some(CountedVolume {
            driver: translated.driver.into(),
            handle: Handle::Volume(translated.handle.into()),
        })
    }

    /// The volume that a claim will get from its class.
    fn of_class(self, claim: VolumeClaim<'c>) -> Option<CountedVolume<'c>> {
        let name = Some(claim.class()).filter(|name| !name.is_empty())?;
        let provisioner = storage_class(self.cluster, name).ok()?.provisioner();
        let driver = match InTreePlugin::named(provisioner) {
            None => provisioner,
            Some(plugin) => self.migrates(plugin).then(|| plugin.driver())?,
        };
        let object = claim.object();
        Some(CountedVolume {
            driver: driver.into(),
            handle: Handle::Unbound { namespace: &object.namespace, name: &object.name },
        })
    }
}

/// What the filter says of a node, about which nothing is kept.
pub(super) fn verdict(
    cluster: ClusterView<'_>,
    node: &NodeView<'_>,
    pod: &Pod,
    wants_drivers: bool,
) -> Result<(), Status> {
    let csi_node = cluster.csi_limits(node.idx());
    let collector = Collector { cluster, has_csi_node: csi_node.is_some() };
    let mut new = BTreeSet::new();
    collector.collect_new(pod, &mut new)?;
    let is_missing = |driver: &str| {
        csi_driver(cluster, driver).is_some_and(|object| object.is_required_on_nodes())
            && !csi_node.is_some_and(|node| node.has_driver(driver))
    };
    let missing = new.iter().find(|volume| wants_drivers && is_missing(&volume.driver));
    if let Some(CountedVolume { driver, .. }) = missing {
        let text = format!("{driver} CSI driver is not installed on the node");
        return Err(Status::unschedulable(text));
    }
    let limits = csi_node.filter(|node| node.has_limits() && !new.is_empty());
    let Some(limits) = limits else { return Ok(()) };
    let mut there = BTreeSet::new();
    for other in node.pods() {
        collector.collect_existing(other, &mut there).map_err(Status::error)?;
    }
    new.retain(|volume| !there.contains(volume));
    collector.collect_attached(node.name(), &mut there);
    let n_of = |all: &BTreeSet<CountedVolume<'_>>, driver: &str| {
        all.iter().filter(|volume| volume.driver == driver).count() as i64
    };
    let is_over = |driver: &str| {
        limits.limit(driver).is_some_and(|limit| n_of(&there, driver) + n_of(&new, driver) > limit)
    };
    if new.iter().any(|volume| is_over(&volume.driver)) {
        return Err(Status::unschedulable(REASON).from_plugin(&super::NAME.into()));
    }
    Ok(())
}
