//! SchedulingGates, PrioritySort, DefaultBinder.

use std::cmp::Ordering;

use kube_scheduler_framework::api::Timestamp;
use kube_scheduler_framework::testing::Fixture;
use kube_scheduler_framework::{BindOutcome, CycleState, QueuedPodView};

use crate::support::{plugin, pod, text};

#[test]
fn a_gated_pod_waits_for_all_its_gates_in_order() {
    let world = Fixture::new();
    let gates = plugin("SchedulingGates");
    let gated = pod("p gate=foo gate=bar");
    let ask = |pod| text(&gates.as_pre_enqueue().unwrap().pre_enqueue(&world.cx(), pod));
    assert_eq!(
        ask(&gated),
        "UnschedulableAndUnresolvable: waiting for scheduling gates: [foo bar]"
    );
    assert_eq!(ask(&pod("p")), "ok");
}

#[test]
fn higher_priority_then_longer_in_the_queue() {
    let sort = plugin("PrioritySort");
    let sort = sort.as_queue_sort().unwrap();
    let compare = |a: (Option<i32>, i64), b: (Option<i32>, i64)| {
        let pod = |priority: Option<i32>| match priority {
            Some(priority) => pod(&format!("p priority={priority}")),
            None => pod("p"),
        };
        let (pod_a, pod_b) = (pod(a.0), pod(b.0));
        let view = |pod, at| QueuedPodView { pod, queued: Timestamp::from_nanos(at), attempts: 0 };
        sort.compare(view(&pod_a, a.1), view(&pod_b, b.1))
    };
    assert_eq!(compare((Some(5), 9), (Some(3), 1)), Ordering::Less);
    assert_eq!(compare((None, 1), (Some(0), 2)), Ordering::Less);
    assert_eq!(compare((Some(-1), 1), (None, 2)), Ordering::Greater);
    assert_eq!(compare((Some(7), 2), (Some(7), 1)), Ordering::Greater);
    assert_eq!(compare((Some(0), 4), (None, 4)), Ordering::Equal);
    assert!(sort.is_by_priority_then_age());
}

#[test]
fn the_default_binder_wants_the_standard_binding() {
    let world = Fixture::new();
    let binder = plugin("DefaultBinder");
    let outcome =
        binder.as_bind().unwrap().bind(&world.cx(), &mut CycleState::new(), &pod("p"), "n");
    assert!(matches!(outcome, BindOutcome::WriteBinding));
}
