//! Templates of hollow nodes.

use std::collections::BTreeMap;

use kube_scheduler_api_types::well_known::{HOSTNAME, REGION, ZONE};
use serde_json::{Map, Value, json};

use super::kubelet::{node_address, node_info, ready_conditions};

/// The annotation of nodes that were made from a template.
const HOLLOW: &str = "devcluster/hollow";

/// A template for nodes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeTemplate {
    /// The beginning of the names; the node's number follows, padded to five digits.
    pub name_prefix: String,
    /// Quantities by resource name, used as capacity and allocatable.
    pub capacity: BTreeMap<String, String>,
    /// Names of zones, assigned to the nodes in turn; empty for nodes without a zone.
    pub zones: Vec<String>,
    /// The region of all nodes, if there are zones.
    pub region: String,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// Taints, as in a node's spec.
    pub taints: Vec<Value>,
}

impl Default for NodeTemplate {
    /// 4 CPUs, 32 GiB, 110 pods, no zones.
    fn default() -> Self {
        let capacity =
            [("cpu", "4"), ("memory", "32Gi"), ("pods", "110"), ("ephemeral-storage", "100Gi")];
        Self {
            name_prefix: "hollow-".into(),
            capacity: capacity.map(|(name, amount)| (name.to_owned(), amount.to_owned())).into(),
            zones: Vec::new(),
            region: "region-1".into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

impl NodeTemplate {
    /// Sets the beginning of the names.
    pub fn name_prefix(mut self, prefix: &str) -> Self {
        self.name_prefix = prefix.to_owned();
        self
    }

    /// Sets the quantity of a resource, such as `4` or `32Gi`.
    pub fn capacity(mut self, resource: &str, amount: &str) -> Self {
        self.capacity.insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// Assigns the nodes to `count` zones in turn: `zone-1`, `zone-2` and so on.
    pub fn zones(mut self, count: usize) -> Self {
        self.zones = (1..=count).map(|number| format!("zone-{number}")).collect();
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// The node with this number, ready to be created.
    pub(super) fn node(&self, index: usize, now: &str) -> Value {
        let name = format!("{}{index:05}", self.name_prefix);
        let mut labels: Map<String, Value> =
            self.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let mut set = |key: &str, value: &str| {
            labels.entry(key).or_insert_with(|| value.into());
        };
        set(HOSTNAME, &name);
        set("kubernetes.io/os", "linux");
        set("kubernetes.io/arch", "amd64");
        if !self.zones.is_empty() {
            set(ZONE, &self.zones[index % self.zones.len()]);
            set(REGION, &self.region);
        }
        let mut spec = json!({});
        if !self.taints.is_empty() {
            spec["taints"] = self.taints.clone().into();
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {HOLLOW: "true"}},
            "spec": spec,
            "status": {
                "capacity": self.capacity, "allocatable": self.capacity,
                "conditions": ready_conditions(now), "nodeInfo": node_info(),
                "addresses": [
                    {"type": "InternalIP", "address": node_address(index + 1)},
                    {"type": "Hostname", "address": name},
                ],
            },
        })
    }
}
