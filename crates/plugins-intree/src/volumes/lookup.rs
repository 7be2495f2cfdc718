//! Finding objects of the storage kinds, and the messages when they are missing (`docs/spec/plugins-storage.md` §1.3).

use std::fmt;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::well_known::STORAGE_GROUP;

use super::{BindingMode, CsiDriver, CsiNode, PersistentVolume, StorageClass, VolumeClaim};

/// There is no object of that name. Prints what the reference's listers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotFound {
    resource: &'static str,
    name: String,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\" not found", self.resource, self.name)
    }
}

fn not_found(resource: &'static str, name: &str) -> NotFound {
    NotFound { resource, name: name.to_owned() }
}

/// The claim `namespace/name`.
pub(crate) fn claim<'a>(
    cluster: ClusterView<'a>,
    namespace: &str,
    name: &str,
) -> Result<VolumeClaim<'a>, NotFound> {
    let object = cluster.objects_of("").get("PersistentVolumeClaim", namespace, name);
    object
        .map(|object| VolumeClaim::new(object))
        .ok_or_else(|| not_found("persistentvolumeclaim", name))
}

/// The volume `name`.
pub(crate) fn volume<'a>(
    cluster: ClusterView<'a>,
    name: &str,
) -> Result<PersistentVolume<'a>, NotFound> {
    let object = cluster.objects_of("").get("PersistentVolume", "", name);
    object
        .map(|object| PersistentVolume::new(object))
        .ok_or_else(|| not_found("persistentvolume", name))
}

/// The storage class `name`.
pub(crate) fn storage_class<'a>(
    cluster: ClusterView<'a>,
    name: &str,
) -> Result<StorageClass<'a>, NotFound> {
    let object = cluster.objects_of(STORAGE_GROUP).get("StorageClass", "", name);
    object
        .map(|object| StorageClass(object))
        .ok_or_else(|| not_found("storageclass.storage.k8s.io", name))
}

/// All storage classes, by name.
pub(crate) fn storage_classes(cluster: ClusterView<'_>) -> impl Iterator<Item = StorageClass<'_>> {
    cluster.objects_of(STORAGE_GROUP).list("StorageClass").map(|object| StorageClass(object))
}

/// The CSINode of the node `name`, which lists its drivers. `None` if it is missing, which is never an error.
pub(crate) fn csi_node<'a>(cluster: ClusterView<'a>, name: &str) -> Option<CsiNode<'a>> {
    cluster.objects_of(STORAGE_GROUP).get("CSINode", "", name).map(|object| CsiNode(object))
}

/// The CSIDriver `name`. `None` if it is missing, which is never an error.
pub(crate) fn csi_driver<'a>(cluster: ClusterView<'a>, name: &str) -> Option<CsiDriver<'a>> {
    cluster.objects_of(STORAGE_GROUP).get("CSIDriver", "", name).map(|object| CsiDriver(object))
}

/// Whether the volume of a claim is chosen together with the node, by the binding mode of its class; `false` if the class
/// does not exist. The error is for a class without a binding mode.
pub(crate) fn is_delay_binding(
    cluster: ClusterView<'_>,
    claim: VolumeClaim<'_>,
) -> Result<bool, String> {
    let name = claim.class();
    if name.is_empty() {
        return Ok(false);
    }
    let Ok(class) = storage_class(cluster, name) else { return Ok(false) };
    match class.binding_mode() {
        None => Err(format!("VolumeBindingMode not set for StorageClass \"{name}\"")),
        Some(mode) => Ok(mode == BindingMode::WaitForFirstConsumer),
    }
}
