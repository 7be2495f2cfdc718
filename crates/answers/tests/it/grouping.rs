//! Where the group of a pod stands, and that it then fares as foreseen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube_scheduler_answers::{
    ExplainOptions, Explanation, GroupAnswer, Happening, Inquiry, Interrupt, Preemption, Question,
    QuestionKind, Refusal, Rehearsal, Subject, Verdict, Visibility, explain, preemption,
    suggestions,
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
    group(&mut engine, 2, None);
    let found = answer(&mut engine, "m-0");
    let missing = "waiting for pods of the pod group \"gang\": it needs 2, and 1 exist";
    assert_eq!(found.waits_for.as_deref(), Some(missing));
    assert_eq!(explained(&mut engine, "m-0").verdict, Verdict::DoesNotFit);
    assert_eq!((found.min_count, found.n_pods, found.n_scheduled), (Some(2), 1, 0));
    assert_eq!(found.stages.get("Gated"), Some(&1));
    // One more pod, which does not exist yet, completes it.
    let subject = Subject::Manifest(member("m-1", 1));
    let found = explain(&mut engine, &subject, ExplainOptions::ALL, NOW).unwrap();
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
    // Nothing is suggested for one that fits alone, and that is said.
    let mut suggested = explanation.clone();
    suggested.suggest(&engine, &member("m-0", 2), &Interrupt::default(), NOW);
    assert_eq!(suggested.suggestions, []);
    assert!(suggested.table(false).contains("note: no changes are suggested"));
}

#[test]
fn who_waits_for_pods_of_its_group_is_helped_by_nothing_of_its_own() {
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
    let huge = urgent_member("m-0", 5);
    let found = explain(&mut engine, &Subject::Manifest(huge.clone()), ExplainOptions::ALL, NOW);
    let found = found.unwrap();
    assert_eq!(found.verdict, Verdict::DoesNotFit);
    assert_eq!(suggestions(&engine, &huge, &found, &Interrupt::default(), NOW), []);
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
        Happening::Evicted(pod) => Some(pod.key()),
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
        let Cluster { mut engine } = cluster(&ALL);
        for (at, (zone, cpu)) in case.nodes.iter().enumerate() {
            node(&mut engine, &format!("n-{at}"), &format!("z-{zone}"), *cpu);
        }
        group(&mut engine, case.min_count, case.in_zone.then_some(ZONE));
        for (at, cpu) in case.members.iter().enumerate() {
            engine.handle(Input::PodApplied(member(&format!("m-{at}"), *cpu)), NOW);
        }
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
        let turn = engine.schedule_next(NOW).expect("the group is ready");
        let group = turn.group.expect("it is a group's turn");
        let n_placed = group
            .members
            .iter()
            .filter(|(_, result)| !matches!(result, AttemptResult::Unschedulable(_) | AttemptResult::Error(_)))
            .count();
        let fits = attempt.verdict == "Fits";
        prop_assert_eq!(fits, n_placed > 0, "{:?} {:?}", attempt, group);
        if fits {
            let chosen = |name: &String| attempt.chosen.as_ref().is_none_or(|chosen| chosen == name);
            let domain = attempt.domains.iter().find(|domain| domain.examples.is_empty() || domain.examples.iter().any(chosen));
            prop_assert_eq!(domain.map(|domain| domain.n_placed), Some(n_placed), "{:?} {:?}", attempt, group);
        }
    }
}

/// Accepts every node. Whoever asked the question gives it up while this plugin is asked about the pod `m-1`.
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
