//! Pods of one StatefulSet or indexed Job share evaluations although their labels number them, as long as no selector is about such a
//! label.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use kube_scheduler_api_types::well_known::{HOSTNAME, ZONE};
use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{AttemptResult, Engine, EngineOptions, Input};
use kube_scheduler_tests::fixtures::{self, node_applied, object_applied, pod_applied};
use serde_json::{Value, json};

const INDEX: &str = "apps.kubernetes.io/pod-index";
const NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Two engines, one of which keeps nothing, and how many pods and objects there have been.
struct World {
    engines: [Engine; 2],
    now: Timestamp,
    n_pods: u32,
    n_objects: u32,
}

impl World {
    fn new() -> Self {
        let engines = [true, false].map(|uses_class_cache| {
            fixtures::engine(EngineOptions { uses_class_cache, ..EngineOptions::default() })
        });
        let now = Timestamp::from_millis(1_000_000);
        let mut world = Self { engines, now, n_pods: 0, n_objects: 0 };
        for n in 0..4 {
            let (name, zone) = (format!("n{n}"), format!("z{}", n % 2));
            world.handle(&node_applied(&json!({
                "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
                "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "200"}},
            })));
        }
        world
    }

    fn handle(&mut self, input: &Input) {
        for engine in &mut self.engines {
            engine.handle(input.clone(), self.now);
        }
    }

    /// A pod that controllers have numbered, but for the `change`.
    fn replica(&mut self, change: &dyn Fn(&mut Value)) {
        self.n_pods += 1;
        let (name, index) = (format!("web-{}", self.n_pods), self.n_pods.to_string());
        let mut pod = json!({
            "metadata": {
                "namespace": "x", "name": name, "uid": name, "labels": {"app": "web", INDEX: index, NAME: name},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": true},
                ],
            },
            "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]},
        });
        change(&mut pod);
        self.handle(&pod_applied(&pod));
    }

    /// Whether any of the next pods was answered from what was kept. Both engines choose the same node for each.
    fn shares(&mut self, change: impl Fn(&mut Value)) -> bool {
        let hits = |world: &Self| world.engines[0].class_cache_counts().hits;
        let before = hits(self);
        for _ in 0..6 {
            self.replica(&change);
            let now = self.now;
            let results = self.engines.each_mut().map(|engine| {
                let turn = engine.schedule_next(now).unwrap();
                engine.drain_effects().for_each(drop);
                turn.result
            });
            assert!(matches!(results[0], AttemptResult::Assumed(_)), "{results:?}");
            assert_eq!(results[0], results[1]);
        }
        for engine in &self.engines {
            let differences = check(engine.cluster());
            assert!(differences.is_empty(), "{differences:?}");
        }
        hits(self) > before
    }

    fn put(&mut self, mut object: Value) {
        self.n_objects += 1;
        object["metadata"]["resourceVersion"] = self.n_objects.to_string().into();
        self.handle(&object_applied(object));
    }

    fn delete(&mut self, object: &Value) {
        let object = Object::from_value(object.clone()).unwrap();
        self.handle(&Input::ObjectDeleted(Arc::new(object)));
    }
}

fn unchanged(_: &mut Value) {}

fn service(namespace: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": "one"},
        "spec": {"selector": {label: "web-0"}}})
}

#[test]
fn replicas_share_evaluations_until_a_term_is_about_their_numbers() {
    let mut world = World::new();
    assert!(world.shares(unchanged));
    for (is_running, kind, operator) in
        [(true, "podAntiAffinity", "In"), (false, "podAffinity", "DoesNotExist")]
    {
        let values = if operator == "In" { json!(["no-such"]) } else { json!([]) };
        let selector =
            json!({"matchExpressions": [{"key": INDEX, "operator": operator, "values": values}]});
        let term = json!({"topologyKey": ZONE, "labelSelector": selector});
        // One that runs, and one that another scheduler is to place.
        world.handle(&pod_applied(&json!({
            "metadata": {"namespace": "y", "name": "other", "uid": kind},
            "spec": {
                "schedulerName": "another", "nodeName": is_running.then_some("n0"), "containers": [{"name": "c"}],
                "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            },
        })));
        assert!(!world.shares(unchanged), "{kind}");
        let (namespace, name) = ("y".into(), "other".into());
        world.handle(&Input::PodDeleted { namespace, name });
        assert!(world.shares(unchanged), "after {kind}");
    }
}

#[test]
fn replicas_share_evaluations_until_a_service_or_their_owner_selects_by_number() {
    let mut world = World::new();
    for label in [INDEX, NAME] {
        world.put(service("y", label));
        assert!(world.shares(unchanged), "a service of another namespace");
        world.put(service("x", label));
        assert!(!world.shares(unchanged), "{label}");
        world.put(service("x", "app"));
        assert!(world.shares(unchanged), "the service has changed");
        world.put(service("x", label));
        world.delete(&service("x", label));
        assert!(world.shares(unchanged), "the service is gone");
    }
    let owner = |selector: Value| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"namespace": "x", "name": "web", "uid": "web"}, "spec": {"selector": selector}})
    };
    world.put(owner(json!({"matchLabels": {"app": "web"}})));
    assert!(world.shares(unchanged));
    world.put(owner(json!({"matchExpressions": [{"key": NAME, "operator": "Exists"}]})));
    assert!(!world.shares(unchanged));
    world.delete(&owner(json!({})));
    assert!(world.shares(unchanged));
}

#[test]
fn a_pod_that_looks_at_numbers_shares_nothing_with_others() {
    let mut world = World::new();
    let constraint = |selector: Value, keys: Value| {
        json!([{
            "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector,
            "matchLabelKeys": keys,
        }])
    };
    let by_app = json!({"matchLabels": {"app": "web"}});
    let by_index = json!({"matchExpressions": [{"key": INDEX, "operator": "Exists"}]});
    for (selector, keys, expected) in [
        (by_app.clone(), json!([]), true),
        (by_index, json!([]), false),
        (by_app, json!([INDEX]), false),
    ] {
        let spread = constraint(selector, keys);
        let shares = world.shares(|pod| pod["spec"]["topologySpreadConstraints"] = spread.clone());
        assert_eq!(shares, expected, "{spread}");
    }
    // Others are not concerned by what a pod is spread by, but by its terms.
    assert!(world.shares(unchanged));
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {INDEX: "1"}}});
    let preferred = json!([{"weight": 1, "podAffinityTerm": term}]);
    let attracted = |pod: &mut Value| {
        pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            preferred.clone();
    };
    assert!(!world.shares(attracted));
    assert!(!world.shares(unchanged));
}
