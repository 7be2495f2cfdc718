//! How nodes compare.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{ClusterView, CycleState};
use serde_json::{Value, json};

use crate::support::{World, asking, node, plugin, plugin_with, pod, text, try_plugin, using};

fn with_taints(name: &str, n_soft: usize) -> Arc<kube_scheduler_framework::api::Node> {
    let taints: Vec<Value> = (0..n_soft)
        .map(|i| json!({"key": format!("k{i}"), "effect": "PreferNoSchedule"}))
        .collect();
    node(name, json!({"spec": {"taints": taints}}))
}

#[test]
fn fewer_untolerated_soft_taints_are_better() {
    let world =
        World::new([with_taints("none", 0), with_taints("one", 1), with_taints("two", 2)], []);
    let plugin = plugin("TaintToleration");
    assert_eq!(world.scores(&*plugin, &pod("p", json!({}))), [100, 50, 0]);
    let hard = json!({"spec": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}});
    assert_eq!(world.scores(&*plugin, &pod("p", hard)), [100, 50, 0]);
    let soft = json!({"spec": {"tolerations": [{"key": "k0", "operator": "Exists", "effect": "PreferNoSchedule"}]}});
    assert_eq!(world.scores(&*plugin, &pod("p", soft)), [100, 100, 0]);
    let all = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    assert_eq!(world.scores(&*plugin, &pod("p", all)), [100, 100, 100]);
}

#[test]
fn scoring_taints_needs_pre_score() {
    let world = World::new([with_taints("none", 0)], []);
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("none")).unwrap();
    let plugin = plugin("TaintToleration");
    let score = plugin.as_score().unwrap().score(
        &world.cx(),
        &CycleState::new(),
        &pod("p", json!({})),
        &view,
    );
    let expected = "Error: failed to read \"PreScoreTaintToleration\" from cycleState: not found";
    assert_eq!(text(&score.unwrap_err()), expected);
}

fn preferring(terms: Value) -> Arc<Pod> {
    pod(
        "p",
        json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms}}}}),
    )
}

fn preference(weight: i32, expressions: Value) -> Value {
    json!({"weight": weight, "preference": {"matchExpressions": expressions}})
}

#[test]
fn weights_of_matching_preferences_add_up() {
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let world = World::new(
        [
            node("a", labels(json!({"foo": "bar"}))),
            node("b", labels(json!({"key": "value"}))),
            node("c", labels(json!({"foo": "bar", "key": "value", "az": "az1"}))),
        ],
        [],
    );
    let foo = json!({"key": "foo", "operator": "In", "values": ["bar"]});
    let key = json!({"key": "key", "operator": "In", "values": ["value"]});
    let az = json!({"key": "az", "operator": "Exists"});
    let pod = preferring(json!([
        preference(2, json!([foo])),
        preference(4, json!([key])),
        preference(5, json!([foo, key, az])),
    ]));
    let plugin = plugin("NodeAffinity");
    assert_eq!(world.raw_scores(&*plugin, &pod), Some(Ok(vec![2, 4, 11])));
    assert_eq!(world.scores(&*plugin, &pod), [18, 36, 100]);
}

#[test]
fn preferences_are_skipped_when_absent_and_fail_when_malformed() {
    let world = World::new([node("a", json!({}))], []);
    let plugin = plugin("NodeAffinity");
    assert_eq!(world.raw_scores(&*plugin, &pod("p", json!({}))), None);
    assert_eq!(world.raw_scores(&*plugin, &preferring(json!([]))), Some(Ok(vec![0])));
    let bad = json!([{"key": "-bad", "operator": "Exists"}]);
    assert_eq!(
        world.raw_scores(&*plugin, &preferring(json!([preference(0, bad.clone())]))),
        Some(Ok(vec![0]))
    );
    let status =
        world.raw_scores(&*plugin, &preferring(json!([preference(1, bad)]))).unwrap().unwrap_err();
    let expected = "Error: [0].matchExpressions[0].key: Invalid value: \"-bad\": name part must consist of alphanumeric";
    assert!(text(&status).starts_with(expected), "{}", text(&status));
}

#[test]
fn added_preferences_count_for_every_pod() {
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            preference(3, json!([{"key": "zone", "operator": "Exists"}])), preference(0, json!([{"key": "-bad"}]))]}}),
    );
    let world = World::new(
        [node("a", json!({"metadata": {"labels": {"zone": "z"}}})), node("b", json!({}))],
        [],
    );
    assert_eq!(world.raw_scores(&*added, &pod("p", json!({}))), Some(Ok(vec![3, 0])));
}

fn fit(kind: &str, resources: Value) -> Arc<dyn kube_scheduler_framework::Plugin> {
    plugin_with(
        "NodeResourcesFit",
        json!({"scoringStrategy": {"type": kind, "resources": resources}}),
    )
}

#[test]
fn emptier_or_fuller_nodes_are_better() {
    let sizes = json!({"status": {"allocatable": {"cpu": "4000m", "memory": "10000"}}});
    let world = World::new([node("n", sizes)], []);
    let pod = asking(json!({"cpu": "3000m", "memory": "5000"}));
    assert_eq!(world.scores(&*plugin("NodeResourcesFit"), &pod), [37]);
    assert_eq!(world.scores(&*fit("MostAllocated", json!([])), &pod), [62]);
    let weighted = fit(
        "MostAllocated",
        json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]),
    );
    assert_eq!(world.scores(&*weighted, &pod), [58]);
}

#[test]
fn extended_resources_count_for_pods_that_ask_for_them() {
    let sizes = json!({"status": {"allocatable": {"cpu": "4", "example.com/gpu": "4"}}});
    let world = World::new([node("n", sizes)], []);
    let least = fit(
        "LeastAllocated",
        json!([{"name": "cpu"}, {"name": "example.com/gpu"}, {"name": "pods"}]),
    );
    assert_eq!(world.scores(&*least, &asking(json!({"cpu": "1"}))), [75]);
    assert_eq!(world.scores(&*least, &asking(json!({"cpu": "1", "example.com/gpu": "3"}))), [50]);
    assert_eq!(
        world.scores(&*fit("LeastAllocated", json!([{"name": "storage"}])), &asking(json!({}))),
        [0]
    );
}

#[test]
fn ratio_scores_follow_the_curve() {
    let world = World::new(
        [node("n", json!({"status": {"allocatable": {"cpu": "1", "memory": "1000Mi"}}}))],
        [],
    );
    let ratio = plugin_with(
        "NodeResourcesFit",
        json!({"scoringStrategy": {
        "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}}),
    );
    assert_eq!(world.scores(&*ratio, &asking(json!({"cpu": "250m", "memory": "500Mi"}))), [38]);
}

#[test]
fn defaults_count_for_the_fit_score_and_pod_level_requests_for_balance() {
    let sizes = json!({"status": {"allocatable": {"cpu": "1", "memory": "2000Mi"}}});
    let world = World::new([node("n", sizes)], []);
    let pod_level =
        pod("p", json!({"spec": {"resources": {"requests": {"cpu": "500m", "memory": "1000Mi"}}}}));
    // One container without requests: 100m of 1 and 200Mi of 2000Mi, both a tenth.
    assert_eq!(world.scores(&*plugin("NodeResourcesFit"), &pod_level), [90]);
    assert_eq!(world.scores(&*plugin("NodeResourcesBalancedAllocation"), &pod_level), [75]);
    let skewed =
        pod("p", json!({"spec": {"resources": {"requests": {"cpu": "1", "memory": "0"}}}}));
    assert_eq!(world.scores(&*plugin("NodeResourcesBalancedAllocation"), &skewed), [50]);
}

#[test]
fn balance_gains_and_losses() {
    let sizes = json!({"status": {"allocatable": {"cpu": "4", "memory": "10000"}}});
    let world = World::new(
        [node("empty", sizes.clone()), node("lopsided", sizes)],
        [using("r", "lopsided", json!({"cpu": "4"}))],
    );
    let balanced = plugin("NodeResourcesBalancedAllocation");
    assert_eq!(world.scores(&*balanced, &asking(json!({"cpu": "3", "memory": "5000"})))[0], 68);
    assert_eq!(world.scores(&*balanced, &asking(json!({"memory": "10000"}))), [50, 100]);
    assert_eq!(world.scores(&*balanced, &asking(json!({"cpu": "2", "memory": "5000"})))[0], 75);
    assert!(
        world.scores(&*balanced, &asking(json!({}))).is_empty(),
        "best-effort pods are skipped"
    );
    let gpu_only = asking(json!({"example.com/gpu": "1"}));
    assert!(world.scores(&*balanced, &gpu_only).is_empty());
}

#[test]
fn balance_without_pre_score_gives_best_effort_pods_nothing() {
    let world = World::new([node("n", json!({}))], []);
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n")).unwrap();
    let balanced = plugin("NodeResourcesBalancedAllocation");
    let score = balanced.as_score().unwrap().score(
        &world.cx(),
        &CycleState::new(),
        &asking(json!({})),
        &view,
    );
    assert_eq!(score, Ok(0));
}

fn with_images(name: &str, images: &[(&str, i64)]) -> Arc<kube_scheduler_framework::api::Node> {
    let images: Vec<Value> = images
        .iter()
        .map(|(name, mb)| json!({"names": [name], "sizeBytes": mb * 1024 * 1024}))
        .collect();
    node(name, json!({"status": {"images": images}}))
}

fn running_images(images: &[&str]) -> Arc<Pod> {
    let containers: Vec<Value> =
        images.iter().map(|image| json!({"name": image, "image": image})).collect();
    pod("p", json!({"spec": {"containers": containers}}))
}

#[test]
fn images_on_the_node_count_by_size_and_spread() {
    let images = [
        ("small:1", 40),
        ("mid:1", 250),
        ("huge:1", 5000),
        ("reg.io:5000/root:latest", 500),
        ("d@sha256:ab", 500),
    ];
    let world = World::new([with_images("a", &images), with_images("b", &[])], []);
    let score = |pod: &Pod| world.scores(&*plugin("ImageLocality"), pod);
    assert_eq!(score(&running_images(&["small:1"])), [0, 0]);
    assert_eq!(score(&running_images(&["mid:1", "none:1"])), [5, 0]);
    assert_eq!(score(&running_images(&["huge:1"])), [100, 0]);
    // 250 MB less the threshold of 23, of 977: names are completed, digests are left alone.
    assert_eq!(score(&running_images(&["reg.io:5000/root"])), [23, 0]);
    assert_eq!(score(&running_images(&["d@sha256:ab"])), [23, 0]);
    assert_eq!(score(&running_images(&["d"])), [0, 0]);
    let init = pod("p", json!({"spec": {"initContainers": [{"name": "i", "image": "mid:1"}]}}));
    assert_eq!(score(&init), [5, 0]);
}

#[test]
fn image_volumes_count_but_not_as_containers() {
    let world = World::new([with_images("a", &[("vol:1", 300)]), with_images("b", &[])], []);
    let pod =
        pod("p", json!({"spec": {"volumes": [{"name": "v", "image": {"reference": "vol:1"}}]}}));
    assert_eq!(world.scores(&*plugin("ImageLocality"), &pod), [12, 0]);
}

#[test]
fn dynamic_resources_scores_nothing() {
    let world = World::new([node("a", json!({})), node("b", json!({}))], []);
    assert_eq!(world.scores(&*plugin("DynamicResources"), &pod("p", json!({}))), [0, 0]);
}

#[test]
fn arguments_are_checked_with_every_field_named() {
    let error = |plugin: &str, args: Value| try_plugin(plugin, args, &[]).unwrap_err();
    let fit = |strategy: Value| error("NodeResourcesFit", json!({"scoringStrategy": strategy}));
    assert_eq!(
        fit(json!({"type": "Random"})),
        "scoringStrategy.type: Unsupported value: \"Random\": supported values: \"LeastAllocated\", \"MostAllocated\", \
         \"RequestedToCapacityRatio\""
    );
    assert_eq!(
        fit(json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]})),
        "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]"
    );
    assert_eq!(
        fit(json!({"type": "RequestedToCapacityRatio"})),
        "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is \
         RequestedToCapacityRatio"
    );
    let descending = json!([{"utilization": 20, "score": 1}, {"utilization": 20, "score": 2}]);
    assert_eq!(
        fit(
            json!({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": descending}})
        ),
        "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 20: values must be sorted in \
         increasing order"
    );
    let group = error("NodeResourcesFit", json!({"ignoredResourceGroups": ["a/b"]}));
    assert_eq!(
        group,
        "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"
    );
    let twice = json!({"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]});
    assert_eq!(
        error("NodeResourcesBalancedAllocation", twice),
        "[resources[1].name: Duplicate value: \"cpu\", resources[1].weight: Invalid value: 2: must be 1]"
    );
    let affinity = error(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}}),
    );
    assert!(
        affinity.starts_with(
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
             .operator: Unsupported value: \"Near\": supported values: \"In\""
        ),
        "{affinity}"
    );
    let preemption = error("DefaultPreemption", json!({"minCandidateNodesPercentage": 101}));
    assert_eq!(
        preemption,
        "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"
    );
}
