//! The stock kube-scheduler does what answers say: pod by pod, `explain` is asked first, and then the pod is created.
//!
//! Played where the directory of `KUBEBUILDER_ASSETS` has a `kube-scheduler` beside the API server.

use std::path::Path;
use std::process::Command;

use kube_scheduler_devcluster::User;
use kube_scheduler_tests::control_plane::{Assets, Features, Process, ServerOptions};
use serde_json::{Value, json};

use crate::PROGRAM;
use crate::cluster::{Backend, Cluster};
use crate::objects::{
    asking, gpu_class_and_template, gpus, node_in, one_gpu, pod, priority_class, with,
};
use crate::wait::until;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_scheduler_does_what_answers_say() {
    let Some(stock) = Assets::from_environment().unwrap().and_then(|assets| {
        let scheduler = assets.scheduler()?;
        Some((assets, scheduler))
    }) else {
        eprintln!("skipped: KUBEBUILDER_ASSETS names no directory with a kube-scheduler");
        return;
    };
    let (assets, scheduler) = stock;
    let options = ServerOptions { audits: false, features: Features::Default };
    let backend = Backend::Real(assets);
    let cluster = Cluster::start_bare(&backend, Path::new(PROGRAM), options).await.unwrap();
    populate(&cluster).await;
    let kubeconfig = format!("--kubeconfig={}", cluster.scheduler_kubeconfig().display());
    let args = [&kubeconfig, "--leader-elect=false", "--secure-port=0"];
    let log = cluster.files().join("stock.log");
    let _running = Process::start(&scheduler, args, &log).unwrap();

    let (mut n_bound, mut n_pending) = (0, 0);
    for pod in pods() {
        let foreseen = explain(&cluster, &pod).await;
        cluster.api().create(&pod).await.unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap();
        match outcome(&cluster, name).await {
            Outcome::Bound(node) => {
                n_bound += 1;
                let nodes = foreseen["feasible"].as_array().into_iter().flatten();
                let best: Vec<&Value> =
                    nodes.filter(|node| node["best"] == true).map(|node| &node["node"]).collect();
                assert!(best.contains(&&json!(node)), "{name} is on {node}, not on {best:?}");
            }
            Outcome::Unschedulable(message) => {
                n_pending += 1;
                assert_eq!(foreseen["message"], json!(message), "{name}");
            }
        }
    }
    eprintln!("{n_bound} pods bound to a best node, {n_pending} pending with the text foreseen");
}

/// Nodes and devices that differ in what plugins look at.
async fn populate(cluster: &Cluster) {
    let api = cluster.api();
    let taint = |key: &str, effect: &str| json!([{"key": key, "value": "x", "effect": effect}]);
    let allocatable = |more: Value| json!({"status": {"allocatable": more, "capacity": more}});
    let image = json!([{"names": ["registry/large:1"], "sizeBytes": 900_000_000}]);
    let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
    api.create_all([
        with(node_in("a-1", "a"), json!({"status": {"images": image}})),
        with(node_in("a-2", "a"), allocatable(json!({"cpu": "2"}))),
        with(node_in("b-1", "b"), ssd.clone()),
        with(node_in("b-2", "b"), allocatable(json!({"memory": "4Gi"}))),
        with(node_in("c-1", "c"), json!({"spec": {"taints": taint("dedicated", "NoSchedule")}})),
        with(
            with(node_in("c-2", "c"), ssd),
            json!({"spec": {"taints": taint("soft", "PreferNoSchedule")}}),
        ),
        with(node_in("d-1", "d"), json!({"spec": {"unschedulable": true}})),
        with(node_in("e-1", "e"), allocatable(json!({"example.com/fpga": "2"}))),
    ])
    .await
    .unwrap();
    api.create_all([priority_class("high", 1000), priority_class("low", -5)]).await.unwrap();
    api.create_all(gpu_class_and_template()).await.unwrap();
    api.create_all([gpus("a-1", 1), gpus("b-1", 2)]).await.unwrap();
    for name in ["one", "two", "three", "four"] {
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name}, "spec": one_gpu()});
        api.create(&claim).await.unwrap();
    }
}

/// In this order: each finds those before it.
fn pods() -> Vec<Value> {
    let selecting = |key: &str, value: &str| json!({"spec": {"nodeSelector": {key: value}}});
    let tolerating =
        |key: &str| json!({"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}});
    let mut pods: Vec<Value> =
        (0..6).map(|i| asking(&format!("plain-{i}"), &format!("{}m", 100 + 150 * i))).collect();
    pods.extend([
        with(pod("ssd"), selecting("disk", "ssd")),
        with(with(pod("ssd-too"), selecting("disk", "ssd")), tolerating("soft")),
        with(pod("tape"), selecting("disk", "tape")),
        with(pod("tolerant"), tolerating("dedicated")),
        with(pod("intolerant"), selecting(HOSTNAME, "c-1")),
        with(pod("cordoned"), selecting(HOSTNAME, "d-1")),
        asking("huge", "9"),
        requesting("fpga", "example.com/fpga", "1"),
        requesting("fpgas", "example.com/fpga", "3"),
        requesting("unknown", "example.com/unknown", "1"),
        requesting("large", "memory", "200Gi"),
        requesting("storage", "ephemeral-storage", "90Gi"),
    ]);
    let mut large = pod("large-image");
    large["spec"]["containers"][0]["image"] = "registry/large:1".into();
    pods.push(large);
    pods.extend(
        (0..5).map(|i| with(labelled(&format!("web-{i}"), "web"), spread("DoNotSchedule", "web"))),
    );
    pods.extend(
        (0..3).map(|i| {
            with(labelled(&format!("soft-{i}"), "soft"), spread("ScheduleAnyway", "soft"))
        }),
    );
    pods.extend((0..6).map(|i| {
        with(labelled(&format!("db-{i}"), "db"), required("podAntiAffinity", "db", ZONE))
    }));
    pods.extend([
        with(pod("near-db"), required("podAffinity", "db", HOSTNAME)),
        with(pod("near-none"), required("podAffinity", "none", HOSTNAME)),
        with(pod("rather-near-web"), preferred("podAffinity", "web", ZONE)),
        with(pod("rather-not-near-web"), preferred("podAntiAffinity", "web", HOSTNAME)),
        with(labelled("own", "own"), required("podAffinity", "own", ZONE)),
        with(labelled("own-too", "own"), required("podAffinity", "own", ZONE)),
    ]);
    pods.extend((0..3).map(|i| {
        let mut pod = with(pod(&format!("port-{i}")), selecting(ZONE, "b"));
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        pod
    }));
    let low = json!({"spec": {"priorityClassName": "low"}});
    pods.extend((0..10).map(|i| with(asking(&format!("fill-{i}"), "1500m"), low.clone())));
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    pods.push(with(pod("volume"), json!({"spec": {"volumes": volume}})));
    pods.extend(["one", "one", "two", "three", "four"].iter().enumerate().map(|(at, claim)| {
        let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
        with(asking(&format!("device-{at}"), "1m"), json!({"spec": {"resourceClaims": claims}}))
    }));
    // Last, since it may push out one of several.
    pods.push(with(asking("urgent", "1500m"), json!({"spec": {"priorityClassName": "high"}})));
    pods
}

fn requesting(name: &str, resource: &str, amount: &str) -> Value {
    let mut pod = pod(name);
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["requests"][resource] = amount.into();
    resources["limits"][resource] = amount.into();
    pod
}

fn labelled(name: &str, app: &str) -> Value {
    with(pod(name), json!({"metadata": {"labels": {"app": app}}}))
}

fn spread(when: &str, app: &str) -> Value {
    json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": app}}}]}})
}

fn required(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

fn preferred(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    let weighted = json!([{"weight": 50, "podAffinityTerm": term}]);
    json!({"spec": {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}})
}

/// What our program says about a pod that does not exist yet, with the rights of the administrator.
async fn explain(cluster: &Cluster, pod: &Value) -> Value {
    let kubeconfig = cluster.files().join("administrator.conf");
    let text = cluster.kubeconfig_for(&User::administrator()).await.unwrap();
    std::fs::write(&kubeconfig, text).unwrap();
    let manifest = cluster.files().join("pod.json");
    std::fs::write(&manifest, pod.to_string()).unwrap();
    let mut command = Command::new(cluster.program());
    command.args(["explain", "--output=json", "--pods"]).arg(manifest);
    command.arg("--kubeconfig").arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"))
}

/// What became of a pod's first attempt.
enum Outcome {
    /// It is on this node.
    Bound(String),
    /// It fits nowhere, with this text.
    Unschedulable(String),
}

async fn outcome(cluster: &Cluster, name: &str) -> Outcome {
    let mut outcome = None;
    until(&format!("a decision about {name}"), async || {
        let pod = cluster.api().get("Pod", name).await.unwrap().unwrap_or_default();
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            outcome = Some(Outcome::Bound(node.to_owned()));
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        for condition in conditions.filter(|condition| condition["reason"] == "Unschedulable") {
            let message = condition["message"].as_str().unwrap_or_default();
            outcome.get_or_insert_with(|| Outcome::Unschedulable(message.to_owned()));
        }
        outcome.is_some()
    })
    .await;
    outcome.expect("waited for")
}
