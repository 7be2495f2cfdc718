//! How much of what is free the mix of pods could not use.

use std::sync::Arc;

use kube_scheduler_answers::{
    Fragmentation, FragmentationOptions, FragmentedResource, fragmentation,
};
use kube_scheduler_api_types::Pod;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

/// A node of 4 CPUs with 1 left, one of 4 with 3 left, and a tainted one of 8; three small pods and one large one.
fn cluster() -> Cluster {
    let tainted = json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    let on = |node: &str| json!({"nodeName": node});
    Cluster::new()
        .node("full", "4", json!({}))
        .node("empty", "4", json!({}))
        .node("tainted", "8", tainted)
        .pod(pod("small-1", "1", on("full")))
        .pod(pod("small-2", "1", on("empty")))
        .pod(pod("large", "2", on("full")))
        .pod(pod("small-3", "1", json!({})))
}

fn asked(cluster: &Cluster, options: &FragmentationOptions) -> Fragmentation {
    fragmentation(&cluster.engine, options, NOW)
}

fn brief(resource: &FragmentedResource) -> (&str, &str, &str, u32) {
    (&resource.resource, &resource.free, &resource.unusable, resource.permille)
}

#[test]
fn what_a_shape_cannot_use_counts_as_often_as_the_shape() {
    let answer = asked(&cluster(), &FragmentationOptions::default());
    let shapes: Vec<_> = answer
        .shapes
        .iter()
        .map(|shape| (&*shape.example, shape.pods, &*shape.requests["cpu"], shape.feasible))
        .collect();
    assert_eq!(
        shapes,
        [("default/small-1", 3, "1000m", 2), ("default/large", 1, "2000m", 1)],
        "the pending one counts"
    );
    // No pod can use the 8 of the tainted node, and one of four cannot use the 1 that is left on the full one.
    assert_eq!(brief(&answer.resources[0]), ("cpu", "12000m", "8250m", 688));
    let because: Vec<_> = answer.resources[0]
        .because
        .iter()
        .map(|cause| (&*cause.plugin, &*cause.unusable))
        .collect();
    assert_eq!(because, [("TaintToleration", "8000m"), ("NodeResourcesFit", "250m")]);
    assert_eq!(answer.resources.len(), 1, "no pod asks for memory");
    assert_eq!((answer.pods, answer.other_pods, answer.pools.len()), (4, 0, 0));
}

#[test]
fn a_pod_that_goes_before_it_has_a_node_is_none_of_the_mix() {
    let going = |spec: Value| {
        let pod = pod("large-2", "2", spec);
        Arc::new(Pod { deletion_requested: Some(NOW), ..(*pod).clone() })
    };
    let mix = |cluster: &Cluster| {
        let answer = asked(cluster, &FragmentationOptions::default());
        answer.shapes.iter().map(|shape| shape.pods).collect::<Vec<_>>()
    };
    assert_eq!(mix(&cluster().pod(going(json!({})))), [3, 1]);
    assert_eq!(mix(&cluster().pod(going(json!({"nodeName": "empty"})))), [3, 2], "it still runs");
}

#[test]
fn pools_are_told_apart_by_a_label() {
    let by = Some("kubernetes.io/hostname".to_owned());
    let answer = asked(&cluster(), &FragmentationOptions { by, ..Default::default() });
    let pools: Vec<_> = answer
        .pools
        .iter()
        .map(|pool| (pool.pool.as_deref(), pool.nodes, brief(&pool.resources[0])))
        .collect();
    assert_eq!(
        pools,
        [
            (Some("empty"), 1, ("cpu", "3000m", "0m", 0)),
            (Some("full"), 1, ("cpu", "1000m", "250m", 250)),
            (Some("tainted"), 1, ("cpu", "8000m", "8000m", 1_000)),
        ]
    );
    let by = Some("pool".to_owned());
    let answer = asked(&cluster(), &FragmentationOptions { by, ..Default::default() });
    assert_eq!((answer.pools[0].pool.as_deref(), answer.pools[0].nodes), (None, 3));
}

#[test]
fn shapes_beyond_the_limit_are_counted_and_not_tried() {
    let options = FragmentationOptions { max_shapes: 1, ..Default::default() };
    let answer = asked(&cluster(), &options);
    assert_eq!((answer.shapes.len(), answer.n_shapes), (1, 2));
    assert_eq!((answer.pods, answer.other_pods), (3, 1));
    assert_eq!(answer.resources[0].unusable, "8000m");
    let text = answer.table(false);
    assert!(text.contains("and 1 more shape\n"), "{text}");
    assert!(text.ends_with("the mix: 3 pods of 1 shape; 1 of 4 pods not judged\n"), "{text}");
}

#[test]
fn what_only_tells_pods_of_one_template_apart_makes_no_shape() {
    let mut cluster = Cluster::new().node("a", "8", json!({}));
    let specs: [Value; 5] = [
        json!({}),
        json!({"priority": 7}),
        json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}),
        json!({"nodeSelector": {"kubernetes.io/hostname": "a"}}),
        json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
    ];
    for (name, spec) in ["a", "b", "c", "d", "e"].iter().zip(specs) {
        cluster = cluster.pod(pod(name, "1", spec));
    }
    let answer = asked(&cluster, &FragmentationOptions::default());
    let shapes: Vec<_> = answer.shapes.iter().map(|shape| (&*shape.example, shape.pods)).collect();
    assert_eq!(shapes, [("default/a", 3), ("default/d", 1), ("default/e", 1)]);
}
