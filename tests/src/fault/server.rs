//! The simulated API server: what exists, in which revision, and what happened since when.
//!
//! Invariants: revisions only grow, one for every change of anything; the history of a kind has every change since the
//! revision it was forgotten up to; a write is refused exactly where the real server refuses it (wrong UID, wrong
//! revision, a pod that has a node or is going away).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anyhow::{Result, bail};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_engine::{StatusPatch, WatchedKey};
use kube_scheduler_framework::EventObject;
use serde_json::{Value, json};

/// The kinds that schedulers follow, each by a watch of its own; those about devices come last.
pub(super) const KINDS: [&str; 12] = [
    "Pod",
    "Node",
    "Namespace",
    "Service",
    "PodDisruptionBudget",
    "StorageClass",
    "CSINode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
];
/// How many of them there are without devices.
pub(super) const N_PLAIN_KINDS: usize = 9;

/// Namespace and name.
pub(super) type Key = (String, String);

/// A write that the server did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn not_found(kind: &str, key: &Key) -> Self {
        let message = format!("{kind} {:?} not found", key.1);
        Self { code: 404, reason: "NotFound", message }
    }

    pub(super) fn conflict(message: String) -> Self {
        Self { code: 409, reason: "Conflict", message }
    }

    pub(super) fn invalid(message: &str) -> Self {
        Self { code: 422, reason: "Invalid", message: message.to_owned() }
    }
}

pub(super) type WriteResult<T> = std::result::Result<T, Refusal>;

/// One change of an object of some kind, as a watch brings it.
#[derive(Clone, Debug)]
pub(super) struct HistoryEntry {
    pub(super) revision: u64,
    pub(super) key: WatchedKey,
    /// The object as it is from then on; `None` when it is gone.
    pub(super) object: Option<EventObject>,
}

#[derive(Clone, Debug)]
struct ServerObject {
    json: Value,
    followed: EventObject,
    is_selected: bool,
}

/// All objects of one kind.
#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<Key, ServerObject>,
    history: VecDeque<HistoryEntry>,
    /// Watches cannot begin before this revision.
    forgotten_to: u64,
}

/// Everything that is stored.
#[derive(Debug)]
pub(super) struct Server {
    revision: u64,
    shelves: Vec<Shelf>,
    /// Whether a binding takes the pod's nomination away, as newer servers do.
    pub(super) clears_nominations: bool,
}

impl Server {
    pub(super) fn new(clears_nominations: bool) -> Self {
        let shelves = KINDS.iter().map(|_| Shelf::default()).collect();
        Self { revision: 0, shelves, clears_nominations }
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    fn shelf(&self, kind: &str) -> Option<&Shelf> {
        self.shelves.get(KINDS.iter().position(|known| *known == kind)?)
    }

    fn shelf_mut(&mut self, kind: &str) -> Option<&mut Shelf> {
        self.shelves.get_mut(KINDS.iter().position(|known| *known == kind)?)
    }

    /// Stores an object, new or in place of what is there.
    pub(super) fn put(&mut self, kind: &str, mut json: Value) -> Result<EventObject> {
        self.revision += 1;
        json["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let revision = self.revision;
        let followed = match kind {
            "Pod" => EventObject::Pod(Arc::new(Pod::from_value(&json)?)),
            "Node" => EventObject::Node(Arc::new(Node::from_value(&json)?)),
            _ => EventObject::Other(Arc::new(Object::from_value(json.clone())?)),
        };
        let Some(shelf) = self.shelf_mut(kind) else { bail!("kind {kind} is not simulated") };
        let is_selected = !matches!(json["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let stored = ServerObject { followed: followed.clone(), is_selected, json };
        let before = shelf.objects.insert(key_of(&stored.json), stored);
        let was_selected = before.is_some_and(|before| before.is_selected);
        let key = followed.key();
        if is_selected {
            let object = Some(followed.clone());
            shelf.history.push_back(HistoryEntry { revision, key, object });
        } else if was_selected {
            shelf.history.push_back(HistoryEntry { revision, key, object: None });
        }
        Ok(followed)
    }

    /// Removes an object; false if there is none.
    pub(super) fn delete(&mut self, kind: &str, key: &Key) -> bool {
        let revision = self.revision + 1;
        let Some(shelf) = self.shelf_mut(kind) else { return false };
        let Some(stored) = shelf.objects.remove(key) else { return false };
        if stored.is_selected {
            let key = stored.followed.key();
            shelf.history.push_back(HistoryEntry { revision, key, object: None });
        }
        self.revision = revision;
        true
    }

    /// Stores an object with the identity of the one that is there, as an update has it.
    pub(super) fn update(&mut self, kind: &str, mut json: Value) -> Result<EventObject> {
        if let Some(before) = self.get(kind, &key_of(&json))
            && !before["metadata"]["uid"].is_null()
        {
            json["metadata"]["uid"] = before["metadata"]["uid"].clone();
        }
        self.put(kind, json)
    }

    pub(super) fn get(&self, kind: &str, key: &Key) -> Option<&Value> {
        self.shelf(kind)?.objects.get(key).map(|stored| &stored.json)
    }

    /// All objects of a kind, those included that no watch shows any more.
    pub(super) fn all(&self, kind: &str) -> impl Iterator<Item = (&Key, &Value)> {
        let objects = self.shelf(kind).into_iter().flat_map(|shelf| &shelf.objects);
        objects.map(|(key, stored)| (key, &stored.json))
    }

    /// What a list shows now.
    pub(super) fn list(&self, kind: &str) -> Vec<EventObject> {
        let objects = self.shelf(kind).into_iter().flat_map(|shelf| shelf.objects.values());
        objects.filter(|stored| stored.is_selected).map(|stored| stored.followed.clone()).collect()
    }

    /// The first change of a kind after a revision. `Err` if that is forgotten.
    pub(super) fn next_after(
        &self,
        kind: &str,
        revision: u64,
    ) -> std::result::Result<Option<&HistoryEntry>, RevisionTooOld> {
        let Some(shelf) = self.shelf(kind) else { return Ok(None) };
        if revision < shelf.forgotten_to {
            return Err(RevisionTooOld);
        }
        let at = shelf.history.partition_point(|happened| happened.revision <= revision);
        Ok(shelf.history.get(at))
    }

    /// Forgets what happened to a kind up to now.
    pub(super) fn forget_history(&mut self, kind: &str) {
        let revision = self.revision;
        let Some(shelf) = self.shelf_mut(kind) else { return };
        shelf.history.clear();
        shelf.forgotten_to = revision;
    }

    /// Changes an object in place, if it exists.
    pub(super) fn change(
        &mut self,
        kind: &str,
        key: &Key,
        change: impl FnOnce(&mut Value),
    ) -> Result<bool> {
        let Some(mut json) = self.get(kind, key).cloned() else { return Ok(false) };
        change(&mut json);
        self.put(kind, json)?;
        Ok(true)
    }

    /// The binding subresource.
    pub(super) fn bind(&mut self, key: &Key, uid: &str, node: &str) -> Result<WriteResult<()>> {
        let clears_nominations = self.clears_nominations;
        let Some(pod) = self.get("Pod", key) else {
            return Ok(Err(Refusal::not_found("pods", key)));
        };
        let metadata = &pod["metadata"];
        let refused = if metadata["uid"] != *uid {
            Some(format!("Precondition failed: UID in precondition: {uid}"))
        } else if !metadata["deletionTimestamp"].is_null() {
            Some(format!("pod {} is being deleted, cannot be assigned to a host", key.1))
        } else {
            let taken = pod["spec"]["nodeName"].as_str();
            taken.map(|taken| format!("pod {} is already assigned to node {taken:?}", key.1))
        };
        if let Some(message) = refused {
            return Ok(Err(Refusal::conflict(message)));
        }
        self.change("Pod", key, |pod| {
            pod["spec"]["nodeName"] = node.into();
            if clears_nominations && pod["status"]["nominatedNodeName"].is_string() {
                pod["status"]["nominatedNodeName"] = Value::Null;
            }
            set_condition(pod, &json!({"type": "PodScheduled", "status": "True"}));
        })?;
        Ok(Ok(()))
    }

    /// A patch of a pod's status; it finds the pod by its name alone.
    pub(super) fn patch_status(
        &mut self,
        key: &Key,
        patch: &StatusPatch,
    ) -> Result<WriteResult<()>> {
        let is_there = self.change("Pod", key, |pod| apply_patch(pod, patch))?;
        Ok(if is_there { Ok(()) } else { Err(Refusal::not_found("pods", key)) })
    }

    /// A deletion. A pod that has a node stays until its kubelet has let it go, unless that is forced.
    pub(super) fn delete_pod(
        &mut self,
        key: &Key,
        uid: Option<&str>,
        is_forced: bool,
        now: Timestamp,
    ) -> Result<WriteResult<()>> {
        let Some(pod) = self.get("Pod", key) else {
            return Ok(Err(Refusal::not_found("pods", key)));
        };
        if uid.is_some_and(|uid| pod["metadata"]["uid"] != *uid) {
            return Ok(Err(Refusal::conflict(
                "Precondition failed: UID in precondition".to_owned(),
            )));
        }
        let lingers = pod["spec"]["nodeName"].is_string() && !is_forced;
        if !lingers {
            self.delete("Pod", key);
        } else if pod["metadata"]["deletionTimestamp"].is_null() {
            self.change("Pod", key, |pod| {
                pod["metadata"]["deletionTimestamp"] = now.floor_to_second().to_string().into();
            })?;
        }
        Ok(Ok(()))
    }

    /// Puts an object in place of the revision that it carries.
    pub(super) fn replace(&mut self, object: &Object) -> Result<WriteResult<Arc<Object>>> {
        let key = (object.namespace.to_string(), object.name.to_string());
        let Some(before) = self.get(&object.kind, &key) else {
            return Ok(Err(Refusal::not_found(&object.kind, &key)));
        };
        if before["metadata"]["resourceVersion"] != *object.resource_version {
            return Ok(Err(Refusal::conflict("the object has been modified".to_owned())));
        }
        match self.update(&object.kind, Value::from(&*object.json))? {
            EventObject::Other(stored) => Ok(Ok(stored)),
            EventObject::Pod(_) | EventObject::Node(_) => {
                bail!("{} cannot be replaced", object.kind)
            }
        }
    }
}

/// The revision asked for is forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct RevisionTooOld;

pub(super) fn key_of(json: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&json["metadata"]["namespace"]), text(&json["metadata"]["name"]))
}

/// What a patch makes of a pod.
pub(crate) fn apply_patch(pod: &mut Value, patch: &StatusPatch) {
    if let Some(nominated) = &patch.nominated_node_name {
        pod["status"]["nominatedNodeName"] = nominated.as_deref().into();
    }
    if let Some(condition) = &patch.condition {
        let mut json = json!({
            "type": *condition.kind, "status": *condition.status,
            "reason": *condition.reason, "message": *condition.message,
        });
        if let Some(at) = condition.last_transition {
            json["lastTransitionTime"] = at.floor_to_second().to_string().into();
        }
        set_condition(pod, &json);
    }
}

/// Sets a condition by its type.
fn set_condition(pod: &mut Value, condition: &Value) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition.clone(),
        None => list.push(condition.clone()),
    }
}
