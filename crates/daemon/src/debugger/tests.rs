//! The texts, and what counts as a difference.

use kube_scheduler_api_types::{Node, Timestamp};
use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_engine::{EngineOptions, Input};

use super::*;

fn engine(inputs: impl IntoIterator<Item = Input>) -> Engine {
    let mut config = Configuration::default();
    kube_scheduler_config::default(&mut config, &FeatureGates::default());
    let registry = kube_scheduler_plugins_intree::registry();
    let mut engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
    for input in inputs {
        engine.handle(input, Timestamp::EPOCH);
    }
    engine
}

fn node(name: &str, more: &str) -> Input {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"1"}},"status":{{"allocatable":
            {{"cpu":"4","memory":"8G","pods":"110"{more}}}}}}}"#
    );
    Input::NodeApplied(Arc::new(Node::from_json(json).unwrap()))
}

fn pod(name: &str, uid: &str, spec: &str, status: &str) -> Input {
    let json = format!(
        r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{uid}","resourceVersion":"1"}},
            "spec":{{"schedulerName":"default-scheduler",{spec}"containers":[{{"name":"c","resources":
            {{"requests":{{"cpu":"100m","memory":"200Mi"}}}}}}]}},"status":{{{status}}}}}"#
    );
    Input::PodApplied(Arc::new(Pod::from_json(json).unwrap()))
}

#[test]
fn nodes_are_printed_as_the_reference_prints_them() {
    let running = r#""phase":"Running""#;
    let pending = r#""phase":"Pending","nominatedNodeName":"n1""#;
    let engine = engine([
        node("n2", r#","example.com/b":"2","example.com/a":"1""#),
        node("n1", ""),
        pod("a", "u1", r#""nodeName":"n1","#, running),
        pod("b", "u2", "", pending),
        pod("c", "u3", r#""nodeName":"n0","#, running),
    ]);
    let expected = "\
Node name: n0
Deleted: true
Requested Resources: &{MilliCPU:100 Memory:209715200 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}
Allocatable Resources:&{MilliCPU:0 Memory:0 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}
Scheduled Pods(number: 1):
name: c, namespace: default, uid: u3, phase: Running, nominated node: 


Node name: n1
Deleted: false
Requested Resources: &{MilliCPU:100 Memory:209715200 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}
Allocatable Resources:&{MilliCPU:4000 Memory:8000000000 EphemeralStorage:0 AllowedPodNumber:110 ScalarResources:map[]}
Scheduled Pods(number: 1):
name: a, namespace: default, uid: u1, phase: Running, nominated node: 
Nominated Pods(number: 1):
name: b, namespace: default, uid: u2, phase: Pending, nominated node: n1


Node name: n2
Deleted: false
Requested Resources: &{MilliCPU:0 Memory:0 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}
Allocatable Resources:&{MilliCPU:4000 Memory:8000000000 EphemeralStorage:0 AllowedPodNumber:110 ScalarResources:map[example.com/a:1 example.com/b:2]}
Scheduled Pods(number: 0):
";
    assert_eq!(dump_nodes(&engine), expected);
}

#[test]
fn the_queue_is_printed_pod_by_pod() {
    let gated = r#""schedulingGates":[{"name":"x"}],"#;
    let engine = engine([
        pod("a", "u1", "", r#""phase":"Pending""#),
        pod("b", "u2", gated, r#""phase":"Pending""#),
    ]);
    assert_eq!(engine.queue().summary(), "activeQ:1; backoffQ:0; unschedulablePods:1");
    assert_eq!(
        dump_queue(&engine),
        "name: a, namespace: default, uid: u1, phase: Pending, nominated node: \n\
         name: b, namespace: default, uid: u2, phase: Pending, nominated node: \n"
    );
}

#[test]
fn nodes_that_only_pods_speak_of_count_as_cached() {
    let engine = engine([node("n1", ""), pod("a", "u1", r#""nodeName":"gone","#, "")]);
    let names: Vec<&str> = cached_nodes(&engine).into_iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["gone", "n1"]);
}

#[test]
fn differences_are_those_of_sorted_multisets() {
    fn texts(texts: &str) -> Vec<Arc<str>> {
        texts.split_whitespace().map(Arc::from).collect()
    }
    for (actual, cached, missed, redundant) in [
        ("foo bar", "bar foo foobar", "", "foobar"),
        ("foo bar foobar", "bar foo", "foobar", ""),
        ("foo bar foobar", "bar foobar foo", "", ""),
        ("a a b", "a b b", "a", "b"),
        ("", "x", "", "x"),
        ("x", "", "x", ""),
        ("b d", "a c e", "b d", "a c e"),
    ] {
        let expected = Difference { missed: texts(missed), redundant: texts(redundant) };
        assert_eq!(Difference::between(texts(actual), texts(cached)), expected);
    }
}
