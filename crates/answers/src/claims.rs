//! Claims for volumes and devices in questions: what scheduling reads of them has the types of the API.

use kube_scheduler_api_types::Quantity;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::typed::{Mistake, typed};

/// The fields of a claim for a volume that scheduling reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeClaimForm {
    spec: VolumeClaimSpecForm,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeClaimSpecForm {
    #[serde(rename = "accessModes")]
    _access_modes: Option<Vec<String>>,
    #[serde(rename = "storageClassName")]
    _storage_class_name: Option<String>,
    #[serde(rename = "volumeMode")]
    _volume_mode: Option<String>,
    volume_name: Option<String>,
    #[serde(rename = "selector")]
    _selector: Option<Map<String, Value>>,
    resources: Option<AmountsForm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AmountsForm {
    requests: Option<Map<String, Value>>,
}

/// What is read of a claim for devices; what its requests say is read by the plugin.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimForm {
    #[serde(rename = "spec")]
    _spec: DeviceClaimSpecForm,
    status: Option<DeviceClaimStatusForm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimSpecForm {
    #[serde(rename = "devices")]
    _devices: DevicesForm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DevicesForm {
    #[serde(rename = "requests")]
    _requests: Option<Vec<NamedForm>>,
    #[serde(rename = "constraints")]
    _constraints: Option<Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
struct NamedForm {
    #[serde(rename = "name")]
    _name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimStatusForm {
    allocation: Option<Map<String, Value>>,
}

/// Whether a PersistentVolumeClaim names its volume already.
pub(crate) fn has_volume(claim: &Value) -> Result<bool, Mistake> {
    let VolumeClaimForm { spec } = typed(claim)?;
    let requests = spec.resources.and_then(|resources| resources.requests);
    for (resource, amount) in requests.into_iter().flatten() {
        if Quantity::from_json(&amount).is_err() {
            let path = format!(".spec.resources.requests.{resource}");
            let problem = format!("{amount}: expected a quantity such as 10Gi");
            return Err(Mistake { path, problem });
        }
    }
    Ok(spec.volume_name.is_some_and(|volume| !volume.is_empty()))
}

/// Whether a ResourceClaim has its devices already.
pub(crate) fn has_devices(claim: &Value) -> Result<bool, Mistake> {
    let DeviceClaimForm { status, .. } = typed(claim)?;
    Ok(status.is_some_and(|status| status.allocation.is_some()))
}
