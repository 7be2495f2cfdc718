//! The whole-cluster forms answer as the node-by-node forms do, on hypothetical nodes too, and answers keep to what
//! signatures and dependencies promise.

use std::sync::Arc;

use kube_scheduler_cache::{ChangeKinds, NodeOverlay};
use kube_scheduler_framework::api::{Node, Pod};
use kube_scheduler_framework::testing::{Fixture, Reads, reads_of};
use kube_scheduler_framework::{ClusterView, CycleState, FeasibleNodes, NodeView, Plugin, Status};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::strategies::{changed, pod, world};
use crate::support::{
    plugin, plugin_with, raw_scores, scan, signature, signature_without_numbers, try_plugin,
};

/// Every plugin that judges nodes, with the configurations that make a difference.
fn plugins() -> Vec<Arc<dyn Plugin>> {
    let resources = json!([{"name": "cpu", "weight": 2}, {"name": "memory"}, {"name": "example.com/gpu", "weight": 3},
        {"name": "ephemeral-storage"}, {"name": "pods"}]);
    let flat = json!([{"name": "cpu"}, {"name": "example.com/gpu"}, {"name": "memory"}]);
    let shape = json!({"shape": [{"utilization": 0, "score": 10}, {"utilization": 40, "score": 3},
        {"utilization": 100, "score": 7}]});
    let strategy = |kind: &str, ratio: Value| {
        plugin_with(
            "NodeResourcesFit",
            json!({
                "ignoredResources": ["example.com/nic"],
                "scoringStrategy": {"type": kind, "resources": resources.clone(), "requestedToCapacityRatio": ratio},
            }),
        )
    };
    let added = json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["a"]}]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}],
    }});
    let mut plugins: Vec<_> = [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
        "DynamicResources",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeZone",
        "VolumeBinding",
    ]
    .into_iter()
    .map(plugin)
    .collect();
    plugins.extend([
        strategy("MostAllocated", Value::Null),
        strategy("LeastAllocated", Value::Null),
        strategy("RequestedToCapacityRatio", shape),
        plugin_with("NodeResourcesBalancedAllocation", json!({"resources": flat})),
        plugin_with("NodeAffinity", added),
        try_plugin("TaintToleration", Value::Null, &[("TaintTolerationComparisonOperators", true)])
            .unwrap(),
        try_plugin("NodeResourcesFit", Value::Null, &[("DRAExtendedResource", false)]).unwrap(),
        try_plugin("NodeDeclaredFeatures", Value::Null, &[("NodeDeclaredFeatures", false)])
            .unwrap(),
    ]);
    plugins
}

/// What one plugin says about one pod on every node: filter statuses and raw scores.
#[derive(Debug, PartialEq)]
struct Answers {
    filters: Vec<(Arc<str>, Status)>,
    scores: Vec<(Arc<str>, i64)>,
    refused: Option<Status>,
}

/// Asks node by node.
fn answers(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Answers {
    let cx = world.cx();
    let mut answers = Answers { filters: Vec::new(), scores: Vec::new(), refused: None };
    let views: Vec<NodeView<'_>> = world
        .cluster()
        .order()
        .iter()
        .filter_map(|idx| ClusterView::unrecorded(world.cluster()).node(*idx))
        .collect();
    let name = plugin.name().into();
    let mut state = CycleState::new();
    let pre_filter =
        plugin.as_pre_filter().map(|point| point.pre_filter(&cx, &mut state, pod).status);
    if let Some(filter) = plugin.as_filter() {
        match pre_filter {
            Some(status) if status.is_skip() => {}
            Some(status) if !status.is_success() => answers.refused = Some(status),
            _ => {
                let ask = |view| (view, filter.filter(&cx, &state, pod, view));
                answers.filters = views
                    .iter()
                    .map(ask)
                    .map(|(view, status)| (view.name().clone(), status.from_plugin(&name)))
                    .collect();
            }
        }
    }
    if let Some(score) = plugin.as_score() {
        let all = FeasibleNodes::unrecorded(world.cluster().order());
        let pre_score =
            plugin.as_pre_score().map(|point| point.pre_score(&cx, &mut state, pod, &all));
        match pre_score {
            Some(status) if status.is_skip() => {}
            Some(status) if !status.is_success() => answers.refused = Some(status),
            _ => {
                let ask = |view: &NodeView<'_>| {
                    (view.name().clone(), score.score(&cx, &state, pod, view).unwrap())
                };
                answers.scores = views.iter().map(ask).collect();
            }
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(36),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whole_cluster_forms_agree_with_node_by_node(world in world(), pod in pod("p".into())) {
        let pod = pod.build();
        for plugin in plugins() {
            let expected = answers(&world, &*plugin, &pod);
            if plugin.as_filter().is_some() {
                match scan(&world, &*plugin, &pod) {
                    None => prop_assert!(expected.filters.is_empty()),
                    Some(Err(failure)) => {
                        let is_same = |(_, status): &(_, Status)| {
                            status.code() == failure.code() && status.message() == failure.message()
                        };
                        prop_assert!(expected.filters.iter().any(is_same), "{failure:?}");
                        continue;
                    }
                    Some(Ok(verdicts)) => {
                        for (name, status) in &expected.filters {
                            let found = verdicts.rejection(world.view(name).idx()).cloned().unwrap_or_default();
                            prop_assert_eq!(&found, status, "{} on {}", plugin.name(), name);
                        }
                        prop_assert_eq!(verdicts.n_rejected(), expected.filters.iter().filter(|(_, s)| !s.is_success()).count());
                    }
                }
            }
            if let Some(Ok(scores)) = raw_scores(&world, &*plugin, &pod) {
                let expected: Vec<i64> = expected.scores.iter().map(|(_, score)| *score).collect();
                prop_assert_eq!(scores, expected, "{}", plugin.name());
            } else {
                prop_assert!(expected.scores.is_empty());
            }
        }
    }

    #[test]
    fn a_hypothetical_node_is_judged_like_a_real_one(world in world(), pod in pod("p".into()), extra in pod("x".into())) {
        let pod = pod.build();
        let node = world.cluster().order()[0];
        let name = world.cluster().node_name(node).unwrap().clone();
        let extra = extra.on(&name).build();
        let mut overlay = NodeOverlay::new(node);
        overlay.add_pod(world.cluster(), &extra);
        let mut real = world.clone();
        real.cluster_mut().add_pod(extra).unwrap();
        for plugin in plugins() {
            let cx = world.cx();
            let expected = answers(&real, &*plugin, &pod);
            let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
            let mut state = CycleState::new();
            if let Some(point) = plugin.as_pre_filter() {
                point.pre_filter(&cx, &mut state, &pod);
            }
            if let Some((_, status)) = expected.filters.first() {
                let found = plugin.as_filter().unwrap().filter(&cx, &state, &pod, &view).from_plugin(&plugin.name().into());
                prop_assert_eq!(&found, status, "{}", plugin.name());
            }
            if let Some((_, score)) = expected.scores.first() {
                if let Some(point) = plugin.as_pre_score() {
                    point.pre_score(&cx, &mut state, &pod, &FeasibleNodes::unrecorded(world.cluster().order()));
                }
                prop_assert_eq!(plugin.as_score().unwrap().score(&cx, &state, &pod, &view).unwrap(), *score, "{}", plugin.name());
            }
        }
    }

    #[test]
    fn equal_signatures_mean_equal_answers(
        world in world(),
        pods in prop::collection::vec(pod("p".into()), 12),
    ) {
        let mut pods: Vec<Pod> = pods.iter().map(|pod| Pod::clone(&pod.build())).collect();
        // Identity does not belong to a signature.
        let twin = Pod { uid: "twin".into(), name: "twin".into(), ..pods[0].clone() };
        pods.push(twin);
        let mut n_equal = 0;
        for plugin in plugins() {
            let signed: Vec<_> = pods.iter().map(|pod| signature(&*plugin, pod)).collect();
            prop_assert_eq!(&signed[0], &signed[12]);
            for (i, a) in pods.iter().enumerate() {
                for (j, b) in pods.iter().enumerate().skip(i + 1) {
                    if signed[i].is_some() && signed[i] == signed[j] {
                        n_equal += 1;
                        prop_assert_eq!(answers(&world, &*plugin, a), answers(&world, &*plugin, b), "{}", plugin.name());
                    }
                }
            }
        }
        prop_assert!(n_equal > 0);
    }

    /// No selector of these worlds is about numbers.
    #[test]
    fn numbers_that_nobody_looks_at_make_no_difference(
        world in world(),
        pod in pod("p".into()),
        index in 0_u8..3,
    ) {
        let pod = pod.build();
        let labels = pod.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let number = ("apps.kubernetes.io/pod-index".to_owned(), index.to_string());
        let labels = labels.chain([number]).collect();
        let numbered = Pod { labels, ..Pod::clone(&pod) };
        for plugin in plugins() {
            let given = signature_without_numbers(&*plugin, &pod);
            prop_assert_eq!(&given, &signature(&*plugin, &pod));
            prop_assert_eq!(given, signature_without_numbers(&*plugin, &numbered), "{}", plugin.name());
            prop_assert_eq!(answers(&world, &*plugin, &pod), answers(&world, &*plugin, &numbered), "{}", plugin.name());
        }
    }

    #[test]
    fn only_changes_of_what_was_read_matter(
        world in world(),
        pod in pod("p".into()),
        (other, parts) in changed("n1".into()),
        extra in pod("x".into()),
        adds_pod in any::<bool>(),
    ) {
        let (pod, mut after) = (pod.build(), world.clone());
        let mut kinds = ChangeKinds::NONE;
        let Some(idx) = world.cluster().node_idx("n1") else { return Ok(()) };
        if adds_pod {
            after.cluster_mut().add_pod(extra.on("n1").build()).unwrap();
            kinds = ChangeKinds::PODS;
        } else {
            let other = other.build();
            let mut node = Node::clone(world.cluster().node(idx).unwrap());
            for part in parts {
                match part {
                    "labels" => {
                        kinds |= ChangeKinds::LABELS;
                        node.labels = other.labels.clone();
                    }
                    "taints" => {
                        kinds |= ChangeKinds::TAINTS;
                        node.taints = other.taints.clone();
                    }
                    "unschedulable" => {
                        kinds |= ChangeKinds::UNSCHEDULABLE;
                        node.unschedulable = other.unschedulable;
                    }
                    "allocatable" => {
                        kinds |= ChangeKinds::ALLOCATABLE;
                        node.allocatable = other.allocatable.clone();
                        node.allowed_pods = other.allowed_pods;
                        node.allocatable_quantities = other.allocatable_quantities.clone();
                    }
                    "images" => {
                        kinds |= ChangeKinds::IMAGES;
                        node.images = other.images.clone();
                    }
                    _ => {
                        kinds |= ChangeKinds::FEATURES;
                        node.declared_features = other.declared_features.clone();
                        node.feature_bits = other.feature_bits;
                    }
                }
            }
            after.cluster_mut().update_node(Arc::new(node));
        }
        let images_changed = world.cluster().image_sequence() != after.cluster().image_sequence();
        for plugin in plugins() {
            let reads = reads_of(&*plugin, world.sources(), &pod);
            let (filter, score) = (reads.pre_filter.union(reads.filter), reads.pre_score.union(reads.score));
            let is_touched = |reads: Reads| {
                !reads.can_be_followed()
                    || reads.node_kinds().intersects(kinds)
                    || reads.intersects(Reads::IMAGE_STATES) && images_changed
            };
            let (old, new) = (answers(&world, &*plugin, &pod), answers(&after, &*plugin, &pod));
            if !is_touched(filter) {
                prop_assert_eq!(old.filters, new.filters, "{} after {:?}", plugin.name(), kinds);
            }
            if !is_touched(score) {
                prop_assert_eq!(old.scores, new.scores, "{} after {:?}", plugin.name(), kinds);
            }
            prop_assert_eq!(old.refused, new.refused);
        }
    }
}
