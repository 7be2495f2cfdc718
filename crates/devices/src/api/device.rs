//! Devices, what they have and what they consume.

use std::sync::Arc;

use kube_scheduler_api_types::{Quantity, wire};
use serde::{Deserialize, Deserializer};

use super::decode::{
    JsonQuantity, Map, list, optional_quantity, optional_texts, or_default, quantity, text,
};

/// One device of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// Name within its pool.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// Attributes by name, with or without domain.
    pub attributes: Map<Attribute>,
    /// Capacities by name, with or without domain.
    pub capacity: Map<DeviceCapacity>,
    /// What it takes of the counters of its pool.
    #[serde(deserialize_with = "list")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// The node it can be used on, where the slice leaves that to devices.
    pub node_name: Option<wire::Text>,
    /// The nodes it can be used on, where the slice leaves that to devices.
    pub node_selector: Option<wire::NodeSelector>,
    /// Whether it can be used on all nodes, where the slice leaves that to devices.
    pub all_nodes: Option<bool>,
    /// What keeps requests away that do not tolerate it.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<DeviceTaint>,
    /// Whether a claim that gets the device is tied to the node it was allocated for.
    #[serde(deserialize_with = "or_default")]
    pub binds_to_node: bool,
    /// Conditions that must become true before a pod may be bound. Absent and empty differ.
    #[serde(deserialize_with = "optional_texts")]
    pub binding_conditions: Option<Vec<Arc<str>>>,
    /// Conditions that end waiting for the binding conditions.
    #[serde(deserialize_with = "optional_texts")]
    pub binding_failure_conditions: Option<Vec<Arc<str>>>,
    /// Whether several requests may have the device at once.
    pub allow_multiple_allocations: Option<bool>,
    /// How using the device adds to a pod's demand for node resources, by resource.
    pub node_allocatable_resource_mappings: Map<NodeResourceMapping>,
}

/// The value of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A text.
    String(Arc<str>),
    /// A number.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A semantic version, as written.
    Version(Arc<str>),
    /// A list of texts.
    Strings(Box<[Arc<str>]>),
    /// A list of numbers.
    Ints(Box<[i64]>),
    /// A list of booleans.
    Bools(Box<[bool]>),
    /// A list of semantic versions, as written.
    Versions(Box<[Arc<str>]>),
    /// None of the types that this version knows.
    #[default]
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AttributeFields {
    int: Option<i64>,
    bool: Option<bool>,
    string: Option<wire::Text>,
    version: Option<wire::Text>,
    #[serde(deserialize_with = "optional_texts")]
    strings: Option<Vec<Arc<str>>>,
    ints: Option<Vec<i64>>,
    bools: Option<Vec<bool>>,
    #[serde(deserialize_with = "optional_texts")]
    versions: Option<Vec<Arc<str>>>,
}

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = AttributeFields::deserialize(deserializer)?;
        Ok(if let Some(value) = fields.int {
            Self::Int(value)
        } else if let Some(value) = fields.bool {
            Self::Bool(value)
        } else if let Some(value) = fields.string {
            Self::String(value.0)
        } else if let Some(value) = fields.version {
            Self::Version(value.0)
        } else if let Some(values) = fields.strings {
            Self::Strings(values.into())
        } else if let Some(values) = fields.ints {
            Self::Ints(values.into())
        } else if let Some(values) = fields.bools {
            Self::Bools(values.into())
        } else if let Some(values) = fields.versions {
            Self::Versions(values.into())
        } else {
            Self::Unknown
        })
    }
}

/// A capacity of a device, such as memory, of which requests may take shares.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCapacity {
    /// How much the device has.
    #[serde(deserialize_with = "quantity")]
    pub value: Quantity,
    /// Which amounts of it may be requested; any if absent.
    pub request_policy: Option<RequestPolicy>,
}

/// Which shares of a capacity may be requested.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestPolicy {
    /// The share of a request that names none.
    #[serde(deserialize_with = "optional_quantity")]
    pub default: Option<Quantity>,
    /// The only amounts that may be taken, ascending.
    #[serde(deserialize_with = "quantities")]
    pub valid_values: Vec<Quantity>,
    /// The range that amounts must lie in.
    pub valid_range: Option<ValidRange>,
}

/// The shares of a capacity that claims may take: a range, with steps.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ValidRange {
    /// The smallest amount that may be taken.
    #[serde(deserialize_with = "optional_quantity")]
    pub min: Option<Quantity>,
    /// The largest amount that may be taken.
    #[serde(deserialize_with = "optional_quantity")]
    pub max: Option<Quantity>,
    /// Shares are the smallest one plus a multiple of this.
    #[serde(deserialize_with = "optional_quantity")]
    pub step: Option<Quantity>,
}

/// What a device takes of one counter set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterConsumption {
    /// Name of the counter set of the pool.
    #[serde(deserialize_with = "text")]
    pub counter_set: Arc<str>,
    /// What the device takes of each counter of the set.
    #[serde(deserialize_with = "counters")]
    pub counters: Map<Quantity>,
}

/// Counters that the devices of a pool share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CounterSet {
    /// Name of the set within the pool.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// How much each counter has.
    #[serde(deserialize_with = "counters")]
    pub counters: Map<Quantity>,
}

/// A taint of a device, which keeps requests away that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaint {
    /// Key of the taint.
    #[serde(deserialize_with = "text")]
    pub key: Arc<str>,
    /// Value of the taint.
    #[serde(deserialize_with = "text")]
    pub value: Arc<str>,
    /// Effect; only `NoSchedule` and `NoExecute` keep requests away.
    #[serde(deserialize_with = "text")]
    pub effect: Arc<str>,
    /// When it was set, as written.
    #[serde(deserialize_with = "text")]
    pub time_added: Arc<str>,
}

/// How using a device adds to the demand for one node resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourceMapping {
    /// The capacity whose consumed share counts; without it the multiplier alone counts.
    #[serde(deserialize_with = "text")]
    pub capacity_key: Arc<str>,
    /// What the share is multiplied with.
    #[serde(deserialize_with = "optional_quantity")]
    pub allocation_multiplier: Option<Quantity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counter {
    #[serde(deserialize_with = "quantity")]
    value: Quantity,
}

fn counters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<Quantity>, D::Error> {
    let counters: Map<Counter> = Map::deserialize(deserializer)?;
    Ok(counters.iter().map(|(name, counter)| (name.clone(), counter.value.clone())).collect())
}

fn quantities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Quantity>, D::Error> {
    Ok(list::<_, JsonQuantity>(deserializer)?.into_iter().map(|quantity| quantity.0).collect())
}

impl Device {
    /// Whether several requests may have the device at once.
    pub(crate) fn is_shareable(&self) -> bool {
        self.allow_multiple_allocations.unwrap_or(false)
    }

    /// The attribute that a full name means: by that name, or without the domain if that is the driver's.
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&Attribute> {
        self.attributes.get(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            if domain == driver { self.attributes.get(id) } else { None }
        })
    }
}

impl DeviceTaint {
    /// Whether the taint keeps requests away that do not tolerate it. Effects that this version does not know do not.
    pub fn is_hard(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }
}
