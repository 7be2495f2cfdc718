//! Schedulers with extenders that are programs of their own: helpful, slow, failing and nonsensical ones.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_scheduler_config::{Configuration, FeatureGates, load};
use kube_scheduler_daemon::{DaemonBuilder, StartError};
use kube_scheduler_devcluster::{DevCluster, EVENTS, NODES, PODS, Selection};
use serde_json::{Value, json};

use crate::cluster::{ClosedPort, Running, cluster, daemon, placements, pod, until, until_bound};
use crate::extender_server::{Answer, Certificates, ExtenderServer};

fn config(extenders: &[Value]) -> Configuration {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": extenders,
    });
    load(&config.to_string(), &FeatureGates::default()).unwrap()
}

fn scheduler(cluster: &DevCluster, extenders: &[Value]) -> DaemonBuilder {
    daemon(cluster).config(config(extenders))
}

/// The configuration of an extender at `url`, with more fields.
fn at(url: &str, fields: Value) -> Value {
    let mut extender = fields;
    extender["urlPrefix"] = format!("{url}/sub/").into();
    extender
}

fn condition(cluster: &DevCluster, name: &str) -> Value {
    let Some(pod) = cluster.get(PODS, "default", name) else { return Value::Null };
    let conditions = pod.value()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
}

async fn reported(cluster: &DevCluster, name: &str) -> (String, String) {
    until(&format!("{name} reported"), || condition(cluster, name)["status"] == "False").await;
    let condition = condition(cluster, name);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn node_names(cluster: &DevCluster) -> Vec<String> {
    let nodes = cluster.list(NODES, &Selection::all()).items;
    nodes.iter().map(|node| node.name().to_owned()).collect()
}

fn node_of(cluster: &DevCluster, name: &str) -> Option<String> {
    placements(cluster).remove(name).flatten()
}

/// Everything that was asked about goes on.
fn all(question: &Value) -> Value {
    json!({"NodeNames": question["NodeNames"], "Nodes": question["Nodes"]})
}

fn pod_name(question: &Value) -> &str {
    question["Pod"]["metadata"]["name"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_filter_and_score_by_name() {
    let cluster = cluster(4).await;
    let names = node_names(&cluster);
    let (unwanted, wanted) = (names[0].clone(), names[2].clone());
    let extender = ExtenderServer::start(move |verb, question| {
        let names = question["NodeNames"].as_array().unwrap();
        Answer::Json(match verb {
            "filter" => {
                let kept: Vec<&Value> = names.iter().filter(|name| **name != *unwanted).collect();
                json!({"nodenames": kept, "failedNodes": {unwanted.clone(): "not this one"}})
            }
            _ => json!([{"host": wanted, "score": 10}, {"host": unwanted, "score": 99}, {"host": "nobody", "score": 1}]),
        })
    })
    .await;
    let config = at(
        &extender.url,
        json!({"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "nodeCacheCapable": true}),
    );
    let scheduler = Running::start(scheduler(&cluster, &[config])).await;
    let mut shown = pod("p");
    shown["metadata"]["annotations"] = json!({"note": "kept"});
    shown["spec"]["containers"][0]["env"] = json!([{"name": "KEY", "value": "kept"}]);
    cluster.create(shown).unwrap();
    until_bound(&cluster, 1).await;
    assert_eq!(node_of(&cluster, "p").as_deref(), Some(&*names[2]));

    let asked = extender.asked("filter");
    let mut sent: Vec<&str> =
        asked[0]["NodeNames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    sent.sort_unstable();
    assert_eq!(sent, names);
    assert_eq!(asked[0]["Nodes"], Value::Null);
    let shown = &asked[0]["Pod"];
    assert_eq!(shown["metadata"]["annotations"]["note"], "kept");
    assert_eq!(shown["spec"]["containers"][0]["env"][0]["value"], "kept");
    assert!(shown.get("kind").is_none() && shown["metadata"].get("managedFields").is_none());
    let scored = &extender.asked("prioritize")[0]["NodeNames"];
    assert_eq!(scored.as_array().unwrap().len(), 3, "{scored}");

    // Nothing left: the reason is reported, and the pod comes back with the next event.
    let all_refused = ExtenderServer::start(|_, question| {
        let names = question["NodeNames"].as_array().unwrap().iter().filter_map(Value::as_str);
        let reasons: serde_json::Map<_, _> =
            names.map(|name| (name.to_owned(), "closed".into())).collect();
        Answer::Json(json!({"FailedAndUnresolvableNodes": reasons}))
    })
    .await;
    scheduler.stop().await;
    let config = at(&all_refused.url, json!({"filterVerb": "filter", "nodeCacheCapable": true}));
    let scheduler = Running::start(self::scheduler(&cluster, &[config])).await;
    cluster.create(pod("q")).unwrap();
    let (reason, message) = reported(&cluster, "q").await;
    assert_eq!(reason, "Unschedulable");
    assert!(message.starts_with("0/4 nodes are available: 4 closed."), "{message}");
    let metric = "plugin=\"Extender\"";
    until("blamed", || scheduler.handle.metrics().contains(metric)).await;
    let before = all_refused.asked("filter").len();
    cluster
        .edit(NODES, "", &names[0], |node| {
            node["metadata"]["labels"]["new"] = json!("label");
        })
        .unwrap();
    until("asked again", || all_refused.asked("filter").len() > before).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_without_a_cache_are_shown_whole_nodes() {
    let cluster = cluster(3).await;
    let extender = ExtenderServer::start(|_, question| {
        let items = question["Nodes"]["items"].as_array().unwrap();
        let kept: Vec<&Value> =
            items.iter().filter(|node| node["metadata"]["annotations"]["mine"] == "yes").collect();
        Answer::Json(json!({"Nodes": {"items": kept}}))
    })
    .await;
    let names = node_names(&cluster);
    cluster
        .edit(NODES, "", &names[1], |node| {
            node["metadata"]["annotations"] = json!({"mine": "yes"});
            node["spec"]["podCIDR"] = json!("10.0.0.0/24");
        })
        .unwrap();
    let config = at(&extender.url, json!({"filterVerb": "filter"}));
    let scheduler = Running::start(scheduler(&cluster, &[config])).await;
    cluster.create(pod("p")).unwrap();
    until_bound(&cluster, 1).await;
    assert_eq!(node_of(&cluster, "p"), Some(names[1].clone()));
    let asked = extender.asked("filter");
    assert_eq!(asked[0]["NodeNames"], Value::Null);
    assert_eq!(asked[0]["Nodes"]["metadata"], json!({}));
    let items = asked[0]["Nodes"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    let mine = items.iter().find(|node| node["metadata"]["name"] == *names[1]).unwrap();
    assert_eq!(mine["spec"]["podCIDR"], "10.0.0.0/24");
    assert!(mine["status"]["capacity"]["cpu"].is_string(), "{mine}");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_nonsense_is_an_error_of_one_attempt() {
    let cluster = cluster(2).await;
    let extender = ExtenderServer::start(|_, question| match pod_name(question) {
        "status" => Answer::Plain(500, b"oops".to_vec()),
        "redirect" => Answer::Redirect("http://127.0.0.1:1/elsewhere".to_owned()),
        "garbage" => Answer::Plain(200, b"<html>".to_vec()),
        "nothing" => Answer::Plain(200, Vec::new()),
        "huge" => Answer::Plain(200, vec![b' '; 20 << 20]),
        "deep" => Answer::Plain(200, vec![b'['; 1 << 20]),
        "unknown" => Answer::Json(json!({"NodeNames": ["nobody"]})),
        "types" => Answer::Json(json!({"NodeNames": [7]})),
        "says" => Answer::Json(json!({"Error": "out of licences"})),
        "hang" => Answer::Never,
        _ => Answer::Json(all(question)),
    })
    .await;
    let url = &extender.url;
    // Long enough for any extender that answers, on any machine.
    let config =
        at(url, json!({"filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "10s"}));
    let scheduler = Running::start(scheduler(&cluster, &[config])).await;
    let start = Instant::now();
    let expected = [
        ("status", format!("failed filter with extender at URL {url}/sub/filter, code 500")),
        ("redirect", format!("failed filter with extender at URL {url}/sub/filter, code 307")),
        ("garbage", "json: cannot unmarshal the answer: ".to_owned()),
        ("nothing", "EOF".to_owned()),
        (
            "huge",
            format!("extender at URL {url}/sub/filter answered with more than 16777216 bytes"),
        ),
        ("deep", "json: cannot unmarshal the answer: ".to_owned()),
        (
            "unknown",
            format!(
                "extender \"{url}/sub/\" claims a filtered node \"nobody\" which is not found in the input node list"
            ),
        ),
        ("types", "json: cannot unmarshal the answer: NodeNames: invalid type".to_owned()),
        ("says", "out of licences".to_owned()),
        (
            "hang",
            format!(
                "Post \"{url}/sub/filter\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            ),
        ),
    ];
    for (name, text) in &expected {
        cluster.create(pod(name)).unwrap();
        let (reason, message) = reported(&cluster, name).await;
        assert_eq!(reason, "SchedulerError", "{name}: {message}");
        assert!(message.starts_with(text), "{name}: {message}");
    }
    cluster.create(pod("fine")).unwrap();
    until("fine is bound", || node_of(&cluster, "fine").is_some()).await;
    // Pods that failed back off for a second at least.
    let most = start.elapsed().as_secs() as usize + 2;
    for (name, _) in &expected {
        let n_asked =
            extender.asked("filter").iter().filter(|question| pod_name(question) == *name).count();
        assert!((1..=most).contains(&n_asked), "{name} was asked about {n_asked} times");
    }
    let failed = |event: &Value| {
        event["reason"] == "FailedScheduling" && event["message"] == "out of licences"
    };
    until("an event", || {
        cluster.list(EVENTS, &Selection::all()).items.iter().any(|event| failed(&event.value()))
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_that_may_be_ignored_fail_without_harm() {
    let cluster = cluster(2).await;
    let broken = ExtenderServer::start(|_, _| Answer::Plain(503, Vec::new())).await;
    let verbs = json!({"filterVerb": "filter", "prioritizeVerb": "score", "weight": 1, "bindVerb": "bind",
        "ignorable": true, "nodeCacheCapable": true});
    let port = ClosedPort::new();
    let url = format!("http://{}", port.address());
    let gone = at(&url, json!({"filterVerb": "filter", "ignorable": true}));
    let config = [at(&broken.url, verbs), gone];
    let scheduler = Running::start(scheduler(&cluster, &config)).await;
    cluster.create(pod("p")).unwrap();
    until_bound(&cluster, 1).await;
    assert_eq!([1, 1, 1], ["filter", "score", "bind"].map(|verb| broken.asked(verb).len()));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listening_is_reported_with_the_address() {
    let cluster = cluster(1).await;
    let port = ClosedPort::new();
    let absent = port.address();
    let config = [at(&format!("http://{absent}"), json!({"filterVerb": "filter"}))];
    let scheduler = Running::start(scheduler(&cluster, &config)).await;
    cluster.create(pod("p")).unwrap();
    let (_, message) = reported(&cluster, "p").await;
    let expected = format!(
        "Post \"http://{absent}/sub/filter\": dial tcp {absent}: connect: connection refused"
    );
    assert_eq!(message, expected);
    scheduler.stop().await;
}

/// Writes the standard binding, as an extender that binds does.
fn bind(url: &str, pod: &str, node: &str) {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let name = pod.rsplit('/').next().unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"kind": "Node", "name": node}})
    .to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = binding.len();
    let request = format!(
        "POST /api/v1/namespaces/{pod}/binding HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{binding}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_bind_while_others_go_on() {
    let cluster = cluster(2).await;
    let url = cluster.url();
    let extender = ExtenderServer::start(move |verb, question| {
        assert_eq!(verb, "bind");
        let text = |field: &str| question[field].as_str().unwrap_or_default().to_owned();
        match &*text("PodName") {
            "stuck" => Answer::Never,
            "refused" => Answer::Json(json!({"Error": "no bindings today"})),
            name => {
                let pod = format!("{}/pods/{name}", text("PodNamespace"));
                tokio::task::block_in_place(|| bind(&url, &pod, &text("Node")));
                Answer::Json(json!({}))
            }
        }
    })
    .await;
    let fields = json!({"bindVerb": "bind", "httpTimeout": "60s",
        "managedResources": [{"name": "x.io/card", "ignoredByScheduler": true}]});
    let scheduler = Running::start(
        scheduler(&cluster, &[at(&extender.url, fields)]).grace(Duration::from_millis(100)),
    )
    .await;
    let wanting = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"x.io/card": "1"}, "limits": {"x.io/card": "1"}});
        pod
    };
    cluster.create(wanting("stuck")).unwrap();
    until("the stuck one is asked for", || !extender.asked("bind").is_empty()).await;
    cluster.bulk_create([wanting("outside"), wanting("refused"), pod("inside")]).unwrap();
    until_bound(&cluster, 2).await;
    let (reason, message) = reported(&cluster, "refused").await;
    assert_eq!((&*reason, &*message), ("SchedulerError", "no bindings today"));
    let asked = extender.asked("bind");
    assert!(asked.iter().all(|question| question["PodName"] != "inside"), "{asked:?}");
    let outside = asked.iter().find(|question| question["PodName"] == "outside").unwrap();
    let uid = cluster.get(PODS, "default", "outside").unwrap().value()["metadata"]["uid"].clone();
    assert_eq!(
        *outside,
        json!({"PodName": "outside", "PodNamespace": "default", "PodUID": uid,
            "Node": node_of(&cluster, "outside").unwrap()})
    );
    until("both are counted", || scheduler.handle.progress().n_bound == 2).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_choose_victims() {
    let cluster = cluster(2).await;
    let low = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    cluster.create(low).unwrap();
    let full = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
        pod
    };
    let extender = ExtenderServer::start(|_, question| {
        // Only the node of the pod that may go.
        let by_node = question["NodeNameToVictims"].as_object().unwrap();
        let victims = by_node.iter().filter(|(_, victims)| {
            victims["Pods"][0]["metadata"]["annotations"]["may-go"] == "yes"
        });
        let meta: serde_json::Map<_, _> = victims
            .map(|(node, victims)| {
                let uid = &victims["Pods"][0]["metadata"]["uid"];
                (node.clone(), json!({"Pods": [{"UID": uid}], "NumPDBViolations": 0}))
            })
            .collect();
        Answer::Json(json!({"NodeNameToMetaVictims": meta}))
    })
    .await;
    let config = [at(&extender.url, json!({"preemptVerb": "preempt"}))];
    let scheduler = Running::start(scheduler(&cluster, &config)).await;
    let mut goer = full("goer");
    goer["metadata"]["annotations"] = json!({"may-go": "yes"});
    cluster.bulk_create([full("stayer"), goer]).unwrap();
    until_bound(&cluster, 2).await;
    let freed = node_of(&cluster, "goer");
    let mut important = full("important");
    important["spec"]["priorityClassName"] = json!("high");
    cluster.create(important).unwrap();
    until("bound", || node_of(&cluster, "important").is_some()).await;
    assert_eq!(node_of(&cluster, "important"), freed);
    assert!(node_of(&cluster, "stayer").is_some());
    let asked = extender.asked("preempt");
    assert_eq!(asked[0]["NodeNameToMetaVictims"], Value::Null);
    assert_eq!(asked[0]["Pod"]["metadata"]["name"], "important");
    let shown = &asked[0]["NodeNameToVictims"];
    assert_eq!(shown.as_object().unwrap().len(), 2, "{shown}");
    assert_eq!(
        shown[freed.as_ref().unwrap()]["Pods"][0]["spec"]["nodeName"],
        json!(freed.as_ref().unwrap())
    );
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_against_the_ca() {
    let cluster = cluster(1).await;
    let (ours, others) = (Certificates::new(), Certificates::new());
    let extender =
        ExtenderServer::start_https(&ours, |_, question| Answer::Json(all(question))).await;
    let trusting = |ca: &Certificates, server_name: &str| {
        let tls = json!({"caData": STANDARD.encode(&ca.ca), "serverName": server_name});
        at(
            &extender.url,
            json!({"filterVerb": "filter", "nodeCacheCapable": true, "enableHTTPS": true, "tlsConfig": tls}),
        )
    };
    for (name, config) in [
        ("stranger", trusting(&others, "extender.test")),
        ("misnamed", trusting(&ours, "other.test")),
    ] {
        let scheduler = Running::start(scheduler(&cluster, &[config])).await;
        cluster.create(pod(name)).unwrap();
        let (reason, message) = reported(&cluster, name).await;
        assert_eq!(reason, "SchedulerError");
        assert!(
            message.starts_with(&format!("Post \"{}/sub/filter\": ", extender.url)),
            "{message}"
        );
        assert!(message.contains("certificate"), "{message}");
        scheduler.stop().await;
        cluster.delete(PODS, "default", name).unwrap();
    }
    let insecure = at(
        &extender.url,
        json!({"filterVerb": "filter", "nodeCacheCapable": true, "enableHTTPS": true}),
    );
    for (n, config) in [trusting(&ours, "extender.test"), insecure].into_iter().enumerate() {
        let scheduler = Running::start(scheduler(&cluster, &[config])).await;
        cluster.create(pod(&format!("trusted-{n}"))).unwrap();
        until_bound(&cluster, n + 1).await;
        scheduler.stop().await;
    }
}

#[test]
fn certificates_that_cannot_be_used_are_start_errors() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = runtime.block_on(cluster(0));
    let refused = |fields: Value| {
        // Checking needs no runtime.
        let error = scheduler(&cluster, &[at("https://a", fields)]).check().unwrap_err();
        let StartError::Extenders(error) = error else { panic!("{error}") };
        error.to_string()
    };
    let both = json!({"tlsConfig": {"insecure": true, "caData": STANDARD.encode("x")}});
    assert_eq!(
        refused(both),
        "couldn't build extenders: specifying a root certificates file with the insecure flag is not allowed"
    );
    assert_eq!(
        refused(json!({"tlsConfig": {"caFile": "/nowhere/ca.pem"}})),
        "couldn't build extenders: open /nowhere/ca.pem: no such file or directory"
    );
    scheduler(&cluster, &[at("https://a", json!({"filterVerb": "f"}))]).check().unwrap();
}
