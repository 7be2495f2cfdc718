//! Workloads that are created in a question.

use std::sync::Arc;

use kube_scheduler_answers::{Inquiry, Interrupt, Question, QuestionKind};
use kube_scheduler_api_types::{CompileOptions, Node, Object};
use kube_scheduler_engine::Input;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW};

/// A large node and three small ones, each in a zone of its own.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, cpu) in [("large", "64"), ("b", "8"), ("c", "8"), ("d", "8")] {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
        });
        let node = Node::from_value(&node).unwrap();
        cluster.engine.handle(Input::NodeApplied(Arc::new(node)), NOW);
    }
    cluster
}

fn template(cpu: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}]}})
}

fn workload(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec})
}

fn deployment(replicas: usize) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": replicas, "selector": selector, "template": template("1")});
    workload("apps/v1", "Deployment", spec)
}

fn question(spec: &Value) -> Result<Question, String> {
    let arguments = json!({"namespace": "shop", "spec": spec});
    Question::from_arguments(
        QuestionKind::WhatIf,
        &arguments,
        "default",
        &CompileOptions::default(),
    )
    .map_err(|error| error.to_string())
}

fn answer(cluster: &Cluster, spec: &Value) -> Result<Value, String> {
    let question = question(spec)?;
    let inquiry = Inquiry::new(&question, &cluster.engine, NOW);
    let answer = inquiry.answer(&question, &Interrupt::default());
    answer
        .map(|answer| serde_json::to_value(answer).unwrap())
        .map_err(|refusal| refusal.to_string())
}

fn added(workload: &Value) -> Value {
    json!({"changes": [{"addWorkload": {"workload": workload}}]})
}

/// The nodes of the pods that got one, sorted by pod.
fn nodes(answer: &Value) -> Vec<&str> {
    let placements = answer["placements"].as_array().unwrap();
    placements.iter().map(|placement| placement["node"].as_str().unwrap()).collect()
}

#[test]
fn a_deployment_stands_for_its_pods_which_are_spread_by_what_it_selects() {
    let cluster = cluster();
    let created = answer(&cluster, &added(&deployment(4))).unwrap();
    assert_eq!((&created["fits"], &created["warnings"]), (&json!(true), &Value::Null));
    let mut spread = nodes(&created);
    spread.sort_unstable();
    assert_eq!(spread, ["b", "c", "d", "large"]);

    // The same as pods, without and with what owns them.
    let name = created["placements"][0]["pod"].as_str().unwrap();
    let set = name.strip_prefix("shop/").and_then(|name| name.rsplit_once('-')).unwrap().0;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": "u", "controller": true});
    let mut pod = template("1");
    pod["metadata"]["generateName"] = json!(format!("{set}-"));
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1"});
    let mut spec = json!({"changes": [{"addPods": {"pod": pod, "count": 4}}]});
    assert_eq!(nodes(&answer(&cluster, &spec).unwrap()), ["large"; 4]);
    let mut set =
        workload("apps/v1", "ReplicaSet", json!({"selector": {"matchLabels": {"app": "web"}}}));
    set["metadata"]["name"] =
        json!(name.strip_prefix("shop/").unwrap().rsplit_once('-').unwrap().0);
    spec["objects"] = json!([set]);
    let with_owner = answer(&cluster, &spec).unwrap();
    assert_eq!(with_owner["placements"], created["placements"]);
    // A service does as well.
    let service = workload("v1", "Service", json!({"selector": {"app": "web"}}));
    spec["objects"] = json!([service]);
    assert_eq!(answer(&cluster, &spec).unwrap()["placements"], created["placements"]);
    assert_eq!(cluster.engine.cluster().objects().kinds().count(), 0, "nothing stays behind");
}

#[test]
fn every_kind_of_workload_gets_its_pods() {
    let mut cluster = cluster();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    cluster.engine.handle(Input::ObjectApplied(Arc::new(Object::from_value(class).unwrap())), NOW);
    let selector = json!({"app": "web"});
    let sets =
        json!({"replicas": 2, "selector": {"matchLabels": selector}, "template": template("1")});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut stateful = sets.clone();
    stateful["volumeClaimTemplates"] = json!([claim]);
    let mut of_job = template("1");
    of_job["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"parallelism": 3, "completions": 3, "template": of_job});
    let cron = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    let jobs = json!({"replicatedJobs": [{"name": "r", "replicas": 2, "template": {"spec": job}}]});
    let controller = json!({"replicas": 2, "selector": selector, "template": template("1")});
    for (api_version, kind, spec, n_pods) in [
        ("apps/v1", "ReplicaSet", &sets, 2),
        ("apps/v1", "StatefulSet", &stateful, 2),
        ("apps/v1", "DaemonSet", &sets, 4),
        ("v1", "ReplicationController", &controller, 2),
        ("batch/v1", "Job", &job, 3),
        ("batch/v1", "CronJob", &cron, 3),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", &jobs, 6),
    ] {
        let created = answer(&cluster, &added(&workload(api_version, kind, spec.clone()))).unwrap();
        assert_eq!(created["fits"], true, "{kind}: {created:#}");
        assert_eq!(nodes(&created).len(), n_pods, "{kind}: {created:#}");
        let mut on = nodes(&created);
        on.sort_unstable();
        on.dedup();
        if kind == "DaemonSet" {
            assert_eq!(on.len(), 4, "one for each node: {created:#}");
        }
    }
    // Nodes that come in the same question get one, too.
    let set = workload("apps/v1", "DaemonSet", sets);
    let spec = json!({"changes": [{"addNodesLike": {"name": "b", "count": 2}}, {"addWorkload": {"workload": set}}]});
    assert_eq!(nodes(&answer(&cluster, &spec).unwrap()).len(), 6);
    let gang = json!({"podGroupTemplates": [{"name": "w", "schedulingPolicy": {"gang": {"minCount": 2}}}]});
    let of_group = json!({"metadata": {"name": "p"}, "spec": {"schedulingGroup": {"podGroupName": "web-w"},
        "containers": [{"name": "c"}]}});
    let gang = workload("scheduling.k8s.io/v1alpha2", "Workload", gang);
    let spec = json!({"changes": [{"addWorkload": {"workload": gang}}, {"addPods": {"pod": of_group, "count": 2}}]});
    let created = answer(&cluster, &spec).unwrap();
    assert_eq!(created["placements"].as_array().unwrap().len(), 2, "{created:#}");
}

#[test]
fn what_a_workload_asks_for_that_cannot_be_is_named() {
    let cluster = cluster();
    let expected = "spec.changes.addWorkload.workload: expected one of Deployment, ReplicaSet, StatefulSet, DaemonSet, \
                    ReplicationController, Job, CronJob, JobSet, Workload, with apiVersion and name";
    let changed = |change: fn(&mut Value)| {
        let mut workload = deployment(2);
        change(&mut workload);
        workload
    };
    for (workload, problem) in [
        (json!(7), expected),
        (json!({}), expected),
        (changed(|it| it["metadata"]["name"] = json!("")), expected),
        (changed(|it| it["kind"] = json!("Pod")), expected),
        (
            changed(|it| it["spec"]["template"]["spec"]["priorityClassName"] = json!("high")),
            "Deployment shop/web: spec.priority of its pods is not set although there is a priorityClassName: set it in the template",
        ),
        (
            changed(|it| {
                it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] =
                    json!("many")
            }),
            "Deployment shop/web: pod: spec.containers[0].resources.limits[cpu]: quantities must match",
        ),
        (
            changed(|it| it["spec"]["replicas"] = json!(10_000)),
            "10001 changes in one question are too many: at most 10000 are allowed",
        ),
        (
            changed(|it| it["spec"]["replicas"] = json!(i64::MAX)),
            "10001 changes in one question are too many: at most 10000 are allowed",
        ),
    ] {
        let error = answer(&cluster, &added(&workload)).unwrap_err();
        assert!(error.starts_with(problem), "{problem}: {error}");
    }
    // A long template many times over, alike and each a little different.
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")] {
        let mut long = template("1");
        long["metadata"]["annotations"] = json!({"note": "x".repeat(100_000)});
        let spec = json!({"replicas": 5_000, "selector": {"matchLabels": {"app": "web"}}, "template": long});
        let error = answer(&cluster, &added(&workload(api_version, kind, spec))).unwrap_err();
        assert!(error.contains("too many for one question at their length"), "{error}");
    }
    let claim = json!([{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "much"}}}}]);
    let spec = json!({"template": template("1"), "volumeClaimTemplates": claim});
    let error = answer(&cluster, &added(&workload("apps/v1", "StatefulSet", spec))).unwrap_err();
    let expected = "StatefulSet shop/web: PersistentVolumeClaim data-web-0.spec.resources.requests.storage: \"much\": \
                    expected a quantity such as 10Gi";
    assert_eq!(error, expected);
    let exists =
        workload("apps/v1", "StatefulSet", json!({"replicas": 1, "template": template("1")}));
    let twice = json!({"changes": [{"addWorkload": {"workload": exists}}, {"addWorkload": {"workload": exists}}]});
    assert_eq!(answer(&cluster, &twice).unwrap_err(), "pod shop/web-0 exists already");
}

#[test]
fn workloads_of_other_namespaces_are_for_readers_who_may_list_pods_there() {
    let mut elsewhere = deployment(1);
    elsewhere["metadata"]["namespace"] = json!("other");
    let demands = |workload: &Value| question(&added(workload)).unwrap().demands;
    assert!(demands(&elsewhere).all_pods && !demands(&elsewhere).nodes);
    assert!(!demands(&deployment(1)).all_pods && !demands(&deployment(1)).nodes);
    // A volume is one of the whole cluster.
    let claim =
        |volume: &str| json!([{"metadata": {"name": "data"}, "spec": {"volumeName": volume}}]);
    let set = |volume| {
        workload(
            "apps/v1",
            "StatefulSet",
            json!({"template": template("1"), "volumeClaimTemplates": claim(volume)}),
        )
    };
    assert!(demands(&set("v")).nodes && !demands(&set("")).nodes);
    let created = answer(&cluster(), &added(&elsewhere)).unwrap();
    assert!(created["placements"][0]["pod"].as_str().unwrap().starts_with("other/web-"));
}

/// Values that have no place where they are put.
fn odd() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(7),
        json!(-1),
        json!(1.5),
        json!("x"),
        json!(""),
        json!([]),
        json!([7]),
        json!({}),
        json!({"a": {"b": []}}),
        json!(u64::MAX),
        json!(true),
    ])
}

/// The value at a place that is found by following numbers.
fn place<'a>(value: &'a mut Value, path: &[prop::sample::Index]) -> &'a mut Value {
    let Some((first, rest)) = path.split_first() else { return value };
    let n = match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if n == 0 {
        return value;
    }
    let at = first.index(n);
    let found = match value {
        Value::Object(map) => map.values_mut().nth(at),
        Value::Array(list) => list.get_mut(at),
        _ => None,
    };
    place(found.unwrap(), rest)
}

proptest! {
    #[test]
    fn odd_workloads_break_nothing(
        kind in 0..5_usize,
        path in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        odd in odd(),
    ) {
        let job = json!({"parallelism": 2, "completionMode": "Indexed", "completions": 2, "template": template("1")});
        let sets = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("1"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]});
        let mut workload = match kind {
            0 => deployment(2),
            1 => workload("apps/v1", "StatefulSet", sets),
            2 => workload("apps/v1", "DaemonSet", sets),
            3 => workload("batch/v1", "CronJob", json!({"jobTemplate": {"spec": job}})),
            _ => workload("jobset.x-k8s.io/v1alpha2", "JobSet",
                json!({"replicatedJobs": [{"name": "r", "replicas": 2, "template": {"spec": job}}]})),
        };
        *place(&mut workload, &path) = odd;
        // Refused or answered.
        let _ = answer(&cluster(), &added(&workload));
    }
}
