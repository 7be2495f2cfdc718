//! What the things of a history look like: pods, nodes and the objects around them, as the API server would serve them.
//!
//! Pods come in a few shapes per history, so that many share a class; names are few and come back.

use serde_json::{Value, json};

use super::Numbers;

pub(crate) const NAMESPACES: [&str; 2] = ["default", "team"];
pub(crate) const CLAIMS: [&str; 6] =
    ["ready", "fixed", "grown", "grown-slowly", "single", "shared"];
const APPS: [&str; 3] = ["web", "db", "job"];
const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// By which controllers number pods.
const NUMBER: &str = "apps.kubernetes.io/pod-index";

/// A pod's spec. `numbers` decides the shape and nothing else.
pub(crate) fn pod_spec(numbers: &mut Numbers) -> Value {
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "priority": 10 * numbers.below(3),
        "containers": [{
            "name": "main",
            "image": numbers.pick(&["registry.example/app:v1", "registry.example/other"]),
            "resources": {"requests": {"cpu": format!("{}m", 250 * (1 + numbers.below(4))), "memory": "256Mi"}},
        }],
    });
    if numbers.one_in(4) {
        spec["containers"][0]["ports"] = json!([{"hostPort": 8000 + numbers.below(2)}]);
    }
    if numbers.one_in(4) {
        spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1".into();
    }
    if numbers.one_in(3) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if numbers.one_in(4) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    if numbers.one_in(6) {
        spec["preemptionPolicy"] = "Never".into();
    }
    let mut affinity = json!({});
    if numbers.one_in(4) {
        let zone = format!("zone-{}", numbers.below(3));
        affinity["nodeAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1 + numbers.below(100),
            "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
        }]});
    }
    if numbers.one_in(3) {
        let side = numbers.pick(&["podAffinity", "podAntiAffinity"]);
        affinity[side] = if numbers.one_in(2) {
            json!({"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(numbers)]})
        } else {
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1 + numbers.below(100), "podAffinityTerm": affinity_term(numbers),
            }]})
        };
    }
    spec["affinity"] = affinity;
    if numbers.one_in(3) {
        let constraint = spread_constraint(numbers);
        spec["topologySpreadConstraints"] = json!([constraint]);
    }
    if numbers.one_in(4) {
        let claim = numbers.pick(&CLAIMS);
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    if numbers.one_in(10) {
        spec["schedulingGates"] = json!([{"name": "example.com/hold"}]);
    }
    spec
}

fn selector(numbers: &mut Numbers) -> Value {
    if numbers.one_in(4) {
        let app = numbers.pick(&APPS);
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]})
    } else {
        json!({"matchLabels": {"app": numbers.pick(&APPS)}})
    }
}

fn affinity_term(numbers: &mut Numbers) -> Value {
    let mut term =
        json!({"topologyKey": numbers.pick(&[ZONE, HOSTNAME]), "labelSelector": selector(numbers)});
    match numbers.below(4) {
        0 => term["namespaces"] = json!(NAMESPACES),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"tier": "gold"}}),
        _ => {}
    }
    term
}

fn spread_constraint(numbers: &mut Numbers) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + numbers.below(2),
        "topologyKey": numbers.pick(&[ZONE, HOSTNAME]),
        "whenUnsatisfiable": numbers.pick(&["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector(numbers),
    });
    if numbers.one_in(3) {
        constraint["nodeTaintsPolicy"] = "Honor".into();
    }
    if numbers.one_in(3) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = 3.into();
    }
    constraint
}

/// Gives a pod the number `n` by a label. Some pods of a kind look at the numbers of others.
pub(crate) fn give_number(pod: &mut Value, n: u64, kind: u64) {
    pod["metadata"]["labels"][NUMBER] = (n % 3).to_string().into();
    let selector = json!({"matchLabels": {NUMBER: "1"}});
    match kind {
        0 if n.is_multiple_of(4) => {
            let term = json!({"topologyKey": HOSTNAME, "labelSelector": selector});
            pod["spec"]["affinity"]["podAntiAffinity"] =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        }
        1 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            }]);
        }
        _ => {}
    }
}

/// Has a service select pods by their numbers; leaves other objects alone.
pub(crate) fn select_by_number(object: &mut Value) {
    if object["kind"] == "Service" {
        object["spec"]["selector"] = json!({NUMBER: "1"});
    }
}

/// Labels of a pod.
pub(crate) fn pod_labels(numbers: &mut Numbers) -> Value {
    json!({"app": numbers.pick(&APPS), "version": numbers.below(3).to_string()})
}

/// A node.
pub(crate) fn node(name: &str, numbers: &mut Numbers) -> Value {
    let zone = format!("zone-{}", numbers.below(3));
    let mut taints = Vec::new();
    if numbers.one_in(3) {
        let effect = numbers.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        taints.push(json!({"key": "dedicated", "value": "batch", "effect": effect}));
    }
    let mut images = Vec::new();
    if numbers.one_in(2) {
        let size = 50_000_000 + numbers.below(900_000_000);
        images.push(json!({"names": ["registry.example/app:v1"], "sizeBytes": size}));
    }
    let cpu = 1 + numbers.below(4);
    let mut labels =
        json!({HOSTNAME: name, "disk": numbers.pick(&["ssd", "hdd"]), "kubernetes.io/os": "linux"});
    if !numbers.one_in(8) {
        labels[ZONE] = zone.into();
    }
    json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": labels},
        "spec": {"unschedulable": numbers.one_in(8), "taints": taints},
        "status": {
            "allocatable": {
                "cpu": cpu.to_string(), "memory": "4Gi", "pods": "6",
                "example.com/gpu": numbers.below(3).to_string(),
            },
            "images": images,
        },
    })
}

/// An object around the pods, in turn of every kind; names are few, so that one replaces another.
pub(crate) fn object(numbers: &mut Numbers) -> Value {
    let namespace = numbers.pick(&NAMESPACES);
    match numbers.below(9) {
        0 => {
            let tier = numbers.pick(&["gold", "iron"]);
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {"tier": tier}}})
        }
        1 => json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": namespace, "name": "front"},
            "spec": {"selector": {"app": numbers.pick(&APPS)}}}),
        2 => json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": namespace, "name": "keep"},
            "spec": {"selector": {"matchLabels": {"app": numbers.pick(&APPS)}}},
            "status": {"disruptionsAllowed": numbers.below(3)}}),
        3 => storage_class(numbers),
        4 => csi_node(numbers),
        5 | 6 => volume(numbers),
        _ => claim(namespace, numbers),
    }
}

fn storage_class(numbers: &mut Numbers) -> Value {
    let (name, provisioner) = if numbers.one_in(2) {
        ("local", "kubernetes.io/no-provisioner")
    } else {
        ("grown", "csi.example.com")
    };
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

fn csi_node(numbers: &mut Numbers) -> Value {
    let name = format!("node-{}", numbers.below(12));
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
    "spec": {"drivers": [{
        "name": "csi.example.com", "nodeID": name, "topologyKeys": [],
        "allocatable": {"count": 1 + numbers.below(3)},
    }]}})
}

fn volume(numbers: &mut Numbers) -> Value {
    let name = format!("pv-{}", numbers.below(4));
    let zone = format!("zone-{}", numbers.below(3));
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": {ZONE: zone}},
        "spec": {
            "capacity": {"storage": format!("{}Gi", 1 + numbers.below(5))},
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "storageClassName": "local",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}],
            }]}},
        },
        "status": {"phase": "Available"}})
}

/// What a provisioner makes for a claim, for use where nodes have these values of labels; everywhere if there are none.
pub(crate) fn provisioned(name: &str, labels: &[(String, String)], claim: &Value) -> Value {
    let same =
        labels.iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
    let affinity = match labels {
        [] => Value::Null,
        _ => {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": same.collect::<Vec<_>>()}]}})
        }
    };
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("{name}-uid")},
        "spec": {
            "capacity": {"storage": "3Gi"},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "claimRef": {
                "kind": "PersistentVolumeClaim", "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"],
            },
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "nodeAffinity": affinity,
        },
        "status": {"phase": "Available"}})
}

/// A claim of one of the six names; the name says what it is like.
fn claim(namespace: &str, numbers: &mut Numbers) -> Value {
    let name = numbers.pick(&CLAIMS);
    let mode = if name == "single" { "ReadWriteOncePod" } else { "ReadWriteOnce" };
    let class = if name.starts_with("grown") { "grown" } else { "local" };
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}-{}", numbers.below(1000))},
        "spec": {
            "accessModes": [mode], "storageClassName": class,
            "resources": {"requests": {"storage": format!("{}Gi", 1 + numbers.below(3))}},
        },
        "status": {"phase": "Pending"}});
    if name == "ready" {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = format!("pv-{}", numbers.below(4)).into();
        claim["status"]["phase"] = "Bound".into();
    }
    claim
}
