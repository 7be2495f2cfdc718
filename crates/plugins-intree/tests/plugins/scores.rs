//! How nodes compare.

use std::sync::Arc;

use kube_scheduler_framework::testing::fixture;
use kube_scheduler_framework::{CycleState, Plugin};
use serde_json::{Value, json};

use crate::support::{plugin, plugin_with, pod, raw_scores, scores, text, try_plugin};

const SOFT: &str = "node none
                    node one taint:k0:PreferNoSchedule
                    node two taint:k0:PreferNoSchedule taint:k1:PreferNoSchedule";

#[test]
fn fewer_untolerated_soft_taints_are_better() {
    let world = fixture(SOFT);
    let scores = |text| scores(&world, &*plugin("TaintToleration"), &pod(text));
    assert_eq!(scores("p"), [100, 50, 0]);
    assert_eq!(scores("p tolerate:*:NoSchedule"), [100, 50, 0]);
    assert_eq!(scores("p tolerate:k0:PreferNoSchedule"), [100, 100, 0]);
    assert_eq!(scores("p tolerate:*"), [100, 100, 100]);
}

#[test]
fn scoring_taints_needs_pre_score() {
    let (world, plugin) = (fixture("node none"), plugin("TaintToleration"));
    let score = plugin.as_score().unwrap();
    let score = score.score(&world.cx(), &CycleState::new(), &pod("p"), &world.view("none"));
    let expected = "Error: failed to read \"PreScoreTaintToleration\" from cycleState: not found";
    assert_eq!(text(&score.unwrap_err()), expected);
}

#[test]
fn weights_of_matching_preferences_add_up() {
    let world = fixture(
        "node a label:foo=bar; node b label:key=value
         node c label:foo=bar label:key=value label:az=az1",
    );
    let pod = pod("p prefer-node-affinity=2:foo=bar prefer-node-affinity=4:key=value \
                   prefer-node-affinity=5:foo=bar,key=value,az");
    let plugin = plugin("NodeAffinity");
    assert_eq!(raw_scores(&world, &*plugin, &pod), Some(Ok(vec![2, 4, 11])));
    assert_eq!(scores(&world, &*plugin, &pod), [18, 36, 100]);
}

fn preference(weight: i32, expressions: Value) -> Value {
    json!({"weight": weight, "preference": {"matchExpressions": expressions}})
}

#[test]
fn preferences_are_skipped_when_absent_and_fail_when_malformed() {
    let world = fixture("node a");
    let raw = |pod: &str| raw_scores(&world, &*plugin("NodeAffinity"), &crate::support::pod(pod));
    let preferring = |terms: Value| {
        let affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
        raw(&format!("p {}", json!({"spec": {"affinity": {"nodeAffinity": affinity}}})))
    };
    assert_eq!(raw("p"), None);
    assert_eq!(preferring(json!([])), Some(Ok(vec![0])));
    let bad = json!([{"key": "-bad", "operator": "Exists"}]);
    assert_eq!(preferring(json!([preference(0, bad.clone())])), Some(Ok(vec![0])));
    let status = preferring(json!([preference(1, bad)])).unwrap().unwrap_err();
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
    let world = fixture("node a label:zone=z; node b");
    assert_eq!(raw_scores(&world, &*added, &pod("p")), Some(Ok(vec![3, 0])));
}

fn fit(kind: &str, resources: Value) -> Arc<dyn Plugin> {
    plugin_with(
        "NodeResourcesFit",
        json!({"scoringStrategy": {"type": kind, "resources": resources}}),
    )
}

#[test]
fn emptier_or_fuller_nodes_are_better() {
    let world = fixture("node n cpu=4000m memory=10000");
    let pod = pod("p cpu=3000m memory=5000");
    assert_eq!(scores(&world, &*plugin("NodeResourcesFit"), &pod), [37]);
    assert_eq!(scores(&world, &*fit("MostAllocated", json!([])), &pod), [62]);
    let weighted = fit(
        "MostAllocated",
        json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]),
    );
    assert_eq!(scores(&world, &*weighted, &pod), [58]);
}

#[test]
fn extended_resources_count_for_pods_that_ask_for_them() {
    let world = fixture("node n cpu=4 example.com/gpu=4");
    let resources = json!([{"name": "cpu"}, {"name": "example.com/gpu"}, {"name": "pods"}]);
    let least = fit("LeastAllocated", resources);
    assert_eq!(scores(&world, &*least, &pod("p cpu=1")), [75]);
    assert_eq!(scores(&world, &*least, &pod("p cpu=1 example.com/gpu=3")), [50]);
    let storage = fit("LeastAllocated", json!([{"name": "storage"}]));
    assert_eq!(scores(&world, &*storage, &pod("p")), [0]);
}

#[test]
fn ratio_scores_follow_the_curve() {
    let world = fixture("node n cpu=1 memory=1000Mi");
    let ratio = plugin_with(
        "NodeResourcesFit",
        json!({"scoringStrategy": {
        "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}}),
    );
    assert_eq!(scores(&world, &*ratio, &pod("p cpu=250m memory=500Mi")), [38]);
}

#[test]
fn defaults_count_for_the_fit_score_and_pod_level_requests_for_balance() {
    let world = fixture("node n cpu=1 memory=2000Mi");
    let of = |name, requests: Value| {
        let pod = pod(&format!("p {}", json!({"spec": {"resources": {"requests": requests}}})));
        scores(&world, &*plugin(name), &pod)
    };
    let even = json!({"cpu": "500m", "memory": "1000Mi"});
    // One container without requests: 100m of 1 and 200Mi of 2000Mi, both a tenth.
    assert_eq!(of("NodeResourcesFit", even.clone()), [90]);
    assert_eq!(of("NodeResourcesBalancedAllocation", even), [75]);
    let skewed = json!({"cpu": "1", "memory": "0"});
    assert_eq!(of("NodeResourcesBalancedAllocation", skewed), [50]);
}

#[test]
fn balance_gains_and_losses() {
    let world = fixture(
        "node empty cpu=4 memory=10000; node lopsided cpu=4 memory=10000; pod r node=lopsided cpu=4",
    );
    let balanced = plugin("NodeResourcesBalancedAllocation");
    let scores = |text| scores(&world, &*balanced, &pod(text));
    assert_eq!(scores("p cpu=3 memory=5000")[0], 68);
    assert_eq!(scores("p memory=10000"), [50, 100]);
    assert_eq!(scores("p cpu=2 memory=5000")[0], 75);
    assert!(scores("p").is_empty(), "best-effort pods are skipped");
    assert!(scores("p example.com/gpu=1").is_empty());
}

#[test]
fn balance_without_pre_score_gives_best_effort_pods_nothing() {
    let (world, balanced) = (fixture("node n"), plugin("NodeResourcesBalancedAllocation"));
    let score = balanced.as_score().unwrap();
    let score = score.score(&world.cx(), &CycleState::new(), &pod("p"), &world.view("n"));
    assert_eq!(score, Ok(0));
}

#[test]
fn images_on_the_node_count_by_size_and_spread() {
    let world = fixture(
        "node a image=small:1=40Mi image=mid:1=250Mi image=huge:1=5000Mi \
         image=reg.io:5000/root:latest=500Mi image=d@sha256:ab=500Mi
         node b",
    );
    let score = |text: &str| scores(&world, &*plugin("ImageLocality"), &pod(text));
    assert_eq!(score("p image=small:1"), [0, 0]);
    let two = json!([{"name": "a", "image": "mid:1"}, {"name": "b", "image": "none:1"}]);
    assert_eq!(score(&format!("p {}", json!({"spec": {"containers": two}}))), [5, 0]);
    assert_eq!(score("p image=huge:1"), [100, 0]);
    // 250 MB less the threshold of 23, of 977: names are completed, digests are left alone.
    assert_eq!(score("p image=reg.io:5000/root"), [23, 0]);
    assert_eq!(score("p image=d@sha256:ab"), [23, 0]);
    assert_eq!(score("p image=d"), [0, 0]);
    let init = json!({"spec": {"initContainers": [{"name": "i", "image": "mid:1"}]}});
    assert_eq!(score(&format!("p {init}")), [5, 0]);
}

#[test]
fn image_volumes_count_but_not_as_containers() {
    let world = fixture("node a image=vol:1=300Mi; node b");
    let pod = pod(r#"p volume={"image": {"reference": "vol:1"}}"#);
    assert_eq!(scores(&world, &*plugin("ImageLocality"), &pod), [12, 0]);
}

#[test]
fn dynamic_resources_scores_nothing() {
    let world = fixture("node a; node b");
    assert_eq!(scores(&world, &*plugin("DynamicResources"), &pod("p")), [0, 0]);
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
