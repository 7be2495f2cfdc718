//! The API server of a history: what a write changes in it, and the watch events that the scheduler has not seen yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use super::super::decisions::with_type;
use super::super::text;

/// Kind and `namespace/name`; nodes have a name alone.
pub(super) type Key = (String, String);

/// A change that is stored but not delivered.
#[derive(Debug)]
struct Unseen {
    key: Key,
    event: Input,
}

/// Everything that exists.
#[derive(Debug)]
pub(super) struct Api {
    revision: u64,
    objects: BTreeMap<Key, Value>,
    unseen: Vec<Unseen>,
}

impl Api {
    /// An empty cluster.
    pub(super) fn new() -> Self {
        Self { revision: 100_000, objects: BTreeMap::new(), unseen: Vec::new() }
    }

    /// Stores an object; its watch event is to be handled at once.
    pub(super) fn put(&mut self, kind: &str, object: &Value) -> Result<Input> {
        self.revision += 1;
        self.objects.insert(key_of(kind, object), object.clone());
        event(kind, object)
    }

    /// Removes an object; its watch event is to be handled at once.
    pub(super) fn delete(&mut self, kind: &str, name: &str) -> Result<Input> {
        let key = (kind.to_owned(), name.to_owned());
        let object = self.objects.remove(&key).with_context(|| format!("no {kind} {name}"))?;
        gone(kind, &object)
    }

    /// Whether a pod with this identity exists.
    pub(super) fn has_pod(&self, name: &str, uid: &str) -> bool {
        let pod = self.objects.get(&("Pod".to_owned(), name.to_owned()));
        pod.is_some_and(|pod| text(&pod["metadata"]["uid"]) == uid)
    }

    /// Whether a pod group of this name exists.
    pub(super) fn has_group(&self, name: &str) -> bool {
        self.objects.contains_key(&("PodGroup".to_owned(), name.to_owned()))
    }

    /// Sets a condition or the nomination of a pod. Both are given as in the recording's `podStatus`; returned is what of it
    /// was news.
    pub(super) fn write_pod_status(&mut self, mut write: Value, now: Timestamp) -> Result<Value> {
        let name = text(&write["name"]).to_owned();
        self.change("Pod", &name, |pod| {
            if has_condition(pod, &write["condition"]) {
                write.as_object_mut().map(|write| write.remove("condition"));
            }
            set_condition(pod, &write["condition"], now);
            match write["nominatedNodeName"].as_str() {
                Some("") => {
                    pod["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
                }
                Some(node) => pod["status"]["nominatedNodeName"] = node.into(),
                None => {}
            }
        })?;
        Ok(write)
    }

    /// Sets a condition of a pod group, as in the recording's `podGroupStatus`.
    pub(super) fn write_group_status(&mut self, write: &Value, now: Timestamp) -> Result<()> {
        self.change("PodGroup", text(&write["name"]), |group| {
            set_condition(group, &write["condition"], now);
        })
    }

    /// Binds a pod, which starts to run at `start`.
    pub(super) fn bind(
        &mut self,
        name: &str,
        node: &str,
        start: &str,
        now: Timestamp,
    ) -> Result<()> {
        self.change("Pod", name, |pod| {
            pod["spec"]["nodeName"] = node.into();
            set_condition(pod, &json!({"type": "PodScheduled", "status": "True"}), now);
            pod["status"].as_object_mut().map(|status| status.remove("nominatedNodeName"));
            pod["status"]["phase"] = "Running".into();
            pod["status"]["startTime"] = start.into();
        })
    }

    /// Deletes a pod as a client would. True when it is gone at once.
    pub(super) fn delete_pod(&mut self, name: &str, now: Timestamp) -> Result<bool> {
        let key = ("Pod".to_owned(), name.to_owned());
        let pod = self.objects.get(&key).with_context(|| format!("no pod {name}"))?;
        let is_gone = pod["spec"]["terminationGracePeriodSeconds"] == 0;
        if is_gone {
            self.revision += 1;
            let event = gone("Pod", pod)?;
            self.objects.remove(&key);
            self.unseen.push(Unseen { key, event });
        } else {
            let at = whole_seconds(now);
            self.change("Pod", name, |pod| pod["metadata"]["deletionTimestamp"] = at.into())?;
        }
        Ok(is_gone)
    }

    /// The watch events of all writes since the last call, in the order of `writes` where they are about different objects.
    pub(super) fn take_unseen(&mut self, writes: &[Key]) -> Vec<Input> {
        let mut events = Vec::new();
        for key in writes {
            if let Some(at) = self.unseen.iter().position(|unseen| unseen.key == *key) {
                events.push(self.unseen.remove(at).event);
            }
        }
        events.extend(std::mem::take(&mut self.unseen).into_iter().map(|unseen| unseen.event));
        events
    }

    fn change(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let key = (kind.to_owned(), name.to_owned());
        let object = self.objects.get_mut(&key).with_context(|| format!("no {kind} {name}"))?;
        self.revision += 1;
        change(object);
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let event = event(kind, object)?;
        self.unseen.push(Unseen { key, event });
        Ok(())
    }
}

/// A time as a condition has it.
fn whole_seconds(now: Timestamp) -> String {
    let nanos = now.as_nanos();
    Timestamp::from_nanos(nanos - nanos.rem_euclid(1_000_000_000)).to_string()
}

fn key_of(kind: &str, object: &Value) -> Key {
    let (namespace, name) =
        (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let name = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    (kind.to_owned(), name)
}

fn event(kind: &str, object: &Value) -> Result<Input> {
    Ok(match kind {
        "Node" => Input::NodeApplied(Arc::new(Node::from_value(object)?)),
        "Pod" => Input::PodApplied(Arc::new(Pod::from_value(object)?)),
        _ => Input::ObjectApplied(Arc::new(typed(kind, object)?)),
    })
}

fn gone(kind: &str, object: &Value) -> Result<Input> {
    let metadata = &object["metadata"];
    Ok(match kind {
        "Node" => Input::NodeDeleted { name: text(&metadata["name"]).into() },
        "Pod" => Input::PodDeleted {
            namespace: text(&metadata["namespace"]).into(),
            name: text(&metadata["name"]).into(),
        },
        _ => Input::ObjectDeleted(Arc::new(typed(kind, object)?)),
    })
}

/// An object of a kind that is neither pod nor node.
fn typed(kind: &str, object: &Value) -> Result<Object> {
    let list = match kind {
        "PodGroup" => "podGroups",
        "Namespace" => "namespaces",
        "Service" => "services",
        "PodDisruptionBudget" => "podDisruptionBudgets",
        other => anyhow::bail!("unknown kind {other:?}"),
    };
    Ok(Object::from_value(with_type(list, object)?)?)
}

/// Whether an object has this very condition, whenever it came.
fn has_condition(object: &Value, condition: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|known| {
        let mut known = known.clone();
        known.as_object_mut().map(|known| known.remove("lastTransitionTime"));
        known == *condition
    })
}

/// Sets a condition by its type; its time changes with its status only.
fn set_condition(object: &mut Value, condition: &Value, now: Timestamp) {
    if condition.is_null() {
        return;
    }
    let mut condition = condition.clone();
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    let before = conditions.iter_mut().find(|before| before["type"] == condition["type"]);
    let changed = before.as_ref().is_none_or(|before| before["status"] != condition["status"]);
    condition["lastTransitionTime"] = match &before {
        Some(before) if !changed => before["lastTransitionTime"].clone(),
        _ => whole_seconds(now).into(),
    };
    match before {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}
