//! The scheduler's state after a step in the form of a recording, taken from the engine.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::Engine;
use kube_scheduler_queue::Place;
use serde_json::{Map, Value, json};

/// The engine's state in the form of `after`.
pub(super) fn state(engine: &Engine, start: Timestamp) -> Value {
    let mut after = json!({"queue": queue(engine, start)});
    let mut add = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if !is_empty {
            after[name] = value;
        }
    };
    add("nominated", nominated(engine));
    add("groups", groups(engine));
    let in_flight = engine.queue().in_flight_pods();
    add("inFlight", in_flight.map(|entry| json!(entry.0.key())).collect());
    after
}

fn queue(engine: &Engine, start: Timestamp) -> Value {
    let queue = engine.queue();
    let mut pods = Map::new();
    for (place, pod) in queue.pending_pods() {
        let name = match place {
            Place::Active => "active",
            Place::Backoff => "backoff",
            Place::ErrorBackoff => "errorBackoff",
            Place::Unschedulable => "unschedulable",
        };
        let mut entry = json!({
            "queue": name,
            "attempts": pod.attempts(),
            "unschedulableCount": pod.unschedulable_count(),
            "consecutiveErrors": pod.consecutive_errors(),
        });
        if let Some(plugin) = pod.gated_by() {
            entry["gatedBy"] = queue.plugin_name(plugin).into();
        }
        let mut rejectors: Vec<&str> =
            pod.rejectors().iter().map(|plugin| queue.plugin_name(plugin)).collect();
        if !rejectors.is_empty() {
            rejectors.sort_unstable();
            entry["rejectors"] = json!(rejectors);
        }
        if matches!(place, Place::Backoff | Place::ErrorBackoff) {
            let end = queue.backoff_end(pod).unwrap_or(start);
            entry["backoffUntilMs"] = json!((end.as_nanos() - start.as_nanos()) / 1_000_000);
        }
        pods.insert(pod.entry().0.key().to_string(), entry);
    }
    Value::Object(pods)
}

/// The reference can be asked for nominations node by node only, so a recording says nothing of those to nodes that are
/// gone; they stay until the pod is tried again (`docs/spec/queue.md` §10).
fn nominated(engine: &Engine) -> Value {
    let mut pods = Map::new();
    let nominations = engine.queue().nominations();
    for (node, nominees) in
        nominations.filter(|(node, _)| engine.cluster().node_idx(node).is_some())
    {
        for nominee in nominees {
            let key = format!("{}/{}", nominee.namespace, nominee.name);
            pods.insert(key, json!(&**node));
        }
    }
    Value::Object(pods)
}

/// How many pods of each group the engine knows, and where they are.
fn groups(engine: &Engine) -> Value {
    let cluster = engine.cluster();
    let mut groups = Map::new();
    for pod in engine.known_pods() {
        let Some(name) = &pod.spec.pod_group else { continue };
        let Some(group) = cluster.pod_group(&pod.namespace, name) else { continue };
        let counts = json!({
            "all": group.n_known(),
            "unscheduled": group.n_unscheduled(),
            "assumed": group.n_assumed(),
            "assigned": group.n_assigned(),
        });
        groups.insert(format!("{}/{name}", pod.namespace), counts);
    }
    if cluster.n_pod_groups() != groups.len() {
        groups.insert(
            "groups without known pods".to_owned(),
            json!(cluster.n_pod_groups() - groups.len()),
        );
    }
    Value::Object(groups)
}
