//! Questions through a real API server that has registered the scheduler: it authenticates the callers, and the scheduler believes
//! its front proxy.
//!
//! Played where `KUBEBUILDER_ASSETS` names an API server.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_scheduler_devcluster::{Authority, User};
use kube_scheduler_tests::control_plane::{
    Api, Assets, Features, Process, ReservedPort, ServerOptions, code,
};
use serde_json::{Value, json};

use crate::PROGRAM;
use crate::cluster::{Backend, Cluster};
use crate::objects::{asking, nodes};
use crate::scheduler::Program;
use crate::wait::until;

const VERSION: &str = "answers.kube-scheduler.rs/v1alpha1";
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// As `kubectl create -f question.yaml -o yaml` asks.
const AS_KUBECTL: &str = "?fieldManager=kubectl-create&fieldValidation=Strict";

/// A registered scheduler.
struct RegisteredScheduler {
    cluster: Cluster,
    _scheduler: Process,
    _port: ReservedPort,
}

impl RegisteredScheduler {
    async fn start(assets: Assets) -> Self {
        let options = ServerOptions { audits: false, features: Features::Default };
        let backend = Backend::Real(assets);
        let cluster = Cluster::start_bare(&backend, Path::new(PROGRAM), options).await.unwrap();
        let authority = Authority::generate("answers-ca").unwrap();
        // The name that the API server checks.
        let serving = authority.server(&["answers.kube-system.svc"]).unwrap();
        let file = |name: &str, text: &str| {
            let path = cluster.files().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (certificate, key) =
            (file("answers.crt", &serving.certificate), file("answers.key", &serving.key));
        let port = ReservedPort::new().unwrap();
        let own = cluster.scheduler_kubeconfig().display().to_string();
        let args = [
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", port.number()),
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            format!("--authentication-kubeconfig={own}"),
            format!("--authorization-kubeconfig={own}"),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let scheduler = Program::start(&cluster, "registered", &args).unwrap();
        // A name for this machine, because no service has an address here.
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "answers", "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let registration = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1alpha1.answers.kube-scheduler.rs"},
            "spec": {
                "group": "answers.kube-scheduler.rs", "version": "v1alpha1",
                "groupPriorityMinimum": 1000, "versionPriority": 10,
                "caBundle": base64(&authority.pem()),
                "service": {"namespace": "kube-system", "name": "answers", "port": port.number()},
            },
        });
        let api = cluster.api();
        let services = "/api/v1/namespaces/kube-system/services";
        api.send("POST", services, Some(&service), "application/json").await.unwrap();
        api.send("POST", API_SERVICE, Some(&registration), "application/json").await.unwrap();
        let registered = Self { cluster, _scheduler: scheduler, _port: port };
        until("the registered scheduler is available", async || {
            let name = format!("{API_SERVICE}/v1alpha1.answers.kube-scheduler.rs");
            let found = registered.cluster.api().send("GET", &name, None, "").await.unwrap();
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Available" && one["status"] == "True")
        })
        .await;
        registered
    }

    /// Another user, who may do what `rules` say in namespace `default`.
    async fn user(&self, name: &str, rules: &Value) -> Api {
        let place = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let api = self.cluster.api();
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules,
        });
        api.send("POST", &format!("{place}/roles"), Some(&role), "application/json").await.unwrap();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        api.send("POST", &format!("{place}/rolebindings"), Some(&binding), "application/json")
            .await
            .unwrap();
        let kubeconfig = self.cluster.kubeconfig_for(&User::new(name)).await.unwrap();
        Api::of_kubeconfig(&kubeconfig).await.unwrap()
    }

    /// Runs our program with the rights of the administrator.
    async fn command(&self, args: &[&str]) -> Output {
        self.run(self.cluster.program(), args).await.unwrap()
    }

    /// The same with any program.
    async fn run(&self, program: impl AsRef<OsStr>, args: &[&str]) -> std::io::Result<Output> {
        let kubeconfig: PathBuf = self.cluster.files().join("administrator.conf");
        let text = self.cluster.kubeconfig_for(&User::administrator()).await.unwrap();
        std::fs::write(&kubeconfig, text).unwrap();
        let mut command = std::process::Command::new(program);
        command.args(args).arg("--kubeconfig").arg(kubeconfig);
        tokio::task::spawn_blocking(move || command.output()).await.unwrap()
    }
}

fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

async fn ask(api: &Api, kind: &str, resource: &str, spec: &Value) -> anyhow::Result<Value> {
    let question = json!({"apiVersion": VERSION, "kind": kind, "spec": spec});
    let path = match kind {
        "Drain" | "Fragmentation" => format!("/apis/{VERSION}/{resource}{AS_KUBECTL}"),
        _ => format!("/apis/{VERSION}/namespaces/default/{resource}{AS_KUBECTL}"),
    };
    api.send("POST", &path, Some(&question), "application/json").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_passes_questions_on() {
    let Some(assets) = Assets::from_environment().unwrap() else {
        eprintln!(
            "skipped: KUBEBUILDER_ASSETS is not set, so there is no real API server to test against"
        );
        return;
    };
    let registered = RegisteredScheduler::start(assets).await;
    let api = registered.cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    api.create(&asking("large", "999")).await.unwrap();
    registered.cluster.until_unschedulable("large").await;
    let discovery = api.send("GET", &format!("/apis/{VERSION}"), None, "").await.unwrap();
    assert_eq!(discovery["kind"], "APIResourceList", "{discovery}");

    // An administrator sees all of it.
    let spec = json!({"podName": "large"});
    let answer = ask(api, "Explanation", "explanations", &spec).await.unwrap();
    assert_eq!(answer["kind"], "Explanation", "{answer}");
    assert_eq!(answer["metadata"]["namespace"], "default", "{answer}");
    let status = &answer["status"];
    assert_eq!((&status["verdict"], &status["nodes"]), (&json!("DoesNotFit"), &json!(3)));
    assert_eq!(status["rejected"][0]["examples"].as_array().map(Vec::len), Some(3), "{status}");
    assert!(status["place"]["attempts"].as_u64() >= Some(1), "not the running one: {status}");
    let template = asking("small", "1");
    for (kind, resource, spec, field) in [
        ("Preemption", "preemptions", spec.clone(), "verdict"),
        (
            "WhatIf",
            "whatifs",
            json!({"changes": [{"addPods": {"pod": template, "count": 2}}]}),
            "fits",
        ),
        ("Capacity", "capacities", json!({"pod": template}), "count"),
        ("Queue", "queues", json!({}), "nPods"),
        (
            "Drain",
            "drains",
            json!({"nodes": [nodes(1).next().unwrap()["metadata"]["name"]]}),
            "fits",
        ),
        ("Fragmentation", "fragmentations", json!({}), "resources"),
    ] {
        let answer = ask(api, kind, resource, &spec).await.unwrap();
        assert_ne!(answer["status"][field], Value::Null, "{kind}: {answer}");
    }
    // What is wrong with a question comes through, too.
    let wrong = ask(api, "Explanation", "explanations", &json!({"podNme": "large"})).await;
    let wrong = wrong.unwrap_err();
    assert_eq!(code(&wrong), Some(400));
    assert!(wrong.to_string().contains("unknown field `podNme`"), "{wrong}");

    // One who may only ask in a namespace is known by name to the scheduler, and sees no name of a node.
    let may_ask = json!([{"apiGroups": ["answers.kube-scheduler.rs"], "verbs": ["create"],
        "resources": ["capacities", "explanations", "preemptions", "queues", "whatifs"]}]);
    let tenant = registered.user("tenant", &may_ask).await;
    let answer = ask(&tenant, "Explanation", "explanations", &spec).await.unwrap();
    assert_eq!(answer["status"]["rejected"][0]["count"], 3, "{answer}");
    for node in nodes(3) {
        let name = node["metadata"]["name"].as_str().unwrap();
        assert!(!answer.to_string().contains(name), "{name} in {answer}");
    }
    let refused = ask(&tenant, "Drain", "drains", &json!({"nodes": ["x"]})).await.unwrap_err();
    assert_eq!(code(&refused), Some(403), "{refused}");
    let stranger = registered.user("stranger", &json!([])).await;
    let refused = ask(&stranger, "Explanation", "explanations", &spec).await.unwrap_err();
    assert_eq!(code(&refused), Some(403), "{refused}");

    // So does kubectl, where there is one.
    let question = registered.cluster.files().join("question.json");
    let about = json!({"apiVersion": VERSION, "kind": "Explanation", "metadata": {"namespace": "default"},
        "spec": {"podName": "large"}});
    std::fs::write(&question, about.to_string()).unwrap();
    let question = question.display().to_string();
    match registered.run("kubectl", &["create", "-f", &question, "-o", "yaml"]).await {
        Ok(output) => {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(out.contains("verdict: DoesNotFit"), "{out} {err}");
        }
        Err(error) => eprintln!("kubectl was not tried: {error}"),
    }

    // The commands find it.
    let output = registered.command(&["explain", "default/large", "-o", "json"]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("answered by the running scheduler at https://"), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &printed["verdict"]), (Some(1), &json!("DoesNotFit")));
}
