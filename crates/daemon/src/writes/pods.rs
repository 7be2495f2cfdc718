//! Bindings, status patches and evictions: each as the API calls it takes.
//!
//! Invariants: a binding is reported as failed only if the server said no, or if the pod was seen without it when it could not be
//! carried out any more, or if the server has not said for [`CLEAR_UP_TIME`] whether it stands; a pod's uid goes with every
//! binding and deletion, so that they never hit another pod of the same name.

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

/// Sends a write and waits for its end. Beside that, how long the server took to answer: finding out what became of a binding
/// without an answer does not count.
pub(super) async fn send(
    api: &Api,
    write: &PodWrite,
    timeout: Duration,
) -> (Result<Success, Failure>, Duration) {
    let start = tokio::time::Instant::now();
    let result = match write {
        PodWrite::Bind { pod, node, .. } => {
            let binding = Binding { api, pod, node, timeout };
            let answer = binding.send().await;
            let length = start.elapsed();
            return (binding.end(answer).await.map_err(Failure::from), length);
        }
        PodWrite::Evict { pod, patch, .. } => evict(api, pod, patch.as_ref(), timeout).await,
        PodWrite::ClearNomination { pod, .. } => {
            patch(api, pod, &StatusPatch::NO_NOMINATION, timeout).await
        }
        PodWrite::Patch { pod, patch, .. } => self::patch(api, pod, patch, timeout).await,
        PodWrite::Object { write, .. } => objects::send(api, write, timeout).await,
    };
    (result.map_err(Failure::from), start.elapsed())
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// A pod that is being bound to a node.
struct Binding<'b> {
    api: &'b Api,
    pod: &'b PodRef,
    node: &'b str,
    timeout: Duration,
}

impl Binding<'_> {
    async fn send(&self) -> Result<(), ApiError> {
        let path = format!("{}/binding", pod_path(self.pod));
        let call = |encoding: Encoding| {
            Call::post(&*path, binding(self.pod, self.node, encoding))
                .written_in(encoding)
                .timeout(self.timeout)
        };
        self.api.write(call).await.map(drop)
    }

    /// How the binding ends whose request was answered so.
    async fn end(&self, answer: Result<(), ApiError>) -> Result<Success, ApiError> {
        let Err(error) = answer else { return Ok(Success::Done) };
        // The binding may stand nevertheless: the answer got lost, the server lost its store's answer, or this is the
        // second try of one whose answer got lost.
        let may_stand = error.is_outcome_unknown()
            || error.code() == Some(409)
            || (error.code() >= Some(500) && error.retry_after().is_none());
        if !may_stand {
            return Err(error);
        }
        let (pod, node) = (self.pod, self.node);
        match tokio::time::timeout(CLEAR_UP_TIME, self.stands(error.is_outcome_unknown())).await {
            Ok(true) => Ok(Success::Done),
            Ok(false) => Err(error),
            Err(_) => {
                tracing::info!(%pod, node, err = %error, "Gave up finding out whether a pod is bound");
                Err(error)
            }
        }
    }

    /// Whether the pod is bound to the node, as soon as the server says so.
    ///
    /// If the request `may_arrive` later, a pod without a node proves nothing. Then the same binding is sent again: the server takes
    /// one of both, and refuses the other.
    async fn stands(&self, mut may_arrive: bool) -> bool {
        let mut backoff = Backoff::new(CLEAR_UP_FIRST_PAUSE, CLEAR_UP_LONGEST_PAUSE, Duration::MAX);
        let mut has_said = false;
        loop {
            let error = match node_of(self.api, self.pod, self.timeout).await {
                Ok(PodLocation::Node(node)) => return node == self.node,
                Ok(PodLocation::Gone) => return false,
                Ok(PodLocation::NoNode) if !may_arrive => return false,
                Ok(PodLocation::NoNode) => {
                    if self.api.may_write().await.is_err() {
                        // Leadership is over.
                        return false;
                    }
                    match self.send().await {
                        Ok(()) => return true,
                        Err(error) if error.code() == Some(409) => {
                            may_arrive = false;
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if !has_said {
                has_said = true;
                let (pod, node) = (self.pod, self.node);
                tracing::info!(%pod, node, err = %error, "It is not known whether a pod is bound; trying on");
            }
            let pause = error.pause().unwrap_or_else(|| backoff.fail(Instant::now()));
            tokio::time::sleep(pause).await;
        }
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

/// Where a pod runs.
enum PodLocation {
    Node(String),
    /// Nowhere yet.
    NoNode,
    /// There is no such pod, or it is another one by now.
    Gone,
}

/// Where a pod runs according to the server. All but a pod that can be read, and that there is none, is an error.
async fn node_of(api: &Api, pod: &PodRef, timeout: Duration) -> Result<PodLocation, ApiError> {
    #[derive(Deserialize)]
    struct PodOnServer {
        metadata: Metadata,
        #[serde(default)]
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_name: Option<String>,
    }
    let answer = match api.call(&Call::get(pod_path(pod)).timeout(timeout)).await {
        Err(error) if error.code() == Some(404) => return Ok(PodLocation::Gone),
        answer => answer?,
    };
    let read: PodOnServer = serde_json::from_slice(&answer)
        .map_err(|error| ApiError::unclear(format!("the pod cannot be read: {error}")))?;
    Ok(match read.spec.node_name.filter(|node| !node.is_empty()) {
        // First: the node of another pod of the same name says nothing.
        _ if *read.metadata.uid != *pod.uid => PodLocation::Gone,
        Some(node) => PodLocation::Node(node),
        None => PodLocation::NoNode,
    })
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
    use crate::transport::{ScriptedReply, scripted};
    use kube_scheduler_api_types::{ConditionText, PodCondition, Timestamp};
    use kube_scheduler_engine::Token;

    const LOST: ScriptedReply = ScriptedReply::Lost(io::ErrorKind::ConnectionReset);
    const REFUSED: ScriptedReply = ScriptedReply::Lost(io::ErrorKind::ConnectionRefused);

    fn pod() -> PodRef {
        PodRef { namespace: "x".into(), name: "p".into(), uid: "u".into() }
    }

    const TIMEOUT: Duration = Duration::from_secs(40);
    const BOUND: ScriptedReply =
        ScriptedReply::Body(r#"{"metadata":{"uid":"u"},"spec":{"nodeName":"n"}}"#);
    const ELSEWHERE: ScriptedReply =
        ScriptedReply::Body(r#"{"metadata":{"uid":"u"},"spec":{"nodeName":"m"}}"#);
    const UNBOUND: ScriptedReply = ScriptedReply::Body(r#"{"metadata":{"uid":"u"},"spec":{}}"#);
    const ANOTHER: ScriptedReply =
        ScriptedReply::Body(r#"{"metadata":{"uid":"v"},"spec":{"nodeName":"n"}}"#);
    const GARBAGE: ScriptedReply = ScriptedReply::Body("<html>");

    const fn status(code: u16) -> ScriptedReply {
        ScriptedReply::Status(code, None)
    }

    /// How a binding ends and how long its request took, and the times and methods of all requests, which are about the pod.
    async fn bind(
        answers: impl IntoIterator<Item = ScriptedReply, IntoIter: Send + 'static>,
    ) -> (Result<Success, Failure>, Duration, Vec<(Duration, String)>) {
        let (api, script) = scripted(answers);
        let write = PodWrite::Bind { token: Token(1), pod: pod(), node: "n".into() };
        let (result, length) = send(&api, &write, TIMEOUT).await;
        let method = |what: String| match &*what {
            "POST /api/v1/namespaces/x/pods/p/binding" => "POST".to_owned(),
            "GET /api/v1/namespaces/x/pods/p" => "GET".to_owned(),
            _ => what,
        };
        let asked = script.asked().into_iter().map(|(at, what)| (at, method(what))).collect();
        (result, length, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn whether_a_binding_stands_is_asked_until_the_server_says() {
        // What is no answer, however the server puts it.
        let silent = [REFUSED, status(503), status(401), status(403), status(429), GARBAGE];
        for (answer, stands) in
            [(BOUND, true), (ELSEWHERE, false), (ANOTHER, false), (status(404), false)]
        {
            let answers = iter::once(LOST).chain(silent).chain([ScriptedReply::Silence, answer]);
            let (result, length, asked) = bind(answers).await;
            assert_eq!(result.is_ok(), stands, "{answer:?}");
            let methods: Vec<&str> = asked.iter().map(|(_, method)| &**method).collect();
            assert_eq!(methods[0], "POST");
            assert_eq!(methods[1..], ["GET"; 8], "{answer:?}");
            assert_eq!(length, Duration::ZERO, "finding out is no part of the request");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_binding_that_may_still_arrive_is_sent_again() {
        let done = ScriptedReply::Body("{}");
        for (answers, stands, expected) in [
            (vec![LOST, UNBOUND, done], true, "POST GET POST"),
            // The first one arrived meanwhile, or another scheduler's.
            (vec![LOST, UNBOUND, status(409), BOUND], true, "POST GET POST GET"),
            (vec![LOST, UNBOUND, status(409), ELSEWHERE], false, "POST GET POST GET"),
            (vec![LOST, UNBOUND, status(409), UNBOUND], false, "POST GET POST GET"),
            (vec![LOST, UNBOUND, LOST, UNBOUND, done], true, "POST GET POST GET POST"),
            (vec![status(504), UNBOUND, REFUSED, BOUND], true, "POST GET POST GET"),
            // These were answered, so nothing is under way.
            (vec![status(409), UNBOUND], false, "POST GET"),
            (vec![status(500), UNBOUND], false, "POST GET"),
            (vec![REFUSED], false, "POST"),
        ] {
            let (result, _, asked) = bind(answers).await;
            let methods: Vec<&str> = asked.iter().map(|(_, method)| &**method).collect();
            assert_eq!((result.is_ok(), methods.join(" ")), (stands, expected.to_owned()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_again_when_leadership_is_over() {
        let (api, script) = scripted([UNBOUND]);
        let (keeper, fence) = crate::fence::closed(|| Timestamp::EPOCH);
        keeper.give_up();
        let (api, pod) = (api.behind(Some(fence)), pod());
        let binding = Binding { api: &api, pod: &pod, node: "n", timeout: TIMEOUT };
        let lost = || ApiError::unclear("leadership ran out");
        assert_eq!(binding.end(Err(lost())).await.err(), Some(lost()));
        assert_eq!(script.asked().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_says_whether_a_binding_stands_keeps_no_pod_for_ever() {
        let later = ScriptedReply::Status(429, Some(3_600));
        // Each pause is stretched at random.
        for (answer, longest_pause) in [(REFUSED, 10), (later, 30)] {
            let start = tokio::time::Instant::now();
            let (result, length, asked) = bind(iter::once(LOST).chain(iter::repeat(answer))).await;
            let failure = result.unwrap_err();
            assert_eq!(
                failure.cause,
                Cause::Unreachable,
                "what is reported is how the binding ended"
            );
            assert_eq!(length, Duration::ZERO);
            let taken = start.elapsed();
            assert!(taken.abs_diff(CLEAR_UP_TIME) < Duration::from_secs(1), "{taken:?}");
            let last = asked.last().unwrap().0 + Duration::from_secs(longest_pause);
            assert!(last + Duration::from_secs(1) > CLEAR_UP_TIME, "{asked:?}");
        }
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
