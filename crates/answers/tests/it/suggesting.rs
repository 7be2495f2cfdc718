//! The smallest changes that make a pod fit.

use std::sync::Arc;

use kube_scheduler_answers::{
    ExplainOptions, Interrupt, Subject, Suggestion, Visibility, explain, suggestions,
};
use kube_scheduler_api_types::Pod;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

fn suggested(cluster: &mut Cluster, pod: &Arc<Pod>) -> Vec<Suggestion> {
    let subject = Subject::Manifest(pod.clone());
    let answer = explain(&mut cluster.engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    suggestions(&cluster.engine, pod, &answer, &Interrupt::default(), NOW)
}

fn texts(suggestions: &[Suggestion]) -> Vec<String> {
    suggestions.iter().map(|one| one.changes.join(" and ")).collect()
}

fn tainted() -> Value {
    json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
}

#[test]
fn requests_go_down_to_exactly_what_is_free() {
    let running = pod("running", "700m", json!({"nodeName": "a"}));
    let mut cluster =
        Cluster::new().node("a", "2", json!({})).node("b", "1", json!({})).pod(running);
    let wanted = pod("p", "3", json!({}));
    let found = suggested(&mut cluster, &wanted);
    assert_eq!(texts(&found)[0], "request 1300m of cpu instead of 3000m");
    assert_eq!((found[0].size, found[0].n_feasible), (56, 1));
    let fits = |cluster: &mut Cluster, cpu: &str| {
        let subject = Subject::Manifest(pod("p", cpu, json!({})));
        cluster.explain(&subject).unwrap().n_feasible
    };
    assert_eq!((fits(&mut cluster, "1300m"), fits(&mut cluster, "1301m")), (1, 0));
}

#[test]
fn every_kind_of_change_is_found_and_the_smallest_comes_first() {
    let mut cluster = Cluster::new()
        .node("big", "8", tainted())
        .node("off", "8", json!({"unschedulable": true}))
        .node("small", "1", json!({}));
    let found = suggested(&mut cluster, &pod("p", "4", json!({})));
    assert_eq!(
        texts(&found),
        [
            "tolerate the taint gpu:NoSchedule",
            "uncordon node off",
            "request 1000m of cpu instead of 4000m",
            "one more node like off",
        ]
    );
    let subject = Subject::Manifest(pod("p", "4", json!({})));
    let mut answer = cluster.explain(&subject).unwrap();
    answer.suggestions.clone_from(&found);
    let hidden = answer.visible_to(Visibility { nodes: false, all_pods: true });
    assert_eq!(
        texts(&hidden.suggestions),
        [
            "tolerate a taint",
            "uncordon a node",
            "request 1000m of cpu instead of 4000m",
            "one more node like one that is there",
        ]
    );
    let sizes: Vec<u32> = found.iter().map(|one| one.size).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
}

#[test]
fn selectors_ports_and_anti_affinity_are_dropped() {
    let anti_affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}},
    ]}});
    let running = pod("running", "1", json!({"nodeName": "a"}));
    let mut cluster = Cluster::new().node("a", "4", json!({})).pod(running);
    let code = |cluster: &mut Cluster, spec| {
        suggested(cluster, &pod("p", "1", spec))
            .iter()
            .map(|one| one.codes.join("+"))
            .collect::<Vec<_>>()
    };
    assert_eq!(code(&mut cluster, json!({"nodeSelector": {"disk": "fast"}})), ["DropNodeSelector"]);
    let found = code(&mut cluster, json!({"affinity": anti_affinity}));
    assert_eq!(found, ["DropPodAntiAffinity", "RaisePriority", "AddNodeLike"]);
}

#[test]
fn two_changes_are_combined_where_one_does_not_do() {
    let mut cluster =
        Cluster::new().node("big", "8", tainted()).node("off", "1", json!({"unschedulable": true}));
    let wanted = pod("p", "9", json!({}));
    let found = suggested(&mut cluster, &wanted);
    let first = &texts(&found)[0];
    assert_eq!(
        first,
        "request 8000m of cpu instead of 9000m and tolerate the taint gpu:NoSchedule"
    );
}

#[test]
fn a_higher_priority_comes_with_its_victims() {
    let running = pod("running", "2", json!({"nodeName": "a", "priority": 50}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(running);
    let found = suggested(&mut cluster, &pod("p", "2", json!({})));
    let raise = found.iter().find(|one| one.codes == ["RaisePriority"]).unwrap();
    assert_eq!(raise.changes, ["priority 51 instead of 0"]);
    assert_eq!((&*raise.victims, raise.size), (&["default/running".to_owned()][..], 61));
}

#[test]
fn a_pod_that_fits_needs_nothing() {
    let mut cluster = Cluster::new().node("a", "2", json!({}));
    assert_eq!(suggested(&mut cluster, &pod("p", "2", json!({}))), []);
}
