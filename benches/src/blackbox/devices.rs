//! The devices of a round's nodes, the claims of its pods, and what a scheduler writes into those.

use serde_json::{Value, json};

use super::shape::{ROUND_LABEL, node_name, pod_name};

/// How many devices a node has.
const PER_NODE: usize = 8;
const GROUP: &str = "resource.k8s.io/v1";
/// The name of the one request of a claim.
const REQUEST: &str = "device";

/// Devices of one driver and one class, which no other round has.
pub(super) struct Devices {
    round: String,
}

impl Devices {
    pub(super) fn of(round: &str) -> Self {
        Self { round: round.to_owned() }
    }

    /// Where their class is.
    pub(super) fn class_path(&self) -> String {
        format!("/apis/{GROUP}/deviceclasses/{}", self.round)
    }

    /// Where claims are.
    pub(super) fn claims_path(&self) -> String {
        format!("/apis/{GROUP}/namespaces/{}/resourceclaims", self.round)
    }

    fn driver(&self) -> String {
        format!("{}.example.com", self.round)
    }

    /// The class that all claims name.
    pub(super) fn class(&self) -> Value {
        let expression = format!("device.driver == \"{}\"", self.driver());
        json!({"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": self.round},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}})
    }

    /// What the node of this number has.
    pub(super) fn slice(&self, index: usize) -> Value {
        let node = node_name(&self.round, index);
        let devices: Vec<Value> =
            (0..PER_NODE).map(|at| json!({"name": format!("device-{at}")})).collect();
        json!({"apiVersion": GROUP, "kind": "ResourceSlice",
            "metadata": {"name": node, "labels": {ROUND_LABEL: self.round}},
            "spec": {"driver": self.driver(), "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
    }

    /// The claim of the pod of this number.
    pub(super) fn claim(&self, index: usize) -> Value {
        let exactly =
            json!({"deviceClassName": self.round, "allocationMode": "ExactCount", "count": 1});
        json!({"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": pod_name(index)},
            "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}})
    }

    /// The status of a claim that has the device of this number on a node and is reserved for a pod.
    pub(super) fn allocated(&self, node: &str, device: usize, pod: &str, pod_uid: &Value) -> Value {
        json!({
            "allocation": {
                "devices": {"results": [{"request": REQUEST, "driver": self.driver(), "pool": node,
                    "device": format!("device-{device}")}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [node]}]}]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod_uid}],
        })
    }

    /// Whether there are enough of them.
    pub(super) fn suffice(n_nodes: usize, n_pods: usize) -> bool {
        n_nodes.saturating_mul(PER_NODE) >= n_pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_ceiling_gives_to_pods_is_published_once_each() {
        let devices = Devices::of("r");
        let (n_nodes, n_pods) = (3, 3 * PER_NODE);
        assert!(Devices::suffice(n_nodes, n_pods));
        assert!(!Devices::suffice(n_nodes, n_pods + 1));
        let mut given = std::collections::BTreeSet::new();
        for index in 0..n_pods {
            let (node, device) = (index % n_nodes, index / n_nodes);
            let status = devices.allocated(&node_name("r", node), device, "p", &json!("u"));
            let result = &status["allocation"]["devices"]["results"][0];
            let slice = &devices.slice(node)["spec"];
            assert_eq!(result["driver"], slice["driver"]);
            assert_eq!(result["pool"], slice["pool"]["name"]);
            let published = slice["devices"].as_array().unwrap();
            assert!(published.iter().any(|one| one["name"] == result["device"]), "{result}");
            assert!(given.insert(result.to_string()), "{result} twice");
            assert_eq!(
                result["request"],
                devices.claim(index)["spec"]["devices"]["requests"][0]["name"]
            );
        }
    }
}
