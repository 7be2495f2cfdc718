//! What a new user tries first after building the program: a cluster, a scheduler, a Deployment, a pod that does not fit, a
//! second scheduler. With kubectl where it is installed, otherwise by the requests that it would send.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::Files;
use crate::cluster::{Cluster, DEADLINE, Process};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A user with a cluster.
struct Newcomer<'a> {
    cluster: &'a Cluster,
    files: &'a Files,
    has_kubectl: bool,
}

impl<'a> Newcomer<'a> {
    fn new(cluster: &'a Cluster, files: &'a Files) -> Self {
        let found = Command::new("kubectl")
            .args(["version", "--client"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        Self { cluster, files, has_kubectl: found.is_ok_and(|status| status.success()) }
    }

    /// What kubectl prints. It finds neither configuration nor caches of the user who runs the tests.
    fn kubectl(&self, args: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(args)
            .env("KUBECONFIG", &self.cluster.kubeconfig)
            .env("HOME", self.files.path("home"))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn create_deployment(&self) {
        if self.has_kubectl {
            let args = ["create", "deployment", "web", "--image=registry/web:1", "--replicas=3"];
            assert_eq!(self.kubectl(&args), "deployment.apps/web created\n");
            return;
        }
        let labels = json!({"app": "web"});
        let containers = json!([{"name": "web", "image": "registry/web:1"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let spec =
            json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
        self.create(
            DEPLOYMENTS,
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web"}, "spec": spec}),
        );
    }

    fn scale(&self, replicas: u32) {
        if self.has_kubectl {
            let replicas = format!("--replicas={replicas}");
            self.kubectl(&["scale", "deployment", "web", &replicas]);
            return;
        }
        let scale = format!("{DEPLOYMENTS}/web/scale");
        let mut current = self.cluster.call("GET", &scale, &Value::Null);
        current["spec"]["replicas"] = replicas.into();
        let answer = self.cluster.call("PUT", &scale, &current);
        assert_eq!(answer["spec"]["replicas"], replicas, "{answer}");
    }

    fn delete_deployment(&self) {
        if self.has_kubectl {
            self.kubectl(&["delete", "deployment", "web"]);
        } else {
            self.cluster.call("DELETE", &format!("{DEPLOYMENTS}/web"), &Value::Null);
        }
    }

    /// A pod that asks for so many CPUs, from a manifest.
    fn apply_pod(&self, name: &str, cpu: &str, scheduler: &str) {
        let requests = json!({"requests": {"cpu": cpu}});
        let containers = json!([{"name": "c", "image": "x", "resources": requests}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": scheduler, "containers": containers}});
        if self.has_kubectl {
            let manifest = self.files.write(&format!("{name}.yaml"), &pod.to_string());
            assert_eq!(self.kubectl(&["apply", "-f", &manifest]), format!("pod/{name} created\n"));
        } else {
            self.create(PODS, pod);
        }
    }

    fn create(&self, path: &str, object: Value) {
        let answer = self.cluster.call("POST", path, &object);
        assert_eq!(answer["kind"], object["kind"], "{answer}");
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what} does not come true");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn ready_replicas(&self) -> Value {
        let deployment = self.cluster.call("GET", &format!("{DEPLOYMENTS}/web"), &Value::Null);
        deployment["status"]["readyReplicas"].clone()
    }

    fn pod(&self, name: &str) -> Value {
        self.cluster.call("GET", &format!("{PODS}/{name}"), &Value::Null)
    }

    /// What there is to read about a pod.
    fn description(&self, name: &str) -> String {
        if self.has_kubectl {
            self.kubectl(&["describe", "pod", name])
        } else {
            let events =
                self.cluster.call("GET", "/api/v1/namespaces/default/events", &Value::Null);
            let about = |event: &&Value| event["involvedObject"]["name"] == name;
            let mut found = events["items"].as_array().unwrap().iter().filter(about);
            found.next().map(Value::to_string).unwrap_or_default()
        }
    }
}

fn scheduler(cluster: &Cluster, more: &[&str]) -> Process {
    let mut args = vec!["--kubeconfig", &cluster.kubeconfig, "--secure-port=0"];
    args.extend(more);
    Process::start(&args)
}

#[test]
fn the_first_half_hour_of_a_new_user() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "3"]);
    let user = Newcomer::new(&cluster, &files);
    let _scheduler = scheduler(&cluster, &["--leader-elect=false"]);

    user.create_deployment();
    user.until("the rollout", |user| user.ready_replicas() == 3);
    user.scale(5);
    user.until("more replicas", |user| user.ready_replicas() == 5);

    user.apply_pod("big", "1000", "default-scheduler");
    let reason = "0/3 nodes are available: 3 Insufficient cpu.";
    user.until("the reason on the pod", |user| {
        let condition = user.pod("big")["status"]["conditions"][0].clone();
        condition["message"].as_str().is_some_and(|message| message.starts_with(reason))
    });
    user.until("the event", |user| user.description("big").contains("FailedScheduling"));

    let config = files.write(
        "second.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: second}]\n",
    );
    let second = scheduler(&cluster, &["--config", &config]);
    user.apply_pod("mine", "1", "second");
    user.until("a node from the second scheduler", |user| {
        user.pod("mine")["spec"]["nodeName"].is_string()
    });
    assert_eq!(second.terminate(), Some(1), "as kube-scheduler ends without leader election");

    user.delete_deployment();
    user.until("the end of the Deployment's pods", |user| {
        let pods = user.cluster.call("GET", PODS, &Value::Null);
        let mut names: Vec<_> = pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["metadata"]["name"].clone())
            .collect();
        names.sort_by_key(Value::to_string);
        names == ["big", "mine"]
    });
}
