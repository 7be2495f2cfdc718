//! The patch types, and what updates may not do.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::served_cluster::{ServedCluster, pod_value, refusal, still};

async fn raw_patch(
    served: &ServedCluster,
    content_type: &str,
    path: &str,
    body: Value,
) -> Result<Value, kube::Error> {
    let request = http::Request::builder()
        .method("PATCH")
        .uri(path)
        .header("Content-Type", content_type)
        .body(serde_json::to_vec(&body).expect("json"))
        .expect("a request");
    served.client.request_text(request).await.map(|text| serde_json::from_str(&text).expect("json"))
}

#[tokio::test]
async fn merge_patch_replaces_lists_and_removes_nulls() {
    let served = still().await;
    served.create_pod("a").await;
    let patch = Patch::Merge(
        json!({"metadata": {"labels": {"x": "1", "y": "2"}, "finalizers": ["example.com/a"]}}),
    );
    let pod = served.pods().patch("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(pod.labels().len(), 2);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": null}}}));
    let pod = served.pods().patch("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(pod.labels().keys().collect::<Vec<_>>(), ["y"]);
}

#[tokio::test]
async fn strategic_patch_merges_conditions_by_type() {
    let served = still().await;
    served.create_pod("a").await;
    let patch = |status: &str, kind: &str| {
        Patch::Strategic(json!({"status": {"conditions": [{"type": kind, "status": status}]}}))
    };
    let params = PatchParams::default();
    served
        .pods()
        .patch_status("a", &params, &patch("False", "PodScheduled"))
        .await
        .expect("patched");
    served.pods().patch_status("a", &params, &patch("True", "Ready")).await.expect("patched");
    let pod = served
        .pods()
        .patch_status("a", &params, &patch("True", "PodScheduled"))
        .await
        .expect("patched");
    let conditions = pod.status.expect("a status").conditions.expect("conditions");
    let shown: Vec<(String, String)> =
        conditions.into_iter().map(|condition| (condition.type_, condition.status)).collect();
    assert_eq!(shown, [("PodScheduled".into(), "True".into()), ("Ready".into(), "True".into())]);
}

#[tokio::test]
async fn json_patch_tests_and_replaces() {
    let served = still().await;
    served.create_pod("a").await;
    let path = "/api/v1/namespaces/default/pods/a";
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"x": "1"}}]);
    let pod =
        raw_patch(&served, "application/json-patch+json", path, patch).await.expect("patched");
    assert_eq!(pod["metadata"]["labels"]["x"], "1");
    let patch = json!([{"op": "test", "path": "/metadata/labels/x", "value": "2"}]);
    assert_eq!(
        refusal(raw_patch(&served, "application/json-patch+json", path, patch).await).0,
        422
    );
    assert_eq!(refusal(raw_patch(&served, "text/plain", path, json!({})).await).0, 415);
}

#[tokio::test]
async fn apply_creates_owns_and_removes() {
    let served = still().await;
    let api: Api<ConfigMap> = Api::namespaced(served.client.clone(), "default");
    let config = |data: Value| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}),
        )
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    api.patch("c", &one, &config(json!({"a": "1", "b": "1"}))).await.expect("created");
    api.patch("c", &two, &config(json!({"c": "2"}))).await.expect("merged");
    // What "one" leaves out goes, what "two" owns stays.
    let map = api.patch("c", &one, &config(json!({"a": "1"}))).await.expect("applied");
    let data = map.data.clone().expect("data");
    assert_eq!(data.keys().collect::<Vec<_>>(), ["a", "c"]);
    let managers: Vec<String> =
        map.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    assert_eq!(managers, ["two", "one"]);

    let (code, _, message) =
        refusal(api.patch("c", &two, &config(json!({"a": "3", "c": "2"}))).await);
    assert_eq!(
        (code, message.as_str()),
        (409, "Apply failed with 1 conflict: conflict with \"one\": .data.a")
    );
    let map = api
        .patch("c", &two.clone().force(), &config(json!({"a": "3", "c": "2"})))
        .await
        .expect("forced");
    assert_eq!(map.data.as_ref().and_then(|data| data.get("a")).map(String::as_str), Some("3"));

    // The same configuration again changes nothing.
    let again =
        api.patch("c", &two.force(), &config(json!({"a": "3", "c": "2"}))).await.expect("applied");
    assert_eq!(again.resource_version(), map.resource_version());
}

#[tokio::test]
async fn status_and_spec_are_separate() {
    let served = still().await;
    let api: Api<Deployment> = Api::namespaced(served.client.clone(), "default");
    let deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod_value("x")["spec"]},
        },
        "status": {"replicas": 9},
    }))
    .expect("a deployment");
    let created = api.create(&PostParams::default(), &deployment).await.expect("created");
    assert_eq!(created.status.as_ref().and_then(|status| status.replicas), None);
    assert_eq!(created.metadata.generation, Some(1));

    let both = Patch::Merge(json!({"spec": {"replicas": 5}, "status": {"replicas": 1}}));
    let after = api.patch_status("d", &PatchParams::default(), &both).await.expect("patched");
    assert_eq!(after.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    assert_eq!(after.status.as_ref().and_then(|status| status.replicas), Some(1));
    assert_eq!(after.metadata.generation, Some(1));

    let after = api.patch("d", &PatchParams::default(), &both).await.expect("patched");
    assert_eq!(after.spec.as_ref().and_then(|spec| spec.replicas), Some(5));
    assert_eq!(after.status.as_ref().and_then(|status| status.replicas), Some(1));
    assert_eq!(after.metadata.generation, Some(2));

    let scale = api
        .patch_scale("d", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 7}})))
        .await;
    assert_eq!(scale.expect("scaled").spec.and_then(|spec| spec.replicas), Some(7));
}

#[tokio::test]
async fn stale_replacements_conflict_and_idle_ones_take_no_version() {
    let served = still().await;
    let old = served.create_pod("a").await;
    let same = served.pods().replace("a", &PostParams::default(), &old).await.expect("replaced");
    assert_eq!(same.resource_version(), old.resource_version());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"x": "y"}}}));
    served.pods().patch("a", &PatchParams::default(), &patch).await.expect("patched");
    let (code, reason, message) =
        refusal(served.pods().replace("a", &PostParams::default(), &old).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.starts_with(
            "Operation cannot be fulfilled on pods \"a\": the object has been modified"
        )
    );
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let served = still().await;
    let before = served.cluster.store().resource_version();
    let pod = crate::served_cluster::pod("a");
    served
        .pods()
        .create(&PostParams { dry_run: true, ..PostParams::default() }, &pod)
        .await
        .expect("checked");
    assert_eq!(served.cluster.store().resource_version(), before);
}
