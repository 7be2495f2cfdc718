//! What an API server adds to pods that are created.
//!
//! Invariants: fields that are set are not changed; a field of the wrong type is left for the decoder to reject.

use serde_json::{Map, Value};

use crate::json::map_at;

/// Sets requests from limits, and host ports on the host network.
pub fn complete_pod(value: &mut Value) {
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let is_host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    let mut in_containers: Vec<String> = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                requests_from_limits(resources, &[]);
                let requests = resources.get("requests").and_then(Value::as_object);
                in_containers.extend(requests.into_iter().flat_map(Map::keys).cloned());
            }
            if is_host_network {
                host_ports(container);
            }
        }
    }
    // Requests of containers take precedence over the pod's limit.
    if let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) {
        requests_from_limits(resources, &in_containers);
    }
}

fn requests_from_limits(resources: &mut Map<String, Value>, except: &[String]) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = map_at(resources, "requests") else { return };
    for (name, limit) in limits {
        if !except.contains(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn host_ports(container: &mut Map<String, Value>) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        let is_unset =
            port.get("hostPort").is_none_or(|port| port.is_null() || port.as_i64() == Some(0));
        if let Some(number) = port.get("containerPort").filter(|_| is_unset).cloned() {
            port.insert("hostPort".to_owned(), number);
        }
    }
}
