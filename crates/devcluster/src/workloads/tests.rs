//! The controllers step by step: a store, a clock that stands still, and a kubelet that does what the test says.

use serde_json::{Value, json};

use super::*;
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::Part;
use crate::garbage;
use crate::object::{at, int_at, text_at};
use crate::testing;

struct World {
    store: Arc<Store>,
}

impl World {
    fn new() -> Self {
        let store = testing::store();
        garbage::start(&store);
        Self { store }
    }

    fn create(&self, kind: KindId, namespace: &str, value: Value) {
        testing::add(&self.store, kind, namespace, value);
    }

    fn add(&self, kind: KindId, spec: Value) {
        self.create(kind, "default", json!({"metadata": {"name": "web"}, "spec": spec}));
    }

    fn get(&self, kind: KindId) -> Value {
        self.store.get(kind, "default", "web").expect("there").value()
    }

    fn all(&self, kind: KindId) -> Vec<Value> {
        let objects = self.store.list(kind, &Selection::all()).items;
        objects.iter().map(|object| object.value()).collect()
    }

    fn names(&self, kind: KindId) -> Vec<String> {
        self.all(kind).iter().map(|one| text_at(one, &["metadata", "name"]).to_owned()).collect()
    }

    /// Lets all controllers take one step for each of their objects.
    fn step(&self) {
        for kind in CONTROLLED {
            for object in self.store.list(kind, &Selection::all()).items {
                let key = (kind, key_of(object.namespace(), object.name()));
                let _ = self.store.write(|state| Ok(settle(state, &key)));
            }
        }
        while garbage::collect(&self.store) {}
    }

    /// Lets the controllers work until nothing changes any more.
    fn rest(&self) {
        for _ in 0..100 {
            let before = self.store.resource_version();
            self.step();
            if self.store.resource_version() == before {
                return;
            }
        }
        panic!("the controllers do not come to rest");
    }

    fn edit(&self, kind: KindId, name: &str, part: Part, change: impl FnOnce(&mut Value)) {
        testing::edit(&self.store, kind, name, part, change);
    }

    /// Lets pods that do not run yet do so.
    fn run_pods(&self) -> usize {
        let all = self.all(PODS);
        let waiting = all.iter().filter(|pod| text_at(pod, &["status", "phase"]) == "Pending");
        let names: Vec<&str> = waiting.map(|pod| text_at(pod, &["metadata", "name"])).collect();
        for name in &names {
            self.edit(PODS, name, Part::Status, |pod| {
                pod["status"]["phase"] = "Running".into();
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            });
        }
        names.len()
    }

    /// Lets controllers and kubelets work until nothing changes any more.
    fn come_true(&self) {
        for _ in 0..200 {
            self.rest();
            if self.run_pods() == 0 {
                return;
            }
        }
        panic!("there are always new pods");
    }

    fn end(&self, name: &str, phase: &str) {
        self.edit(PODS, name, Part::Status, |pod| pod["status"]["phase"] = phase.into());
    }
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
    let world = World::new();
    world.add(REPLICA_SETS, spec(3));
    world.rest();
    assert_eq!(world.names(PODS).len(), 3);
    assert_eq!(status(&world.get(REPLICA_SETS), "readyReplicas"), 0);
    world.come_true();
    assert_eq!(status(&world.get(REPLICA_SETS), "availableReplicas"), 3);
    let names = world.names(PODS);
    delete(&world.store, PODS, "default", &names[0], &DeleteOptions::default()).expect("deleted");
    world.end(&names[1], "Failed");
    world.rest();
    assert!(!world.names(PODS).contains(&names[0]));
    assert_eq!(status(&world.get(REPLICA_SETS), "replicas"), 3);
    // Of five, the three that do not run are the first to go.
    world.edit(REPLICA_SETS, "web", Part::Main, |set| set["spec"]["replicas"] = 1.into());
    world.rest();
    let left: Vec<Value> = world
        .all(PODS)
        .into_iter()
        .filter(|pod| text_at(pod, &["status", "phase"]) != "Failed")
        .collect();
    assert_eq!(left.len(), 1);
    assert_eq!(text_at(&left[0], &["metadata", "name"]), names[2]);
}

#[test]
fn a_replica_set_adopts_matching_pods_and_no_others() {
    let world = World::new();
    let mut orphan = template("a:1");
    orphan["metadata"]["name"] = "orphan".into();
    world.create(PODS, "default", orphan);
    let mut stranger = template("a:1");
    stranger["metadata"] = json!({"name": "stranger", "labels": {"app": "other"}});
    world.create(PODS, "default", stranger);
    world.add(REPLICA_SETS, spec(2));
    world.rest();
    assert_eq!(world.names(PODS).len(), 3);
    let owners = |name| world.store.get(PODS, "default", name).expect("there").owners().len();
    assert_eq!((owners("orphan"), owners("stranger")), (1, 0));
}

#[test]
fn a_selector_that_does_not_fit_makes_no_pods() {
    for selector in
        [json!({"matchLabels": {"app": "other"}}), json!({}), json!({"matchExpressions": 7})]
    {
        let world = World::new();
        let mut spec = spec(3);
        spec["selector"] = selector;
        world.add(REPLICA_SETS, spec);
        world.rest();
        assert_eq!(world.names(PODS), [""; 0]);
    }
}

#[test]
fn pods_that_cannot_be_made_are_reported() {
    let world = World::new();
    let mut spec = spec(3);
    spec["template"]["spec"]["priorityClassName"] = "unheard-of".into();
    world.add(DEPLOYMENTS, spec);
    world.rest();
    let deployment = world.get(DEPLOYMENTS);
    let conditions = deployment["status"]["conditions"].to_string();
    assert!(conditions.contains("no PriorityClass with name unheard-of was found"), "{conditions}");
}

#[test]
fn a_deployment_rolls_out_within_its_limits() {
    let world = World::new();
    world.add(DEPLOYMENTS, spec(4));
    world.come_true();
    assert!(is_rolled_out(&world.get(DEPLOYMENTS)), "{}", world.get(DEPLOYMENTS));
    assert_eq!(world.names(REPLICA_SETS).len(), 1);
    let set = world.get_first(REPLICA_SETS);
    assert_eq!(
        text_at(&set, &["metadata", "annotations", "deployment.kubernetes.io/revision"]),
        "1"
    );
    world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    assert!(!is_rolled_out(&world.get(DEPLOYMENTS)));
    for _ in 0..50 {
        world.step();
        let pods = world.all(PODS);
        let ready = pods.iter().filter(|pod| pods::is_ready(pod)).count();
        // A quarter more and a quarter less.
        assert!(pods.len() <= 5, "{} pods", pods.len());
        assert!(ready >= 3, "{ready} are ready");
        world.run_pods();
    }
    world.come_true();
    assert!(is_rolled_out(&world.get(DEPLOYMENTS)));
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:2"));
    let revision = |object: &Value| {
        text_at(object, &["metadata", "annotations", "deployment.kubernetes.io/revision"])
            .to_owned()
    };
    assert_eq!(revision(&world.get(DEPLOYMENTS)), "2");

    // Back, as `kubectl rollout undo` does: the old set becomes the third revision.
    world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:1"));
    world.come_true();
    assert_eq!(world.names(REPLICA_SETS).len(), 2);
    assert_eq!(revision(&world.get(DEPLOYMENTS)), "3");
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:1"));
}

#[test]
fn a_deployment_that_recreates_has_no_two_kinds_of_pods() {
    let world = World::new();
    let mut spec = spec(3);
    spec["strategy"] = json!({"type": "Recreate"});
    world.add(DEPLOYMENTS, spec);
    world.come_true();
    world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    for _ in 0..30 {
        world.step();
        let mut images: Vec<String> =
            world.all(PODS).iter().map(|pod| image(pod).to_owned()).collect();
        images.dedup();
        assert!(images.len() <= 1, "{images:?}");
        world.run_pods();
    }
    world.come_true();
    assert!(is_rolled_out(&world.get(DEPLOYMENTS)));
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:2"));
}

#[test]
fn a_deployment_is_scaled_and_paused() {
    let world = World::new();
    world.add(DEPLOYMENTS, spec(2));
    world.come_true();
    let scale = |replicas: i64| {
        world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["replicas"] = replicas.into());
        world.come_true();
        assert_eq!(world.names(PODS).len(), usize::try_from(replicas).expect("small"));
        assert!(is_rolled_out(&world.get(DEPLOYMENTS)));
    };
    scale(5);
    scale(0);
    scale(3);
    world.edit(DEPLOYMENTS, "web", Part::Main, |one| {
        one["spec"]["paused"] = true.into();
        one["spec"]["replicas"] = 4.into();
        one["spec"]["template"] = template("a:2");
    });
    world.come_true();
    assert_eq!(world.names(PODS).len(), 4);
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:1"));
    world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["paused"] = false.into());
    world.come_true();
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:2"));
}

#[test]
fn old_sets_are_forgotten_after_a_while() {
    let world = World::new();
    let mut spec = spec(1);
    spec["revisionHistoryLimit"] = 2.into();
    world.add(DEPLOYMENTS, spec);
    for version in 1..8 {
        let template = template(&format!("a:{version}"));
        world.edit(DEPLOYMENTS, "web", Part::Main, |one| one["spec"]["template"] = template);
        world.come_true();
    }
    assert_eq!(world.names(REPLICA_SETS).len(), 3);
}

#[test]
fn a_deleted_deployment_takes_everything_along() {
    use crate::api::delete::Propagation::{Background, Foreground, Orphan};

    for propagation in [Background, Foreground] {
        let world = World::new();
        world.add(DEPLOYMENTS, spec(3));
        world.come_true();
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        delete(&world.store, DEPLOYMENTS, "default", "web", &options).expect("deleted");
        assert_eq!(world.names(DEPLOYMENTS).len(), usize::from(propagation == Foreground));
        world.rest();
        for kind in [DEPLOYMENTS, REPLICA_SETS, PODS] {
            assert_eq!(world.names(kind), [""; 0]);
        }
    }
    let world = World::new();
    world.add(DEPLOYMENTS, spec(3));
    world.come_true();
    let (sets, pods) = (world.names(REPLICA_SETS), world.names(PODS));
    let options = DeleteOptions { propagation: Orphan, ..DeleteOptions::default() };
    delete(&world.store, DEPLOYMENTS, "default", "web", &options).expect("deleted");
    world.rest();
    assert_eq!((world.names(REPLICA_SETS), world.names(PODS)), (sets.clone(), pods.clone()));
    // The next one of that kind takes them over.
    world.add(DEPLOYMENTS, spec(3));
    world.come_true();
    assert_eq!((world.names(REPLICA_SETS), world.names(PODS)), (sets, pods));
}

#[test]
fn a_stateful_set_goes_one_by_one() {
    let world = World::new();
    let mut spec = spec(3);
    spec["serviceName"] = "web".into();
    spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}]);
    world.add(STATEFUL_SETS, spec);
    for n in 1..=3 {
        world.rest();
        assert_eq!(world.names(PODS).len(), n, "the next one waits");
        world.run_pods();
    }
    world.come_true();
    assert_eq!(world.names(PODS), ["web-0", "web-1", "web-2"]);
    let claims = crate::kinds::PERSISTENT_VOLUME_CLAIMS;
    assert_eq!(world.names(claims), ["data-web-0", "data-web-1", "data-web-2"]);
    world.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    world.step();
    assert_eq!(world.names(PODS), ["web-0", "web-1"], "the last one goes first, and alone");
    world.come_true();
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:2"));
    let set = world.get(STATEFUL_SETS);
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(status(&set, "updatedReplicas"), 3);
    world.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["replicas"] = 1.into());
    world.rest();
    assert_eq!(world.names(PODS), ["web-0"]);
    assert_eq!(world.names(claims).len(), 3, "claims stay");
}

#[test]
fn a_stateful_set_in_parallel_waits_for_nothing() {
    let world = World::new();
    let mut spec = spec(4);
    spec["podManagementPolicy"] = "Parallel".into();
    spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    world.add(STATEFUL_SETS, spec);
    world.rest();
    assert_eq!(world.names(PODS).len(), 4);
    world.come_true();
    world.edit(STATEFUL_SETS, "web", Part::Main, |one| one["spec"]["template"] = template("a:2"));
    world.come_true();
    let images: Vec<String> = world.all(PODS).iter().map(|pod| image(pod).to_owned()).collect();
    assert_eq!(images, ["a:1", "a:1", "a:2", "a:2"], "the partition keeps the first ones");
}

#[test]
fn a_daemon_set_has_a_pod_for_each_fitting_node() {
    let world = World::new();
    let node = |name: &str, labels: Value, taints: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}});
    let add = |name, labels, taints| world.create(NODES, "", node(name, labels, taints));
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
    world.add(DAEMON_SETS, spec);
    world.come_true();
    let set = world.get(DAEMON_SETS);
    assert_eq!(status(&set, "desiredNumberScheduled"), 2, "{set}");
    assert_eq!(status(&set, "numberReady"), 2);
    let mut meant: Vec<String> =
        world.all(PODS).iter().map(|pod| daemon::node_of(pod).to_owned()).collect();
    meant.sort();
    assert_eq!(meant, ["a", "d"]);
    add("e", json!({"disk": "ssd"}), json!([]));
    delete(&world.store, NODES, "", "a", &DeleteOptions::default()).expect("deleted");
    world.come_true();
    let mut meant: Vec<String> =
        world.all(PODS).iter().map(|pod| daemon::node_of(pod).to_owned()).collect();
    meant.sort();
    assert_eq!(meant, ["d", "e"]);
    world.edit(DAEMON_SETS, "web", Part::Main, |one| {
        one["spec"]["template"]["spec"]["containers"][0]["image"] = "a:2".into();
    });
    world.step();
    assert_eq!(world.names(PODS).len(), 1, "one at a time");
    world.come_true();
    assert!(world.all(PODS).iter().all(|pod| image(pod) == "a:2"));
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
    let world = World::new();
    world.add(JOBS, job(3, 2));
    world.rest();
    let first = world.names(PODS);
    assert_eq!(first.len(), 2, "not more at once");
    assert_eq!(text_at(&world.all(PODS)[0], &["metadata", "annotations", crate::RUN_SECONDS]), "1");
    world.end(&first[0], "Succeeded");
    world.end(&first[1], "Failed");
    world.rest();
    assert_eq!(world.names(PODS).len(), 4, "two are still missing");
    assert_eq!(status(&world.get(JOBS), "active"), 2);
    for name in world.names(PODS).iter().filter(|name| !first.contains(name)) {
        world.end(name, "Succeeded");
    }
    world.rest();
    let job = world.get(JOBS);
    assert!(has_condition(&job, "Complete"), "{job}");
    assert_eq!((status(&job, "succeeded"), status(&job, "failed")), (3, 1));
    assert_eq!(int_at(&job, &["metadata", "generation"]), Some(1));
}

#[test]
fn a_job_gives_up_after_too_many_failures() {
    let world = World::new();
    world.add(JOBS, job(5, 1));
    for _ in 0..2 {
        world.rest();
        let running = world.all(PODS).into_iter().find(pods::is_active).expect("one runs");
        world.end(text_at(&running, &["metadata", "name"]), "Failed");
    }
    world.rest();
    assert!(has_condition(&world.get(JOBS), "Failed"));
    assert_eq!(world.names(PODS).len(), 2);
}

#[test]
fn a_suspended_job_has_no_pods_and_an_indexed_one_has_indexes() {
    let world = World::new();
    let mut spec = job(3, 3);
    spec["completionMode"] = "Indexed".into();
    spec["suspend"] = true.into();
    world.add(JOBS, spec);
    world.rest();
    assert_eq!(world.names(PODS), [""; 0]);
    world.edit(JOBS, "web", Part::Main, |job| job["spec"]["suspend"] = false.into());
    world.rest();
    let index = |pod: &Value| {
        let annotation = "batch.kubernetes.io/job-completion-index";
        text_at(pod, &["metadata", "annotations", annotation]).to_owned()
    };
    let mut indexes: Vec<String> = world.all(PODS).iter().map(index).collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2"]);
    let one = world.all(PODS).into_iter().find(|pod| index(pod) == "1").expect("there");
    world.end(text_at(&one, &["metadata", "name"]), "Failed");
    world.rest();
    assert_eq!(world.all(PODS).iter().filter(|pod| index(pod) == "1").count(), 2, "tried again");
}

#[test]
fn numbers_that_are_too_large_are_bounded() {
    let world = World::new();
    world.add(REPLICA_SETS, spec(2_147_483_647));
    world.step();
    assert_eq!(world.names(PODS).len(), pods::BURST);
}

impl World {
    fn get_first(&self, kind: KindId) -> Value {
        self.all(kind).into_iter().next().expect("there is one")
    }
}
