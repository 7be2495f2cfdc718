//! Pods of a crowd that differ by numbers, as the replicas of a StatefulSet and the pods of an indexed Job do, and selectors that are
//! about these numbers, which come and go.

use anyhow::Result;
use kube_scheduler_api_types::well_known::NUMBERING_LABELS;
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use super::kinds::{HOSTNAME, NAMESPACES, ZONE};
use crate::history::{ApiServer, Numbers};

/// Who draws the numbers of pods, if they have some.
#[derive(Debug)]
pub(super) struct PodNumbering {
    numbers: Numbers,
    are_there: bool,
}

impl PodNumbering {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x0d_001b);
        let are_there = numbers.one_in(3);
        Self { numbers, are_there }
    }

    /// Gives most pods a number, and a few of them a selector that is about numbers.
    pub(super) fn give_number(&mut self, pod: &mut Value) {
        if !self.are_there || self.numbers.one_in(5) {
            return;
        }
        let label = self.numbers.pick(&NUMBERING_LABELS);
        pod["metadata"]["labels"][label] = self.numbers.below(3).to_string().into();
        let numbers = &mut self.numbers;
        match numbers.below(90) {
            0 => {
                let side = numbers.pick(&["podAffinity", "podAntiAffinity"]);
                let term = json!({"topologyKey": numbers.pick(&[ZONE, HOSTNAME]), "labelSelector": selector(numbers)});
                push(
                    &mut pod["spec"]["affinity"][side]["requiredDuringSchedulingIgnoredDuringExecution"],
                    term,
                );
            }
            1 => {
                let side = numbers.pick(&["podAffinity", "podAntiAffinity"]);
                let term = json!({"topologyKey": ZONE, "labelSelector": selector(numbers)});
                push(
                    &mut pod["spec"]["affinity"][side]["preferredDuringSchedulingIgnoredDuringExecution"],
                    json!({"weight": 50, "podAffinityTerm": term}),
                );
            }
            2 if pod["spec"].get("topologySpreadConstraints").is_none() => {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": ZONE, "labelSelector": selector(numbers),
                    "whenUnsatisfiable": numbers.pick(&["DoNotSchedule", "ScheduleAnyway"]),
                }]);
            }
            3 if pod["spec"].get("topologySpreadConstraints").is_none() => {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchExpressions": [{"key": "color", "operator": "Exists"}]},
                    "matchLabelKeys": [label],
                }]);
            }
            _ => {}
        }
    }

    /// Services and controllers that select by number come and go, and so do pods that look at numbers.
    pub(super) fn step(&mut self, server: &mut ApiServer) -> Result<Option<Input>> {
        if !self.are_there {
            return Ok(None);
        }
        let namespace = self.numbers.pick(&NAMESPACES);
        let label = self.numbers.pick(&NUMBERING_LABELS);
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": namespace, "name": "of-one"}, "spec": {"selector": {label: "1"}}});
        match self.numbers.below(60) {
            0 => server.put_object(service).map(Some),
            1 | 2 => server.delete_object(&service),
            3 => {
                let selector = selector(&mut self.numbers);
                let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "metadata": {"namespace": namespace, "name": "set", "uid": "set"}, "spec": {"selector": selector}});
                server.put_object(set).map(Some)
            }
            4 => {
                let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "metadata": {"namespace": namespace, "name": "set", "uid": "set"}, "spec": {}});
                server.delete_object(&set)
            }
            5..=10 => {
                let mut pods = server.pods.iter();
                let found = pods.find(|(_, pod)| looks_at_numbers(pod)).map(|(key, _)| key.clone());
                Ok(found.and_then(|key| server.delete_pod(&key)))
            }
            _ => Ok(None),
        }
    }
}

/// Adds to a list, which may not be there yet.
fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn selector(numbers: &mut Numbers) -> Value {
    let label = numbers.pick(&NUMBERING_LABELS);
    match numbers.below(4) {
        0 => json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]}),
        1 => json!({"matchExpressions": [{"key": label, "operator": "NotIn", "values": ["0"]}]}),
        _ => json!({"matchLabels": {label: "1"}}),
    }
}

fn looks_at_numbers(pod: &Value) -> bool {
    let spec = pod["spec"].to_string();
    NUMBERING_LABELS.iter().any(|label| spec.contains(label))
}
