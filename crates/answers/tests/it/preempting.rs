//! Which pods are evicted, and why those.

use std::sync::Arc;

use kube_scheduler_answers::{
    ExplainOptions, Preemption, Rehearsal, RehearsalEvent, Subject, Verdict, Visibility, preemption,
};
use kube_scheduler_api_types::{Object, Pod, PodStatus, Timestamp};
use kube_scheduler_engine::{Engine, Input};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

fn ask(cluster: &mut Cluster, subject: &Subject) -> Preemption {
    preemption(&mut cluster.engine, subject, ExplainOptions::ALL, NOW).unwrap()
}

fn asking(cluster: &mut Cluster, cpu: &str, spec: Value) -> Preemption {
    ask(cluster, &Subject::Manifest(pod("asking", cpu, spec)))
}

/// A pod on a node with a label `app` and a start time.
fn running(name: &str, cpu: u32, priority: i32, node: &str, app: &str, start: i64) -> Arc<Pod> {
    let plain = pod(name, &cpu.to_string(), json!({"nodeName": node, "priority": priority}));
    let labels = [(Arc::<str>::from("app"), Arc::<str>::from(app))].into_iter().collect();
    let started = Some(Timestamp::from_millis(start * 1_000));
    let status = Arc::new(PodStatus { started, ..(*plain.status).clone() });
    Arc::new(Pod { labels, status, ..(*plain).clone() })
}

pub(crate) fn budget(name: &str, app: &str, allowed: i64) -> Arc<Object> {
    Arc::new(
        Object::from_value(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "default", "name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }))
        .unwrap(),
    )
}

/// A budget of all pods of a namespace, which preemption does not look at.
fn of_all(namespace: &str) -> Arc<Object> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": "everything"}, "spec": {"selector": {}},
    });
    Arc::new(Object::from_value(budget).unwrap())
}

fn names(answer: &Preemption) -> Vec<&str> {
    answer.victims.iter().map(|victim| &*victim.pod).collect()
}

fn decided(answer: &Preemption) -> (&str, &str) {
    let choice = answer.choice.as_ref().unwrap();
    (choice.runner_up.as_deref().unwrap_or_default(), choice.decided_by)
}

#[test]
fn every_criterion_can_decide() {
    let high = || json!({"priority": 100});
    let two = || Cluster::new().node("a", "4", json!({})).node("b", "4", json!({}));
    let cases = [
        (vec![("x", 4, 5, "a", 10), ("y", 4, 5, "b", 20)], "EarliestStart", "a"),
        (vec![("x", 4, 6, "a", 10), ("y", 4, 5, "b", 5)], "HighestPriority", "a"),
        (vec![("x", 2, 5, "a", 9), ("z", 2, 5, "a", 9), ("y", 4, 5, "b", 1)], "PrioritySum", "a"),
        (vec![("api", 4, 1, "a", 10), ("y", 4, 5, "b", 20)], "PdbViolations", "a"),
    ];
    for (pods, criterion, runner_up) in cases {
        let mut cluster = two();
        for (name, cpu, priority, node, start) in pods {
            cluster = cluster.pod(running(name, cpu, priority, node, name, start));
        }
        cluster.engine.handle(Input::ObjectApplied(budget("protect", "api", 0)), NOW);
        let answer = asking(&mut cluster, "4", high());
        assert_eq!(answer.node.as_deref(), Some("b"), "{criterion}");
        assert_eq!(names(&answer), ["default/y"]);
        assert_eq!(decided(&answer), (runner_up, criterion));
        let text = answer.table(true);
        assert!(text.contains("why b and not a: "), "{text}");
    }
}

#[test]
fn violated_budgets_are_named() {
    let mut cluster = Cluster::new()
        .node("a", "4", json!({}))
        .pod(running("one", 2, 5, "a", "api", 10))
        .pod(running("two", 2, 4, "a", "api", 10));
    cluster.engine.handle(Input::ObjectApplied(budget("protect", "api", 1)), NOW);
    let answer = asking(&mut cluster, "4", json!({"priority": 100}));
    assert_eq!(answer.verdict, Verdict::FitsAfterPreemption);
    let violated: Vec<(&str, &[String])> =
        answer.victims.iter().map(|victim| (&*victim.pod, &*victim.violates)).collect();
    let protect = ["protect".to_owned()];
    assert_eq!(violated, [("default/one", &[][..]), ("default/two", &protect[..])]);
    assert!(answer.victims.iter().all(|victim| victim.budgets == protect), "one has room for one");
    assert_eq!(answer.candidates[0].pdb_violations, 1);
    assert_eq!(decided(&answer), ("", "OnlyCandidate"));
}

#[test]
fn why_evicting_pods_does_not_help_is_said_by_node() {
    let mut cluster = Cluster::new()
        .node("full", "4", json!({}))
        .node("small", "2", json!({}))
        .node("off", "8", json!({"unschedulable": true}))
        .pod(running("peer", 3, 100, "full", "x", 1))
        .pod(running("low", 1, 1, "small", "x", 1));
    let answer = asking(&mut cluster, "4", json!({"priority": 100}));
    assert_eq!(answer.verdict, Verdict::DoesNotFit);
    assert!(answer.victims.is_empty() && answer.candidates.is_empty());
    let mut why: Vec<(&str, &str, &str)> = answer
        .in_vain
        .iter()
        .map(|group| (&*group.examples[0], group.code, &*group.rejection.plugin))
        .collect();
    why.sort_unstable();
    assert_eq!(
        why,
        [
            ("full", "NoVictims", ""),
            ("off", "NotHelpful", "NodeUnschedulable"),
            ("small", "NotHelpful", "NodeResourcesFit"),
        ]
    );
    let never = json!({"priority": 200, "preemptionPolicy": "Never"});
    let answer = asking(&mut cluster, "4", never);
    assert_eq!(answer.verdict, Verdict::DoesNotFit);
    let text = answer.message.unwrap();
    assert!(text.contains("not eligible due to preemptionPolicy=Never."), "{text}");
    let answer = asking(&mut cluster, "1", json!({}));
    assert_eq!((answer.verdict, answer.node.is_some()), (Verdict::Fits, true));
    assert!(answer.in_vain.is_empty() && answer.message.is_none());
    let low = Subject::Known("low".parse().unwrap());
    let answer = ask(&mut cluster, &low);
    assert_eq!((answer.verdict, answer.node.as_deref()), (Verdict::Bound, Some("small")));
}

/// The pods that one attempt evicts, and the node that it nominates its pod to.
fn attempted(engine: &mut Engine) -> (Vec<String>, Option<String>) {
    let mut server = Rehearsal::default();
    engine.schedule_next(NOW);
    let mut evicted = Vec::new();
    for happening in server.carry_out(engine, NOW) {
        if let RehearsalEvent::Evicted(pod) = happening {
            evicted.push(pod.key());
        }
    }
    let place = engine.place_of("default", "asking");
    (evicted, place.and_then(|place| place.nominated_node).map(|node| node.to_string()))
}

fn any_pod() -> impl Strategy<Value = (u32, i32, usize, usize, i64)> {
    (1_u32..4, 0_i32..4, 0_usize..5, 0_usize..3, 0_i64..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Asked first, then done: the same victims on the same node, and the order of the candidates is that of the criteria.
    #[test]
    fn who_is_named_is_then_evicted(
        nodes in prop::collection::vec(3_u32..8, 1..5),
        pods in prop::collection::vec(any_pod(), 0..16),
        budgets in prop::collection::vec((0_usize..3, 0_i64..3), 0..4),
        asking in (1_u32..7, 1_i32..5),
    ) {
        let mut cluster = Cluster::new();
        for (at, cpu) in nodes.iter().enumerate() {
            cluster = cluster.node(&format!("n{at}"), &cpu.to_string(), json!({}));
        }
        for (at, (cpu, priority, node, app, start)) in pods.into_iter().enumerate() {
            let node = format!("n{}", node % nodes.len());
            let app = format!("app-{app}");
            cluster = cluster.pod(running(&format!("p{at}"), cpu, priority, &node, &app, start));
        }
        for (at, (app, allowed)) in budgets.into_iter().enumerate() {
            let object = budget(&format!("b{at}"), &format!("app-{app}"), allowed);
            cluster.engine.handle(Input::ObjectApplied(object), NOW);
        }
        let new = pod("asking", &asking.0.to_string(), json!({"priority": asking.1}));
        let mut cluster = cluster.pod(new);
        let subject = Subject::Known("asking".parse().unwrap());
        let answer = ask(&mut cluster, &subject);
        prop_assert_eq!(&answer, &ask(&mut cluster, &subject), "asking changes nothing");
        for candidate in &answer.candidates {
            let violating = candidate.victims.iter().filter(|victim| !victim.violates.is_empty());
            prop_assert_eq!(candidate.pdb_violations, violating.count() as i64);
            prop_assert_eq!(candidate.chosen, Some(&candidate.node) == answer.node.as_ref());
        }
        let keys: Vec<(i64, i32)> = answer
            .candidates
            .iter()
            .map(|candidate| (candidate.pdb_violations, candidate.highest_priority))
            .collect();
        prop_assert!(keys.is_sorted(), "{:?}", keys);
        let mut named: Vec<String> = answer.victims.iter().map(|victim| victim.pod.clone()).collect();
        let (mut evicted, nominated) = attempted(&mut cluster.engine);
        named.sort();
        evicted.sort();
        prop_assert_eq!(&named, &evicted);
        if answer.verdict == Verdict::FitsAfterPreemption {
            prop_assert!(!named.is_empty());
            prop_assert_eq!(answer.node, nominated);
        }
        let groups: usize = answer.in_vain.iter().map(|group| group.count).sum();
        if matches!(answer.verdict, Verdict::FitsAfterPreemption | Verdict::DoesNotFit) {
            prop_assert_eq!(groups + answer.candidates.len(), nodes.len());
        }
    }
}

#[test]
fn what_a_reader_may_not_see_is_counted_all_the_same() {
    let theirs = |name: &str| {
        let plain = running(name, 2, 1, "a", "x", 1);
        Arc::new(Pod { namespace: "theirs".into(), ..(*plain).clone() })
    };
    let mut cluster = Cluster::new().node("a", "4", json!({})).pod(theirs("x")).pod(theirs("y"));
    let urgent = Subject::Manifest(pod("urgent", "4", json!({"priority": 100})));
    let restricted = Visibility { nodes: false, all_pods: false };
    cluster.engine.handle(Input::ObjectApplied(of_all("theirs")), NOW);
    let seen = ask(&mut cluster, &urgent);
    assert!(seen.table(true).contains("everything"), "{}", seen.table(true));
    assert!(seen.victims.iter().all(|victim| victim.violates.is_empty()), "preemption reads none");
    let hidden = seen.visible_to(restricted);
    assert!(!hidden.table(true).contains("everything"), "{}", hidden.table(true));
    assert_eq!((names(&hidden), hidden.candidates[0].victims.len()), (vec!["", ""], 2));
    let table = hidden.table(true);
    assert!(table.contains("fits on a node once 2 pods are evicted"), "{table}");
    assert!(table.contains("why a node: no other node would have room"), "{table}");
    let explained = cluster.explain(&urgent).unwrap().visible_to(restricted);
    let table = explained.table(true);
    assert!(table.contains("preemption on a node would evict: a pod, a pod"), "{table}");
    assert!(!table.contains("theirs/"), "{table}");
}

#[test]
fn a_gated_pod_says_so_first_and_who_would_be_evicted() {
    let victim = running("low", 2, 1, "a", "x", 1);
    let mut cluster = Cluster::new().node("a", "2", json!({})).pod(victim);
    let gated = json!({"priority": 10, "schedulingGates": [{"name": "quota"}]});
    let answer = asking(&mut cluster, "2", gated);
    let verdicts = (answer.verdict, answer.without_gates);
    assert_eq!(verdicts, (Verdict::Gated, Some(Verdict::FitsAfterPreemption)));
    assert_eq!(names(&answer), ["default/low"]);
    let text = answer.table(false);
    let first =
        "default/asking: gated by SchedulingGates, and otherwise fits on a once 1 pod is evicted\n";
    assert!(text.starts_with(first), "{text}");
}
