//! Bindings, status patches and evictions: each as the API calls it takes.
//!
//! Invariants: a binding is reported as failed only if the server said no, or if the pod was seen without it afterwards, or if the
//! server has not said for [`CLEAR_UP_TIME`] whether it stands; a pod's uid goes with every binding and deletion, so that they
//! never hit another pod of the same name.

use std::time::{Duration, Instant};

use kube_scheduler_engine::{PodRef, StatusPatch};
use kube_scheduler_writes::{Cause, Failure, PodWrite, Success};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::objects;
use crate::backoff::{Backoff, random_jitter};
use crate::transport::envelope::Message;
use crate::transport::{Api, ApiError, Call, Encoding};

/// How long the server is asked whether a binding stands, longer than most outages. The pod keeps its room on the node until then:
/// it may be there, and whatever took its room would be rejected by the kubelet.
const CLEAR_UP_TIME: Duration = Duration::from_secs(300);
const CLEAR_UP_FIRST_PAUSE: Duration = Duration::from_millis(200);
const CLEAR_UP_LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Tries of a status patch, as in the reference.
const PATCH_TRIES: u32 = 4;
const PATCH_FIRST_PAUSE: Duration = Duration::from_millis(10);
const PATCH_PAUSE_FACTOR: u32 = 5;
const PATCH_JITTER: f64 = 0.1;

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let (message, retry_after) = (error.to_string(), error.retry_after());
        let (cause, reason) = match error {
            ApiError::Status { code, reason, .. } => (Cause::Status(code), reason.into()),
            ApiError::Transport { .. } => (Cause::Unreachable, "".into()),
            ApiError::Timeout(_) => (Cause::Timeout, "".into()),
        };
        Self { cause, reason, message, retry_after }
    }
}

/// How a write ends whose request panicked.
pub(super) fn broken() -> Failure {
    ApiError::unclear("the request broke down").into()
}

/// Sends a write and waits for its answer.
pub(super) async fn send(
    api: &Api,
    write: &PodWrite,
    timeout: Duration,
) -> Result<Success, Failure> {
    let result = match write {
        PodWrite::Bind { pod, node, .. } => bind(api, pod, node, timeout).await,
        PodWrite::Evict { pod, patch, .. } => evict(api, pod, patch.as_ref(), timeout).await,
        PodWrite::ClearNomination { pod, .. } => {
            patch(api, pod, &StatusPatch::NO_NOMINATION, timeout).await
        }
        PodWrite::Patch { pod, patch, .. } => self::patch(api, pod, patch, timeout).await,
        PodWrite::Object { write, .. } => objects::send(api, write, timeout).await,
    };
    result.map_err(Failure::from)
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Binds a pod to a node.
async fn bind(api: &Api, pod: &PodRef, node: &str, timeout: Duration) -> Result<Success, ApiError> {
    let path = format!("{}/binding", pod_path(pod));
    let call = |encoding: Encoding| {
        Call::post(&*path, binding(pod, node, encoding)).written_in(encoding).timeout(timeout)
    };
    match api.write(call).await {
        Ok(_) => Ok(Success::Done),
        // The binding may stand nevertheless: the answer got lost, the server lost its store's answer, or this is the
        // second try of one whose answer got lost.
        Err(error)
            if error.is_outcome_unknown()
                || error.code() == Some(409)
                || (error.code() >= Some(500) && error.retry_after().is_none()) =>
        {
            if is_bound_to(api, pod, node, timeout).await { Ok(Success::Done) } else { Err(error) }
        }
        Err(error) => Err(error),
    }
}

/// Whether the pod is bound to the node, as far as the server says. It is asked again for a while if it gives no answer.
async fn is_bound_to(api: &Api, pod: &PodRef, node: &str, timeout: Duration) -> bool {
    let start = tokio::time::Instant::now();
    let mut backoff = Backoff::new(CLEAR_UP_FIRST_PAUSE, CLEAR_UP_LONGEST_PAUSE, Duration::MAX);
    loop {
        let error = match node_of(api, pod, timeout).await {
            Ok(bound) => return bound.as_deref() == Some(node),
            Err(error) => error,
        };
        let is_no_answer = error.code().is_none_or(|code| code == 429 || code >= 500);
        if !is_no_answer || start.elapsed() >= CLEAR_UP_TIME {
            return false;
        }
        tokio::time::sleep(backoff.fail(Instant::now())).await;
    }
}

/// The body of a binding.
fn binding(pod: &PodRef, node: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let body = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": &*pod.namespace, "name": &*pod.name, "uid": &*pod.uid},
                "target": {"kind": "Node", "name": node},
            });
            body.to_string().into_bytes()
        }
        Encoding::Protobuf => {
            let metadata =
                Message::default().text(1, &pod.name).text(3, &pod.namespace).text(5, &pod.uid);
            let target = Message::default().text(1, "Node").text(3, node);
            Message::default().message(1, &metadata).message(2, &target).seal("v1", "Binding")
        }
    }
}

/// Where a pod runs according to the server; `None` for nowhere, or when it is another pod by now.
async fn node_of(api: &Api, pod: &PodRef, timeout: Duration) -> Result<Option<String>, ApiError> {
    #[derive(Deserialize)]
    struct Read {
        metadata: Metadata,
        #[serde(default)]
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        uid: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_name: Option<String>,
    }
    let (answer, _) = api.call_patiently(&Call::get(pod_path(pod)).timeout(timeout)).await;
    let read: Result<Read, _> = serde_json::from_slice(&answer?);
    Ok(read.ok().filter(|read| *read.metadata.uid == *pod.uid).and_then(|read| read.spec.node_name))
}

/// Patches a pod's status, with retries where they may help.
async fn patch(
    api: &Api,
    pod: &PodRef,
    patch: &StatusPatch,
    timeout: Duration,
) -> Result<Success, ApiError> {
    let Some(body) = patch_body(patch) else { return Ok(Success::Done) };
    let call = Call::patch(format!("{}/status", pod_path(pod)), body.to_string().into_bytes())
        .timeout(timeout);
    let mut jitter = random_jitter();
    let mut pause = PATCH_FIRST_PAUSE;
    let mut tries = 1;
    loop {
        match api.call(&call).await {
            Err(error) if tries < PATCH_TRIES && is_worth_retrying(&error) => {}
            answer => return answer.map(|_| Success::Done),
        }
        tokio::time::sleep(jitter.stretch(pause, PATCH_JITTER)).await;
        pause *= PATCH_PAUSE_FACTOR;
        tries += 1;
    }
}

/// Whether the same request may get through a moment later. One that the server wants later is not sent before.
fn is_worth_retrying(error: &ApiError) -> bool {
    let is_passing = matches!(error.code(), Some(500 | 503 | 409)) || error.is_not_sent();
    is_passing && error.retry_after().is_none() && !is_too_large(error)
}

/// Whether an object is, or would become, larger than the API server takes or its store keeps.
fn is_too_large(error: &ApiError) -> bool {
    // Of the store's limit and of that for messages to it, the server only passes the text on.
    const OF_STORE: [&str; 2] =
        ["etcdserver: request is too large", "trying to send message larger than max"];
    match error {
        ApiError::Status { code: 413, .. } => true,
        ApiError::Status { message, .. } => OF_STORE.iter().any(|text| message.contains(text)),
        _ => false,
    }
}

/// The strategic merge patch; `None` when there is nothing to say.
fn patch_body(patch: &StatusPatch) -> Option<Value> {
    let mut status = Map::new();
    if let Some(condition) = &patch.condition {
        let mut members = Map::new();
        members.insert("type".into(), (*condition.kind).into());
        members.insert("status".into(), (*condition.status).into());
        members
            .insert("lastProbeTime".into(), condition.last_probe.map(|at| at.to_string()).into());
        if let Some(at) = condition.last_transition {
            members.insert("lastTransitionTime".into(), at.floor_to_second().to_string().into());
        }
        // Empty texts are sent too: left out, they would keep what stood there before.
        members.insert("reason".into(), (*condition.reason).into());
        members.insert("message".into(), (*condition.message).into());
        if condition.observed_generation != 0 {
            members.insert("observedGeneration".into(), condition.observed_generation.into());
        }
        if patch.has_conditions {
            status
                .insert("$setElementOrder/conditions".into(), json!([{"type": &*condition.kind}]));
        }
        status.insert("conditions".into(), json!([members]));
    }
    if let Some(nominated) = &patch.nominated_node_name {
        status.insert("nominatedNodeName".into(), nominated.as_deref().into());
    }
    (!status.is_empty()).then(|| json!({"status": status}))
}

/// Marks a victim of preemption, then deletes it with its own grace period. One that is gone already is as good.
async fn evict(
    api: &Api,
    pod: &PodRef,
    patch: Option<&StatusPatch>,
    timeout: Duration,
) -> Result<Success, ApiError> {
    if let Some(patch) = patch {
        match self::patch(api, pod, patch, timeout).await {
            Err(error) if error.code() == Some(404) => return Ok(Success::AlreadyGone),
            // Parity: the reference does not delete the pod then. One that nearly has the largest size that can be stored could never
            // be evicted, whatever its priority.
            Err(error) if is_too_large(&error) => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": &*pod.uid},
    });
    let call = Call::delete(pod_path(pod), body.to_string().into_bytes()).timeout(timeout);
    match api.call(&call).await {
        // 409: another pod has the name by now.
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Success::AlreadyGone),
        answer => answer.map(|_| Success::Done),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::iter;
    use std::sync::Arc;

    use super::*;
    use crate::transport::{Scripted, scripted};
    use kube_scheduler_api_types::{ConditionText, PodCondition, Timestamp};

    const LOST: Scripted = Scripted::Lost(io::ErrorKind::ConnectionReset);
    const REFUSED: Scripted = Scripted::Lost(io::ErrorKind::ConnectionRefused);

    fn pod() -> PodRef {
        PodRef { namespace: "x".into(), name: "p".into(), uid: "u".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn whether_a_binding_stands_is_asked_until_the_server_says() {
        let bound = Scripted::Body(r#"{"metadata":{"uid":"u"},"spec":{"nodeName":"n"}}"#);
        let elsewhere = Scripted::Body(r#"{"metadata":{"uid":"u"},"spec":{"nodeName":"m"}}"#);
        let unbound = Scripted::Body(r#"{"metadata":{"uid":"u"},"spec":{}}"#);
        let gone = Scripted::Status(404, None);
        for (answer, stands) in [(bound, true), (elsewhere, false), (unbound, false), (gone, false)]
        {
            let answers = [LOST, REFUSED, Scripted::Status(503, None), answer];
            let (api, script) = scripted(answers);
            let result = bind(&api, &pod(), "n", Duration::from_secs(40)).await;
            assert_eq!(result.is_ok(), stands, "{answer:?}");
            let asked = script.asked();
            let asked: Vec<&str> = asked.iter().map(|(_, what)| &**what).collect();
            let get = "GET /api/v1/namespaces/x/pods/p";
            assert_eq!(asked, ["POST /api/v1/namespaces/x/pods/p/binding", get, get, get]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_says_whether_a_binding_stands_keeps_no_pod_for_ever() {
        let (api, script) = scripted(iter::once(LOST).chain(iter::repeat(REFUSED)));
        let result = bind(&api, &pod(), "n", Duration::from_secs(40)).await;
        assert!(result.err().unwrap().is_cut_off(), "what is reported is how the binding ended");
        let (last, _) = script.asked().pop().unwrap();
        assert!(last >= CLEAR_UP_TIME && last < CLEAR_UP_TIME * 2, "{last:?}");
    }

    #[test]
    fn bindings_say_the_same_in_both_encodings() {
        let pod = pod();
        let json: Value = serde_json::from_slice(&binding(&pod, "n", Encoding::Json)).unwrap();
        assert_eq!(
            json,
            json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"namespace": "x", "name": "p", "uid": "u"},
                "target": {"kind": "Node", "name": "n"},
            })
        );
        let bytes = binding(&pod, "n", Encoding::Protobuf);
        let object = crate::transport::envelope::open(&bytes).unwrap();
        assert_eq!((object.api_version, object.kind), ("v1", "Binding"));
        // Metadata: name 1, namespace 3, uid 5. Target: kind 1, name 3.
        assert_eq!(object.raw, b"\x0a\x09\x0a\x01p\x1a\x01x\x2a\x01u\x12\x09\x0a\x04Node\x1a\x01n");
    }

    #[test]
    fn what_is_too_large_is_not_sent_again() {
        let status = |code, message: &str| ApiError::Status {
            code,
            reason: String::new(),
            message: message.to_owned(),
            retry_after: None,
        };
        let of_store = "etcdserver: request is too large";
        let of_message = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (1 vs. 0)";
        for error in [status(413, ""), status(500, of_store), status(500, of_message)] {
            assert!(is_too_large(&error) && !is_worth_retrying(&error), "{error}");
        }
        for error in [status(500, "etcdserver: leader changed"), status(409, ""), status(503, "")] {
            assert!(!is_too_large(&error) && is_worth_retrying(&error), "{error}");
        }
        assert!(!is_too_large(&ApiError::Timeout(Duration::ZERO)));
    }

    #[test]
    fn patches_say_only_what_changes() {
        let condition = PodCondition {
            text: Arc::new(ConditionText {
                kind: "PodScheduled".into(),
                status: "False".into(),
                reason: "Unschedulable".into(),
                message: "0/1 nodes are available".into(),
                last_probe: None,
                observed_generation: 2,
            }),
            last_transition: Some(Timestamp::from_millis(1_500)),
        };
        let mut status = StatusPatch {
            condition: Some(condition),
            nominated_node_name: None,
            has_conditions: true,
        };
        let expected = json!({"status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available", "lastProbeTime": null,
                "lastTransitionTime": "1970-01-01T00:00:01Z", "observedGeneration": 2,
            }],
        }});
        assert_eq!(patch_body(&status), Some(expected));
        status.condition = None;
        assert_eq!(patch_body(&status), None);
        status.nominated_node_name = Some(None);
        assert_eq!(patch_body(&status), Some(json!({"status": {"nominatedNodeName": null}})));
        status.nominated_node_name = Some(Some("n1".into()));
        assert_eq!(patch_body(&status), Some(json!({"status": {"nominatedNodeName": "n1"}})));
    }
}
