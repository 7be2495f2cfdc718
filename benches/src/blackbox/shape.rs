//! Nodes and pods of a round, as the reference figures describe them.

use serde_json::{Value, json};

use super::devices::Devices;

/// How many zones the nodes are in.
const ZONES: usize = 3;
/// How many groups there are of pods that keep away from each other.
const GROUPS: usize = 50;

/// What the pods ask for beside 100m CPU and 500Mi of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Nothing
    Plain,
    /// To be spread over three zones: DoNotSchedule, maxSkew 5
    Spread,
    /// The zone of pods with the same label, required
    Affinity,
    /// No node with a pod of the same group, required; 50 groups
    AntiAffinity,
    /// One of the eight devices of their node, by a claim of their own
    Claims,
}

impl Shape {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Spread => "spread",
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::Claims => "claims",
        }
    }

    /// The devices of the nodes, if pods ask for any.
    pub(super) fn devices(self, round: &str) -> Option<Devices> {
        (self == Self::Claims).then(|| Devices::of(round))
    }

    /// The pod of this number.
    pub fn pod(self, index: usize) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name(index)},
            "spec": {"automountServiceAccountToken": false, "containers": [{
                "name": "pause", "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}]},
        });
        let group = format!("g{}", index % GROUPS);
        match self {
            Self::Plain => {}
            Self::Spread => {
                pod["metadata"]["labels"] = json!({"color": "blue"});
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"color": "blue"}}}]);
            }
            Self::Affinity => {
                pod["metadata"]["labels"] = json!({"color": "blue"});
                pod["spec"]["affinity"]["podAffinity"] =
                    required("color", "blue", "topology.kubernetes.io/zone");
            }
            Self::AntiAffinity => {
                pod["metadata"]["labels"] = json!({"group": group});
                pod["spec"]["affinity"]["podAntiAffinity"] =
                    required("group", &group, "kubernetes.io/hostname");
            }
            Self::Claims => {
                pod["spec"]["resourceClaims"] =
                    json!([{"name": "device", "resourceClaimName": pod_name(index)}]);
            }
        }
        pod
    }
}

fn required(label: &str, value: &str, topology_key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": topology_key, "labelSelector": {"matchLabels": {label: value}}}]})
}

/// The name of the pod of this number.
pub(super) fn pod_name(index: usize) -> String {
    format!("pod-{index:06}")
}

/// The name of the node of this number in a round.
pub(super) fn node_name(round: &str, index: usize) -> String {
    format!("{round}-{index:06}")
}

/// The label by which a round's nodes are found again.
pub(super) const ROUND_LABEL: &str = "blackbox-round";

/// The node of this number: 4 CPU, 32 GiB, 110 pods.
pub(super) fn node(round: &str, index: usize) -> Value {
    let name = node_name(round, index);
    let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": format!("zone-{}", index % ZONES), ROUND_LABEL: round}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anti_affinity_keeps_a_pod_away_from_its_own_group_only() {
        let (first, same, other) = (
            Shape::AntiAffinity.pod(0),
            Shape::AntiAffinity.pod(GROUPS),
            Shape::AntiAffinity.pod(1),
        );
        assert_eq!(first["spec"], same["spec"]);
        assert_ne!(first["spec"], other["spec"]);
        let term = &first["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [0];
        assert_eq!(term["labelSelector"]["matchLabels"], first["metadata"]["labels"]);
        assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    }

    #[test]
    fn nodes_are_spread_over_three_zones() {
        let zone =
            |index| node("r", index)["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
        assert_eq!(zone(0), zone(3));
        assert_ne!(zone(0), zone(1));
        assert_ne!(zone(1), zone(2));
    }
}
