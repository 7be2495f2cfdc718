//! The scheduler and the cluster as processes of their own: started, killed, asked to end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Files, run, stderr};

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    fn start(args: &[&str]) -> Self {
        Self::start_with(args, Stdio::null())
    }

    fn start_with(args: &[&str], stderr: Stdio) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// The first line it prints.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Ends it as a crash would.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Asks it to end, and tells its exit code.
    fn terminate(self) -> Option<i32> {
        self.signal("-TERM");
        self.wait()
    }

    /// Waits for its end, and tells its exit code.
    fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster process and where it is.
struct Cluster {
    process: Process,
    address: SocketAddr,
    kubeconfig: String,
}

impl Cluster {
    fn start(files: &Files, args: &[&str]) -> Self {
        let kubeconfig = files.write("kubeconfig", "");
        let mut all = vec!["devcluster", "--kubeconfig-out", &kubeconfig];
        all.extend(args);
        let mut process = Process::start(&all);
        let line = process.first_line();
        let address = line.trim().rsplit("http://").next().unwrap().parse().unwrap();
        Self { process, address, kubeconfig }
    }

    /// HTTP/1.0, so that the answer is not chunked.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn create_pods(&self, n: usize) {
        for i in 0..n {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{i}")},
                "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
            });
            let created = self.call("POST", "/api/v1/namespaces/default/pods", &pod);
            assert_eq!(created["kind"], "Pod", "{created}");
        }
    }

    /// Pods that run somewhere, and where.
    fn placements(&self) -> BTreeMap<String, String> {
        let list = self.call("GET", "/api/v1/pods", &Value::Null);
        let placed = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str()?;
            Some((pod["metadata"]["name"].as_str()?.to_owned(), node.to_owned()))
        };
        list["items"].as_array().unwrap().iter().filter_map(placed).collect()
    }

    fn wait_for_bound(&self, n: usize) -> BTreeMap<String, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let placements = self.placements();
            if placements.len() >= n {
                return placements;
            }
            assert!(Instant::now() < deadline, "only {} of {n} pods are bound", placements.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for_events(&self, n: usize) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let events = self.call("GET", "/apis/events.k8s.io/v1/events", &Value::Null);
            if events["items"].as_array().is_some_and(|items| items.len() >= n) {
                return;
            }
            assert!(Instant::now() < deadline, "{events}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

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
        "100",
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
    let deadline = Instant::now() + DEADLINE;
    loop {
        let said = std::fs::read_to_string(log).unwrap();
        if needed.iter().all(|text| said.contains(text)) {
            return;
        }
        assert!(Instant::now() < deadline, "{needed:?} is not in:\n{said}");
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
    let cluster = Cluster::start(&files, &["--nodes", "1"]);
    let (log, port) = (files.path("log"), cluster.address.port().to_string());
    cluster.create_pods(1);
    let args =
        ["--kubeconfig", &cluster.kubeconfig, "--secure-port", "0", "--leader-elect=false", "-v=2"];
    let scheduler = logged(&args, &log, &[]);
    cluster.wait_for_bound(1);
    // The event is the last that is written about the pod; if it could not be written, that would be said as well.
    cluster.wait_for_events(1);
    let address = cluster.address.to_string();
    cluster.process.kill();
    // Every kind has tried again, so whatever is said by kind has been said.
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
    let _back = Process::start(&["devcluster", "--port", &port]);
    wait_for_log(&log, &["The API server answers again"]);
    assert_eq!(scheduler.terminate(), Some(1));
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
        ],
    );
    assert!(!std::fs::read_to_string(&log).unwrap().contains("Cache mismatch"));
    assert_eq!(scheduler.terminate(), Some(0));
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
