//! What takes one of the places that a CSI driver has on a node (`docs/spec/plugins-storage.md` §6.2).

use std::sync::Arc;

use kube_scheduler_api_types::{CsiTranslationError, InTreePlugin, Object, VolumeSource};

use crate::objects::{ObjectStore, storage_class_of};

/// A volume that takes one of the places that a CSI driver has on a node. However many pods there use it, it takes one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsedVolume {
    /// A volume that exists already.
    Existing {
        /// Name of the CSI driver.
        driver: Arc<str>,
        /// What the driver calls the volume.
        handle: Arc<str>,
    },
    /// The volume that a claim will get from its class. It takes a place of the driver that the class names; of none, if there is no
    /// such class.
    Future {
        /// Name of the class, whether or not it exists.
        class: Arc<str>,
        /// Namespace of the claim.
        namespace: Arc<str>,
        /// Name of the claim.
        claim: Arc<str>,
    },
}

impl UsedVolume {
    /// What the volume of a claim takes: that of a persistent volume, if the claim names one that exists. Volumes of in-tree plugins
    /// count as those of the CSI drivers that took over `with_migration` only.
    pub fn of_claim(objects: &ObjectStore, claim: &Object, with_migration: bool) -> Option<Self> {
        let bound = volume_name(claim);
        match bound.and_then(|name| objects.get("", "PersistentVolume", "", name)) {
            Some(volume) => Self::of_volume(volume, with_migration),
            None => {
                let class = Some(storage_class_of(claim)).filter(|class| !class.is_empty())?;
                let (namespace, claim) = (claim.namespace.clone(), claim.name.clone());
                Some(Self::Future { class: class.into(), namespace, claim })
            }
        }
    }

    /// What a persistent volume takes.
    pub(super) fn of_volume(volume: &Object, with_migration: bool) -> Option<Self> {
        let csi = &volume.json["spec"]["csi"];
        if !csi.is_null() {
            let field = |name: &str| csi[name].as_str().filter(|text| !text.is_empty());
            let (driver, handle) = (field("driver")?.into(), field("volumeHandle")?.into());
            return Some(Self::Existing { driver, handle });
        }
        let plugin = InTreePlugin::of_volume(volume);
        let plugin = plugin.filter(|plugin| with_migration && plugin.is_migration_on())?;
        let translated = plugin.translate_volume(volume).ok()?;
        let is_named = !translated.handle.is_empty();
        is_named.then(|| Self::existing(translated.driver, &translated.handle))
    }

    /// What an inline volume of a pod takes.
    ///
    /// # Errors
    /// If it is one of an in-tree plugin that cannot be translated.
    pub fn of_inline(
        source: &VolumeSource,
        with_migration: bool,
    ) -> Result<Option<Self>, CsiTranslationError> {
        let plugin = InTreePlugin::of_inline(source);
        match plugin.filter(|plugin| with_migration && plugin.is_migration_on()) {
            None => Ok(None),
            Some(plugin) => {
                let translated = plugin.translate_inline(source)?;
                Ok(Some(Self::existing(translated.driver, &translated.handle)))
            }
        }
    }

    /// The existing volume that `driver` knows as `handle`.
    pub fn existing(driver: &str, handle: &str) -> Self {
        Self::Existing { driver: driver.into(), handle: handle.into() }
    }
}

/// The persistent volume that a claim names.
pub(super) fn volume_name(claim: &Object) -> Option<&str> {
    claim.json["spec"]["volumeName"].as_str().filter(|name| !name.is_empty())
}
