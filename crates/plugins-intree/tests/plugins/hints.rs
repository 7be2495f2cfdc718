//! Which events are worth a retry.

use std::sync::Arc;

use kube_scheduler_framework::api::{Node, Object, Pod};
use kube_scheduler_framework::{ActionType, ClusterEvent, EventObject, EventResource};
use serde_json::{Value, json};

use crate::support::{World, asking, node, plugin, plugin_with, pod, running, try_plugin, using};

fn on_node(
    name: &str,
    pod: &Pod,
    old: Option<Arc<Node>>,
    new: Arc<Node>,
    action: ActionType,
) -> String {
    let event = ClusterEvent::new(EventResource::Node, action);
    World::default().hint(
        &*plugin(name),
        event,
        pod,
        old.map(EventObject::Node),
        Some(EventObject::Node(new)),
    )
}

fn on_pod(
    name: &str,
    pod: &Pod,
    old: Option<Arc<Pod>>,
    new: Option<Arc<Pod>>,
    action: ActionType,
) -> String {
    let resource = if action == ActionType::DELETE {
        EventResource::AssignedPod
    } else {
        EventResource::UnschedulablePod
    };
    let event = ClusterEvent::new(resource, action);
    World::default().hint(
        &*plugin(name),
        event,
        pod,
        old.map(EventObject::Pod),
        new.map(EventObject::Pod),
    )
}

#[test]
fn only_its_own_last_gate_concerns_a_gated_pod() {
    let action = ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
    let waiting = pod("p", json!({}));
    let hint = |updated: &str| {
        on_pod("SchedulingGates", &waiting, None, Some(pod(updated, json!({}))), action)
    };
    assert_eq!([hint("p"), hint("other")], ["queue", "skip"]);
}

#[test]
fn uncordoning_helps_and_so_does_tolerating_the_cordon() {
    let shut = || node("n", json!({"spec": {"unschedulable": true}}));
    let open = || node("n", json!({}));
    let waiting = pod("p", json!({}));
    let hint =
        |old, new| on_node("NodeUnschedulable", &waiting, old, new, ActionType::UPDATE_NODE_TAINT);
    assert_eq!(hint(Some(shut()), open()), "queue");
    assert_eq!(hint(Some(open()), open()), "skip");
    assert_eq!(hint(None, open()), "queue");
    assert_eq!(hint(None, shut()), "skip");
    let tolerating = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    let hint = |new| {
        on_pod("NodeUnschedulable", &waiting, None, Some(new), ActionType::UPDATE_POD_TOLERATION)
    };
    assert_eq!(hint(pod("p", tolerating.clone())), "queue");
    assert_eq!(hint(pod("p", json!({}))), "skip");
    assert_eq!(hint(pod("other", tolerating)), "skip");
}

#[test]
fn a_taint_that_goes_helps_and_one_that_comes_does_not() {
    let tainted = |n: usize| {
        let taints: Vec<Value> =
            (0..n).map(|i| json!({"key": format!("k{i}"), "effect": "NoSchedule"})).collect();
        node("n", json!({"spec": {"taints": taints}}))
    };
    let waiting = pod("p", json!({}));
    let hint =
        |old, new| on_node("TaintToleration", &waiting, old, new, ActionType::UPDATE_NODE_TAINT);
    assert_eq!(hint(Some(tainted(1)), tainted(0)), "queue");
    assert_eq!(hint(Some(tainted(1)), tainted(2)), "skip");
    assert_eq!(hint(Some(tainted(0)), tainted(0)), "skip");
    assert_eq!(hint(None, tainted(0)), "queue");
    assert_eq!(hint(None, tainted(1)), "skip");
    let action = ActionType::UPDATE_POD_TOLERATION;
    assert_eq!(
        on_pod("TaintToleration", &waiting, None, Some(pod("p", json!({}))), action),
        "queue"
    );
    assert_eq!(
        on_pod("TaintToleration", &waiting, None, Some(pod("q", json!({}))), action),
        "skip"
    );
}

fn zone(zone: &str) -> Arc<Node> {
    node("n", json!({"metadata": {"labels": {"zone": zone}}}))
}

#[test]
fn a_label_helps_when_it_makes_the_pod_match() {
    let waiting = pod("p", json!({"spec": {"nodeSelector": {"zone": "a"}}}));
    let hint =
        |old, new| on_node("NodeAffinity", &waiting, old, new, ActionType::UPDATE_NODE_LABEL);
    assert_eq!(hint(Some(zone("b")), zone("a")), "queue");
    assert_eq!(hint(Some(zone("a")), zone("a")), "skip");
    assert_eq!(hint(Some(zone("a")), zone("b")), "skip");
    assert_eq!(hint(None, zone("a")), "queue");
    let malformed = pod(
        "p",
        json!({"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "-bad", "operator": "Exists"}]}]}}}}}),
    );
    let hint = on_node("NodeAffinity", &malformed, None, zone("a"), ActionType::ADD);
    assert!(hint.starts_with("error: nodeSelectorTerms[0].matchExpressions[0].key"), "{hint}");
}

#[test]
fn hint_ignores_changes_to_the_added_affinity() {
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}),
    );
    let event = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_LABEL);
    let hint = |old: Option<Arc<Node>>, new| {
        let (old, new) = (old.map(EventObject::Node), Some(EventObject::Node(new)));
        World::default().hint(&*added, event.clone(), &pod("p", json!({})), old, new)
    };
    assert_eq!(hint(Some(zone("b")), zone("a")), "skip");
    assert_eq!(hint(None, zone("a")), "queue");
    assert_eq!(hint(None, zone("b")), "skip");
}

#[test]
fn a_deleted_pod_helps_when_it_held_a_wanted_port() {
    let ports = |ip: &str, port: i32| json!({"spec": {"containers": [{"name": "c", "ports": [{"hostIP": ip, "hostPort": port, "containerPort": 1}]}]}});
    let waiting = pod("p", ports("", 80));
    let hint = |deleted| on_pod("NodePorts", &waiting, Some(deleted), None, ActionType::DELETE);
    assert_eq!(hint(running("r", "n", ports("127.0.0.1", 80))), "queue");
    assert_eq!(hint(running("r", "n", ports("127.0.0.1", 81))), "skip");
    assert_eq!(hint(running("r", "n", json!({}))), "skip");
    assert_eq!(hint(pod("r", ports("", 80))), "skip");
    let mut nominated = ports("", 80);
    nominated["status"] = json!({"nominatedNodeName": "n"});
    assert_eq!(hint(pod("r", nominated)), "queue");
    assert_eq!(on_node("NodePorts", &waiting, None, zone("a"), ActionType::ADD), "always");
}

#[test]
fn a_deleted_pod_helps_if_it_had_a_place() {
    let waiting = asking(json!({"cpu": "1"}));
    let hint =
        |deleted| on_pod("NodeResourcesFit", &waiting, Some(deleted), None, ActionType::DELETE);
    assert_eq!(hint(using("r", "n", json!({}))), "queue");
    assert_eq!(hint(pod("r", json!({}))), "skip");
}

#[test]
fn a_pod_that_shrinks_helps_in_what_is_asked_for() {
    let waiting = asking(json!({"cpu": "1"}));
    let action = ActionType::UPDATE_POD_SCALE_DOWN;
    let hint = |old, new| on_pod("NodeResourcesFit", &waiting, Some(old), Some(new), action);
    let sized = |cpu: &str, memory: &str| using("r", "n", json!({"cpu": cpu, "memory": memory}));
    assert_eq!(hint(sized("2", "1Gi"), sized("1", "1Gi")), "queue");
    assert_eq!(hint(sized("2", "2Gi"), sized("2", "1Gi")), "skip");
    assert_eq!(hint(asking(json!({"cpu": "2"})), asking(json!({"cpu": "1"}))), "queue", "itself");
    let pending = |cpu: &str| {
        pod(
            "q",
            json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}),
        )
    };
    assert_eq!(hint(pending("2"), pending("1")), "skip");
}

fn sized(allocatable: Value) -> Arc<Node> {
    node("n", json!({"status": {"allocatable": allocatable}}))
}

#[test]
fn a_node_that_grows_helps_in_what_is_asked_for() {
    let action = ActionType::UPDATE_NODE_ALLOCATABLE;
    let waiting = asking(json!({"cpu": "2"}));
    let hint = |old, new| on_node("NodeResourcesFit", &waiting, old, new, action);
    assert_eq!(hint(Some(sized(json!({"cpu": "1"}))), sized(json!({"cpu": "2"}))), "queue");
    assert_eq!(hint(Some(sized(json!({"cpu": "1"}))), sized(json!({"cpu": "1500m"}))), "skip");
    assert_eq!(
        hint(Some(sized(json!({"memory": "1Gi"}))), sized(json!({"memory": "2Gi"}))),
        "skip"
    );
    assert_eq!(hint(Some(sized(json!({"pods": "1"}))), sized(json!({"pods": "2"}))), "queue");
    assert_eq!(hint(None, sized(json!({}))), "queue");
    assert_eq!(hint(None, sized(json!({"cpu": "1"}))), "skip");
    assert_eq!(hint(None, sized(json!({"pods": "0"}))), "skip");
    let nothing = asking(json!({}));
    let grown = on_node(
        "NodeResourcesFit",
        &nothing,
        Some(sized(json!({}))),
        sized(json!({"cpu": "9"})),
        action,
    );
    assert_eq!(grown, "skip");
}

#[test]
fn hint_does_not_know_ignored_resources() {
    let fit = plugin_with("NodeResourcesFit", json!({"ignoredResources": ["example.com/x"]}));
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let waiting = asking(json!({"example.com/x": "1"}));
    let new = Some(EventObject::Node(sized(json!({}))));
    assert_eq!(World::default().hint(&*fit, event, &waiting, None, new), "skip");
}

fn class(name: &str, extended: Value) -> EventObject {
    EventObject::Other(Arc::new(
        Object::from_value(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": name}, "spec": {"extendedResourceName": extended}}))
        .unwrap(),
    ))
}

#[test]
fn a_device_class_helps_pods_that_ask_for_what_it_serves() {
    let fit = plugin("NodeResourcesFit");
    let hint = |requests: Value, old: Option<EventObject>, new| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let event = ClusterEvent::new(EventResource::DeviceClass, action);
        World::default().hint(&*fit, event, &asking(requests), old, Some(new))
    };
    let gpu = || json!({"example.com/gpu": "0"});
    assert_eq!(hint(gpu(), None, class("c", json!("example.com/gpu"))), "queue");
    assert_eq!(hint(gpu(), None, class("c", json!("example.com/nic"))), "skip");
    assert_eq!(
        hint(json!({"deviceclass.resource.kubernetes.io/c": "1"}), None, class("c", Value::Null)),
        "queue"
    );
    let old = || Some(class("c", Value::Null));
    assert_eq!(hint(gpu(), old(), class("c", json!("example.com/gpu"))), "queue");
    assert_eq!(hint(gpu(), old(), class("c", json!(""))), "skip");
    assert_eq!(
        hint(
            json!({"deviceclass.resource.kubernetes.io/c": "1"}),
            old(),
            class("c", json!("example.com/gpu"))
        ),
        "skip"
    );
    let off =
        try_plugin("NodeResourcesFit", Value::Null, &[("DRAExtendedResource", false)]).unwrap();
    let event = ClusterEvent::new(EventResource::DeviceClass, ActionType::ADD);
    let new = Some(class("c", json!("example.com/gpu")));
    assert_eq!(World::default().hint(&*off, event, &asking(gpu()), None, new), "not registered");
}

#[test]
fn declared_features_and_required_ones() {
    let declares = |features: &[&str]| node("n", json!({"status": {"declaredFeatures": features}}));
    let waiting = pod("p", json!({"spec": {"hostNetwork": true, "hostUsers": false}}));
    let action = ActionType::UPDATE_NODE_DECLARED_FEATURE;
    let hint = |old, new| on_node("NodeDeclaredFeatures", &waiting, old, new, action);
    assert_eq!(hint(Some(declares(&["A"])), declares(&["A"])), "skip");
    assert_eq!(hint(Some(declares(&["A"])), declares(&["A", "B"])), "queue");
    assert_eq!(hint(None, declares(&[])), "queue");
    let hint = |new| {
        on_pod(
            "NodeDeclaredFeatures",
            &waiting,
            Some(waiting.clone()),
            Some(new),
            ActionType::UPDATE,
        )
    };
    assert_eq!(hint(pod("p", json!({}))), "queue");
    assert_eq!(hint(waiting.clone()), "skip");
    assert_eq!(hint(pod("q", json!({}))), "skip");
}

#[test]
fn an_object_of_the_wrong_kind_is_an_error() {
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let new = Some(EventObject::Pod(pod("p", json!({}))));
    let hint =
        World::default().hint(&*plugin("TaintToleration"), event, &pod("p", json!({})), None, new);
    assert_eq!(hint, "error: expected a node, but got a pod");
}
