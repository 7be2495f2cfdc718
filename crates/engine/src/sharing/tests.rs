//! Parts that are equal are kept once, and what is gone leaves nothing behind.

use serde_json::{Value, json};

use super::*;

fn pod(name: &str, change: impl Fn(&mut Value)) -> Arc<Pod> {
    let mut json = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "labels": {"app": "web"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true,
            }],
        },
        "spec": {
            "nodeName": "n1",
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "containers": [{
                "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": format!("2026-01-01T00:00:0{}Z", name.len()),
            }],
        },
    });
    change(&mut json);
    Arc::new(Pod::from_value(&json).unwrap())
}

fn shared(sharing: &mut Deduplicator, pod: Arc<Pod>) -> Arc<Pod> {
    let before = (*pod).clone();
    let mut object = EventObject::Pod(pod);
    sharing.share(&mut object);
    let EventObject::Pod(pod) = object else { panic!("{object:?}") };
    assert_eq!(*pod, before);
    assert_eq!(format!("{pod:?}"), format!("{before:?}"));
    pod
}

#[test]
fn pods_of_one_template_share_all_but_what_is_their_own() {
    let mut table = Deduplicator::default();
    let a = shared(&mut table, pod("a", |_| ()));
    let b = shared(&mut table, pod("bb", |_| ()));
    assert!(Arc::ptr_eq(&a.spec, &b.spec));
    assert!(Arc::ptr_eq(&a.requests, &b.requests));
    assert!(Arc::ptr_eq(&a.namespace, &b.namespace));
    assert!(a.labels.is_same_allocation(&b.labels));
    assert!(Arc::ptr_eq(a.controller.as_ref().unwrap(), b.controller.as_ref().unwrap()));
    assert!(Arc::ptr_eq(&a.status.conditions[0].text, &b.status.conditions[0].text));
    assert_ne!(a.status, b.status);
}

#[test]
fn pods_that_wait_share_what_is_said_of_them() {
    let waiting = |name: &str, second: u8| {
        pod(name, |pod| {
            pod["spec"]["nodeName"].take();
            pod["status"] = json!({"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room",
                "lastTransitionTime": format!("2026-01-01T00:00:0{second}Z"),
            }]});
        })
    };
    let mut table = Deduplicator::default();
    let a = shared(&mut table, waiting("a", 1));
    let b = shared(&mut table, waiting("b", 1));
    let later = shared(&mut table, waiting("c", 2));
    assert!(Arc::ptr_eq(&a.spec, &b.spec) && Arc::ptr_eq(&a.status, &b.status));
    assert_ne!(a.status, later.status);
    assert!(Arc::ptr_eq(&a.status.conditions[0].text, &later.status.conditions[0].text));
}

#[test]
fn every_difference_keeps_parts_apart() {
    let changes: [fn(&mut Value); 8] = [
        |pod| pod["spec"]["priority"] = 1.into(),
        |pod| pod["spec"]["preemptionPolicy"] = "Never".into(),
        |pod| pod["spec"]["nodeSelector"] = json!({"a": "b"}),
        |pod| pod["spec"]["tolerations"] = json!([]),
        |pod| pod["spec"]["affinity"] = json!({"podAffinity": {}}),
        |pod| pod["spec"]["affinity"] = json!({"nodeAffinity": {}}),
        |pod| {
            pod["spec"]["volumes"] =
                json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        },
        |pod| pod["spec"]["containers"][0]["image"] = "other".into(),
    ];
    let mut table = Deduplicator::default();
    let first = shared(&mut table, pod("a", |_| ()));
    for change in changes {
        let other = shared(&mut table, pod("a", change));
        let has_same_volumes = Arc::ptr_eq(&first.volumes, &other.volumes);
        assert!(!(Arc::ptr_eq(&first.spec, &other.spec) && has_same_volumes), "{other:?}");
    }
}

#[test]
fn amounts_that_are_written_differently_stay_so() {
    let mut table = Deduplicator::default();
    let first = shared(&mut table, pod("a", |_| ()));
    for cpu in ["1000m", "1e0", "1.0"] {
        let other = shared(
            &mut table,
            pod("a", |pod| {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
            }),
        );
        assert_eq!(first.requests, other.requests);
    }
}

#[test]
fn nodes_share_images_and_texts() {
    let node = |name: &str| {
        let json = json!({
            "metadata": {
                "name": name, "labels": {"zone": "z", "host": name}, "annotations": {"a": "b"},
            },
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [{"names": ["i@1", "i:1"], "sizeBytes": 7}],
            },
        });
        Arc::new(Node::from_value(&json).unwrap())
    };
    let mut table = Deduplicator::default();
    let (mut a, mut b) = (node("a"), node("b"));
    let mut other = {
        let mut node = node("c");
        Arc::make_mut(&mut node).images =
            [a.images[0].clone(), NodeImage { names: Arc::default(), size_bytes: 1 }].into();
        node
    };
    for node in [&mut a, &mut b, &mut other] {
        let before = (**node).clone();
        table.share_node(node);
        assert_eq!(**node, before);
    }
    assert!(Arc::ptr_eq(&a.images, &b.images));
    assert!(Arc::ptr_eq(&a.images[0].names, &other.images[0].names));
    assert!(Arc::ptr_eq(&a.taints, &b.taints));
    assert!(a.annotations.is_same_allocation(&b.annotations));
    assert!(Arc::ptr_eq(&a.conditions, &b.conditions));
    assert!(Arc::ptr_eq(&a.allocatable_quantities, &b.allocatable_quantities));
    assert!(Arc::ptr_eq(
        &a.labels.get_shared("zone").unwrap(),
        &b.labels.get_shared("zone").unwrap()
    ));
}

#[test]
fn nodes_share_taints_and_keep_when_they_got_them() {
    let tainted = |second: u32| {
        let taint = json!({
            "key": "k", "effect": "NoExecute", "timeAdded": format!("2026-01-02T03:04:{second:02}Z"),
        });
        let json = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}});
        Arc::new(Node::from_value(&json).unwrap())
    };
    let mut table = Deduplicator::default();
    let (mut early, mut late) = (tainted(5), tainted(6));
    table.share_node(&mut early);
    table.share_node(&mut late);
    assert!(Arc::ptr_eq(&early.taints, &late.taints));
    assert_ne!(early.taint_times, late.taint_times);
}

#[test]
fn what_no_object_holds_is_dropped() {
    let mut table = Deduplicator::default();
    let kept = shared(&mut table, pod("kept", |_| ()));
    for at in 0..5 * SWEPT_FROM {
        shared(&mut table, pod("a", |pod| pod["spec"]["nodeName"] = format!("n{at}").into()));
    }
    assert!(table.texts.parts.len() <= SWEPT_FROM + 1, "{}", table.texts.parts.len());
    let again = shared(&mut table, pod("kept", |_| ()));
    assert!(Arc::ptr_eq(&kept.spec, &again.spec));
}

/// Pods with 60,000 labels each.
#[test]
fn nothing_stays_of_objects_that_are_gone() {
    let mut table = Deduplicator::default();
    let labels = |pod: &mut Value, at: usize| {
        let labels = (0..200).map(|n| (format!("k{at}-{n}"), format!("v{at}-{n}").into()));
        pod["metadata"]["labels"] = Value::Object(labels.collect());
    };
    let kept = shared(&mut table, pod("kept", |_| ()));
    table.sweep();
    let capacities = |table: &Deduplicator| {
        [table.texts.parts.capacity(), table.labels.parts.capacity(), table.specs.parts.capacity()]
    };
    let before = (table.texts.parts.len(), capacities(&table));
    let large: Vec<_> =
        (0..300).map(|at| shared(&mut table, pod("large", |pod| labels(pod, at)))).collect();
    assert!(table.texts.parts.len() > 60_000);
    drop(large);
    table.sweep();
    assert_eq!((table.texts.parts.len(), capacities(&table)), before);
    let again = shared(&mut table, pod("kept", |_| ()));
    assert!(Arc::ptr_eq(&kept.spec, &again.spec));
}

#[test]
fn texts_of_very_many_labels_are_in_no_table() {
    let mut table = Deduplicator::default();
    let large = |name: &str| {
        pod(name, |pod| {
            let labels = (0..60_000).map(|n| (format!("k{n}"), format!("v{n}").into()));
            pod["metadata"]["labels"] = Value::Object(labels.collect());
        })
    };
    let a = shared(&mut table, large("a"));
    assert!(table.texts.parts.len() < 100, "{}", table.texts.parts.len());
    assert!(shared(&mut table, large("b")).labels.is_same_allocation(&a.labels));
}

/// Fewer pods than a table is swept for, each with one long text of its own.
#[test]
fn what_no_object_holds_is_bounded_in_bytes() {
    const LENGTH: usize = 200_000;
    let large = |at: usize| {
        let text = format!("{at}-{}", "x".repeat(LENGTH));
        pod("large", |pod| pod["metadata"]["labels"]["long"] = text.clone().into())
    };
    let mut table = Deduplicator::default();
    // The text is part of the labels, too.
    let one = 2 * LENGTH + 10_000;
    for at in 0..100 {
        shared(&mut table, large(at));
        assert!(table.size().n_bytes <= SWEPT_FROM_BYTES + one, "{:?} at {at}", table.size());
    }
    let kept: Vec<_> = (0..40).map(|at| shared(&mut table, large(at))).collect();
    table.sweep();
    let size = table.size();
    assert!((kept.len() * 2 * LENGTH..kept.len() * one).contains(&size.n_bytes), "{size:?}");
    for at in 100..300 {
        shared(&mut table, large(at));
        assert!(table.size().n_bytes <= 2 * size.n_bytes + one, "{:?} at {at}", table.size());
    }
    table.sweep();
    assert_eq!(table.size(), size);
}

#[test]
fn pods_with_claims_of_their_own_do_not_collide() {
    let hash = |claim: &str| {
        let status = json!({"resourceClaimStatuses": [{"name": "c", "resourceClaimName": claim}]});
        let pod =
            json!({"metadata": {"namespace": "a", "name": "p"}, "spec": {}, "status": status});
        weigh(&Pod::from_value(&pod).unwrap().status).hash
    };
    assert_ne!(hash("one"), hash("two"));
    assert_eq!(hash("one"), hash("one"));
}
