//! PodGroups of Kubernetes 1.37, which the API server in memory does not have: a server in front of it has them, and passes
//! everything else on.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
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

/// An API server with PodGroups in one version, which an upgrade changes.
#[derive(Clone)]
struct ServerWithGroups {
    version: watch::Sender<&'static str>,
    /// Whether it says which versions it serves, or lets those who ask wait.
    says_versions: watch::Sender<bool>,
    /// How many have asked and had to wait.
    n_waiting: Arc<AtomicUsize>,
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

fn refusal(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(json_body(&json!({"kind": "Status", "code": status.as_u16()})));
    *answer.status_mut() = status;
    answer
}

impl ServerWithGroups {
    async fn start(version: &'static str, cluster: &DevCluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            version: watch::Sender::new(version),
            says_versions: watch::Sender::new(true),
            n_waiting: Arc::default(),
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

    fn version(&self) -> &'static str {
        *self.version.borrow()
    }

    /// Serves groups in another version from now on, and ends the watches of the one before.
    fn upgrade_to(&self, version: &'static str) {
        self.version.send_replace(version);
    }

    /// Makes a group, or changes it.
    fn put(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut put = Value::Null;
        self.groups.send_modify(|states| {
            let last = states.iter().rev().find(|state| state["metadata"]["name"] == name);
            let mut group = last.cloned().unwrap_or_else(|| complete(self.version(), name));
            change(&mut group);
            group["metadata"]["resourceVersion"] = (states.len() + 1).to_string().into();
            states.push(group.clone());
            put = group;
        });
        put
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let Some(rest) = path.strip_prefix(ROOT) else { return self.pass_on(request).await };
        let rest = rest.trim_start_matches('/');
        if rest.is_empty() {
            return self.versions().await;
        }
        let (version, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let served = self.version();
        let is_served = version == served;
        match rest {
            "" if is_served => {
                let resources = ["podgroups", "podgroups/status", "workloads"];
                let resources = resources.map(|name| json!({"name": name}));
                Response::new(json_body(&json!({"resources": resources})))
            }
            rest if rest.contains("podgroups") && !is_served => refusal(StatusCode::NOT_FOUND),
            "podgroups" => self.list_or_watch(request.uri().query().unwrap_or_default(), served),
            rest if request.method() == Method::PATCH => {
                let name = rest.split('/').nth(3).unwrap().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let patch: Value = serde_json::from_slice(&body).unwrap();
                let conditions = patch["status"]["conditions"].clone();
                self.patches.lock().unwrap().push(patch);
                let group = self.put(&name, |group| group["status"]["conditions"] = conditions);
                Response::new(json_body(&group))
            }
            _ => self.pass_on(request).await,
        }
    }

    async fn versions(&self) -> Response<Body> {
        let mut says_versions = self.says_versions.subscribe();
        let says = *says_versions.borrow_and_update();
        if !says {
            self.n_waiting.fetch_add(1, Ordering::Relaxed);
            drop(says_versions.wait_for(|says| *says).await);
        }
        let versions = ["v1", self.version(), "v1alpha1"];
        let versions = versions.map(|version| json!({"version": version}));
        Response::new(json_body(&json!({"versions": versions})))
    }

    /// In the version `served`, as long as that is the one.
    fn list_or_watch(&self, query: &str, served: &'static str) -> Response<Body> {
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
            let items: Vec<Value> = (0..states.len())
                .filter(|at| is_last(*at))
                .map(|at| in_version(states[at].clone(), served))
                .collect();
            let metadata = json!({"resourceVersion": states.len().to_string()});
            return Response::new(json_body(&json!({
                "kind": "PodGroupList", "apiVersion": format!("scheduling.k8s.io/{served}"),
                "metadata": metadata, "items": items,
            })));
        }
        if argument("sendInitialEvents").is_some() {
            return refusal(StatusCode::UNPROCESSABLE_ENTITY);
        }
        let from: usize = argument("resourceVersion").unwrap().parse().unwrap();
        let start = (self.groups.subscribe(), self.version.subscribe(), from);
        let events = stream::unfold(start, move |(mut states, mut version, next)| async move {
            loop {
                if *version.borrow_and_update() != served {
                    return None;
                }
                let state = states.borrow_and_update().get(next).cloned();
                if let Some(state) = state {
                    let event = json!({"type": "MODIFIED", "object": in_version(state, served)});
                    let frame = Ok(Frame::data(Bytes::from(format!("{event}\n"))));
                    return Some((frame, (states, version, next + 1)));
                }
                tokio::select! {
                    changed = states.changed() => changed.ok()?,
                    changed = version.changed() => changed.ok()?,
                }
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

fn in_version(mut group: Value, version: &str) -> Value {
    group["apiVersion"] = format!("scheduling.k8s.io/{version}").into();
    group
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

/// A scheduler of the groups that this server has.
async fn scheduler(server: &ServerWithGroups) -> Running {
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
    Running::start(builder).await
}

fn create_member(cluster: &DevCluster, name: &str, group: &str) {
    let mut member = pod(name);
    member["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    cluster.create(member).unwrap();
}

async fn until_held_back(running: &Running, n: usize) {
    let are_gated = format!("scheduler_pending_pods{{queue=\"gated\"}} {n}");
    until("members are held back", || running.handle.metrics().contains(&are_gated)).await;
}

/// Waits until the condition that the group is scheduled was written, in the words of 1.37.
async fn until_initially_scheduled(server: &ServerWithGroups, group: &str) {
    let uid = format!("uid-{group}");
    until("the group has its condition", || {
        let patches = server.patches.lock().unwrap();
        patches.iter().any(|patch| {
            let condition = &patch["status"]["conditions"][0];
            patch["metadata"]["uid"] == *uid
                && condition["type"] == "PodGroupInitiallyScheduled"
                && condition["status"] == "True"
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_later_versions_are_scheduled() {
    for version in ["v1alpha3", "v1beta1"] {
        let cluster = cluster(2).await;
        let server = ServerWithGroups::start(version, &cluster).await;
        server.put("train", |_| ());
        let running = scheduler(&server).await;
        create_member(&cluster, "t-0", "train");
        create_member(&cluster, "t-1", "train");
        until_bound(&cluster, 2).await;
        until_initially_scheduled(&server, "train").await;

        // More than there are, until the group says that they are enough.
        server
            .put("late", |group| group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 3.into());
        create_member(&cluster, "l-0", "late");
        create_member(&cluster, "l-1", "late");
        until_held_back(&running, 2).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn no_group_is_lost_while_the_server_is_upgraded() {
    for version in ["v1alpha2", "v1alpha3"] {
        let cluster = cluster(2).await;
        let server = ServerWithGroups::start(version, &cluster).await;
        server.put("train", |_| ());
        let running = scheduler(&server).await;
        create_member(&cluster, "t-0", "train");
        until_held_back(&running, 1).await;
        until("groups are watched", || server.groups.receiver_count() > 0).await;

        server.says_versions.send_replace(false);
        server.upgrade_to("v1beta1");
        // By then it has found that its path is gone.
        until("the scheduler asks for versions", || server.n_waiting.load(Ordering::Relaxed) > 0)
            .await;
        create_member(&cluster, "t-1", "train");
        until_bound(&cluster, 2).await;

        server.says_versions.send_replace(true);
        server.put("late", |_| ());
        create_member(&cluster, "l-0", "late");
        create_member(&cluster, "l-1", "late");
        until_bound(&cluster, 4).await;
        until_initially_scheduled(&server, "late").await;
        // Where it was written first, there was nothing.
        until_initially_scheduled(&server, "train").await;
        running.stop().await;
    }
}
