//! Questions to a scheduler that runs: at its secure port, through an API server where it is registered, and not at all.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::assisting::Assistant;
use crate::cluster::{Cluster, DEADLINE, Process, ReservedPort};
use crate::{Files, run, stderr, stdout};

const SMALL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: default}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]}
";

/// An authority that has signed nothing here.
const FOREIGN_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBfzCCASWgAwIBAgIUH/WA/6cnRSwfAenLAR0asjlmj04wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJZWxzZXdoZXJlMCAXDTI2MTEyNDA3MjgxMVoYDzIxMjYxMDMx
MDcyODExWjAUMRIwEAYDVQQDDAllbHNld2hlcmUwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAS9yLv9CxyhRMZKTip1ogpsSjw/IpEj1bSJXREXhhG6VmVYQFdFgrpc
xJhcVhIItYqpFYgFxmETEL/NW6tRrNfNo1MwUTAdBgNVHQ4EFgQUHJ9mS0Ro1bLY
fBPigB0fCn38w24wHwYDVR0jBBgwFoAUHJ9mS0Ro1bLYfBPigB0fCn38w24wDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAuBvyfO1XTV1EM0uvvx0uB
E/RnAFVf1g5Ak74qkVlIyQIhAKY1vIS9c6yqdGWmOHb8UYYtn1eYm+71tTr9aK/c
eGe7
-----END CERTIFICATE-----
";

/// A cluster of two nodes with 4 CPUs each, a scheduler, and a pod that asks for 8.
pub(crate) struct LiveScheduler {
    pub(crate) files: Files,
    pub(crate) cluster: Cluster,
    _scheduler: Process,
    _port: ReservedPort,
    pub(crate) url: String,
}

/// The cluster and the pod, and a scheduler with these further flags; with the port that it serves.
fn start(files: &Files, more: &[&str]) -> (Cluster, Process, ReservedPort) {
    let cluster = Cluster::start(files, &["--nodes", "2"]);
    let large = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "8"}}}]},
    });
    cluster.call("POST", "/api/v1/namespaces/default/pods", &large);
    let port = ReservedPort::new();
    let mut args = port.flags().to_vec();
    args.extend(more);
    for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
        args.extend([flag, &cluster.kubeconfig]);
    }
    let scheduler = Process::start(&args);
    (cluster, scheduler, port)
}

impl LiveScheduler {
    pub(crate) fn start() -> Self {
        let files = Files::new();
        let (cluster, scheduler, port) = start(&files, &["--leader-elect=false"]);
        let running = Self {
            files,
            cluster,
            _scheduler: scheduler,
            url: format!("https://127.0.0.1:{}", port.number),
            _port: port,
        };
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (_, answer, said) = running.direct(&["explain", "default/large"]);
            if answer["place"]["attempts"].as_u64() >= Some(1) {
                return running;
            }
            assert!(Instant::now() < deadline, "{answer} {said}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// A question at the secure port.
    fn direct(&self, command: &[&str]) -> (Option<i32>, Value, String) {
        let source = ["--kubeconfig", &self.cluster.kubeconfig, "--server", &self.url];
        asked(&[command, &source, &["--insecure-skip-server-check"]].concat())
    }

    /// The same to no running scheduler.
    fn local(&self, command: &[&str]) -> (Option<i32>, Value, String) {
        asked(&[command, &["--kubeconfig", &self.cluster.kubeconfig, "--local"]].concat())
    }
}

/// Runs a command; its exit code, its answer, and what it says beside it.
fn asked(args: &[&str]) -> (Option<i32>, Value, String) {
    let output = run(&[args, &["-o", "json"]].concat());
    let answer = serde_json::from_str(&stdout(&output)).unwrap_or(Value::Null);
    (output.status.code(), answer, stderr(&output))
}

#[test]
fn a_running_scheduler_says_what_the_commands_say_by_themselves() {
    let running = LiveScheduler::start();
    let small = running.files.write("small.yaml", SMALL);
    // The cluster has a pod of that name.
    let large = running.files.write("large.yaml", &SMALL.replace("small", "large"));
    let node = "hollow-00000";
    for (command, code, fields) in [
        (
            &["explain", "default/large", "--suggest"][..],
            1,
            &["kind", "verdict", "suggestions"][..],
        ),
        (&["explain", "-p", &small], 0, &["kind", "verdict", "nFeasible", "decision"]),
        (&["explain", "-p", &large], 0, &["kind", "verdict", "nFeasible"]),
        (&["preempt", "default/large"], 1, &["kind", "verdict", "inVain"]),
        (&["preempt", "-p", &large], 0, &["kind", "verdict"]),
        (&["what-if", "--add", &small, "--cordon", node], 0, &["kind", "fits", "placements"]),
        (&["drain", node], 0, &["kind", "fits"]),
        (&["capacity", "-p", &small, "--at-least", "8"], 0, &["kind", "count", "byNode"]),
        (&["capacity", "-p", &small, "--at-least", "9"], 1, &["kind", "count", "largest"]),
        (&["capacity", "-p", &large], 0, &["kind", "count", "byNode"]),
        (
            &["what-if", "--delete-pod", "default/large", "--add", &large],
            0,
            &["kind", "fits", "placements"],
        ),
        (
            &["what-if", "--evict-pod", "default/large", "--cordon", node],
            0,
            &["kind", "fits", "rounds", "warnings"],
        ),
        (&["queue"], 0, &["kind", "nPods", "byStage"]),
        (&["fragmentation"], 0, &["kind", "shapes", "resources"]),
    ] {
        let (live_code, live, said) = running.direct(command);
        assert_eq!(live_code, Some(code), "{command:?}: {live:#} {said}");
        let source = format!(
            "answered by the running scheduler at {}/, as of resource version",
            running.url
        );
        assert!(said.contains(&source), "{command:?}: {said}");
        assert!(live["resourceVersion"].is_string(), "{live:#}");
        let at = format!(", at {}\n", live["asOf"].as_str().unwrap());
        assert!(said.contains(&at), "{command:?}: {said}");
        let (local_code, local, said) = running.local(command);
        assert_eq!(local_code, Some(code), "{command:?}: {said}");
        // Nothing happens in this cluster but that nodes report.
        let version = |answer: &Value| answer["resourceVersion"].as_str()?.parse::<u64>().ok();
        assert!(version(&local) >= version(&live), "{command:?}: {local:#} {live:#}");
        let as_of = format!(" as of resource version {}, with", version(&local).unwrap_or(0));
        assert!(said.contains(&as_of), "{command:?}: {said}");
        let newest = format!("; the newest time in it is {}\n", local["asOf"].as_str().unwrap());
        assert!(said.contains(&newest), "{command:?}: {said}");
        for field in fields {
            assert_eq!(live[field], local[field], "{command:?}: {field}");
            assert_ne!(live[field], Value::Null, "{command:?}: {field}");
        }
    }
    for (_, _, said) in [
        running.direct(&["what-if", "--add", &large]),
        running.local(&["what-if", "--add", &large]),
    ] {
        assert!(said.contains("pod default/large exists already"), "{said}");
    }
    // A DaemonSet has a pod for each node of the cluster, which the manifests of the question do not name.
    let agent = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: x}]}}\n";
    let agent = running.files.write("agent.yaml", agent);
    let (code, answer, said) = running.direct(&["what-if", "--add", &agent]);
    let placed: Option<BTreeSet<&str>> = answer["placements"]
        .as_array()
        .map(|placed| placed.iter().filter_map(|placed| placed["node"].as_str()).collect());
    let nodes = BTreeSet::from(["hollow-00000", "hollow-00001"]);
    assert_eq!((code, placed), (Some(0), Some(nodes)), "{answer:#} {said}");
    // Tables are the scheduler's own.
    let source = ["--kubeconfig", &running.cluster.kubeconfig, "--server", &running.url];
    let table = |more: &[&str]| {
        let command = [&["capacity", "-p", &small], &source[..], more].concat();
        run(&[&command[..], &["--insecure-skip-server-check"]].concat())
    };
    assert!(stdout(&table(&[])).ends_with("default/small: 8 fit, on 2 nodes\n"));
    assert!(stdout(&table(&["-o", "yaml"])).contains("\nkind: Capacity\n"));
    // Without the flag its certificate is checked, and it has signed it itself.
    let unchecked = run(&[&["queue"], &source[..]].concat());
    assert_eq!(unchecked.status.code(), Some(2));
    assert!(stderr(&unchecked).contains("certificate"), "{}", stderr(&unchecked));
    // That the kubeconfig leaves the API server's unchecked says nothing about this one.
    let lax = lax_kubeconfig(&running.files, &running.url);
    let authority = running.files.write("foreign.pem", FOREIGN_AUTHORITY);
    let foreign = ["queue", "--kubeconfig", &lax, "--server", &running.url];
    for more in [&[][..], &["--server-ca", &authority]] {
        let refused = run(&[&foreign[..], more].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(stderr(&refused).contains("certificate"), "{}", stderr(&refused));
    }
    // What a question over HTTP cannot hold is not dropped.
    let class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: x\n";
    let with_class = running.files.write("with-class.yaml", &format!("{SMALL}---\n{class}"));
    let (code, _, said) = running.direct(&["explain", "-p", &with_class]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("fast: try --local"), "{said}");
    // Credentials are not sent in clear text.
    let bare = running.url.trim_start_matches("https://");
    for address in [bare, &format!("http://{bare}"), "https://"] {
        let refused = run(&["queue", "--kubeconfig", &lax, "--server", address]);
        assert_eq!(refused.status.code(), Some(2), "{address}");
        let said = stderr(&refused);
        assert!(said.contains("--server") && said.contains("expected is https://HOST"), "{said}");
    }
}

#[test]
fn claims_go_with_their_pods() {
    let running = LiveScheduler::start();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    let created = running.cluster.call("POST", "/apis/storage.k8s.io/v1/storageclasses", &class);
    assert_eq!(created["kind"], "StorageClass", "{created}");
    let claim = |name: &str, class: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}})
    };
    // The second pod's claim is there, and can be had on no node.
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    running.cluster.call("POST", claims, &claim("data-db-1", "none"));
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": 2, "volumeClaimTemplates": [claim("data", "fast")],
            "template": {"metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]}}},
    });
    let set = running.files.write("set.yaml", &set.to_string());
    let command = ["what-if", "--add", &set, "--cordon", "hollow-00001"];
    let deadline = Instant::now() + DEADLINE;
    let live = loop {
        let (code, live, said) = running.direct(&command);
        assert_eq!(code, Some(1), "{live:#} {said}");
        // The scheduler sees what was created a moment later.
        if live["placements"][0]["pod"] == "default/db-0" && live["warnings"][0].is_string() {
            break live;
        }
        assert!(Instant::now() < deadline, "{live:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let warning =
        "PersistentVolumeClaim default/data-db-1: the cluster has one, which counts instead";
    assert_eq!(live["warnings"], json!([warning]));
    let (code, local, said) = running.local(&command);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(warning), "{said}");
    for field in ["fits", "placements", "pending", "nodes"] {
        assert_eq!(live[field], local[field], "{field}");
    }
    assert_eq!(live["pending"][0]["pod"], "default/db-1", "{live:#}");

    // One pod at a time, whether it is there or not.
    let pod = SMALL.replace(
        "containers:",
        "volumes: [{name: v, persistentVolumeClaim: {claimName: mine}}], containers:",
    );
    let pod = running.files.write("pod.yaml", &pod);
    let mine = running.files.write("mine.json", &claim("mine", "fast").to_string());
    for command in ["explain", "preempt"] {
        let (code, answer, said) = running.direct(&[command, "-p", &pod, "-p", &mine]);
        assert_eq!((code, &answer["verdict"]), (Some(0), &json!("Fits")), "{said}");
        let (code, answer, said) = running.direct(&[command, "-p", &pod]);
        assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{said}");
    }
    let both = format!("{}---\n{}", std::fs::read_to_string(&pod).unwrap(), claim("mine", "fast"));
    let both = running.files.write("both.yaml", &both);
    let (code, answer, said) = running.direct(&["capacity", "-p", &both]);
    assert_eq!((code, &answer["count"]), (Some(0), &json!(8)), "{said}");
}

#[test]
fn thousands_of_replicas_are_one_question() {
    let running = LiveScheduler::start();
    let replicas = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5000
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 50m}}}]}
";
    let replicas = running.files.write("replicas.yaml", replicas);
    // With one node left no draw decides between equal ones.
    let command = ["what-if", "--add", &replicas, "--cordon", "hollow-00001"];
    let (code, live, said) = running.direct(&command);
    assert_eq!(code, Some(1), "{said}");
    let (code, local, said) = running.local(&command);
    assert_eq!(code, Some(1), "{said}");
    let length = |list: &str| live[list].as_array().map_or(0, Vec::len);
    assert_eq!((length("placements"), length("pending")), (80, 4_920));
    for field in ["fits", "placements", "pending", "nodes"] {
        assert!(live[field] == local[field], "{field}: {} {}", live[field], local[field]);
    }
}

#[test]
fn new_pods_are_spread_by_what_the_question_says_of_controllers_and_services() {
    let running = LiveScheduler::start();
    let large = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "big", "labels": {"kubernetes.io/hostname": "big", "topology.kubernetes.io/zone": "far"}},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
    });
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let pod = |name: &str| {
        let mut pod = template.clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod
    };
    let pods = [pod("a"), pod("b"), pod("c")];
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}}});
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let of_pods = |more: &[Value]| list([&pods, &[large.clone()][..], more].concat());
    for (name, manifests, is_spread) in [
        ("deployment.json", list(vec![large.clone(), deployment]), true),
        ("pods.json", of_pods(&[]), false),
        ("service.json", of_pods(&[service]), true),
    ] {
        let added = running.files.write(name, &manifests);
        // No draw decides between two nodes.
        let command = ["what-if", "--add", &added, "--cordon", "hollow-00001"];
        let (code, live, said) = running.direct(&command);
        assert_eq!(code, Some(0), "{name}: {live:#} {said}");
        let placements = live["placements"].as_array().unwrap();
        let asked = placements.iter().filter(|placed| placed["asked"] == true);
        let nodes: Vec<&str> = asked.map(|placed| placed["node"].as_str().unwrap()).collect();
        let others = nodes.iter().filter(|node| **node != "big").count();
        assert_eq!((nodes.len(), others > 0), (3, is_spread), "{name}: {live:#}");
        let (code, local, said) = running.local(&command);
        assert_eq!(code, Some(0), "{name}: {said}");
        assert_eq!(live["placements"], local["placements"], "{name}");
    }
}

#[test]
fn a_pod_that_is_not_known_is_looked_up_at_the_api_server() {
    let running = LiveScheduler::start();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done"},
        "spec": {"schedulerName": "other", "containers": [{"name": "c", "image": "x"}]},
    });
    let mut pod = running.cluster.call("POST", pods, &pod);
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    pod["status"] = json!({"phase": "Failed"});
    let changed = running.cluster.call("PUT", &format!("{pods}/done/status"), &pod);
    assert_eq!(changed["status"]["phase"], "Failed", "{changed}");
    let ended = "error: pod default/done has ended (Failed): it is not scheduled any more\n";
    let deadline = Instant::now() + DEADLINE;
    loop {
        // The scheduler sees it as one that waits for another scheduler, and a moment later not at all.
        let (_, _, said) = running.direct(&["explain", "done"]);
        if said.contains(ended) {
            break;
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for command in [
        &["explain", "done"][..],
        &["preempt", "done"],
        &["what-if", "--delete-pod", "done"],
        &["what-if", "--cordon", "hollow-00000", "--evict-pod", "done"],
    ] {
        for (code, _, said) in [running.direct(command), running.local(command)] {
            assert_eq!(code, Some(2), "{command:?}: {said}");
            assert!(said.contains(ended), "{command:?}: {said}");
        }
    }
    let (code, _, said) = running.direct(&["explain", "none"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("error: there is no pod default/none\n"), "{said}");
    let (_, _, said) = running.direct(&["explain", "deployment/web"]);
    assert!(said.contains("deployment/web means pod web of namespace deployment"), "{said}");
    // Pods of a name in other namespaces, whether they have ended or not.
    let web = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"schedulerName": "other", "containers": [{"name": "c", "image": "x"}]},
    });
    for namespace in ["kube-public", "kube-system"] {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let created = running.cluster.call("POST", &pods, &web);
        assert_eq!(created["kind"], "Pod", "{created}");
    }
    let elsewhere = "error: there is no pod default/web; there is one of this name in namespace kube-public, kube-system\n";
    for command in [&["explain", "web"][..], &["what-if", "--delete-pod", "web"]] {
        for (code, _, said) in [running.direct(command), running.local(command)] {
            assert_eq!(code, Some(2), "{command:?}: {said}");
            assert!(said.contains(elsewhere), "{command:?}: {said}");
        }
    }
    let source = ["--kubeconfig", &running.cluster.kubeconfig, "--server", &running.url];
    let flags = [&source[..], &["--insecure-skip-server-check"]].concat();
    let mut assistant = Assistant::start(&flags);
    for (pod, text) in [("done", ended), ("web", elsewhere)] {
        let result = assistant.call("explain", &json!({"spec": {"podName": pod}}));
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["content"][0]["text"], text.trim_end(), "{result}");
    }
    assert_eq!(assistant.end(), Some(0));
}

/// A kubeconfig for this server, whose certificate it leaves unchecked.
fn lax_kubeconfig(files: &Files, server: &str) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {
            "server": server, "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "default"}}],
    });
    files.write("lax", &config.to_string())
}

#[test]
fn a_registered_scheduler_is_found_and_another_one_is_not_missed() {
    let running = LiveScheduler::start();
    // An API server that passes questions on has them at the same path.
    let registered = lax_kubeconfig(&running.files, &running.url);
    for more in [&[][..], &["--live"]] {
        let command = [&["explain", "default/large", "--kubeconfig", &registered], more].concat();
        let (code, answer, said) = asked(&command);
        assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{said}");
        assert!(said.contains("answered by the running scheduler"), "{said}");
    }
    let elsewhere = ["explain", "default/large", "--kubeconfig", &running.cluster.kubeconfig];
    let (code, answer, said) = asked(&elsewhere);
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{said}");
    let fallback =
        "with the default configuration; no scheduler that answers questions was found by it";
    assert!(said.contains("answered here, from http://") && said.contains(fallback), "{said}");
    let (code, _, said) = asked(&[&elsewhere[..], &["--live"]].concat());
    assert_eq!(code, Some(2));
    assert!(
        said.contains("no scheduler that answers questions is registered with http://")
            && said.contains(" or holds lease kube-system/kube-scheduler"),
        "{said}"
    );
    let (code, _, said) = asked(&["explain", "default/none", "--kubeconfig", &registered]);
    assert_eq!(code, Some(2));
    assert!(said.contains("error: there is no pod default/none"), "{said}");
}

/// A pod that stands for the leader: it has the name of its host, and the address of this machine.
fn stand_in(cluster: &Cluster, host: &str, port: &str) {
    let pods = "/api/v1/namespaces/kube-system/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": host, "labels": {"component": "kube-scheduler"}},
        "spec": {"nodeName": "control-plane", "containers": [
            {"name": "kube-scheduler", "image": "x", "command": ["kube-scheduler-rs", format!("--secure-port={port}")]},
        ]},
    });
    let mut created = cluster.call("POST", pods, &pod);
    assert_eq!(created["kind"], "Pod", "{created}");
    // In whatever version it is by now.
    created["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    created["status"] = json!({"phase": "Running", "podIP": "127.0.0.1"});
    let status = format!("{pods}/{host}/status");
    let changed = cluster.call("PUT", &status, &created);
    assert_eq!(changed["status"]["podIP"], "127.0.0.1", "{changed}");
}

#[test]
fn the_leader_is_asked_at_its_pod_if_none_is_registered() {
    let files = Files::new();
    let (cluster, scheduler, port) = start(&files, &[]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let deadline = Instant::now() + DEADLINE;
    let holder = loop {
        let lease = cluster.call("GET", lease, &Value::Null);
        if let Some(holder) = lease["spec"]["holderIdentity"].as_str().filter(|it| !it.is_empty()) {
            break holder.to_owned();
        }
        assert!(Instant::now() < deadline, "there is no leader");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let (host, _) = holder.rsplit_once('_').unwrap();
    let question =
        ["explain", "default/large", "--kubeconfig", &cluster.kubeconfig, "--ask-leader"];

    // Without a pod there is no way to it.
    let (code, answer, said) = asked(&question);
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{said}");
    let why = format!("its holder {holder:?} is no scheduler's pod of namespace kube-system");
    assert!(said.contains(&why) && said.contains("answered here, from http://"), "{said}");
    let (code, _, said) = asked(&[&question[..], &["--live"]].concat());
    assert_eq!(code, Some(2));
    assert!(said.contains(&why), "{said}");

    stand_in(&cluster, host, &port.number);
    let source = format!("answered by the running scheduler at pod kube-system/{host} by http://");
    // It leads before it has seen the whole cluster.
    while asked(&question).0 == Some(2) {
        assert!(Instant::now() < deadline, "it answers no question");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for more in [&[][..], &["--live"]] {
        let (code, answer, said) = asked(&[&question[..], more].concat());
        assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{said}");
        assert!(said.contains(&source), "{said}");
        assert!(answer["resourceVersion"].is_string(), "{answer}");
    }
    let mut assistant = Assistant::start(&question[2..]);
    let result = assistant.call("explain", &json!({"spec": {"podName": "large"}}));
    assert!(result["content"][1]["text"].as_str().unwrap().contains(&source), "{result}");
    assert_eq!(result["structuredContent"]["verdict"], "DoesNotFit");
    assert_eq!(assistant.end(), Some(0));

    // The kubeconfig has a token, which is sent to it only if that is asked for.
    let (code, _, said) = asked(&question[..4]);
    assert_eq!(code, Some(1));
    assert!(!said.contains("warning") && said.contains("answered here, from http://"), "{said}");
    assert!(said.contains("is not asked: that would send it the kubeconfig's token"), "{said}");
    let (code, _, said) = asked(&[&question[..4], &["--live"]].concat());
    assert_eq!(code, Some(2));
    assert!(said.contains("with a token or password only with --ask-leader"), "{said}");

    // Another lease, no leader, and an answer of one's own.
    let (code, _, said) = asked(&[&question[..], &["--lease", "default/other"]].concat());
    assert_eq!(code, Some(1));
    assert!(!said.contains("warning") && said.contains("answered here"), "{said}");
    let refused = run(&[&question[..], &["--lease", "other"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("expected NAMESPACE/NAME"), "{}", stderr(&refused));
    assert_eq!(scheduler.terminate(), Some(0));
    let (code, _, said) = asked(&question);
    assert_eq!(code, Some(1));
    assert!(!said.contains("warning") && said.contains("answered here"), "{said}");
}
