//! The steps of a cycle as an observer sees them, in the form of the recording.

use std::sync::Arc;

use kube_scheduler_engine::{
    AttemptResult, GroupReport, GroupTurn, MemberAttempt, NodeScores, Observer, PlacementAttempt,
    PodRef, SearchStep, Turn,
};
use kube_scheduler_framework::Status;
use serde_json::{Map, Value, json};

use super::compare::difference;
use super::text;

/// Notes the steps that a cycle reports.
#[derive(Debug, Default)]
pub(super) struct StepRecorder {
    /// In the order in which the searches came to it.
    scores: Vec<(String, Map<String, Value>)>,
    group: Option<GroupReport>,
    preemptions: Vec<Value>,
}

impl Observer for StepRecorder {
    fn reached(&mut self, _: &PodRef, _: SearchStep) {}

    fn wants_scores(&self) -> bool {
        true
    }

    fn scored(&mut self, pod: &PodRef, nodes: &[(Arc<str>, NodeScores)]) {
        let totals = nodes.iter().map(|(node, scores)| (node.to_string(), json!(scores.total)));
        self.scores.push((pod.to_string(), totals.collect()));
    }

    fn group_decided(&mut self, report: &GroupReport) {
        self.group = Some(report.clone());
    }

    fn preempting(&mut self, preemptor: &PodRef, target: &str, victims: &[PodRef]) {
        let kind = if target == "cluster" { "PodGroup" } else { "Pod" };
        let victims: Vec<String> = victims.iter().map(PodRef::to_string).collect();
        self.preemptions.push(json!({
            "preemptor": format!("{kind} {preemptor}"), "target": target, "victims": victims,
        }));
    }
}

impl StepRecorder {
    /// What the turn and the steps before it say against what is recorded.
    pub(super) fn difference(mut self, turn: Option<&Turn>, expect: &Value) -> Option<String> {
        let Some(turn) = turn else {
            let (pod, group) = (text(&expect["popped"]), text(&expect["poppedGroup"]));
            return Some(format!("nothing was tried, recorded is {pod}{group}"));
        };
        let mut is = json!({});
        match &turn.group {
            None => {
                is["popped"] = json!(turn.pod.to_string());
                is["pod"] = self.single(turn);
            }
            Some(group) => {
                is["poppedGroup"] = json!(format!("{}/{}", turn.pod.namespace, group.name));
                if let Some(report) = self.group.take() {
                    is["group"] = self.group_value(&report);
                }
            }
        }
        let failures = failures(turn);
        if !failures.is_empty() {
            is["failures"] = json!(failures);
        }
        if !self.preemptions.is_empty() {
            is["preemptions"] = json!(self.preemptions);
        }
        difference("expect", &is, &comparable(expect))
    }

    /// How the attempt at a pod without a group went.
    fn single(&mut self, turn: &Turn) -> Value {
        let name = turn.pod.to_string();
        let Some(status) = result(&turn.result) else { return Value::Null };
        let mut pod = json!({"pod": name, "status": status});
        self.add_nodes(&mut pod, &name, turn.n_feasible, turn.chosen.as_ref());
        let preemptor = format!("Pod {name}");
        if self.preemptions.iter().any(|entry| entry["preemptor"] == preemptor) {
            pod["requiresPreemption"] = true.into();
        }
        pod
    }

    fn group_value(&mut self, report: &GroupReport) -> Value {
        let members: Vec<String> = report.members.iter().map(PodRef::to_string).collect();
        let mut group = json!({
            "group": format!("{}/{}", report.namespace, report.name),
            "members": members,
            "result": status(&report.status),
        });
        if let Some(failure) = &report.placement_failure {
            group["placementStatus"] = status(failure);
        }
        let attempts: Vec<Value> =
            report.attempts.iter().map(|attempt| self.attempt(attempt)).collect();
        if !attempts.is_empty() {
            group["attempts"] = json!(attempts);
        }
        if !report.scores.is_empty() {
            let best = report.scores.iter().map(|scores| scores.total).max().unwrap_or_default();
            let (mut scores, mut names) = (Map::new(), Vec::new());
            for placement in &report.scores {
                let plugins: Map<String, Value> = placement
                    .by_plugin
                    .iter()
                    .map(|(name, score)| (name.to_string(), json!(score)))
                    .collect();
                let value = json!({"total": placement.total, "plugins": plugins});
                scores.insert(placement.placement.to_string(), value);
                if placement.total == best {
                    names.push(placement.placement.to_string());
                }
            }
            names.sort_unstable();
            group["placementScores"] = Value::Object(scores);
            group["bestPlacements"] = json!(names);
        }
        if let Some(placement) = &report.chosen {
            group["placement"] = json!(**placement);
        }
        if let Some(preemption) = &report.preemption {
            group["preemption"] = status(preemption);
        }
        if report.waits_for_preemption {
            group["waitingOnPreemption"] = true.into();
        }
        group
    }

    fn attempt(&mut self, attempt: &PlacementAttempt) -> Value {
        let members: Vec<Value> =
            attempt.members.iter().map(|member| self.member(member)).collect();
        let mut value = json!({"status": status(&attempt.status)});
        if !members.is_empty() {
            value["pods"] = json!(members);
        }
        if let Some(placement) = &attempt.placement {
            value["placement"] = json!(**placement);
            // The one of all nodes is recorded without them.
            if !placement.is_empty() {
                let mut nodes: Vec<&str> = attempt.nodes.iter().map(|node| &**node).collect();
                nodes.sort_unstable();
                value["nodes"] = json!(nodes);
            }
        }
        if attempt.waits_for_preemption {
            value["waitingOnPreemption"] = true.into();
        }
        value
    }

    fn member(&mut self, member: &MemberAttempt) -> Value {
        let name = member.pod.to_string();
        let mut value = json!({"pod": name, "status": status(&member.status)});
        self.add_nodes(&mut value, &name, member.n_feasible, member.node.as_ref());
        if let Some(permit) = member.permit.as_ref().filter(|permit| !permit.is_success()) {
            value["permit"] = status(permit);
        }
        if member.requires_preemption {
            value["requiresPreemption"] = true.into();
        }
        value
    }

    /// The nodes that fit, with their scores where there was a choice, and the chosen one.
    fn add_nodes(&mut self, value: &mut Value, pod: &str, n: usize, node: Option<&Arc<str>>) {
        if let Some(node) = node {
            value["node"] = json!(**node);
        }
        if n == 0 {
            return;
        }
        let scored = self.scores.iter().position(|(name, _)| name == pod).filter(|_| n > 1);
        let feasible: Vec<Value> = match scored {
            Some(at) => {
                let (_, scores) = self.scores.remove(at);
                let mut nodes: Vec<&String> = scores.keys().collect();
                nodes.sort_unstable();
                let nodes = nodes.into_iter().map(|node| json!(node)).collect();
                value["scores"] = Value::Object(scores);
                nodes
            }
            None => node.map(|node| json!(**node)).into_iter().collect(),
        };
        value["feasible"] = json!(feasible);
    }
}

/// The pods that were handed to failure handling, in order.
fn failures(turn: &Turn) -> Vec<Value> {
    let one = |pod: &PodRef, attempt: &AttemptResult| {
        let status = result(attempt).filter(|status| status["code"] != "Success")?;
        Some(json!({"pod": pod.to_string(), "status": status}))
    };
    match &turn.group {
        None => one(&turn.pod, &turn.result).into_iter().collect(),
        Some(GroupTurn { members, .. }) => {
            members.iter().filter_map(|(pod, result)| one(pod, result)).collect()
        }
    }
}

fn result(result: &AttemptResult) -> Option<Value> {
    Some(match result {
        AttemptResult::Skipped => return None,
        AttemptResult::Assumed(_) => json!({"code": "Success"}),
        AttemptResult::Unschedulable(message) => {
            json!({"code": "Unschedulable", "message": message})
        }
        AttemptResult::Error(message) => json!({"code": "Error", "message": message}),
    })
}

fn status(status: &Status) -> Value {
    let mut value = json!({"code": status.code().as_str()});
    let message = status.message();
    if !message.is_empty() {
        value["message"] = message.into();
    }
    value
}

/// What of a recorded cycle can be compared here. Writes and events are compared by themselves, and what failures nominate
/// shows in them and in the state afterwards. Which plugin a failure is due to shows in the queue.
fn comparable(expect: &Value) -> Value {
    let mut expect = expect.clone();
    let failures = expect.get_mut("failures").and_then(Value::as_array_mut);
    for failure in failures.into_iter().flatten() {
        if let Some(failure) = failure.as_object_mut() {
            failure.remove("nominate");
        }
    }
    if let Some(expect) = expect.as_object_mut() {
        expect.remove("writes");
        expect.remove("events");
    }
    let attempts = expect.pointer_mut("/group/attempts").and_then(Value::as_array_mut);
    for attempt in attempts.into_iter().flatten() {
        if let Some(nodes) = attempt.get_mut("nodes").and_then(Value::as_array_mut) {
            nodes.sort_by(|a, b| text(a).cmp(text(b)));
        }
        // A member that fails on the chosen node is reported without it.
        let members = attempt.get_mut("pods").and_then(Value::as_array_mut);
        for member in members.into_iter().flatten() {
            if let Some(member) = member.as_object_mut().filter(|m| m["status"]["code"] == "Error")
            {
                member.retain(|field, _| field != "feasible" && field != "scores");
            }
        }
    }
    without_plugins(&mut expect);
    expect
}

/// Takes `plugin` out of every status.
fn without_plugins(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("plugin");
            map.values_mut().for_each(without_plugins);
        }
        Value::Array(list) => list.iter_mut().for_each(without_plugins),
        _ => {}
    }
}
