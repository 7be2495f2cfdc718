//! CSI migration: which CSI volume an in-tree volume is (`docs/spec/plugins-storage.md` §2.6).
//!
//! Parity: handles of Azure files and vSphere volumes are never looked at by a scheduler and are left empty here; an
//! inline vSphere volume with a storage policy, on which the reference crashes, is translated like any other.

mod ebs;
mod gce;

use crate::well_known::{BETA_ZONE, ZONE};

use crate::{Json, Object, VolumeSource};

/// What separates several zones in one label value.
const ZONE_DELIMITER: &str = "__";

/// An in-tree volume plugin that has a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTreePlugin {
    /// `awsElasticBlockStore`
    AwsElasticBlockStore,
    /// `gcePersistentDisk`
    GcePersistentDisk,
    /// `azureDisk`
    AzureDisk,
    /// `cinder`
    Cinder,
    /// `portworxVolume`
    Portworx,
    /// `azureFile`
    AzureFile,
    /// `vsphereVolume`
    Vsphere,
}

/// A volume of an in-tree plugin as its CSI driver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiVolume {
    /// Name of the driver.
    pub driver: &'static str,
    /// The handle by which the driver knows the volume.
    pub handle: String,
}

/// Why a volume of an in-tree plugin is no CSI volume; in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CsiTranslationError {
    /// The id of an EBS volume is a URL that names none.
    #[error("failed to translate Kubernetes ID to EBS Volume ID {0}")]
    EbsVolumeId(String),
    /// The zones of a GCE disk are not those of one region.
    #[error("failed to get region from zones: {0}")]
    GceZones(String),
    /// An Azure disk is of a kind that the CSI driver does not have.
    #[error("kind({0}) is not supported in csi migration")]
    AzureDiskKind(String),
}

impl InTreePlugin {
    const ALL: [Self; 7] = [
        Self::AwsElasticBlockStore,
        Self::GcePersistentDisk,
        Self::AzureDisk,
        Self::Cinder,
        Self::Portworx,
        Self::AzureFile,
        Self::Vsphere,
    ];

    /// Field of the source, in pods and in volumes.
    fn field(self) -> &'static str {
        match self {
            Self::AwsElasticBlockStore => "awsElasticBlockStore",
            Self::GcePersistentDisk => "gcePersistentDisk",
            Self::AzureDisk => "azureDisk",
            Self::Cinder => "cinder",
            Self::Portworx => "portworxVolume",
            Self::AzureFile => "azureFile",
            Self::Vsphere => "vsphereVolume",
        }
    }

    /// The plugin's name, as provisioner and in annotations.
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsElasticBlockStore => "kubernetes.io/aws-ebs",
            Self::GcePersistentDisk => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Portworx => "kubernetes.io/portworx-volume",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
        }
    }

    /// The CSI driver that took over from the in-tree plugin.
    pub fn driver(self) -> &'static str {
        match self {
            Self::AwsElasticBlockStore => "ebs.csi.aws.com",
            Self::GcePersistentDisk => "pd.csi.storage.gke.io",
            Self::AzureDisk => "disk.csi.azure.com",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::Portworx => "pxd.portworx.com",
            Self::AzureFile => "file.csi.azure.com",
            Self::Vsphere => "csi.vsphere.vmware.com",
        }
    }

    /// The label by which the driver says where a volume is; `None` when places are not translated.
    pub fn topology_key(self) -> Option<&'static str> {
        match self {
            Self::AwsElasticBlockStore => Some("topology.ebs.csi.aws.com/zone"),
            Self::GcePersistentDisk => Some("topology.gke.io/zone"),
            Self::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            _ => None,
        }
    }

    /// The plugin with this name, such as `kubernetes.io/aws-ebs`, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// The in-tree plugin that a persistent volume is of.
    pub fn of_volume(volume: &Object) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| !volume.json["spec"][plugin.field()].is_null())
    }

    /// The plugin behind an inline volume of a pod.
    pub fn of_inline(source: &VolumeSource) -> Option<Self> {
        match source {
            VolumeSource::AwsElasticBlockStore { .. } => Some(Self::AwsElasticBlockStore),
            VolumeSource::GcePersistentDisk { .. } => Some(Self::GcePersistentDisk),
            VolumeSource::Other { kind, .. } => {
                Self::ALL.into_iter().find(|plugin| plugin.field() == &**kind)
            }
            _ => None,
        }
    }

    /// Whether the scheduler treats the plugin's volumes as those of its successor at all.
    pub fn is_migration_on(self) -> bool {
        !matches!(self, Self::AzureFile | Self::Vsphere)
    }

    /// The CSI volume that a persistent volume of the plugin is.
    ///
    /// # Errors
    /// If there is none.
    pub fn translate_volume(self, volume: &Object) -> Result<CsiVolume, CsiTranslationError> {
        let source = &volume.json["spec"][self.field()];
        let handle = match self {
            Self::GcePersistentDisk => {
                gce::handle_of_volume(field(source, "pdName"), &volume.labels)?
            }
            _ => handle(self, source)?,
        };
        Ok(CsiVolume { driver: self.driver(), handle })
    }

    /// The CSI volume that an inline volume of the plugin is.
    ///
    /// # Errors
    /// If there is none.
    pub fn translate_inline(self, source: &VolumeSource) -> Result<CsiVolume, CsiTranslationError> {
        let handle = match source {
            VolumeSource::GcePersistentDisk { disk, .. } => gce::handle_of_inline(disk),
            VolumeSource::AwsElasticBlockStore { volume_id } => ebs::handle(volume_id)?,
            VolumeSource::Other { json, .. } => {
                let source: Json = serde_json::from_str(json).unwrap_or_default();
                handle(self, &source)?
            }
            _ => String::new(),
        };
        Ok(CsiVolume { driver: self.driver(), handle })
    }
}

fn handle(plugin: InTreePlugin, source: &Json) -> Result<String, CsiTranslationError> {
    match plugin {
        InTreePlugin::AwsElasticBlockStore => ebs::handle(field(source, "volumeID")),
        InTreePlugin::GcePersistentDisk => Ok(gce::handle_of_inline(field(source, "pdName"))),
        InTreePlugin::AzureDisk => match source["kind"].as_str() {
            Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
                Err(CsiTranslationError::AzureDiskKind(kind.to_owned()))
            }
            _ => Ok(field(source, "diskURI").to_owned()),
        },
        InTreePlugin::Cinder | InTreePlugin::Portworx => Ok(field(source, "volumeID").to_owned()),
        InTreePlugin::AzureFile | InTreePlugin::Vsphere => Ok(String::new()),
    }
}

fn field<'a>(source: &'a Json, name: &str) -> &'a str {
    source[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
