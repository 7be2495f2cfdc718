//! The three schedulers against an API server over HTTP, each with its configuration as a file would give it.

use std::time::Duration;

use kube_scheduler_daemon::{Daemon, DaemonHandle, Endpoint};
use kube_scheduler_devcluster::{DevCluster, EVENTS, NodeTemplate, PODS, Selection};
use kube_scheduler_examples::{cheap_nodes, gang, reserved_pools};
use kube_scheduler_framework::testing::{PodBuilder, pod};
use kube_scheduler_rs::SchedulerBuilder;
use tokio::time::Instant;

/// Nothing here takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A configuration that enables a plugin at all its points, with these arguments.
fn config(plugin: &str, weight: u32, args: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\n\
         kind: KubeSchedulerConfiguration\n\
         podMaxBackoffSeconds: 1\n\
         profiles:\n\
         - plugins:\n    multiPoint:\n      enabled:\n      - name: {plugin}\n        weight: {weight}\n  \
           pluginConfig:\n  - name: {plugin}\n    args: {args}\n"
    )
}

async fn start(builder: SchedulerBuilder, cluster: &DevCluster, config: &str) -> Daemon {
    let endpoint = Endpoint::from_url(&cluster.url()).unwrap();
    builder.daemon(endpoint, config).unwrap().start().await.unwrap()
}

/// Runs the scheduler for as long as `test` takes.
async fn with(daemon: Daemon, test: impl AsyncFnOnce(DaemonHandle)) {
    let handle = daemon.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(daemon.run(async { drop(stopped.await) }));
    test(handle).await;
    drop(stop);
    running.await.unwrap().unwrap();
}

async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn node_of(cluster: &DevCluster, namespace: &str, name: &str) -> Option<String> {
    let pod = cluster.get(PODS, namespace, name)?.value();
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// Whether an event about a pod says this.
fn is_reported(cluster: &DevCluster, name: &str, reason: &str, part: &str) -> bool {
    cluster.list(EVENTS, &Selection::all()).items.iter().any(|event| {
        let event = event.value();
        let about = [&event["regarding"]["name"], &event["involvedObject"]["name"]];
        let texts = [event["note"].as_str(), event["message"].as_str()];
        about.contains(&&name.into())
            && event["reason"] == reason
            && texts.into_iter().flatten().any(|text| text.contains(part))
    })
}

fn nodes(cluster: &DevCluster, name: &str, n: usize, label: &str, value: &str) {
    let template =
        NodeTemplate::default().name_prefix(name).label(label, value).capacity("cpu", "4");
    cluster.add_hollow_nodes(n, &template).unwrap();
}

fn create(cluster: &DevCluster, pod: &PodBuilder) {
    cluster.create(pod.to_json()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_pools_take_only_their_namespaces() {
    let cluster = DevCluster::builder().start().await.unwrap();
    nodes(&cluster, "gpu", 1, "example.com/pool", "gpu");
    let builder = SchedulerBuilder::new().with_plugin(reserved_pools::NAME, reserved_pools::new);
    let config = config("ReservedPools", 0, "{reserved: {gpu: [training]}}");
    with(start(builder, &cluster, &config).await, async |_| {
        for namespace in ["training", "web"] {
            let namespace = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            // It may be there already.
            let _ = cluster.create(namespace);
        }
        create(&cluster, &pod("ours").namespace("training").request("cpu", "1"));
        create(&cluster, &pod("other").namespace("web").request("cpu", "1"));
        until("ours is bound", || node_of(&cluster, "training", "ours").is_some()).await;
        let text = "1 node(s) were reserved for other namespaces";
        until("other is reported", || is_reported(&cluster, "other", "FailedScheduling", text))
            .await;
        // The event of the new node must bring the pod back.
        nodes(&cluster, "plain", 1, "example.com/pool", "plain");
        until("other is bound", || node_of(&cluster, "web", "other").is_some()).await;
        assert!(node_of(&cluster, "web", "other").unwrap().starts_with("plain"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cheapest_node_is_chosen() {
    let cluster = DevCluster::builder().start().await.unwrap();
    nodes(&cluster, "dear", 2, "example.com/price", "4.5");
    nodes(&cluster, "cheap", 1, "example.com/price", "0.25");
    nodes(&cluster, "fair", 2, "example.com/price", "1.5");
    let builder = SchedulerBuilder::new().with_plugin(cheap_nodes::NAME, cheap_nodes::new);
    let config = config("CheapNodes", 100, "{priceLabel: example.com/price}");
    with(start(builder, &cluster, &config).await, async |_| {
        for n in 0..4 {
            create(&cluster, &pod(&format!("p{n}")).request("cpu", "500m"));
        }
        let placed = || (0..4).filter_map(|n| node_of(&cluster, "default", &format!("p{n}")));
        until("all are bound", || placed().count() == 4).await;
        assert!(
            placed().all(|node| node.starts_with("cheap")),
            "{:?}",
            placed().collect::<Vec<_>>()
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_starts_together_or_not_at_all() {
    let cluster = DevCluster::builder().start().await.unwrap();
    nodes(&cluster, "first", 2, "pool", "a");
    let member = |name: &str| {
        pod(name)
            .label("example.com/gang", "crew")
            .label("example.com/gang-size", "3")
            .request("cpu", "3")
    };
    let builder = SchedulerBuilder::new().with_plugin(gang::NAME, gang::new);
    let config = config("Gang", 0, "{timeoutSeconds: 2}");
    with(start(builder, &cluster, &config).await, async |scheduler| {
        create(&cluster, &member("a"));
        create(&cluster, &member("b"));
        let few = |name| is_reported(&cluster, name, "FailedScheduling", "gang crew has");
        until("too few are reported so", || few("a") || few("b")).await;
        // With the third there are enough members, and too little room: two wait, and give up together.
        create(&cluster, &member("c"));
        let names = ["a", "b", "c"];
        until("one gives up, and with it the others", || {
            names
                .iter()
                .any(|name| is_reported(&cluster, name, "GangIncomplete", "gang crew gives up"))
        })
        .await;
        assert!(names.iter().all(|name| node_of(&cluster, "default", name).is_none()));
        nodes(&cluster, "second", 1, "pool", "b");
        until("all are bound", || {
            names.iter().all(|name| node_of(&cluster, "default", name).is_some())
        })
        .await;
        let shown = "gang_permit_decisions_total{decision=\"allow\"}";
        until("the metric is shown", || scheduler.metrics().contains(shown)).await;
    })
    .await;
}
