//! What tests with an engine of their own begin with: the engine, and what the watch shows it, from JSON.

#![expect(clippy::unwrap_used, reason = "a test whose beginning is wrong has failed")]

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Engine, EngineOptions, Input};
use kube_scheduler_framework::testing;
use kube_scheduler_runtime::Registry;
use serde_json::{Value, json};

/// The gates of PodGroups that are gangs, within a topology domain or not.
pub const GANG_GATES: [&str; 3] =
    ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];

/// The usual gates, and these on.
pub fn gates<'a>(on: impl IntoIterator<Item = &'a str>) -> FeatureGates {
    let mut gates = FeatureGates::default();
    gates.set(&on.into_iter().map(|gate| (gate.to_owned(), true)).collect()).unwrap();
    gates
}

/// An engine with the usual profile and plugins.
pub fn engine(options: EngineOptions) -> Engine {
    engine_with(&Value::Null, &kube_scheduler_plugins_intree::registry(), options)
}

/// An engine with these profiles, as the configuration has them, and these plugins.
pub fn engine_with(profiles: &Value, registry: &Registry, options: EngineOptions) -> Engine {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles,
    });
    let config = load(&config.to_string(), &options.gates).unwrap();
    Engine::new(&config, registry, options).unwrap()
}

/// The watch shows the object of a statement (`kube_scheduler_framework::testing::grammar`).
pub fn applied(statement: &str) -> Input {
    let object = testing::object(statement).to_json();
    match object["kind"].as_str() {
        Some("Node") => node_applied(&object),
        Some("Pod") => pod_applied(&object),
        _ => object_applied(object),
    }
}

/// The watch shows a node.
pub fn node_applied(node: &Value) -> Input {
    Input::NodeApplied(Arc::new(Node::from_value(node).unwrap()))
}

/// The watch shows a pod.
pub fn pod_applied(pod: &Value) -> Input {
    Input::PodApplied(Arc::new(Pod::from_value(pod).unwrap()))
}

/// The watch shows an object of another kind.
pub fn object_applied(object: Value) -> Input {
    Input::ObjectApplied(Arc::new(Object::from_value(object).unwrap()))
}

/// The watch shows the devices of the driver `gpu.example.com` on a node, as one slice has them.
pub fn devices_applied(node: &str, devices: &[Value]) -> Input {
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    object_applied(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node, "uid": node},
        "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices},
    }))
}

/// A PodGroup of the namespace `x`.
pub fn pod_group(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "x", "name": name, "uid": name}, "spec": spec,
    })
}
