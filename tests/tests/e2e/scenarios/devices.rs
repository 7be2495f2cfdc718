//! Pods with claims of devices: nothing is given twice, and nothing is kept by what is gone.

use std::cell::Cell;
use std::collections::BTreeMap;

use kube_scheduler_config::Gate;
use serde_json::{Value, json};

use super::extenders::bind;
use crate::cluster::Cluster;
use crate::extender::Extender;
use crate::objects::{gpu_class_and_template, gpus, nodes, one_gpu, pod, pod_with_gpu, with};
use crate::scheduler::{Program, Running};
use crate::wait::until;

/// Nodes with this many devices each.
async fn populate(cluster: &Cluster, n_nodes: usize, n_gpus: usize) {
    let api = cluster.api();
    api.create_all(nodes(n_nodes)).await.unwrap();
    api.create_all(gpu_class_and_template()).await.unwrap();
    api.create_all((0..n_nodes).map(|i| gpus(&format!("node-{i}"), n_gpus))).await.unwrap();
}

/// The device of a claim, as `pool/device`, and the pods it is reserved for.
fn allocated(claim: &Value) -> Option<(String, Vec<String>)> {
    let result = claim["status"]["allocation"]["devices"]["results"].get(0)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reserved = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    Some((
        format!("{}/{}", text(&result["pool"]), text(&result["device"])),
        reserved.map(|consumer| text(&consumer["uid"])).collect(),
    ))
}

/// No device belongs to two claims, and every bound pod has its device, on its node, reserved for it.
async fn check_devices(cluster: &Cluster) {
    let pods = cluster.api().list("Pod").await.unwrap();
    // Later than the pods: what a bound pod needs was written before its binding.
    let claims = cluster.api().list("ResourceClaim").await.unwrap();
    let mut owners: BTreeMap<String, &Value> = BTreeMap::new();
    for claim in &claims {
        if let Some((device, _)) = allocated(claim) {
            let other = owners.insert(device.clone(), &claim["metadata"]["name"]);
            assert_eq!(other, None, "{device} also belongs to {}", claim["metadata"]["name"]);
        }
    }
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()) {
        let name = &pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"];
        let claim = claims.iter().find(|claim| claim["metadata"]["name"] == *name);
        let (device, reserved) = claim.and_then(allocated).unwrap();
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        assert!(device.starts_with(&format!("{node}/")), "{device} on {node}");
        assert!(reserved.iter().any(|uid| pod["metadata"]["uid"] == **uid), "{pod:#}");
    }
}

/// Lets a pod that runs end, as its kubelet would.
async fn end(cluster: &Cluster, pod: &str) {
    until(&format!("{pod} runs"), async || {
        let pod = cluster.api().get("Pod", pod).await.unwrap().unwrap();
        pod["status"]["phase"] == "Running"
    })
    .await;
    let succeeded = json!({"status": {"phase": "Succeeded"}});
    cluster.api().patch("Pod", pod, "status", &succeeded).await.unwrap();
}

async fn until_no_claims(cluster: &Cluster) {
    until("no claims left", async || {
        cluster.api().list("ResourceClaim").await.is_ok_and(|claims| claims.is_empty())
    })
    .await;
}

pub(crate) async fn a_claim_comes_and_goes_with_its_pod(cluster: &Cluster) {
    let api = cluster.api();
    populate(cluster, 1, 1).await;
    let scheduler = Running::start(cluster).await;
    api.create(&pod_with_gpu("first")).await.unwrap();
    assert_eq!(cluster.node_of("first").await, "node-0");
    check_devices(cluster).await;
    let claim = &api.list("ResourceClaim").await.unwrap()[0];
    let finalizers = &claim["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["resource.kubernetes.io/delete-protection"]));

    api.create(&pod_with_gpu("second")).await.unwrap();
    let message = cluster.until_unschedulable("second").await;
    assert!(message.contains("cannot allocate all claims"), "{message}");
    // The device becomes free although the pod is not deleted.
    end(cluster, "first").await;
    assert_eq!(cluster.node_of("second").await, "node-0");
    check_second_has_the_device(cluster).await;
    api.delete("Pod", "second", Some(0)).await.unwrap();
    until_no_claims(cluster).await;
    scheduler.stop().await;
}

async fn check_second_has_the_device(cluster: &Cluster) {
    let claims = cluster.api().list("ResourceClaim").await.unwrap();
    let devices: Vec<_> = claims.iter().filter_map(allocated).collect();
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert_eq!(devices[0].0, "node-0/gpu-0");
}

pub(crate) async fn a_rule_takes_devices_away_and_gives_them_back(cluster: &Cluster) {
    let api = cluster.api();
    populate(cluster, 1, 1).await;
    let taint = json!({"key": "broken", "effect": "NoSchedule"});
    api.create(&json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}}))
        .await
        .unwrap();
    let scheduler = Running::start_with_gates(cluster, &[Gate::DRADeviceTaintRules]).await;
    api.create(&pod_with_gpu("waiting")).await.unwrap();
    let message = cluster.until_unschedulable("waiting").await;
    assert!(message.contains("cannot allocate all claims"), "{message}");
    api.delete("DeviceTaintRule", "broken", None).await.unwrap();
    assert_eq!(cluster.node_of("waiting").await, "node-0");
    check_devices(cluster).await;
    scheduler.stop().await;
}

pub(crate) async fn a_half_written_decision_is_taken_up(cluster: &Cluster) {
    let api = cluster.api();
    populate(cluster, 3, 1).await;
    let claim = |name: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "finalizers": ["resource.kubernetes.io/delete-protection"]},
            "spec": one_gpu()})
    };
    let using = |name: &str, claim: &str| {
        let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
        with(pod(name), json!({"spec": {"resourceClaims": claims}}))
    };
    // One scheduler ended between finalizer and allocation, one between allocation and binding, one after the binding.
    for (pod, own) in [("early", "early"), ("late", "late"), ("done", "done")] {
        api.create(&claim(own)).await.unwrap();
        api.create(&using(pod, own)).await.unwrap();
    }
    for (name, node) in [("late", "node-1"), ("done", "node-2")] {
        let pod = api.get("Pod", name).await.unwrap().unwrap();
        let selector = json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]}]}]});
        let status = json!({"status": {
            "allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.example.com",
                "pool": node, "device": "gpu-0"}]}, "nodeSelector": selector},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
        }});
        api.patch("ResourceClaim", name, "status", &status).await.unwrap();
    }
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "done"},
        "target": {"kind": "Node", "name": "node-2"}});
    let path = "/api/v1/namespaces/default/pods/done/binding";
    api.send("POST", path, Some(&binding), "application/json").await.unwrap();

    let scheduler = Running::start(cluster).await;
    assert_eq!(cluster.node_of("late").await, "node-1");
    assert_eq!(cluster.node_of("early").await, "node-0");
    assert_eq!(cluster.node_of("done").await, "node-2");
    let claims = api.list("ResourceClaim").await.unwrap();
    let mut devices: Vec<String> =
        claims.iter().filter_map(allocated).map(|(device, _)| device).collect();
    devices.sort();
    assert_eq!(devices, ["node-0/gpu-0", "node-1/gpu-0", "node-2/gpu-0"]);
    for claim in &claims {
        let reserved = claim["status"]["reservedFor"].as_array().unwrap();
        assert_eq!(reserved.len(), 1, "{claim:#}");
        assert_eq!(reserved[0]["name"], claim["metadata"]["name"]);
        // They have no owner, so the scenario deletes them itself.
        api.delete("Pod", claim["metadata"]["name"].as_str().unwrap(), Some(0)).await.unwrap();
        api.delete("ResourceClaim", claim["metadata"]["name"].as_str().unwrap(), None)
            .await
            .unwrap();
    }
    until_no_claims(cluster).await;
    scheduler.stop().await;
}

pub(crate) async fn killed_schedulers_leave_no_device_behind(cluster: &Cluster) {
    /// As many as there are devices, so that all of them are bound only if none is lost.
    const PODS: usize = 60;
    let slow =
        ["--kube-api-qps=100", "--kube-api-burst=1", "--secure-port=0", "--leader-elect=false"];
    let api = cluster.api();
    populate(cluster, 4, PODS / 4).await;
    api.create_all((0..PODS).map(|i| pod_with_gpu(&format!("p-{i}")))).await.unwrap();
    for (round, goal) in [10, 30].into_iter().enumerate() {
        let process = Program::start(cluster, &format!("devices-{round}"), &slow).unwrap();
        until("some pods bound", async || cluster.n_bound().await >= goal).await;
        process.kill();
        check_devices(cluster).await;
    }
    let scheduler = Running::start(cluster).await;
    cluster.until_bound(PODS).await;
    check_devices(cluster).await;
    for i in 0..PODS {
        api.delete("Pod", &format!("p-{i}"), Some(0)).await.unwrap();
    }
    until_no_claims(cluster).await;
    scheduler.stop().await;
}

/// A scheduler has written the claim of a pod and asked an extender to bind it; the extender has done so, or not yet, when
/// the scheduler is killed, and the pod is there when the next one starts, or not any more.
pub(crate) async fn a_scheduler_is_killed_between_claim_and_binding(cluster: &Cluster) {
    populate(cluster, 2, 1).await;
    for is_bound in [false, true] {
        for is_deleted in [false, true] {
            kill_while_binding(cluster, is_bound, is_deleted).await;
        }
    }
}

async fn kill_while_binding(cluster: &Cluster, is_bound: bool, is_deleted: bool) {
    let api = cluster.api();
    let extender = Extender::listen().await;
    let config = extender.config(json!({"bindVerb": "bind"}));
    let scheduler = Program::start_configured(cluster, "killed", &config, "").unwrap();
    api.create(&pod_with_gpu("held")).await.unwrap();
    let asked = Cell::new(false);
    let answer = async |_: &str, question: &Value| {
        if is_bound {
            bind(api, question).await?;
        }
        asked.set(true);
        Ok(None)
    };
    tokio::select! {
        () = extender.serve(answer) => panic!("the extender has ended"),
        () = until("the pod is to be bound", async || asked.get()) => {}
    }
    scheduler.kill();
    let claims = api.list("ResourceClaim").await.unwrap();
    let (device, reserved) = claims.first().and_then(allocated).unwrap();
    assert_eq!((claims.len(), reserved.len()), (1, 1), "{claims:#?}");
    assert_eq!(cluster.placements().await["held"].is_some(), is_bound);
    check_devices(cluster).await;
    if is_deleted {
        api.delete("Pod", "held", Some(0)).await.unwrap();
    }

    // There are two devices, so that one pod waits exactly if nothing was lost and nothing given twice.
    let scheduler = Running::start(cluster).await;
    let others = if is_deleted { ["first", "second"] } else { ["held", "second"] };
    if is_deleted {
        api.create(&pod_with_gpu("first")).await.unwrap();
    }
    api.create(&pod_with_gpu("second")).await.unwrap();
    let mut used: Vec<String> = Vec::new();
    for pod in others {
        used.push(cluster.node_of(pod).await);
    }
    if !is_deleted {
        assert!(device.starts_with(&format!("{}/", used[0])), "{device} and {used:?}");
    }
    used.sort();
    assert_eq!(used, ["node-0", "node-1"]);
    api.create(&pod_with_gpu("third")).await.unwrap();
    cluster.until_unschedulable("third").await;
    check_devices(cluster).await;
    for pod in others.iter().chain(&["third"]) {
        api.delete("Pod", pod, Some(0)).await.unwrap();
    }
    until_no_claims(cluster).await;
    scheduler.stop().await;
}

/// A pod that asks for devices as for any resource: the scheduler makes the claim itself.
pub(crate) async fn a_claim_is_made_for_an_extended_resource(cluster: &Cluster) {
    const RESOURCE: &str = "example.com/gpu";
    let api = cluster.api();
    populate(cluster, 2, 1).await;
    let resource = json!({"spec": {"extendedResourceName": RESOURCE}});
    api.patch("DeviceClass", "gpu", "", &resource).await.unwrap();
    let asking = |name: &str| {
        let mut pod = pod(name);
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        resources["requests"][RESOURCE] = "1".into();
        resources["limits"][RESOURCE] = "1".into();
        pod
    };
    let scheduler = Running::start(cluster).await;
    for name in ["first", "second"] {
        api.create(&asking(name)).await.unwrap();
        let node = cluster.node_of(name).await;
        let pod = api.get("Pod", name).await.unwrap().unwrap();
        let status = &pod["status"]["extendedResourceClaimStatus"];
        let mapping = &status["requestMappings"][0];
        assert_eq!(mapping["containerName"], "main", "{pod:#}");
        assert_eq!(mapping["resourceName"], RESOURCE, "{pod:#}");
        let claim = status["resourceClaimName"].as_str().unwrap();
        let claim = api.get("ResourceClaim", claim).await.unwrap().unwrap();
        let (device, reserved) = allocated(&claim).unwrap();
        assert_eq!(device, format!("{node}/gpu-0"));
        assert_eq!(json!(reserved), json!([pod["metadata"]["uid"]]));
    }
    api.create(&asking("third")).await.unwrap();
    cluster.until_unschedulable("third").await;
    assert_eq!(api.list("ResourceClaim").await.unwrap().len(), 2);
    api.delete("Pod", "first", Some(0)).await.unwrap();
    cluster.node_of("third").await;
    for name in ["second", "third"] {
        api.delete("Pod", name, Some(0)).await.unwrap();
    }
    until_no_claims(cluster).await;
    scheduler.stop().await;
}
