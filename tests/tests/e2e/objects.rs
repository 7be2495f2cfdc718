//! Pods, nodes, volumes and devices as the scenarios need them.

use serde_json::{Value, json};

/// A pod that asks for 100 millicores.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

/// A pod that asks for so much.
pub(crate) fn asking(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
    pod
}

/// The object with the members of `more` put into it; maps are merged, everything else is replaced.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    merge(&mut object, more);
    object
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(own), Value::Object(more)) => {
            for (key, value) in more {
                merge(own.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// A ready node of 4 CPUs in zone `a`.
pub(crate) fn node(name: &str) -> Value {
    node_in(name, "a")
}

/// A ready node of 4 CPUs.
pub(crate) fn node_in(name: &str, zone: &str) -> Value {
    let resources =
        json!({"cpu": "4", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": zone}},
        "spec": {},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

/// `n` nodes, `node-0` and so on.
pub(crate) fn nodes(n: usize) -> impl Iterator<Item = Value> {
    (0..n).map(|i| node(&format!("node-{i}")))
}

/// `n` pods that ask for 100 millicores each.
pub(crate) fn pods(prefix: &str, n: usize) -> impl Iterator<Item = Value> {
    (0..n).map(move |i| pod(&format!("{prefix}-{i}")))
}

pub(crate) fn priority_class(name: &str, value: i32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value})
}

/// A class whose volumes are chosen, or made, when the pod is.
pub(crate) fn storage_class(name: &str, provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

pub(crate) fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
}

/// A volume that can be used on one node only.
pub(crate) fn local_volume(name: &str, class: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "storageClassName": class, "local": {"path": "/data"}, "nodeAffinity": only_on(node)}})
}

pub(crate) fn only_on(node: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}})
}

/// A pod with a claim as its volume.
pub(crate) fn pod_with(name: &str, claim: &str) -> Value {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    with(pod(name), json!({"spec": {"volumes": volumes}}))
}

/// The class of all devices here, and a template of claims for one of them.
pub(crate) fn gpu_class_and_template() -> [Value; 2] {
    [
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu"}, "spec": {"spec": one_gpu()}}),
    ]
}

/// The spec of a claim for one device.
pub(crate) fn one_gpu() -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
}

/// This many devices on a node.
pub(crate) fn gpus(node: &str, n: usize) -> Value {
    let devices: Vec<Value> = (0..n).map(|i| json!({"name": format!("gpu-{i}")})).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

/// A pod with a claim that is generated for it.
pub(crate) fn pod_with_gpu(name: &str) -> Value {
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
    with(pod(name), json!({"spec": {"resourceClaims": claims}}))
}
