//! Which extended resources are served by device classes instead of device plugins.
//!
//! A class serves `deviceclass.resource.kubernetes.io/<its name>` and, if it names one, an extended resource.
//!
//! Parity: the reference keeps a table that forgets an entry in odd orders of clashes and deletions (two classes with
//! the same extended resource); here the answer depends on the classes that exist and on nothing else.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.3.

use kube_scheduler_framework::ClusterView;
use kube_scheduler_framework::api::well_known::RESOURCE_GROUP;
use kube_scheduler_framework::api::{
    DEVICE_CLASS_PREFIX, Object, Pod, is_dra_extended_resource, may_be_dra_extended_resource,
};

/// Kind of device classes.
const KIND: &str = "DeviceClass";

/// `spec.extendedResourceName`; absent and empty differ.
pub(crate) fn extended_resource_name(class: &Object) -> Option<&str> {
    class.json.get("spec")?.get("extendedResourceName")?.as_str()
}

/// Whether some device class serves the resource. O(classes).
pub(crate) fn serves(cluster: ClusterView<'_>, resource: &str) -> bool {
    let objects = cluster.objects_of(RESOURCE_GROUP);
    if objects.n_objects(KIND) == 0 || !is_dra_extended_resource(resource) {
        return false;
    }
    if let Some(class) = resource.strip_prefix(DEVICE_CLASS_PREFIX)
        && objects.get(KIND, "", class).is_some()
    {
        return true;
    }
    objects.list(KIND).any(|class| extended_resource_name(class) == Some(resource))
}

/// Whether the pod asks for some of a resource that device classes might serve. Errs on the side of yes: this is asked
/// for every pod, and validating names costs more than it saves.
pub(crate) fn may_serve(pod: &Pod) -> bool {
    let scalars = &pod.requests.fit.scalars;
    scalars.iter().any(|(name, amount)| *amount != 0 && may_be_dra_extended_resource(name))
}
