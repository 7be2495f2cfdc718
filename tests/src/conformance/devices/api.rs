//! The API server of the recording: optimistic locking, generated names, a limit of reservations and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::{ApiError, ObjectKey, ObjectWrite};
use serde_json::{Value, json};

use super::super::decisions::with_type;
use super::super::text;

const MAX_RESERVATIONS: usize = 256;

/// Objects by kind, namespace and name.
#[derive(Default)]
pub(super) struct Api {
    objects: BTreeMap<(String, String, String), Value>,
    n_writes: u64,
    n_generated: u64,
    /// The kind of write that is refused at the moment.
    pub(super) fault: Option<String>,
    /// The last patch of a pod's status.
    pub(super) pod_patch: Option<Value>,
}

/// What a write came to.
pub(super) struct Answer {
    pub(super) result: Result<Arc<Object>, ApiError>,
    /// What the watch reports of it.
    pub(super) seen: Option<Input>,
}

impl Api {
    pub(super) fn load(&mut self, cluster: &Value) -> Result<()> {
        for list in ["resourceClaims", "resourceSlices", "deviceClasses", "deviceTaintRules"] {
            for object in cluster[list].as_array().into_iter().flatten() {
                let object = with_type(list, object)?;
                self.objects.insert(key_of(&object), object);
            }
        }
        Ok(())
    }

    /// Carries out a recorded change that the scheduler has not made.
    pub(super) fn change(&mut self, change: &Value) -> Result<Input> {
        let list = match text(&change["kind"]) {
            "ResourceClaim" => "resourceClaims",
            "ResourceSlice" => "resourceSlices",
            "DeviceClass" => "deviceClasses",
            "DeviceTaintRule" => "deviceTaintRules",
            other => bail!("unknown kind {other:?} of a change"),
        };
        let object = with_type(list, &change["object"])?;
        match text(&change["op"]) {
            "create" | "update" => Ok(Input::ObjectApplied(self.store(object)?)),
            "delete" => {
                let known = self.objects.remove(&key_of(&object)).unwrap_or(object);
                Ok(Input::ObjectDeleted(Arc::new(Object::from_value(known)?)))
            }
            other => Err(anyhow!("unknown change {other:?}")),
        }
    }

    /// The claim as it is stored.
    pub(super) fn claim(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&("ResourceClaim".into(), namespace.into(), name.into()))
    }

    pub(super) fn carry_out(&mut self, write: &ObjectWrite) -> Result<Answer> {
        if let Some(error) = self.refusal(write) {
            return Ok(Answer { result: Err(error), seen: None });
        }
        match write {
            ObjectWrite::Get(key) => {
                let found = self.objects.get(&named(key)).cloned();
                let result = match found {
                    Some(object) => Ok(Arc::new(Object::from_value(object)?)),
                    None => Err(not_found(&key.name)),
                };
                Ok(Answer { result, seen: None })
            }
            ObjectWrite::Create(object) => self.create(object),
            ObjectWrite::Replace(object) => self.replace(object, false),
            ObjectWrite::ReplaceStatus(object) => self.replace(object, true),
            ObjectWrite::PatchStatus { object, patch, .. } if &*object.kind == "Pod" => {
                self.pod_patch = Some((**patch).clone());
                let pod = json!({
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"namespace": *object.namespace, "name": *object.name},
                });
                Ok(Answer { result: Ok(Arc::new(Object::from_value(pod)?)), seen: None })
            }
            ObjectWrite::PatchStatus { object, patch, .. } => self.release(object, patch),
            ObjectWrite::Delete { object, .. } => {
                let seen = self.objects.remove(&named(&ObjectKey::from(&**object)));
                let seen = seen.map(|_| Input::ObjectDeleted(object.clone()));
                Ok(Answer { result: Ok(object.clone()), seen })
            }
            other => Err(anyhow!("unknown write {other:?}")),
        }
    }

    fn refusal(&self, write: &ObjectWrite) -> Option<ApiError> {
        let is_pod = &*write.key().kind == "Pod";
        let is_meant = match (self.fault.as_deref()?, write) {
            ("update", ObjectWrite::Replace(_))
            | ("status update", ObjectWrite::ReplaceStatus(_))
            | ("create", ObjectWrite::Create(_)) => true,
            ("pod status patch", ObjectWrite::PatchStatus { .. }) => is_pod,
            _ => false,
        };
        is_meant.then(|| forbidden(write))
    }

    fn create(&mut self, object: &Object) -> Result<Answer> {
        self.n_generated += 1;
        let mut json = Value::from(&*object.json);
        let prefix = text(&json["metadata"]["generateName"]).to_owned();
        json["metadata"]["name"] = format!("{prefix}x{}", self.n_generated).into();
        json["metadata"]["uid"] = format!("created-{}", self.n_generated).into();
        self.stored(json)
    }

    fn replace(&mut self, object: &Object, is_status: bool) -> Result<Answer> {
        let reservations = object.json["status"]["reservedFor"].as_array().map_or(0, <[_]>::len);
        // The API of the recording looks at the object before it looks for what it replaces.
        if is_status && reservations > MAX_RESERVATIONS {
            let text = format!(
                "ResourceClaim.resource.k8s.io \"{}\" is invalid: status.reservedFor: Too many: {reservations}: must have at most {MAX_RESERVATIONS} items",
                object.name
            );
            let error = ApiError { code: Some(422), ..ApiError::new("Invalid", text) };
            return Ok(Answer { result: Err(error), seen: None });
        }
        let Some(known) = self.objects.get(&named(&ObjectKey::from(object))) else {
            return Ok(Answer { result: Err(not_found(&object.name)), seen: None });
        };
        if object.json["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
            return Ok(Answer { result: Err(conflict(&object.name)), seen: None });
        }
        let json = if is_status {
            let mut known = known.clone();
            known["status"] = (&object.json["status"]).into();
            known
        } else {
            let mut json = Value::from(&*object.json);
            json["status"] = known["status"].clone();
            json
        };
        self.stored(json)
    }

    /// Takes the reservations away that the patch deletes.
    fn release(&mut self, key: &ObjectKey, patch: &Value) -> Result<Answer> {
        let Some(known) = self.objects.get(&named(key)) else {
            return Ok(Answer { result: Err(not_found(&key.name)), seen: None });
        };
        if known["metadata"]["uid"] != patch["metadata"]["uid"] {
            return Ok(Answer { result: Err(conflict(&key.name)), seen: None });
        }
        let directives =
            patch["status"]["reservedFor"].as_array().context("a patch of reservedFor")?;
        if directives.iter().any(|directive| directive["$patch"] != "delete") {
            bail!("the patch {patch} does more than delete reservations");
        }
        let mut json = known.clone();
        if let Some(reserved) = json["status"]["reservedFor"].as_array_mut() {
            reserved.retain(|consumer| {
                !directives.iter().any(|directive| directive["uid"] == consumer["uid"])
            });
        }
        self.stored(json)
    }

    fn stored(&mut self, json: Value) -> Result<Answer> {
        let object = self.store(json)?;
        Ok(Answer { result: Ok(object.clone()), seen: Some(Input::ObjectApplied(object)) })
    }

    fn store(&mut self, mut json: Value) -> Result<Arc<Object>> {
        self.n_writes += 1;
        json["metadata"]["resourceVersion"] = (1_000_000 + self.n_writes).to_string().into();
        self.objects.insert(key_of(&json), json.clone());
        Ok(Arc::new(Object::from_value(json)?))
    }
}

fn key_of(object: &Value) -> (String, String, String) {
    let metadata = &object["metadata"];
    (
        text(&object["kind"]).to_owned(),
        text(&metadata["namespace"]).to_owned(),
        text(&metadata["name"]).to_owned(),
    )
}

fn named(key: &ObjectKey) -> (String, String, String) {
    (key.kind.to_string(), key.namespace.to_string(), key.name.to_string())
}

fn not_found(name: &str) -> ApiError {
    let text = format!("resourceclaims.resource.k8s.io \"{name}\" not found");
    ApiError { code: Some(404), ..ApiError::new("NotFound", text) }
}

fn conflict(name: &str) -> ApiError {
    let text = format!(
        "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
    );
    ApiError { code: Some(409), ..ApiError::new("Conflict", text) }
}

/// How the API refuses a write.
pub(super) fn forbidden(write: &ObjectWrite) -> ApiError {
    let key = write.key();
    let what = match &*key.kind {
        "Pod" => format!("pods \"{}\"", key.name),
        _ => "resourceclaims.resource.k8s.io".to_owned(),
    };
    let text = format!("{what} is forbidden: refused by the test");
    ApiError { code: Some(403), ..ApiError::new("Forbidden", text) }
}
