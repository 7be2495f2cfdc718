//! Tables of pods, nodes, namespaces, events, services and other kinds of the core group.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Layout, age, column, labels_text, name, number, or, wide};
use crate::object::{at, int_at, list_at, text_at};

const POD: &[Column] = &[
    column("Name"),
    column("Ready"),
    column("Status"),
    column("Restarts"),
    column("Age"),
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];
const NODE: &[Column] = &[
    column("Name"),
    column("Status"),
    column("Roles"),
    column("Age"),
    column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];
const EVENT: &[Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    wide("Name"),
];
const SERVICE: &[Column] = &[
    column("Name"),
    column("Type"),
    column("Cluster-IP"),
    column("External-IP"),
    column("Port(s)"),
    column("Age"),
    wide("Selector"),
];

pub(super) fn layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "Pod" => Layout { columns: POD, cells: pod },
        "Node" => Layout { columns: NODE, cells: node },
        "Event" => Layout { columns: EVENT, cells: event },
        "Service" => Layout { columns: SERVICE, cells: service },
        "Namespace" => Layout {
            columns: const { &[column("Name"), column("Status"), column("Age")] },
            cells: |value, now| {
                vec![name(value), text_at(value, &["status", "phase"]).into(), age(value, now)]
            },
        },
        "ConfigMap" => Layout {
            columns: const { &[column("Name"), number("Data"), column("Age")] },
            cells: |value, now| {
                vec![name(value), members(value, &["data", "binaryData"]), age(value, now)]
            },
        },
        "Secret" => Layout {
            columns: const { &[column("Name"), column("Type"), number("Data"), column("Age")] },
            cells: |value, now| {
                vec![
                    name(value),
                    text_at(value, &["type"]).into(),
                    members(value, &["data"]),
                    age(value, now),
                ]
            },
        },
        "ServiceAccount" => Layout {
            columns: const { &[column("Name"), column("Secrets"), column("Age")] },
            cells: |value, now| {
                vec![name(value), list_at(value, &["secrets"]).len().into(), age(value, now)]
            },
        },
        _ => return None,
    })
}

fn members(value: &Value, fields: &[&str]) -> Value {
    let count =
        |field: &&str| value.get(*field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    fields.iter().map(count).sum::<usize>().into()
}

fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let containers = list_at(pod, &["spec", "containers"]).len();
    let statuses = list_at(pod, &["status", "containerStatuses"]);
    let ready =
        statuses.iter().filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
    let restarts: i64 =
        statuses.iter().filter_map(|status| int_at(status, &["restartCount"])).sum();
    let gates = list_at(pod, &["spec", "readinessGates"]).len();
    vec![
        name(pod),
        format!("{ready}/{containers}").into(),
        pod_status(pod).into(),
        restarts.to_string().into(),
        age(pod, now),
        or(text_at(pod, &["status", "podIP"]), "<none>"),
        or(text_at(pod, &["spec", "nodeName"]), "<none>"),
        or(text_at(pod, &["status", "nominatedNodeName"]), "<none>"),
        if gates == 0 { "<none>".into() } else { format!("0/{gates}").into() },
    ]
}

fn pod_status(pod: &Value) -> String {
    let phase = text_at(pod, &["status", "phase"]);
    let reason = text_at(pod, &["status", "reason"]);
    if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
        return if reason == "NodeLost" { "Unknown".into() } else { "Terminating".into() };
    }
    let gated = list_at(pod, &["status", "conditions"]).iter().any(|condition| {
        text_at(condition, &["type"]) == "PodScheduled"
            && text_at(condition, &["reason"]) == "SchedulingGated"
    });
    if gated {
        return "SchedulingGated".into();
    }
    for status in list_at(pod, &["status", "containerStatuses"]) {
        for state in ["waiting", "terminated"] {
            let own = text_at(status, &["state", state, "reason"]);
            if !own.is_empty() {
                return own.into();
            }
        }
    }
    if reason.is_empty() { phase.into() } else { reason.into() }
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    // A node that no kubelet has reported about yet has no conditions.
    let mut states: Vec<&str> = list_at(node, &["status", "conditions"])
        .iter()
        .filter(|condition| text_at(condition, &["type"]) == "Ready")
        .map(
            |condition| {
                if text_at(condition, &["status"]) == "True" { "Ready" } else { "NotReady" }
            },
        )
        .collect();
    if states.is_empty() {
        states.push("Unknown");
    }
    if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        states.push("SchedulingDisabled");
    }
    let roles: Vec<&str> = at(node, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    let address = |wanted: &str| {
        let addresses = list_at(node, &["status", "addresses"]);
        let found = addresses.iter().find(|address| text_at(address, &["type"]) == wanted);
        or(found.map_or("", |address| text_at(address, &["address"])), "<none>")
    };
    let info = |field: &str| text_at(node, &["status", "nodeInfo", field]);
    vec![
        name(node),
        states.join(",").into(),
        or(&roles.join(","), "<none>"),
        age(node, now),
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        or(info("osImage"), "<unknown>"),
        or(info("kernelVersion"), "<unknown>"),
        or(info("containerRuntimeVersion"), "<unknown>"),
    ]
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let event_time = text_at(event, &["eventTime"]);
    let first =
        [text_at(event, &["firstTimestamp"]), event_time].into_iter().find(|text| !text.is_empty());
    let last = [
        text_at(event, &["series", "lastObservedTime"]),
        text_at(event, &["lastTimestamp"]),
        event_time,
    ]
    .into_iter()
    .find(|text| !text.is_empty());
    let count =
        int_at(event, &["series", "count"]).or_else(|| int_at(event, &["count"])).unwrap_or(1);
    let source = match text_at(event, &["source", "component"]) {
        "" => text_at(event, &["reportingComponent"]),
        component => component,
    };
    let host = text_at(event, &["source", "host"]);
    let source = if host.is_empty() { source.to_owned() } else { format!("{source}, {host}") };
    let object = format!(
        "{}/{}",
        text_at(event, &["involvedObject", "kind"]).to_ascii_lowercase(),
        text_at(event, &["involvedObject", "name"])
    );
    vec![
        age::since(last.unwrap_or_default(), now).into(),
        text_at(event, &["type"]).into(),
        text_at(event, &["reason"]).into(),
        object.into(),
        text_at(event, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        text_at(event, &["message"]).trim().into(),
        age::since(first.unwrap_or_default(), now).into(),
        count.to_string().into(),
        name(event),
    ]
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list_at(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = int_at(port, &["port"]).unwrap_or(0);
            let protocol = text_at(port, &["protocol"]);
            match int_at(port, &["nodePort"]) {
                Some(node_port) => format!("{number}:{node_port}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        name(service),
        text_at(service, &["spec", "type"]).into(),
        or(text_at(service, &["spec", "clusterIP"]), "None"),
        "<none>".into(),
        or(&ports.join(","), "<none>"),
        age(service, now),
        labels_text(at(service, &["spec", "selector"])).into(),
    ]
}
