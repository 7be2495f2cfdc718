//! ResourceSlices: the devices that a driver offers.

use std::sync::Arc;

use kube_scheduler_api_types::{Json, wire};
use serde::Deserialize;

use super::decode::{ObjectError, Parts, decode, list, or_default, text};
use super::device::{CounterSet, Device};

/// A part of a driver's pool of devices.
#[derive(Clone, Debug, Default)]
pub struct ResourceSlice {
    /// Name of the object.
    pub name: Arc<str>,
    /// Name of the driver.
    pub driver: Arc<str>,
    /// Name of the pool.
    pub pool: Arc<str>,
    /// Generation of the pool; slices of older ones are out of date.
    pub generation: i64,
    /// How many slices the pool has in this generation.
    pub n_slices: i64,
    /// Where its devices can be used.
    pub reach: NodeReach,
    /// Whether devices say themselves where they can be used. Absent differs from false where the feature is off.
    pub per_device_node_selection: Option<bool>,
    /// Its devices, in the order in which they are tried.
    pub devices: Vec<Device>,
    /// Counters for the devices of the pool.
    pub shared_counters: Vec<CounterSet>,
}

/// The nodes on which devices can be used, in one of three ways.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReach {
    /// `nodeName`: the devices can be used on this node only.
    pub node_name: Option<Arc<str>>,
    /// The devices can be used on the nodes that this selects.
    pub node_selector: Option<wire::NodeSelector>,
    /// `allNodes`: the devices can be used on every node.
    pub all_nodes: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "text")]
    driver: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    pool: Pool,
    node_name: Option<wire::Text>,
    node_selector: Option<wire::NodeSelector>,
    #[serde(deserialize_with = "or_default")]
    all_nodes: bool,
    per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "list")]
    devices: Vec<Device>,
    #[serde(deserialize_with = "list")]
    shared_counters: Vec<CounterSet>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pool {
    #[serde(deserialize_with = "text")]
    name: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    generation: i64,
    #[serde(deserialize_with = "or_default")]
    resource_slice_count: i64,
}

impl ResourceSlice {
    /// Reads a ResourceSlice.
    ///
    /// # Errors
    /// If a field has the wrong type.
    pub fn from_json(json: &Json) -> Result<Self, ObjectError> {
        let Parts::<Spec> { metadata, spec } = decode("ResourceSlice", json)?;
        Ok(Self {
            name: metadata.name.0,
            driver: spec.driver,
            pool: spec.pool.name,
            generation: spec.pool.generation,
            n_slices: spec.pool.resource_slice_count,
            reach: NodeReach {
                node_name: spec.node_name.map(|name| name.0),
                node_selector: spec.node_selector,
                all_nodes: spec.all_nodes,
            },
            per_device_node_selection: spec.per_device_node_selection,
            devices: spec.devices,
            shared_counters: spec.shared_counters,
        })
    }

    /// Whether devices say themselves where they can be used.
    pub(crate) fn is_per_device(&self) -> bool {
        self.per_device_node_selection.unwrap_or(false)
    }

    /// Where `device`, one of its devices, can be used.
    pub(crate) fn reach_of(&self, device: &Device) -> NodeReach {
        if self.is_per_device() { device.reach() } else { self.reach.clone() }
    }
}

impl Device {
    /// Where the device says it can be used, for slices that leave it to devices.
    pub fn reach(&self) -> NodeReach {
        NodeReach {
            node_name: self.node_name.as_ref().map(|name| name.0.clone()),
            node_selector: self.node_selector.clone(),
            all_nodes: self.all_nodes.unwrap_or(false),
        }
    }
}

impl NodeReach {
    /// Whether any of the fields is set.
    pub fn is_given(&self) -> bool {
        self.node_name.as_ref().is_some_and(|name| !name.is_empty())
            || self.node_selector.is_some()
            || self.all_nodes
    }
}
