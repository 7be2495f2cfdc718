//! The scheduler and the cluster as processes of their own: started, killed, asked to end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEADLINE, Process, ReservedPort};
use crate::{Files, run, stderr};

#[test]
fn a_scheduler_killed_half_way_is_taken_over_from() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "10"]);
    cluster.create_pods(300);
    // Slowed down, so that it is half-way for a while.
    let slow = [
        "--kubeconfig",
        &cluster.kubeconfig,
        "--secure-port",
        "0",
        "--kube-api-qps",
        "20",
        "--kube-api-burst",
        "1",
    ];
    let first = Process::start(&slow);
    cluster.wait_for_bound(20);
    first.kill();
    let half = cluster.placements();
    assert!(half.len() < 300, "it was too fast to be killed half-way");

    let second = Process::start(&["--kubeconfig", &cluster.kubeconfig, "--secure-port", "0"]);
    let all = cluster.wait_for_bound(300);
    assert_eq!(all.len(), 300);
    for (pod, node) in &half {
        assert_eq!(all.get(pod), Some(node), "{pod} moved");
    }
    assert_eq!(second.terminate(), Some(0));
    assert_eq!(cluster.process.terminate(), Some(0));
}

/// Starts a scheduler whose log goes to a file, and waits until that says all of `needed`.
fn logged(args: &[&str], log: &str, needed: &[&str]) -> Process {
    let process = Process::start_with(args, Stdio::from(std::fs::File::create(log).unwrap()));
    wait_for_log(log, needed);
    process
}

fn wait_for_log(log: &str, needed: &[&str]) {
    wait_until(log, |said| needed.iter().all(|text| said.contains(text)));
}

fn wait_until(log: &str, is_logged: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let said = std::fs::read_to_string(log).unwrap();
        if is_logged(&said) {
            return;
        }
        assert!(Instant::now() < deadline, "not logged:\n{said}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_does_not_answer_is_named_and_waited_for() {
    let files = Files::new();
    let log = files.path("log");
    let nobody = ["--master", "http://127.0.0.1:1", "--secure-port", "0"];
    let scheduler = logged(&nobody, &log, &["does not answer", "http://127.0.0.1:1/", "refused"]);
    // A standby that ends as it was asked to has done nothing wrong.
    assert_eq!(scheduler.terminate(), Some(0));
    wait_for_log(
        &log,
        &["Attempting to acquire leader lease...", "Requested to terminate, exiting"],
    );

    let alone = [&nobody[..], &["--leader-elect=false"]].concat();
    let scheduler = logged(&alone, &log, &["does not answer"]);
    assert_eq!(scheduler.terminate(), Some(1));
    wait_for_log(&log, &["finished without leader elect"]);
}

#[test]
fn a_server_that_goes_away_is_reported_once() {
    let files = Files::new();
    let (log, port) = (files.path("log"), ReservedPort::new());
    let cluster = Cluster::start(&files, &["--nodes", "1", "--port", &port.number]);
    cluster.create_pods(1);
    let args =
        ["--kubeconfig", &cluster.kubeconfig, "--secure-port", "0", "--leader-elect=false", "-v=6"];
    let scheduler = logged(&args, &log, &[]);
    cluster.wait_for_bound(1);
    // The event is the last that is written about the pod; if it could not be written, that would be said as well.
    let parts = ["verb=\"POST\"", "/events\"", "status=\"201 Created\""];
    wait_until(&log, |said| said.lines().any(|line| parts.iter().all(|part| line.contains(part))));
    let address = cluster.address.to_string();
    cluster.process.kill();
    // Every kind has tried again, so all messages by kind have been logged.
    let said = || std::fs::read_to_string(&log).unwrap();
    let deadline = Instant::now() + DEADLINE;
    while said().matches("Following a kind was interrupted").count() < 40 {
        assert!(Instant::now() < deadline, "{}", said());
        std::thread::sleep(Duration::from_millis(5));
    }
    // At the default verbosity there is one line.
    let said = said();
    let reported = |line: &&str| line.starts_with(['W', 'E']);
    let loud: Vec<&str> = said.lines().filter(reported).collect();
    let [line] = loud.as_slice() else { panic!("{loud:#?}") };
    assert!(line.contains("The API server does not answer") && line.contains(&address), "{line}");
    let _back = Process::start(&["devcluster", "--port", &port.number]);
    wait_for_log(&log, &["The API server answers again"]);
    assert_eq!(scheduler.terminate(), Some(1));
}

/// A proxy of the environment is not for loopback, and `--master` is enough for a kubeconfig that says nothing.
#[test]
fn neither_a_proxy_nor_an_empty_kubeconfig_keeps_it_from_a_cluster_nearby() {
    for says_nothing in [false, true] {
        let files = Files::new();
        let cluster = Cluster::start(&files, &["--nodes", "1"]);
        cluster.create_pods(1);
        let (empty, master) = (files.write("empty", ""), cluster.address.to_string());
        let server = match says_nothing {
            false => vec!["--kubeconfig", &*cluster.kubeconfig],
            true => vec!["--kubeconfig", &empty, "--master", &master],
        };
        let child = Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
            .args(["--secure-port", "0", "--leader-elect=false"])
            .args(server)
            .env("HTTPS_PROXY", "http://proxy.invalid:3128")
            .env("HTTP_PROXY", "http://proxy.invalid:3128")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let _scheduler = Process(child.unwrap());
        cluster.wait_for_bound(1);
    }
}

#[test]
fn a_lease_is_given_back_and_a_lost_one_ends_the_process() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "1"]);
    let log = files.path("log");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let args = ["--kubeconfig", &cluster.kubeconfig, "--secure-port", "0"];
    let scheduler =
        logged(&args, &log, &["Successfully acquired lease", "kube-system/kube-scheduler"]);
    assert_ne!(cluster.call("GET", lease, &Value::Null)["spec"]["holderIdentity"], "");
    assert_eq!(scheduler.terminate(), Some(0));
    assert_eq!(cluster.call("GET", lease, &Value::Null)["spec"]["holderIdentity"], "");

    let scheduler = logged(&args, &log, &["Successfully acquired lease"]);
    let mut taken = cluster.call("GET", lease, &Value::Null);
    taken["spec"]["holderIdentity"] = json!("somebody-else");
    taken["spec"]["leaseDurationSeconds"] = json!(60);
    taken["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    // The lease is renewed all the time, so the first attempt may come too late.
    let deadline = Instant::now() + DEADLINE;
    loop {
        let now = cluster.call("GET", lease, &Value::Null);
        taken["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        if cluster.call("PUT", lease, &taken)["kind"] == "Lease" {
            break;
        }
        assert!(Instant::now() < deadline, "the lease cannot be had");
    }
    assert_eq!(scheduler.wait(), Some(1));
    wait_for_log(&log, &["Failed to renew lease", "Leaderelection lost"]);
    assert_eq!(cluster.call("GET", lease, &Value::Null)["spec"]["holderIdentity"], "somebody-else");
}

#[test]
fn caches_are_dumped_on_request() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "1"]);
    cluster.create_pods(1);
    let log = files.path("log");
    let args = ["--kubeconfig", &cluster.kubeconfig, "--secure-port", "0", "-v=3"];
    let scheduler = logged(&args, &log, &["Successfully acquired lease"]);
    cluster.wait_for_bound(1);
    scheduler.signal("-USR2");
    wait_for_log(
        &log,
        &[
            "Cache comparer started",
            "Cache comparer finished",
            "Dump of cached NodeInfo",
            "Node name: hollow-00000",
            "name: p-0, namespace: default",
            "Dump of scheduling queue",
            "activeQ:0; backoffQ:0; unschedulablePods:0",
            "Dump of table sizes",
            "pods on nodes: 1",
            "signatures: 1, ",
            "equal parts of nodes: ",
            "equal parts of pods: ",
            "all of these: ",
        ],
    );
    assert!(!std::fs::read_to_string(&log).unwrap().contains("Cache mismatch"));
    assert_eq!(scheduler.terminate(), Some(0));
}

/// An error, an access line and warnings.
#[test]
fn lines_have_the_keys_of_the_reference_in_its_order() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "1"]);
    cluster.create_pods(1);
    let config = files.write(
        "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: f}]\n",
    );
    let log = files.path("log");
    let port = ReservedPort::new();
    let args = ["--kubeconfig", &cluster.kubeconfig, "--config", &config, "--leader-elect=false"];
    let served = [&port.flags()[..], &["-v=3"]].concat();
    let failed = "\"Error scheduling pod; retrying\" err=\"";
    let scheduler = logged(&[&args[..], &served].concat(), &log, &[failed, "Serving securely"]);
    // Nobody may ask here, which is answered all the same.
    let server = format!("https://127.0.0.1:{}", port.number);
    let asked =
        ["explain", "default/p-0", "--kubeconfig", &cluster.kubeconfig, "--server", &server];
    assert!(!run(&[&asked[..], &["--insecure-skip-server-check"]].concat()).status.success());
    wait_for_log(&log, &["\"HTTP\" "]);
    let said = std::fs::read_to_string(&log).unwrap();
    let line = |message: &str| said.lines().find(|line| line.contains(message)).unwrap();
    let error = line(failed);
    assert!(error.ends_with("\" logger=\"UnhandledError\" pod=\"default/p-0\""), "{error}");
    for (key, purpose) in [
        ("client-ca-file", "client certificate"),
        ("requestheader-client-ca-file", "request-header client certificate"),
    ] {
        let warning = format!(
            "No authentication-kubeconfig provided in order to lookup {key} in \
             configmap/extension-apiserver-authentication in kube-system, so {purpose} authentication won't work."
        );
        assert!(said.contains(&warning), "{said}");
    }
    let access = line("\"HTTP\" ");
    let (_, access) = access.split_once("] ").unwrap();
    let mut rest = access;
    for part in [
        "\"HTTP\" verb=\"",
        "\" URI=\"/apis/answers.kube-scheduler.rs/v1alpha1/",
        "\" latency=\"",
        "\" userAgent=\"",
        "\" audit-ID=\"\" srcIP=\"127.0.0.1:",
        "\" resp=403",
    ] {
        let found = rest.split_once(part);
        (_, rest) = found.unwrap_or_else(|| panic!("{part} is not in its place in {access}"));
    }
    assert_eq!(rest, "", "{access}");
    assert_eq!(scheduler.terminate(), Some(1));
}

#[test]
fn a_persisted_cluster_comes_back() {
    let files = Files::new();
    let state = files.path("state");
    let cluster = Cluster::start(&files, &["--nodes", "3", "--persist", &state]);
    cluster.create_pods(2);
    assert_eq!(cluster.process.terminate(), Some(0));

    let cluster = Cluster::start(&files, &["--nodes", "3", "--persist", &state]);
    let count =
        |path: &str| cluster.call("GET", path, &Value::Null)["items"].as_array().unwrap().len();
    assert_eq!((count("/api/v1/nodes"), count("/api/v1/pods")), (3, 2));
    let scheduler =
        Process::start(&["--master", &cluster.address.to_string(), "--secure-port", "0"]);
    cluster.wait_for_bound(2);
    assert_eq!(scheduler.terminate(), Some(0));
}

#[test]
fn the_completed_configuration_can_be_written() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "0"]);
    let out = files.path("config.yaml");
    let output = run(&["--kubeconfig", &cluster.kubeconfig, "--write-config-to", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(written.contains("kind: KubeSchedulerConfiguration\n"), "{written}");
    assert!(written.contains("parallelism: 16\n"), "{written}");
    // What was written can be read, and means the same.
    let again = files.path("again.yaml");
    let output =
        run(&["--config", &out, "--kubeconfig", &cluster.kubeconfig, "--write-config-to", &again]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&again).unwrap(), written);
}
