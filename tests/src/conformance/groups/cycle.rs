//! One cycle of the scheduler, its writes and the bindings after it.

use std::collections::VecDeque;

use anyhow::Result;
use kube_scheduler_engine::{Effect, EvictionOutcome, Input, ObjectRef, PodRef, StatusPatch};
use kube_scheduler_framework::{ApiError, ObjectKey, ObjectWrite};
use serde_json::{Value, json};

use super::api::Key;
use super::compare::difference_by_object;
use super::record::StepRecorder;
use super::{History, text};

/// What a cycle or an eviction wrote and reported.
#[derive(Debug, Default)]
pub(super) struct CycleOutcome {
    writes: Vec<Value>,
    events: Vec<Value>,
    bindings: VecDeque<Effect>,
}

impl CycleOutcome {
    /// What differs from the recording; the order counts for each object alone.
    pub(super) fn difference(&self, expect: &Value) -> Option<String> {
        // Which binding comes first is free, and with it which of the pods starts first.
        let writes = without("startTime", &expect["writes"]);
        difference_by_object("writes", "name", &self.writes, &writes).or_else(|| {
            difference_by_object("events", "regarding", &self.events, &expect["events"])
        })
    }
}

/// Recorded entries without what is not compared.
fn without(field: &str, entries: &Value) -> Value {
    let mut entries = entries.clone();
    for entry in entries.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove(field);
    }
    entries
}

/// The objects of recorded writes, in order.
pub(super) fn keys(writes: &Value) -> impl Iterator<Item = Key> + '_ {
    writes.as_array().into_iter().flatten().map(|write| {
        let kind = if write["op"] == "podGroupStatus" { "PodGroup" } else { "Pod" };
        (kind.to_owned(), text(&write["name"]).to_owned())
    })
}

impl History {
    /// Runs one cycle and the bindings that it started.
    pub(super) fn cycle(&mut self, expect: &Value) -> Result<Option<String>> {
        for write in expect["writes"].as_array().into_iter().flatten() {
            if let Some(start) = write["startTime"].as_str() {
                self.starts.insert(text(&write["name"]).to_owned(), start.to_owned());
            }
        }
        let mut seen = StepRecorder::default();
        let turn = self.engine.schedule_next_observed(&mut seen, self.now);
        let mut carried = CycleOutcome::default();
        self.carry_out_all(&mut carried, self.is_async)?;
        while let Some(binding) = carried.bindings.pop_front() {
            self.carry_out(binding, &mut carried)?;
            self.carry_out_all(&mut carried, self.is_async)?;
        }
        let difference = seen.difference(turn.as_ref(), expect);
        let writes = self.writes_differ(&carried, expect);
        Ok(difference.or(writes))
    }

    /// Carries out what the engine wants until it wants nothing more. Bindings wait in `carried`, and what preemptions want
    /// hangs until it `is_evicted`.
    pub(super) fn carry_out_all(&mut self, carried: &mut CycleOutcome, hangs: bool) -> Result<()> {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                match effect {
                    Effect::WriteBinding { .. } => carried.bindings.push_back(effect),
                    Effect::EvictPod { .. } | Effect::ClearNomination { .. } if hangs => {
                        self.hanging.push(effect);
                    }
                    _ => self.carry_out(effect, carried)?,
                }
            }
        }
    }

    /// Carries out one effect and gives its answer.
    pub(super) fn carry_out(&mut self, effect: Effect, carried: &mut CycleOutcome) -> Result<()> {
        match effect {
            Effect::WriteBinding { token, pod, node } => {
                let result = if self.has(&pod) {
                    let name = pod.to_string();
                    let start = self.starts.remove(&name);
                    let start = start.unwrap_or_else(|| self.now.to_string());
                    self.api.bind(&name, &node, &start, self.now)?;
                    let write = json!({"op": "bind", "name": name, "node": *node});
                    carried.writes.push(write);
                    Ok(())
                } else {
                    Err(ApiError::new("NotFound", format!("pods \"{}\" not found", pod.name)))
                };
                self.handle(Input::BindingWritten { token, result });
            }
            Effect::PatchStatus { pod, patch, .. } => self.patch(&pod, &patch, carried)?,
            Effect::RecordEvent { pod, kind, reason, action, note, related, .. } => {
                let mut event = json!({
                    "regarding": format!("Pod {pod}"), "type": kind.as_str(), "reason": reason, "action": action,
                    "note": note,
                });
                if let Some(object) = related {
                    let ObjectRef { kind, namespace, name, .. } = &*object;
                    event["related"] = format!("{kind} {namespace}/{name}").into();
                }
                carried.events.push(event);
            }
            Effect::EvictPod { token, pod, patch } => {
                let outcome = if self.has(&pod) {
                    if let Some(patch) = patch {
                        self.patch(&pod, &patch, carried)?;
                    }
                    let name = pod.to_string();
                    let is_gone = self.api.delete_pod(&name, self.now)?;
                    carried.writes.push(json!({"op": "deletePod", "name": name, "gone": is_gone}));
                    EvictionOutcome::Deleted
                } else {
                    EvictionOutcome::AlreadyGone
                };
                self.handle(Input::PodEvicted { token, result: Ok(outcome) });
            }
            Effect::ClearNomination { token, pod } => {
                self.patch(&pod, &StatusPatch::NO_NOMINATION, carried)?;
                self.handle(Input::NominationCleared { token, result: Ok(()) });
            }
            Effect::WriteObject {
                write: ObjectWrite::PatchStatus { object, patch, .. }, ..
            } if *object.kind == *"PodGroup" => {
                self.patch_group(&object, &patch, carried)?;
            }
            other => anyhow::bail!("unknown effect {other}"),
        }
        Ok(())
    }

    /// Sets the condition of a group, of which the patch has exactly one.
    fn patch_group(
        &mut self,
        key: &ObjectKey,
        patch: &Value,
        out: &mut CycleOutcome,
    ) -> Result<()> {
        let [condition] = patch["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice)
        else {
            anyhow::bail!("the patch {patch} of {} does not set one condition", key.name);
        };
        let mut condition = condition.clone();
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastTransitionTime");
            if fields.get("message").is_some_and(|message| message == "") {
                fields.remove("message");
            }
        }
        let name = format!("{}/{}", key.namespace, key.name);
        let write = json!({"op": "podGroupStatus", "name": name, "condition": condition});
        // The group may be gone by now: then there is nothing to write.
        if self.api.has_group(&name) {
            self.api.write_group_status(&write, self.now)?;
            out.writes.push(write);
        }
        Ok(())
    }

    fn has(&self, pod: &PodRef) -> bool {
        self.api.has_pod(&pod.to_string(), &pod.uid)
    }

    fn patch(
        &mut self,
        pod: &PodRef,
        patch: &StatusPatch,
        carried: &mut CycleOutcome,
    ) -> Result<()> {
        if !self.has(pod) {
            return Ok(());
        }
        let mut write = json!({"op": "podStatus", "name": pod.to_string()});
        if let Some(condition) = &patch.condition {
            write["condition"] = json!({
                "type": *condition.kind, "status": *condition.status, "reason": *condition.reason,
            });
            if !condition.message.is_empty() {
                write["condition"]["message"] = json!(*condition.message);
            }
            write["condition"]["observedGeneration"] = json!(condition.observed_generation);
        }
        if let Some(node) = &patch.nominated_node_name {
            write["nominatedNodeName"] = json!(node.as_deref().unwrap_or_default());
        }
        // The recording names what a write changed, so nothing of one that repeats another which is not delivered yet.
        let write = self.api.write_pod_status(write, self.now)?;
        carried.writes.push(write);
        Ok(())
    }
}
