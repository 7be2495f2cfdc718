//! PodGroups of Kubernetes 1.37, which the API server in memory does not have: a server in front of it has them, and passes
//! everything else on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1 as client;
use hyper_util::rt::TokioIo;
use kube_scheduler_config::{Configuration, FeatureGates, Gate};
use kube_scheduler_daemon::{Daemon, Endpoint};
use kube_scheduler_devcluster::DevCluster;
use kube_scheduler_plugins_intree::registry;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::cluster::{Running, cluster, pod, until, until_bound};
use crate::https::serve;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

const ROOT: &str = "/apis/scheduling.k8s.io";

/// An API server with PodGroups in one version.
#[derive(Clone)]
struct ServerWithGroups {
    version: &'static str,
    address: SocketAddr,
    behind: String,
    /// Each state of each group, with its place in this list, from 1 on, as its revision.
    groups: watch::Sender<Vec<Value>>,
    /// What was written to the status of groups.
    patches: Arc<Mutex<Vec<Value>>>,
}

fn json_body(value: &Value) -> Body {
    Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync()
}

impl ServerWithGroups {
    async fn start(version: &'static str, cluster: &DevCluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            version,
            address: listener.local_addr().unwrap(),
            behind: cluster.url().trim_start_matches("http://").trim_end_matches('/').to_owned(),
            groups: watch::Sender::new(Vec::new()),
            patches: Arc::default(),
        };
        let served = server.clone();
        serve(listener, move |request| {
            let served = served.clone();
            async move { served.answer(request).await }
        });
        server
    }

    /// Makes a group, or changes it.
    fn put(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut put = Value::Null;
        self.groups.send_modify(|states| {
            let last = states.iter().rev().find(|state| state["metadata"]["name"] == name);
            let mut group = last.cloned().unwrap_or_else(|| complete(self.version, name));
            change(&mut group);
            group["metadata"]["resourceVersion"] = (states.len() + 1).to_string().into();
            states.push(group.clone());
            put = group;
        });
        put
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let versions = ["v1", self.version, "v1alpha1"];
        let Some(rest) = path.strip_prefix(ROOT) else { return self.pass_on(request).await };
        let rest =
            rest.strip_prefix('/').map(|rest| rest.strip_prefix(self.version).unwrap_or(rest));
        match rest {
            None => {
                let versions = versions.map(|version| json!({"version": version}));
                Response::new(json_body(&json!({"versions": versions})))
            }
            Some("") => {
                let resources = ["podgroups", "podgroups/status", "workloads"];
                let resources = resources.map(|name| json!({"name": name}));
                Response::new(json_body(&json!({"resources": resources})))
            }
            Some("/podgroups") => self.list_or_watch(request.uri().query().unwrap_or_default()),
            Some(rest) if request.method() == Method::PATCH => {
                let name = rest.split('/').nth(4).unwrap().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let patch: Value = serde_json::from_slice(&body).unwrap();
                let conditions = patch["status"]["conditions"].clone();
                self.patches.lock().unwrap().push(patch);
                let group = self.put(&name, |group| group["status"]["conditions"] = conditions);
                Response::new(json_body(&group))
            }
            Some(_) => self.pass_on(request).await,
        }
    }

    fn list_or_watch(&self, query: &str) -> Response<Body> {
        let argument = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if argument("watch").is_none() {
            let states = self.groups.borrow().clone();
            let is_last = |at: usize| {
                let name = &states[at]["metadata"]["name"];
                states[at + 1..].iter().all(|later| later["metadata"]["name"] != *name)
            };
            let items: Vec<&Value> =
                (0..states.len()).filter(|at| is_last(*at)).map(|at| &states[at]).collect();
            let metadata = json!({"resourceVersion": states.len().to_string()});
            return Response::new(json_body(&json!({
                "kind": "PodGroupList", "apiVersion": format!("scheduling.k8s.io/{}", self.version),
                "metadata": metadata, "items": items,
            })));
        }
        let from: usize = argument("resourceVersion").unwrap().parse().unwrap();
        let events =
            stream::unfold((self.groups.subscribe(), from), |(mut states, next)| async move {
                loop {
                    let state = states.borrow_and_update().get(next).cloned();
                    if let Some(state) = state {
                        let line = format!("{}\n", json!({"type": "MODIFIED", "object": state}));
                        return Some((Ok(Frame::data(Bytes::from(line))), (states, next + 1)));
                    }
                    states.changed().await.ok()?;
                }
            });
        Response::new(StreamBody::new(events).boxed_unsync())
    }

    async fn pass_on(&self, request: Request<Incoming>) -> Response<Body> {
        let stream = TcpStream::connect(&self.behind).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.unwrap();
        answer.map(|body| body.boxed_unsync())
    }
}

/// A group with everything that it may have in Kubernetes 1.37 without a parent.
fn complete(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": "2026-11-28T10:00:00Z", "finalizers": ["scheduling.k8s.io/podgroup-protection"],
        },
        "spec": {
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
            "resourceClaims": [{"name": "link", "resourceClaimTemplateName": "one-link"}],
            "disruptionMode": {"all": {}},
            "priorityClassName": "high", "priority": 7, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "conditions": [],
            "resourceClaimStatuses": [{"name": "link", "resourceClaimName": "link-x7k2p"}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_later_versions_are_scheduled() {
    for version in ["v1alpha3", "v1beta1"] {
        let cluster = cluster(2).await;
        let server = ServerWithGroups::start(version, &cluster).await;
        server.put("train", |_| ());
        let gates = [
            Gate::GenericWorkload,
            Gate::GangScheduling,
            Gate::TopologyAwareWorkloadScheduling,
            Gate::WorkloadAwarePreemption,
        ];
        let gates = gates.iter().fold(FeatureGates::default(), |all, gate| all.with(*gate, true));
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &gates);
        let endpoint = Endpoint::from_url(&format!("http://{}", server.address)).unwrap();
        let builder = Daemon::builder(endpoint, registry()).gates(gates).config(config);
        let running = Running::start(builder).await;

        let member = |name: &str, group: &str| {
            let mut member = pod(name);
            member["spec"]["schedulingGroup"] = json!({"podGroupName": group});
            cluster.create(member).unwrap();
        };
        member("t-0", "train");
        member("t-1", "train");
        until_bound(&cluster, 2).await;
        until("the group has its condition", || {
            let patches = server.patches.lock().unwrap();
            patches.iter().any(|patch| {
                let condition = &patch["status"]["conditions"][0];
                condition["type"] == "PodGroupInitiallyScheduled" && condition["status"] == "True"
            })
        })
        .await;

        // More than there are, until the group says that they are enough.
        server
            .put("late", |group| group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 3.into());
        member("l-0", "late");
        member("l-1", "late");
        let are_gated = "scheduler_pending_pods{queue=\"gated\"} 2";
        until("both are held back", || running.handle.metrics().contains(are_gated)).await;
        server
            .put("late", |group| group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2.into());
        until_bound(&cluster, 4).await;
        let patches = server.patches.lock().unwrap().clone();
        let named = |patch: &Value| patch["status"]["conditions"][0]["type"].clone();
        assert!(
            patches.iter().all(|patch| named(patch) == "PodGroupInitiallyScheduled"),
            "{patches:?}"
        );
        running.stop().await;
    }
}
