//! Which events are worth a retry.

use kube_scheduler_framework::testing::object;
use kube_scheduler_framework::{ActionType, ClusterEvent, EventObject, EventResource, Plugin};
use serde_json::{Value, json};

use crate::support::{hint, node, plugin, plugin_with, pod, try_plugin};

/// What the hint says to the pod `waiting` about a node.
fn on_node_of(
    plugin: &dyn Plugin,
    waiting: &str,
    old: Option<&str>,
    new: &str,
    action: ActionType,
) -> String {
    let event = ClusterEvent::new(EventResource::Node, action);
    let node = |text| EventObject::Node(node(text));
    hint(plugin, event, &pod(waiting), old.map(node), Some(node(new)))
}

fn on_node(name: &str, waiting: &str, old: Option<&str>, new: &str, action: ActionType) -> String {
    on_node_of(&*plugin(name), waiting, old, new, action)
}

/// What the hint says to the pod `waiting` about a pod.
fn on_pod(
    name: &str,
    waiting: &str,
    old: Option<&str>,
    new: Option<&str>,
    action: ActionType,
) -> String {
    let resource = if action == ActionType::DELETE {
        EventResource::AssignedPod
    } else {
        EventResource::UnschedulablePod
    };
    let event = ClusterEvent::new(resource, action);
    let object = |text| EventObject::Pod(pod(text));
    hint(&*plugin(name), event, &pod(waiting), old.map(object), new.map(object))
}

#[test]
fn only_its_own_last_gate_concerns_a_gated_pod() {
    let action = ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
    let hint = |updated| on_pod("SchedulingGates", "p", None, Some(updated), action);
    assert_eq!([hint("p"), hint("other")], ["queue", "skip"]);
}

#[test]
fn uncordoning_helps_and_so_does_tolerating_the_cordon() {
    let (shut, open) = ("n unschedulable", "n");
    let hint =
        |old, new| on_node("NodeUnschedulable", "p", old, new, ActionType::UPDATE_NODE_TAINT);
    assert_eq!(hint(Some(shut), open), "queue");
    assert_eq!(hint(Some(open), open), "skip");
    assert_eq!(hint(None, open), "queue");
    assert_eq!(hint(None, shut), "skip");
    let action = ActionType::UPDATE_POD_TOLERATION;
    let hint = |new| on_pod("NodeUnschedulable", "p", None, Some(new), action);
    assert_eq!(hint("p tolerate:*"), "queue");
    assert_eq!(hint("p"), "skip");
    assert_eq!(hint("other tolerate:*"), "skip");
}

#[test]
fn a_taint_that_goes_helps_and_one_that_comes_does_not() {
    let tainted = ["n", "n taint:k0:NoSchedule", "n taint:k0:NoSchedule taint:k1:NoSchedule"];
    let hint = |old: Option<usize>, new: usize| {
        let old = old.map(|n| tainted[n]);
        on_node("TaintToleration", "p", old, tainted[new], ActionType::UPDATE_NODE_TAINT)
    };
    assert_eq!(hint(Some(1), 0), "queue");
    assert_eq!(hint(Some(1), 2), "skip");
    assert_eq!(hint(Some(0), 0), "skip");
    assert_eq!(hint(None, 0), "queue");
    assert_eq!(hint(None, 1), "skip");
    let action = ActionType::UPDATE_POD_TOLERATION;
    assert_eq!(on_pod("TaintToleration", "p", None, Some("p"), action), "queue");
    assert_eq!(on_pod("TaintToleration", "p", None, Some("q"), action), "skip");
}

#[test]
fn a_label_helps_when_it_makes_the_pod_match() {
    let action = ActionType::UPDATE_NODE_LABEL;
    let hint = |old, new| on_node("NodeAffinity", "p selector:zone=a", old, new, action);
    let (a, b) = ("n label:zone=a", "n label:zone=b");
    assert_eq!(hint(Some(b), a), "queue");
    assert_eq!(hint(Some(a), a), "skip");
    assert_eq!(hint(Some(a), b), "skip");
    assert_eq!(hint(None, a), "queue");
    let malformed =
        r#"p node-affinity={"matchExpressions": [{"key": "-bad", "operator": "Exists"}]}"#;
    let hint = on_node("NodeAffinity", malformed, None, a, ActionType::ADD);
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
    let hint = |old, new| on_node_of(&*added, "p", old, new, ActionType::UPDATE_NODE_LABEL);
    let (a, b) = ("n label:zone=a", "n label:zone=b");
    assert_eq!(hint(Some(b), a), "skip");
    assert_eq!(hint(None, a), "queue");
    assert_eq!(hint(None, b), "skip");
}

#[test]
fn a_deleted_pod_helps_when_it_held_a_wanted_port() {
    let waiting = "p port=80";
    let hint = |deleted| on_pod("NodePorts", waiting, Some(deleted), None, ActionType::DELETE);
    assert_eq!(hint("r node=n port=127.0.0.1:80"), "queue");
    assert_eq!(hint("r node=n port=127.0.0.1:81"), "skip");
    assert_eq!(hint("r node=n"), "skip");
    assert_eq!(hint("r port=80"), "skip");
    assert_eq!(hint("r port=80 nominated=n"), "queue");
    assert_eq!(on_node("NodePorts", waiting, None, "n", ActionType::ADD), "always");
}

#[test]
fn a_deleted_pod_helps_if_it_had_a_place() {
    let hint =
        |deleted| on_pod("NodeResourcesFit", "p cpu=1", Some(deleted), None, ActionType::DELETE);
    assert_eq!([hint("r node=n"), hint("r")], ["queue", "skip"]);
}

#[test]
fn a_pod_that_shrinks_helps_in_what_is_asked_for() {
    let action = ActionType::UPDATE_POD_SCALE_DOWN;
    let hint = |old, new| on_pod("NodeResourcesFit", "p cpu=1", Some(old), Some(new), action);
    assert_eq!(hint("r node=n cpu=2 memory=1Gi", "r node=n cpu=1 memory=1Gi"), "queue");
    assert_eq!(hint("r node=n cpu=2 memory=2Gi", "r node=n cpu=2 memory=1Gi"), "skip");
    assert_eq!(hint("p cpu=2", "p cpu=1"), "queue", "itself");
    assert_eq!(hint("q cpu=2", "q cpu=1"), "skip");
}

#[test]
fn a_node_that_grows_helps_in_what_is_asked_for() {
    let action = ActionType::UPDATE_NODE_ALLOCATABLE;
    let hint = |old, new| on_node("NodeResourcesFit", "p cpu=2", old, new, action);
    assert_eq!(hint(Some("n cpu=1"), "n cpu=2"), "queue");
    assert_eq!(hint(Some("n cpu=1"), "n cpu=1500m"), "skip");
    assert_eq!(hint(Some("n memory=1Gi"), "n memory=2Gi"), "skip");
    assert_eq!(hint(Some("n pods=1"), "n pods=2"), "queue");
    assert_eq!(hint(None, "n"), "queue");
    assert_eq!(hint(None, "n cpu=1"), "skip");
    assert_eq!(hint(None, "n pods=0"), "skip");
    assert_eq!(on_node("NodeResourcesFit", "p", Some("n"), "n cpu=9", action), "skip");
}

#[test]
fn hint_does_not_know_ignored_resources() {
    let fit = plugin_with("NodeResourcesFit", json!({"ignoredResources": ["example.com/x"]}));
    assert_eq!(on_node_of(&*fit, "p example.com/x=1", None, "n", ActionType::ADD), "skip");
}

#[test]
fn a_device_class_helps_pods_that_ask_for_what_it_serves() {
    let class = |text: &str| EventObject::Other(object(&format!("deviceclass {text}")).build());
    let of = |fit: &dyn Plugin, waiting, old: Option<&str>, new| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let event = ClusterEvent::new(EventResource::DeviceClass, action);
        hint(fit, event, &pod(waiting), old.map(class), Some(class(new)))
    };
    let fit = plugin("NodeResourcesFit");
    let (gpu, implicit) = ("p example.com/gpu=0", "p deviceclass.resource.kubernetes.io/c=1");
    let serves_gpu = "c resource=example.com/gpu";
    assert_eq!(of(&*fit, gpu, None, serves_gpu), "queue");
    assert_eq!(of(&*fit, gpu, None, "c resource=example.com/nic"), "skip");
    assert_eq!(of(&*fit, implicit, None, "c"), "queue");
    assert_eq!(of(&*fit, gpu, Some("c"), serves_gpu), "queue");
    assert_eq!(of(&*fit, gpu, Some("c"), "c resource="), "skip");
    assert_eq!(of(&*fit, implicit, Some("c"), serves_gpu), "skip");
    let off =
        try_plugin("NodeResourcesFit", Value::Null, &[("DRAExtendedResource", false)]).unwrap();
    assert_eq!(of(&*off, gpu, None, serves_gpu), "not registered");
}

#[test]
fn declared_features_and_required_ones() {
    let waiting = r#"p {"spec": {"hostNetwork": true, "hostUsers": false}}"#;
    let action = ActionType::UPDATE_NODE_DECLARED_FEATURE;
    let hint = |old, new| on_node("NodeDeclaredFeatures", waiting, old, new, action);
    assert_eq!(hint(Some("n feature=A"), "n feature=A"), "skip");
    assert_eq!(hint(Some("n feature=A"), "n feature=A feature=B"), "queue");
    assert_eq!(hint(None, "n"), "queue");
    let hint = |new| {
        let (old, new) = (Some(waiting), Some(new));
        on_pod("NodeDeclaredFeatures", waiting, old, new, ActionType::UPDATE)
    };
    assert_eq!(hint("p"), "queue");
    assert_eq!(hint(waiting), "skip");
    assert_eq!(hint("q"), "skip");
}

#[test]
fn an_object_of_the_wrong_kind_is_an_error() {
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let new = Some(EventObject::Pod(pod("p")));
    let hint = hint(&*plugin("TaintToleration"), event, &pod("p"), None, new);
    assert_eq!(hint, "error: expected a node, but got a pod");
}
