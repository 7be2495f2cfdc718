//! Recorded operation sequences of the reference: after every operation every queued pod must be where it was there.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventResource, HintId, Place, ProfileSpec, QueueSettings, QueuedPod,
    QueueingHint,
};
use serde_json::{Map, Value, json};

use crate::toy::{Hint, Object, Pod, World};

const START_MILLIS: i64 = 1_000_000_000;

#[test]
fn every_recorded_sequence_is_followed() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/conformance/queue.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut n_ops = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        for has_sort_keys in [false, true] {
            n_ops += replay(&case, has_sort_keys);
        }
    }
    assert!(n_ops > 10_000, "only {n_ops} operations");
}

fn ok(object: Option<&Object>) -> Result<QueueingHint, String> {
    Ok(if object == Some(&Object::Thing(1)) { QueueingHint::Queue } else { QueueingHint::Skip })
}

fn world() -> World {
    let event = |resource: &str, action| ClusterEvent::new(EventResource::parse(resource), action);
    let ungated: Hint = |pod, _, new| match new {
        Some(Object::Pod(new)) if new.0.uid == pod.0.uid && !new.0.gates.is_empty() => {
            Ok(QueueingHint::Skip)
        }
        _ => Ok(QueueingHint::Queue),
    };
    let hints: [Hint; 5] = [
        ungated,
        |_, _, new| ok(new),
        |_, old, _| ok(old),
        |_, _, _| Ok(QueueingHint::Queue),
        |_, _, _| Err("no idea".to_owned()),
    ];
    let profile = ProfileSpec::new("s")
        .with_pre_enqueue("Gate")
        .with_events("Gate", [(event("Pod", ActionType::UPDATE_POD_LABEL), Some(HintId(0)))])
        .with_events(
            "Fit",
            [
                (
                    event("Node", ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE),
                    Some(HintId(1)),
                ),
                (event("AssignedPod", ActionType::DELETE), Some(HintId(2))),
            ],
        )
        .with_events("Any", [(event("Node", ActionType::ADD), Some(HintId(3)))])
        .with_events("Err", [(event("Node", ActionType::ADD), Some(HintId(4)))])
        .with_events("Pend", [(event("PersistentVolumeClaim", ActionType::ADD), Some(HintId(3)))])
        .with_events("None", []);
    World::new(QueueSettings::default(), vec![profile], &hints)
}

fn action(name: &str) -> ActionType {
    let known = [ActionType::ADD, ActionType::DELETE, ActionType::UPDATE_NODE_ALLOCATABLE];
    known.into_iter().find(|action| action.name() == name).unwrap()
}

fn replay(case: &Value, has_sort_keys: bool) -> usize {
    let mut world = world();
    world.policy.has_sort_keys = has_sort_keys;
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    let mut popped: BTreeMap<String, QueuedPod<Pod>> = BTreeMap::new();
    let ops = case["ops"].as_array().unwrap();
    for (at, op) in ops.iter().enumerate() {
        let name = op["pod"].as_str().unwrap_or_default();
        match op["op"].as_str().unwrap() {
            "add" => {
                let gates: &[&str] = if op["labels"]["gate"] == "on" { &["Gate"] } else { &[] };
                let priority = i32::try_from(op["priority"].as_i64().unwrap()).unwrap();
                let pod = Pod::new(name).priority(priority).gated_by(gates);
                pods.insert(name.to_owned(), pod.clone());
                world.add(&pod);
            }
            "pop" => {
                let pod = world.pop().unwrap();
                assert_eq!(pod.entry().0.name, op["popped"], "{} op {at}", case["name"]);
                popped.insert(pod.entry().0.name.clone(), pod);
            }
            "fail" => {
                let pod = popped.remove(name).unwrap();
                let names = |key: &str| op[key].as_array().cloned().unwrap_or_default();
                let plugins: Vec<String> = names("unschedulablePlugins")
                    .iter()
                    .map(|plugin| plugin.as_str().unwrap().to_owned())
                    .chain(
                        names("pendingPlugins")
                            .iter()
                            .map(|plugin| format!("?{}", plugin.as_str().unwrap())),
                    )
                    .collect();
                world.fail(pod, &plugins.iter().map(String::as_str).collect::<Vec<_>>());
            }
            "bound" => {
                popped.remove(name);
                world.queue.done(&Pod::new(name).0.uid);
            }
            "event" => {
                let event = ClusterEvent::new(
                    EventResource::parse(op["resource"].as_str().unwrap()),
                    action(op["action"].as_str().unwrap()),
                );
                let object = Object::Thing(u32::from(op["ok"].as_bool() == Some(true)));
                let (old, new) = match event.action() {
                    ActionType::DELETE => (Some(&object), None),
                    _ => (None, Some(&object)),
                };
                world.queue.move_all(&event, old, new, world.now, &mut world.policy);
            }
            "advance" => world.advance(op["ms"].as_i64().unwrap()),
            "flushBackoff" => {
                world.flush_backoff();
            }
            "flushUnschedulable" => world.flush_leftover(),
            "activate" => {
                world.activate(&[&pods[name]]);
            }
            "ungate" => {
                let new = pods[name].gated_by(&[]);
                let old = pods.insert(name.to_owned(), new.clone()).unwrap();
                let changed = ClusterEvent::new(
                    EventResource::UnschedulablePod,
                    ActionType::UPDATE_POD_LABEL,
                );
                world.update(&old, &new, &[changed]);
            }
            "delete" => world.delete(&pods[name]),
            other => panic!("unknown operation {other}"),
        }
        assert_eq!(state(&world), op["after"], "{} after op {at}: {op}", case["name"]);
        world.advance(1);
    }
    ops.len()
}

/// The queue in the form of the recorded data.
fn state(world: &World) -> Value {
    let mut pods = Map::new();
    for (place, pod) in world.queue.pending_pods() {
        let queue = match place {
            Place::Active => "active",
            Place::Backoff => "backoff",
            Place::ErrorBackoff => "errorBackoff",
            Place::Unschedulable => "unschedulable",
        };
        let mut state = json!({
            "queue": queue,
            "attempts": pod.attempts(),
            "unschedulableCount": pod.unschedulable_count(),
            "consecutiveErrors": pod.consecutive_errors(),
        });
        if pod.is_gated() {
            state["gated"] = true.into();
        }
        if matches!(place, Place::Backoff | Place::ErrorBackoff) {
            let end = world.queue.backoff_end(pod).unwrap();
            state["backoffUntilMs"] = (end.as_nanos() / 1_000_000 - START_MILLIS).into();
        }
        pods.insert(pod.entry().0.name.clone(), state);
    }
    Value::Object(pods)
}
