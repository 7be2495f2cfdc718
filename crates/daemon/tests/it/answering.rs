//! Questions over HTTP: who may ask, what an answer says to whom, and what is refused.

use std::time::Duration;

use kube_scheduler_config::{Configuration, FeatureGates, Gate};
use kube_scheduler_daemon::{ConnectionPatience, DaemonBuilder, ServingOptions};
use kube_scheduler_devcluster::DevCluster;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::cluster::{Running, cluster, daemon, placements, pod};
use crate::https::{Client, HttpReply, ReviewServer, until_asked};

const API: &str = "/apis/answers.kube-scheduler.rs/v1alpha1";
const CREATE: &str = "create answers.kube-scheduler.rs/explanations default";

/// Two nodes of 4 CPUs, a pod for which neither is large enough, and three users: an administrator, an operator, and a
/// tenant who may ask about a namespace but list nothing.
struct AnsweringScheduler {
    running: Running,
    reviews: ReviewServer,
    cluster: DevCluster,
    _directory: TempDir,
}

fn large(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "8"}});
    pod
}

impl AnsweringScheduler {
    async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    /// The same with other options of the scheduler.
    async fn with(options_of: impl FnOnce(DaemonBuilder) -> DaemonBuilder) -> Self {
        // A question that a test sends slowly is not given up before the test says so.
        Self::with_questions_within(Duration::from_secs(3600), options_of).await
    }

    /// The same where questions have to be sent in this time.
    async fn with_questions_within(
        question: Duration,
        options_of: impl FnOnce(DaemonBuilder) -> DaemonBuilder,
    ) -> Self {
        let directory = tempdir().unwrap();
        let reviews = ReviewServer::start().await;
        {
            let mut state = reviews.state.lock().unwrap();
            for (name, groups) in [
                ("administrator", json!(["system:masters"])),
                ("operator", json!([])),
                ("tenant", json!([])),
            ] {
                state.tokens.insert(name.to_owned(), json!({"username": name, "groups": groups}));
            }
        }
        for (user, right) in [
            ("tenant", CREATE),
            ("operator", CREATE),
            ("operator", "list /nodes "),
            ("operator", "list /pods "),
        ] {
            reviews.allow(user, right);
        }
        let patience = ConnectionPatience { question, ..ConnectionPatience::default() };
        let options = ServingOptions { patience, ..reviews.options(directory.path()) };
        let cluster = cluster(2).await;
        cluster.create(large("large")).unwrap();
        let builder = options_of(daemon(&cluster).serving(Some(options)));
        let running = Running::start(builder).await;
        assert!(running.handle.synced().await);
        Self { running, reviews, cluster, _directory: directory }
    }

    fn client(&self, user: &str) -> Client {
        let client = Client::new(self.running.handle.address().unwrap());
        client.with_header("Authorization", &format!("Bearer {user}"))
    }

    async fn ask(&self, user: &str, namespace: &str, spec: Value) -> HttpReply {
        let path = format!("{API}/namespaces/{namespace}/explanations");
        self.client(user).ask("POST", &path, &question(&spec)).await
    }

    /// Sends the beginning of a question.
    async fn begin(&self, user: &str) -> TlsStream<TcpStream> {
        let mut stream = self.client(user).connect().await.unwrap();
        let head = format!(
            "POST {API}/namespaces/default/explanations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {user}\r\n\
             Content-Length: 100\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    async fn answer(&self, user: &str, spec: Value) -> Value {
        let reply = self.ask(user, "default", spec).await;
        assert_eq!(reply.code, 201, "{}", reply.body);
        serde_json::from_str(&reply.body).unwrap()
    }
}

fn question(spec: &Value) -> String {
    let version = "answers.kube-scheduler.rs/v1alpha1";
    json!({"apiVersion": version, "kind": "Explanation", "spec": spec}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_explained_and_changes_suggested() {
    let answering = AnsweringScheduler::new().await;
    let spec = json!({"podName": "large", "suggest": true});
    let answer = answering.answer("administrator", spec.clone()).await;
    assert_eq!((&answer["kind"], &answer["spec"]), (&json!("Explanation"), &spec));
    assert_eq!(answer["metadata"]["namespace"], "default");
    let status = &answer["status"];
    assert_eq!((&status["verdict"], &status["nodes"]), (&json!("DoesNotFit"), &json!(2)));
    assert_eq!(status["rejected"][0]["rejections"][0]["reasons"], json!(["Insufficient cpu"]));
    assert_eq!(status["rejected"][0]["examples"].as_array().unwrap().len(), 2);
    assert_eq!(status["suggestions"][0]["codes"], json!(["LowerRequest"]), "{status:#}");
    // A pod that does not exist, as an API server would store it.
    let mut small = pod("small");
    small["spec"]["schedulerName"] = json!("default-scheduler");
    let answer = answering.answer("administrator", json!({"pod": small})).await;
    assert_eq!(answer["status"]["verdict"], "Fits");
    assert_eq!(answer["status"]["decision"]["ties"], 2);
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_names_what_its_reader_may_list() {
    let answering = AnsweringScheduler::new().await;
    let mut small = pod("small");
    small["spec"]["schedulerName"] = json!("default-scheduler");
    for (user, names_nodes) in [("operator", true), ("tenant", false)] {
        let fits = answering.answer(user, json!({"pod": small})).await;
        assert_eq!(
            (&fits["status"]["verdict"], &fits["status"]["nFeasible"]),
            (&json!("Fits"), &json!(2))
        );
        assert_eq!(fits.to_string().contains("hollow-"), names_nodes, "{user}: {fits:#}");
        let large = answering.answer(user, json!({"podName": "large", "suggest": true})).await;
        assert_eq!(large["status"]["rejected"][0]["count"], 2);
        assert!(large["status"]["suggestions"].is_array(), "{large:#}");
        assert_eq!(large.to_string().contains("hollow-"), names_nodes, "{user}: {large:#}");
    }
    let elsewhere = answering.ask("tenant", "kube-system", json!({"podName": "large"})).await;
    assert_eq!(elsewhere.code, 403);
    let message = "User \\\"tenant\\\" cannot create resource \\\"explanations\\\" in API group \
                   \\\"answers.kube-scheduler.rs\\\" in the namespace \\\"kube-system\\\"";
    assert!(elsewhere.body.contains(message), "{}", elsewhere.body);
    let reviews = answering.reviews.state.lock().unwrap().access_reviews.clone();
    let asked = reviews
        .iter()
        .find(|review| review["spec"]["resourceAttributes"]["namespace"] == "kube-system");
    assert_eq!(
        asked.unwrap()["spec"],
        json!({"user": "tenant", "groups": ["system:authenticated"], "resourceAttributes": {
            "verb": "create", "group": "answers.kube-scheduler.rs", "version": "v1alpha1",
            "resource": "explanations", "namespace": "kube-system",
        }})
    );
    answering.running.stop().await;
}

/// A question about evictions.
async fn preemption(answering: &AnsweringScheduler, user: &str, spec: &Value) -> HttpReply {
    let version = "answers.kube-scheduler.rs/v1alpha1";
    let body = json!({"apiVersion": version, "kind": "Preemption", "spec": spec}).to_string();
    answering
        .client(user)
        .ask("POST", &format!("{API}/namespaces/default/preemptions"), &body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_are_foreseen_without_the_names_that_the_reader_may_not_see() {
    let answering = AnsweringScheduler::new().await;
    for name in ["filler-1", "filler-2"] {
        let mut filler = pod(name);
        filler["metadata"]["namespace"] = json!("kube-system");
        filler["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
        answering.cluster.create(filler).unwrap();
    }
    let mut urgent = pod("urgent");
    urgent["spec"]["schedulerName"] = json!("default-scheduler");
    urgent["spec"]["priority"] = json!(1_000);
    urgent["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
    let spec = json!({"pod": urgent});
    until_asked("both nodes are full", || async {
        let reply = preemption(&answering, "administrator", &spec).await;
        reply.body.contains("\"FitsAfterPreemption\"")
    })
    .await;
    let reply = preemption(&answering, "administrator", &spec).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((&answer["kind"], &answer["spec"]), (&json!("Preemption"), &spec));
    let status = &answer["status"];
    assert_eq!(status["candidates"].as_array().unwrap().len(), 2, "{status:#}");
    assert!(status["node"].as_str().unwrap().starts_with("hollow-"));
    assert_eq!(status["victims"].as_array().unwrap().len(), 1);
    assert_eq!(status["kind"], Value::Null, "it stands at the top");

    let refused = preemption(&answering, "operator", &spec).await;
    assert_eq!(refused.code, 403, "the right to ask for explanations is another one");
    answering.reviews.allow("tenant", "create answers.kube-scheduler.rs/preemptions default");
    let reply = preemption(&answering, "tenant", &spec).await;
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(answer["status"]["candidates"].as_array().unwrap().len(), 2, "{answer:#}");
    for name in ["hollow-", "filler-"] {
        assert!(!reply.body.contains(name), "{name}: {answer:#}");
    }
    let version = "answers.kube-scheduler.rs/v1alpha1";
    let body = json!({"apiVersion": version, "kind": "Preemption", "spec": spec}).to_string();
    let path = format!("{API}/namespaces/default/preemptions?rendered=table");
    let reply = answering.client("tenant").ask("POST", &path, &body).await;
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    let table = answer["status"]["rendered"].as_str().unwrap();
    assert!(table.contains("fits on a node once 1 pod is evicted"), "{table}");
    let wrong = json!({"podName": "large", "suggest": true});
    assert_eq!(preemption(&answering, "administrator", &wrong).await.code, 400);
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_question_is_refused() {
    let answering = AnsweringScheduler::new().await;
    let client = answering.client("administrator");
    let path = format!("{API}/namespaces/default/explanations");
    let too_long = question(&json!({"podName": "x".repeat(2 << 20)}));
    for (method, body, code, reason) in [
        ("GET", String::new(), 405, "MethodNotAllowed"),
        ("POST", "{".to_owned(), 400, "BadRequest"),
        ("POST", question(&json!({})), 400, "BadRequest"),
        ("POST", question(&json!({"podName": "missing"})), 404, "NotFound"),
        ("POST", question(&json!({"pod": {"spec": {"schedulerName": "other"}}})), 422, "Invalid"),
        ("POST", "[".repeat(100_000), 400, "BadRequest"),
        ("POST", too_long, 413, "RequestEntityTooLarge"),
    ] {
        let reply = client.ask(method, &path, &body).await;
        let start: String = body.chars().take(100).collect();
        assert_eq!(reply.code, code, "{method} {start}: {}", reply.body);
        let status: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!(reason)));
    }
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_sent_too_slowly_is_given_up() {
    let answering =
        AnsweringScheduler::with_questions_within(Duration::from_millis(20), |builder| builder)
            .await;
    let mut stream = answering.begin("administrator").await;
    let mut start = [0; 13];
    let answered = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut start));
    answered.await.unwrap().unwrap();
    assert_eq!(start, *b"HTTP/1.1 408 ");
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_questions_than_there_are_places_for_are_turned_away() {
    let answering = AnsweringScheduler::new().await;
    let ask = async |user: &str| answering.ask(user, "default", json!({"podName": "large"})).await;
    // Sends questions slowly until the user has no other place.
    let fill = async |user: &str| {
        let mut slow = Vec::new();
        // One at a time: a question that is asked meanwhile may have the place that one of these was meant to take.
        let refused = loop {
            assert!(slow.len() < 1_000, "there is always another place");
            slow.push(answering.begin(user).await);
            let reply = ask(user).await;
            if reply.code != 201 {
                break reply;
            }
        };
        assert_eq!(refused.code, 429, "{}", refused.body);
        assert!(refused.head.contains("retry-after: 1"));
        (slow, refused.body)
    };
    let (greedy, said) = fill("administrator").await;
    assert!(said.contains("2 questions of user \\\"administrator\\\""), "{said}");
    // No one user shuts out another, and two together have all places.
    let reply = ask("tenant").await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    let (others, _) = fill("operator").await;
    let refused = ask("tenant").await;
    assert_eq!(refused.code, 429, "{}", refused.body);
    assert!(refused.body.contains("4 questions are being answered"), "{}", refused.body);
    drop(others);
    until_asked("a place is free", async || ask("tenant").await.code == 201).await;
    assert_eq!(ask("administrator").await.code, 429);
    drop(greedy);
    until_asked("it is the user's again", async || ask("administrator").await.code == 201).await;
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_discover_the_api() {
    let answering = AnsweringScheduler::new().await;
    let client = answering.client("administrator");
    for (path, kind) in [
        ("/apis", "APIGroupList"),
        ("/apis/answers.kube-scheduler.rs", "APIGroup"),
        (API, "APIResourceList"),
    ] {
        let reply = client.get(path).await;
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((reply.code, &body["kind"]), (200, &json!(kind)), "{path}");
    }
    assert_eq!(client.get("/apis/apps/v1").await.code, 404);
    assert_eq!(Client::new(client.address).get("/apis").await.code, 403);
    answering.running.stop().await;
}

/// Asks a question of another kind than explanations.
async fn asked(
    answering: &AnsweringScheduler,
    user: &str,
    place: &str,
    kind: &str,
    spec: &Value,
) -> HttpReply {
    let version = "answers.kube-scheduler.rs/v1alpha1";
    let body = json!({"apiVersion": version, "kind": kind, "spec": spec}).to_string();
    answering.client(user).ask("POST", &format!("{API}/{place}"), &body).await
}

async fn answered(
    answering: &AnsweringScheduler,
    user: &str,
    place: &str,
    kind: &str,
    spec: &Value,
) -> Value {
    let reply = asked(answering, user, place, kind, spec).await;
    assert_eq!(reply.code, 201, "{place}: {}", reply.body);
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((&answer["kind"], &answer["spec"]), (&json!(kind), spec), "{answer:#}");
    answer["status"].clone()
}

const WHAT_IFS: &str = "namespaces/default/whatifs";

fn small(name: &str) -> Value {
    let mut small = pod(name);
    small["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    small
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_happen_is_answered_from_a_copy() {
    let answering = AnsweringScheduler::new().await;
    let what_if = json!({"changes": [{"addPods": {"pod": small("new"), "count": 3}}]});
    let status = answered(&answering, "administrator", WHAT_IFS, "WhatIf", &what_if).await;
    assert_eq!(
        (&status["fits"], status["placements"].as_array().unwrap().len()),
        (&json!(true), 3)
    );
    assert_eq!(status["placements"][0]["pod"], "default/new-1");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": small("web")["spec"]}},
    });
    let what_if = json!({"changes": [{"addWorkload": {"workload": deployment}}]});
    let status = answered(&answering, "administrator", WHAT_IFS, "WhatIf", &what_if).await;
    assert_eq!(
        (&status["fits"], status["placements"].as_array().unwrap().len()),
        (&json!(true), 3),
        "{status:#}"
    );
    let version: u64 = status["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(version > 0 && status["asOf"].is_string(), "{status:#}");
    // Without an election it leads.
    assert_eq!(status["isLeading"], true, "{status:#}");

    let capacity = json!({"pod": small("more")});
    let place = "namespaces/default/capacities";
    let status = answered(&answering, "administrator", place, "Capacity", &capacity).await;
    assert_eq!((&status["count"], &status["nNodes"]), (&json!(8), &json!(2)), "{status:#}");
    assert_eq!(status["limitedBy"]["verdict"], "DoesNotFit");

    let place = "namespaces/default/queues";
    let queued = until_waiting(&answering, place).await;
    assert_eq!(queued["pods"][0]["pod"], "default/large", "{queued:#}");
    assert!(queued["pods"][0]["place"]["attempts"].as_u64() >= Some(1), "it is the live queue");

    let status =
        answered(&answering, "administrator", "fragmentations", "Fragmentation", &json!({})).await;
    assert_eq!(status["shapes"][0]["example"], "default/large", "{status:#}");

    let drain = json!({"nodes": ["hollow-00000"]});
    let status = answered(&answering, "administrator", "drains", "Drain", &drain).await;
    assert_eq!(status["fits"], true, "{status:#}");
    let missing =
        asked(&answering, "administrator", "drains", "Drain", &json!({"nodes": ["x"]})).await;
    assert_eq!(missing.code, 404, "{}", missing.body);

    // Nothing of it has happened.
    assert_eq!(placements(&answering.cluster).len(), 1);
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_come_with_a_question_of_their_namespace() {
    let answering = AnsweringScheduler::new().await;
    answering.reviews.allow("tenant", "create answers.kube-scheduler.rs/whatifs default");
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    answering.cluster.create(class).unwrap();
    let claim = |meta: Value, volume: Option<&str>| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta,
            "spec": {"storageClassName": "fast", "volumeName": volume},
        })
    };
    let mut db = small("db-0");
    db["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data-db-0"}}]);
    let spec = |claims: Value| json!({"changes": [{"addPods": {"pod": db}}], "objects": claims});
    let own = || claim(json!({"name": "data-db-0"}), None);
    until_asked("the class is known", || async {
        answered(&answering, "tenant", WHAT_IFS, "WhatIf", &spec(json!([own()]))).await["fits"]
            == true
    })
    .await;
    let without = answered(&answering, "tenant", WHAT_IFS, "WhatIf", &spec(json!([]))).await;
    assert_eq!(without["fits"], false, "it was in that answer alone: {without:#}");
    let message = &without["pending"][0]["message"];
    assert!(message.as_str().unwrap().contains("\"data-db-0\" not found"), "{without:#}");

    let elsewhere = claim(json!({"name": "data-db-0", "namespace": "kube-system"}), None);
    let bound = claim(json!({"name": "data-db-0"}), Some("volume-of-others"));
    let mut class = own();
    class["kind"] = json!("StorageClass");
    for (user, claim, code, problem) in [
        ("tenant", elsewhere.clone(), 403, "pods and objects of other namespaces"),
        ("administrator", elsewhere, 201, ""),
        ("administrator", class, 400, "spec.objects[0]: expected a PersistentVolumeClaim"),
        ("tenant", bound.clone(), 403, "claims that have their volumes or devices"),
        ("administrator", bound, 201, ""),
    ] {
        let reply = asked(&answering, user, WHAT_IFS, "WhatIf", &spec(json!([claim]))).await;
        assert_eq!(reply.code, code, "{problem}: {}", reply.body);
        assert!(reply.body.contains(problem), "{problem}: {}", reply.body);
    }
    // The same by a set whose controller makes the claim.
    let set = |volume: Option<&str>| {
        let template = json!({"spec": small("db")["spec"]});
        let claims = json!([claim(json!({"name": "data"}), volume)]);
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"replicas": 2, "template": template, "volumeClaimTemplates": claims}});
        json!({"changes": [{"addWorkload": {"workload": set}}]})
    };
    let answer = answered(&answering, "tenant", WHAT_IFS, "WhatIf", &set(None)).await;
    assert_eq!(answer["fits"], true, "{answer:#}");
    assert!(!answer.to_string().contains("hollow-"), "{answer:#}");
    let bound = set(Some("volume-of-others"));
    let refused = asked(&answering, "tenant", WHAT_IFS, "WhatIf", &bound).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    let many = spec(json!(vec![own(); 1_001]));
    let refused = asked(&answering, "administrator", WHAT_IFS, "WhatIf", &many).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    assert!(refused.body.contains("spec.objects: 1001: at most 1000 are allowed"));

    // One that the cluster has is as it is there.
    let mut there = claim(json!({"name": "data-db-0", "namespace": "default"}), None);
    there["spec"]["storageClassName"] = json!("none");
    answering.cluster.create(there).unwrap();
    let named =
        "PersistentVolumeClaim default/data-db-0: the cluster has one, which counts instead";
    until_asked("the claim is known", || async {
        let answer =
            answered(&answering, "tenant", WHAT_IFS, "WhatIf", &spec(json!([own()]))).await;
        answer["fits"] == false && answer["warnings"].to_string().contains(named)
    })
    .await;
    answering.running.stop().await;
}

/// The queue, once the large pod has been tried.
async fn until_waiting(answering: &AnsweringScheduler, place: &str) -> Value {
    let ask = || answered(answering, "administrator", place, "Queue", &json!(null));
    until_asked("the pod has been tried", || async {
        ask().await["byStage"]["Unschedulable"] == json!(1)
    })
    .await;
    ask().await
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_get_counts_without_the_names_that_they_may_not_see() {
    let answering = AnsweringScheduler::new().await;
    for name in ["theirs-1", "theirs-2"] {
        let mut theirs = small(name);
        theirs["metadata"]["namespace"] = json!("kube-system");
        theirs["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
                    "controller": true}]);
        answering.cluster.create(theirs).unwrap();
    }
    for (resource, namespace) in [
        ("whatifs", "default"),
        ("capacities", "default"),
        ("queues", "default"),
        ("fragmentations", ""),
        ("drains", ""),
    ] {
        let right = format!("create answers.kube-scheduler.rs/{resource} {namespace}");
        answering.reviews.allow("tenant", &right);
        answering.reviews.allow("operator", &right);
    }
    let urgent = {
        let mut urgent = small("urgent");
        urgent["spec"]["priority"] = json!(1_000);
        urgent["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "4"}});
        urgent
    };
    let full = json!({"changes": [{"addPods": {"pod": urgent, "count": 2}}]});
    let pods = |status: &Value| status["evictions"].as_array().map_or(0, Vec::len);
    until_asked("both pods run", || async {
        pods(&answered(&answering, "operator", WHAT_IFS, "WhatIf", &full).await) == 2
    })
    .await;
    let one = json!({"pod": small("more")});
    let both = json!({"nodes": ["hollow-00000", "hollow-00001"]});
    for (place, kind, spec) in [
        (WHAT_IFS, "WhatIf", &full),
        ("namespaces/default/capacities", "Capacity", &one),
        ("namespaces/default/queues", "Queue", &json!(null)),
        ("fragmentations", "Fragmentation", &json!({"by": "kubernetes.io/hostname"})),
        ("drains", "Drain", &both),
    ] {
        let seen = answered(&answering, "operator", place, kind, spec).await;
        let hidden = answered(&answering, "tenant", place, kind, spec).await;
        for name in ["hollow-", "theirs-"] {
            // Names that the caller has given are in the question, which is not looked at here.
            assert!(!hidden.to_string().contains(name), "{name} in {kind}: {hidden:#}");
        }
        for count in ["fits", "count", "nPods", "nNodes", "nShapes", "rounds"] {
            assert_eq!(hidden[count], seen[count], "{count} of {kind}");
        }
        let names = ["hollow-", "theirs-"].map(|name| seen.to_string().contains(name));
        assert!(kind == "Queue" || names[0], "{kind}: {seen:#}");
    }
    let hidden = answered(&answering, "tenant", WHAT_IFS, "WhatIf", &full).await;
    assert_eq!(pods(&hidden), 2, "evictions are counted: {hidden:#}");

    // A question must not reveal by the names in it what exists.
    let cordon = json!({"changes": [{"cordon": {"name": "hollow-00000"}}]});
    assert_eq!(asked(&answering, "operator", WHAT_IFS, "WhatIf", &cordon).await.code, 201);
    assert_eq!(asked(&answering, "tenant", WHAT_IFS, "WhatIf", &cordon).await.code, 403);
    let delete =
        json!({"changes": [{"deletePod": {"name": "theirs-1", "namespace": "kube-system"}}]});
    assert_eq!(asked(&answering, "operator", WHAT_IFS, "WhatIf", &delete).await.code, 201);
    assert_eq!(asked(&answering, "tenant", WHAT_IFS, "WhatIf", &delete).await.code, 403);
    let evict =
        json!({"changes": [{"evictPod": {"name": "theirs-1", "namespace": "kube-system"}}]});
    let evicted = answered(&answering, "operator", WHAT_IFS, "WhatIf", &evict).await;
    assert_eq!(evicted["placements"][0]["round"], 1, "{evicted:#}");
    assert_eq!(asked(&answering, "tenant", WHAT_IFS, "WhatIf", &evict).await.code, 403);
    let elsewhere = asked(&answering, "tenant", "namespaces/x/whatifs", "WhatIf", &full).await;
    assert_eq!(elsewhere.code, 403, "{}", elsewhere.body);
    answering.running.stop().await;
}

/// Every kind of question, about everything whose name could be in its answer. `urgent` evicts pods of another namespace.
fn questions_of_all_kinds() -> Vec<(&'static str, &'static str, Value)> {
    let mut urgent = small("urgent");
    urgent["spec"]["priority"] = json!(1_000);
    urgent["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "4"}});
    let mut bound = small("bound");
    bound["spec"]["nodeName"] = json!("no-such-node");
    let explanations = "namespaces/default/explanations";
    vec![
        (WHAT_IFS, "WhatIf", json!({"changes": [{"addPods": {"pod": urgent, "count": 2}}]})),
        (explanations, "Explanation", json!({"podName": "large", "suggest": true})),
        (explanations, "Explanation", json!({"podName": "ours"})),
        (explanations, "Explanation", json!({"pod": urgent, "suggest": true})),
        (explanations, "Explanation", json!({"pod": small("more"), "suggest": true})),
        ("namespaces/default/preemptions", "Preemption", json!({"pod": urgent})),
        ("namespaces/default/preemptions", "Preemption", json!({"podName": "large"})),
        (WHAT_IFS, "WhatIf", json!({"changes": [{"addPods": {"pod": small("more")}}]})),
        (WHAT_IFS, "WhatIf", json!({"changes": [{"addPods": {"pod": bound}}]})),
        (WHAT_IFS, "WhatIf", json!({"changes": [{"deletePod": {"name": "ours"}}]})),
        (WHAT_IFS, "WhatIf", json!({"changes": [{"evictPod": {"name": "ours"}}]})),
        ("namespaces/default/capacities", "Capacity", json!({"pod": small("more"), "steps": true})),
        ("namespaces/default/queues", "Queue", json!({})),
        ("fragmentations", "Fragmentation", json!({"by": "kubernetes.io/hostname"})),
        ("drains", "Drain", json!({"nodes": ["hollow-00000", "hollow-00001"]})),
        ("drains", "Drain", json!({"nodes": ["hollow-00000"], "disableEviction": true})),
    ]
}

/// The right to list pods says nothing of nodes, and that to list nodes nothing of pods elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_list_nodes_or_pods_alone_reads_no_other_names() {
    let answering = AnsweringScheduler::new().await;
    for (user, lists) in [("of-nodes", "list /nodes "), ("of-pods", "list /pods ")] {
        let identity = json!({"username": user, "groups": []});
        answering.reviews.state.lock().unwrap().tokens.insert(user.to_owned(), identity);
        answering.reviews.allow(user, lists);
    }
    for user in ["operator", "of-nodes", "of-pods"] {
        for (place, ..) in questions_of_all_kinds() {
            let (namespace, resource) = match place.split('/').collect::<Vec<_>>()[..] {
                ["namespaces", namespace, resource] => (namespace, resource),
                _ => ("", place),
            };
            let right = format!("create answers.kube-scheduler.rs/{resource} {namespace}");
            answering.reviews.allow(user, &right);
        }
    }
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "theirs-set", "uid": "r", "controller": true}]);
    for name in ["theirs-1", "theirs-2", "theirs-3"] {
        let mut theirs = if name == "theirs-3" { large(name) } else { small(name) };
        theirs["metadata"]["namespace"] = json!("kube-system");
        theirs["metadata"]["labels"] = json!({"app": "theirs"});
        theirs["metadata"]["ownerReferences"] = owner.clone();
        answering.cluster.create(theirs).unwrap();
    }
    answering.cluster.create(small("ours")).unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "theirs-budget", "namespace": "kube-system"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "theirs"}}},
    });
    answering.cluster.create(budget).unwrap();
    let (place, kind, full) = questions_of_all_kinds().swap_remove(0);
    until_asked("all of it is known", || async {
        let answer = answered(&answering, "operator", place, kind, &full).await;
        let queues = "namespaces/default/queues";
        let queue = answered(&answering, "operator", queues, "Queue", &json!({})).await;
        let evicted = answer["evictions"].as_array().map_or(0, Vec::len);
        // The budget is in the answer of a drain.
        let drain = json!({"nodes": ["hollow-00000", "hollow-00001"]});
        let drain = answered(&answering, "operator", "drains", "Drain", &drain).await;
        evicted >= 2
            && queue["byStage"]["Unschedulable"] == json!(2)
            && drain.to_string().contains("theirs-budget")
    })
    .await;
    let mut n_hidden = [0, 0];
    for (place, kind, spec) in questions_of_all_kinds() {
        let place = format!("{place}?rendered=wide");
        let seen = answered(&answering, "operator", &place, kind, &spec).await;
        // Names that the caller has given are no news: those of the nodes to drain.
        let given = || spec["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let text = |answer: &Value| {
            given().fold(answer.to_string(), |text, node| text.replace(node, "given"))
        };
        for (user, own, other) in [("of-nodes", 0, 1), ("of-pods", 1, 0)] {
            let answer = answered(&answering, user, &place, kind, &spec).await;
            let names = ["hollow-", "theirs"];
            let has = |answer: &Value, which: usize| text(answer).contains(names[which]);
            assert!(!has(&answer, other), "{user}: {} in {kind}: {answer:#}", names[other]);
            n_hidden[other] += usize::from(has(&seen, other));
            // What it may see is there.
            let both = (has(&answer, own), has(&seen, own));
            assert_eq!(both.0, both.1, "{user}: {} in {kind}: {answer:#}", names[own]);
            for count in ["verdict", "fits", "count", "nPods", "nNodes", "nShapes", "rounds"] {
                assert_eq!(answer[count], seen[count], "{user}: {count} of {kind}");
            }
        }
    }
    assert!(n_hidden[0] >= 10 && n_hidden[1] >= 5, "there was little to hide: {n_hidden:?}");
    let theirs = json!({"name": "theirs-1", "namespace": "kube-system"});
    for (changes, of_nodes, of_pods) in [
        (json!([{"cordon": {"name": "hollow-00000"}}]), 201, 403),
        (json!([{"addNodesLike": {"name": "hollow-00000", "count": 1}}]), 201, 403),
        (json!([{"drain": {"name": "hollow-00000"}}]), 201, 403),
        (json!([{"deletePod": theirs}]), 403, 201),
        (json!([{"evictPod": theirs}]), 403, 201),
        (json!([{"evictPod": theirs}, {"cordon": {"name": "hollow-00000"}}]), 403, 403),
    ] {
        let spec = json!({"changes": changes});
        for (user, code) in [("of-nodes", of_nodes), ("of-pods", of_pods)] {
            let reply = asked(&answering, user, WHAT_IFS, "WhatIf", &spec).await;
            assert_eq!(reply.code, code, "{user} {changes}: {}", reply.body);
            let other = if user == "of-nodes" { "theirs-" } else { "hollow-" };
            let answer = serde_json::from_str::<Value>(&reply.body).unwrap();
            let said = answer["status"].to_string();
            assert!(code != 201 || !said.contains(other), "{user} {changes}: {answer:#}");
        }
    }
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_as_a_table_too_if_it_is_asked_for() {
    let answering = AnsweringScheduler::new().await;
    let place = "namespaces/default/capacities?rendered=wide";
    let status =
        answered(&answering, "administrator", place, "Capacity", &json!({"pod": small("a")})).await;
    let table = status["rendered"].as_str().unwrap();
    assert!(table.contains("NODE") && table.contains("default/a: 8 fit, on 2 nodes"), "{table}");
    let other = "namespaces/default/capacities?rendered=xyz";
    let spec = json!({"pod": small("a")});
    let refused = asked(&answering, "administrator", other, "Capacity", &spec).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    assert!(refused.body.contains("expected table or wide"), "{}", refused.body);
    answering.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_explained_without_the_names_that_the_reader_may_not_see() {
    let answering = AnsweringScheduler::with(|builder| {
        let gates =
            [Gate::GenericWorkload, Gate::GangScheduling, Gate::TopologyAwareWorkloadScheduling];
        let gates = gates.iter().fold(FeatureGates::default(), |all, gate| all.with(*gate, true));
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &gates);
        builder.gates(gates).config(config)
    })
    .await;
    // Its domains are nodes.
    let gang = |name: &str, namespace: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]}},
        })
    };
    answering.cluster.create(gang("gang", "default")).unwrap();
    let member = |name: &str| {
        let mut member = pod(name);
        member["spec"]["schedulingGroup"] = json!({"podGroupName": "gang"});
        member["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        member
    };
    for name in ["m-0", "m-1", "m-2"] {
        answering.cluster.create(member(name)).unwrap();
    }
    let spec = json!({"podName": "m-1"});
    let asked_about = async |user: &str| {
        let reply = answering.ask(user, "default", spec.clone()).await;
        serde_json::from_str::<Value>(&reply.body).unwrap()["status"].clone()
    };
    until_asked("the group is there", || async {
        asked_about("operator").await["group"]["attempt"]["verdict"] == "DoesNotFit"
    })
    .await;
    let seen = asked_about("operator").await;
    assert_eq!((&seen["verdict"], &seen["group"]["minCount"]), (&json!("DoesNotFit"), &json!(3)));
    let domains = &seen["group"]["attempt"]["domains"];
    assert_eq!((&domains[0]["count"], &domains[0]["nPlaced"]), (&json!(2), &json!(2)), "{seen:#}");
    assert!(domains.to_string().contains("hollow-"), "{seen:#}");
    let hidden = asked_about("tenant").await;
    assert!(!hidden.to_string().contains("hollow-"), "{hidden:#}");
    assert_eq!(hidden["group"]["attempt"]["domains"][0]["nPlaced"], 2, "{hidden:#}");
    assert_eq!(hidden["group"]["attempt"]["domains"][0]["failed"][0]["examples"], json!(["m-2"]));

    // Groups of a question are of its namespace, unless its reader may see the others.
    for (user, namespace, code) in
        [("tenant", "default", 201), ("tenant", "other", 403), ("operator", "other", 201)]
    {
        answering.reviews.allow(user, "create answers.kube-scheduler.rs/whatifs default");
        let added = json!({"changes": [{"addPodGroup": {"podGroup": gang("new", namespace)}}]});
        let reply = asked(&answering, user, WHAT_IFS, "WhatIf", &added).await;
        assert_eq!(reply.code, code, "{user} {namespace}: {}", reply.body);
    }
    answering.running.stop().await;
}
