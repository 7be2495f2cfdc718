//! GangScheduling: after which events a gang is worth a retry.

use std::sync::Arc;

use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::testing::Fixture;
use kube_scheduler_framework::topics::Topics;
use kube_scheduler_framework::{EventObject, EventRegistration, EventResource};
use serde_json::json;

use crate::support::{plugin, pod};

/// A pod of this name, namespace and group.
fn member(name: &str, namespace: &str, group: Option<&str>) -> Arc<Pod> {
    let json = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}")},
        "spec": {"schedulingGroup": group.map(|group| json!({"podGroupName": group}))},
    });
    Arc::new(Pod::from_value(&json).unwrap())
}

fn gang(namespace: &str, name: &str, min_count: i32) -> Arc<Object> {
    let json = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": name, "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    Arc::new(Object::from_value(json).unwrap())
}

fn registered(resource: &EventResource) -> EventRegistration {
    let plugin = plugin("GangScheduling");
    let mut all = plugin.as_enqueue_extensions().unwrap().events_to_register();
    all.retain(|registration| registration.event.resource() == resource);
    all.pop().unwrap()
}

/// Whether the hint says yes; it must be asked about such a pod and event then.
fn helps(
    world: &Fixture,
    registered: &EventRegistration,
    pod: &Pod,
    objects: (Option<&EventObject>, Option<&EventObject>),
) -> bool {
    let (old, new) = objects;
    let hint = registered.hint.as_ref().unwrap();
    let helps = hint(&world.cx(), pod, old, new) == Ok(true);
    let is_asked = registered.concerns(&world.cx(), pod, old, new);
    assert!(is_asked || !helps, "nobody asks about {pod:?} after {old:?} {new:?}");
    helps
}

#[test]
fn a_pod_that_joins_a_gang_concerns_its_members_once_it_is_complete() {
    let pods = registered(&EventResource::Pod);
    let (mut n_helped, mut n_asked, mut n_asked_of_all) = (0, 0, 0);
    for (n_known, min_count, has_group) in
        (0..3).flat_map(|n| (1..4).flat_map(move |min| [(n, min, true), (n, min, false)]))
    {
        let mut world = Fixture::new();
        if has_group {
            world.cluster_mut().upsert_object(gang("a", "g", min_count));
        }
        for at in 0..n_known {
            let known = member(&format!("m{at}"), "a", Some("g"));
            world.cluster_mut().group_member_known(&known);
        }
        for (namespace, group) in
            [("a", Some("g")), ("a", Some("h")), ("a", None), ("b", Some("g"))]
        {
            let added = member("new", namespace, group);
            let mut world = world.clone();
            world.cluster_mut().group_member_known(&added);
            let event = EventObject::Pod(added);
            let is_complete = has_group
                && (namespace, group) == ("a", Some("g"))
                && n_known + 1 >= usize::try_from(min_count).unwrap();
            for waiting in [
                member("w", "a", Some("g")),
                member("w", "b", Some("g")),
                member("w", "a", Some("h")),
                member("w", "a", None),
            ] {
                let is_member =
                    (&*waiting.namespace, waiting.spec.pod_group.as_deref()) == ("a", Some("g"));
                let helped = helps(&world, &pods, &waiting, (None, Some(&event)));
                assert_eq!(helped, is_complete && is_member);
                n_helped += usize::from(helped);
                n_asked += usize::from(pods.concerns(&world.cx(), &waiting, None, Some(&event)));
                n_asked_of_all += 1;
            }
            let topics = pods.topics_of_event(&world.cx(), None, Some(&event));
            assert_eq!(topics == Topics::Only(Vec::new()), !is_complete);
        }
    }
    assert!(n_helped > 0);
    assert_eq!(n_asked, n_helped, "of {n_asked_of_all}: no others are asked");
}

#[test]
fn a_group_that_asks_for_something_else_concerns_its_members() {
    let groups = registered(&EventResource::PodGroup);
    let world = Fixture::new();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let group = gang("a", "g", 4);
        let mut json = serde_json::Value::from(&*group.json);
        change(&mut json);
        EventObject::Other(Arc::new(Object::from_value(json).unwrap()))
    };
    let (before, of_g) = (with(&|_| ()), member("w", "a", Some("g")));
    let nobody = Topics::Only(Vec::new());
    let min_count =
        |n| with(&move |group| group["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(n));
    let lowered = min_count(2);
    assert!(helps(&world, &groups, &of_g, (Some(&before), Some(&lowered))));
    assert!(!helps(&world, &groups, &member("w", "a", Some("h")), (Some(&before), Some(&lowered))));
    assert_ne!(groups.topics_of_event(&world.cx(), Some(&before), Some(&lowered)), nobody);
    // The scheduler itself writes conditions.
    let condition = json!({"conditions": [{"type": "PodGroupScheduled", "status": "False"}]});
    let said = with(&|group| group["status"] = condition.clone());
    assert!(!helps(&world, &groups, &of_g, (Some(&before), Some(&said))));
    assert_eq!(groups.topics_of_event(&world.cx(), Some(&before), Some(&said)), nobody);
    // A group that could not be read, because of its specification or of its status.
    let unreadable = [
        with(&|group| group["spec"]["disruptionMode"] = json!({"most": {}})),
        with(&|group| group["status"] = json!({"conditions": 3})),
    ];
    for bad in &unreadable {
        assert!(helps(&world, &groups, &of_g, (Some(bad), Some(&before))));
        assert_ne!(groups.topics_of_event(&world.cx(), Some(bad), Some(&before)), nobody);
    }
}

#[test]
fn a_group_that_comes_concerns_its_members() {
    let groups = registered(&EventResource::PodGroup);
    let world = Fixture::new();
    let other = |name: &str| EventObject::Other(gang("a", name, 2));
    let of_g = member("w", "a", Some("g"));
    assert!(helps(&world, &groups, &of_g, (None, Some(&other("g")))));
    assert!(!helps(&world, &groups, &of_g, (None, Some(&other("h")))));
    assert!(!helps(&world, &groups, &of_g, (Some(&other("g")), Some(&other("g")))));
    assert!(!helps(&world, &groups, &member("w", "b", Some("g")), (None, Some(&other("g")))));
    assert!(!groups.concerns(&world.cx(), &of_g, None, Some(&other("h"))));
    assert!(!groups.concerns(&world.cx(), &pod("p"), None, Some(&other("g"))));
}
