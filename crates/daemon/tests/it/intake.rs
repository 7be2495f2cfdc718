//! What comes in: servers that misbehave in every way, and objects that are malformed or too large.

use std::time::Duration;

use kube_scheduler_config::FeatureGates;
use kube_scheduler_daemon::Patience;
use kube_scheduler_devcluster::{
    DevCluster, EVENTS, FaultEffect, FaultRule, NODES, PODS, Selection,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{
    Running, cluster, cluster_of, daemon, n_bound, placements, pod, pods, until, until_bound,
};

/// Short enough that a test need not wait long for a server that says nothing.
const HASTE: Patience = Patience {
    answer: Duration::from_millis(1_500),
    initial_events: Duration::from_millis(1_500),
    silence: Duration::from_millis(1_500),
};

fn error(code: u16) -> FaultRule {
    FaultRule::new(FaultEffect::Error { code, retry_after_seconds: None })
}

/// Runs a scheduler under faults for a while, counts what it asked, and wants it to recover.
async fn recovers(cluster: &DevCluster, rules: Vec<FaultRule>, most_requests_per_kind: u64) {
    let scheduler = Running::start(daemon(cluster).patience(HASTE)).await;
    assert!(scheduler.handle.synced().await);
    cluster.faults().replace(rules, None).unwrap();
    cluster.faults().drop_watches(None, true);
    cluster.bulk_create(pods("p", 5)).unwrap();
    let (began, before) = (Instant::now(), cluster.faults().injected());
    until("the fault is met", || cluster.faults().injected() > before).await;
    tokio::time::sleep(Duration::from_secs(2).saturating_sub(began.elapsed())).await;
    // Kinds are followed one by one: pods, nodes, namespaces, volumes, owners and so on.
    let n_asked = cluster.faults().injected() - before;
    let limit = most_requests_per_kind * 20 * (1 + began.elapsed().as_secs() / 2);
    assert!(n_asked <= limit, "{n_asked} requests, at most {limit} are expected");
    cluster.faults().clear();
    // Watches that hang are given up, and pauses end.
    until_bound(cluster, 5).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_garbage_is_asked_again_in_peace() {
    let cluster = cluster(2).await;
    recovers(&cluster, vec![FaultRule::new(FaultEffect::Garbage)], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_have_expired_are_tried_again_in_peace() {
    let cluster = cluster(2).await;
    recovers(&cluster, vec![error(401)], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forbids_everything_is_asked_again_in_peace() {
    let cluster = cluster(2).await;
    recovers(&cluster, vec![error(403)], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up_and_asked_again() {
    let cluster = cluster(2).await;
    let hangs = FaultRule::new(FaultEffect::Latency { millis: 600_000, jitter_millis: 0 });
    recovers(&cluster, vec![hangs.verb("list").verb("watch")], 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_silent_is_given_up() {
    let cluster = cluster(2).await;
    recovers(&cluster, vec![FaultRule::new(FaultEffect::Silence)], 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_break_off_are_asked_for_again() {
    let cluster = cluster(2).await;
    let breaks_off = FaultRule::new(FaultEffect::Truncate { after_bytes: 300 });
    recovers(&cluster, vec![breaks_off.verb("list").verb("watch")], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_always_forgets_is_asked_again_in_peace() {
    let cluster = cluster(2).await;
    recovers(&cluster, vec![error(410).verb("list").verb("watch")], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_end_at_once_are_no_busy_loop() {
    let cluster =
        cluster_of(DevCluster::builder().bookmark_interval(Duration::from_millis(10)), 2).await;
    let ends = FaultRule::new(FaultEffect::CloseWatch { after_events: 0 });
    recovers(&cluster, vec![ends], 21).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_stream_no_lists_are_listed_in_pages() {
    let cluster = cluster(5).await;
    // More than two pages; some of them are refused half-way, one because its place in the list is forgotten.
    cluster.bulk_create(pods("p", 1_200)).unwrap();
    // The very first list is not in pages yet.
    let first = FaultRule::new(FaultEffect::Truncate { after_bytes: 5_000 });
    let first = first.verb("list").resource("pods").count(1);
    let mut forgotten = error(410).verb("list").resource("pods").count(1);
    forgotten.skip = 1;
    let mut broken = FaultRule::new(FaultEffect::Truncate { after_bytes: 5_000 });
    broken = broken.verb("list").resource("pods").count(1);
    broken.skip = 2;
    // The first watch of each kind is the one that would have started with a list.
    let no_streams = error(422).verb("watch").resource("pods").count(1);
    for rule in [no_streams, first, forgotten, broken] {
        cluster.faults().add(rule).unwrap();
    }
    let scheduler = Running::start(daemon(&cluster)).await;
    assert!(scheduler.handle.synced().await);
    until("all pods are known", || {
        let progress = scheduler.handle.progress();
        progress.n_bound + progress.pending.total() as u64 == 1_200
    })
    .await;
    assert_eq!(cluster.faults().injected(), 4);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_protobuf_are_spoken_to_in_json() {
    for has_protobuf in [false, true] {
        let cluster = cluster_of(DevCluster::builder().protobuf(has_protobuf), 3).await;
        cluster.bulk_create(pods("early", 20)).unwrap();
        let scheduler = Running::start(daemon(&cluster)).await;
        until_bound(&cluster, 20).await;
        cluster.bulk_create(pods("late", 20)).unwrap();
        until_bound(&cluster, 40).await;
        let reported = |reason: &str| {
            let events = cluster.list(EVENTS, &Selection::all()).items;
            events.iter().filter(|event| event.value()["reason"] == reason).count()
        };
        until("events are written", || reported("Scheduled") == 40).await;
        // What does not fit is reported, too.
        let mut large = pod("large");
        large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100");
        cluster.create(large).unwrap();
        until("it is reported", || reported("FailedScheduling") == 1).await;
        let refused = scheduler.handle.metrics().lines().any(|line| {
            line.starts_with("rest_client_requests_total{code=\"415\"")
                && line.contains("method=\"POST\"")
        });
        assert_eq!(refused, !has_protobuf, "refused is what the server does not read");
        scheduler.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_make_no_sense_spoil_nothing() {
    // In protobuf a server cannot even write such things.
    let cluster = cluster_of(DevCluster::builder().protobuf(false), 2).await;
    let names: Vec<String> = cluster
        .list(NODES, &Selection::all())
        .items
        .iter()
        .map(|node| node.name().to_owned())
        .collect();
    let spoil = |name: &str, images: Value| {
        cluster.edit(NODES, "", name, |node| node["status"]["images"] = images).unwrap();
    };
    // One is bad from the start, one becomes so.
    spoil(&names[0], json!("many"));
    let scheduler = Running::start(daemon(&cluster)).await;
    assert!(scheduler.handle.synced().await);
    assert_eq!(scheduler.handle.progress().n_nodes, 1);
    let malformed = |at_least: u64| {
        let metrics = scheduler.handle.metrics();
        let name = "kube_scheduler_rs_malformed_objects_total{kind=\"nodes\"} ";
        let reported =
            metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        reported.is_some_and(|n| n >= at_least)
    };
    assert!(malformed(1));
    let table = "kube_scheduler_rs_table_entries{table=\"nodes\"} 1\n";
    assert!(scheduler.handle.metrics().contains(table), "a node that makes no sense is not held");
    spoil(&names[1], json!({"not": "a list"}));
    until("it is counted", || malformed(2)).await;
    // The last state that made sense counts on.
    cluster.bulk_create(pods("a", 3)).unwrap();
    until_bound(&cluster, 3).await;
    // A bad node that becomes good is taken in.
    spoil(&names[0], json!([]));
    until("both are there", || scheduler.handle.progress().n_nodes == 2).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn very_large_objects_are_taken_in() {
    let cluster = cluster(2).await;
    let scheduler = Running::start(daemon(&cluster)).await;
    assert!(scheduler.handle.synced().await);
    // As a list and as a change: one pod is there before the next scheduler, one comes while this one watches.
    let large = |name: &str, mebibytes: usize| {
        let mut large = pod(name);
        large["spec"]["containers"][0]["env"] =
            json!([{"name": "X", "value": "x".repeat(mebibytes * 1024 * 1024)}]);
        large
    };
    cluster.create(large("large", 20)).unwrap();
    until_bound(&cluster, 1).await;
    // This one is larger than anything that is read from a watch; the watch goes on behind it.
    let mut elsewhere = large("monstrous", 33);
    elsewhere["spec"]["schedulerName"] = json!("somebody-else");
    cluster.create(elsewhere).unwrap();
    cluster.bulk_create(pods("p", 3)).unwrap();
    until_bound(&cluster, 4).await;
    scheduler.stop().await;

    cluster.bulk_create(pods("q", 3)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 7).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_at_the_limits_are_scheduled() {
    let cluster = cluster(2).await;
    let mut many = pod("many");
    let containers = (0..1_000).map(|i| {
        json!({"name": format!("c{i}"), "image": format!("registry.example.com/a/b{i}:v1"),
               "resources": {"requests": {"cpu": "1m"}}})
    });
    many["spec"]["containers"] = containers.collect();
    cluster.create(many).unwrap();
    let mut labelled = pod("labelled");
    let key = |i: usize| format!("{}.example.com/{i:0>63}", "p".repeat(241));
    labelled["metadata"]["labels"] =
        (0..200).map(|i| (key(i), json!("v".repeat(63)))).collect::<serde_json::Map<_, _>>().into();
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [
        {"key": key(0), "operator": "In", "values": (0..500).map(|i| format!("v{i}")).collect::<Vec<_>>()}]}});
    labelled["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    cluster.create(labelled).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 2).await;
    // Together they take one core of a node of four; so do a thousand containers of one pod.
    let mut rest = pod("rest");
    rest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    cluster.create(rest).unwrap();
    until_bound(&cluster, 3).await;
    assert_ne!(placements(&cluster)["rest"], placements(&cluster)["many"]);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_do_counts_and_is_left_alone() {
    let cluster = cluster(1).await;
    let large = |name: &str| {
        let mut large = pod(name);
        large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
        large
    };
    let scheduler = Running::start(daemon(&cluster)).await;
    assert!(scheduler.handle.synced().await);
    let mut foreign = large("foreign");
    foreign["spec"]["schedulerName"] = json!("somebody-else");
    cluster.create(foreign).unwrap();
    cluster.bulk_create(pods("a", 3)).unwrap();
    until_bound(&cluster, 3).await;
    assert_eq!(placements(&cluster)["foreign"], None);
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                - schedulerName: somebody-else\n";
    let mut config = kube_scheduler_config::decode(text).unwrap();
    kube_scheduler_config::default(&mut config, &FeatureGates::default());
    let theirs = Running::start(daemon(&cluster).config(config)).await;
    until("it is bound", || placements(&cluster)["foreign"].is_some()).await;
    cluster.create(large("ours")).unwrap();
    until("there is no room", || scheduler.handle.progress().pending.unschedulable == 1).await;
    assert_eq!(n_bound(&cluster), 4);
    cluster.delete(PODS, "default", "foreign").unwrap();
    until("there is room", || placements(&cluster)["ours"].is_some()).await;
    assert_eq!(theirs.handle.progress().n_decisions, 1);
    theirs.stop().await;
    scheduler.stop().await;
}
