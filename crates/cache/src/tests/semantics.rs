//! Single behaviours that have a name.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};

use super::fixtures::{node, pod};
use super::follower::Follower;
use crate::{ChangeKinds, Changes, ClusterState, ObjectStore, check};

fn kinds_since(cluster: &ClusterState, sequence: u64) -> Vec<ChangeKinds> {
    match cluster.changes_since(sequence) {
        Changes::Entries(entries) => entries.map(|change| change.kinds).collect(),
        Changes::Lost => panic!("lost"),
    }
}

/// The change that `change` makes to a node with `labels`, `taints` and so on from `shape`.
#[track_caller]
fn check_kinds(change: impl FnOnce(&mut Node), expected: &[ChangeKinds]) {
    let mut cluster = ClusterState::new();
    let before = node(0, 0x155);
    cluster.add_node(before.clone());
    let sequence = cluster.sequence();
    let mut after = (*before).clone();
    change(&mut after);
    cluster.update_node(Arc::new(after));
    assert_eq!(kinds_since(&cluster, sequence), expected);
    assert_eq!(check(&cluster), []);
}

#[test]
fn an_update_is_logged_by_what_differs() {
    let other = node(0, 0x2aa | 1 << 10 | 1 << 11 | 1 << 14 | 1 << 15);
    check_kinds(|node| node.resource_version = "2".into(), &[]);
    check_kinds(|node| node.labels = other.labels.clone(), &[ChangeKinds::LABELS]);
    check_kinds(|node| node.taints = other.taints.clone(), &[ChangeKinds::TAINTS]);
    check_kinds(|node| node.unschedulable = true, &[ChangeKinds::UNSCHEDULABLE]);
    check_kinds(|node| node.allowed_pods += 1, &[ChangeKinds::ALLOCATABLE]);
    check_kinds(|node| node.feature_bits = 5, &[ChangeKinds::FEATURES]);
    check_kinds(|node| node.annotations = other.annotations.clone(), &[ChangeKinds::ANNOTATIONS]);
    check_kinds(|node| node.conditions = other.conditions.clone(), &[ChangeKinds::CONDITIONS]);
    check_kinds(|node| node.images = other.images.clone(), &[ChangeKinds::IMAGES]);
    check_kinds(|node| node.uid = "another".into(), &[ChangeKinds::IDENTITY]);
    check_kinds(
        |node| {
            node.unschedulable = true;
            node.taints = Arc::from([]);
        },
        &[ChangeKinds::TAINTS | ChangeKinds::UNSCHEDULABLE],
    );
}

#[test]
fn confirming_an_assumed_pod_sends_nobody_looking_again() {
    let mut cluster = ClusterState::new();
    let idx = cluster.add_node(node(0, 0));
    cluster.assume_pod(pod(1, 0, 5, 0)).unwrap();
    let sequence = cluster.sequence();
    assert_eq!(cluster.add_pod(pod(1, 0, 5, 1)), Ok(idx));
    assert_eq!(kinds_since(&cluster, sequence), [ChangeKinds::POD_STATUS]);
    assert_eq!((cluster.n_assumed(), cluster.n_pods()), (0, 1));
    // A relabelled pod may matter to others.
    cluster.update_pod(pod(1, 0, 5 | 1 << 11, 1)).unwrap();
    assert_eq!(kinds_since(&cluster, sequence + 1), [ChangeKinds::PODS]);
}

#[test]
fn a_confirmation_that_takes_a_freed_port_again_is_a_change() {
    let port_80 = 1 << 2;
    let mut cluster = ClusterState::new();
    let idx = cluster.add_node(node(0, 0));
    cluster.assume_pod(pod(1, 0, port_80, 0)).unwrap();
    cluster.add_pod(pod(2, 0, port_80, 0)).unwrap();
    cluster.remove_pod("u2").unwrap();
    assert!(cluster.used_ports(idx).is_empty(), "one of two holders frees the port");
    let sequence = cluster.sequence();
    cluster.add_pod(pod(1, 0, port_80, 0)).unwrap();
    assert_eq!(cluster.used_ports(idx).len(), 1);
    assert_eq!(kinds_since(&cluster, sequence), [ChangeKinds::PODS]);
}

#[test]
fn a_pod_confirmed_on_another_node_moves_and_both_nodes_change() {
    let mut cluster = ClusterState::new();
    let (a, b) = (cluster.add_node(node(0, 0)), cluster.add_node(node(1, 0)));
    cluster.assume_pod(pod(1, 0, 1 << 8, 0)).unwrap();
    let sequence = cluster.sequence();
    assert_eq!(cluster.add_pod(pod(1, 1, 1 << 8, 0)), Ok(b));
    let Changes::Entries(entries) = cluster.changes_since(sequence) else { panic!("lost") };
    assert_eq!(entries.map(|change| change.node).collect::<Vec<_>>(), [a, b]);
    assert_eq!(
        (cluster.requested().milli_cpu().get(a), cluster.requested().milli_cpu().get(b)),
        (0, 100)
    );
}

#[test]
fn a_ghost_lives_as_long_as_its_pods() {
    let mut cluster = ClusterState::new();
    let ghost = cluster.add_pod(pod(1, 3, 1 << 8, 0)).unwrap();
    assert_eq!((cluster.n_nodes(), cluster.n_ghosts()), (0, 1));
    assert_eq!((cluster.node_idx("n3"), cluster.node(ghost)), (None, None));
    // The node comes, in the same slot, and goes again.
    assert_eq!(cluster.add_node(node(3, 0)), ghost);
    assert_eq!(cluster.requested().milli_cpu().get(ghost), 100);
    cluster.remove_node("n3").unwrap();
    cluster.remove_node("n3").unwrap();
    assert_eq!((cluster.n_nodes(), cluster.n_ghosts()), (0, 1));
    cluster.remove_pod("u1").unwrap();
    assert_eq!(cluster.n_ghosts(), 0);
    assert_eq!(cluster.remove_node("n3").unwrap_err().to_string(), "node n3 is not found");
    assert_eq!(cluster.add_node(node(4, 0)), ghost, "the slot is used again");
    assert_eq!(check(&cluster), []);
}

#[test]
fn claims_of_pods_on_ghosts_do_not_count() {
    let mut cluster = ClusterState::new();
    let two_volumes = 2 << 6;
    cluster.add_pod(pod(1, 0, two_volumes, 0)).unwrap();
    assert_eq!(cluster.pvc_ref_count("default", "c1"), 0);
    cluster.add_node(node(0, 0));
    assert_eq!(cluster.pvc_ref_count("default", "c1"), 2);
    cluster.add_pod(pod(2, 0, 1 << 6, 0)).unwrap();
    assert_eq!(cluster.pvc_ref_count("default", "c1"), 3);
    cluster.remove_node("n0").unwrap();
    assert_eq!(cluster.pvc_ref_count("default", "c1"), 0);
}

#[test]
fn terms_have_a_version_that_moves_with_them_alone() {
    let anti_affinity_by_hostname = 3 << 4 | 3 << 12;
    let with_namespace_selector = anti_affinity_by_hostname | 1 << 14;
    let mut cluster = ClusterState::new();
    cluster.add_node(node(0, 0));
    cluster.add_node(node(1, 0));
    let mut version = cluster.affinity_terms_version();
    let mut moves = |cluster: &ClusterState, what: &str, expected: bool| {
        let now = cluster.affinity_terms_version();
        assert_eq!(now != version, expected, "{what}");
        version = now;
        assert_eq!(check(cluster), [], "{what}");
    };
    let namespace = |team: &str| {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"default","labels":{{"team":"{team}"}}}}}}"#
        );
        Arc::new(Object::from_json(json).unwrap())
    };
    cluster.assume_pod(pod(1, 0, 0, 0)).unwrap();
    moves(&cluster, "a plain pod", false);
    cluster.assume_pod(pod(2, 0, anti_affinity_by_hostname, 0)).unwrap();
    moves(&cluster, "a pod with a term", true);
    cluster.add_pod(pod(2, 0, anti_affinity_by_hostname, 1)).unwrap();
    moves(&cluster, "its confirmation", false);
    cluster.update_node(node(0, 1 << 10));
    moves(&cluster, "a cordon", false);
    cluster.update_node(node(1, 1));
    moves(&cluster, "labels of a node without terms", false);
    cluster.update_node(node(0, 1));
    moves(&cluster, "labels of a node with terms", true);
    cluster.objects_mut().upsert(namespace("b"));
    moves(&cluster, "a namespace that no term selects", false);
    cluster.add_pod(pod(3, 1, with_namespace_selector, 0)).unwrap();
    moves(&cluster, "a term with a namespace selector", true);
    cluster.objects_mut().upsert(namespace("a"));
    moves(&cluster, "a namespace", true);
    cluster.remove_node("n1").unwrap();
    moves(&cluster, "a node that becomes a ghost", true);
    cluster.remove_pod("u3").unwrap();
    moves(&cluster, "the last pod with a term", true);
    cluster.remove_pod("u1").unwrap();
    moves(&cluster, "a plain pod that goes", false);
}

#[test]
fn pods_without_identity_or_node_are_refused() {
    let mut cluster = ClusterState::new();
    let anonymous = Arc::new(Pod { uid: "".into(), ..(*pod(1, 0, 0, 0)).clone() });
    let homeless = Arc::new(Pod { node_name: None, ..(*pod(1, 0, 0, 0)).clone() });
    let empty_uid = "cannot get cache key for pod with empty UID";
    assert_eq!(cluster.assume_pod(anonymous.clone()).unwrap_err().to_string(), empty_uid);
    assert_eq!(cluster.add_pod(anonymous.clone()).unwrap_err().to_string(), empty_uid);
    assert_eq!(cluster.update_pod(anonymous).unwrap_err().to_string(), empty_uid);
    assert_eq!(cluster.forget_pod("").unwrap_err().to_string(), empty_uid);
    assert_eq!(
        cluster.add_pod(homeless).unwrap_err().to_string(),
        "pod u1(default/u1-name) has no node name"
    );
    assert_eq!(cluster.sequence(), 0);
}

#[test]
fn a_follower_that_falls_behind_reads_everything_again() {
    let mut cluster = ClusterState::new();
    for which in 0..5 {
        cluster.add_node(node(which, 0));
    }
    let mut follower = Follower::default();
    follower.catch_up(&cluster);
    let seen_to = cluster.sequence();
    for round in 0..9_000 {
        let which = u8::from(round % 2 == 0);
        cluster.assume_pod(pod(which, which, round, 0)).unwrap();
        if round < 8_999 {
            cluster.forget_pod(if which == 0 { "u0" } else { "u1" }).unwrap();
        }
    }
    assert!(matches!(cluster.changes_since(seen_to), Changes::Lost));
    follower.catch_up(&cluster);
    follower.assert_up_to_date(&cluster);
}

#[test]
fn membership_and_images_have_their_own_clocks() {
    let mut cluster = ClusterState::new();
    cluster.add_node(node(0, 1 << 8));
    assert_eq!((cluster.membership_sequence(), cluster.image_sequence()), (1, 1));
    cluster.assume_pod(pod(1, 0, 0, 0)).unwrap();
    assert_eq!((cluster.membership_sequence(), cluster.image_sequence()), (1, 1));
    cluster.update_node(node(0, 2 << 8));
    assert_eq!((cluster.membership_sequence(), cluster.image_sequence()), (1, 3));
    cluster.add_node(node(1, 0));
    assert_eq!((cluster.membership_sequence(), cluster.image_sequence()), (4, 3));
    cluster.remove_node("n0").unwrap();
    assert_eq!((cluster.membership_sequence(), cluster.image_sequence()), (5, 5));
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str, label: &str) -> Arc<Object> {
    let json = format!(
        r#"{{"apiVersion":"{api_version}","kind":"{kind}",
            "metadata":{{"namespace":"{namespace}","name":"{name}","labels":{{"l":"{label}"}}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

#[test]
fn objects_are_kept_by_kind_in_order() {
    let mut store = ObjectStore::default();
    for (namespace, name) in [("b", "1"), ("a", "2"), ("a", "1")] {
        store.upsert(object("policy/v1", "PodDisruptionBudget", namespace, name, "x"));
    }
    store.upsert(object("v1", "Namespace", "", "a", "red"));
    let fork = store.clone();

    let names = |store: &ObjectStore| -> Vec<String> {
        let budgets = store.list("policy", "PodDisruptionBudget");
        budgets.map(|object| format!("{}/{}", object.namespace, object.name)).collect()
    };
    assert_eq!(names(&store), ["a/1", "a/2", "b/1"]);
    assert_eq!(store.list_in("policy", "PodDisruptionBudget", "a").count(), 2);
    assert_eq!(store.namespace_labels("a").and_then(|labels| labels.get("l")), Some("red"));
    assert_eq!(store.namespace_labels("b"), None);
    assert_eq!(store.kind_sequence("policy", "PodDisruptionBudget"), 3);
    assert_eq!((store.kind_sequence("", "Namespace"), store.sequence()), (1, 4));

    // Another version of the group is the same kind.
    let newer = object("policy/v2", "PodDisruptionBudget", "b", "1", "y");
    assert!(store.upsert(newer.clone()).is_some());
    assert!(store.remove("policy", "PodDisruptionBudget", "a", "1").is_some());
    assert!(store.remove("policy", "PodDisruptionBudget", "a", "1").is_none());
    assert_eq!(names(&store), ["a/2", "b/1"]);
    assert_eq!(store.get("policy", "PodDisruptionBudget", "b", "1"), Some(&newer));
    assert_eq!(store.n_objects("policy", "PodDisruptionBudget"), 2);
    assert_eq!(store.kind_sequence("policy", "PodDisruptionBudget"), 5);

    assert_eq!(names(&fork), ["a/1", "a/2", "b/1"]);
    assert_eq!((fork.n_objects("policy", "PodDisruptionBudget"), fork.sequence()), (3, 4));
}
