//! What plugins may ask for beside their answers, and what they can look up.

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Commands, EventKind, EventRegistration, EventResource,
    PermitDecision, Status, testing,
};
use kube_scheduler_queue::Place;
use serde_json::json;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, node, pod, seconds};

#[test]
fn awaited_work_can_let_waiting_pods_go_and_tell_users() {
    let mut scheduler =
        ToyScheduler::new(vec![Toy::new("W").permit(|_, _| PermitDecision::wait(seconds(30)))]);
    let waiting = pod("p");
    scheduler.try_pod(&waiting);
    scheduler.effects();
    let mut commands = Commands::default();
    commands.record_event(
        &waiting,
        EventKind::Normal,
        "GangReady",
        "Scheduling",
        "x".repeat(2_000),
    );
    commands.allow(&waiting.uid, &"W".into());
    scheduler.input(Input::PluginAsked(commands));
    let effects = scheduler.effects();
    assert!(effects[0].starts_with("event ns/p Normal GangReady Scheduling \"xxx"), "{effects:?}");
    assert!(effects[0].len() < 1_100 && effects[0].ends_with(" ...\""), "{effects:?}");
    assert!(effects[1].starts_with("bind #"), "{effects:?}");
}

#[test]
fn a_plugin_sees_pending_pods_and_can_bring_them_back() {
    let mut scheduler = ToyScheduler::new(vec![
        Toy::new("F").filter(|pod, _| {
            if &*pod.name == "late" { Status::unschedulable("full") } else { Status::SUCCESS }
        }),
        Toy::new("W").permit(|_, _| PermitDecision::allow()).asks(|cx, pod, commands| {
            assert_eq!(cx.pods().pod("ns", "late").unwrap().name, "late".into());
            assert_eq!(cx.pods().all_pods().len(), cx.pods().pods_in("ns").len());
            commands.activate(
                cx.pods().pods_in("ns").into_iter().filter(|other| other.uid != pod.uid).collect(),
            );
        }),
    ]);
    scheduler.try_pod(&pod("late"));
    assert_eq!(scheduler.place("late"), Some(Place::Unschedulable));
    assert_eq!(scheduler.try_pod(&pod("first")), "assumed n1");
    assert_eq!(scheduler.place("late"), Some(Place::Active));
}

/// The controller of nodes' lifecycle writes a taint anew without changing what pods have to tolerate.
#[test]
fn a_taint_that_is_added_again_wakes_pods_that_wait_for_taints() {
    let tainted = |time: &str| {
        let taint = json!({"key": "k", "effect": "NoSchedule", "timeAdded": time});
        node(&format!("n1 {}", json!({"spec": {"taints": [taint]}})))
    };
    let taints = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_TAINT);
    let mut scheduler = ToyScheduler::without_nodes(vec![
        Toy::new("F")
            .filter(|_, _| Status::unschedulable("full"))
            .wants(EventRegistration::always(taints)),
    ]);
    scheduler.input(Input::NodeApplied(tainted("2026-01-02T03:04:05Z")));
    scheduler.try_pod(&pod("p"));
    scheduler.advance(seconds(60));
    scheduler.input(Input::NodeApplied(tainted("2026-01-02T03:04:05Z")));
    assert_eq!(scheduler.place("p"), Some(Place::Unschedulable));
    scheduler.input(Input::NodeApplied(tainted("2026-01-02T03:04:06Z")));
    assert_eq!(scheduler.place("p"), Some(Place::Active));
}

#[test]
fn events_of_custom_kinds_find_those_who_registered_whatever_the_plural() {
    for (kind, plural) in [
        ("Foo", "foos"),
        ("Policy", "policies"),
        ("Box", "boxes"),
        ("Gateway", "gateways"),
        ("Dns", "dns"),
    ] {
        let resource = EventResource::Custom(format!("{plural}.v1.example.com").into());
        let event = ClusterEvent::new(resource, ActionType::ADD);
        let mut scheduler = ToyScheduler::new(vec![
            Toy::new("F")
                .filter(|_, _| Status::unschedulable("full"))
                .wants(EventRegistration::always(event)),
        ]);
        scheduler.try_pod(&pod("p"));
        scheduler.advance(seconds(60));
        let object = json!({
            "apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x", "namespace": "ns"},
        });
        let object = testing::object(&format!("object {object}")).build();
        assert_eq!(scheduler.place("p"), Some(Place::Unschedulable), "{kind}");
        scheduler.input(Input::ObjectApplied(object));
        assert_eq!(scheduler.place("p"), Some(Place::Active), "{kind}");
    }
}
