//! ResourceClaims: what a pod wants of devices, and what it got.

use std::sync::Arc;

use kube_scheduler_api_types::{Quantity, wire};
use serde::{Deserialize, Deserializer};

use super::decode::{
    Map, ObjectError, decode, error_in, list, optional_quantities, or_default, text, texts,
};
use super::device::DeviceTaint;
use super::result::Allocation;

const KIND: &str = "ResourceClaim";
/// No API server stores a claim with more requests.
const MAX_REQUESTS: usize = 32;

/// A ResourceClaim: a request for devices, and what was allocated for it.
#[derive(Clone, Debug, Default)]
pub struct ResourceClaim {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`: tells objects of the same name apart.
    pub uid: Arc<str>,
    /// Whether its deletion was requested.
    pub is_being_deleted: bool,
    /// Finalizers are not read here; owners are.
    pub owners: Vec<wire::OwnerReference>,
    /// What is requested, in order.
    pub requests: Vec<DeviceRequest>,
    /// What the devices must have in common, or must not.
    pub constraints: Vec<Constraint>,
    /// Configuration for the drivers.
    pub config: Vec<ClaimConfig>,
    /// `status`: the devices that were allocated, and who has reserved them.
    pub status: ClaimStatus,
}

/// A named request of a claim for devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRequest {
    /// Name within the claim.
    pub name: Arc<str>,
    /// The devices that are requested, or alternatives.
    pub request: Request,
}

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Request {
    /// Devices of one class.
    Exactly(ExactRequest),
    /// The first of these that can be had; each has a name of its own.
    FirstAvailable(Vec<ExactRequest>),
    /// A kind of request that this version does not know.
    #[default]
    Unknown,
}

/// A request for devices of one class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactRequest {
    /// Name among the alternatives; empty if there are none.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// Name of the device class.
    #[serde(deserialize_with = "text")]
    pub device_class_name: Arc<str>,
    /// What devices must match besides the selectors of the class.
    #[serde(deserialize_with = "list")]
    pub selectors: Vec<DeviceSelector>,
    /// Whether a number of devices is requested, or all that match.
    #[serde(deserialize_with = "or_default")]
    pub allocation_mode: AllocationMode,
    /// The number of devices, for [`AllocationMode::ExactCount`].
    #[serde(deserialize_with = "or_default")]
    pub count: i64,
    /// Whether devices are wanted even if other claims use them. Absent differs from false where the feature is off.
    pub admin_access: Option<bool>,
    /// Tolerations: devices whose taints match one may be allocated.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<DeviceToleration>,
    /// Which share of the devices' capacities is wanted; absent differs from empty where the feature is off.
    #[serde(deserialize_with = "capacity_requests")]
    pub capacity: Option<Map<Quantity>>,
}

/// How many devices a request means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllocationMode {
    /// The number that the request has in `count`.
    ExactCount,
    /// All devices that match and can be used on the node.
    All,
    /// A mode that this version does not know.
    Other(Arc<str>),
    /// None was given, which no API server stores.
    #[default]
    Absent,
}

impl<'de> Deserialize<'de> for AllocationMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mode = text(deserializer)?;
        Ok(match &*mode {
            "ExactCount" => Self::ExactCount,
            "All" => Self::All,
            "" => Self::Absent,
            _ => Self::Other(mode),
        })
    }
}

impl AllocationMode {
    /// The mode as the API writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::ExactCount => "ExactCount",
            Self::All => "All",
            Self::Other(mode) => mode,
            Self::Absent => "",
        }
    }
}

/// A condition on devices, as a CEL expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSelector {
    /// A CEL expression; absent if the selector is of a kind that this version does not know.
    pub expression: Option<Arc<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectorFields {
    cel: Option<CelFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CelFields {
    #[serde(deserialize_with = "text")]
    expression: Arc<str>,
}

impl<'de> Deserialize<'de> for DeviceSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = SelectorFields::deserialize(deserializer)?;
        Ok(Self { expression: fields.cel.map(|cel| cel.expression) })
    }
}

/// A toleration: a device with a taint that matches it may be allocated all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceToleration {
    /// Key of the taints it matches; empty matches every key.
    #[serde(deserialize_with = "text")]
    pub key: Arc<str>,
    /// `Equal` (also when empty) or `Exists`.
    #[serde(deserialize_with = "text")]
    pub operator: Arc<str>,
    /// Value that the taint must have, for `Equal`.
    #[serde(deserialize_with = "text")]
    pub value: Arc<str>,
    /// Effect of the taints it matches; empty matches every effect.
    #[serde(deserialize_with = "text")]
    pub effect: Arc<str>,
    /// How long the taint is tolerated, in seconds; of no meaning to allocation.
    pub toleration_seconds: Option<i64>,
}

/// What the devices of some requests must have in common, or must not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Constraint {
    /// Which requests (`request` or `request/alternative`); empty means all.
    #[serde(deserialize_with = "texts")]
    pub requests: Vec<Arc<str>>,
    /// The attribute that must have the same value on all devices.
    pub match_attribute: Option<wire::Text>,
    /// The attribute that must have another value on each device.
    pub distinct_attribute: Option<wire::Text>,
}

/// Configuration for the driver of some requests' devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimConfig {
    /// Which requests (`request` or `request/alternative`); empty means all.
    #[serde(deserialize_with = "texts")]
    pub requests: Vec<Arc<str>>,
    /// The parameters for the driver, as JSON.
    pub opaque: Option<kube_scheduler_api_types::Json>,
}

/// The `status` of a claim: its devices, and who uses them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// The devices that were allocated; `None` if none were.
    pub allocation: Option<Allocation>,
    /// The consumers, mostly pods, that may use the claim.
    #[serde(deserialize_with = "list")]
    pub reserved_for: Vec<Consumer>,
    /// What drivers report about the allocated devices.
    #[serde(deserialize_with = "list")]
    pub devices: Vec<AllocatedDeviceStatus>,
}

/// A consumer that may use a claim, mostly a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// API group, empty for the core group.
    #[serde(deserialize_with = "text")]
    pub api_group: Arc<str>,
    /// Resource, such as `pods`.
    #[serde(deserialize_with = "text")]
    pub resource: Arc<str>,
    /// Name of the consumer.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// UID of the consumer, which distinguishes it from others of the same name.
    #[serde(deserialize_with = "text")]
    pub uid: Arc<str>,
}

/// What a driver says about an allocated device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDeviceStatus {
    /// Name of the driver.
    #[serde(deserialize_with = "text")]
    pub driver: Arc<str>,
    /// Name of the pool.
    #[serde(deserialize_with = "text")]
    pub pool: Arc<str>,
    /// Name of the device.
    #[serde(deserialize_with = "text")]
    pub device: Arc<str>,
    /// The conditions that the driver reports.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
}

/// One condition of a device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type", deserialize_with = "text")]
    pub condition_type: Arc<str>,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "text")]
    pub status: Arc<str>,
    /// Reason for the status, in one word.
    #[serde(deserialize_with = "text")]
    pub reason: Arc<str>,
    /// Reason for the status, for people.
    #[serde(deserialize_with = "text")]
    pub message: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Json {
    #[serde(deserialize_with = "or_default")]
    metadata: wire::ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: ClaimStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    devices: Devices,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "list")]
    requests: Vec<RequestFields>,
    #[serde(deserialize_with = "list")]
    constraints: Vec<Constraint>,
    #[serde(deserialize_with = "list")]
    config: Vec<ClaimConfig>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestFields {
    #[serde(deserialize_with = "text")]
    name: Arc<str>,
    exactly: Option<ExactRequest>,
    #[serde(deserialize_with = "list")]
    first_available: Vec<ExactRequest>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CapacityFields {
    #[serde(deserialize_with = "optional_quantities")]
    requests: Option<Map<Quantity>>,
}

fn capacity_requests<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<Quantity>>, D::Error> {
    let fields: Option<CapacityFields> = Option::deserialize(deserializer)?;
    Ok(fields.map(|fields| fields.requests.unwrap_or_default()))
}

/// The `opaque` parts of a class's configuration.
pub(super) fn opaque_configs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Option<kube_scheduler_api_types::Json>>, D::Error> {
    Ok(list::<_, ClaimConfig>(deserializer)?.into_iter().map(|config| config.opaque).collect())
}

impl ResourceClaim {
    /// Reads a ResourceClaim.
    ///
    /// # Errors
    /// If a field has the wrong type, or there are more than 32 requests.
    pub fn from_json(json: &kube_scheduler_api_types::Json) -> Result<Self, ObjectError> {
        let n_requests = json["spec"]["devices"]["requests"].as_array().map_or(0, <[_]>::len);
        if n_requests > MAX_REQUESTS {
            let reason = format!("{n_requests} requests, at most {MAX_REQUESTS} are allowed");
            return Err(error_in(KIND, json, "spec.devices.requests".to_owned(), reason));
        }
        let Json { metadata, spec, status } = decode(KIND, json)?;
        let Devices { requests, constraints, config } = spec.devices;
        Ok(Self {
            namespace: metadata.namespace.0,
            name: metadata.name.0,
            uid: metadata.uid.0,
            is_being_deleted: metadata.deletion_timestamp.0.is_some(),
            owners: metadata.owner_references.0,
            requests: requests.into_iter().map(RequestFields::compile).collect(),
            constraints,
            config,
            status,
        })
    }

    /// The claim as `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl RequestFields {
    fn compile(self) -> DeviceRequest {
        let request = match self.exactly {
            Some(exactly) => Request::Exactly(exactly),
            None if self.first_available.is_empty() => Request::Unknown,
            None => Request::FirstAvailable(self.first_available),
        };
        DeviceRequest { name: self.name, request }
    }
}

impl DeviceToleration {
    /// Whether the taint does no harm (`docs/spec/plugins-dra.md` §8.9).
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                operator => operator == "Exists",
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_with_more_requests_than_allowed_are_refused() {
        let read = |n: usize| {
            let requests: Vec<_> = (0..n).map(|at| json!({"name": format!("r{at}")})).collect();
            let claim = json!({"metadata": {"namespace": "a", "name": "c"},
                "spec": {"devices": {"requests": requests}}});
            ResourceClaim::from_json(&claim.into()).map_err(|error| error.to_string())
        };
        assert_eq!(read(32).unwrap().requests.len(), 32);
        let expected =
            "ResourceClaim a/c: spec.devices.requests: 33 requests, at most 32 are allowed";
        assert_eq!(read(33).unwrap_err(), expected);
    }
}
