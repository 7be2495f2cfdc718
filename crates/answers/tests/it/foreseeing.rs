//! What would happen, and whether it then does.

use std::sync::Arc;

use kube_scheduler_answers::{
    Change, ExplainOptions, Inquiry, Interrupt, Question, QuestionKind, QuestionLimits, Refusal,
    Rehearsal, RehearsalEvent, UngatedAnswer, Verdict, Visibility, WhatIf, what_if,
};
use kube_scheduler_api_types::{CompileOptions, Pod, Taint, TaintEffect, Timestamp};
use kube_scheduler_engine::{Engine, Input};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

fn ask(cluster: &Cluster, changes: &[Change]) -> Result<WhatIf, Refusal> {
    what_if(&cluster.engine, changes, QuestionLimits::default(), NOW)
}

fn placements(answer: &WhatIf) -> Vec<(&str, &str)> {
    answer.placements.iter().map(|placed| (&*placed.pod, &*placed.node)).collect()
}

/// A pod of a ReplicaSet on a node.
fn owned(name: &str, cpu: &str, node: &str, kind: &str) -> Arc<Pod> {
    let pod = pod(name, cpu, json!({"nodeName": node}));
    let controller = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]},
    });
    let controller = Pod::from_value(&controller).unwrap().controller;
    Arc::new(Pod { controller, ..(*pod).clone() })
}

#[test]
fn a_drained_node_gives_its_pods_to_others() {
    let cluster = Cluster::new()
        .node("a", "4", json!({}))
        .node("b", "2", json!({}))
        .pod(owned("small", "1", "a", "ReplicaSet"))
        .pod(owned("large", "3", "a", "ReplicaSet"))
        .pod(owned("agent", "500m", "a", "DaemonSet"))
        .pod(pod("bare", "100m", json!({"nodeName": "a"})));
    let answer = ask(&cluster, &[Change::Drain("a".into())]).unwrap();
    assert!(!answer.fits);
    assert_eq!(placements(&answer), [("default/small", "b")]);
    let pending: Vec<_> = answer.pending.iter().map(|pod| (&*pod.pod, pod.code)).collect();
    assert_eq!(pending, [("default/large", "Unschedulable")]);
    let text = answer.table(true);
    assert!(text.contains("gone for good with node a: 1 pod without a controller"), "{text}");
    assert!(text.contains("does not fit: 1 of 2 pods placed"), "{text}");
    let more = Change::AddNodesLike { node: "a".into(), count: 1 };
    let answer = ask(&cluster, &[more, Change::Drain("a".into())]).unwrap();
    assert!(answer.fits, "{answer:?}");
    assert!(placements(&answer).contains(&("default/large", "a-like-1")), "{answer:?}");
}

/// The larger pod is tried first, and again when the smaller one has taken memory.
#[test]
fn what_is_given_is_why_the_last_attempt_failed() {
    let replica = |name: &str, cpu: &str, memory: &str, priority: i32| {
        let requests = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
        let spec = json!({"nodeName": "a", "priority": priority, "containers": containers});
        let controller = owned(name, cpu, "a", "ReplicaSet").controller.clone();
        Arc::new(Pod { controller, ..(*pod(name, cpu, spec)).clone() })
    };
    let cluster = Cluster::new()
        .node("a", "4", json!({}))
        .node("b", "2", json!({}))
        .pod(replica("large", "3", "5Gi", 1))
        .pod(replica("small", "1", "4Gi", 0));
    let why = |changes: &[Change]| {
        let answer = ask(&cluster, changes).unwrap();
        let [pending] = &answer.pending[..] else { panic!("{answer:?}") };
        assert_eq!(pending.pod, "default/large");
        pending.message.split(". ").next().unwrap_or_default().to_owned()
    };
    let gone = Change::DeletePod("default/small".parse().unwrap());
    assert_eq!(
        why(&[gone, Change::Drain("a".into())]),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable"
    );
    assert_eq!(
        why(&[Change::Drain("a".into())]),
        "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) were unschedulable"
    );
}

#[test]
fn only_what_differs_is_given() {
    let cluster = Cluster::new().node("a", "2", json!({})).pod(pod("waits", "1", json!({})));
    let answer = ask(&cluster, &[Change::AddPod(pod("new", "1", json!({})))]).unwrap();
    assert!(answer.fits);
    assert_eq!(placements(&answer), [("default/new", "a")], "the other pod goes there anyway");
    let answer = ask(&cluster, &[Change::AddPod(pod("new", "2", json!({"priority": 5})))]).unwrap();
    assert_eq!(placements(&answer), [("default/new", "a")]);
    let pending: Vec<&str> = answer.pending.iter().map(|pod| &*pod.pod).collect();
    assert_eq!(pending, ["default/waits"], "it would have had the place");
}

#[test]
fn pods_that_are_being_deleted_are_not_pending() {
    let going = |pod: Arc<Pod>| Arc::new(Pod { deletion_requested: Some(NOW), ..(*pod).clone() });
    let gates = || json!({"schedulingGates": [{"name": "quota"}]});
    let cluster = Cluster::new()
        .node("a", "2", json!({}))
        .pod(pod("waits", "80", json!({})))
        .pod(going(pod("goes", "80", json!({}))))
        .pod(going(pod("gated-goes", "1", gates())));
    let new = Change::AddPod(pod("new", "1", json!({})));
    let text = ask(&cluster, &[new]).unwrap().table(false);
    assert!(
        text.ends_with("fits: 1 of 1 pod placed; 1 other pod still pending, as now\n"),
        "{text}"
    );
    // One that is asked about gets no node, and it is said why, whatever would hold it back else.
    for spec in [json!({}), gates()] {
        let answer = ask(&cluster, &[Change::AddPod(going(pod("new", "1", spec)))]).unwrap();
        let [pending] = &answer.pending[..] else { panic!("{answer:?}") };
        assert_eq!(
            (pending.code, &*pending.message),
            ("NotScheduled", "it is being deleted, and is never scheduled")
        );
        assert!(!answer.fits);
    }
}

#[test]
fn evictions_are_foreseen() {
    let low = pod("low", "2", json!({"nodeName": "a", "priority": 1}));
    let cluster = Cluster::new().node("a", "2", json!({})).pod(low);
    let high = Change::AddPod(pod("high", "2", json!({"priority": 9})));
    let answer = ask(&cluster, &[high]).unwrap();
    assert!(answer.fits, "{answer:?}");
    let [eviction] = &answer.evictions[..] else { panic!("{answer:?}") };
    assert_eq!((&*eviction.pod, &*eviction.node), ("default/low", "a"));
    assert_eq!(eviction.by.as_deref(), Some("default/high"));
    assert!(cluster.engine.known_pod("default", "low").is_some());
}

#[test]
fn a_gated_pod_is_pending_and_says_where_it_would_go() {
    let low = pod("low", "2", json!({"nodeName": "a", "priority": -1}));
    let cluster = Cluster::new().node("a", "2", json!({})).node("b", "1", json!({})).pod(low);
    let asking = |cpu: &str, priority: i64| {
        let spec = json!({"priority": priority, "schedulingGates": [{"name": "quota"}]});
        let answer = ask(&cluster, &[Change::AddPod(pod("p", cpu, spec))]).unwrap();
        assert!(!answer.fits && answer.evictions.is_empty(), "{answer:?}");
        let [pending] = &answer.pending[..] else { panic!("{answer:?}") };
        assert_eq!(pending.code, "SchedulingGated");
        let UngatedAnswer { verdict, node } = pending.without_gates.clone().unwrap();
        (verdict, node, answer.table(false))
    };
    let (verdict, node, text) = asking("1", 0);
    assert_eq!((verdict, &*node), (Verdict::Fits, "b"));
    assert!(
        text.contains("held back before any attempt, and otherwise would fit on b\n"),
        "{text}"
    );
    let (verdict, node, text) = asking("2", 0);
    assert_eq!((verdict, &*node), (Verdict::FitsAfterPreemption, "a"));
    assert!(text.contains("otherwise would fit on a once pods are evicted\n"), "{text}");
    let (verdict, node, text) = asking("3", 0);
    assert_eq!((verdict, &*node), (Verdict::DoesNotFit, ""));
    assert!(text.contains("otherwise would not fit\n"), "{text}");
}

#[test]
fn taints_labels_and_cordons_count() {
    let cluster = Cluster::new().node("a", "2", json!({})).node("b", "2", json!({}));
    let picky = pod("p", "1", json!({"nodeSelector": {"disk": "fast"}}));
    let add = Change::AddPod(picky);
    assert!(!ask(&cluster, std::slice::from_ref(&add)).unwrap().fits);
    let label =
        |node: &str| Change::Label { node: node.into(), key: "disk".into(), value: "fast".into() };
    let answer = ask(&cluster, &[label("b"), add.clone()]).unwrap();
    assert_eq!(placements(&answer), [("default/p", "b")]);
    let answer = ask(&cluster, &[label("b"), Change::Cordon("b".into()), add.clone()]).unwrap();
    assert!(!answer.fits);
    let taint = Taint { key: "t".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    let taint = Change::Taint { node: "a".into(), taint };
    let answer = ask(&cluster, &[label("a"), label("b"), taint, add]).unwrap();
    assert_eq!(placements(&answer), [("default/p", "b")]);
}

#[test]
fn questions_about_nothing_and_too_large_ones_are_refused() {
    let cluster = Cluster::new().node("a", "2", json!({}));
    let refused = |change| ask(&cluster, &[change]).unwrap_err().to_string();
    assert_eq!(refused(Change::Drain("x".into())), "there is no node \"x\"");
    assert_eq!(
        refused(Change::AddNodesLike { node: "a".into(), count: 10_001 }),
        "10001 changes in one question are too many: at most 10000 are allowed"
    );
    let many = vec![Change::Cordon("a".into()); 10_001];
    assert!(matches!(ask(&cluster, &many), Err(Refusal::TooMuch { .. })));
}

/// Lets the engine go on by itself until nothing happens for a while; gives the pods that were evicted.
pub(crate) fn go_on(engine: &mut Engine, mut now: Timestamp) -> Vec<String> {
    let mut server = Rehearsal::default();
    let mut evicted = Vec::new();
    for _ in 0..60 {
        let happenings = loop {
            let mut happenings = server.carry_out(engine, now);
            if engine.schedule_next(now).is_none() {
                break happenings;
            }
            happenings.extend(server.carry_out(engine, now));
            for happening in happenings {
                if let RehearsalEvent::Evicted(pod) = happening {
                    evicted.push(pod.key());
                }
            }
        };
        assert!(happenings.is_empty());
        let Some(deadline) = engine.next_deadline() else { break };
        now = now.max(deadline);
        engine.handle(Input::TimePassed, now);
    }
    evicted
}

fn any_pod() -> impl Strategy<Value = (u32, i32, Option<usize>)> {
    (1_u32..8, 0_i32..3, prop::option::of(0_usize..4))
}

#[test]
fn who_may_list_no_nodes_is_not_told_which_there_are() {
    let cluster = Cluster::new().node("a", "4", json!({}));
    let bound = json!({"metadata": {"name": "new"}, "spec": {"nodeName": "b", "containers": [{"name": "c"}]}});
    let arguments = json!({"spec": {"changes": [{"addPods": {"pod": bound}}]}});
    let options = CompileOptions::default();
    let question =
        Question::from_arguments(QuestionKind::WhatIf, &arguments, "default", &options).unwrap();
    let inquiry = Inquiry::new(&question, &cluster.engine, NOW);
    let answer = inquiry.answer(&question, &Interrupt::default()).unwrap();
    let text = |nodes: bool| {
        let reader = Visibility { nodes, all_pods: true };
        answer.clone().for_reader(&question, reader, ExplainOptions::SENT).table(true)
    };
    assert!(text(true).contains("node b, which does not exist"), "{}", text(true));
    assert!(!text(false).contains("does not exist"), "{}", text(false));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Asked first, then done.
    #[test]
    fn what_is_foreseen_then_happens(
        nodes in prop::collection::vec(1_u32..12, 1..5),
        pods in prop::collection::vec(any_pod(), 0..12),
        asked in any_pod(),
    ) {
        let mut cluster = Cluster::new();
        for (at, cpu) in nodes.iter().enumerate() {
            cluster = cluster.node(&format!("n{at}"), &cpu.to_string(), json!({}));
        }
        let of = |name: String, (cpu, priority, node): (u32, i32, Option<usize>)| {
            let mut spec = json!({"priority": priority});
            if let Some(node) = node.filter(|node| *node < nodes.len()) {
                spec["nodeName"] = Value::from(format!("n{node}"));
            }
            pod(&name, &cpu.to_string(), spec)
        };
        for (at, given) in pods.into_iter().enumerate() {
            cluster = cluster.pod(of(format!("p{at}"), given));
        }
        let new = of("asked".to_owned(), (asked.0, asked.1, None));
        let answer = ask(&cluster, &[Change::AddPod(new.clone())]).unwrap();
        let answer_again = ask(&cluster, &[Change::AddPod(new.clone())]).unwrap();
        prop_assert_eq!(&answer, &answer_again, "asking changes nothing");
        let mut cluster = cluster.pod(new);
        let evicted = go_on(&mut cluster.engine, NOW);
        let node = cluster.engine.known_pod("default", "asked").and_then(|pod| pod.node_name.clone());
        let foreseen = answer.placements.iter().find(|placed| placed.pod == "default/asked");
        prop_assert_eq!(foreseen.map(|placed| &*placed.node), node.as_deref());
        let foreseen: Vec<&str> = answer.evictions.iter().map(|eviction| &*eviction.pod).collect();
        prop_assert_eq!(foreseen, evicted);
        prop_assert_eq!(answer.fits, node.is_some());
    }
}
