//! How writes are paced: by classes, by a fixed rate, by what the server takes.

use std::time::{Duration, Instant};

use kube_scheduler_daemon::RateLimit;
use kube_scheduler_devcluster::{DevCluster, EVENTS, FaultEffect, FaultRule, PODS, Selection};
use serde_json::{Value, json};

use crate::cluster::{Running, cluster, daemon, n_bound, pod, pods, until, until_bound};

const SECOND: Duration = Duration::from_secs(1);

fn large_pod(name: &str) -> Value {
    let mut large = pod(name);
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("64");
    large
}

fn events(cluster: &DevCluster, reason: &str) -> Vec<Value> {
    let events = cluster.list(EVENTS, &Selection::all()).items;
    events.iter().map(|event| event.value()).filter(|event| event["reason"] == reason).collect()
}

fn n_told(cluster: &DevCluster) -> usize {
    let is_reported = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    cluster
        .list(PODS, &Selection::all())
        .items
        .iter()
        .filter(|pod| is_reported(&pod.value()))
        .count()
}

/// The value of a series in a page of metrics.
fn metric(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

fn busy(verb: &str, resource: &str) -> FaultRule {
    FaultRule::new(FaultEffect::Error { code: 429, retry_after_seconds: Some(1) })
        .verb(verb)
        .resource(resource)
}

fn slow(millis: u64) -> FaultRule {
    FaultRule::new(FaultEffect::Latency { millis, jitter_millis: 0 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_refusals_is_met_with_ever_fewer_requests() {
    let cluster = cluster(5).await;
    cluster.faults().add(busy("create", "pods/binding")).unwrap();
    cluster.bulk_create(pods("p", 200)).unwrap();
    let start = Instant::now();
    let scheduler = Running::start(daemon(&cluster).concurrent_writes(32)).await;
    // Wave after wave of half the size: 32, 16, 8, and from then on 4 a second.
    until("the fifth wave", || cluster.faults().injected() >= 32 + 16 + 8 + 4 + 4).await;
    assert!(start.elapsed() >= 4 * SECOND, "each wave waits for its second");
    let injected = cluster.faults().injected();
    let most = 64 + 4 * (1 + start.elapsed().as_secs());
    assert!(injected <= most, "{injected} > {most}");
    assert_eq!(n_bound(&cluster), 0);
    cluster.faults().clear();
    until_bound(&cluster, 200).await;
    until("all counted", || scheduler.handle.progress().n_bound == 200).await;
    assert_eq!(scheduler.handle.progress().n_error_attempts, 0, "patience is no failure");
    let page = scheduler.handle.metrics();
    let host = cluster.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let retried =
        format!("rest_client_request_retries_total{{code=\"429\",host=\"{host}\",verb=\"POST\"}}");
    assert!(metric(&page, &retried).is_some_and(|n| n >= 60.0), "{retried} in\n{page}");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_go_before_conditions_and_events_and_none_is_lost() {
    const N: usize = 60;
    let cluster = cluster(5).await;
    cluster.faults().add(slow(20).verb("create").resource("pods/binding")).unwrap();
    // N of these take half a minute, so the bindings are through long before, also on a busy machine.
    let slow = slow(2_000).verb("create").verb("patch");
    let slow = slow.resource("pods/status").resource("events.events.k8s.io");
    cluster.faults().add(slow).unwrap();
    // The pods that fit nowhere come first, so that their conditions and events are due before the first binding.
    cluster.bulk_create((0..N).map(|i| large_pod(&format!("large-{i}")))).unwrap();
    cluster.bulk_create(pods("p", N)).unwrap();
    let scheduler = Running::start(daemon(&cluster).concurrent_writes(4)).await;
    until_bound(&cluster, N).await;
    let (n_told, n_failed, n_assigned) = (
        n_told(&cluster),
        events(&cluster, "FailedScheduling").len(),
        events(&cluster, "Scheduled").len(),
    );
    // Four at once are bindings, one a condition and one an event, whatever waits.
    assert!(n_told < N, "{n_told} conditions");
    assert!(n_failed + n_assigned < N, "{n_failed} and {n_assigned} events");
    cluster.faults().clear();
    until("all conditions", || self::n_told(&cluster) == N).await;
    until("all failures reported", || events(&cluster, "FailedScheduling").len() >= N).await;
    until("all assignments reported", || events(&cluster, "Scheduled").len() == N).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_and_events_go_on_while_bindings_do_not_get_through() {
    let cluster = cluster(5).await;
    cluster.faults().add(busy("create", "pods/binding")).unwrap();
    cluster.bulk_create(pods("p", 50)).unwrap();
    cluster.bulk_create((0..5).map(|i| large_pod(&format!("large-{i}")))).unwrap();
    let scheduler = Running::start(daemon(&cluster).concurrent_writes(8)).await;
    until("conditions", || n_told(&cluster) == 5).await;
    until("events", || events(&cluster, "FailedScheduling").len() >= 5).await;
    assert_eq!(n_bound(&cluster), 0);
    cluster.faults().clear();
    until_bound(&cluster, 50).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_server_wants_later_come_later() {
    let cluster = cluster(5).await;
    cluster.faults().add(busy("create", "events.events.k8s.io").count(30)).unwrap();
    cluster.bulk_create(pods("p", 20)).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until("all assignments reported", || events(&cluster, "Scheduled").len() == 20).await;
    assert_eq!(cluster.faults().injected(), 30);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_rate_is_kept() {
    let cluster = cluster(5).await;
    cluster.bulk_create(pods("p", 40)).unwrap();
    let start = Instant::now();
    let builder = daemon(&cluster).rate_limit(Some(RateLimit { qps: 40.0, burst: 10 }));
    let scheduler = Running::start(builder).await;
    until_bound(&cluster, 40).await;
    // Ten at once, then one every 25 ms; events have a rate of their own.
    assert!(start.elapsed() >= Duration::from_millis(740), "{:?}", start.elapsed());
    until("all assignments reported", || events(&cluster, "Scheduled").len() == 40).await;
    let page = scheduler.handle.metrics();
    let host = cluster.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let limited =
        format!("rest_client_rate_limiter_duration_seconds_count{{host=\"{host}\",verb=\"POST\"}}");
    assert_eq!(metric(&page, &limited), Some(80.0), "{page}");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_are_not_lost_whatever_the_server_does_to_them() {
    let cluster = cluster(5).await;
    let hits = [
        FaultEffect::Error { code: 500, retry_after_seconds: None },
        FaultEffect::Error { code: 409, retry_after_seconds: None },
        FaultEffect::Error { code: 429, retry_after_seconds: Some(1) },
        FaultEffect::Error { code: 503, retry_after_seconds: Some(1) },
        FaultEffect::Error { code: 504, retry_after_seconds: None },
        FaultEffect::ResetAfter,
        FaultEffect::Reset,
    ];
    for effect in hits {
        let rule = FaultRule::new(effect)
            .verb("create")
            .resource("pods/binding")
            .probability(0.3)
            .count(6);
        cluster.faults().add(rule).unwrap();
    }
    cluster.bulk_create(pods("p", 100)).unwrap();
    let scheduler = Running::start(daemon(&cluster).concurrent_writes(16)).await;
    until_bound(&cluster, 100).await;
    until("all counted", || scheduler.handle.progress().n_bound == 100).await;
    until("all assignments reported", || events(&cluster, "Scheduled").len() == 100).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identical_failure_becomes_a_series_of_the_event_about_that_version() {
    let cluster = cluster(1).await;
    cluster.create(large_pod("large")).unwrap();
    let builder = daemon(&cluster).max_in_unschedulable(Duration::from_millis(100));
    let scheduler = Running::start(builder).await;
    let now = || cluster.get(PODS, "default", "large").unwrap().value();
    let series = || {
        let failures = events(&cluster, "FailedScheduling");
        // The first failure changed the condition, and with it the version; the later ones changed nothing. A machine that is busy
        // may be at the second one before it has seen that.
        failures.into_iter().find(|event| {
            event["series"]["count"].as_u64().is_some_and(|count| count >= 2)
                && event["involvedObject"]["resourceVersion"]
                    == now()["metadata"]["resourceVersion"]
        })
    };
    until("a series", || series().is_some()).await;
    let event = series().unwrap();
    let pod = now();
    assert_eq!(event["involvedObject"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(event["reportingComponent"], "default-scheduler");
    assert_eq!(event["action"], "Scheduling");
    let note = event["message"].as_str().unwrap();
    assert!(note.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{note}");
    assert!(events(&cluster, "FailedScheduling").len() <= 2);
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_and_requests_are_measured() {
    let cluster = cluster(3).await;
    cluster.bulk_create(pods("p", 30)).unwrap();
    cluster.create(large_pod("large")).unwrap();
    let scheduler = Running::start(daemon(&cluster)).await;
    until_bound(&cluster, 30).await;
    let sample = |series: &str| metric(&scheduler.handle.metrics(), series).unwrap_or_default();
    let count_of = |point: &str, status: &str| {
        sample(&format!(
            "scheduler_framework_extension_point_duration_seconds_count\
             {{extension_point=\"{point}\",profile=\"default-scheduler\",status=\"{status}\"}}"
        ))
    };
    until("all counted", || count_of("PostBind", "Success") == 30.0).await;
    for point in ["Reserve", "Permit", "PreBind", "Bind"] {
        assert_eq!(count_of(point, "Success"), 30.0, "{point}");
    }
    // One sample for each attempt, over all nodes or over those that changed.
    until("every attempt", || count_of("Filter", "Success") >= 31.0).await;
    assert!(count_of("PreFilter", "Success") >= 2.0, "two classes of pods");
    assert!(count_of("Score", "Success") >= 30.0);
    assert!(
        count_of("PostFilter", "Unschedulable")
            + count_of("PostFilter", "UnschedulableAndUnresolvable")
            >= 1.0
    );
    assert!(count_of("PreEnqueue", "Success") >= 31.0);
    assert!(
        sample(
            "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodeResourcesFit\",profile=\"default-scheduler\"}"
        ) >= 33.0,
        "every node for each class, then one for each pod"
    );
    assert!(sample("scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"}") >= 3.0);
    assert!(
        sample("scheduler_event_handling_duration_seconds_count{event=\"AssignedPodAdd\"}") >= 1.0
    );
    assert_eq!(sample("scheduler_goroutines{operation=\"binding\"}"), 0.0);
    assert_eq!(
        sample(
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"}"
        ),
        30.0
    );
    let host = cluster.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(
        sample(&format!(
            "rest_client_requests_total{{code=\"201\",host=\"{host}\",method=\"POST\"}}"
        )) >= 30.0
    );
    scheduler.stop().await;
}
