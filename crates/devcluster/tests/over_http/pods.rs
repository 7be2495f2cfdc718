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

use crate::world::{next, pod, pod_value, refusal, still, watch, with};

#[tokio::test]
async fn a_pod_gets_its_defaults() {
    let clock = Arc::new(FixedClock::new("2030-01-02T03:04:05Z".parse().expect("a time")));
    let world = with(DevCluster::builder().hollow(None).clock(clock)).await;
    let mut value = pod_value("a");
    value["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    value["spec"]["priorityClassName"] = json!("system-node-critical");
    let pod: Pod = serde_json::from_value(value).expect("a pod");
    let pod = world.pods().create(&PostParams::default(), &pod).await.expect("created");
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
    let world = still().await;
    let mut value = pod_value("a");
    value["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let pod: Pod = serde_json::from_value(value).expect("a pod");
    let pod = world.pods().create(&PostParams::default(), &pod).await.expect("created");
    let conditions = pod.status.clone().and_then(|status| status.conditions).expect("conditions");
    assert_eq!(conditions[0].reason.as_deref(), Some("SchedulingGated"));
    assert_eq!(refusal(world.bind("a", "node-1").await).0, 409);
    let add =
        Patch::Strategic(json!({"spec": {"schedulingGates": [{"name": "example.com/more"}]}}));
    assert_eq!(refusal(world.pods().patch("a", &PatchParams::default(), &add).await).0, 422);
    let clear = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    world.pods().patch("a", &PatchParams::default(), &clear).await.expect("cleared");
    world.bind("a", "node-1").await.expect("bound");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = still().await;
    let pod = world.create_pod("a").await;
    let stranger = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": "another"},
        "target": {"kind": "Node", "name": "node-1"},
    });
    let result: Result<kube::core::Status, _> =
        world.pods().create_subresource("binding", "a", &PostParams::default(), &stranger).await;
    assert_eq!(refusal(result).0, 409);
    world.bind("a", "node-1").await.expect("bound");
    let bound = world.pods().get("a").await.expect("there");
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("node-1"));
    let conditions = bound.status.and_then(|status| status.conditions).expect("conditions");
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].status.as_str()),
        ("PodScheduled", "True")
    );
    assert_eq!(bound.metadata.generation, pod.metadata.generation);

    let (code, _, message) = refusal(world.bind("a", "node-2").await);
    assert_eq!(code, 409);
    let expected = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"node-1\"";
    assert_eq!(message, expected);
    assert_eq!(refusal(world.bind("missing", "node-1").await).1, "NotFound");
    assert_eq!(refusal(world.bind("a", "").await).0, 422);
}

#[tokio::test]
async fn bound_pods_go_gracefully_and_others_at_once() {
    let world = still().await;
    world.create_pod("a").await;
    world.pods().delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(world.pods().get_opt("a").await.expect("answered").is_none());

    let pod = world.create_pod("b").await;
    world.bind("b", "node-1").await.expect("bound");
    let other = Preconditions { uid: Some("other".into()), resource_version: None };
    let result = world.pods().delete("b", &DeleteParams::default().preconditions(other)).await;
    assert_eq!(refusal(result.map(|_| ())).0, 409);
    let own = Preconditions { uid: pod.uid(), resource_version: None };
    world
        .pods()
        .delete("b", &DeleteParams::default().preconditions(own))
        .await
        .expect("asked to go");
    let going = world.pods().get("b").await.expect("still there");
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(going.metadata.generation, Some(2));
    world.pods().delete("b", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    assert!(world.pods().get_opt("b").await.expect("answered").is_none());
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let world = still().await;
    let mut value = pod_value("a");
    value["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.cluster.create(value).expect("created");
    world.pods().delete("a", &DeleteParams::default()).await.expect("asked to go");
    assert!(world.pods().get("a").await.expect("held").metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    world.pods().patch("a", &PatchParams::default(), &release).await.expect("released");
    assert!(world.pods().get_opt("a").await.expect("answered").is_none());
}

#[tokio::test]
async fn hollow_nodes_run_finish_and_remove_pods() {
    let world = with(DevCluster::builder()).await;
    let nodes = world
        .cluster
        .add_hollow_nodes(4, &NodeTemplate::default().zones(2).label("pool", "a"))
        .expect("added");
    assert_eq!(nodes[1].label("topology.kubernetes.io/zone"), Some("zone-2"));
    assert_eq!(nodes[3].name(), "hollow-00003");
    let mut value = pod_value("job");
    value["metadata"]["annotations"] = json!({(RUN_SECONDS): "0"});
    world.cluster.create(value).expect("created");
    world.create_pod("web").await;

    let mut events =
        watch(&world.pods(), &WatchParams::default().fields("status.phase=Running"), "").await;
    world.bind("web", "hollow-00000").await.expect("bound");
    assert_eq!(next(&mut events).await, "ADDED web");
    let web = world.pods().get("web").await.expect("there");
    let status = web.status.expect("a status");
    assert_eq!(status.host_ip.as_deref(), Some("10.0.0.1"));
    assert!(status.pod_ip.is_some_and(|address| address.starts_with("10.128.")));
    assert!(
        status
            .container_statuses
            .is_some_and(|statuses| statuses.iter().all(|status| status.ready))
    );

    world.pods().delete("web", &DeleteParams::default()).await.expect("asked to go");
    assert_eq!(next(&mut events).await, "MODIFIED web");
    assert_eq!(next(&mut events).await, "DELETED web");

    let mut done =
        watch(&world.pods(), &WatchParams::default().fields("status.phase=Succeeded"), "").await;
    world.bind("job", "hollow-00001").await.expect("bound");
    assert_eq!(next(&mut done).await, "ADDED job");

    let mut value = pod_value("crash");
    value["metadata"]["annotations"] = json!({(RUN_SECONDS): "0", (END_PHASE): "Failed"});
    world.cluster.create(value).expect("created");
    let mut failed =
        watch(&world.pods(), &WatchParams::default().fields("status.phase=Failed"), "").await;
    world.bind("crash", "hollow-00001").await.expect("bound");
    assert_eq!(next(&mut failed).await, "ADDED crash");
    world.cluster.shutdown().await.expect("stops");
}

#[tokio::test]
async fn foreign_nodes_become_ready() {
    let options = HollowOptions::default();
    let world = with(DevCluster::builder().hollow(Some(options))).await;
    let mut events = watch(&world.nodes(), &WatchParams::default(), "0").await;
    world
        .cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"},
            "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        }))
        .expect("created");
    assert_eq!(next(&mut events).await, "ADDED own");
    assert_eq!(next(&mut events).await, "MODIFIED own");
    let node = world.nodes().get("own").await.expect("there");
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
    let world = still().await;
    let node = |status| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status});
    let offered = |node: &serde_json::Value| node["status"]["allocatable"].clone();
    let put = async |path: &str, status| {
        world.raw("PUT", path, "application/json", &node(status)).await.expect("replaced")
    };
    world
        .raw("POST", "/api/v1/nodes", "application/json", &node(json!({"capacity": {"cpu": "1"}})))
        .await
        .expect("created");
    let (main, status) = ("/api/v1/nodes/a", "/api/v1/nodes/a/status");
    assert_eq!(offered(&world.get(main).await), json!({"cpu": "1"}));
    assert_eq!(offered(&put(main, json!({"capacity": {"cpu": "2"}})).await), json!({"cpu": "1"}));
    assert_eq!(offered(&put(status, json!({"capacity": {"cpu": "2"}})).await), json!({"cpu": "2"}));
    let less = json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}});
    assert_eq!(offered(&put(status, less).await), json!({"cpu": "3"}));
    let removed = json!({"status": {"capacity": {"cpu": "5"}, "allocatable": null}});
    let node = world
        .nodes()
        .patch_status("a", &PatchParams::default(), &Patch::Merge(removed))
        .await
        .expect("patched");
    assert_eq!(offered(&serde_json::to_value(node).expect("json")), json!({"cpu": "5"}));
}

#[tokio::test]
async fn a_budget_refuses_evictions_it_cannot_afford() {
    let world = with(DevCluster::builder()).await;
    world.cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    let (_, mut budgets) =
        world.cluster.list_and_watch(DISRUPTION_BUDGETS, Default::default()).expect("watching");
    world
        .cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "two"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}},
        }))
        .expect("created");
    let mut running =
        watch(&world.pods(), &WatchParams::default().fields("status.phase=Running"), "").await;
    for name in ["a", "b", "c"] {
        let mut value = pod_value(name);
        value["metadata"]["labels"] = json!({"app": "x"});
        world.cluster.create(value).expect("created");
        world.bind(name, "hollow-00000").await.expect("bound");
        assert_eq!(next(&mut running).await, format!("ADDED {name}"));
    }
    // The status follows without being asked.
    loop {
        let batch = budgets.next().await.expect("watching");
        if batch.iter().any(|event| event.object.value()["status"]["disruptionsAllowed"] == 1) {
            break;
        }
    }
    world.pods().evict("a", &EvictParams::default()).await.expect("affordable");
    let (code, reason, message) = refusal(world.pods().evict("b", &EvictParams::default()).await);
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(refusal(world.pods().evict("nobody", &EvictParams::default()).await).0, 404);
}

/// Such a pod is not what a budget keeps, if enough others are healthy or the budget says so.
#[tokio::test]
async fn who_is_not_ready_is_evicted_without_a_budget() {
    let world = with(DevCluster::builder()).await;
    let create = |value| world.cluster.create(value).expect("created");
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
            world
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
            world.pods().evict(&format!("{kind}-{app}"), &EvictParams::default()).await
        };
        assert_eq!(refusal(evict("ready").await).0, 429);
        let evicted = evict("starting").await;
        assert_eq!(evicted.is_ok(), goes, "{app}: {evicted:?}");
    }
}

/// The eviction API looks for no budgets of a pod without labels, though an empty selector selects it.
#[tokio::test]
async fn who_has_no_labels_is_evicted_whatever_budgets_say() {
    let world = with(DevCluster::builder()).await;
    let create = |value| world.cluster.create(value).expect("created");
    for (name, labels) in [("labelled", json!({"app": "x"})), ("plain", json!({}))] {
        let mut value = pod_value(name);
        value["metadata"]["labels"] = labels;
        value["spec"]["nodeName"] = "elsewhere".into();
        create(value);
        let ready = json!({"type": "Ready", "status": "True"});
        let patch = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
        world.pods().patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
    }
    create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"minAvailable": 2, "selector": {}},
    }));
    let evict = async |name: &str| world.pods().evict(name, &EvictParams::default()).await;
    assert_eq!(refusal(evict("labelled").await).0, 429);
    evict("plain").await.expect("evicted");
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let world = with(DevCluster::builder()).await;
    world.cluster.add_hollow_nodes(1, &NodeTemplate::default()).expect("added");
    world
        .cluster
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}}))
        .expect("created");
    let in_gone: Api<Pod> = Api::namespaced(world.client.clone(), "gone");
    let mut stray = pod("a");
    stray.metadata.namespace = Some("gone".into());
    stray.spec.as_mut().expect("a spec").node_name = Some("hollow-00000".into());
    in_gone.create(&PostParams::default(), &stray).await.expect("created");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client.clone());
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
    assert_eq!(world.cluster.store().count(PODS), 0);
    assert_eq!(refusal(in_gone.create(&PostParams::default(), &stray).await).0, 404);
}

#[tokio::test]
async fn state_survives_in_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.jsonl");
    let builder = DevCluster::builder().hollow(None).persist(&path, Duration::from_secs(3600));
    let world = with(builder.clone()).await;
    let pod = world.create_pod("a").await;
    let version = world.cluster.store().resource_version();
    world.cluster.shutdown().await.expect("saved");

    let world = with(builder.clone()).await;
    assert_eq!(world.pods().get("a").await.expect("there"), pod);
    assert_eq!(world.cluster.store().resource_version(), version);
    // Versions from before the restart cannot be resumed from, since the history is not saved.
    let mut events = watch(&world.pods(), &WatchParams::default(), "2").await;
    assert_eq!(next(&mut events).await, "ERROR 410");
    world.cluster.shutdown().await.expect("saved");

    std::fs::write(&path, "{\"format\":\"devcluster/1\",\"resourceVersion\":5}\n{\"kind\":")
        .expect("written");
    let error = builder.start().await.err().expect("a damaged file is refused");
    assert!(error.to_string().contains("line 2"), "{error}");
}
