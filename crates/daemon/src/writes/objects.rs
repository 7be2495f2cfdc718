//! Requests about other objects that plugins ask for before a pod is bound, or when it is not bound after all.
//!
//! Invariant: the revision goes with every replacement, so that a change made meanwhile by another client is never undone; a
//! write is not tried again unless the server refused it unseen.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Json, Object};
use kube_scheduler_framework::ObjectWrite;
use kube_scheduler_writes::Success;
use serde_json::{Value, json};

use crate::kinds::versions::as_written;
use crate::kinds::{path_of, plural_of};
use crate::transport::{Api, ApiError, Call};

/// How often a finalizer is tried to be taken off an object that others change meanwhile.
const MAX_TRIES: u32 = 5;

/// Carries out a request about one object.
pub(super) async fn send(
    api: &Api,
    write: &ObjectWrite,
    timeout: Duration,
) -> Result<Success, ApiError> {
    let key = write.key();
    let served = plural_of(&key.group, &key.kind)
        .and_then(|plural| api.served_versions().get(&key.group, plural));
    let version = served.or_else(|| write.object().map(|object| &*object.version));
    let Some(path) = path_of(&key, version) else {
        let text = format!("objects of kind {} cannot be written", key.kind);
        return Err(refusal(text));
    };
    let call = match write {
        ObjectWrite::Replace(object) => put(&path, object),
        ObjectWrite::ReplaceStatus(object) => put(&format!("{path}/status"), object),
        ObjectWrite::Create(object) => {
            let collection = path.rsplit_once('/').map_or(&*path, |(collection, _)| collection);
            Call::post(collection, object.json.to_string().into_bytes())
        }
        ObjectWrite::PatchStatus { patch, .. } => {
            let patch = as_written(&key.kind, patch, version);
            Call::patch(format!("{path}/status"), patch.to_string().into_bytes())
        }
        ObjectWrite::Get(_) => Call::get(&*path),
        ObjectWrite::Delete { object, finalizer } => {
            return delete(api, &path, object, finalizer.as_deref(), timeout).await;
        }
        other => return Err(refusal(format!("{} is not supported", other.method()))),
    };
    stored(api, &call.timeout(timeout)).await.map(Success::Stored)
}

fn put(path: &str, object: &Object) -> Call {
    Call::put(path, object.json.to_string().into_bytes())
}

async fn stored(api: &Api, call: &Call) -> Result<Arc<Object>, ApiError> {
    let body = api.call(call).await?;
    let stored = Object::from_json(&body).map_err(|error| {
        let text = format!("the answer is no object: {error}");
        ApiError::Transport { text, is_refused: false }
    })?;
    Ok(Arc::new(stored))
}

/// Deletes an object, without `finalizer` if it has that.
async fn delete(
    api: &Api,
    path: &str,
    object: &Object,
    finalizer: Option<&str>,
    timeout: Duration,
) -> Result<Success, ApiError> {
    if let Some(finalizer) = finalizer {
        let mut object = Arc::new(object.clone());
        for n_tries in 1.. {
            match stored(api, &put(path, &without_finalizer(&object, finalizer)).timeout(timeout))
                .await
            {
                Ok(_) => break,
                Err(error) if error.code() == Some(404) => return Ok(Success::AlreadyGone),
                Err(error) if error.code() == Some(409) && n_tries < MAX_TRIES => {
                    object = stored(api, &Call::get(path).timeout(timeout)).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let body = match &*object.uid {
        "" => Value::Object(serde_json::Map::new()),
        uid => json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}),
    };
    match api.call(&Call::delete(path, body.to_string().into_bytes()).timeout(timeout)).await {
        Ok(_) => Ok(Success::Done),
        // With another uid it is another object, and this one is gone.
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Success::AlreadyGone),
        Err(error) => Err(error),
    }
}

fn without_finalizer(object: &Object, finalizer: &str) -> Object {
    let mut changed = object.clone();
    let left = object.json["metadata"]["finalizers"].as_array().into_iter().flatten();
    let left: Vec<Json> = left.filter(|other| *other != finalizer).cloned().collect();
    changed.set_field(&["metadata", "finalizers"], left.into());
    changed
}

fn refusal(text: String) -> ApiError {
    ApiError::Transport { text, is_refused: true }
}
