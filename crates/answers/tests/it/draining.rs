//! Draining nodes under disruption budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_answers::{Change, QuestionLimits, WhatIf, what_if};
use kube_scheduler_api_types::{ControllerRef, Object, Pod, PodSpec, PodStatus};
use kube_scheduler_engine::Input;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};
use crate::preempting::budget;

/// A pod of a ReplicaSet with a label `app`, on a node.
fn replica(name: &str, app: &str, node: &str) -> Arc<Pod> {
    let text = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid"), "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o", "controller": true}]},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    Arc::new(Pod::from_value(&text).unwrap())
}

fn with_status(pod: &Pod, status: &Value) -> Arc<Pod> {
    let with = Pod::from_value(&json!({"metadata": {"name": "x"}, "spec": {}, "status": status}));
    let status: Arc<PodStatus> = with.unwrap().status;
    Arc::new(Pod { status, ..pod.clone() })
}

fn object(cluster: &mut Cluster, object: Arc<Object>) {
    cluster.engine.handle(Input::ObjectApplied(object), NOW);
}

fn ask(cluster: &Cluster, changes: &[Change]) -> WhatIf {
    what_if(&cluster.engine, changes, QuestionLimits::default(), NOW).unwrap()
}

fn drain(cluster: &Cluster) -> WhatIf {
    ask(cluster, &[Change::Drain("a".into())])
}

fn rounds(answer: &WhatIf) -> Vec<(&str, Option<usize>)> {
    answer.placements.iter().map(|placed| (&*placed.pod, placed.round)).collect()
}

fn blocked(answer: &WhatIf) -> Vec<(&str, &str, Vec<&str>)> {
    let blocked = answer.blocked.iter().map(|blocked| {
        let budgets = blocked.budgets.iter().map(String::as_str).collect();
        (&*blocked.pod, blocked.code, budgets)
    });
    blocked.collect()
}

/// Three pods on node a, which node b has room for.
fn three_pods(cpu_of_b: &str) -> Cluster {
    let mut cluster = Cluster::new().node("a", "8", json!({})).node("b", cpu_of_b, json!({}));
    for name in ["p0", "p1", "p2"] {
        cluster = cluster.pod(replica(name, "web", "a"));
    }
    cluster
}

#[test]
fn a_budget_of_one_takes_a_round_per_pod() {
    let mut cluster = three_pods("8");
    object(&mut cluster, budget("web", "web", 1));
    let answer = drain(&cluster);
    assert!(answer.fits, "{answer:?}");
    assert_eq!(
        rounds(&answer),
        [("default/p0", Some(1)), ("default/p1", Some(2)), ("default/p2", Some(3))]
    );
    assert_eq!(answer.rounds, 3);
    let text = answer.table(false);
    assert!(text.contains("fits: 3 of 3 pods placed in 3 rounds\n"), "{text}");
    object(&mut cluster, budget("web", "web", 2));
    assert_eq!(drain(&cluster).rounds, 2);
    object(&mut cluster, budget("web", "other", 0));
    assert_eq!(drain(&cluster).rounds, 1);
}

#[test]
fn a_budget_that_allows_nothing_blocks() {
    let mut cluster = three_pods("8").pod(replica("free", "free", "a"));
    object(&mut cluster, budget("web", "web", 0));
    let answer = drain(&cluster);
    assert!(!answer.fits);
    assert_eq!(rounds(&answer), [("default/free", Some(1))]);
    let web = || vec!["web"];
    assert_eq!(
        blocked(&answer),
        [
            ("default/p0", "NoDisruptionsAllowed", web()),
            ("default/p1", "NoDisruptionsAllowed", web()),
            ("default/p2", "NoDisruptionsAllowed", web()),
        ]
    );
    let text = answer.table(false);
    assert!(
        text.contains("does not fit: 1 of 1 pod placed in 1 round, 3 pods blocked\n"),
        "{text}"
    );
    let at_once = ask(&cluster, &[Change::DrainAtOnce("a".into())]);
    assert!(at_once.fits && at_once.blocked.is_empty());
    assert_eq!((at_once.rounds, at_once.placements.len()), (0, 4));
    assert!(at_once.placements.iter().all(|placed| placed.round.is_none()));
}

#[test]
fn pods_with_two_budgets_are_not_evicted() {
    let mut cluster = three_pods("8");
    object(&mut cluster, budget("one", "web", 5));
    object(&mut cluster, budget("two", "web", 5));
    let answer = drain(&cluster);
    assert_eq!(blocked(&answer)[0], ("default/p0", "SeveralBudgets", vec!["one", "two"]));
    assert_eq!((answer.blocked.len(), answer.rounds), (3, 0));
    assert!(!answer.fits);
}

#[test]
fn who_finds_no_place_holds_up_the_others() {
    let mut cluster = three_pods("1");
    object(&mut cluster, budget("web", "web", 1));
    let answer = drain(&cluster);
    assert_eq!(rounds(&answer), [("default/p0", Some(1))]);
    let pending: Vec<&str> = answer.pending.iter().map(|pod| &*pod.pod).collect();
    assert_eq!(pending, ["default/p1"]);
    assert_eq!(blocked(&answer), [("default/p2", "WaitsForReplacements", vec!["web"])]);
}

#[test]
fn pods_that_are_not_ready_go_as_the_api_lets_them() {
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let with = |policy: Value, allowed: i64, healthy: i64, statuses: [&Value; 2]| {
        let mut cluster = Cluster::new().node("a", "8", json!({})).node("b", "8", json!({}));
        for (name, status) in ["p0", "p1"].into_iter().zip(statuses) {
            cluster = cluster.pod(with_status(&replica(name, "web", "a"), status));
        }
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"selector": {}, "unhealthyPodEvictionPolicy": policy},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 2},
        });
        object(&mut cluster, Arc::new(Object::from_value(budget).unwrap()));
        drain(&cluster)
    };
    let moved = |answer: &WhatIf| (answer.placements.len(), answer.blocked.len());
    // Enough are healthy: the pod that is not ready is evicted without using the budget, and its replacement lets the other one
    // go.
    assert_eq!(moved(&with(Value::Null, 0, 2, [&unready, &ready])), (2, 0));
    // Too few are.
    assert_eq!(moved(&with(Value::Null, 0, 1, [&unready, &ready])), (0, 2));
    assert_eq!(moved(&with("AlwaysAllow".into(), 0, 1, [&unready, &ready])), (1, 1));
    let pending = json!({"phase": "Pending"});
    assert_eq!(moved(&with(Value::Null, 0, 0, [&pending, &ready])), (1, 1));
}

/// With a label, a priority and an amount of CPU of its own.
fn replica_of(name: &str, app: &str, node: &str, cpu: &str, priority: i64) -> Arc<Pod> {
    let spec = json!({"nodeName": node, "priority": priority});
    let plain = pod(name, cpu, spec);
    let Pod { labels, controller, .. } = (*replica(name, app, node)).clone();
    Arc::new(Pod { labels, controller, ..(*plain).clone() })
}

/// What is pushed out was not healthy, so that the budget has as much left as before.
#[test]
fn who_is_evicted_for_others_and_not_ready_costs_no_budget() {
    let status = |ready: &str| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    let moved = |ready_on_b: &str| {
        let mut cluster = Cluster::new().node("a", "4", json!({})).node("b", "2", json!({}));
        for (name, node, priority, ready) in
            [("p0", "a", 1, "True"), ("p1", "a", 1, "True"), ("low", "b", -1, ready_on_b)]
        {
            let cpu = if node == "a" { "1" } else { "2" };
            let pod = replica_of(name, "web", node, cpu, priority);
            cluster = cluster.pod(with_status(&pod, &status(ready)));
        }
        object(&mut cluster, budget("web", "web", 1));
        let answer = drain(&cluster);
        let evicted: Vec<&str> = answer.evictions.iter().map(|one| &*one.pod).collect();
        assert_eq!(evicted, ["default/low"]);
        (answer.placements.len(), blocked(&answer).len())
    };
    assert_eq!(moved("False"), (2, 0));
    assert_eq!(moved("True"), (1, 1));
}

/// The API takes one away for it where the budget needs no healthy pods, and the controller counts as many as before.
#[test]
fn who_is_not_ready_costs_a_budget_nothing_in_the_next_round() {
    let status = |ready: &str| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    for (ready, needs, expected) in [("False", 0, (2, 0)), ("True", 1, (1, 1))] {
        let mut cluster = Cluster::new().node("a", "4", json!({})).node("full", "0", json!({}));
        for (name, ready) in [("p0", ready), ("p1", "True")] {
            let pod = replica(name, "web", "a");
            cluster = cluster.pod(with_status(&pod, &status(ready)));
        }
        let mut web = Value::from(&*budget("web", "web", 1).json);
        web["status"] =
            json!({"disruptionsAllowed": 1, "currentHealthy": needs + 1, "desiredHealthy": needs});
        object(&mut cluster, Arc::new(Object::from_value(web).unwrap()));
        let answer = drain(&cluster);
        assert_eq!((answer.rounds, answer.blocked.len()), expected, "{answer:?}");
    }
}

/// The API looks for no budget then, and what the budget's controller counts is less by one.
#[test]
fn who_has_no_labels_goes_in_any_case_and_is_missing_then() {
    for (has_labels, expected) in [(true, (2, 0)), (false, (1, 1))] {
        let bare = Pod { controller: None, ..(*replica("p0", "other", "a")).clone() };
        let first = match has_labels {
            true => bare,
            false => Pod { labels: std::iter::empty::<(Arc<str>, Arc<str>)>().collect(), ..bare },
        };
        let mut cluster = Cluster::new().node("a", "4", json!({})).node("b", "2", json!({}));
        cluster = cluster.pod(Arc::new(first));
        for name in ["p1", "p2"] {
            cluster = cluster.pod(replica(name, "web", "a"));
        }
        let mut all = Value::from(&*budget("all", "web", 1).json);
        all["spec"]["selector"] =
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["other"]}]});
        object(&mut cluster, Arc::new(Object::from_value(all).unwrap()));
        let answer = drain(&cluster);
        assert_eq!((answer.placements.len(), answer.blocked.len()), expected);
    }
}

/// Preemption prefers victims whose budget lets them go: what evictions have taken of it before, it has not.
#[test]
fn budgets_that_a_drain_has_used_keep_their_pods_from_preemption() {
    let mut cluster = Cluster::new();
    for node in ["a", "b", "c"] {
        cluster = cluster.node(node, "2", json!({}));
    }
    for (name, app, node, priority) in
        [("p0", "web", "a", 10), ("covered", "web", "b", -2), ("free", "free", "c", -1)]
    {
        cluster = cluster.pod(replica_of(name, app, node, "2", priority));
    }
    for (allowed, victim) in [(2, "default/covered"), (1, "default/free")] {
        object(&mut cluster, budget("web", "web", allowed));
        let answer = drain(&cluster);
        assert_eq!(answer.evictions[0].pod, victim, "{allowed}");
    }
}

#[test]
fn a_budget_without_a_status_is_counted_here() {
    for (spec, n_rounds) in [
        (json!({"minAvailable": 2}), 3),
        (json!({"minAvailable": "50%"}), 3),
        (json!({"maxUnavailable": 2}), 2),
        (json!({"maxUnavailable": "100%"}), 1),
        (json!({"minAvailable": 3}), 0),
    ] {
        let mut cluster = three_pods("8");
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        });
        for (key, value) in spec.as_object().unwrap() {
            budget["spec"][key] = value.clone();
        }
        object(&mut cluster, Arc::new(Object::from_value(budget).unwrap()));
        let answer = drain(&cluster);
        assert_eq!(answer.rounds, n_rounds, "{spec}");
        assert_eq!(answer.fits, n_rounds > 0, "{spec}");
        let text = answer.table(false);
        assert!(text.contains("what is allowed was counted here: default/web"), "{text}");
    }
}

fn evictions(names: &[&str]) -> Vec<Change> {
    names.iter().map(|name| Change::EvictPod(name.parse().unwrap())).collect()
}

#[test]
fn pods_are_evicted_by_name_in_their_order_as_budgets_allow() {
    let mut cluster = three_pods("8");
    object(&mut cluster, budget("web", "web", 1));
    let answer = ask(&cluster, &evictions(&["p2", "p0"]));
    assert!(answer.fits, "{answer:?}");
    assert_eq!(rounds(&answer), [("default/p0", Some(2)), ("default/p2", Some(1))]);
    assert!(answer.blocked.is_empty());
    // One that is named twice goes once, and takes a budget once.
    object(&mut cluster, budget("web", "web", 2));
    let answer = ask(&cluster, &evictions(&["p2", "p2", "p0"]));
    assert_eq!(rounds(&answer), [("default/p0", Some(1)), ("default/p2", Some(1))]);
    // Its node takes pods: only if it is drained as well does the pod leave it.
    let nodes = |answer: &WhatIf| -> Vec<String> {
        answer.placements.iter().map(|placed| placed.node.clone()).collect()
    };
    let cluster = Cluster::new().node("a", "8", json!({})).node("b", "0", json!({}));
    let cluster = cluster.pod(replica("p0", "web", "a"));
    let answer = ask(&cluster, &evictions(&["p0"]));
    assert_eq!((answer.fits, nodes(&answer)), (true, vec!["a".to_owned()]));
    let cordoned = [evictions(&["p0"]), vec![Change::Cordon("a".into())]].concat();
    let answer = ask(&cluster, &cordoned);
    assert_eq!((answer.fits, answer.pending.len()), (false, 1));
}

#[test]
fn who_is_evicted_by_name_goes_before_those_of_drained_nodes() {
    let mut cluster = three_pods("8");
    object(&mut cluster, budget("web", "web", 1));
    let mut changes = evictions(&["p1"]);
    changes.insert(0, Change::Drain("a".into()));
    let answer = ask(&cluster, &changes);
    assert_eq!(
        rounds(&answer),
        [("default/p0", Some(2)), ("default/p1", Some(1)), ("default/p2", Some(3))]
    );
    assert!(answer.placements.iter().all(|placed| placed.node == "b"), "{answer:?}");
}

#[test]
fn what_budgets_refuse_by_name_is_said_as_for_a_drain() {
    let mut cluster = three_pods("8");
    object(&mut cluster, budget("web", "web", 0));
    let answer = ask(&cluster, &evictions(&["p0", "p1"]));
    let web = || vec!["web"];
    assert_eq!(
        blocked(&answer),
        [
            ("default/p0", "NoDisruptionsAllowed", web()),
            ("default/p1", "NoDisruptionsAllowed", web())
        ]
    );
    assert!(!answer.fits && answer.placements.is_empty());
    object(&mut cluster, budget("web", "web", 1));
    let mut changes = evictions(&["p0", "p1"]);
    changes.extend(["a", "b"].map(|node| Change::Cordon(node.into())));
    let answer = ask(&cluster, &changes);
    assert_eq!(blocked(&answer), [("default/p1", "WaitsForReplacements", web())]);
    assert_eq!((answer.pending.len(), answer.fits), (1, false));
}

#[test]
fn who_has_no_controller_is_evicted_for_good_and_mirrors_stay() {
    let of = |kind: &str, name: &str| {
        let pod = replica(name, "web", "a");
        let owner = pod.controller.as_deref().unwrap().clone();
        let controller = Some(Arc::new(ControllerRef { kind: kind.into(), ..owner }));
        Arc::new(Pod { controller, ..(*pod).clone() })
    };
    let bare = Arc::new(Pod { controller: None, ..(*replica("bare", "web", "a")).clone() });
    let cluster = Cluster::new().node("a", "8", json!({}));
    let cluster = cluster.pod(bare).pod(of("Node", "mirror")).pod(of("DaemonSet", "daemon"));
    let answer = ask(&cluster, &evictions(&["bare", "mirror", "daemon"]));
    let text = answer.table(true);
    assert!(text.contains("note: gone for good: 1 pod without a controller\n"), "{text}");
    assert!(text.contains("note: pod default/mirror stays: it is the mirror of a static pod\n"));
    assert_eq!(rounds(&answer), [("default/daemon", Some(1))]);
    let missing = evictions(&["nobody"]);
    let refusal = what_if(&cluster.engine, &missing, QuestionLimits::default(), NOW).unwrap_err();
    assert_eq!(refusal.to_string(), "there is no pod default/nobody");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// No round takes more of a budget than it has, and every pod of the node moves, waits or is blocked.
    #[test]
    fn rounds_keep_to_budgets(
        pods in prop::collection::vec(0_usize..4, 0..12),
        allowed in prop::collection::vec(0_i64..4, 3..4),
        cpu in 0_u32..14,
    ) {
        let mut cluster =
            Cluster::new().node("a", "16", json!({})).node("b", &cpu.to_string(), json!({}));
        for (at, app) in pods.iter().enumerate() {
            cluster = cluster.pod(replica(&format!("p{at:02}"), &format!("app-{app}"), "a"));
        }
        for (app, allowed) in allowed.iter().enumerate() {
            object(&mut cluster, budget(&format!("b{app}"), &format!("app-{app}"), *allowed));
        }
        let answer = drain(&cluster);
        let app_of = |pod: &str| pods[pod["default/p".len()..].parse::<usize>().unwrap()];
        let mut taken: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        for placed in &answer.placements {
            *taken.entry((app_of(&placed.pod), placed.round.unwrap())).or_default() += 1;
        }
        for ((app, round), n) in taken {
            let most = allowed.get(app).copied().unwrap_or(i64::MAX);
            prop_assert!(n <= most, "{} of app {} in round {}", n, app, round);
        }
        let mut pending: BTreeMap<usize, i64> = BTreeMap::new();
        for pod in &answer.pending {
            *pending.entry(app_of(&pod.pod)).or_default() += 1;
        }
        for blocked in &answer.blocked {
            let app = app_of(&blocked.pod);
            let waiting = pending.get(&app).copied().unwrap_or(0);
            prop_assert_eq!(waiting, allowed[app], "blocked only when the budget is used up");
        }
        let n_answers = answer.placements.len() + answer.pending.len() + answer.blocked.len();
        prop_assert_eq!(n_answers, pods.len());
        prop_assert_eq!(answer.fits, answer.pending.is_empty() && answer.blocked.is_empty());
    }
}

/// The pod as it is once somebody has deleted it.
fn going(pod: &Pod) -> Arc<Pod> {
    Arc::new(Pod { deletion_requested: Some(NOW), ..pod.clone() })
}

fn of(pod: &Pod, kind: &str) -> Arc<Pod> {
    let controller = pod
        .controller
        .as_ref()
        .map(|it| Arc::new(ControllerRef { kind: kind.into(), ..(**it).clone() }));
    Arc::new(Pod { controller, ..pod.clone() })
}

/// Controllers have replaced them already, or do so when they have ended.
#[test]
fn pods_that_are_being_deleted_come_again_only_where_that_is_waited_for() {
    let mut cluster = Cluster::new()
        .node("a", "8", json!({}))
        .node("b", "8", json!({}))
        .pod(going(&replica("replaced", "web", "a")))
        .pod(going(&of(&replica("numbered-0", "web", "a"), "StatefulSet")))
        .pod(going(&of(&replica("worker", "web", "a"), "Job")))
        .pod(going(&pod("alone", "1", json!({"nodeName": "a"}))))
        .pod(replica("stays", "web", "a"));
    let answers = |cluster: &Cluster| {
        let removed = ask(cluster, &[Change::RemoveNode("a".into())]);
        let at_once = ask(cluster, &[Change::DrainAtOnce("a".into())]);
        [drain(cluster), at_once, removed]
    };
    for answer in answers(&cluster) {
        let placed: Vec<&str> = answer.placements.iter().map(|one| &*one.pod).collect();
        assert_eq!(placed, ["default/numbered-0", "default/stays"]);
        let text = answer.table(true);
        assert!(
            text.contains("note: being deleted already, and not created again after that: 3 pods"),
            "{text}"
        );
        assert!(!text.contains("without a controller"), "{text}");
        assert!(text.contains("fits: 2 of 2 pods placed"), "{text}");
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": "o"},
        "spec": {"podReplacementPolicy": "Failed"}});
    object(&mut cluster, Arc::new(Object::from_value(job).unwrap()));
    for answer in answers(&cluster) {
        let placed: Vec<&str> = answer.placements.iter().map(|one| &*one.pod).collect();
        assert_eq!(placed, ["default/numbered-0", "default/stays", "default/worker"]);
    }
}

#[test]
fn a_drain_that_moves_nothing_says_so() {
    let cluster = Cluster::new()
        .node("a", "8", json!({}))
        .pod(going(&replica("replaced", "web", "a")))
        .pod(pod("waits", "80", json!({})));
    let text = drain(&cluster).table(false);
    assert!(
        text.ends_with(
            "nothing moves: no pod is added, moved or placed; 1 other pod still pending, as now\n"
        ),
        "{text}"
    );
}

#[test]
fn a_pod_of_another_scheduler_is_not_placed_by_this_one() {
    let theirs = replica("theirs", "web", "a");
    let spec = PodSpec { scheduler_name: "other".into(), ..(*theirs.spec).clone() };
    let theirs = Arc::new(Pod { spec: Arc::new(spec), ..(*theirs).clone() });
    let cluster = Cluster::new().node("a", "8", json!({})).node("b", "8", json!({})).pod(theirs);
    let answer = drain(&cluster);
    let [pending] = &answer.pending[..] else { panic!("{answer:?}") };
    assert_eq!(
        (pending.code, &*pending.message),
        (
            "NotScheduled",
            "pod default/theirs is for scheduler \"other\", which has no profile here; there are: default-scheduler"
        )
    );
}
