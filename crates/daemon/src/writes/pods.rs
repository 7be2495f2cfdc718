//! Bindings, status patches and evictions: each as the API calls it takes.
//!
//! Invariants: a binding is reported as failed only if the server said no, or if the pod was seen without it afterwards;
//! a pod's uid goes with every binding and deletion, so that they never hit another pod of the same name.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Object;
use kube_scheduler_engine::{PodRef, StatusPatch};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::backoff::Jitter;
use crate::transport::{Api, ApiError, Call};

/// Tries of a status patch, as in the reference.
const PATCH_TRIES: u32 = 4;
const PATCH_FIRST_PAUSE: Duration = Duration::from_millis(10);
const PATCH_PAUSE_FACTOR: u32 = 5;
const PATCH_JITTER: f64 = 0.1;

/// What became of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) result: Result<(), ApiError>,
    /// Whether the pod was gone, so that there was nothing to do.
    pub(crate) is_gone: bool,
    /// How often the server asked for patience.
    pub(crate) n_asked: u32,
    /// What is stored now, of a write of an object that was taken.
    pub(crate) object: Option<Arc<Object>>,
}

impl Written {
    pub(crate) const fn new(result: Result<(), ApiError>, n_asked: u32) -> Self {
        Self { result, is_gone: false, n_asked, object: None }
    }

    const fn gone(n_asked: u32) -> Self {
        Self { result: Ok(()), is_gone: true, n_asked, object: None }
    }

    /// Of a request that ended in a panic.
    pub(crate) fn broken() -> Self {
        let text = "the request broke down".to_owned();
        Self::new(Err(ApiError::Transport { text, is_refused: false }), 0)
    }
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Binds a pod to a node.
pub(crate) async fn bind(api: &Api, pod: &PodRef, node: &str, timeout: Duration) -> Written {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": &*pod.namespace, "name": &*pod.name, "uid": &*pod.uid},
        "target": {"kind": "Node", "name": node},
    });
    let call = Call::post(format!("{}/binding", pod_path(pod)), body.to_string().into_bytes())
        .timeout(timeout);
    let (answer, n_asked) = api.call_patiently(&call).await;
    let result = match answer {
        Ok(_) => Ok(()),
        // The binding may stand all the same: the answer got lost, or this is the second try of one whose answer got lost.
        Err(error) if error.is_outcome_unknown() || error.code() == Some(409) => {
            match node_of(api, pod, timeout).await {
                Ok(Some(bound)) if bound == node => Ok(()),
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    Written::new(result, n_asked)
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

/// Patches a pod's status, trying again where that may help.
pub(crate) async fn patch(
    api: &Api,
    pod: &PodRef,
    patch: &StatusPatch,
    timeout: Duration,
) -> Written {
    let Some(body) = patch_body(patch) else { return Written::new(Ok(()), 0) };
    let call = Call::patch(format!("{}/status", pod_path(pod)), body.to_string().into_bytes())
        .timeout(timeout);
    let mut jitter = Jitter::seeded_at_random();
    let mut pause = PATCH_FIRST_PAUSE;
    let mut n_asked_in_all = 0;
    for tries in 1.. {
        let (answer, n_asked) = api.call_patiently(&call).await;
        n_asked_in_all += n_asked;
        match answer {
            Err(error) if tries < PATCH_TRIES && is_worth_retrying(&error) => {}
            answer => return Written::new(answer.map(drop), n_asked_in_all),
        }
        tokio::time::sleep(jitter.stretch(pause, PATCH_JITTER)).await;
        pause *= PATCH_PAUSE_FACTOR;
    }
    Written::new(Ok(()), n_asked_in_all)
}

fn is_worth_retrying(error: &ApiError) -> bool {
    matches!(error.code(), Some(500 | 503 | 409)) || error.is_connection_refused()
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
pub(crate) async fn evict(
    api: &Api,
    pod: &PodRef,
    patch: Option<&StatusPatch>,
    timeout: Duration,
) -> Written {
    let mut n_asked = 0;
    if let Some(patch) = patch {
        let marked = self::patch(api, pod, patch, timeout).await;
        n_asked = marked.n_asked;
        match marked.result {
            Err(error) if error.code() == Some(404) => return Written::gone(n_asked),
            Err(error) => return Written::new(Err(error), n_asked),
            Ok(()) => {}
        }
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": &*pod.uid},
    });
    let call = Call::delete(pod_path(pod), body.to_string().into_bytes()).timeout(timeout);
    let (answer, asked) = api.call_patiently(&call).await;
    match answer {
        // 409: another pod has the name by now.
        Err(error) if matches!(error.code(), Some(404 | 409)) => Written::gone(n_asked + asked),
        answer => Written::new(answer.map(drop), n_asked + asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_scheduler_api_types::{PodCondition, Timestamp};

    #[test]
    fn patches_say_only_what_changes() {
        let condition = PodCondition {
            kind: "PodScheduled".into(),
            status: "False".into(),
            reason: "Unschedulable".into(),
            message: "0/1 nodes are available".into(),
            last_probe: None,
            last_transition: Some(Timestamp::from_millis(1_500)),
            observed_generation: 2,
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
