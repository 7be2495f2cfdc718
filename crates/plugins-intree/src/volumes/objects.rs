//! Claims, volumes and storage classes.
//!
//! Views borrow an object and read its JSON; nothing is copied or kept.

use kube_scheduler_framework::api::well_known::{
    BIND_COMPLETED, SELECTED_NODE, STORAGE_CLASS_ANNOTATION,
};
use kube_scheduler_framework::api::{Json, Object, Quantity};

/// `metadata.annotations[key]`.
pub(super) fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.json["metadata"]["annotations"][key].as_str()
}

/// A quantity; `None` for what is none.
pub(crate) fn amount(value: &Json) -> Option<Quantity> {
    if value.is_null() { None } else { Quantity::from_json(&value.into()).ok() }
}

/// A persistent volume or a claim: what both have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageObject<'a>(&'a Object);

impl<'a> StorageObject<'a> {
    /// `spec` as written.
    pub(crate) fn spec(self) -> &'a Json {
        &self.0.json["spec"]
    }

    /// The object.
    pub(crate) fn object(self) -> &'a Object {
        self.0
    }

    /// An annotation.
    pub(crate) fn annotation(self, key: &str) -> Option<&'a str> {
        annotation(self.0, key)
    }

    /// Name of the class, empty for none: the annotation, even an empty one, else `spec.storageClassName`.
    pub(crate) fn class(self) -> &'a str {
        self.annotation(STORAGE_CLASS_ANNOTATION)
            .or_else(|| self.spec()["storageClassName"].as_str())
            .unwrap_or_default()
    }

    /// `status.phase`.
    pub(crate) fn phase(self) -> &'a str {
        self.0.json["status"]["phase"].as_str().unwrap_or_default()
    }

    /// Whether its deletion was asked for.
    pub(crate) fn is_being_deleted(self) -> bool {
        !self.0.json["metadata"]["deletionTimestamp"].is_null()
    }

    /// `spec.accessModes`, in order.
    pub(crate) fn access_modes(self) -> impl Iterator<Item = &'a str> {
        self.spec()["accessModes"].as_array().into_iter().flatten().filter_map(Json::as_str)
    }

    /// `spec.volumeMode`.
    pub(crate) fn volume_mode(self) -> &'a str {
        self.spec()["volumeMode"].as_str().unwrap_or("Filesystem")
    }

    /// `spec.volumeAttributesClassName`, empty for none.
    pub(crate) fn attributes_class(self) -> &'a str {
        self.spec()["volumeAttributesClassName"].as_str().unwrap_or_default()
    }
}

/// A persistent volume claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeClaim<'a>(StorageObject<'a>);

impl<'a> std::ops::Deref for VolumeClaim<'a> {
    type Target = StorageObject<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> VolumeClaim<'a> {
    /// A view of `object`.
    pub(crate) fn new(object: &'a Object) -> Self {
        Self(StorageObject(object))
    }

    /// `spec.volumeName`, empty for none.
    pub(crate) fn volume_name(self) -> &'a str {
        self.spec()["volumeName"].as_str().unwrap_or_default()
    }

    /// Whether it has a volume and its binding is complete.
    pub(crate) fn is_fully_bound(self) -> bool {
        !self.volume_name().is_empty() && self.annotation(BIND_COMPLETED).is_some()
    }

    /// The node for which a volume is to be provisioned; an empty name is kept.
    pub(crate) fn selected_node(self) -> Option<&'a str> {
        self.annotation(SELECTED_NODE)
    }

    /// How much storage it asks for; `None` when it does not say.
    pub(crate) fn requested_storage(self) -> Option<Quantity> {
        amount(&self.spec()["resources"]["requests"]["storage"])
    }

    /// `spec.selector` as written; `None` when there is none, which differs from an empty one.
    pub(crate) fn selector(self) -> Option<&'a Json> {
        Some(&self.spec()["selector"]).filter(|selector| !selector.is_null())
    }
}

/// A persistent volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PersistentVolume<'a>(StorageObject<'a>);

impl<'a> std::ops::Deref for PersistentVolume<'a> {
    type Target = StorageObject<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> PersistentVolume<'a> {
    /// A view of `object`.
    pub(crate) fn new(object: &'a Object) -> Self {
        Self(StorageObject(object))
    }

    /// `spec.capacity.storage`.
    pub(crate) fn capacity(self) -> Option<Quantity> {
        amount(&self.spec()["capacity"]["storage"])
    }

    /// `spec.claimRef`, if there is one.
    pub(crate) fn claim_ref(self) -> Option<&'a Json> {
        Some(&self.spec()["claimRef"]).filter(|claim| !claim.is_null())
    }

    /// `spec.nodeAffinity.required` as written, if there is one.
    pub(crate) fn required_node_affinity(self) -> Option<&'a Json> {
        Some(&self.spec()["nodeAffinity"]["required"]).filter(|required| !required.is_null())
    }

    /// Driver and handle of a `csi` source.
    pub(crate) fn csi_source(self) -> Option<(&'a str, &'a str)> {
        let source = &self.spec()["csi"];
        if source.is_null() {
            return None;
        }
        let field = |name: &str| source[name].as_str().unwrap_or_default();
        Some((field("driver"), field("volumeHandle")))
    }
}

/// A storage class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageClass<'a>(pub(crate) &'a Object);

impl<'a> StorageClass<'a> {
    /// The name.
    pub(crate) fn name(self) -> &'a str {
        &self.0.name
    }

    /// Who provisions its volumes.
    pub(crate) fn provisioner(self) -> &'a str {
        self.0.json["provisioner"].as_str().unwrap_or_default()
    }

    /// Whether the volume of a claim is chosen by the scheduler, together with the node of the first pod that uses the claim. The
    /// error is for an object that does not say.
    pub(crate) fn binds_late(self) -> Result<bool, String> {
        match self.0.json["volumeBindingMode"].as_str() {
            Some(mode) => Ok(mode == "WaitForFirstConsumer"),
            None => Err(format!("VolumeBindingMode not set for StorageClass \"{}\"", self.name())),
        }
    }

    /// `allowedTopologies` as written; `None` when there are none or the list is empty.
    pub(crate) fn allowed_topologies(self) -> Option<&'a [Json]> {
        self.0.json["allowedTopologies"].as_array().filter(|terms| !terms.is_empty())
    }
}
