//! What each kind makes.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json::text_at;
use crate::workload_of_group;

fn dependents(value: &Value) -> Vec<Dependent> {
    Controller::new(value).dependents(&[]).collect()
}

/// The dependents' values, each with the rest of its own dependents, down to what makes nothing.
fn leaves(value: &Value, nodes: &[Node]) -> Vec<Value> {
    let below: Vec<Dependent> = Controller::new(value).dependents(nodes).collect();
    let mut found = Vec::new();
    for dependent in below {
        let deeper = leaves(&dependent.value, nodes);
        if deeper.is_empty() { found.push(dependent.value) } else { found.extend(deeper) }
    }
    found
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}})
}

fn workload(api_version: &str, kind: &str, spec: Value) -> Value {
    let mut value = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": "ns", "name": "web", "uid": "u"}, "spec": {"template": template()},
    });
    value["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    value
}

#[test]
fn every_kind_makes_something() {
    let spec = json!({
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": template()}}}],
        "podGroupTemplates": [{"name": "a"}], "jobTemplate": {"spec": {"template": template()}},
    });
    let nodes = [Node::from_value(&json!({"metadata": {"name": "n"}})).unwrap()];
    for (group, kind) in Controller::KINDS {
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let value = workload(&version, kind, spec.clone());
        let found = Controller::new(&value).dependents(&nodes).count();
        assert_eq!(found, 1, "{group}/{kind}");
    }
    let other = workload("example.com/v1", "Deployment", spec);
    assert_eq!(Controller::new(&other).dependents(&nodes).count(), 0);
}

#[test]
fn what_selects_pods_is_cut_down_to_that() {
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}});
    let set = workload("apps/v1", "ReplicaSet", spec.clone());
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "ns", "name": "web"}, "spec": spec,
    });
    assert_eq!(Controller::new(&set).selecting(), expected);
}

#[test]
fn a_deployment_makes_a_replica_set_whose_pods_it_selects() {
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "a"}}});
    let deployment = workload("apps/v1", "Deployment", spec);
    let [set] = &dependents(&deployment)[..] else { panic!("one ReplicaSet") };
    let hash = set.value["spec"]["selector"]["matchLabels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set.value["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(set.path, [""; 0]);
    let pods = dependents(&set.value);
    assert_eq!(pods.len(), 3);
    let pod = &pods[0].value;
    assert_eq!(pod["metadata"]["labels"], json!({"app": "a", "pod-template-hash": hash}));
    assert_eq!(pod["metadata"]["generateName"], format!("web-{hash}-"));
    assert_eq!(pod["metadata"]["namespace"], "ns");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    assert_eq!(pod["spec"], template()["spec"]);
}

#[test]
fn a_stateful_set_makes_numbered_pods_and_their_claims() {
    let spec = json!({
        "replicas": 2, "ordinals": {"start": 5}, "serviceName": "db",
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}],
    });
    let found = dependents(&workload("apps/v1", "StatefulSet", spec));
    let names: Vec<&str> =
        found.iter().map(|one| text_at(&one.value, &["metadata", "name"])).collect();
    assert_eq!(names, ["data-web-5", "web-5", "data-web-6", "web-6"]);
    let pod = &found[3].value;
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-6"), &json!("db"))
    );
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-6");
    assert_eq!(found[2].value["metadata"]["ownerReferences"], Value::Null);
}

#[test]
fn a_daemon_set_makes_a_pod_for_each_eligible_node() {
    let node = |name: &str, taints: Value| {
        let node = json!({"metadata": {"name": name, "labels": {"disk": name}}, "spec": {"taints": taints}});
        Node::from_value(&node).unwrap()
    };
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
    let nodes = [
        node("a", json!([])),
        node("b", taint("node.kubernetes.io/unschedulable")),
        node("c", taint("mine")),
    ];
    let set = workload("apps/v1", "DaemonSet", json!({}));
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                /nodeSelectorTerms/0/matchFields/0/values/0";
    let of = |set: &Value| -> Vec<String> {
        let pods = Controller::new(set).dependents(&nodes).map(|pod| pod.value);
        pods.map(|pod| pod.pointer(path).unwrap().as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&set), ["a", "b"]);
    let mut picky = set;
    picky["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "b"});
    assert_eq!(of(&picky), ["b"]);
}

#[test]
fn a_job_makes_the_pods_that_run_at_the_same_time() {
    let count = |spec: Value| dependents(&workload("batch/v1", "Job", spec)).len();
    assert_eq!(count(json!({})), 1);
    assert_eq!(count(json!({"parallelism": 4})), 4);
    assert_eq!(count(json!({"parallelism": 4, "completions": 2})), 2);
    assert_eq!(count(json!({"parallelism": 4, "suspend": true})), 0);
    let indexed = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"});
    let pods = dependents(&workload("batch/v1", "Job", indexed.clone()));
    assert_eq!(pods[1].value["metadata"]["generateName"], "web-1-");
    assert_eq!(pods[1].value["metadata"]["labels"][job::INDEX], "1");
    assert_eq!(pods[1].value["metadata"]["labels"]["job-name"], "web");
    let mut done = workload("batch/v1", "Job", indexed);
    done["status"] = json!({"succeeded": 1});
    assert_eq!(dependents(&done).len(), 1);
    done["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    assert_eq!(dependents(&done).len(), 0);
}

#[test]
fn a_cron_job_makes_one_run_and_a_job_set_all_its_jobs() {
    let job = json!({"spec": {"parallelism": 2, "template": template()}});
    let cron_job = workload("batch/v1", "CronJob", json!({"jobTemplate": job}));
    assert_eq!(dependents(&cron_job)[0].value["metadata"]["name"], "web-1");
    assert_eq!(leaves(&cron_job, &[]).len(), 2);
    let entries = json!([
        {"name": "leader", "template": job},
        {"name": "workers", "replicas": 3, "template": job},
    ]);
    let job_set =
        workload("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": entries}));
    let jobs = dependents(&job_set);
    let names: Vec<&str> =
        jobs.iter().map(|one| text_at(&one.value, &["metadata", "name"])).collect();
    assert_eq!(names, ["web-leader-0", "web-workers-0", "web-workers-1", "web-workers-2"]);
    assert_eq!(jobs[1].path, ["spec", "replicatedJobs", "1", "template"]);
    let pods = leaves(&job_set, &[]);
    assert_eq!(pods.len(), 8);
    assert_eq!(pods[7]["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"], "2");
}

#[test]
fn a_workload_makes_the_groups_of_its_templates() {
    let policy = json!({"gang": {"minCount": 4}});
    let templates = json!([{"name": "workers", "schedulingPolicy": policy}]);
    let of_1_36 = json!({"podGroupTemplateRef": {"workload": {"workloadName": "web", "podGroupTemplateName": "workers"}}});
    let later = json!({"workloadRef": {"workloadName": "web", "templateName": "workers"}});
    for (version, reference) in [
        ("v1alpha2", of_1_36),
        ("v1alpha3", later.clone()),
        ("v1beta1", later.clone()),
        ("v1", later),
    ] {
        let api_version = format!("scheduling.k8s.io/{version}");
        let value = workload(&api_version, "Workload", json!({"podGroupTemplates": templates}));
        let [group] = &dependents(&value)[..] else { panic!("one group") };
        let group = &group.value;
        assert_eq!(group["apiVersion"], *api_version);
        assert_eq!(group["metadata"]["name"], "web-workers");
        let mut spec = reference;
        spec["schedulingPolicy"] = policy.clone();
        assert_eq!(group["spec"], spec, "{version}");
        assert_eq!(workload_of_group(group), "web");
    }
    assert_eq!(workload_of_group(&json!({"spec": {"schedulingPolicy": policy}})), "");
}

#[test]
fn dependents_are_made_one_by_one() {
    let set = workload("apps/v1", "ReplicaSet", json!({"replicas": i64::MAX}));
    assert_eq!(Controller::new(&set).dependents(&[]).take(2).count(), 2);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        let key = prop::sample::select(vec![
            "spec",
            "metadata",
            "template",
            "name",
            "labels",
            "replicas",
            "jobTemplate",
            "replicatedJobs",
            "podGroupTemplates",
            "volumeClaimTemplates",
            "selector",
            "matchLabels",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(|pairs| {
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn fields_of_wrong_types_do_no_harm(
        kind in prop::sample::select(vec![
            ("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"), ("batch/v1", "Job"), ("batch/v1", "CronJob"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("scheduling.k8s.io/v1alpha2", "Workload"),
        ]),
        metadata in any_json(),
        spec in any_json(),
    ) {
        let value = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec});
        for dependent in Controller::new(&value).dependents(&[]).take(3) {
            for pod in Controller::new(&dependent.value).dependents(&[]).take(3) {
                prop_assert!(pod.value.is_object());
            }
        }
    }
}
