//! The order of writes.

use kube_scheduler_api_types::{ConditionText, PodCondition};
use kube_scheduler_engine::{PodRef, StatusPatch, Token};
use kube_scheduler_framework::ObjectWrite;

use super::*;

const NOW: Timestamp = Timestamp::EPOCH;

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "x".into(), name: name.into(), uid: name.into() }
}

fn bind(name: &str) -> PodWrite {
    PodWrite::Bind { token: Token(1), pod: pod(name), node: "n".into() }
}

fn patch(name: &str, nominated: &str) -> PodWrite {
    let patch = StatusPatch {
        condition: None,
        nominated_node_name: Some(Some(nominated.into())),
        has_conditions: false,
    };
    PodWrite::Patch { pod: pod(name), patch, is_announcement: false }
}

#[test]
fn bindings_overtake_patches_of_other_pods_only() {
    let mut lanes = Lanes::default();
    lanes.push(patch("a", "n1"), NOW);
    lanes.push(bind("a"), NOW);
    lanes.push(bind("b"), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")));
    assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is first");
    assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
    assert_eq!(lanes.pop(Urgency::Now), None, "a's patch is under way");
    lanes.finish(&"a".into(), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
    lanes.finish(&"a".into(), NOW);
    lanes.finish(&"b".into(), NOW);
    assert!(lanes.is_empty());
}

fn claim(name: &str) -> PodWrite {
    let key = kube_scheduler_framework::ObjectKey {
        group: "resource.k8s.io".into(),
        kind: "ResourceClaim".into(),
        namespace: "x".into(),
        name: name.into(),
    };
    PodWrite::Object { token: Some(Token(1)), pod: pod(name), write: ObjectWrite::Get(key) }
}

fn announcement(name: &str, node: &str) -> PodWrite {
    let PodWrite::Patch { pod, patch, .. } = patch(name, node) else { panic!("no patch") };
    PodWrite::Patch { pod, patch, is_announcement: true }
}

#[test]
fn a_binding_that_goes_on_is_not_announced() {
    let mut lanes = Lanes::default();
    lanes.push(announcement("a", "n"), NOW);
    lanes.push(claim("a"), NOW);
    let late = NOW + 2 * PATIENCE;
    lanes.wake(late);
    assert_eq!(lanes.pop(Urgency::Soon), None, "the claim comes first");
    assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
    lanes.go_on(&"a".into());
    lanes.finish(&"a".into(), late);
    assert_eq!((lanes.pop(Urgency::Soon), lanes.next_due()), (None, Some(late + PATIENCE)));
    lanes.push(bind("a"), late);
    lanes.wake(late + 2 * PATIENCE);
    assert_eq!(lanes.len(Urgency::Soon), 0);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
    lanes.finish(&"a".into(), late);
    assert!(lanes.is_empty());
    assert_eq!(lanes.next_due(), None);
}

#[test]
fn a_binding_that_takes_long_is_announced() {
    let mut lanes = Lanes::default();
    lanes.push(announcement("a", "n"), NOW);
    lanes.push(announcement("a", "m"), NOW);
    lanes.wake(NOW);
    assert_eq!(lanes.peek(Urgency::Soon), None);
    assert_eq!(lanes.next_due(), Some(NOW + PATIENCE));
    lanes.wake(NOW + PATIENCE);
    assert_eq!((lanes.next_due(), lanes.len(Urgency::Soon)), (None, 1));
    assert_eq!(lanes.peek(Urgency::Soon), Some(&announcement("a", "m")));
    assert_eq!(lanes.pop(Urgency::Now), None);
    assert_eq!(lanes.pop(Urgency::Soon), Some(announcement("a", "m")));
    lanes.push(bind("a"), NOW);
    assert_eq!(lanes.pop(Urgency::Now), None, "one write at a time");
    lanes.finish(&"a".into(), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
}

#[test]
fn a_binding_that_has_failed_is_not_announced() {
    let mut lanes = Lanes::default();
    lanes.push(announcement("a", "n"), NOW);
    lanes.withdraw_announcement(&"a".into());
    assert!(lanes.is_empty() && lanes.next_due().is_none());
    // What else the pod has to write stays.
    lanes.push(claim("a"), NOW);
    lanes.push(announcement("a", "n"), NOW);
    lanes.withdraw_announcement(&"a".into());
    lanes.push(patch("a", "elsewhere"), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
    lanes.finish(&"a".into(), NOW);
    assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "elsewhere")));
    lanes.finish(&"a".into(), NOW);
    assert!(lanes.is_empty());
}

#[test]
fn an_announcement_that_the_server_wants_later_holds_nothing_up() {
    let mut lanes = Lanes::default();
    let due = NOW + 10 * PATIENCE;
    lanes.push(announcement("a", "n"), NOW);
    lanes.wake(NOW + PATIENCE);
    let write = lanes.pop(Urgency::Soon).unwrap();
    assert_eq!(lanes.defer(write, due, 2), None);
    assert_eq!(lanes.next_due(), Some(due));
    lanes.push(claim("a"), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(claim("a")));
    lanes.finish(&"a".into(), due);
    lanes.wake(due + PATIENCE);
    let write = lanes.pop(Urgency::Soon).unwrap();
    lanes.push(bind("a"), NOW);
    assert_eq!(lanes.defer(write, due, 2), None);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("a")));
    lanes.finish(&"a".into(), NOW);
    assert!(lanes.is_empty() && lanes.next_due().is_none());
    // Nor is it written again after the binding has failed meanwhile.
    lanes.push(announcement("a", "n"), NOW);
    let write = lanes.pop(Urgency::Soon).unwrap();
    lanes.withdraw_announcement(&"a".into());
    assert_eq!(lanes.defer(write, due, 2), None);
    assert!(lanes.is_empty() && lanes.next_due().is_none());
}

#[test]
fn a_binding_that_has_started_goes_before_those_that_start() {
    let mut lanes = Lanes::default();
    for name in ["a", "b", "c"] {
        lanes.push(claim(name), NOW);
    }
    lanes.push(bind("plain"), NOW);
    for name in ["a", "b"] {
        assert_eq!(lanes.pop(Urgency::Now), Some(claim(name)));
    }
    for name in ["b", "a"] {
        lanes.go_on(&name.into());
        lanes.finish(&name.into(), NOW);
    }
    for name in ["b", "a"] {
        lanes.push(bind(name), NOW);
    }
    assert_eq!(lanes.len(Urgency::Now), 4);
    for write in [bind("b"), bind("a"), claim("c"), bind("plain")] {
        assert_eq!(lanes.peek(Urgency::Now), Some(&write));
        assert_eq!(lanes.pop(Urgency::Now), Some(write));
    }
    // A binding that starts has to wait.
    lanes.finish(&"a".into(), NOW);
    lanes.push(bind("d"), NOW);
    lanes.push(bind("a"), NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("d")));
}

#[test]
fn what_takes_back_does_not_go_before_bindings() {
    let mut lanes = Lanes::default();
    lanes.push(bind("plain"), NOW);
    lanes.go_on(&"a".into());
    let PodWrite::Object { pod, write, .. } = claim("a") else { panic!("no object") };
    lanes.push(PodWrite::Object { token: None, pod, write }, NOW);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("plain")));
    lanes.push(bind("b"), NOW);
    assert!(lanes.pop(Urgency::Now).is_some());
    lanes.finish(&"a".into(), NOW);
    lanes.push(bind("a"), NOW);
    assert_eq!(
        lanes.pop(Urgency::Now),
        Some(bind("b")),
        "the next binding of a starts from the beginning"
    );
}

#[test]
fn conditions_of_different_kinds_stay_apart() {
    let condition = |kind: &str| {
        let condition = PodCondition {
            text: Arc::new(ConditionText {
                kind: kind.into(),
                status: "True".into(),
                ..ConditionText::default()
            }),
            last_transition: None,
        };
        let patch = StatusPatch {
            condition: Some(condition),
            nominated_node_name: None,
            has_conditions: false,
        };
        PodWrite::Patch { pod: pod("a"), patch, is_announcement: false }
    };
    let mut lanes = Lanes::default();
    lanes.push(condition("DisruptionTarget"), NOW);
    lanes.push(condition("PodScheduled"), NOW);
    for kind in ["DisruptionTarget", "PodScheduled"] {
        assert_eq!(lanes.pop(Urgency::Soon), Some(condition(kind)));
        lanes.finish(&"a".into(), NOW);
    }
}

#[test]
fn what_the_server_wants_later_keeps_its_place() {
    let mut lanes = Lanes::default();
    let start = Timestamp::EPOCH;
    let due = start + std::time::Duration::from_secs(1);
    lanes.push(bind("a"), NOW);
    lanes.push(patch("a", "n1"), NOW);
    lanes.push(bind("b"), NOW);
    let write = lanes.pop(Urgency::Now).unwrap();
    assert_eq!(lanes.defer(write, due, 2), None);
    lanes.wake(start);
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("b")), "others go on");
    assert_eq!(lanes.pop(Urgency::Now), None);
    assert_eq!(lanes.pop(Urgency::Soon), None, "the pod's later writes wait with it");
    assert_eq!(lanes.next_due(), Some(due));
    lanes.push(bind("c"), NOW);
    lanes.wake(due);
    let write = lanes.pop(Urgency::Now).unwrap();
    assert_eq!(write, bind("a"), "before those that came later");
    assert_eq!(lanes.defer(write, due, 2), None);
    lanes.wake(due);
    let write = lanes.pop(Urgency::Now).unwrap();
    assert_eq!(lanes.defer(write, due, 2), Some(bind("a")), "the server asked too often");
    lanes.finish(&"a".into(), NOW);
    assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n1")));
    for pod in ["a", "b"] {
        lanes.finish(&pod.into(), NOW);
    }
    assert_eq!(lanes.pop(Urgency::Now), Some(bind("c")));
    lanes.finish(&"c".into(), NOW);
    assert!(lanes.is_empty());
}

#[test]
fn a_newer_patch_takes_the_place_of_one_that_was_deferred() {
    let mut lanes = Lanes::default();
    let now = Timestamp::EPOCH;
    lanes.push(patch("a", "n1"), NOW);
    let write = lanes.pop(Urgency::Soon).unwrap();
    lanes.push(patch("a", "n2"), NOW);
    assert_eq!(lanes.defer(write, now, 2), None);
    lanes.wake(now);
    assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
    lanes.finish(&"a".into(), NOW);
    assert!(lanes.is_empty());
}

#[test]
fn patches_that_wait_are_one() {
    let mut lanes = Lanes::default();
    lanes.push(patch("a", "n1"), NOW);
    lanes.push(patch("a", "n2"), NOW);
    assert_eq!(lanes.pop(Urgency::Soon), Some(patch("a", "n2")));
    lanes.push(patch("a", "n3"), NOW);
    lanes.push(patch("a", "n4"), NOW);
    lanes.finish(&"a".into(), NOW);
    assert_eq!(
        lanes.pop(Urgency::Soon),
        Some(patch("a", "n4")),
        "what was under way is not touched"
    );
    lanes.finish(&"a".into(), NOW);
    assert!(lanes.is_empty());
}
