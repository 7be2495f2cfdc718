//! Pods from creation to their end: defaults, binding, eviction, hollow nodes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{
    Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions, WatchParams,
};
use kube_scheduler_devcluster::{
    DISRUPTION_BUDGETS, DevCluster, END_PHASE, FixedClock, HollowOptions, NodeTemplate, PODS,
    RUN_SECONDS,
};
use serde_json::json;

use crate::served_cluster::{next, pod, pod_value, refusal, still, watch, with};

#[tokio::test]
async fn a_pod_gets_its_defaults() {
    let clock = Arc::new(FixedClock::new("2030-01-02T03:04:05Z".parse().expect("a time")));
    let served = with(DevCluster::builder().hollow(None).clock(clock)).await;
    let mut value = pod_value("a");
    value["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    value["spec"]["priorityClassName"] = json!("system-node-critical");
    let pod: Pod = serde_json::from_value(value).expect("a pod");
    let pod = served.pods().create(&PostParams::default(), &pod).await.expect("created");
    let value = serde_json::to_value(&pod).expect("json");
    assert_eq!(value["metadata"]["creationTimestamp"], "2030-01-02T03:04:05Z");
    assert_eq!(value["metadata"]["generation"], 1);
    assert_eq!(value["status"]["phase"], "Pending");
    assert_eq!(value["status"]["qosClass"], "Guaranteed");
    let spec = &value["spec"];
    assert_eq!(spec["schedulerName"], "default-scheduler");
    assert_eq!(spec["priority"], 2_000_001_000);
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(
        spec["containers"][0]["resources"]["requests"],
        json!({"cpu": "1", "memory": "1Gi"})
    );
    let tolerated: Vec<&str> = spec["tolerations"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["key"].as_str())
        .collect();
    assert_eq!(tolerated, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
}

#[tokio::test]
async fn gates_show_in_the_status_and_can_only_go() {
    let served = still().await;
    let mut value = pod_value("a");
    value["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let pod: Pod = serde_json::from_value(value).expect("a pod");
    let pod = served.pods().create(&PostParams::default(), &pod).await.expect("created");
    let conditions = pod.status.clone().and_then(|status| status.conditions).expect("conditions");
    assert_eq!(conditions[0].reason.as_deref(), Some("SchedulingGated"));
    assert_eq!(refusal(served.bind("a", "node-1").await).0, 409);
    let add =
        Patch::Strategic(json!({"spec": {"schedulingGates": [{"name": "example.com/more"}]}}));
    assert_eq!(refusal(served.pods().patch("a", &PatchParams::default(), &add).await).0, 422);
    let clear = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    served.pods().patch("a", &PatchParams::default(), &clear).await.expect("cleared");
    served.bind("a", "node-1").await.expect("bound");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let served = still().await;
    let pod = served.create_pod("a").await;
    let stranger = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": "another"},
        "target": {"kind": "Node", "name": "node-1"},
    });
    let result: Result<kube::core::Status, _> =
        served.pods().create_subresource("binding", "a", &PostParams::default(), &stranger).await;
    assert_eq!(refusal(result).0, 409);
    served.bind("a", "node-1").await.expect("bound");
    let bound = served.pods().get("a").await.expect("there");
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("node-1"));
    let conditions = bound.status.and_then(|status| status.conditions).expect("conditions");
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].status.as_str()),
        ("PodScheduled", "True")
    );
    assert_eq!(bound.metadata.generation, pod.metadata.generation);

    let (code, _, message) = refusal(served.bind("a", "node-2").await);
    assert_eq!(code, 409);
    let expected = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"node-1\"";
    assert_eq!(message, expected);
    assert_eq!(refusal(served.bind("missing", "node-1").await).1, "NotFound");
    assert_eq!(refusal(served.bind("a", "").await).0, 422);
}

#[tokio::test]
async fn bound_pods_go_gracefully_and_others_at_once() {
    let served = still().await;
    served.create_pod("a").await;
    served.pods().delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(served.pods().get_opt("a").await.expect("answered").is_none());

    let pod = served.create_pod("b").await;
    served.bind("b", "node-1").await.expect("bound");
    let other = Preconditions { uid: Some("other".into()), resource_version: None };
    let result = served.pods().delete("b", &DeleteParams::default().preconditions(other)).await;
    assert_eq!(refusal(result.map(|_| ())).0, 409);
    let own = Preconditions { uid: pod.uid(), resource_version: None };
    served
        .pods()
        .delete("b", &DeleteParams::default().preconditions(own))
        .await
        .expect("asked to go");
    let going = served.pods().get("b").await.expect("still there");
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(going.metadata.generation, Some(2));
    served.pods().delete("b", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    assert!(served.pods().get_opt("b").await.expect("answered").is_none());
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let served = still().await;
    let mut value = pod_value("a");
    value["metadata"]["finalizers"] = json!(["example.com/hold"]);
    served.cluster.create(value).expect("created");
    served.pods().delete("a", &DeleteParams::default()).await.expect("asked to go");
    assert!(served.pods().get("a").await.expect("held").metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    served.pods().patch("a", &PatchParams::default(), &release).await.expect("released");
    assert!(served.pods().get_opt("a").await.expect("answered").is_none());
}

#[tokio::test]
async fn hollow_nodes_run_finish_and_remove_pods() {
    let served = with(DevCluster::builder()).await;
    let nodes = served
        .cluster
        .add_hollow_nodes(4, &NodeTemplate::default().zones(2).label("pool", "a"))
        .expect("added");
    assert_eq!(nodes[1].label("topology.kubernetes.io/zone"), Some("zone-2"));
    assert_eq!(nodes[3].name(), "hollow-00003");
    let mut value = pod_value("job");
    value["metadata"]["annotations"] = json!({(RUN_SECONDS): "0"});
    served.cluster.create(value).expect("created");
    served.create_pod("web").await;

    let mut events =
        watch(&served.pods(), &WatchParams::default().fields("status.phase=Running"), "").await;
    served.bind("web", "hollow-00000").await.expect("bound");
    assert_eq!(next(&mut events).await, "ADDED web");
    let web = served.pods().get("web").await.expect("there");
    let status = web.status.expect("a status");
    assert_eq!(status.host_ip.as_deref(), Some("10.0.0.1"));
    assert!(status.pod_ip.is_some_and(|address| address.starts_with("10.128.")));
    assert!(
        status
            .container_statuses
            .is_some_and(|statuses| statuses.iter().all(|status| status.ready))
    );

    served.pods().delete("web", &DeleteParams::default()).await.expect("asked to go");
    assert_eq!(next(&mut events).await, "MODIFIED web");
    assert_eq!(next(&mut events).await, "DELETED web");

    let mut done =
        watch(&served.pods(), &WatchParams::default().fields("status.phase=Succeeded"), "").await;
    served.bind("job", "hollow-00001").await.expect("bound");
    assert_eq!(next(&mut done).await, "ADDED job");

    let mut value = pod_value("crash");
    value["metadata"]["annotations"] = json!({(RUN_SECONDS): "0", (END_PHASE): "Failed"});
    served.cluster.create(value).expect("created");
    let mut failed =
        watch(&served.pods(), &WatchParams::default().fields("status.phase=Failed"), "").await;
    served.bind("crash", "hollow-00001").await.expect("bound");
    assert_eq!(next(&mut failed).await, "ADDED crash");
    served.cluster.shutdown().await.expect("stops");
}

#[tokio::test]
async fn foreign_nodes_become_ready() {
    let options = HollowOptions::default();
    let served = with(DevCluster::builder().hollow(Some(options))).await;
    let mut events = watch(&served.nodes(), &WatchParams::default(), "0").await;
    served
        .cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"},
            "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        }))
        .expect("created");
    assert_eq!(next(&mut events).await, "ADDED own");
    assert_eq!(next(&mut events).await, "MODIFIED own");
    let node = served.nodes().get("own").await.expect("there");
    let status = node.status.expect("a status");
    assert_eq!(status.allocatable, status.capacity);
    assert!(
        status.conditions.is_some_and(|list| list
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True"))
    );
}

#[tokio::test]
async fn a_node_offers_its_capacity_unless_it_says_otherwise() {
    let served = still().await;
    let node = |status| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status});
    let offered = |node: &serde_json::Value| node["status"]["allocatable"].clone();
    let put = async |path: &str, status| {
        served.raw("PUT", path, "application/json", &node(status)).await.expect("replaced")
    };
    served
        .raw("POST", "/api/v1/nodes", "application/json", &node(json!({"capacity": {"cpu": "1"}})))
        .await
        .expect("created");
    let (main, status) = ("/api/v1/nodes/a", "/api/v1/nodes/a/status");
    assert_eq!(offered(&served.get(main).await), json!({"cpu": "1"}));
    assert_eq!(offered(&put(main, json!({"capacity": {"cpu": "2"}})).await), json!({"cpu": "1"}));
    assert_eq!(offered(&put(status, json!({"capacity": {"cpu": "2"}})).await), json!({"cpu": "2"}));
    let less = json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}});
    assert_eq!(offered(&put(status, less).await), json!({"cpu": "3"}));
    let removed = json!({"status": {"capacity": {"cpu": "5"}, "allocatable": null}});
    let node = served
        .nodes()
        .patch_status("a", &PatchParams::default(), &Patch::Merge(removed))
        .await
        .expect("patched");
    assert_eq!(offered(&serde_json::to_value(node).expect("json")), json!({"cpu": "5"}));
}

#[tokio::test]
async fn a_budget_refuses_evictions_it_cannot_afford() {
    let served = with(DevCluster::builder()).await;
    served.cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    let (_, mut budgets) =
        served.cluster.list_and_watch(DISRUPTION_BUDGETS, Default::default()).expect("watching");
    served
        .cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "two"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}},
        }))
        .expect("created");
    let mut running =
        watch(&served.pods(), &WatchParams::default().fields("status.phase=Running"), "").await;
    for name in ["a", "b", "c"] {
        let mut value = pod_value(name);
        value["metadata"]["labels"] = json!({"app": "x"});
        served.cluster.create(value).expect("created");
        served.bind(name, "hollow-00000").await.expect("bound");
        assert_eq!(next(&mut running).await, format!("ADDED {name}"));
    }
    // The status follows without being asked.
    loop {
        let batch = budgets.next().await.expect("watching");
        if batch.iter().any(|event| event.object.value()["status"]["disruptionsAllowed"] == 1) {
            break;
        }
    }
    served.pods().evict("a", &EvictParams::default()).await.expect("affordable");
    let (code, reason, message) = refusal(served.pods().evict("b", &EvictParams::default()).await);
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(refusal(served.pods().evict("nobody", &EvictParams::default()).await).0, 404);
}

/// Such a pod is not what a budget keeps, if enough others are healthy or the budget says so.
#[tokio::test]
async fn who_is_not_ready_is_evicted_without_a_budget() {
    let served = with(DevCluster::builder()).await;
    let create = |value| served.cluster.create(value).expect("created");
    for (app, least, policy, goes) in [
        ("enough", 1, "IfHealthyBudget", true),
        ("too-few", 2, "IfHealthyBudget", false),
        ("always", 2, "AlwaysAllow", true),
    ] {
        for (kind, ready) in [("ready", "True"), ("starting", "False")] {
            let name = format!("{kind}-{app}");
            let mut value = pod_value(&name);
            value["metadata"]["labels"] = json!({"app": app});
            value["spec"]["nodeName"] = "elsewhere".into();
            create(value);
            let ready = json!({"type": "Ready", "status": ready});
            let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
            let patch = Patch::Merge(status);
            served
                .pods()
                .patch_status(&name, &PatchParams::default(), &patch)
                .await
                .expect("patched");
        }
        create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {
                "minAvailable": least, "unhealthyPodEvictionPolicy": policy, "selector": {"matchLabels": {"app": app}},
            },
        }));
        let evict = async |kind: &str| {
            served.pods().evict(&format!("{kind}-{app}"), &EvictParams::default()).await
        };
        assert_eq!(refusal(evict("ready").await).0, 429);
        let evicted = evict("starting").await;
        assert_eq!(evicted.is_ok(), goes, "{app}: {evicted:?}");
    }
}

/// The eviction API looks for no budgets of a pod without labels, though an empty selector selects it.
#[tokio::test]
async fn who_has_no_labels_is_evicted_whatever_budgets_say() {
    let served = with(DevCluster::builder()).await;
    let create = |value| served.cluster.create(value).expect("created");
    for (name, labels) in [("labelled", json!({"app": "x"})), ("plain", json!({}))] {
        let mut value = pod_value(name);
        value["metadata"]["labels"] = labels;
        value["spec"]["nodeName"] = "elsewhere".into();
        create(value);
        let ready = json!({"type": "Ready", "status": "True"});
        let patch = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
        served.pods().patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
    }
    create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"minAvailable": 2, "selector": {}},
    }));
    let evict = async |name: &str| served.pods().evict(name, &EvictParams::default()).await;
    assert_eq!(refusal(evict("labelled").await).0, 429);
    evict("plain").await.expect("evicted");
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let served = with(DevCluster::builder()).await;
    served.cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    served
        .cluster
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}}))
        .expect("created");
    let in_gone: Api<Pod> = Api::namespaced(served.client.clone(), "gone");
    let mut stray = pod("a");
    stray.metadata.namespace = Some("gone".into());
    stray.spec.as_mut().expect("a spec").node_name = Some("hollow-00000".into());
    in_gone.create(&PostParams::default(), &stray).await.expect("created");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(served.client.clone());
    let mut events =
        watch(&namespaces, &WatchParams::default().fields("metadata.name=gone"), "").await;
    assert_eq!(next(&mut events).await, "ADDED gone");
    namespaces.delete("gone", &DeleteParams::default()).await.expect("asked to go");
    loop {
        let event = next(&mut events).await;
        if event == "DELETED gone" {
            break;
        }
        assert_eq!(event, "MODIFIED gone");
    }
    assert_eq!(served.cluster.store().count(PODS), 0);
    assert_eq!(refusal(in_gone.create(&PostParams::default(), &stray).await).0, 404);
}

#[tokio::test]
async fn state_survives_in_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.jsonl");
    let builder = DevCluster::builder().hollow(None).persist(&path, Duration::from_secs(3600));
    let served = with(builder.clone()).await;
    let pod = served.create_pod("a").await;
    let version = served.cluster.store().resource_version();
    served.cluster.shutdown().await.expect("saved");

    let served = with(builder.clone()).await;
    assert_eq!(served.pods().get("a").await.expect("there"), pod);
    assert_eq!(served.cluster.store().resource_version(), version);
    // Versions from before the restart cannot be resumed from, since the history is not saved.
    let mut events = watch(&served.pods(), &WatchParams::default(), "2").await;
    assert_eq!(next(&mut events).await, "ERROR 410");
    served.cluster.shutdown().await.expect("saved");

    std::fs::write(&path, "{\"format\":\"devcluster/1\",\"resourceVersion\":5}\n{\"kind\":")
        .expect("written");
    let error = builder.start().await.err().expect("a damaged file is refused");
    assert!(error.to_string().contains("line 2"), "{error}");
}
