//! The outcome of an allocation, as it stands in a claim's status.

use std::sync::Arc;

use kube_scheduler_api_types::{Json, Quantity, Timestamp, wire};
use serde::Deserialize;
use serde_json::{Map as JsonMap, Value, json};

use super::claim::DeviceToleration;
use super::decode::{Map, list, optional_quantities, optional_texts, or_default, text, texts};
use crate::name::DeviceName;

/// The devices of a claim and what goes with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// The devices, in the order in which they were chosen.
    pub results: Vec<DeviceResult>,
    /// Configuration for the drivers of the devices.
    pub config: Vec<AllocationConfig>,
    /// Where the devices can be used; absent means everywhere.
    pub node_selector: Option<wire::NodeSelector>,
    /// When the devices were allocated.
    pub allocated_at: Option<Timestamp>,
}

/// One device of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceResult {
    /// The request that got it, `request` or `request/alternative`.
    #[serde(deserialize_with = "text")]
    pub request: Arc<str>,
    /// Name of the driver.
    #[serde(deserialize_with = "text")]
    pub driver: Arc<str>,
    /// Name of the pool.
    #[serde(deserialize_with = "text")]
    pub pool: Arc<str>,
    /// Name of the device.
    #[serde(deserialize_with = "text")]
    pub device: Arc<str>,
    /// Whether it was allocated with admin access: even if other claims use it.
    #[serde(deserialize_with = "or_default")]
    pub admin_access: bool,
    /// Tolerations of the request that got it.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<DeviceToleration>,
    /// Conditions that must become true before a pod may be bound. Absent and empty differ.
    #[serde(deserialize_with = "optional_texts")]
    pub binding_conditions: Option<Vec<Arc<str>>>,
    /// Conditions that end waiting for the binding conditions.
    #[serde(deserialize_with = "optional_texts")]
    pub binding_failure_conditions: Option<Vec<Arc<str>>>,
    /// Which share of a device that several requests may have.
    #[serde(rename = "shareID", deserialize_with = "share_id")]
    pub share_id: Option<Arc<str>>,
    /// How much of its capacities the share takes.
    #[serde(deserialize_with = "optional_quantities")]
    pub consumed_capacity: Option<Map<Quantity>>,
}

/// Configuration for the driver of some requests' devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllocationConfig {
    /// `FromClass` or `FromClaim`.
    #[serde(deserialize_with = "text")]
    pub source: Arc<str>,
    /// The requests that it is for; empty means all.
    #[serde(deserialize_with = "texts")]
    pub requests: Vec<Arc<str>>,
    /// The parameters for the driver, as JSON.
    pub opaque: Option<Json>,
}

fn share_id<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<str>>, D::Error> {
    let id: Option<wire::Text> = Option::deserialize(deserializer)?;
    Ok(id.map(|id| id.0))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    #[serde(deserialize_with = "or_default")]
    devices: Devices,
    node_selector: Option<wire::NodeSelector>,
    allocation_timestamp: wire::Date,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "list")]
    results: Vec<DeviceResult>,
    #[serde(deserialize_with = "list")]
    config: Vec<AllocationConfig>,
}

impl<'de> Deserialize<'de> for Allocation {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        Ok(Self {
            results: fields.devices.results,
            config: fields.devices.config,
            node_selector: fields.node_selector,
            allocated_at: fields.allocation_timestamp.0,
        })
    }
}

impl DeviceResult {
    /// The device's full name.
    pub fn name(&self) -> DeviceName {
        DeviceName::new(&self.driver, &self.pool, &self.device)
    }

    fn to_json(&self) -> Value {
        let mut fields = JsonMap::new();
        fields.insert("request".into(), json!(*self.request));
        fields.insert("driver".into(), json!(*self.driver));
        fields.insert("pool".into(), json!(*self.pool));
        fields.insert("device".into(), json!(*self.device));
        if self.admin_access {
            fields.insert("adminAccess".into(), json!(true));
        }
        if !self.tolerations.is_empty() {
            let tolerations = self.tolerations.iter().map(toleration_json).collect();
            fields.insert("tolerations".into(), Value::Array(tolerations));
        }
        let conditions = [
            ("bindingConditions", &self.binding_conditions),
            ("bindingFailureConditions", &self.binding_failure_conditions),
        ];
        for (name, list) in conditions {
            if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
                fields.insert(name.into(), texts_json(list));
            }
        }
        if let Some(id) = &self.share_id {
            fields.insert("shareID".into(), json!(**id));
        }
        if let Some(consumed) = self.consumed_capacity.as_ref().filter(|all| !all.is_empty()) {
            let amounts =
                consumed.iter().map(|(name, amount)| (name.to_string(), json!(amount.canonical())));
            fields.insert("consumedCapacity".into(), Value::Object(amounts.collect()));
        }
        Value::Object(fields)
    }
}

impl Allocation {
    /// The value of `status.allocation`, without a time of allocation.
    pub fn to_json(&self) -> Value {
        let mut devices = JsonMap::new();
        if !self.results.is_empty() {
            let results = self.results.iter().map(DeviceResult::to_json).collect();
            devices.insert("results".into(), Value::Array(results));
        }
        if !self.config.is_empty() {
            let config = self.config.iter().map(config_json).collect();
            devices.insert("config".into(), Value::Array(config));
        }
        let mut fields = JsonMap::new();
        fields.insert("devices".into(), Value::Object(devices));
        if let Some(selector) = &self.node_selector {
            fields.insert("nodeSelector".into(), selector_json(selector));
        }
        Value::Object(fields)
    }
}

fn texts_json(texts: &[Arc<str>]) -> Value {
    Value::Array(texts.iter().map(|text| json!(**text)).collect())
}

fn config_json(config: &AllocationConfig) -> Value {
    let mut fields = JsonMap::new();
    fields.insert("source".into(), json!(*config.source));
    if !config.requests.is_empty() {
        fields.insert("requests".into(), texts_json(&config.requests));
    }
    if let Some(opaque) = &config.opaque {
        fields.insert("opaque".into(), opaque.into());
    }
    Value::Object(fields)
}

fn toleration_json(toleration: &DeviceToleration) -> Value {
    let mut fields = JsonMap::new();
    let parts = [
        ("key", &toleration.key),
        ("operator", &toleration.operator),
        ("value", &toleration.value),
        ("effect", &toleration.effect),
    ];
    for (name, part) in parts {
        if !part.is_empty() {
            fields.insert(name.into(), json!(**part));
        }
    }
    if let Some(seconds) = toleration.toleration_seconds {
        fields.insert("tolerationSeconds".into(), json!(seconds));
    }
    Value::Object(fields)
}

fn selector_json(selector: &wire::NodeSelector) -> Value {
    let requirement = |requirement: &wire::SelectorRequirement| {
        let mut fields = JsonMap::new();
        fields.insert("key".into(), json!(*requirement.key));
        fields.insert("operator".into(), json!(*requirement.operator));
        if let Some(values) = requirement.values.as_ref().filter(|values| !values.is_empty()) {
            let values = values.iter().map(|value| json!(**value)).collect();
            fields.insert("values".into(), Value::Array(values));
        }
        Value::Object(fields)
    };
    let term = |term: &wire::NodeSelectorTerm| {
        let mut fields = JsonMap::new();
        let parts =
            [("matchExpressions", &term.match_expressions), ("matchFields", &term.match_fields)];
        for (name, part) in parts {
            if !part.is_empty() {
                fields.insert(name.into(), Value::Array(part.iter().map(requirement).collect()));
            }
        }
        Value::Object(fields)
    };
    json!({"nodeSelectorTerms": selector.node_selector_terms.iter().map(term).collect::<Vec<_>>()})
}
