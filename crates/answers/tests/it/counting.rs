//! How many more pods fit.

use kube_scheduler_answers::{ExplainOptions, Refusal, capacity};
use serde_json::json;

use crate::cluster::{Cluster, NOW, pod};

#[test]
fn pods_are_counted_until_the_next_one_does_not_fit() {
    let running = pod("running", "500m", json!({"nodeName": "a"}));
    let low = pod("waiting", "100", json!({}));
    let cluster =
        Cluster::new().node("a", "2", json!({})).node("b", "1", json!({})).pod(running).pod(low);
    let template = pod("web", "500m", json!({"priority": 100}));
    let answer = capacity(&cluster.engine, &template, 100, ExplainOptions::ALL, NOW).unwrap();
    assert_eq!((answer.count, answer.is_limit), (5, false));
    let by_node: Vec<_> = answer.by_node.iter().map(|(node, n)| (node.as_str(), *n)).collect();
    assert_eq!(by_node, [("a", 3), ("b", 2)], "the running pod keeps its place");
    let next = answer.limited_by.as_ref().unwrap();
    assert_eq!(next.rejected[0].rejections[0].reasons, ["Insufficient cpu"]);
    let text = answer.table(false);
    assert!(text.ends_with("default/web: 5 fit, on 2 nodes\n"), "{text}");
    assert_eq!(cluster.engine.n_known_pods(), 2, "the cluster itself is as it was");
    assert_eq!(cluster.engine.pending_counts().active, 1);
}

#[test]
fn counting_ends_at_the_limit() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let gated = pod("web", "100m", json!({"schedulingGates": [{"name": "x"}]}));
    let answer = capacity(&cluster.engine, &gated, 7, ExplainOptions::ALL, NOW).unwrap();
    assert_eq!((answer.count, answer.is_limit, answer.limited_by), (7, true, None));
}

#[test]
fn a_template_for_another_scheduler_is_refused() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let foreign = pod("web", "1", json!({"schedulerName": "other"}));
    let answer = capacity(&cluster.engine, &foreign, 7, ExplainOptions::ALL, NOW);
    assert!(matches!(answer, Err(Refusal::NotOurs { .. })), "{answer:?}");
}
