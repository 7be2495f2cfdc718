//! The sample devices: classes, and slices by node and by zone.

use kube_scheduler_api_types::well_known::ZONE;
use serde_json::{Value, json};

use crate::object::{meta_mut, text_at};

/// The driver of whole GPUs, and the name of their class.
pub(super) const GPU: &str = "gpu.example.com";
/// The driver of GPUs that can be divided, and the name of their class.
const PARTITION: &str = "partition.example.com";
/// The driver of devices in the network, and the name of their class.
const FABRIC: &str = "fabric.example.com";

/// Which devices the sample driver publishes: a number of GPUs and a GPU that can be divided into halves and quarters on every
/// node, and a pool of devices in the network for every zone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SampleDevices {
    /// GPUs of each node, at most 32; 4 by default. Nodes have models and amounts of memory in turn.
    pub gpus_per_node: usize,
    /// Devices that can be used by all nodes of a zone, at most 32; 4 by default.
    pub fabric_per_zone: usize,
}

/// What one slice may hold here.
const MOST: usize = 32;

impl Default for SampleDevices {
    fn default() -> Self {
        Self { gpus_per_node: 4, fabric_per_zone: 4 }
    }
}

impl SampleDevices {
    /// Sets the number of GPUs of each node.
    pub fn gpus_per_node(mut self, count: usize) -> Self {
        self.gpus_per_node = count;
        self
    }

    /// Sets the number of devices of each zone.
    pub fn fabric_per_zone(mut self, count: usize) -> Self {
        self.fabric_per_zone = count;
        self
    }

    /// The slices with the devices of a node.
    pub(super) fn of_node(&self, node: &Value) -> Vec<Value> {
        let name = text_at(node, &["metadata", "name"]);
        let gpus: Vec<Value> =
            (0..self.gpus_per_node.min(MOST)).map(|index| gpu(name, index)).collect();
        let mut slices = Vec::new();
        if !gpus.is_empty() {
            slices.push(slice(&format!("{name}-gpu"), GPU, name, 1, json!({"devices": gpus})));
        }
        let counters = json!({"sharedCounters": [
            {"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]});
        let partitions: Vec<Value> =
            [("whole", 1, "80Gi"), ("half", 2, "40Gi"), ("quarter", 4, "20Gi")]
                .into_iter()
                .flat_map(|(profile, count, memory)| {
                    (0..count).map(move |index| partition(profile, index, memory))
                })
                .collect();
        for (part, content) in
            [("counters", counters), ("partitions", json!({"devices": partitions}))]
        {
            slices.push(slice(&format!("{name}-{part}"), PARTITION, name, 2, content));
        }
        for slice in &mut slices {
            slice["spec"]["nodeName"] = name.into();
            meta_mut(slice).insert(
                "ownerReferences".into(),
                json!([{
                    "apiVersion": "v1", "kind": "Node", "name": name,
                    "uid": text_at(node, &["metadata", "uid"]), "controller": true,
                }]),
            );
        }
        slices
    }

    /// The slice with the devices of a zone.
    pub(super) fn of_zone(&self, zone: &str) -> Option<Value> {
        let devices: Vec<Value> = (0..self.fabric_per_zone.min(MOST))
            .map(|index| {
                json!({"name": format!("fabric-{index}"), "attributes": {
                "kind": {"string": "fabric"}, "index": {"int": index}, "zone": {"string": zone}}})
            })
            .collect();
        if devices.is_empty() {
            return None;
        }
        let mut slice = slice(&zone_slice(zone), FABRIC, zone, 1, json!({"devices": devices}));
        slice["spec"]["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": [zone]}]}]});
        Some(slice)
    }
}

/// The name of the slice of a zone.
pub(super) fn zone_slice(zone: &str) -> String {
    format!("{zone}-fabric")
}

/// Whether a driver is one of the sample's.
pub(super) fn is_sample(driver: &str) -> bool {
    [GPU, PARTITION, FABRIC].contains(&driver)
}

/// One class per driver. Whole GPUs can be asked for as an extended resource, too.
pub(super) fn classes() -> [Value; 3] {
    [GPU, PARTITION, FABRIC].map(|driver| {
        let selector = json!({"cel": {"expression": format!("device.driver == '{driver}'")}});
        let mut spec = json!({"selectors": [selector]});
        if driver == GPU {
            spec["extendedResourceName"] = "example.com/gpu".into();
        }
        json!({"metadata": {"name": driver}, "spec": spec})
    })
}

fn slice(name: &str, driver: &str, pool: &str, n_slices: usize, content: Value) -> Value {
    let mut spec = content;
    spec["driver"] = driver.into();
    spec["pool"] = json!({"name": pool, "generation": 1, "resourceSliceCount": n_slices});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn gpu(node: &str, index: usize) -> Value {
    // Nodes of two generations, distinguished by their names alone, so that a restart changes nothing.
    let is_large = node.bytes().next_back().is_some_and(|byte| byte % 2 == 1);
    let (model, memory) = if is_large { ("G200", "80Gi") } else { ("G100", "40Gi") };
    json!({
        "name": format!("gpu-{index}"),
        "attributes": {
            "kind": {"string": "gpu"}, "model": {"string": model}, "index": {"int": index},
            "numa": {"int": index / 2}, "driverVersion": {"version": "1.36.0"},
            "uuid": {"string": format!("gpu-{node}-{index}")},
        },
        "capacity": {"memory": {"value": memory}},
    })
}

fn partition(profile: &str, index: usize, memory: &str) -> Value {
    json!({
        "name": format!("gpu-0-{profile}-{index}"),
        "attributes": {"kind": {"string": "partition"}, "profile": {"string": profile}},
        "capacity": {"memory": {"value": memory}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}],
    })
}
