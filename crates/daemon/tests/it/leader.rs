//! Several schedulers, one lease: who decides, and who does when that one is gone.

use std::time::Duration;

use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_daemon::{Daemon, DaemonHandle, LeaderElectionOptions, Patience, RunError};
use kube_scheduler_devcluster::{
    DevCluster, EVENTS, FaultEffect, FaultRule, LEASES, NODES, NodeTemplate, PODS, Selection,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::{
    BindingLog, ClosedPort, cluster, daemon, n_bound, pod, pods, until, until_bound,
};

/// A lease that lasts longer than a test waits for anything.
pub(crate) fn election(identity: &str) -> LeaderElectionOptions {
    election_with(identity, |_| {})
}

/// A lease whose end a test can wait for, and long enough that a loaded machine does not lose it by accident.
fn short_election(identity: &str) -> LeaderElectionOptions {
    let length = |text: &str| kube_scheduler_config::Duration::parse(text).unwrap();
    election_with(identity, |config| {
        config.leader_election.lease_duration = length("8s");
        config.leader_election.renew_deadline = length("6s");
    })
}

fn election_with(identity: &str, change: impl FnOnce(&mut Configuration)) -> LeaderElectionOptions {
    let mut config = Configuration::default();
    let length = |text: &str| kube_scheduler_config::Duration::parse(text).unwrap();
    config.leader_election.lease_duration = length("120s");
    config.leader_election.renew_deadline = length("100s");
    config.leader_election.retry_period = length("250ms");
    change(&mut config);
    kube_scheduler_config::default(&mut config, &FeatureGates::default());
    LeaderElectionOptions::of(&config).unwrap().unwrap().identity(identity)
}

/// A scheduler that takes part in an election, and how it ended.
pub(crate) struct Contender {
    pub(crate) handle: DaemonHandle,
    pub(crate) task: JoinHandle<Result<(), RunError>>,
    stop: oneshot::Sender<()>,
}

impl Contender {
    async fn start(cluster: &DevCluster, identity: &str) -> Self {
        Self::start_with(cluster, election(identity)).await
    }

    async fn start_with(cluster: &DevCluster, election: LeaderElectionOptions) -> Self {
        let builder = daemon(cluster).leader_election(Some(election)).concurrent_writes(8);
        Self::run(builder.start().await.unwrap())
    }

    pub(crate) fn run(daemon: Daemon) -> Self {
        let handle = daemon.handle();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(daemon.run(async { drop(stopped.await) }));
        Self { handle, task, stop }
    }

    pub(crate) async fn until_leading(&self) {
        until("it leads", || self.handle.progress().is_leading).await;
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap().unwrap();
    }

    /// Ends it as a crash would.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

fn lease(cluster: &DevCluster) -> Value {
    let lease = cluster.get(LEASES, "kube-system", "kube-scheduler");
    lease.map(|lease| lease.value()["spec"].clone()).unwrap_or_default()
}

pub(crate) fn holder(cluster: &DevCluster) -> String {
    lease(cluster)["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

fn node_name(cluster: &DevCluster) -> String {
    cluster.list(NODES, &Selection::all()).items[0].name().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_the_other_waits_with_warm_caches_until_the_lease_is_given_back() {
    let cluster = cluster(5).await;
    let first = Contender::start(&cluster, "first").await;
    first.until_leading().await;
    let second = Contender::start(&cluster, "second").await;
    assert!(second.handle.synced().await, "a standby is ready");
    cluster.bulk_create(pods("a", 20)).unwrap();
    until_bound(&cluster, 20).await;
    until("all counted", || first.handle.progress().n_bound == 20).await;
    assert_eq!(
        (holder(&cluster).as_str(), &lease(&cluster)["leaseTransitions"]),
        ("first", &json!(0))
    );
    assert_eq!(lease(&cluster)["leaseDurationSeconds"], 120);
    assert!(!second.handle.progress().is_leading);
    assert_eq!(second.handle.progress().n_decisions, 0);
    until("the standby has seen them", || second.handle.progress().pending.total() == 0).await;
    let status = |contender: &Contender, value: u8| {
        let line = format!("leader_election_master_status{{name=\"kube-scheduler\"}} {value}");
        contender.handle.metrics().lines().any(|reported| reported == line)
    };
    assert!(status(&first, 1) && status(&second, 0));

    // This waits for half as long as the lease would last.
    first.stop().await;
    second.until_leading().await;
    assert_eq!(
        (holder(&cluster).as_str(), &lease(&cluster)["leaseTransitions"]),
        ("second", &json!(1))
    );
    cluster.bulk_create(pods("b", 20)).unwrap();
    until_bound(&cluster, 40).await;
    second.stop().await;
    assert_eq!(
        (holder(&cluster).as_str(), &lease(&cluster)["leaseDurationSeconds"]),
        ("", &json!(1))
    );

    let reported = || -> Vec<String> {
        let events = cluster.list(EVENTS, &Selection::all()).items;
        let about_leases =
            events.iter().filter(|event| event.value()["reason"] == "LeaderElection");
        about_leases.map(|event| event.value()["message"].as_str().unwrap().to_owned()).collect()
    };
    for message in ["first became leader", "first stopped leading", "second became leader"] {
        until(message, || reported().iter().any(|reported| reported == message)).await;
    }
    let events = cluster.list(EVENTS, &Selection::all()).items;
    let event = events.iter().find(|event| event.value()["reason"] == "LeaderElection").unwrap();
    let event = event.value();
    assert_eq!(event["source"]["component"], "default-scheduler");
    assert_eq!(
        (&event["involvedObject"]["kind"], &event["type"]),
        (&json!("Lease"), &json!("Normal"))
    );
    assert_eq!(event["metadata"]["namespace"], "kube-system");
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_killed_at_random_moments_are_taken_over_from_and_nothing_is_bound_twice() {
    let cluster = cluster(10).await;
    let log = BindingLog::start(&cluster);
    let slow = FaultRule::new(FaultEffect::Latency { millis: 1, jitter_millis: 30 });
    cluster.faults().add(slow.resource("pods/binding")).unwrap();
    let mut contenders = Vec::new();
    for number in 0..3 {
        let name = format!("c{number}");
        let contender = Contender::start_with(&cluster, short_election(&name)).await;
        contenders.push((name, contender));
    }
    let mut n_pods = 0;
    // Not random, so that a failure comes again: after how many bindings of the round the leader dies.
    for (round, after) in [7, 60, 1, 33].into_iter().enumerate() {
        cluster.bulk_create(pods(&format!("r{round}"), 100)).unwrap();
        n_pods += 100;
        until("some are bound", || n_bound(&cluster) >= n_pods - 100 + after).await;
        let mut leading = None;
        until("one of them leads", || {
            leading = contenders.iter().position(|(name, contender)| {
                contender.handle.progress().is_leading && holder(&cluster) == *name
            });
            leading.is_some()
        })
        .await;
        let (name, leader) = contenders.remove(leading.unwrap());
        leader.kill().await;
        let next = format!("{name}.{round}");
        let contender = Contender::start_with(&cluster, short_election(&next)).await;
        contenders.push((next, contender));
        // How soon exactly, the tests of the rules say, which need no clock.
        until("another one took over", || holder(&cluster) != name).await;
        until_bound(&cluster, n_pods).await;
    }
    for (_, contender) in contenders {
        contender.stop().await;
    }
    log.check(n_pods).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_ends_and_writes_nothing_any_more() {
    let cluster = cluster(5).await;
    let first = Contender::start_with(&cluster, short_election("first")).await;
    first.until_leading().await;
    // Of the lease's resource everything hangs; bindings would still get through.
    let hangs = |resource| {
        FaultRule::new(FaultEffect::Latency { millis: 60_000, jitter_millis: 0 }).resource(resource)
    };
    cluster.faults().add(hangs("leases.coordination.k8s.io")).unwrap();
    // Bindings are slow enough that there is always one under way and more waiting.
    let slow = FaultRule::new(FaultEffect::Latency { millis: 500, jitter_millis: 0 });
    cluster.faults().add(slow.verb("create").resource("pods/binding")).unwrap();
    cluster.bulk_create(pods("p", 300)).unwrap();
    let error = first.task.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::LeaseLost), "{error}");
    assert_eq!(error.to_string(), "Leaderelection lost");
    let n_written = n_bound(&cluster);
    assert!(n_written < 300, "it was too fast to be stopped");

    cluster.faults().clear();
    let log = BindingLog::start(&cluster);
    let second = Contender::start(&cluster, "second").await;
    until_bound(&cluster, 300).await;
    assert_eq!(holder(&cluster), "second");
    assert_eq!(second.handle.progress().n_error_attempts, 0, "no other leader got in its way");
    second.stop().await;
    log.check(300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_missed_what_the_last_leader_did_decides_nothing_before_it_knows() {
    let cluster = cluster(1).await;
    let first = Contender::start_with(&cluster, short_election("first")).await;
    first.until_leading().await;
    let haste = Patience { answer: Duration::from_secs(2), ..Patience::default() };
    let second = daemon(&cluster).leader_election(Some(election("second"))).patience(haste);
    let second = Contender::run(second.start().await.unwrap());
    assert!(second.handle.synced().await);
    // From now on watches of pods bring nothing to any scheduler; the node is filled up without their notice.
    let mute = FaultRule::new(FaultEffect::Latency { millis: 600_000, jitter_millis: 0 });
    cluster.faults().add(mute.verb("watch").resource("pods")).unwrap();
    cluster.faults().drop_watches(Some(PODS), true);
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
    let mut other = large.clone();
    large["spec"]["nodeName"] = node_name(&cluster).into();
    cluster.create(large).unwrap();
    other["metadata"]["name"] = json!("other");
    cluster.create(other).unwrap();
    until("both ask for news", || cluster.faults().injected() >= 2).await;
    first.kill().await;
    let n_asked = cluster.faults().injected();
    until("the other one holds the lease", || holder(&cluster) == "second").await;
    // It leads, but it has not seen that there is no room.
    until("it wants to know", || cluster.faults().injected() > n_asked).await;
    assert_eq!(second.handle.progress().n_decisions, 0);
    cluster.faults().clear();
    second.until_leading().await;
    until("it found no room", || second.handle.progress().n_unschedulable_attempts > 0).await;
    assert_eq!(n_bound(&cluster), 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_may_leave_its_caches_empty_until_it_leads() {
    let cluster = cluster(2).await;
    let delayed =
        |identity| election_with(identity, |config| config.delay_cache_until_active = true);
    let first = Contender::start_with(&cluster, delayed("first")).await;
    first.until_leading().await;
    let second = Contender::start_with(&cluster, delayed("second")).await;
    cluster.bulk_create(pods("a", 5)).unwrap();
    until_bound(&cluster, 5).await;
    let progress = second.handle.progress();
    assert_eq!((progress.is_synced, progress.n_nodes), (false, 0));
    first.stop().await;
    cluster.bulk_create(pods("b", 5)).unwrap();
    until_bound(&cluster, 10).await;
    assert!(second.handle.progress().is_synced);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_may_not_watch_the_lease_asks_now_and_then() {
    let cluster = cluster(2).await;
    let refused = FaultRule::new(FaultEffect::Error { code: 403, retry_after_seconds: None });
    cluster.faults().add(refused.verb("watch").resource("leases.coordination.k8s.io")).unwrap();
    let first = Contender::start(&cluster, "first").await;
    first.until_leading().await;
    let second = Contender::start(&cluster, "second").await;
    assert!(second.handle.synced().await);
    first.stop().await;
    second.until_leading().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_later_is_waited_for() {
    let closed = ClosedPort::new();
    let address = closed.address();
    let endpoint = kube_scheduler_daemon::Endpoint::from_url(&format!("http://{address}")).unwrap();
    let builder = Daemon::builder(endpoint, kube_scheduler_plugins_intree::registry())
        .leader_election(Some(election("first")));
    let early = Contender::run(builder.start().await.unwrap());
    assert!(!early.handle.progress().is_synced);
    let cluster = DevCluster::builder().port(address.port()).start().await.unwrap();
    cluster.add_hollow_nodes(2, &NodeTemplate::default()).unwrap();
    cluster.bulk_create(pods("p", 3)).unwrap();
    until_bound(&cluster, 3).await;
    early.stop().await;
}
