//! How many more pods fit.

use std::sync::Arc;

use kube_scheduler_answers::{CapacityOptions, CapacityStep, LargestRequest, Refusal, capacity};
use kube_scheduler_api_types::{Pod, Timestamp};
use serde_json::json;

use crate::cluster::{Cluster, NOW, pod};

/// Counting to this number.
fn to(max: usize) -> CapacityOptions {
    CapacityOptions { max, ..CapacityOptions::default() }
}

#[test]
fn pods_are_counted_until_the_next_one_does_not_fit() {
    let running = pod("running", "500m", json!({"nodeName": "a"}));
    let low = pod("waiting", "100", json!({}));
    let cluster =
        Cluster::new().node("a", "2", json!({})).node("b", "1", json!({})).pod(running).pod(low);
    let template = pod("web", "500m", json!({"priority": 100}));
    let answer = capacity(&cluster.engine, &template, to(100), NOW).unwrap();
    assert_eq!((answer.count, answer.is_limit), (5, false));
    let by_node: Vec<_> = answer.by_node.iter().map(|(node, n)| (node.as_str(), *n)).collect();
    assert_eq!(by_node, [("a", 3), ("b", 2)], "the running pod keeps its place");
    let next = answer.limited_by.as_ref().unwrap();
    assert_eq!(next.rejected[0].rejections[0].reasons, ["Insufficient cpu"]);
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["limitedBy"]["pod"], "default/web", "it is no pod of its own");
    assert_eq!(json["limitedBy"]["place"], json!(null), "and it is nowhere");
    let text = answer.table(false);
    assert!(text.ends_with("default/web: 5 fit, on 2 nodes\n"), "{text}");
    assert_eq!(cluster.engine.n_known_pods(), 2, "the cluster itself is as it was");
    assert_eq!(cluster.engine.pending_counts().active, 1);
}

#[test]
fn pods_that_are_being_deleted_are_not_said_to_be_left_aside() {
    let gates = json!({"schedulingGates": [{"name": "quota"}]});
    let going = [pod("goes", "1", json!({})), pod("gated-goes", "1", gates)]
        .map(|pod| Arc::new(Pod { deletion_requested: Some(NOW), ..(*pod).clone() }));
    let cluster = going
        .into_iter()
        .fold(Cluster::new().node("a", "4", json!({})), |cluster, pod| cluster.pod(pod));
    let left_aside = |cluster: &Cluster| {
        let answer = capacity(&cluster.engine, &pod("web", "1", json!({})), to(9), NOW).unwrap();
        assert_eq!(answer.count, 4, "they take no room");
        let text = answer.table(false);
        text.lines().find(|line| line.contains("left aside")).map(str::to_owned)
    };
    assert_eq!(left_aside(&cluster), None);
    let cluster = cluster.pod(pod("waits", "1", json!({})));
    assert_eq!(left_aside(&cluster).as_deref(), Some("note: 1 pending pod left aside"));
    // A template that was read from the cluster may be going itself: more pods like it do not.
    let template = cluster.engine.known_pod("default", "goes").unwrap();
    assert_eq!(capacity(&cluster.engine, template, to(9), NOW).unwrap().count, 4);
}

#[test]
fn counting_ends_at_the_limit() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let gated = pod("web", "100m", json!({"schedulingGates": [{"name": "x"}]}));
    let answer = capacity(&cluster.engine, &gated, to(7), NOW).unwrap();
    assert_eq!((answer.count, answer.is_limit, answer.limited_by), (7, true, None));
}

#[test]
fn a_template_for_another_scheduler_is_refused() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let foreign = pod("web", "1", json!({"schedulerName": "other"}));
    let answer = capacity(&cluster.engine, &foreign, to(7), NOW);
    assert!(matches!(answer, Err(Refusal::NotOurs { .. })), "{answer:?}");
}

/// The resource, the most of it, and the node that has it.
type Largest<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

#[test]
fn each_request_may_grow_as_far_as_a_feasible_node_has_room() {
    let running = pod("running", "500m", json!({"nodeName": "a"}));
    let tainted = json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    let cluster = Cluster::new()
        .node("a", "2", json!({}))
        .node("b", "1", json!({}))
        .node("large", "64", tainted)
        .pod(running);
    let template = pod("web", "250m", json!({}));
    let answer = capacity(&cluster.engine, &template, to(100), NOW).unwrap();
    let largest: Vec<Largest<'_>> = answer
        .largest
        .iter()
        .map(|one| (&*one.resource, one.largest.as_deref(), one.node.as_deref()))
        .collect();
    assert_eq!(largest[0], ("cpu", Some("1500m"), Some("a")), "the tainted node does not count");
    assert_eq!((largest[1].0, largest[1].1), ("memory", Some("8Gi")));
    assert_eq!(largest.len(), 2, "no node has ephemeral storage");
    assert_eq!(answer.largest[0].requested, "250m");
    let overhead = json!({"overhead": {"cpu": "100m"}});
    let answer = capacity(&cluster.engine, &pod("web", "250m", overhead), to(1), NOW).unwrap();
    let LargestRequest { requested, largest, overhead, .. } = &answer.largest[0];
    assert_eq!((&**requested, largest.as_deref()), ("250m", Some("1400m")));
    assert_eq!(overhead.as_deref(), Some("100m"));
    assert_eq!(answer.largest[1].overhead, None, "there is none of memory");
    let text = answer.table(false);
    let is_said =
        |line: &str| line.starts_with("cpu ") && line.ends_with("250m, beside 100m of overhead");
    assert!(text.lines().any(is_said), "{text}");
    let too_large = pod("web", "3", json!({}));
    let answer = capacity(&cluster.engine, &too_large, to(100), NOW).unwrap();
    assert_eq!((answer.count, answer.largest.len()), (0, 0));
}

/// From how many pods to how many, on how many nodes they fitted, and what limits them.
type Brief<'a> = ([usize; 2], [usize; 2], Vec<(&'a str, &'a str, usize)>);

fn brief(step: &CapacityStep) -> Brief<'_> {
    let limits = step.limits.iter();
    let limits = limits.map(|limit| (&*limit.plugin, &*limit.reasons[0], limit.nodes)).collect();
    ([step.from, step.to], [step.feasible_from, step.feasible_to], limits)
}

#[test]
fn steps_end_where_something_else_limits() {
    let cluster =
        ["a", "b", "c"].iter().fold(Cluster::new(), |all, name| all.node(name, "2", json!({})));
    let cluster = cluster.node("cordoned", "2", json!({"unschedulable": true}));
    let template = pod("web", "1", json!({}));
    let options = CapacityOptions { steps: true, ..to(100) };
    let answer = capacity(&cluster.engine, &template, options, NOW).unwrap();
    let cordoned = ("NodeUnschedulable", "node(s) were unschedulable", 1);
    let full = |nodes| ("NodeResourcesFit", "Insufficient cpu", nodes);
    // Pods go to the emptiest node, so that the first node is full after the fourth pod.
    assert_eq!(
        answer.steps.iter().map(brief).collect::<Vec<_>>(),
        [([0, 3], [3, 3], vec![cordoned]), ([4, 6], [2, 0], vec![full(3), cordoned])]
    );
    let sum: usize = answer.steps[1].limits.iter().map(|limit| limit.nodes).sum();
    assert_eq!(answer.steps[1].feasible_to + sum, 4);
    let without = capacity(&cluster.engine, &template, to(100), NOW).unwrap();
    assert_eq!((without.count, without.steps.len()), (answer.count, 0));
}

#[test]
fn an_answer_without_any_timestamp_is_of_no_time() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let template = pod("web", "500m", json!({}));
    let answer = |now| {
        let answer = capacity(&cluster.engine, &template, to(7), now).unwrap();
        serde_json::to_value(answer).unwrap()
    };
    assert_eq!(answer(NOW)["asOf"], "1970-01-01T00:16:40Z");
    let undated = answer(Timestamp::EPOCH);
    assert_eq!((&undated["asOf"], &undated["limitedBy"]["asOf"]), (&json!(null), &json!(null)));
}
