//! What waits, in which order, and for what.

use std::sync::Arc;

use kube_scheduler_answers::{
    Inquiry, Interrupt, Question, QuestionKind, Queue, QueueOptions, QueuedPodAnswer, queue,
};
use kube_scheduler_api_types::{CompileOptions, Pod};
use serde_json::{Value, json};

use crate::cluster::{Cluster, NOW, pod};

const FROM_OBJECTS: QueueOptions =
    QueueOptions { max_listed: 100, max_examples: 2, from_objects: true, max_attempts: 1_000 };

fn waiting(cluster: Cluster) -> Cluster {
    let cluster = cluster.node("a", "2", json!({}));
    let cluster = ["huge-1", "huge-2", "huge-3"]
        .iter()
        .fold(cluster, |cluster, name| cluster.pod(pod(name, "100", json!({}))));
    let gates = json!({"schedulingGates": [{"name": "quota"}]});
    cluster
        .pod(pod("gated", "1", gates))
        .pod(pod("small", "1", json!({})))
        .pod(pod("urgent", "1", json!({"priority": 7})))
        .pod(pod("foreign", "1", json!({"schedulerName": "other"})))
}

fn brief(pod: &QueuedPodAnswer) -> (usize, &str, &str, Option<&str>) {
    (pod.order, &pod.pod, pod.place.stage, pod.goes_to.as_deref())
}

#[test]
fn pods_of_objects_wait_for_what_an_attempt_finds() {
    let cluster = waiting(Cluster::new());
    let answer = queue(&cluster.engine, FROM_OBJECTS, NOW);
    let pods: Vec<_> = answer.pods.iter().map(brief).collect();
    assert_eq!(
        pods,
        [
            (1, "default/urgent", "Active", Some("a")),
            (2, "default/small", "Active", Some("a")),
            (3, "default/huge-1", "Unschedulable", None),
            (4, "default/huge-2", "Unschedulable", None),
            (5, "default/huge-3", "Unschedulable", None),
            (6, "default/gated", "Gated", None),
        ]
    );
    let huge = &answer.pods[2];
    assert!(huge.message.as_ref().unwrap().contains("1 Insufficient cpu"), "{huge:?}");
    assert_eq!(huge.place.attempts, 0, "those on the copy do not count");
    assert_eq!(answer.pods[5].place.held_by, ["SchedulingGates"]);
    let groups: Vec<_> = answer.groups.iter().map(|group| (group.stage, group.count)).collect();
    assert_eq!(groups, [("Active", 2), ("Unschedulable", 3), ("Gated", 1)]);
    let group = &answer.groups[1];
    assert_eq!(group.examples, ["default/huge-1", "default/huge-2"]);
    assert_eq!(group.rejected_by, ["NodeResourcesFit"]);
    assert!(group.waits_for.iter().any(|event| event.starts_with("Node")), "{group:?}");
    assert!(answer.warnings.iter().any(|text| text.contains("1 pending pod of other schedulers")));
    assert_eq!(cluster.engine.pending_counts().active, 5, "the cluster itself is as it was");
}

#[test]
fn what_holds_gated_pods_back_is_said() {
    let mut cluster = waiting(Cluster::new());
    for options in [FROM_OBJECTS, QueueOptions::default()] {
        let answer = queue(&cluster.engine, options, NOW);
        let gated = answer.pods.iter().find(|pod| pod.pod == "default/gated").unwrap();
        assert_eq!(gated.message.as_deref(), Some("waiting for scheduling gates: [quota]"));
        let text = answer.table(false);
        let is_said = |line: &str| line.contains("default/gated ") && line.ends_with(": [quota]");
        assert!(text.lines().any(is_said), "{text}");
    }
    // Pods that were rejected while nobody has written why yet.
    while cluster.engine.schedule_next(NOW).is_some() {}
    let text = queue(&cluster.engine, QueueOptions::default(), NOW).table(false);
    let line = text.lines().find(|line| line.starts_with("3         Unschedulable")).unwrap();
    assert!(line.ends_with("by NodeResourcesFit"), "{text}");
}

#[test]
fn a_question_that_is_given_up_makes_no_more_attempts() {
    let cluster = waiting(Cluster::new());
    let arguments = json!({"spec": {}});
    let kind = QuestionKind::Queue;
    let question =
        Question::from_arguments(kind, &arguments, "default", &CompileOptions::default()).unwrap();
    let question = question.of_objects();
    let answered = |interrupt: &Interrupt| {
        let inquiry = Inquiry::new(&question, &cluster.engine, NOW);
        inquiry.answer(&question, interrupt).unwrap().table(true)
    };
    let interrupt = Interrupt::default();
    assert!(!answered(&interrupt).contains("cut short"));
    interrupt.set();
    let text = answered(&interrupt);
    assert!(text.contains("the answer is cut short: it took too long"), "{text}");
}

#[test]
fn a_running_queue_is_said_as_it_is() {
    let mut cluster = waiting(Cluster::new());
    for _ in 0..3 {
        assert!(cluster.engine.schedule_next(NOW).is_some());
    }
    let answer = queue(&cluster.engine, QueueOptions::default(), NOW);
    let stages: Vec<_> = answer.by_stage.iter().map(|(stage, count)| (&**stage, *count)).collect();
    assert_eq!(stages, [("Active", 2), ("Binding", 1), ("Gated", 1), ("Unschedulable", 2)]);
    let pods: Vec<_> = answer.pods.iter().map(brief).collect();
    assert_eq!(pods[0], (1, "default/urgent", "Binding", None), "{pods:?}");
    let (rejected, ready) = (&answer.pods[3], &answer.pods[1]);
    assert_eq!((rejected.place.stage, rejected.place.attempts), ("Unschedulable", 1));
    assert_eq!((ready.place.stage, ready.place.attempts), ("Active", 0));
    assert!(answer.warnings.iter().all(|text| !text.contains("read from objects")));
}

#[test]
fn pods_that_are_being_deleted_do_not_wait() {
    let going = |name: &str, spec: Value| {
        let going = Pod { deletion_requested: Some(NOW), ..(*pod(name, "1", spec)).clone() };
        Arc::new(going)
    };
    let gates = json!({"schedulingGates": [{"name": "quota"}]});
    let mut cluster = waiting(Cluster::new())
        .pod(going("goes", json!({"priority": 9})))
        .pod(going("gated-goes", gates))
        .pod(going("foreign-goes", json!({"schedulerName": "other"})));
    let check = |answer: &Queue, n_wait: usize| {
        let n_listed: usize = answer.by_stage.values().sum();
        assert_eq!((answer.n_being_deleted, answer.n_pods, n_listed), (2, n_wait, n_wait));
        assert_eq!(answer.pods[0].order, 1);
        assert!(answer.pods.iter().all(|pod| !pod.pod.contains("goes")), "{answer:?}");
        let text = answer.table(false);
        assert!(!text.contains("goes"), "{text}");
        let note = "\nnote: 2 pods without a node are being deleted, and are never scheduled\n";
        assert!(text.contains(note), "{text}");
        assert!(text.contains(&format!("\n{n_wait} pods wait: ")), "{text}");
        assert_eq!(serde_json::to_value(answer).unwrap()["nBeingDeleted"], 2);
    };
    for options in [FROM_OBJECTS, QueueOptions::default()] {
        check(&queue(&cluster.engine, options, NOW), 6);
    }
    // One that was passed over at its turn is not queued any more; it is counted as before.
    while cluster.engine.schedule_next(NOW).is_some() {}
    check(&queue(&cluster.engine, QueueOptions::default(), NOW), 6);
    let none = queue(&waiting(Cluster::new()).engine, FROM_OBJECTS, NOW);
    assert!(!none.table(false).contains("being deleted"), "{none:?}");
}

#[test]
fn a_list_is_cut_and_what_is_left_out_is_counted() {
    let cluster = waiting(Cluster::new());
    let options = QueueOptions { max_listed: 2, ..FROM_OBJECTS };
    let answer = queue(&cluster.engine, options, NOW);
    assert_eq!((answer.pods.len(), answer.n_pods), (2, 6));
    assert_eq!((answer.groups.len(), answer.n_groups), (2, 3));
    let text = answer.table(false);
    assert!(text.contains("\nand 4 more pods\n"), "{text}");
    assert!(text.ends_with("6 pods wait: 2 Active, 1 Gated, 3 Unschedulable\n"), "{text}");
}
