//! Finding objects of the storage kinds, and the messages when they are missing (`docs/spec/plugins-storage.md` §1.3).

use std::sync::Arc;

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::api::well_known::STORAGE_GROUP;

use super::{CsiDriver, CsiNode, PersistentVolume, StorageClass, VolumeClaim};

/// What was found; the error for what was not is worded as by the reference's listers.
fn found<'a>(
    object: Option<&'a Arc<Object>>,
    resource: &str,
    name: &str,
) -> Result<&'a Object, String> {
    object.map(|object| &**object).ok_or_else(|| format!("{resource} \"{name}\" not found"))
}

/// The claim `namespace/name`.
pub(crate) fn claim<'a>(
    cluster: ClusterView<'a>,
    namespace: &str,
    name: &str,
) -> Result<VolumeClaim<'a>, String> {
    let object = cluster.objects_of("").get("PersistentVolumeClaim", namespace, name);
    found(object, "persistentvolumeclaim", name).map(VolumeClaim::new)
}

/// The volume `name`.
pub(crate) fn volume<'a>(
    cluster: ClusterView<'a>,
    name: &str,
) -> Result<PersistentVolume<'a>, String> {
    let object = cluster.objects_of("").get("PersistentVolume", "", name);
    found(object, "persistentvolume", name).map(PersistentVolume::new)
}

/// The storage class `name`.
pub(crate) fn storage_class<'a>(
    cluster: ClusterView<'a>,
    name: &str,
) -> Result<StorageClass<'a>, String> {
    let object = cluster.objects_of(STORAGE_GROUP).get("StorageClass", "", name);
    found(object, "storageclass.storage.k8s.io", name).map(StorageClass)
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
    storage_class(cluster, name).map_or(Ok(false), StorageClass::binds_late)
}
