//! The pages of the secure port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube_scheduler_config::Configuration;
use kube_scheduler_daemon::{Introspection, ServingOptions, VerbosityError, VerbositySetter};
use kube_scheduler_devcluster::{FaultEffect, FaultRule};
use serde_json::{Value, json};

use crate::cluster::{Running, cluster, daemon, pods, until, until_bound};
use crate::https::{Client, HttpReply, options, until_asked};

/// Options that let every caller see everything.
fn open() -> ServingOptions {
    let mut options = options();
    options.authorization.always_allow_paths = vec!["/*".to_owned()];
    options
}

async fn get(client: &Client, path: &str) -> (u16, String) {
    let reply = client.get(path).await;
    (reply.code, reply.body)
}

fn is_plain(reply: &HttpReply) -> bool {
    reply.head.contains("content-type: text/plain; charset=utf-8")
        && reply.head.contains("x-content-type-options: nosniff")
        && reply.head.contains("cache-control: no-cache, private")
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_configuration_are_served() {
    let cluster = cluster(2).await;
    // Without nodes nothing is synced, so nothing is ready.
    let no_nodes = FaultRule::new(FaultEffect::Error { code: 500, retry_after_seconds: None })
        .resource("nodes");
    cluster.faults().add(no_nodes).unwrap();
    cluster.bulk_create(pods("p", 3)).unwrap();
    let scheduler = Running::start(daemon(&cluster).serving(Some(open()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    assert_eq!(get(&client, "/healthz").await, (200, "ok".to_owned()));
    let reply = client.get("/readyz").await;
    assert!(is_plain(&reply), "{reply:?}");
    assert_eq!(
        (reply.code, reply.body.as_str()),
        (
            500,
            "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
        )
    );
    assert_eq!(
        get(&client, "/readyz/sched-handler-sync").await,
        (500, "internal server error: handlers are not fully synchronized\n".to_owned())
    );
    assert_eq!(get(&client, "/readyz?exclude=sched%2Dhandler-sync").await, (200, "ok".to_owned()));
    assert_eq!(get(&client, "/metrics/resources").await, (200, String::new()));

    cluster.faults().clear();
    until_bound(&cluster, 3).await;
    until("all counted", || scheduler.handle.progress().n_bound == 3).await;
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/livez/ping",
        "/readyz/shutdown",
        "/readyz/sched-handler-sync",
    ] {
        let reply = client.get(path).await;
        assert_eq!((reply.code, reply.body.as_str()), (200, "ok"), "{path}");
        assert!(is_plain(&reply), "{reply:?}");
    }
    assert_eq!(
        get(&client, "/readyz?verbose&exclude=nonsense").await.1,
        "[+]shutdown ok\n[+]sched-handler-sync ok\nwarn: some health checks cannot be excluded: no matches for \
         \"nonsense\"\nreadyz check passed\n"
    );
    for path in ["/readyz/ping", "/livez/shutdown", "/healthz/", "/nothing", "/", "/metrics/"] {
        assert_eq!(get(&client, path).await, (404, "404 page not found\n".to_owned()), "{path}");
    }
    // Each binding takes its pod out of the queue.
    let dequeued =
        "scheduler_event_handling_duration_seconds_count{event=\"UnschedulablePodDelete\"} 3";
    until("all seen", || scheduler.handle.metrics().contains(dequeued)).await;
    let (_, metrics) = get(&client, "/metrics").await;
    for line in [
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 3",
        "scheduler_pod_scheduling_attempts_count 3",
        "scheduler_cache_size{type=\"nodes\"} 2",
    ] {
        assert!(metrics.lines().any(|reply| reply == line), "{line} is missing in\n{metrics}");
    }
    let reply = client.get("/configz").await;
    assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
    let config: Value = serde_json::from_str(&reply.body).unwrap();
    let config = &config["componentconfig"];
    assert_eq!(config["apiVersion"], "kubescheduler.config.k8s.io/v1");
    assert_eq!(config["kind"], "KubeSchedulerConfiguration");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_packed_on_request_and_set_back() {
    let cluster = cluster(1).await;
    cluster.bulk_create(pods("p", 2)).unwrap();
    let scheduler = Running::start(daemon(&cluster).serving(Some(open()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    until_bound(&cluster, 2).await;
    until("all counted", || {
        scheduler.handle.metrics().contains("scheduler_pod_scheduling_attempts_count 2")
    })
    .await;
    let reply =
        client.clone().with_header("Accept-Encoding", "br, gzip;q=0.5").get("/metrics").await;
    assert!(reply.head.contains("content-encoding: gzip"), "{}", reply.head);
    let reply = client.clone().with_header("Accept-Encoding", "gzip;q=0").get("/metrics").await;
    assert!(!reply.head.contains("content-encoding"), "{}", reply.head);
    assert!(
        reply.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{}",
        reply.head
    );
    let started =
        reply.head.lines().find_map(|line| line.strip_prefix("process-start-time-unix: "));
    assert!(started.unwrap().parse::<i64>().unwrap() > 1_700_000_000, "{}", reply.head);
    for path in ["/metrics/slis", "/metrics/resources"] {
        let head = client.get(path).await.head;
        assert!(
            head.contains(&format!("process-start-time-unix: {}\r\n", started.unwrap())),
            "{head}"
        );
    }
    let reply = client.ask("DELETE", "/metrics", "").await;
    assert!(!reply.head.contains("process-start-time-unix"), "{}", reply.head);
    assert_eq!((reply.code, reply.body.as_str()), (200, "metrics reset\n"));
    let (_, metrics) = get(&client, "/metrics").await;
    assert!(metrics.contains("scheduler_pod_scheduling_attempts_count 0\n"), "{metrics}");

    for _ in 0..3 {
        client.get("/livez").await;
    }
    let (_, slis) = get(&client, "/metrics/slis").await;
    for line in [
        "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 3",
    ] {
        assert!(slis.lines().any(|reply| reply == line), "{line} is missing in\n{slis}");
    }
    assert!(slis.contains("process_start_time_seconds "), "{slis}");
    assert_eq!(client.ask("DELETE", "/metrics/slis", "").await.body, "metrics reset\n");
    assert!(!get(&client, "/metrics/slis").await.1.contains("kubernetes_healthcheck"));
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_pods_are_metrics() {
    let cluster = cluster(1).await;
    cluster.bulk_create(pods("p", 1)).unwrap();
    let huge = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "huge"},
        "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {
            "requests": {"cpu": "1000"}, "limits": {"cpu": "1000", "memory": "1Gi"}}}]},
    });
    cluster.bulk_create([huge]).unwrap();
    let scheduler = Running::start(daemon(&cluster).serving(Some(open()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    until_bound(&cluster, 1).await;
    until("both decided", || scheduler.handle.progress().n_decisions >= 2).await;
    let reply = client.get("/metrics/resources").await;
    assert!(reply.head.contains("content-type: text/plain; version=0.0.4"), "{reply:?}");
    let has = |parts: &[&str]| {
        let line = reply.body.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        assert!(line.is_some(), "{parts:?} is missing in\n{}", reply.body);
    };
    has(&[
        "kube_pod_resource_request{",
        "node=\"\",pod=\"huge\"",
        "resource=\"cpu\"",
        "unit=\"cores\"} 1000",
    ]);
    has(&[
        "kube_pod_resource_limit{",
        "node=\"\",pod=\"huge\"",
        "resource=\"memory\"",
        "} 1.073741824e+09",
    ]);
    has(&[
        "kube_pod_resource_request{namespace=\"default\"",
        "pod=\"p-0\"",
        "scheduler=\"default-scheduler\"",
        "} 0.01",
    ]);
    // 16 GiB and 4 cores on a node, of which the pod that fits takes little, and the huge one fits nowhere.
    let whole = client.get("/metrics/fragmentation").await;
    assert!(whole.head.contains("content-type: text/plain; version=0.0.4"), "{whole:?}");
    assert!(
        whole.body.contains("\nkube_scheduler_rs_fragmentation_free{resource=\"cpu\"} "),
        "{whole:?}"
    );
    let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let of_cpu = |body: &str, metric: &str| {
        let lines = body.lines().filter(|line| line.starts_with(metric));
        lines.filter(|line| line.contains("resource=\"cpu\"")).map(number).collect::<Vec<f64>>()
    };
    let [free] = of_cpu(&whole.body, "kube_scheduler_rs_fragmentation_free")[..] else {
        panic!("{whole:?}")
    };
    let [unusable] = of_cpu(&whole.body, "kube_scheduler_rs_fragmentation_unusable")[..] else {
        panic!("{whole:?}")
    };
    // One of the two pods that ask for CPU cannot use any of it.
    assert!(free > 0.0 && (unusable - free / 2.0).abs() < 0.002, "{unusable} of {free}");
    // This caller may not list nodes, and so sees no values of their labels.
    let by_host = client.get("/metrics/fragmentation?by=kubernetes.io/hostname").await;
    assert_eq!(by_host.body, whole.body);
    let reply = client.ask("DELETE", "/metrics/resources", "").await;
    assert_eq!(reply.body, "metrics reset\n");
    scheduler.stop().await;
}

/// What a body says that came in chunks.
fn joined(mut body: &str) -> String {
    let mut text = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return text;
        }
        text.push_str(&rest[..length]);
        body = rest[length..].strip_prefix("\r\n").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resources_of_many_pods_come_in_parts() {
    let cluster = cluster(1).await;
    cluster.bulk_create(pods("p", 800)).unwrap();
    let scheduler = Running::start(daemon(&cluster).serving(Some(open()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    let sample = "\nkube_pod_resource_request{namespace=\"default\",";
    until_asked("all pods", || async {
        let reply = client.get("/metrics/resources").await;
        let is_long = reply.head.contains("transfer-encoding: chunked");
        is_long && joined(&reply.body).matches(sample).count() == 800
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn z_pages_are_negotiated() {
    let cluster = cluster(1).await;
    let flags = BTreeMap::from([
        ("bind-address".to_owned(), "0.0.0.0".to_owned()),
        ("v".to_owned(), "2".to_owned()),
    ]);
    let introspection = Introspection {
        flags: Some(flags),
        toolchain: "rustc 9.9".to_owned(),
        ..Introspection::default()
    };
    let options = ServingOptions { introspection, ..open() };
    let scheduler = Running::start(daemon(&cluster).serving(Some(options))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    let asking = |accept: &str| client.clone().with_header("Accept", accept);

    let reply = client.get("/flagz").await;
    assert!(is_plain(&reply), "{reply:?}");
    let notice = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                  guarantees and is for debugging purposes only.";
    let body = &reply.body;
    assert!(body.starts_with(&format!("\nkube-scheduler flagz\n{notice}\nbind-address")), "{body}");
    assert_eq!(asking("*/*").get("/flagz").await.body, *body, "the same text each time");

    let beta = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let reply = asking(beta).get("/flagz").await;
    assert_eq!(
        reply.body,
        "{\"kind\":\"Flagz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\"metadata\":{\"name\":\"kube-scheduler\"},\
         \"flags\":{\"bind-address\":\"0.0.0.0\",\"v\":\"2\"}}\n"
    );
    let expected = "content-type: application/json;g=config.k8s.io;v=v1beta1;as=flagz";
    assert!(reply.head.contains(expected) && !reply.head.contains("warning:"), "{}", reply.head);
    let reply = asking(&beta.replace("beta", "alpha")).get("/flagz").await;
    assert!(reply.body.contains("config.k8s.io/v1alpha1"), "{}", reply.body);
    let expected = "warning: 299 - \"this version of the flagz endpoint is deprecated. please use a newer version.\"";
    assert!(reply.head.contains(expected), "{}", reply.head);
    let reply = asking(&beta.replace("json", "yaml")).get("/flagz").await;
    assert!(reply.body.contains("\nkind: Flagz\n"), "{}", reply.body);
    let reply = asking("application/json").get("/flagz").await;
    let refusal: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(reply.code, 406);
    assert_eq!(refusal["reason"], "NotAcceptable");
    assert_eq!(
        refusal["message"],
        "only the following media types are accepted: application/json, application/yaml, text/plain"
    );

    let reply = client.get("/statusz").await;
    assert!(
        reply.body.starts_with(&format!("\nkube-scheduler statusz\n{notice}\n\nStarted")),
        "{reply:?}"
    );
    let beta = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let reply = asking(beta).get("/statusz").await;
    let statusz: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(statusz["goVersion"], "rustc 9.9");
    assert_eq!(
        statusz["paths"],
        json!(["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"])
    );
    scheduler.stop().await;

    let scheduler = Running::start(daemon(&cluster).serving(Some(open()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    assert_eq!(client.get("/flagz").await.code, 404, "the flags were not given");
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debugging_pages_are_served_unless_turned_off() {
    let cluster = cluster(1).await;
    let levels = Arc::new(Mutex::new(Vec::new()));
    let noted = levels.clone();
    let setter = VerbositySetter::new(move |level| {
        if level > 100 {
            return Err(VerbosityError("too much".to_owned()));
        }
        noted.lock().unwrap().push(level);
        Ok(())
    });
    let introspection = Introspection { verbosity: Some(setter), ..Introspection::default() };
    let options = ServingOptions { introspection, ..open() };
    let scheduler = Running::start(daemon(&cluster).serving(Some(options.clone()))).await;
    let client = Client::new(scheduler.handle.address().unwrap());

    let reply = client.ask("PUT", "/debug/flags/v", "5").await;
    assert_eq!(
        (reply.code, reply.body.as_str()),
        (200, "successfully set klog.logging.verbosity to 5\n")
    );
    assert_eq!(*levels.lock().unwrap(), [5]);
    for (method, body, code, text) in [
        ("GET", "", 406, "unsupported http method\n"),
        ("PUT", "loud", 400, "strconv.ParseUint: parsing \"loud\": invalid syntax\n"),
        (
            "PUT",
            "99999999999",
            400,
            "strconv.ParseUint: parsing \"99999999999\": value out of range\n",
        ),
        ("PUT", "101", 400, "failed set klog.logging.verbosity 101: too much\n"),
    ] {
        let reply = client.ask(method, "/debug/flags/v", body).await;
        assert_eq!((reply.code, reply.body.as_str()), (code, text), "{method} {body}");
    }
    let reply = client.ask("PUT", "/debug/flags/v", &"5".repeat(8_000)).await;
    assert_eq!(reply.code, 400, "{reply:?}");
    assert_eq!(client.get("/debug/flags").await.code, 200);

    let reply = client.get("/debug/pprof").await;
    assert!(reply.code == 302 && reply.head.contains("location: /debug/pprof/"), "{reply:?}");
    assert!(client.get("/debug/pprof/").await.body.contains("profile?seconds="));
    assert!(client.get("/debug/pprof/threads").await.body.contains("\"scheduling-core\""));
    assert!(client.get("/debug/pprof/memory").await.body.contains("VmRSS"));
    assert!(!client.get("/debug/pprof/cmdline").await.body.is_empty());
    let reply = client.get("/debug/pprof/profile?seconds=1").await;
    assert_eq!(reply.code, 200);
    assert!(reply.head.contains("content-type: application/octet-stream"), "{}", reply.head);
    let reply = client.get("/debug/pprof/goroutine").await;
    assert!(reply.code == 501 && reply.body.contains("/debug/pprof/threads"), "{reply:?}");
    assert_eq!(client.get("/debug/pprof/nonsense").await.code, 404);
    scheduler.stop().await;

    let mut config = Configuration { enable_profiling: Some(false), ..Configuration::default() };
    kube_scheduler_config::default(&mut config, &Default::default());
    let builder = daemon(&cluster).config(config).serving(Some(options));
    let scheduler = Running::start(builder).await;
    let client = Client::new(scheduler.handle.address().unwrap());
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/flags/v", "/debug/flags"] {
        assert_eq!(get(&client, path).await.0, 404, "{path}");
    }
    scheduler.stop().await;
}
