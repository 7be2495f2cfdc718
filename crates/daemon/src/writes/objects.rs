//! Requests about other objects that plugins ask for before a pod is bound, or when it is not bound after all.
//!
//! Invariant: the revision goes with every replacement, so that a change made meanwhile by another client is never undone; a
//! write is not tried again unless the server refused it unseen, does not serve the kind where it did, or because it names a revision
//! that the object no longer has.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{Json, Object};
use kube_scheduler_framework::ObjectWrite;
use kube_scheduler_writes::Success;
use serde_json::{Value, json};

use crate::kinds::versions::as_written;
use crate::kinds::{path_of, plural_of};
use crate::transport::{Api, ApiError, Call};

/// How often an object that others change meanwhile is patched, or a finalizer taken off it.
const MAX_TRIES: u32 = 5;
/// After how long a patch is sent again that found nothing where its kind was served: until then it may be known where it is now.
const LOOKED_UP: Duration = Duration::from_secs(5);

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
        ObjectWrite::PatchStatus { patch, is_final, .. } => {
            // A final patch is not sent for another revision: what was changed since may be what another pod relies on.
            let max_tries = if *is_final { 1 } else { MAX_TRIES };
            let patch = (**patch).clone();
            return patch_status(
                api,
                &path,
                (patch, max_tries),
                |patch| as_written(&key.kind, patch, version).into_owned(),
                timeout,
            )
            .await
            .map(Success::Stored)
            .map_err(|error| if served.is_some() { moved_or(error) } else { error });
        }
        ObjectWrite::Get(_) => Call::get(&*path),
        ObjectWrite::Delete { object, finalizer } => {
            return delete(api, &path, object, finalizer.as_deref(), timeout).await;
        }
        other => return Err(refusal(format!("{} is not supported", other.method()))),
    };
    stored(api, &call.timeout(timeout)).await.map(Success::Stored)
}

/// Patches the status of an object. If the patch names a revision and the object has another one, that is named instead, so often
/// that it is tried `max_tries` times in total.
async fn patch_status(
    api: &Api,
    path: &str,
    (mut patch, max_tries): (Value, u32),
    as_written: impl Fn(&Value) -> Value,
    timeout: Duration,
) -> Result<Arc<Object>, ApiError> {
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        let body = as_written(&patch).to_string().into_bytes();
        let call = Call::patch(format!("{path}/status"), body).timeout(timeout);
        let error = match stored(api, &call).await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let names_revision = !patch["metadata"]["resourceVersion"].is_null();
        if error.code() != Some(409) || !names_revision || n_tries == max_tries {
            return Err(error);
        }
        let object = stored(api, &Call::get(path).timeout(timeout)).await?;
        if patch["metadata"]["uid"] != *object.uid {
            return Err(error);
        }
        patch["metadata"]["resourceVersion"] = json!(*object.resource_version);
    }
}

fn put(path: &str, object: &Object) -> Call {
    Call::put(path, object.json.to_string().into_bytes())
}

async fn stored(api: &Api, call: &Call) -> Result<Arc<Object>, ApiError> {
    let body = api.call(call).await?;
    let stored = Object::from_json(&body)
        .map_err(|error| ApiError::unclear(format!("the answer is no object: {error}")))?;
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

/// A server that is upgraded may serve a kind in another version from one moment to the next. It says nothing of an object then, as
/// it does of one that is gone, and the same patch is to be sent again when it is known where the kind is.
fn moved_or(error: ApiError) -> ApiError {
    match error {
        ApiError::Status { code: 404, reason, message, .. } if reason != "NotFound" => {
            ApiError::Status { code: 503, reason, message, retry_after: Some(LOOKED_UP) }
        }
        error => error,
    }
}

fn refusal(text: String) -> ApiError {
    ApiError::not_sent(text)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use kube_scheduler_framework::ObjectKey;

    use super::*;
    use crate::transport::Endpoint;

    /// A server that gives these answers to one request each, and what it was asked.
    fn server(answers: Vec<(u16, Value)>) -> (Api, JoinHandle<Vec<(String, Value)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = move |(code, answer): (u16, Value)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&std::mem::take(&mut line));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let text = answer.to_string();
            let status = format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: ");
            write!(stream, "{status}{}\r\n\r\n{text}", text.len()).unwrap();
            let method = head.split(' ').next().unwrap_or_default().to_owned();
            (method, serde_json::from_slice(&body).unwrap_or_default())
        };
        let asked = std::thread::spawn(move || answers.into_iter().map(answer).collect());
        (Endpoint::from_url(&address).unwrap().client("test").unwrap(), asked)
    }

    fn claim(uid: &str, revision: &str) -> Value {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "n", "name": "c", "uid": uid, "resourceVersion": revision}})
    }

    fn patch(revision: &str) -> Value {
        json!({"metadata": {"uid": "u", "resourceVersion": revision}, "status": {"x": 1}})
    }

    async fn sent(api: &Api, patch: &Value, is_final: bool) -> Result<Success, ApiError> {
        let object = ObjectKey {
            group: "resource.k8s.io".into(),
            kind: "ResourceClaim".into(),
            namespace: "n".into(),
            name: "c".into(),
        };
        let write = ObjectWrite::PatchStatus { object, patch: patch.clone().into(), is_final };
        send(api, &write, Duration::from_secs(60)).await
    }

    /// A patch of the status of an object whose kind the server served in a version that it has named.
    async fn sent_to_versioned(answer: (u16, Value)) -> ApiError {
        let (api, asked) = server(vec![answer]);
        api.served_versions().set("resourceclaims.resource.k8s.io", "v1");
        let error = sent(&api, &patch("5"), false).await.unwrap_err();
        assert_eq!(asked.join().unwrap().len(), 1);
        error
    }

    #[tokio::test]
    async fn a_patch_is_sent_again_where_its_kind_has_moved_and_not_where_the_object_is_gone() {
        let moved = sent_to_versioned((404, json!("404 page not found"))).await;
        assert_eq!(moved.retry_after(), Some(LOOKED_UP));
        let gone = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"});
        let gone = sent_to_versioned((404, gone)).await;
        assert_eq!((gone.code(), gone.retry_after()), (Some(404), None));
    }

    fn conflict() -> (u16, Value) {
        (409, json!({"kind": "Status", "reason": "Conflict", "code": 409, "message": "modified"}))
    }

    #[tokio::test]
    async fn a_patch_of_a_revision_that_is_over_names_the_present_one() {
        let (api, asked) = server(vec![conflict(), (200, claim("u", "7")), (200, claim("u", "8"))]);
        let Ok(Success::Stored(stored)) = sent(&api, &patch("5"), false).await else { panic!() };
        assert_eq!(&*stored.resource_version, "8");
        let named = |method: &str, body: Value| (method.to_owned(), body);
        let expected =
            [named("PATCH", patch("5")), named("GET", Value::Null), named("PATCH", patch("7"))];
        assert_eq!(asked.join().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_patch_is_not_tried_again_on_another_object_or_without_a_revision_or_where_that_is_forbidden()
     {
        let (api, asked) = server(vec![conflict(), (200, claim("other", "7"))]);
        assert_eq!(sent(&api, &patch("5"), false).await.unwrap_err().code(), Some(409));
        assert_eq!(asked.join().unwrap().len(), 2);

        let (api, asked) = server(vec![conflict()]);
        let error = sent(&api, &patch("5"), true).await.unwrap_err();
        assert_eq!(error.code(), Some(409));
        assert_eq!(asked.join().unwrap(), [("PATCH".to_owned(), patch("5"))]);

        let (api, asked) = server(vec![conflict()]);
        let unnamed = json!({"metadata": {"uid": "u"}, "status": {"x": 1}});
        assert_eq!(sent(&api, &unnamed, false).await.unwrap_err().code(), Some(409));
        assert_eq!(asked.join().unwrap().len(), 1);
    }
}
