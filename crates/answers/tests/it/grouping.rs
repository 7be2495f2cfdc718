//! Where the group of a pod stands, and that it then fares as foreseen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube_scheduler_answers::{
    ExplainOptions, Explanation, GroupAnswer, Inquiry, Interrupt, Preemption, Question,
    QuestionKind, Refusal, Rehearsal, RehearsalEvent, Subject, Verdict, Visibility, explain,
    preemption, suggestions,
};
use kube_scheduler_api_types::{CompileOptions, Node, Object, Pod};
use kube_scheduler_config::{Configuration, FeatureGates, Gate};
use kube_scheduler_engine::{AttemptResult, Engine, EngineOptions, Input};
use kube_scheduler_framework::{
    Context, CycleState, Filter, NodeView, Plugin, Status, extension_points,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

const ZONE: &str = "topology.kubernetes.io/zone";

fn cluster(gates: &[Gate]) -> Cluster {
    cluster_of(gates, false)
}

fn cluster_of(gates: &[Gate], plans_gangs_exactly: bool) -> Cluster {
    let gates = gates.iter().fold(FeatureGates::default(), |all, gate| all.with(*gate, true));
    let mut config = Configuration::default();
    kube_scheduler_config::default(&mut config, &gates);
    let registry = kube_scheduler_plugins_intree::registry();
    let options = EngineOptions { gates, plans_gangs_exactly, ..EngineOptions::default() };
    Cluster { engine: Engine::new(&config, &registry, options).unwrap() }
}

const ALL: [Gate; 3] =
    [Gate::GenericWorkload, Gate::GangScheduling, Gate::TopologyAwareWorkloadScheduling];

fn node(engine: &mut Engine, name: &str, zone: &str, cpu: u32) {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}},
        "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "8Gi", "pods": "110"}},
    });
    engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&node).unwrap())), NOW);
}

fn group(engine: &mut Engine, min_count: u32, topology: Option<&str>) {
    let mut group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "gang", "uid": "gang-uid"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    if let Some(key) = topology {
        group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": key}]});
    }
    let object = Object::from_value(group).unwrap();
    engine.handle(Input::ObjectApplied(Arc::new(object)), NOW);
}

fn member(name: &str, cpu: u32) -> Arc<Pod> {
    pod(name, &cpu.to_string(), json!({"schedulingGroup": {"podGroupName": "gang"}}))
}

fn explained(engine: &mut Engine, name: &str) -> Explanation {
    let subject = Subject::Known(format!("default/{name}").parse().unwrap());
    explain(engine, &subject, ExplainOptions::ALL, NOW).unwrap()
}

fn answer(engine: &mut Engine, name: &str) -> GroupAnswer {
    explained(engine, name).group.unwrap()
}

#[test]
fn what_is_missing_is_said_and_a_manifest_counts() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    engine.handle(Input::PodApplied(member("m-0", 1)), NOW);
    let found = answer(&mut engine, "m-0");
    let missing = "waiting for the pod group \"gang\", which does not exist";
    assert_eq!((found.waits_for.as_deref(), found.attempt), (Some(missing), None));
    assert_eq!(found.waits_for_code, Some("NoPodGroup"));
    group(&mut engine, 2, None);
    let found = answer(&mut engine, "m-0");
    let missing = "waiting for pods of the pod group \"gang\": it needs 2, and 1 exist";
    assert_eq!(found.waits_for.as_deref(), Some(missing));
    assert_eq!(found.waits_for_code, Some("TooFewPods"));
    assert_eq!(explained(&mut engine, "m-0").verdict, Verdict::DoesNotFit);
    assert_eq!((found.min_count, found.n_pods, found.n_scheduled), (Some(2), 1, 0));
    assert_eq!(found.stages.get("Gated"), Some(&1));
    // One more pod, which does not exist yet, completes it.
    let subject = Subject::Manifest(member("m-1", 1));
    let found = explain(&mut engine, &subject, ExplainOptions::ALL, NOW).unwrap();
    assert_eq!((found.verdict, &found.gated), (Verdict::Fits, &None));
    assert!(!found.table(false).contains("held back"), "{}", found.table(false));
    let group = found.group.unwrap();
    assert_eq!((group.n_pods, group.waits_for), (2, None));
    assert_eq!(group.attempt.unwrap().verdict, "Fits");
    // Nothing of this has happened.
    assert_eq!(answer(&mut engine, "m-0").n_pods, 1);
    assert!(engine.schedule_next(NOW).is_none());
}

#[test]
fn each_domain_says_which_members_fail_and_only_who_may_know_sees_its_name() {
    let Cluster { mut engine } = cluster(&ALL);
    for (name, cpu) in [("a-secret", 4), ("b-secret", 2), ("c-secret", 2)] {
        node(&mut engine, name, name, cpu);
    }
    group(&mut engine, 3, Some(ZONE));
    for name in ["m-0", "m-1", "m-2"] {
        engine.handle(Input::PodApplied(member(name, 2)), NOW);
    }
    let explanation = explained(&mut engine, "m-1");
    assert_eq!((explanation.verdict, explanation.n_feasible), (Verdict::DoesNotFit, 3));
    let headline = explanation.table(false);
    assert!(
        headline.starts_with("default/m-1: does not fit (because of its group; 3 of 3"),
        "{headline}"
    );
    let attempt = explanation.group.clone().unwrap().attempt.unwrap();
    assert_eq!((attempt.verdict, attempt.n_tried, &attempt.chosen), ("DoesNotFit", 3, &None));
    let [two, one] = &attempt.domains[..] else { panic!("{attempt:#?}") };
    assert_eq!(
        (two.count, &two.examples[..]),
        (2, &["b-secret".to_owned(), "c-secret".to_owned()][..])
    );
    assert_eq!(
        (two.n_placed, two.failed[0].count, &two.failed[0].examples[..]),
        (1, 2, &["m-1".to_owned(), "m-2".to_owned()][..])
    );
    assert_eq!((one.n_placed, one.failed[0].count), (2, 1));
    assert!(one.failed[0].message.contains("Insufficient cpu"), "{one:?}");
    assert_eq!(one.failed[0].rejected_by, ["NodeResourcesFit"]);
    let hidden = explanation.clone().visible_to(Visibility { nodes: false, all_pods: false });
    let text = serde_json::to_string(&hidden).unwrap() + &hidden.table(true);
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(hidden.group.unwrap().attempt.unwrap().domains.len(), 2);
    let short = explanation.limited(ExplainOptions { max_examples: 1, max_feasible: 1 });
    let short = short.group.unwrap().attempt.unwrap();
    assert_eq!((short.domains.len(), short.domains[0].failed[0].examples.len()), (1, 1));
}

fn preempted(engine: &mut Engine, subject: &Subject) -> Preemption {
    preemption(engine, subject, ExplainOptions::ALL, NOW).unwrap()
}

fn urgent_member(name: &str, cpu: u32) -> Arc<Pod> {
    let spec = json!({"schedulingGroup": {"podGroupName": "gang"}, "priority": 10});
    pod(name, &cpu.to_string(), spec)
}

#[test]
fn a_member_fits_only_with_its_group_whatever_is_evicted_for_it() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    group(&mut engine, 3, None);
    for name in ["m-0", "m-1", "m-2"] {
        engine.handle(Input::PodApplied(member(name, 2)), NOW);
    }
    let subject = Subject::Known("m-0".parse().unwrap());
    let explanation = explained(&mut engine, "m-0");
    let answer = preempted(&mut engine, &subject);
    assert_eq!((answer.verdict, &answer.node), (Verdict::DoesNotFit, &None));
    assert_eq!(answer.group, explanation.group);
    let headline = explanation.table(false).lines().next().unwrap().to_owned();
    assert!(headline.contains("because of its group; 1 of 1 nodes feasible for it"), "{headline}");
    let text = answer.table(false);
    assert!(
        text.starts_with(&(headline + "\n")) && text.contains("tried now with 3 pods"),
        "{text}"
    );
    let mut suggested = explanation.clone();
    suggested.suggest(&engine, &member("m-0", 2), &Interrupt::default(), NOW);
    let found: Vec<_> =
        suggested.suggestions.iter().map(|one| (&*one.changes[0], one.size)).collect();
    let expected = [
        ("request 1333m of cpu instead of 2000m", 33),
        ("minCount 2 instead of 3 of its group", 60),
        ("one more node like a", 80),
    ];
    assert_eq!(found, expected);
    let text = suggested.table(false);
    assert!(text.contains("note: suggestions are for the whole group"), "{text}");
    let hidden = suggested.visible_to(Visibility { nodes: false, all_pods: true });
    assert_eq!(hidden.suggestions[2].changes, ["one more node like one that is there"]);
}

#[test]
fn who_waits_for_pods_of_its_group_is_helped_once_the_group_can_be_tried() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    group(&mut engine, 2, None);
    engine.handle(Input::PodApplied(pod("low", "4", json!({"nodeName": "a"}))), NOW);
    engine.handle(Input::PodApplied(urgent_member("m-0", 2)), NOW);
    engine.handle(Input::PodApplied(member("m-9", 5)), NOW);
    engine.handle(Input::PodDeleted { namespace: "default".into(), name: "m-9".into() }, NOW);
    let explanation = explained(&mut engine, "m-0");
    assert_eq!(explanation.preemption.as_ref().map(|it| it.helps), Some(true));
    assert_eq!(explanation.verdict, Verdict::DoesNotFit, "its group waits");
    let answer = preempted(&mut engine, &Subject::Known("m-0".parse().unwrap()));
    assert_eq!((answer.verdict, answer.victims.len()), (Verdict::DoesNotFit, 0));
    assert_eq!((answer.node, answer.candidates.len()), (None, 1), "where it would go alone");
    // Without the pod that is in the way, a lower minimum is all it takes; until then nothing that is done about nodes helps.
    let found =
        suggestions(&engine, &urgent_member("m-0", 2), &explanation, &Interrupt::default(), NOW);
    assert_eq!(found, []);
    engine.handle(Input::PodDeleted { namespace: "default".into(), name: "low".into() }, NOW);
    let explanation = explained(&mut engine, "m-0");
    let found =
        suggestions(&engine, &urgent_member("m-0", 2), &explanation, &Interrupt::default(), NOW);
    let changes: Vec<_> = found.iter().flat_map(|one| &one.changes).collect();
    assert_eq!(changes, ["minCount 1 instead of 2 of its group"]);
}

#[test]
fn a_pod_that_needs_another_of_its_group_beside_it_fits_with_it() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    group(&mut engine, 2, None);
    let near = json!({"schedulingGroup": {"podGroupName": "gang"}, "affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "leader"}}}]}}});
    let leader = Pod {
        labels: std::iter::once::<(Arc<str>, Arc<str>)>(("app".into(), "leader".into())).collect(),
        ..(*member("m-0", 1)).clone()
    };
    engine.handle(Input::PodApplied(Arc::new(leader)), NOW);
    engine.handle(Input::PodApplied(pod("m-1", "1", near)), NOW);
    let explanation = explained(&mut engine, "m-1");
    assert_eq!((explanation.verdict, explanation.n_feasible), (Verdict::Fits, 0));
    let headline = explanation.table(false);
    let expected = "default/m-1: fits (because of its group; 0 of 1 nodes feasible for it alone)\n";
    assert!(headline.starts_with(expected), "{headline}");
}

#[test]
fn a_gated_member_fits_with_its_group_once_its_gates_are_gone() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 8);
    group(&mut engine, 1, None);
    engine.handle(Input::PodApplied(member("m-0", 2)), NOW);
    let spec = json!({"schedulingGroup": {"podGroupName": "gang"}, "schedulingGates": [{"name": "later"}]});
    engine.handle(Input::PodApplied(pod("m-1", "2", spec)), NOW);
    let found = explained(&mut engine, "m-1");
    assert_eq!((found.verdict, found.without_gates), (Verdict::Gated, Some(Verdict::Fits)));
    assert_eq!(found.group.unwrap().stages.get("Gated"), Some(&1));
}

#[test]
fn only_members_for_which_room_is_made_fit_after_preemption() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    group(&mut engine, 1, None);
    engine.handle(Input::PodApplied(pod("low", "4", json!({"nodeName": "a"}))), NOW);
    for name in ["m-0", "m-1"] {
        engine.handle(Input::PodApplied(urgent_member(name, 4)), NOW);
    }
    let verdicts = ["m-0", "m-1"].map(|name| explained(&mut engine, name).verdict);
    assert_eq!(verdicts, [Verdict::FitsAfterPreemption, Verdict::DoesNotFit]);
}

#[test]
fn a_pod_whose_room_others_of_its_group_take_is_helped_with_them() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    // However many other changes come first by their size.
    for at in 0..34 {
        let node = json!({
            "metadata": {"name": format!("tainted-{at}")},
            "spec": {"taints": [{"key": format!("t{at}"), "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "110"}},
        });
        engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&node).unwrap())), NOW);
    }
    group(&mut engine, 1, None);
    for name in ["m-0", "m-1", "m-2"] {
        engine.handle(Input::PodApplied(member(name, 4)), NOW);
    }
    let found = explained(&mut engine, "m-2");
    assert_eq!(found.verdict, Verdict::DoesNotFit);
    let found = suggestions(&engine, &member("m-2", 4), &found, &Interrupt::default(), NOW);
    let changes: Vec<&str> = found.iter().map(|one| &*one.changes[0]).collect();
    assert_eq!(changes, ["request 1333m of cpu instead of 4000m", "2 more nodes like a"]);
}

#[test]
fn of_more_pods_and_nodes_than_are_reported_the_verdict_is_that_of_the_pod_alone() {
    const ALONE: &str =
        "the pod group was not evaluated as a whole; this verdict is for the pod alone";

    let explained_of = |n_members: usize| {
        let Cluster { mut engine } = cluster(&ALL);
        for at in 0..400 {
            node(&mut engine, &format!("n-{at}"), &format!("z-{}", at % 2), 1);
        }
        group(&mut engine, 200, Some(ZONE));
        for at in 0..n_members {
            engine.handle(Input::PodApplied(member(&format!("m-{at:03}"), 1)), NOW);
        }
        let last = format!("m-{:03}", n_members - 1);
        let subject = Subject::Known(format!("default/{last}").parse().unwrap());
        let preemption = preemption(&mut engine, &subject, ExplainOptions::ALL, NOW).unwrap();
        (explained(&mut engine, &last), preemption)
    };
    // A zone has room for 200 of them: the last one gets no node with its group, which is known up to 100,000.
    for (n_members, verdict, is_alone) in
        [(250, Verdict::DoesNotFit, false), (251, Verdict::Fits, true)]
    {
        let (found, preempted) = explained_of(n_members);
        assert_eq!((found.verdict, preempted.verdict), (verdict, verdict), "{n_members}");
        let group = found.group.as_ref().unwrap();
        assert_eq!(group.attempt.as_ref().unwrap().verdict, "Fits");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["group"]["attempt"]["isAbridged"] == true, is_alone, "{n_members}");
        let warnings = json["warnings"].as_array().unwrap();
        assert_eq!(warnings.contains(&json!(ALONE)), is_alone, "{warnings:?}");
        for table in [found.table(false), preempted.table(false)] {
            assert_eq!(table.contains(&format!("note: {ALONE}\n")), is_alone, "{table}");
        }
    }
}

#[test]
fn what_members_may_ask_for_is_said_without_their_overhead() {
    let mut engine = cluster(&[Gate::GenericWorkload, Gate::GangScheduling]).engine;
    ["a", "b"].iter().for_each(|name| node(&mut engine, name, "z", 2));
    group(&mut engine, 3, None);
    let with_overhead = |name: &str| {
        let spec =
            json!({"schedulingGroup": {"podGroupName": "gang"}, "overhead": {"cpu": "250m"}});
        pod(name, "1", spec)
    };
    for name in ["m-0", "m-1", "m-2"] {
        engine.handle(Input::PodApplied(with_overhead(name)), NOW);
    }
    let mut explanation = explained(&mut engine, "m-0");
    explanation.suggest(&engine, &with_overhead("m-0"), &Interrupt::default(), NOW);
    let lower = explanation.suggestions.iter().find(|one| one.codes == ["LowerRequest"]).unwrap();
    let expected = "request 750m of cpu instead of 1000m, beside 250m of overhead";
    assert_eq!(lower.changes, [expected]);
}

#[test]
fn the_victims_of_a_group_are_named_to_who_may_see_them() {
    let gates = [Gate::GenericWorkload, Gate::GangScheduling, Gate::WorkloadAwarePreemption];
    let Cluster { mut engine } = cluster(&gates);
    for name in ["a", "b"] {
        node(&mut engine, name, "z", 4);
        let low = pod(&format!("low-{name}"), "4", json!({"nodeName": name}));
        let low = Pod { namespace: format!("of-{name}").into(), ..(*low).clone() };
        engine.handle(Input::PodApplied(Arc::new(low)), NOW);
    }
    let gang = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "gang", "uid": "gang-uid"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 10},
    });
    engine.handle(Input::ObjectApplied(Arc::new(Object::from_value(gang).unwrap())), NOW);
    for name in ["m-0", "m-1"] {
        engine.handle(Input::PodApplied(urgent_member(name, 4)), NOW);
    }
    let subject = Subject::Known("m-0".parse().unwrap());
    let answer = preempted(&mut engine, &subject);
    let attempt = answer.group.clone().unwrap().attempt.unwrap();
    assert_eq!(attempt.verdict, "FitsAfterPreemption");
    let mut named = attempt.victims;
    named.sort();
    assert_eq!(named, ["of-a/low-a", "of-b/low-b"]);
    let hidden = Visibility { nodes: true, all_pods: false };
    let seen = [
        answer.visible_to(hidden).table(true),
        explained(&mut engine, "m-0").visible_to(hidden).table(true),
    ];
    for text in seen {
        assert!(text.contains("preemption would evict: a pod, a pod"), "{text}");
        assert!(!text.contains("/low-"), "{text}");
    }
    // And then they are evicted.
    engine.schedule_next(NOW);
    let happened = Rehearsal::default().carry_out(&mut engine, NOW);
    let evicted = happened.iter().filter_map(|what| match what {
        RehearsalEvent::Evicted(pod) => Some(pod.key()),
        _ => None,
    });
    let mut evicted: Vec<String> = evicted.collect();
    evicted.sort();
    assert_eq!(evicted, named);
}

#[test]
fn a_manifest_is_in_the_group_that_its_label_says() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
        multiPoint: {enabled: [{name: Coscheduling}]}\n    \
        queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}\n";
    let config = kube_scheduler_config::load(text, &FeatureGates::default()).unwrap();
    let registry = kube_scheduler_plugins_intree::registry();
    let mut engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
    node(&mut engine, "a", "z", 4);
    let train = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "train", "uid": "train-uid"},
        "spec": {"minMember": 2},
    });
    engine.handle(Input::ObjectApplied(Arc::new(Object::from_value(train).unwrap())), NOW);
    let labelled = |name: &str| {
        let label: (Arc<str>, Arc<str>) = ("scheduling.x-k8s.io/pod-group".into(), "train".into());
        let plain = pod(name, "1", json!({}));
        Arc::new(Pod { labels: [label].into_iter().collect(), ..(*plain).clone() })
    };
    let new = Subject::Manifest(labelled("m-1"));
    let mut asked = || {
        let found = explain(&mut engine, &new, ExplainOptions::ALL, NOW).unwrap();
        let verdicts = (found.verdict, preempted(&mut engine, &new).verdict);
        (verdicts, found.group.map(|group| (group.n_pods, group.waits_for.is_some())))
    };
    let none = Verdict::DoesNotFit;
    assert_eq!(asked(), ((none, none), Some((1, true))));
    engine.handle(Input::PodApplied(labelled("m-0")), NOW);
    let found = explain(&mut engine, &new, ExplainOptions::ALL, NOW).unwrap();
    assert_eq!((found.verdict, found.group.map(|group| group.n_pods)), (Verdict::Fits, Some(2)));
}

#[test]
fn no_answer_names_a_domain_to_who_may_not_list_nodes() {
    let Cluster { mut engine } = cluster_of(&ALL, true);
    for (name, cpu) in [("node-secret", 2), ("other-secret", 2)] {
        node(&mut engine, name, name, cpu);
    }
    group(&mut engine, 2, Some("kubernetes.io/hostname"));
    for name in ["m-0", "m-1"] {
        engine.handle(Input::PodApplied(member(name, 2)), NOW);
    }
    while engine.schedule_next(NOW).is_some() {
        engine.drain_effects().for_each(drop);
    }
    let small = json!({"metadata": {"name": "small"}, "spec": {"containers": [{"name": "c"}]}});
    for (kind, spec) in [
        (QuestionKind::Explanation, json!({"podName": "m-0"})),
        (QuestionKind::Preemption, json!({"podName": "m-0"})),
        (QuestionKind::Queue, json!({})),
        (
            QuestionKind::WhatIf,
            json!({"changes": [{"addPods": {"pod": small}}, {"deletePod": {"name": "m-1"}}, {"addPods": {"pod": {
            "metadata": {"name": "m-2"}, "spec": {"schedulingGroup": {"podGroupName": "gang"}, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}}}]}),
        ),
    ] {
        let arguments = json!({"spec": spec});
        let options = CompileOptions::default();
        let question =
            Question::from_arguments(kind, &arguments, "default", &options).unwrap().of_objects();
        let answer = Inquiry::new(&question, &engine, NOW).answer(&question, &Interrupt::default());
        let answer = answer.unwrap();
        let text = |nodes: bool| {
            let reader = Visibility { nodes, all_pods: nodes };
            let seen = answer.clone().for_reader(&question, reader, ExplainOptions::SENT);
            serde_json::to_string(&seen).unwrap() + &seen.table(true)
        };
        assert!(text(true).contains("-secret"), "{kind:?} names no node: {}", text(true));
        assert!(!text(false).contains("-secret"), "{kind:?}: {}", text(false));
    }
}

#[test]
fn a_group_without_domains_has_no_name_of_one() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    group(&mut engine, 1, None);
    engine.handle(Input::PodApplied(member("m-0", 2)), NOW);
    let explanation = explained(&mut engine, "m-0");
    let attempt = explanation.group.clone().unwrap().attempt.unwrap();
    assert_eq!((attempt.verdict, attempt.chosen), ("Fits", None));
    assert!(attempt.domains.iter().all(|domains| domains.examples.is_empty()));
    assert!(
        explanation.table(false).contains("tried now with 1 pod: fits\n"),
        "{}",
        explanation.table(false)
    );
}

#[test]
fn a_scheduler_without_groups_says_nothing_of_them() {
    let Cluster { mut engine } = cluster(&[]);
    node(&mut engine, "a", "z", 4);
    engine.handle(Input::PodApplied(member("m-0", 1)), NOW);
    let explanation = explained(&mut engine, "m-0");
    assert_eq!((explanation.verdict, explanation.group), (Verdict::Fits, None));
}

#[test]
fn a_group_may_come_with_its_pods() {
    let Cluster { mut engine } = cluster(&ALL);
    node(&mut engine, "a", "z", 4);
    let asked = |min_count: u32, namespace: &str| {
        let gang = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}});
        let member = json!({"metadata": {"name": "m"}, "spec": {"schedulingGroup": {"podGroupName": "gang"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        let spec = json!({"changes": [
            {"addPodGroup": {"podGroup": gang}}, {"addPods": {"pod": member, "count": min_count}},
        ]});
        let arguments = json!({"namespace": namespace, "spec": spec});
        Question::from_arguments(
            QuestionKind::WhatIf,
            &arguments,
            "default",
            &CompileOptions::default(),
        )
        .unwrap()
    };
    let answered = |engine: &Engine, question: &Question| {
        let inquiry = Inquiry::new(question, engine, NOW);
        let answer = inquiry.answer(question, &Interrupt::default());
        answer.map(|answer| serde_json::to_value(answer).unwrap())
    };
    let fits = answered(&engine, &asked(2, "default")).unwrap();
    assert_eq!(
        (&fits["fits"], fits["placements"].as_array().map(Vec::len)),
        (&json!(true), Some(2))
    );
    let none = answered(&engine, &asked(3, "default")).unwrap();
    assert_eq!((&none["fits"], &none["placements"]), (&json!(false), &json!([])), "{none}");
    assert_eq!(none["pending"].as_array().map(Vec::len), Some(3), "{none}");
    group(&mut engine, 2, None);
    let refused = answered(&engine, &asked(2, "default")).unwrap_err();
    assert_eq!(refused, Refusal::PodGroupExists("default/gang".to_owned()));
    assert!(answered(&engine, &asked(2, "other")).is_ok());
}

#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<(u32, u32)>,
    members: Vec<u32>,
    min_count: u32,
    in_zone: bool,
    others: Vec<u32>,
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec((0..3_u32, 1..6_u32), 1..7),
        prop::collection::vec(1..4_u32, 1..6),
        1..5_u32,
        any::<bool>(),
        prop::collection::vec(1..3_u32, 0..3),
    )
        .prop_map(|(nodes, members, min_count, in_zone, others)| Case {
            nodes,
            members,
            min_count,
            in_zone,
            others,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_group_fares_as_its_members_are_explained(case in case()) {
        let mut engine = case.engine();
        let first = answer(&mut engine, "m-0");
        // Others come later, and are not in the way.
        for (at, cpu) in case.others.iter().enumerate() {
            let other = pod(&format!("other-{at}"), &cpu.to_string(), Value::Null);
            engine.handle(Input::PodApplied(other), NOW);
        }
        let again = answer(&mut engine, "m-0");
        prop_assert_eq!(&first, &again);
        let Some(attempt) = first.attempt else {
            prop_assert!(case.members.len() < case.min_count as usize, "{first:?}");
            return Ok(());
        };
        let names = (0..case.members.len()).map(|at| format!("m-{at}"));
        let foreseen: BTreeSet<String> =
            names.filter(|name| explained(&mut engine, name).verdict == Verdict::Fits).collect();
        let turn = engine.schedule_next(NOW).expect("the group is ready");
        let group = turn.group.expect("it is a group's turn");
        let has_node = |result: &AttemptResult| {
            !matches!(result, AttemptResult::Unschedulable(_) | AttemptResult::Error(_))
        };
        let placed: BTreeSet<String> = group
            .members
            .iter()
            .filter(|(_, result)| has_node(result))
            .map(|(pod, _)| pod.name.to_string())
            .collect();
        let n_placed = placed.len();
        prop_assert_eq!(&foreseen, &placed, "{:?}", attempt);
        let fits = attempt.verdict == "Fits";
        prop_assert_eq!(fits, n_placed > 0, "{:?} {:?}", attempt, group);
        if fits {
            let chosen = |name: &String| attempt.chosen.as_ref().is_none_or(|chosen| chosen == name);
            let domain = attempt.domains.iter().find(|domain| domain.examples.is_empty() || domain.examples.iter().any(chosen));
            prop_assert_eq!(domain.map(|domain| domain.n_placed), Some(n_placed), "{:?} {:?}", attempt, group);
        }
    }
}

impl Case {
    /// The cluster with the nodes, the group and its members.
    fn engine(&self) -> Engine {
        let Cluster { mut engine } = cluster(&ALL);
        for (at, (zone, cpu)) in self.nodes.iter().enumerate() {
            node(&mut engine, &format!("n-{at}"), &format!("z-{zone}"), *cpu);
        }
        group(&mut engine, self.min_count, self.in_zone.then_some(ZONE));
        for (at, cpu) in self.members.iter().enumerate() {
            engine.handle(Input::PodApplied(member(&format!("m-{at}"), *cpu)), NOW);
        }
        engine
    }

    /// How this cluster decides about `m-0` if its pods ask for this much and nodes like some are added.
    fn places_first(&self, milli_cpu: u32, min_count: u32, like: &[usize]) -> bool {
        let Cluster { mut engine } = cluster(&ALL);
        for (at, (zone, cpu)) in self.nodes.iter().enumerate() {
            node(&mut engine, &format!("n-{at}"), &format!("z-{zone}"), *cpu);
        }
        for (copy, at) in like.iter().enumerate() {
            let (zone, cpu) = self.nodes[*at];
            node(&mut engine, &format!("copy-{copy}"), &format!("z-{zone}"), cpu);
        }
        group(&mut engine, min_count, self.in_zone.then_some(ZONE));
        for at in 0..self.members.len() {
            let spec = json!({"schedulingGroup": {"podGroupName": "gang"}});
            let pod = pod(&format!("m-{at}"), &format!("{milli_cpu}m"), spec);
            engine.handle(Input::PodApplied(pod), NOW);
        }
        let Some(turn) = engine.schedule_next(NOW) else { return false };
        let has_node = |result: &AttemptResult| {
            !matches!(result, AttemptResult::Unschedulable(_) | AttemptResult::Error(_))
        };
        let mut members = turn.group.expect("it is a group's turn").members.into_iter();
        members.any(|(pod, result)| *pod.name == *"m-0" && has_node(&result))
    }
}

/// The number at which a text begins, without the unit.
fn number(text: &str) -> u32 {
    text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn what_is_suggested_for_a_group_makes_it_fit_and_is_the_least(mut case in case()) {
        // Of different pods small ones may take the room of large ones, as it happens where nodes are equally good.
        let cpu = case.members[0];
        case.members.fill(cpu);
        let mut engine = case.engine();
        let (cpu, min_count) = (case.members[0] * 1_000, case.min_count);
        let mut explanation = explained(&mut engine, "m-0");
        let fits = case.places_first(cpu, min_count, &[]);
        prop_assert_eq!(explanation.verdict == Verdict::Fits, fits);
        explanation.suggest(&engine, &member("m-0", case.members[0]), &Interrupt::default(), NOW);
        let is_stuck = explanation.group.as_ref().is_some_and(|group| {
            group.waits_for.is_some() || group.attempt.as_ref().is_some_and(|it| it.verdict != "Fits")
        });
        if fits || !is_stuck {
            return Ok(());
        }
        let of_code = |code: &str| {
            let alone = |one: &&kube_scheduler_answers::Suggestion| one.codes == [code];
            explanation.suggestions.iter().find(alone).map(|one| one.changes[0].clone())
        };
        let least = (1..min_count).rev().find(|min| case.places_first(cpu, *min, &[]));
        let expected = least.map(|min| format!("minCount {min} instead of {min_count} of its group"));
        prop_assert_eq!(of_code("LowerMinCount"), expected);
        if let Some(text) = of_code("LowerRequest") {
            let to = text.strip_prefix("request ").unwrap();
            let to = number(to) * if to.starts_with(&format!("{}m", number(to))) { 1 } else { 1_000 };
            prop_assert!(case.places_first(to, min_count, &[]), "{}", text);
            prop_assert!(!case.places_first(to + 1, min_count, &[]), "{}", text);
        } else {
            prop_assert!((1..cpu).step_by(100).all(|to| !case.places_first(to, min_count, &[])));
        }
        let n_members = case.members.len();
        let least = (1..=n_members).find(|n| (0..case.nodes.len()).any(|at| {
            case.places_first(cpu, min_count, &vec![at; *n])
        }));
        if let Some(text) = of_code("AddNodeLike") {
            let n = if text.starts_with("one ") { 1 } else { number(&text) };
            prop_assert_eq!(Some(n as usize), least, "{}", text);
        } else {
            prop_assert_eq!(least, None);
        }
    }
}

/// Accepts every node. The question is given up by its caller while this plugin is asked about the pod `m-1`.
#[derive(Default)]
struct Quitter {
    interrupt: Interrupt,
    asked: Mutex<BTreeSet<String>>,
}

impl Plugin for Quitter {
    fn name(&self) -> &str {
        "NodeUnschedulable"
    }

    extension_points!(Filter);
}

impl Filter for Quitter {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, _: &NodeView<'_>) -> Status {
        self.asked.lock().unwrap().insert(pod.name.to_string());
        if *pod.name == *"m-1" {
            self.interrupt.set();
        }
        Status::SUCCESS
    }
}

#[test]
fn a_question_that_is_given_up_ends_within_the_trial_of_a_group() {
    let new = json!({"metadata": {"name": "m-5"}, "spec": {"schedulingGroup": {"podGroupName": "gang"},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]}});
    given_up_within_a_group(QuestionKind::Explanation, &json!({"podName": "m-0"}));
    given_up_within_a_group(QuestionKind::WhatIf, &json!({"changes": [{"addPods": {"pod": new}}]}));
}

fn given_up_within_a_group(kind: QuestionKind, spec: &Value) {
    let quitter = Arc::new(Quitter::default());
    let mut registry = kube_scheduler_plugins_intree::registry();
    let made = quitter.clone();
    registry.replace("NodeUnschedulable", move |_, _| Ok(made.clone())).unwrap();
    let gates = ALL.iter().fold(FeatureGates::default(), |all, gate| all.with(*gate, true));
    let mut config = Configuration::default();
    kube_scheduler_config::default(&mut config, &gates);
    let options = EngineOptions { gates, ..EngineOptions::default() };
    let mut engine = Engine::new(&config, &registry, options).unwrap();
    node(&mut engine, "a", "z", 64);
    group(&mut engine, 5, None);
    for at in 0..5 {
        engine.handle(Input::PodApplied(member(&format!("m-{at}"), 1 + at)), NOW);
    }
    let arguments = json!({"spec": spec});
    let question =
        Question::from_arguments(kind, &arguments, "default", &CompileOptions::default());
    let question = question.unwrap().of_objects();
    let inquiry = Inquiry::new(&question, &engine, NOW);
    inquiry.answer(&question, &quitter.interrupt).unwrap();
    let asked = quitter.asked.lock().unwrap();
    assert!(quitter.interrupt.is_set(), "{kind:?} {asked:?}");
    assert_eq!(*asked, BTreeSet::from(["m-0".to_owned(), "m-1".to_owned()]), "{kind:?}");
}
