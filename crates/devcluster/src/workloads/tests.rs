//! The controllers step by step: a store, a clock that stands still, and a kubelet that does what the test says.

use serde_json::{Value, json};

use super::*;
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::Part;
use crate::garbage;
use crate::object::{at, int_at, text_at};
use crate::testing;

fn store() -> Arc<Store> {
    let store = testing::store();
    garbage::start(&store);
    store
}

/// Creates what a controller looks after.
fn add_web(store: &Store, kind: KindId, spec: Value) {
    store.add(kind, "default", json!({"metadata": {"name": "web"}, "spec": spec}));
}

fn get(store: &Store, kind: KindId) -> Value {
    store.get(kind, "default", "web").expect("there").value()
}

/// Lets all controllers take one step for each of their objects.
fn step(store: &Arc<Store>) {
    for kind in CONTROLLED {
        for object in store.list(kind, &Selection::all()).items {
            let key = (kind, key_of(object.namespace(), object.name()));
            let _ = store.write(|state| Ok(settle(state, &key)));
        }
    }
    while garbage::collect(store) {}
}

/// Lets the controllers work until nothing changes any more.
fn rest(store: &Arc<Store>) {
    for _ in 0..100 {
        let before = store.resource_version();
        step(store);
        if store.resource_version() == before {
            return;
        }
    }
    panic!("the controllers do not come to rest");
}

/// Lets pods that do not run yet do so.
fn run_pods(store: &Store) -> usize {
    let all = store.values(PODS);
    let waiting = all.iter().filter(|pod| text_at(pod, &["status", "phase"]) == "Pending");
    let names: Vec<&str> = waiting.map(|pod| text_at(pod, &["metadata", "name"])).collect();
    for name in &names {
        store.edit(PODS, name, Part::Status, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        });
    }
    names.len()
}

/// Lets controllers and kubelets work until nothing changes any more.
fn come_true(store: &Arc<Store>) {
    for _ in 0..200 {
        rest(store);
        if run_pods(store) == 0 {
            return;
        }
    }
    panic!("there are always new pods");
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

fn spec(replicas: i64) -> Value {
    json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("a:1"),
    })
}

fn image(pod: &Value) -> &str {
    pod.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default()
}

fn status(value: &Value, field: &str) -> i64 {
    int_at(value, &["status", field]).unwrap_or(0)
}

/// What `kubectl rollout status` waits for.
fn is_rolled_out(deployment: &Value) -> bool {
    let wanted = int_at(deployment, &["spec", "replicas"]).unwrap_or(0);
    int_at(deployment, &["metadata", "generation"])
        == int_at(deployment, &["status", "observedGeneration"])
        && status(deployment, "updatedReplicas") == wanted
        && status(deployment, "replicas") == wanted
        && status(deployment, "availableReplicas") == wanted
}

#[test]
fn a_replica_set_keeps_its_number_of_pods() {
    let store = store();
    add_web(&store, REPLICA_SETS, spec(3));
    rest(&store);
    assert_eq!(store.names(PODS).len(), 3);
    assert_eq!(status(&get(&store, REPLICA_SETS), "readyReplicas"), 0);
    come_true(&store);
    assert_eq!(status(&get(&store, REPLICA_SETS), "availableReplicas"), 3);
    let names = store.names(PODS);
    delete(&store, PODS, "default", &names[0], &DeleteOptions::default()).expect("deleted");
    store.end_pod(&names[1], "Failed");
    rest(&store);
    assert!(!store.names(PODS).contains(&names[0]));
    assert_eq!(status(&get(&store, REPLICA_SETS), "replicas"), 3);
    // Of five, the three that do not run are the first to go.
    store.edit(REPLICA_SETS, "web", Part::Main, |set| set["spec"]["replicas"] = 1.into());
    rest(&store);
    let left: Vec<Value> = store
        .values(PODS)
        .into_iter()
        .filter(|pod| text_at(pod, &["status", "phase"]) != "Failed")
        .collect();
    assert_eq!(left.len(), 1);
    assert_eq!(text_at(&left[0], &["metadata", "name"]), names[2]);
}

#[test]
fn a_replica_set_adopts_matching_pods_and_no_others() {
    let store = store();
    let mut orphan = template("a:1");
    orphan["metadata"]["name"] = "orphan".into();
    store.add(PODS, "default", orphan);
    let mut stranger = template("a:1");
    stranger["metadata"] = json!({"name": "stranger", "labels": {"app": "other"}});
    store.add(PODS, "default", stranger);
    add_web(&store, REPLICA_SETS, spec(2));
    rest(&store);
    assert_eq!(store.names(PODS).len(), 3);
    let owners = |name| store.get(PODS, "default", name).expect("there").owners().len();
    assert_eq!((owners("orphan"), owners("stranger")), (1, 0));
}

#[test]
fn a_selector_that_does_not_fit_makes_no_pods() {
    for selector in
        [json!({"matchLabels": {"app": "other"}}), json!({}), json!({"matchExpressions": 7})]
    {
        let store = store();
        let mut spec = spec(3);
        spec["selector"] = selector;
        add_web(&store, REPLICA_SETS, spec);
        rest(&store);
        assert_eq!(store.names(PODS), [""; 0]);
    }
}

#[test]
fn pods_that_cannot_be_made_are_reported() {
    let store = store();
    let mut spec = spec(3);
    spec["template"]["spec"]["priorityClassName"] = "unheard-of".into();
    add_web(&store, DEPLOYMENTS, spec);
    rest(&store);
    let deployment = get(&store, DEPLOYMENTS);
    let conditions = deployment["status"]["conditions"].to_string();
    assert!(conditions.contains("no PriorityClass with name unheard-of was found"), "{conditions}");
}

#[test]
fn a_deployment_rolls_out_within_its_limits() {
    let store = store();
    add_web(&store, DEPLOYMENTS, spec(4));
    come_true(&store);
    assert!(is_rolled_out(&get(&store, DEPLOYMENTS)), "{}", get(&store, DEPLOYMENTS));
    assert_eq!(store.names(REPLICA_SETS).len(), 1);
    let set = store.values(REPLICA_SETS).remove(0);
    assert_eq!(
        text_at(&set, &["metadata", "annotations", "deployment.kubernetes.io/revision"]),
        "1"
    );
    store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    assert!(!is_rolled_out(&get(&store, DEPLOYMENTS)));
    for _ in 0..50 {
        step(&store);
        let pods = store.values(PODS);
        let ready = pods.iter().filter(|pod| pods::is_ready(pod)).count();
        // A quarter more and a quarter less.
        assert!(pods.len() <= 5, "{} pods", pods.len());
        assert!(ready >= 3, "{ready} are ready");
        run_pods(&store);
    }
    come_true(&store);
    assert!(is_rolled_out(&get(&store, DEPLOYMENTS)));
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:2"));
    let revision = |object: &Value| {
        text_at(object, &["metadata", "annotations", "deployment.kubernetes.io/revision"])
            .to_owned()
    };
    assert_eq!(revision(&get(&store, DEPLOYMENTS)), "2");

    // Back, as `kubectl rollout undo` does: the old set becomes the third revision.
    store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:1"));
    come_true(&store);
    assert_eq!(store.names(REPLICA_SETS).len(), 2);
    assert_eq!(revision(&get(&store, DEPLOYMENTS)), "3");
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:1"));
}

#[test]
fn a_deployment_that_recreates_has_no_two_kinds_of_pods() {
    let store = store();
    let mut spec = spec(3);
    spec["strategy"] = json!({"type": "Recreate"});
    add_web(&store, DEPLOYMENTS, spec);
    come_true(&store);
    store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    for _ in 0..30 {
        step(&store);
        let mut images: Vec<String> =
            store.values(PODS).iter().map(|pod| image(pod).to_owned()).collect();
        images.dedup();
        assert!(images.len() <= 1, "{images:?}");
        run_pods(&store);
    }
    come_true(&store);
    assert!(is_rolled_out(&get(&store, DEPLOYMENTS)));
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:2"));
}

#[test]
fn a_deployment_is_scaled_and_paused() {
    let store = store();
    add_web(&store, DEPLOYMENTS, spec(2));
    come_true(&store);
    let scale = |replicas: i64| {
        store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["replicas"] = replicas.into());
        come_true(&store);
        assert_eq!(store.names(PODS).len(), usize::try_from(replicas).expect("small"));
        assert!(is_rolled_out(&get(&store, DEPLOYMENTS)));
    };
    scale(5);
    scale(0);
    scale(3);
    store.edit(DEPLOYMENTS, "web", Part::Main, |one| {
        one["spec"]["paused"] = true.into();
        one["spec"]["replicas"] = 4.into();
        one["spec"]["template"] = template("a:2");
    });
    come_true(&store);
    assert_eq!(store.names(PODS).len(), 4);
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:1"));
    store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["paused"] = false.into());
    come_true(&store);
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:2"));
}

#[test]
fn old_sets_are_forgotten_after_a_while() {
    let store = store();
    let mut spec = spec(1);
    spec["revisionHistoryLimit"] = 2.into();
    add_web(&store, DEPLOYMENTS, spec);
    for version in 1..8 {
        let template = template(&format!("a:{version}"));
        store.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template);
        come_true(&store);
    }
    assert_eq!(store.names(REPLICA_SETS).len(), 3);
}

#[test]
fn a_deleted_deployment_takes_everything_along() {
    use crate::api::delete::Propagation::{Background, Foreground, Orphan};

    for propagation in [Background, Foreground] {
        let store = store();
        add_web(&store, DEPLOYMENTS, spec(3));
        come_true(&store);
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        delete(&store, DEPLOYMENTS, "default", "web", &options).expect("deleted");
        assert_eq!(store.names(DEPLOYMENTS).len(), usize::from(propagation == Foreground));
        rest(&store);
        for kind in [DEPLOYMENTS, REPLICA_SETS, PODS] {
            assert_eq!(store.names(kind), [""; 0]);
        }
    }
    let store = store();
    add_web(&store, DEPLOYMENTS, spec(3));
    come_true(&store);
    let (sets, pods) = (store.names(REPLICA_SETS), store.names(PODS));
    let options = DeleteOptions { propagation: Orphan, ..DeleteOptions::default() };
    delete(&store, DEPLOYMENTS, "default", "web", &options).expect("deleted");
    rest(&store);
    assert_eq!((store.names(REPLICA_SETS), store.names(PODS)), (sets.clone(), pods.clone()));
    // The next one of that kind takes them over.
    add_web(&store, DEPLOYMENTS, spec(3));
    come_true(&store);
    assert_eq!((store.names(REPLICA_SETS), store.names(PODS)), (sets, pods));
}

#[test]
fn a_stateful_set_goes_one_by_one() {
    let store = store();
    let mut spec = spec(3);
    spec["serviceName"] = "web".into();
    spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}]);
    add_web(&store, STATEFUL_SETS, spec);
    for n in 1..=3 {
        rest(&store);
        assert_eq!(store.names(PODS).len(), n, "the next one waits");
        run_pods(&store);
    }
    come_true(&store);
    assert_eq!(store.names(PODS), ["web-0", "web-1", "web-2"]);
    let claims = crate::kinds::PERSISTENT_VOLUME_CLAIMS;
    assert_eq!(store.names(claims), ["data-web-0", "data-web-1", "data-web-2"]);
    store.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    step(&store);
    assert_eq!(store.names(PODS), ["web-0", "web-1"], "the last one goes first, and alone");
    come_true(&store);
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:2"));
    let set = get(&store, STATEFUL_SETS);
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(status(&set, "updatedReplicas"), 3);
    store.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["replicas"] = 1.into());
    rest(&store);
    assert_eq!(store.names(PODS), ["web-0"]);
    assert_eq!(store.names(claims).len(), 3, "claims stay");
}

#[test]
fn a_stateful_set_in_parallel_waits_for_nothing() {
    let store = store();
    let mut spec = spec(4);
    spec["podManagementPolicy"] = "Parallel".into();
    spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    add_web(&store, STATEFUL_SETS, spec);
    rest(&store);
    assert_eq!(store.names(PODS).len(), 4);
    come_true(&store);
    store.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    come_true(&store);
    let images: Vec<String> = store.values(PODS).iter().map(|pod| image(pod).to_owned()).collect();
    assert_eq!(images, ["a:1", "a:1", "a:2", "a:2"], "the partition keeps the first ones");
}

#[test]
fn a_daemon_set_has_a_pod_for_each_fitting_node() {
    let store = store();
    let node = |name: &str, labels: Value, taints: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}});
    let add = |name, labels, taints| store.add(NODES, "", node(name, labels, taints));
    add("a", json!({"disk": "ssd"}), json!([]));
    add("b", json!({"disk": "ssd"}), json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]));
    add("c", json!({}), json!([]));
    add(
        "d",
        json!({"disk": "ssd"}),
        json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
    );
    let mut spec = spec(0);
    spec["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    add_web(&store, DAEMON_SETS, spec);
    come_true(&store);
    let set = get(&store, DAEMON_SETS);
    assert_eq!(status(&set, "desiredNumberScheduled"), 2, "{set}");
    assert_eq!(status(&set, "numberReady"), 2);
    let mut meant: Vec<String> =
        store.values(PODS).iter().map(|pod| daemon::node_of(pod).to_owned()).collect();
    meant.sort();
    assert_eq!(meant, ["a", "d"]);
    add("e", json!({"disk": "ssd"}), json!([]));
    delete(&store, NODES, "", "a", &DeleteOptions::default()).expect("deleted");
    come_true(&store);
    let mut meant: Vec<String> =
        store.values(PODS).iter().map(|pod| daemon::node_of(pod).to_owned()).collect();
    meant.sort();
    assert_eq!(meant, ["d", "e"]);
    store.edit(DAEMON_SETS, "web", Part::Main, |one| {
        one["spec"]["template"]["spec"]["containers"][0]["image"] = "a:2".into();
    });
    step(&store);
    assert_eq!(store.names(PODS).len(), 1, "one at a time");
    come_true(&store);
    assert!(store.values(PODS).iter().all(|pod| image(pod) == "a:2"));
}

fn job(completions: i64, parallelism: i64) -> Value {
    let mut template = template("a:1");
    template["metadata"] = json!({});
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"completions": completions, "parallelism": parallelism, "backoffLimit": 1, "template": template})
}

fn has_condition(value: &Value, name: &str) -> bool {
    at(value, &["status", "conditions"])
        .is_some_and(|all| all.to_string().contains(&format!("\"{name}\"")))
}

#[test]
fn a_job_runs_until_enough_pods_have_succeeded() {
    let store = store();
    add_web(&store, JOBS, job(3, 2));
    rest(&store);
    let first = store.names(PODS);
    assert_eq!(first.len(), 2, "not more at once");
    assert_eq!(
        text_at(&store.values(PODS)[0], &["metadata", "annotations", crate::RUN_SECONDS]),
        "1"
    );
    store.end_pod(&first[0], "Succeeded");
    store.end_pod(&first[1], "Failed");
    rest(&store);
    assert_eq!(store.names(PODS).len(), 4, "two are still missing");
    assert_eq!(status(&get(&store, JOBS), "active"), 2);
    for name in store.names(PODS).iter().filter(|name| !first.contains(name)) {
        store.end_pod(name, "Succeeded");
    }
    rest(&store);
    let job = get(&store, JOBS);
    assert!(has_condition(&job, "Complete"), "{job}");
    assert_eq!((status(&job, "succeeded"), status(&job, "failed")), (3, 1));
    assert_eq!(int_at(&job, &["metadata", "generation"]), Some(1));
}

#[test]
fn a_job_gives_up_after_too_many_failures() {
    let store = store();
    add_web(&store, JOBS, job(5, 1));
    for _ in 0..2 {
        rest(&store);
        let running = store.values(PODS).into_iter().find(pods::is_active).expect("one runs");
        store.end_pod(text_at(&running, &["metadata", "name"]), "Failed");
    }
    rest(&store);
    assert!(has_condition(&get(&store, JOBS), "Failed"));
    assert_eq!(store.names(PODS).len(), 2);
}

#[test]
fn a_suspended_job_has_no_pods_and_an_indexed_one_has_indexes() {
    let store = store();
    let mut spec = job(3, 3);
    spec["completionMode"] = "Indexed".into();
    spec["suspend"] = true.into();
    add_web(&store, JOBS, spec);
    rest(&store);
    assert_eq!(store.names(PODS), [""; 0]);
    store.edit(JOBS, "web", Part::Main, |job| job["spec"]["suspend"] = false.into());
    rest(&store);
    let index = |pod: &Value| {
        let annotation = "batch.kubernetes.io/job-completion-index";
        text_at(pod, &["metadata", "annotations", annotation]).to_owned()
    };
    let mut indexes: Vec<String> = store.values(PODS).iter().map(index).collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2"]);
    let one = store.values(PODS).into_iter().find(|pod| index(pod) == "1").expect("there");
    store.end_pod(text_at(&one, &["metadata", "name"]), "Failed");
    rest(&store);
    assert_eq!(store.values(PODS).iter().filter(|pod| index(pod) == "1").count(), 2, "tried again");
}

#[test]
fn numbers_that_are_too_large_are_bounded() {
    let store = store();
    add_web(&store, REPLICA_SETS, spec(2_147_483_647));
    step(&store);
    assert_eq!(store.names(PODS).len(), pods::BURST);
}
