//! Every plugin keeps what it promises about kept answers, in a small cluster with something of everything.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::{Fixture, check_contract, node, pod};
use serde_json::{Value, json};

use crate::support::plugin;

fn with(name: &str, spec: Value) -> Arc<Pod> {
    pod(name).label("app", "web").request("cpu", "500m").with(json!({"spec": spec})).build()
}

fn affinity(kind: &str) -> Value {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn spread(when: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]})
}

fn claim(name: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})
}

#[test]
fn kept_answers_of_every_plugin_are_right() {
    let fixture = Fixture::new()
        .with_node(node("a").label("zone", "x").label("disk", "ssd"))
        .with_node(node("b").label("zone", "x").taint("dedicated", "db", "NoSchedule"))
        .with_node(node("c").label("zone", "y").taint("slow", "", "PreferNoSchedule").cordoned())
        .with_node(node("d").label("zone", "y").allocatable("example.com/gpu", "2"))
        .with_pod(pod("web-0").label("app", "web").request("cpu", "1").on("a"))
        .with_pod(Arc::new(with("web-1", affinity("podAntiAffinity")).with_node_name(&"d".into())))
        .with_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
        .with_object(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "bound", "namespace": "default", "uid": "bound", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"},
        }))
        .with_object(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "x"}},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "bound", "uid": "bound"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["x"]},
                ]}]}},
            },
        }));
    let pods = [
        pod("plain").build(),
        pod("twin").build(),
        pod("big").request("cpu", "3500m").build(),
        pod("gpu").request("example.com/gpu", "1").build(),
        pod("picky").node_selector("disk", "ssd").build(),
        pod("calm").toleration("dedicated").toleration("slow").build(),
        with("company", affinity("podAffinity")),
        with("loner", affinity("podAntiAffinity")),
        with("spread", spread("DoNotSchedule")),
        with("spread-soft", spread("ScheduleAnyway")),
        with("claims", claim("bound")),
        with("lost", claim("nowhere")),
        with(
            "ports",
            json!({"hostNetwork": true, "containers": [
                {"name": "main", "image": "main:1", "ports": [{"containerPort": 80, "hostPort": 80}]},
            ]}),
        ),
    ];
    for name in kube_scheduler_plugins_intree::registry().names() {
        let violations = check_contract(&*plugin(name), &fixture, &pods);
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{name}:\n{}", texts.join("\n"));
    }
}
