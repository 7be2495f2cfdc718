//! Gangs as scheduler-plugins has them: PodGroups of `scheduling.x-k8s.io` and pods with its label. All of a gang or none of it;
//! what makes no sense says so, and other pods are scheduled as if nothing were.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::ApiError;
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::{Value, json};

use super::group_cluster;

/// As the documents of scheduler-plugins have it.
fn enabled() -> Value {
    json!({
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    })
}

/// A cluster with the plugin and a node of so many CPUs. In each test the pod `bystander` is of no group, and has to be bound whatever
/// happens to the others.
fn cluster(cpus: u32) -> LiveCluster {
    cluster_with_gates(&[], false, cpus)
}

/// The same with these gates.
fn cluster_with_gates(gates: &[&str], plans_gangs_exactly: bool, cpus: u32) -> LiveCluster {
    let profiles = json!([{"schedulerName": "default-scheduler", "plugins": enabled()}]);
    let mut cluster = group_cluster(&profiles, gates, plans_gangs_exactly);
    cluster.apply(&format!("node a cpu={cpus}"));
    cluster
}

fn group(name: &str, spec: Value) -> Arc<Object> {
    let object = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec,
    });
    Arc::new(Object::from_value(object).unwrap())
}

fn apply_group(cluster: &mut LiveCluster, name: &str, spec: Value) {
    cluster.handle(Input::ObjectApplied(group(name, spec)));
}

/// A pod of a group, with more words.
fn member(cluster: &mut LiveCluster, name: &str, group: &str, more: &str) {
    cluster.apply(&format!("pod {name} cpu=1 label:scheduling.x-k8s.io/pod-group={group} {more}"));
}

fn members(cluster: &mut LiveCluster, group: &str, n: usize) -> Vec<String> {
    let names: Vec<String> = (0..n).map(|i| format!("{group}-{i}")).collect();
    names.iter().for_each(|name| member(cluster, name, group, ""));
    names
}

fn bound_of(cluster: &LiveCluster, group: &str) -> usize {
    let prefix = format!("{group}-");
    cluster.bound().iter().filter(|name| name.starts_with(&prefix)).count()
}

#[test]
fn four_that_belong_together_do_not_start_where_three_fit() {
    let mut cluster = cluster(3);
    apply_group(&mut cluster, "train", json!({"minMember": 4}));
    let names = members(&mut cluster, "train", 4);
    cluster.run();
    assert_eq!(cluster.bound(), Vec::<&str>::new());
    let waits = "waiting for minCount pods from a gang to be scheduled";
    let n_waiting = names.iter().filter(|name| cluster.says(name, waits)).count();
    let n_unfit = names.iter().filter(|name| cluster.says(name, "1 Insufficient cpu")).count();
    assert_eq!((n_waiting, n_unfit), (3, 1), "{:#?}", cluster.log);
    // The room is for others.
    cluster.apply("pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    cluster.apply("node b cpu=2");
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 4, "{:#?}", cluster.log);
    // The status of such a group is its controller's.
    assert!(!cluster.log.iter().any(|line| line.contains("PodGroup")), "{:#?}", cluster.log);
}

#[test]
fn two_gangs_that_fit_one_at_a_time_run_one_after_the_other() {
    let mut cluster = cluster(4);
    for gang in ["red", "blue"] {
        apply_group(&mut cluster, gang, json!({"minMember": 3}));
    }
    // Their pods come in turn, so that each gang could have two of the four CPUs.
    for i in 0..3 {
        for gang in ["red", "blue"] {
            member(&mut cluster, &format!("{gang}-{i}"), gang, "");
        }
    }
    cluster.run();
    assert_eq!(
        (bound_of(&cluster, "red"), bound_of(&cluster, "blue")),
        (3, 0),
        "{:#?}",
        cluster.log
    );
    for i in 0..3 {
        cluster.delete(&format!("red-{i}"));
    }
    cluster.run();
    assert_eq!(bound_of(&cluster, "blue"), 3, "{:#?}", cluster.log);
}

#[test]
fn more_pods_than_the_minimum_start_as_far_as_they_fit() {
    let mut cluster = cluster(3);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    members(&mut cluster, "train", 4);
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 3);
    cluster.apply("node b cpu=1");
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 4, "two run already");
}

#[test]
fn a_group_that_does_not_exist_is_waited_for() {
    let mut cluster = cluster(8);
    let names = members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    let text = "waiting for the pod group \\\"scheduling.x-k8s.io/train\\\", which does not exist";
    assert!(names.iter().all(|name| cluster.says(name, text)), "{:#?}", cluster.log);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 2);
}

#[test]
fn a_minimum_above_the_members_is_waited_for_until_it_is_lowered() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "train", json!({"minMember": 3}));
    let names = members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    let text = "waiting for pods of the pod group \\\"scheduling.x-k8s.io/train\\\": it needs 3";
    assert!(names.iter().all(|name| cluster.says(name, text)), "{:#?}", cluster.log);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 2);
}

#[test]
fn a_minimum_that_is_raised_half_way_counts_as_it_is() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    apply_group(&mut cluster, "train", json!({"minMember": 3}));
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    member(&mut cluster, "train-2", "train", "");
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 3);
}

#[test]
fn a_group_that_is_deleted_half_way_fails_its_members_until_it_is_back() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    let names = members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    cluster.handle(Input::ObjectDeleted(group("train", json!({"minMember": 2}))));
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    assert!(
        names.iter().all(|name| cluster.says(name, "PodGroup not found")),
        "{:#?}",
        cluster.log
    );
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 2);
}

#[test]
fn resources_in_sum_are_waited_for() {
    let mut cluster = cluster(4);
    apply_group(&mut cluster, "train", json!({"minMember": 2, "minResources": {"cpu": "6"}}));
    let names = members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    let text = "resource gap: cpu: 3000m";
    assert!(names.iter().all(|name| cluster.says(name, text)), "{:#?}", cluster.log);
    cluster.apply("node b cpu=3");
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 2);
    // What it has itself counts: six in sum are its two and the four that are free.
    member(&mut cluster, "train-2", "train", "");
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 3, "{:#?}", cluster.log);
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "train", json!({"minMember": "two"}));
    let names = members(&mut cluster, "train", 2);
    cluster.apply("pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    let text = "the pod group cannot be read";
    assert!(names.iter().all(|name| cluster.says(name, text)), "{:#?}", cluster.log);
}

#[test]
fn a_pod_may_change_its_group() {
    let mut cluster = cluster(8);
    for gang in ["red", "blue"] {
        apply_group(&mut cluster, gang, json!({"minMember": 2}));
    }
    for (name, gang) in [("red-0", "red"), ("blue-0", "blue")] {
        member(&mut cluster, name, gang, "");
    }
    cluster.run();
    assert_eq!(cluster.bound(), Vec::<&str>::new());
    member(&mut cluster, "blue-0", "red", "version=2");
    cluster.run();
    assert_eq!(cluster.bound(), ["blue-0", "red-0"]);
    assert_eq!(cluster.engine.cluster().n_pod_groups(), 1);
    // One that runs leaves its group, too.
    cluster.apply("pod blue-0 cpu=1 version=3 node=a");
    let state = cluster.engine.cluster().pod_group("default", "scheduling.x-k8s.io/red").unwrap();
    assert_eq!((state.n_known(), state.n_assigned()), (1, 1));
    for name in ["blue-0", "red-0"] {
        cluster.delete(name);
    }
    assert_eq!(cluster.engine.cluster().n_pod_groups(), 0);
}

#[test]
fn labels_mean_nothing_where_the_plugin_is_off() {
    let sorted =
        json!({"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}});
    let profiles = json!([
            {"schedulerName": "default-scheduler", "plugins": enabled()},
            {"schedulerName": "other", "plugins": sorted},
    ]);
    let mut cluster = group_cluster(&profiles, &[], false);
    cluster.apply("node a cpu=8");
    members(&mut cluster, "train", 1);
    member(&mut cluster, "other", "train", "scheduler=other");
    cluster.run();
    assert_eq!(cluster.bound(), ["other"]);
    let mut cluster = group_cluster(&Value::Null, &[], false);
    cluster.apply("node a cpu=8");
    members(&mut cluster, "train", 1);
    cluster.run();
    assert_eq!(cluster.bound(), ["train-0"]);
}

#[test]
fn pods_of_other_schedulers_count_once_they_run() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    members(&mut cluster, "train", 1);
    member(&mut cluster, "foreign", "train", "scheduler=somebody");
    cluster.run();
    assert_eq!(cluster.bound(), Vec::<&str>::new());
    member(&mut cluster, "foreign", "train", "scheduler=somebody node=a");
    cluster.run();
    assert_eq!(cluster.bound(), ["foreign", "train-0"]);
}

/// The gates for PodGroups of `scheduling.k8s.io`.
const WITH_GROUPS: [&str; 2] = ["GenericWorkload", "GangScheduling"];

#[test]
fn the_plugin_for_the_other_kind_leaves_groups_alone() {
    let mut cluster = cluster_with_gates(&WITH_GROUPS, false, 8);
    let names = members(&mut cluster, "train", 2);
    cluster.run();
    apply_group(&mut cluster, "train", json!({"minMember": 3}));
    cluster.run();
    assert_eq!(cluster.bound(), Vec::<&str>::new());
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 2, "{:#?}", cluster.log);
    let mut cluster = cluster_with_gates(&WITH_GROUPS, false, 8);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    members(&mut cluster, "train", 2);
    cluster.handle(Input::ObjectDeleted(group("train", json!({"minMember": 2}))));
    cluster.run();
    assert!(
        names.iter().all(|name| cluster.says(name, "PodGroup not found")),
        "{:#?}",
        cluster.log
    );
}

#[test]
fn groups_of_both_kinds_may_have_one_name() {
    let mut cluster = cluster_with_gates(&WITH_GROUPS, false, 8);
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    cluster.apply("podgroup train min=1 uid=own");
    members(&mut cluster, "train", 1);
    cluster.apply("pod own cpu=1 group=train");
    cluster.run();
    assert_eq!(cluster.bound(), ["own"], "{:#?}", cluster.log);
    member(&mut cluster, "train-1", "train", "");
    cluster.run();
    assert_eq!(cluster.bound(), ["own", "train-0", "train-1"]);
}

/// How many pods of the priority 5 have to go for a gang of two with these priorities.
fn n_evicted_for(priorities: [i32; 2], plans_gangs_exactly: bool) -> usize {
    let gates = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
    let mut cluster = cluster_with_gates(&gates, plans_gangs_exactly, 3);
    for i in 0..3 {
        cluster.apply(&format!("pod old-{i} cpu=1 node=a priority=5"));
    }
    apply_group(&mut cluster, "train", json!({"minMember": 2}));
    for (i, priority) in priorities.into_iter().enumerate() {
        member(&mut cluster, &format!("train-{i}"), "train", &format!("priority={priority}"));
    }
    assert!(cluster.engine.schedule_next(cluster.now).is_some());
    cluster.handle(Input::TimePassed);
    cluster.log.iter().filter(|line| line.starts_with("evict")).count()
}

#[test]
fn a_gang_makes_room_as_its_least_important_pod_may() {
    for plans_gangs_exactly in [false, true] {
        assert_eq!(n_evicted_for([10, 10], plans_gangs_exactly), 2, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([10, 6], plans_gangs_exactly), 2, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([10, 5], plans_gangs_exactly), 0, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([0, 0], plans_gangs_exactly), 0, "{plans_gangs_exactly}");
    }
}

#[test]
fn groups_whose_gate_is_off_are_not_planned_as_gangs() {
    let mut cluster = cluster_with_gates(&["GenericWorkload"], true, 8);
    cluster.apply("podgroup train min=3 uid=own; pod own cpu=1 group=train");
    assert_eq!(cluster.engine.missing_of_group("default", "train"), None);
    cluster.run();
    assert_eq!(cluster.bound(), ["own"], "it waits for nobody: {:#?}", cluster.log);
    apply_group(&mut cluster, "train", json!({"minMember": 3}));
    members(&mut cluster, "train", 2);
    assert!(cluster.engine.missing_of_group("default", "scheduling.x-k8s.io/train").is_some());
    cluster.run();
    assert_eq!(bound_of(&cluster, "train"), 0);
}

#[test]
fn a_label_that_changes_while_the_pod_is_being_bound_counts_if_that_fails() {
    let mut cluster = cluster(8);
    apply_group(&mut cluster, "red", json!({"minMember": 1}));
    apply_group(&mut cluster, "blue", json!({"minMember": 2}));
    member(&mut cluster, "blue-0", "blue", "version=1");
    member(&mut cluster, "red-0", "red", "version=1");
    cluster.held = Some(("red-0", None));
    assert!(cluster.engine.schedule_next(cluster.now).is_some());
    cluster.handle(Input::TimePassed);
    member(&mut cluster, "red-0", "blue", "version=2");
    let Some((_, Some(token))) = cluster.held.take() else { panic!("{:#?}", cluster.log) };
    let state = |cluster: &LiveCluster, name: &str| {
        let state = cluster.engine.cluster().pod_group("default", name);
        state.map(|state| (state.n_known(), state.n_scheduled()))
    };
    assert_eq!(state(&cluster, "scheduling.x-k8s.io/red"), Some((1, 1)), "what is decided stands");
    let refused = ApiError { code: Some(409), ..ApiError::new("Conflict", "no") };
    // The engine alone: the server would show the pod again after its status is written, and so its label.
    cluster.engine.handle(Input::BindingWritten { token, result: Err(refused) }, cluster.now);
    assert_eq!(state(&cluster, "scheduling.x-k8s.io/red"), None);
    assert_eq!(state(&cluster, "scheduling.x-k8s.io/blue"), Some((2, 0)));
    cluster.handle(Input::TimePassed);
    cluster.run();
    assert_eq!(cluster.bound(), ["blue-0", "red-0"], "{:#?}", cluster.log);
}
