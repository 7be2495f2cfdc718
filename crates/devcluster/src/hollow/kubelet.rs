//! What a kubelet writes: pod status and node readiness.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::delete::{DeleteOptions, delete_in};
use crate::clock::to_rfc3339;
use crate::kinds::{NODES, PODS};
use crate::object::{at, child_mut, list_at, list_mut, set_condition, text_at};
use crate::status::StatusError;
use crate::store::{State, Store};

/// The annotation that sets the phase in which a pod with [`RUN_SECONDS`](super::RUN_SECONDS) ends: `Succeeded` (the
/// default) or `Failed`.
pub const END_PHASE: &str = "devcluster/end-phase";

/// A step in the life of the pod with this key and uid.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodStep {
    Start { key: String, uid: String },
    Finish { key: String, uid: String },
    Remove { key: String, uid: String },
}

/// The addresses of the hollow nodes, and the next free address for a pod.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    by_node: BTreeMap<String, String>,
    pods: u32,
}

impl Addresses {
    pub(super) fn clear(&mut self) {
        self.by_node.clear();
    }

    pub(super) fn insert(&mut self, node: &str, value: &Value) {
        let addresses = list_at(value, &["status", "addresses"]);
        let internal = addresses.iter().find(|address| text_at(address, &["type"]) == "InternalIP");
        let address = match internal {
            Some(address) => text_at(address, &["address"]).to_owned(),
            None => node_address(self.by_node.len()),
        };
        self.by_node.insert(node.to_owned(), address);
    }

    fn of_node(&self, node: &str) -> &str {
        self.by_node.get(node).map_or("10.0.0.1", String::as_str)
    }

    fn next_pod(&mut self) -> String {
        // From the upper half of 10.0.0.0/8; after eight million pods addresses repeat.
        self.pods = self.pods.wrapping_add(1) & 0x007f_ffff;
        let [_, b, c, d] = self.pods.to_be_bytes();
        format!("10.{}.{c}.{d}", 128 + u32::from(b))
    }
}

/// The address of the node with this number.
pub(super) fn node_address(index: usize) -> String {
    format!("10.{}.{}.{}", index >> 16 & 0x7f, index >> 8 & 0xff, index & 0xff)
}

/// Takes a batch of steps in one write.
pub(super) fn carry_out(
    store: &Store,
    batch: Vec<PodStep>,
    addresses: &mut Addresses,
) -> Result<(), StatusError> {
    store.write(|state| {
        for step in batch {
            match step {
                PodStep::Start { key, uid } => start(state, &key, &uid, addresses),
                PodStep::Finish { key, uid } => finish(state, &key, &uid),
                PodStep::Remove { key, uid } => remove(state, &key, &uid)?,
            }
        }
        Ok(())
    })
}

/// Sets the conditions, addresses and node info that a kubelet reports first, on nodes that were created without.
pub(super) fn make_ready(store: &Store, names: &[String], addresses: &mut Addresses) {
    if names.is_empty() {
        return;
    }
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        let now = to_rfc3339(state.now);
        for name in names {
            let Some(mut node) = state.get(NODES, "", name).map(|node| node.value()) else { continue };
            let address = addresses.of_node(name).to_owned();
            let status = child_mut(&mut node, "status");
            status.insert("conditions".into(), ready_conditions(&now));
            if list_mut(status, "addresses").is_empty() {
                status.insert("addresses".into(), json!([
                    {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name},
                ]));
            }
            status.entry("nodeInfo").or_insert_with(node_info);
            state.put(NODES, node);
        }
        Ok(())
    });
}

/// The conditions of a healthy node.
pub(super) fn ready_conditions(now: &str) -> Value {
    let condition = |condition_type: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": condition_type, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

/// The `nodeInfo` of a hollow node.
pub(super) fn node_info() -> Value {
    json!({
        "kubeletVersion": "v1.36.0-hollow", "kubeProxyVersion": "", "osImage": "hollow", "operatingSystem": "linux",
        "architecture": "amd64", "kernelVersion": "0.0.0", "containerRuntimeVersion": "hollow://0",
        "machineID": "", "systemUUID": "", "bootID": "",
    })
}

fn current(state: &State, key: &str, uid: &str) -> Option<Value> {
    let (namespace, name) = key.split_once('/')?;
    state.get(PODS, namespace, name).filter(|pod| pod.uid() == uid).map(|pod| pod.value())
}

fn start(state: &mut State, key: &str, uid: &str, addresses: &mut Addresses) {
    let Some(mut pod) = current(state, key, uid) else { return };
    if text_at(&pod, &["status", "phase"]) != "Pending"
        || at(&pod, &["metadata", "deletionTimestamp"]).is_some()
    {
        return;
    }
    let now = to_rfc3339(state.now);
    let statuses = |list: &str, running: bool| -> Value {
        list_at(&pod, &["spec", list])
            .iter()
            .map(|container| {
                // A sidecar is an init container that keeps running.
                let runs = running || text_at(container, &["restartPolicy"]) == "Always";
                container_status(container, runs, &now)
            })
            .collect()
    };
    let containers = statuses("containers", true);
    let init_containers = statuses("initContainers", false);
    let host = addresses.of_node(text_at(&pod, &["spec", "nodeName"])).to_owned();
    let host_network = at(&pod, &["spec", "hostNetwork"]) == Some(&Value::Bool(true));
    let address = if host_network { host.clone() } else { addresses.next_pod() };
    let status = child_mut(&mut pod, "status");
    status.insert("phase".into(), "Running".into());
    status.insert("startTime".into(), now.as_str().into());
    status.insert("hostIP".into(), host.as_str().into());
    status.insert("hostIPs".into(), json!([{"ip": host}]));
    status.insert("podIP".into(), address.as_str().into());
    status.insert("podIPs".into(), json!([{"ip": address}]));
    status.insert("containerStatuses".into(), containers);
    if init_containers.as_array().is_some_and(|list| !list.is_empty()) {
        status.insert("initContainerStatuses".into(), init_containers);
    }
    let conditions = list_mut(status, "conditions");
    for condition_type in
        ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
    {
        let condition = json!({"type": condition_type, "status": "True", "lastProbeTime": null});
        set_condition(conditions, condition, &now);
    }
    state.put(PODS, pod);
}

fn container_status(container: &Value, runs: bool, now: &str) -> Value {
    let image = text_at(container, &["image"]);
    let state = if runs {
        json!({"running": {"startedAt": now}})
    } else {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}})
    };
    json!({
        "name": text_at(container, &["name"]), "image": image, "imageID": image, "containerID": "hollow://0",
        "ready": true, "started": runs, "restartCount": 0, "state": state, "lastState": {},
    })
}

fn finish(state: &mut State, key: &str, uid: &str) {
    let Some(mut pod) = current(state, key, uid) else { return };
    if text_at(&pod, &["status", "phase"]) != "Running" {
        return;
    }
    let failed = text_at(&pod, &["metadata", "annotations", END_PHASE]) == "Failed";
    let (phase, reason, exit_code) =
        if failed { ("Failed", "Error", 1) } else { ("Succeeded", "Completed", 0) };
    let now = to_rfc3339(state.now);
    let started = text_at(&pod, &["status", "startTime"]).to_owned();
    let status = child_mut(&mut pod, "status");
    status.insert("phase".into(), phase.into());
    for container in list_mut(status, "containerStatuses") {
        let container = crate::object::map_mut(container);
        container.insert("ready".into(), false.into());
        container.insert("started".into(), false.into());
        container.insert(
            "state".into(),
            json!({"terminated": {
                "exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now,
            }}),
        );
    }
    let conditions = list_mut(status, "conditions");
    for condition_type in ["ContainersReady", "Ready"] {
        let reason = if failed { "PodFailed" } else { "PodCompleted" };
        let condition = json!({"type": condition_type, "status": "False", "reason": reason, "lastProbeTime": null});
        set_condition(conditions, condition, &now);
    }
    state.put(PODS, pod);
}

fn remove(state: &mut State, key: &str, uid: &str) -> Result<(), StatusError> {
    let Some((namespace, name)) = key.split_once('/') else { return Ok(()) };
    if current(state, key, uid).is_none() {
        return Ok(());
    }
    let options = DeleteOptions {
        grace_seconds: Some(0),
        uid: Some(uid.to_owned()),
        ..DeleteOptions::default()
    };
    delete_in(state, PODS, namespace, name, &options).map(|_| ())
}
