//! Pods of one StatefulSet or indexed Job share evaluations although their labels number them, as long as no selector is about such a
//! label.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use kube_scheduler_api_types::well_known::ZONE;
use kube_scheduler_api_types::{Object, Timestamp};
use kube_scheduler_cache::check;
use kube_scheduler_engine::{AttemptResult, Engine, EngineOptions, Input};
use kube_scheduler_framework::testing;
use kube_scheduler_tests::fixtures::{self, applied, object_applied, pod_applied};
use serde_json::{Value, json};

const INDEX: &str = "apps.kubernetes.io/pod-index";
const NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Two engines, one of which keeps nothing, and how many pods and objects there have been.
struct EnginePair {
    engines: [Engine; 2],
    now: Timestamp,
    n_pods: u32,
    n_objects: u32,
}

impl EnginePair {
    fn new() -> Self {
        let engines = [true, false].map(|uses_class_cache| {
            fixtures::engine(EngineOptions { uses_class_cache, ..EngineOptions::default() })
        });
        let now = Timestamp::from_millis(1_000_000);
        let mut pair = Self { engines, now, n_pods: 0, n_objects: 0 };
        for n in 0..4 {
            pair.handle(&applied(&format!(
                "node n{n} cpu=64 memory=64Gi pods=200 zone=z{}",
                n % 2
            )));
        }
        pair
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
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": true});
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        let pod = testing::object(&format!(
            "pod x/{name} label:app=web label:{INDEX}={index} label:{NAME}={name}"
        ));
        let mut pod = pod.with(owned).to_json();
        change(&mut pod);
        self.handle(&pod_applied(&pod));
    }

    /// Whether any of the next pods was answered from what was kept. Both engines choose the same node for each.
    fn shares(&mut self, change: impl Fn(&mut Value)) -> bool {
        let hits = |pair: &Self| pair.engines[0].class_cache_counts().hits;
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
            assert_eq!(check(engine.cluster()), []);
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
    testing::object(&format!("service {namespace}/one selector:{label}=web-0")).to_json()
}

#[test]
fn replicas_share_evaluations_until_a_term_is_about_their_numbers() {
    let mut pair = EnginePair::new();
    assert!(pair.shares(unchanged));
    for (is_running, kind, operator) in
        [(true, "podAntiAffinity", "In"), (false, "podAffinity", "DoesNotExist")]
    {
        let values = if operator == "In" { json!(["no-such"]) } else { json!([]) };
        let selector =
            json!({"matchExpressions": [{"key": INDEX, "operator": operator, "values": values}]});
        let term = json!({"topologyKey": ZONE, "labelSelector": selector});
        // One that runs, and one that another scheduler is to place.
        pair.handle(&pod_applied(&json!({
            "metadata": {"namespace": "y", "name": "other", "uid": kind},
            "spec": {
                "schedulerName": "another", "nodeName": is_running.then_some("n0"), "containers": [{"name": "c"}],
                "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            },
        })));
        assert!(!pair.shares(unchanged), "{kind}");
        let (namespace, name) = ("y".into(), "other".into());
        pair.handle(&Input::PodDeleted { namespace, name });
        assert!(pair.shares(unchanged), "after {kind}");
    }
}

#[test]
fn replicas_share_evaluations_until_a_service_or_their_owner_selects_by_number() {
    let mut pair = EnginePair::new();
    for label in [INDEX, NAME] {
        pair.put(service("y", label));
        assert!(pair.shares(unchanged), "a service of another namespace");
        pair.put(service("x", label));
        assert!(!pair.shares(unchanged), "{label}");
        pair.put(service("x", "app"));
        assert!(pair.shares(unchanged), "the service has changed");
        pair.put(service("x", label));
        pair.delete(&service("x", label));
        assert!(pair.shares(unchanged), "the service is gone");
    }
    let owner = |selector: Value| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"namespace": "x", "name": "web", "uid": "web"}, "spec": {"selector": selector}})
    };
    pair.put(owner(json!({"matchLabels": {"app": "web"}})));
    assert!(pair.shares(unchanged));
    pair.put(owner(json!({"matchExpressions": [{"key": NAME, "operator": "Exists"}]})));
    assert!(!pair.shares(unchanged));
    pair.delete(&owner(json!({})));
    assert!(pair.shares(unchanged));
}

#[test]
fn a_pod_that_looks_at_numbers_shares_nothing_with_others() {
    let mut pair = EnginePair::new();
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
        let shares = pair.shares(|pod| pod["spec"]["topologySpreadConstraints"] = spread.clone());
        assert_eq!(shares, expected, "{spread}");
    }
    // Others are not concerned by what a pod is spread by, but by its terms.
    assert!(pair.shares(unchanged));
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {INDEX: "1"}}});
    let preferred = json!([{"weight": 1, "podAffinityTerm": term}]);
    let attracted = |pod: &mut Value| {
        pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            preferred.clone();
    };
    assert!(!pair.shares(attracted));
    assert!(!pair.shares(unchanged));
}
