//! Random objects in both forms: the scheduler must read the same from either.

use kube_scheduler_api_types::{Node, Pod};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::schema::{MessageField, Shape, Type, fields_of};
use super::{decode, encode};
use crate::rng::SplitMix;

struct Rng(SplitMix);

impl Rng {
    fn seeded(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}

/// A random message. `left` bounds how deep lists and optional messages still go.
fn random(rng: &mut Rng, message: &str, left: u32) -> Map<String, Value> {
    let mut object = Map::new();
    fill(rng, message, left, &mut object);
    object
}

fn fill(rng: &mut Rng, message: &str, left: u32, object: &mut Map<String, Value>) {
    let fields = fields_of(message);
    // A volume has one source.
    let only = (message == "VolumeSource").then(|| rng.below(fields.len() as u64));
    for (at, schema) in fields.iter().enumerate() {
        if only.is_some_and(|only| only != at as u64) {
            continue;
        }
        if let (true, Type::Message(message)) = (schema.is_inline, schema.of) {
            fill(rng, message, left, object);
            continue;
        }
        let is_wanted = only.is_some() || rng.below(3) > 0 && left > 0;
        match schema.shape {
            Shape::One => {
                let is_message = matches!(schema.of, Type::Message(_));
                let is_there = is_wanted || !schema.is_given && (is_message || schema.is_always);
                if is_there {
                    put_one(rng, schema, left, object);
                } else if schema.is_given && schema.is_always {
                    object.insert(schema.name.to_owned(), Value::Null);
                }
            }
            Shape::List => {
                let n = if is_wanted { rng.below(3) } else { 0 };
                let list: Vec<_> = (0..n).map(|_| value(rng, schema, left)).collect();
                if !list.is_empty() {
                    object.insert(schema.name.to_owned(), list.into());
                } else if schema.is_always {
                    object.insert(schema.name.to_owned(), Value::Null);
                }
            }
            Shape::Map => {
                let n = if is_wanted { rng.below(4) } else { 0 };
                let map: Map<_, _> =
                    (0..n).map(|_| (pick(rng, &KEYS), value(rng, schema, left))).collect();
                if !map.is_empty() {
                    object.insert(schema.name.to_owned(), map.into());
                }
            }
        }
    }
}

/// JSON leaves out what is empty, with exceptions.
fn put_one(rng: &mut Rng, schema: &MessageField, left: u32, object: &mut Map<String, Value>) {
    let value = value(rng, schema, left);
    let is_empty = value == "" || value == 0 || value == false;
    if !is_empty || schema.is_given || schema.is_always {
        object.insert(schema.name.to_owned(), value);
    }
}

const KEYS: [&str; 9] = [
    "app",
    "cpu",
    "memory",
    "example.com/gpu",
    "topology.kubernetes.io/zone",
    "pods",
    "é",
    "hugepages-2Mi",
    "ephemeral-storage",
];
const TEXTS: [&str; 20] = [
    "",
    "a",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "NoSchedule",
    "NoExecute",
    "Always",
    "Never",
    "DoNotSchedule",
    "Honor",
    "default",
    "RestartAllContainers",
    "5",
    "registry.k8s.io/pause:3.10",
    "ü \"quoted\" \\ text",
    "Pending",
];
const QUANTITIES: [&str; 9] = ["0", "1", "100m", "500Mi", "1500m", "2e3", "1Gi", "110", "0.5"];
const TIMES: [&str; 4] = [
    "2026-01-02T03:04:05Z",
    "1970-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
];

fn pick(rng: &mut Rng, from: &[&str]) -> String {
    from[rng.below(from.len() as u64) as usize].to_owned()
}

fn value(rng: &mut Rng, schema: &MessageField, left: u32) -> Value {
    match schema.of {
        Type::Text => pick(rng, &TEXTS).into(),
        Type::Int => [0, 1, -1, 80, 2_147_483_647][rng.below(5) as usize].into(),
        Type::Bool => (rng.below(2) == 0).into(),
        Type::Quantity => pick(rng, &QUANTITIES).into(),
        Type::Time if !schema.is_given && rng.below(3) == 0 => Value::Null,
        Type::Time => pick(rng, &TIMES).into(),
        Type::MicroTime => "2026-01-02T03:04:05.000006Z".into(),
        Type::IntOrString if rng.below(2) == 0 => 8080.into(),
        Type::IntOrString => pick(rng, &["http", "25%"]).into(),
        Type::Json => serde_json::json!({"f:spec": {}}),
        Type::Bytes => pick(rng, &["", "AA==", "c2VjcmV0"]).into(),
        Type::Texts => serde_json::json!([pick(rng, &TEXTS)]),
        Type::Message(message) => random(rng, message, left.saturating_sub(1)).into(),
    }
}

/// Bytes with some of them changed, and perhaps cut off.
fn broken(rng: &mut Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = rng.below(256) as u8;
        }
    }
    if rng.below(2) == 0 {
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn pods_are_the_same_in_both_forms(seed: u64, depth in 1_u32..8) {
        let pod = Value::from(random(&mut Rng::seeded(seed), "Pod", depth));
        let bytes = encode::message("Pod", &pod);
        let (json, protobuf) = (Pod::from_json(pod.to_string()), Pod::from_protobuf(&bytes));
        prop_assert_eq!(protobuf.unwrap(), json.unwrap(), "{}", pod);
    }

    #[test]
    fn nodes_are_the_same_in_both_forms(seed: u64, depth in 1_u32..6) {
        let node = Value::from(random(&mut Rng::seeded(seed), "Node", depth));
        let bytes = encode::message("Node", &node);
        let (json, protobuf) = (Node::from_json(node.to_string()), Node::from_protobuf(&bytes));
        prop_assert_eq!(protobuf.unwrap(), json.unwrap(), "{}", node);
    }

    #[test]
    fn what_is_written_is_read_again(seed: u64, depth in 1_u32..6) {
        for message in ["Pod", "Node", "Binding", "events.Event", "Deployment", "Secret", "CronJob", "resource.ResourceClaim"] {
            let object = Value::from(random(&mut Rng::seeded(seed), message, depth));
            let bytes = encode::message(message, &object);
            let again = encode::message(message, &decode::message(message, &bytes).unwrap());
            prop_assert_eq!(again, bytes, "{}", object);
        }
    }

    #[test]
    fn broken_bytes_cause_no_panic(seed: u64, depth in 1_u32..6) {
        let mut rng = Rng::seeded(seed);
        let pod = Value::from(random(&mut rng, "Pod", depth));
        let bytes = broken(&mut rng, encode::message("Pod", &pod));
        drop((Pod::from_protobuf(&bytes), decode::message("Pod", &bytes)));
        let node = Value::from(random(&mut rng, "Node", depth));
        let bytes = broken(&mut rng, encode::message("Node", &node));
        drop((Node::from_protobuf(&bytes), decode::message("Node", &bytes)));
    }
}
