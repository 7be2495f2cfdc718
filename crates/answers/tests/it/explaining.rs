//! Why a pod goes where it goes.

use std::sync::Arc;

use kube_scheduler_answers::{
    ExplainOptions, Format, Interrupt, Refusal, RejectedNodes, Subject, Verdict, explain,
    preemption, render,
};
use kube_scheduler_api_types::Pod;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

fn known(name: &str) -> Subject {
    Subject::Known(name.parse().unwrap())
}

/// A group as `count examples: plugin code; …`.
fn line(group: &RejectedNodes) -> String {
    let rejections: Vec<String> = group
        .rejections
        .iter()
        .map(|rejection| format!("{} {}", rejection.plugin, rejection.reasons.join(", ")))
        .collect();
    format!("{} {}: {}", group.count, group.examples.join(" "), rejections.join("; "))
}

fn tainted() -> Value {
    json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
}

#[test]
fn nodes_are_grouped_by_everything_that_rejects_them() {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c", "d"] {
        cluster = cluster.node(name, "1", json!({}));
    }
    let cordoned = json!({"unschedulable": true});
    let mut cluster = cluster.node("big", "8", tainted()).node("off", "1", cordoned);
    let subject = Subject::Manifest(pod("p", "2", json!({})));
    let answer = cluster.explain(&subject).unwrap();
    assert_eq!(answer.verdict, Verdict::DoesNotFit);
    let lines: Vec<String> = answer.rejected.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "4 a b c: NodeResourcesFit Insufficient cpu",
            "1 big: TaintToleration node(s) had untolerated taint(s)",
            "1 off: NodeUnschedulable node(s) were unschedulable; NodeResourcesFit Insufficient cpu",
        ]
    );
    assert_eq!(answer.rejected.iter().map(|group| group.count).sum::<usize>(), answer.nodes);
    let text = answer.message.unwrap();
    let first = "0/6 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 4 Insufficient cpu.";
    assert!(text.starts_with(first), "{text}");
    assert!(!answer.preemption.unwrap().helps);
    assert!(answer.place.is_none(), "the engine has not seen the pod");
}

#[test]
fn the_choice_is_that_of_the_scheduler_with_its_margin() {
    let mut cluster = Cluster::new().node("a", "1", json!({})).node("b", "4", json!({}));
    let web = pod("web", "500m", json!({}));
    let answer = cluster.explain(&Subject::Manifest(web.clone())).unwrap();
    let decision = answer.decision.unwrap();
    assert_eq!((answer.verdict, &*decision.node, decision.ties), (Verdict::Fits, "b", 1));
    let totals: Vec<i64> = answer.feasible.iter().filter_map(|node| node.total).collect();
    assert_eq!(decision.margin, Some(totals[0] - totals[1]));
    for node in &answer.feasible {
        let sum: i64 = node.scores.iter().map(|score| score.weighted).sum();
        assert_eq!(node.total, Some(sum), "{node:?}");
    }
    let mut cluster = cluster.pod(web);
    let turn = cluster.engine.schedule_next(NOW).unwrap();
    assert_eq!(turn.chosen.as_deref(), Some("b"));
    let answer = cluster.explain(&known("web")).unwrap();
    assert_eq!(answer.place.unwrap().stage, "Binding");
}

#[test]
fn victims_are_named() {
    let low = pod("low", "2", json!({"nodeName": "a", "priority": 1}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(low);
    let high = Subject::Manifest(pod("high", "2", json!({"priority": 10})));
    let answer = cluster.explain(&high).unwrap();
    assert_eq!(answer.verdict, Verdict::FitsAfterPreemption);
    let preemption = answer.preemption.as_ref().unwrap();
    assert_eq!(preemption.victims, ["default/low"]);
    let text = answer.table(false);
    assert!(text.contains("preemption on a would evict: default/low"), "{text}");
}

#[test]
fn a_gated_pod_says_by_whom_and_where_it_would_go() {
    let gated = pod("gated", "1", json!({"schedulingGates": [{"name": "quota"}]}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(gated);
    let answer = cluster.explain(&known("gated")).unwrap();
    let place = answer.place.as_ref().unwrap();
    assert_eq!((place.stage, &*place.held_by), ("Gated", &["SchedulingGates".to_owned()][..]));
    assert_eq!(answer.gated.as_ref().unwrap().plugin, "SchedulingGates");
    assert_eq!((answer.verdict, answer.without_gates), (Verdict::Gated, Some(Verdict::Fits)));
    assert_eq!(answer.n_feasible, 1);
    let text = answer.table(false);
    let first = "default/gated: gated by SchedulingGates, and otherwise fits, on a (1 of 1 nodes feasible)\n";
    assert!(text.starts_with(first), "{text}");
    // Changes are still proposed to one that would not fit either.
    let gates = json!({"schedulingGates": [{"name": "quota"}]});
    let subject = Subject::Manifest(pod("large", "3", gates));
    let mut answer = cluster.explain(&subject).unwrap();
    assert_eq!((answer.verdict, answer.without_gates), (Verdict::Gated, Some(Verdict::DoesNotFit)));
    let pod = subject.pod_in(&cluster.engine).unwrap();
    answer.suggest(&cluster.engine, &pod, &Interrupt::default(), NOW);
    assert!(!answer.suggestions.is_empty());
}

#[test]
fn what_may_bring_a_pod_back_is_said_before_any_attempt_at_it() {
    let mut cluster = Cluster::new().node("a", "1", tainted());
    let answer = cluster.explain(&Subject::Manifest(pod("p", "1", json!({})))).unwrap();
    assert_eq!(answer.waits_for, ["NodeAdd", "NodeUpdateNodeTaint", "PodUpdatePodToleration"]);
    let line = "  would come back with: NodeAdd, NodeUpdateNodeTaint, PodUpdatePodToleration\n";
    assert!(answer.table(false).contains(line), "{}", answer.table(false));
    // Once it has been tried, its place has that.
    let mut cluster = cluster.pod(pod("p", "1", json!({})));
    while cluster.engine.schedule_next(NOW).is_some() {}
    let answer = cluster.explain(&known("p")).unwrap();
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(
        json["place"]["waitsFor"],
        json!(["NodeAdd", "NodeUpdateNodeTaint", "PodUpdatePodToleration"])
    );
    assert_eq!(
        (&json["waitsFor"], answer.table(false).contains("would come")),
        (&Value::Null, false)
    );
    let mut cluster = cluster.node("b", "1", json!({}));
    assert!(
        cluster.explain(&Subject::Manifest(pod("q", "1", json!({})))).unwrap().waits_for.is_empty()
    );
}

#[test]
fn a_pod_that_has_its_node_is_not_judged() {
    let running = pod("running", "2", json!({"nodeName": "a"}));
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(running);
    let answer = cluster.explain(&known("running")).unwrap();
    assert_eq!(answer.verdict, Verdict::Bound);
    assert!(answer.rejected.is_empty() && answer.message.is_none() && answer.preemption.is_none());
}

/// The pod as it is once somebody has deleted it.
fn going(pod: &Pod) -> Arc<Pod> {
    Arc::new(Pod { deletion_requested: Some(NOW), ..pod.clone() })
}

#[test]
fn a_pod_that_is_being_deleted_never_fits() {
    let gates = json!({"schedulingGates": [{"name": "quota"}]});
    let low = pod("low", "2", json!({"nodeName": "a", "priority": -1}));
    let mut cluster = Cluster::new()
        .node("a", "2", json!({}))
        .node("b", "1", json!({}))
        .pod(going(&pod("web", "1", json!({}))))
        .pod(going(&pod("large", "2", json!({}))))
        .pod(going(&pod("gated", "1", gates)))
        .pod(low);
    for name in ["web", "large", "gated"] {
        let mut answer = cluster.explain(&known(name)).unwrap();
        let place = answer.place.as_ref().unwrap();
        assert_eq!((place.stage, answer.verdict), ("BeingDeleted", Verdict::DoesNotFit), "{name}");
        assert_eq!((answer.decision.is_some(), answer.gated.is_some()), (false, false));
        let pod = known(name).pod_in(&cluster.engine).unwrap();
        answer.suggest(&cluster.engine, &pod, &Interrupt::default(), NOW);
        let text = answer.table(true);
        assert_eq!(
            text,
            format!(
                "default/{name}: does not fit: it is being deleted\n  stage: BeingDeleted\n  note: it is being deleted, and is never scheduled\n\n"
            )
        );
        let options = ExplainOptions::ALL;
        let answer = preemption(&mut cluster.engine, &known(name), options, NOW).unwrap();
        assert_eq!((answer.verdict, answer.victims.len()), (Verdict::DoesNotFit, 0), "{answer:?}");
        assert!(answer.candidates.is_empty() && answer.in_vain.is_empty(), "{answer:?}");
    }
    let running = going(&pod("running", "1", json!({"nodeName": "b"})));
    let answer = cluster.pod(running).explain(&known("running")).unwrap();
    assert_eq!(answer.verdict, Verdict::Bound);
    assert!(answer.table(false).contains("note: it is being deleted: its node"), "{answer:?}");
}

#[test]
fn a_pod_of_another_scheduler_has_its_node_like_any_other() {
    let foreign = json!({"schedulerName": "other", "nodeName": "a"});
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(pod("theirs", "1", foreign));
    let answer = cluster.explain(&known("theirs")).unwrap();
    let stage = answer.place.as_ref().map(|place| place.stage);
    assert_eq!((answer.verdict, stage), (Verdict::Bound, Some("Bound")));
    let answer = preemption(&mut cluster.engine, &known("theirs"), ExplainOptions::ALL, NOW);
    let answer = answer.unwrap();
    assert_eq!((answer.verdict, answer.node.as_deref()), (Verdict::Bound, Some("a")));
}

#[test]
fn the_plugin_that_leaves_a_node_out_before_filters_is_named() {
    let term =
        json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]);
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}}});
    let mut cluster = Cluster::new().node("a", "1", json!({})).node("b", "8", json!({}));
    let answer = cluster.explain(&Subject::Manifest(pod("p", "2", affinity))).unwrap();
    let mut lines: Vec<String> = answer.rejected.iter().map(line).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "1 a: NodeResourcesFit Insufficient cpu",
            "1 b: NodeAffinity node(s) didn't satisfy plugin(s) [NodeAffinity]; NodeAffinity node(s) didn't match Pod's node affinity/selector",
        ]
    );
}

#[test]
fn questions_about_nobody_are_refused() {
    let mut cluster = Cluster::new();
    let name = "default/nobody".parse().unwrap();
    assert_eq!(cluster.explain(&known("nobody")), Err(Refusal::NoSuchPod(name)));
    let foreign = Subject::Manifest(pod("p", "1", json!({"schedulerName": "other"})));
    let text = cluster.explain(&foreign).unwrap_err().to_string();
    assert_eq!(
        text,
        "pod default/p is for scheduler \"other\", which has no profile here; there are: default-scheduler"
    );
}

#[test]
fn json_and_yaml_say_the_same_with_stable_codes() {
    let mut cluster = Cluster::new().node("a", "1", tainted()).node("b", "4", json!({}));
    let subject = Subject::Manifest(pod("p", "1", json!({})));
    let answer = explain(&mut cluster.engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    let text = |format| render(&answer, format, |wide| answer.table(wide)).unwrap();
    let from_json: Value = serde_json::from_str(&text(Format::Json)).unwrap();
    let from_yaml: Value = serde_saphyr::from_str(&text(Format::Yaml)).unwrap();
    assert_eq!(from_json, from_yaml);
    assert_eq!(from_json["apiVersion"], "answers.kube-scheduler.rs/v1alpha1");
    assert_eq!(
        (&from_json["kind"], &from_json["verdict"]),
        (&"Explanation".into(), &"Fits".into())
    );
    assert_eq!(from_json["rejected"][0]["rejections"][0]["plugin"], "TaintToleration");
    assert_eq!(from_json["decision"]["node"], "b");
}
