//! Gangs as scheduler-plugins has them: PodGroups of `scheduling.x-k8s.io` and pods with its label. All of a gang or none of it;
//! what makes no sense says so, and other pods are scheduled as if nothing were.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use super::group_world::GroupWorld;
use kube_scheduler_api_types::Object;
use kube_scheduler_config::FeatureGates;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::ApiError;
use kube_scheduler_tests::fixtures::{self, node_applied, object_applied, pod_group};
use serde_json::{Value, json};

const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// As the documents of scheduler-plugins have it.
fn enabled() -> Value {
    json!({
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    })
}

/// A world with the plugin and a node of so many CPUs.
fn world(cpus: u32) -> GroupWorld {
    world_with(json!([{"schedulerName": "default-scheduler", "plugins": enabled()}]), cpus)
}

fn world_with(profiles: Value, cpus: u32) -> GroupWorld {
    let mut world = GroupWorld::new(&profiles, FeatureGates::default(), false);
    node(&mut world, "a", cpus);
    world
}

fn node(world: &mut GroupWorld, name: &str, cpus: u32) {
    let node = json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpus, "memory": "64Gi", "pods": "100"}},
    });
    world.handle(node_applied(&node));
}

fn group(name: &str, spec: Value) -> Arc<Object> {
    let object = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "x", "name": name, "uid": name}, "spec": spec,
    });
    Arc::new(Object::from_value(object).unwrap())
}

fn apply_group(world: &mut GroupWorld, name: &str, spec: Value) {
    world.handle(Input::ObjectApplied(group(name, spec)));
}

fn members(world: &mut GroupWorld, group: &str, n: usize) -> Vec<String> {
    let names: Vec<String> = (0..n).map(|i| format!("{group}-{i}")).collect();
    for name in &names {
        world.pod(name, &json!({"metadata": {"labels": {LABEL: group}}}));
    }
    names
}

fn delete_pod(world: &mut GroupWorld, name: &str) {
    world.pods.remove(name);
    world.handle(Input::PodDeleted { namespace: "x".into(), name: name.into() });
}

/// A pod of no group, which has to be bound whatever happens to the others.
fn bystander(world: &mut GroupWorld) {
    world.pod("bystander", &json!({}));
}

fn bound_of(world: &GroupWorld, group: &str) -> usize {
    let prefix = format!("{group}-");
    world.bound().iter().filter(|name| name.starts_with(&prefix)).count()
}

#[test]
fn four_that_belong_together_do_not_start_where_three_fit() {
    let mut world = world(3);
    apply_group(&mut world, "train", json!({"minMember": 4}));
    let names = members(&mut world, "train", 4);
    world.run();
    assert_eq!(world.bound(), Vec::<&str>::new());
    let waits = "waiting for minCount pods from a gang to be scheduled";
    let n_waiting = names.iter().filter(|name| world.says(name, waits)).count();
    let n_unfit = names.iter().filter(|name| world.says(name, "1 Insufficient cpu")).count();
    assert_eq!((n_waiting, n_unfit), (3, 1), "{:#?}", world.log);
    // The room is for others.
    bystander(&mut world);
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    node(&mut world, "b", 2);
    world.run();
    assert_eq!(bound_of(&world, "train"), 4, "{:#?}", world.log);
    // The status of such a group is its controller's.
    assert!(!world.log.iter().any(|line| line.contains("PodGroup")), "{:#?}", world.log);
}

#[test]
fn two_gangs_that_fit_one_at_a_time_run_one_after_the_other() {
    let mut world = world(4);
    for gang in ["red", "blue"] {
        apply_group(&mut world, gang, json!({"minMember": 3}));
    }
    // Their pods come in turn, so that each gang could have two of the four CPUs.
    for i in 0..3 {
        for gang in ["red", "blue"] {
            let labels = json!({"metadata": {"labels": {LABEL: gang}}});
            world.pod(&format!("{gang}-{i}"), &labels);
        }
    }
    world.run();
    assert_eq!((bound_of(&world, "red"), bound_of(&world, "blue")), (3, 0), "{:#?}", world.log);
    for i in 0..3 {
        delete_pod(&mut world, &format!("red-{i}"));
    }
    world.run();
    assert_eq!(bound_of(&world, "blue"), 3, "{:#?}", world.log);
}

#[test]
fn more_pods_than_the_minimum_start_as_far_as_they_fit() {
    let mut world = world(3);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    members(&mut world, "train", 4);
    world.run();
    assert_eq!(bound_of(&world, "train"), 3);
    node(&mut world, "b", 1);
    world.run();
    assert_eq!(bound_of(&world, "train"), 4, "two run already");
}

#[test]
fn a_group_that_does_not_exist_is_waited_for() {
    let mut world = world(8);
    let names = members(&mut world, "train", 2);
    bystander(&mut world);
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    let text = "waiting for the pod group \\\"scheduling.x-k8s.io/train\\\", which does not exist";
    assert!(names.iter().all(|name| world.says(name, text)), "{:#?}", world.log);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 2);
}

#[test]
fn a_minimum_above_the_members_is_waited_for_until_it_is_lowered() {
    let mut world = world(8);
    apply_group(&mut world, "train", json!({"minMember": 3}));
    let names = members(&mut world, "train", 2);
    bystander(&mut world);
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    let text = "waiting for pods of the pod group \\\"scheduling.x-k8s.io/train\\\": it needs 3";
    assert!(names.iter().all(|name| world.says(name, text)), "{:#?}", world.log);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 2);
}

#[test]
fn a_minimum_that_is_raised_half_way_counts_as_it_is() {
    let mut world = world(8);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    members(&mut world, "train", 2);
    bystander(&mut world);
    apply_group(&mut world, "train", json!({"minMember": 3}));
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    world.pod("train-2", &json!({"metadata": {"labels": {LABEL: "train"}}}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 3);
}

#[test]
fn a_group_that_is_deleted_half_way_fails_its_members_until_it_is_back() {
    let mut world = world(8);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    let names = members(&mut world, "train", 2);
    bystander(&mut world);
    world.handle(Input::ObjectDeleted(group("train", json!({"minMember": 2}))));
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    assert!(names.iter().all(|name| world.says(name, "PodGroup not found")), "{:#?}", world.log);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 2);
}

#[test]
fn resources_in_sum_are_waited_for() {
    let mut world = world(4);
    apply_group(&mut world, "train", json!({"minMember": 2, "minResources": {"cpu": "6"}}));
    let names = members(&mut world, "train", 2);
    bystander(&mut world);
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    let text = "resource gap: cpu: 3000m";
    assert!(names.iter().all(|name| world.says(name, text)), "{:#?}", world.log);
    node(&mut world, "b", 3);
    world.run();
    assert_eq!(bound_of(&world, "train"), 2);
    // What it has itself counts: six in sum are its two and the four that are free.
    world.pod("train-2", &json!({"metadata": {"labels": {LABEL: "train"}}}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 3, "{:#?}", world.log);
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut world = world(8);
    apply_group(&mut world, "train", json!({"minMember": "two"}));
    let names = members(&mut world, "train", 2);
    bystander(&mut world);
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    let text = "the pod group cannot be read";
    assert!(names.iter().all(|name| world.says(name, text)), "{:#?}", world.log);
}

#[test]
fn a_pod_may_change_its_group() {
    let mut world = world(8);
    for gang in ["red", "blue"] {
        apply_group(&mut world, gang, json!({"minMember": 2}));
    }
    for (name, gang) in [("red-0", "red"), ("blue-0", "blue")] {
        world.pod(name, &json!({"metadata": {"labels": {LABEL: gang}}}));
    }
    world.run();
    assert_eq!(world.bound(), Vec::<&str>::new());
    world.pod("blue-0", &json!({"metadata": {"labels": {LABEL: "red"}, "resourceVersion": "2"}}));
    world.run();
    assert_eq!(world.bound(), ["blue-0", "red-0"]);
    assert_eq!(world.engine.cluster().n_pod_groups(), 1);
    // One that runs leaves its group, too.
    world.pod("blue-0", &json!({"metadata": {"resourceVersion": "3"}, "spec": {"nodeName": "a"}}));
    let state = world.engine.cluster().pod_group("x", "scheduling.x-k8s.io/red").unwrap();
    assert_eq!((state.n_known(), state.n_assigned()), (1, 1));
    for name in ["blue-0", "red-0"] {
        delete_pod(&mut world, name);
    }
    assert_eq!(world.engine.cluster().n_pod_groups(), 0);
}

#[test]
fn labels_mean_nothing_where_the_plugin_is_off() {
    let sorted =
        json!({"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}});
    let mut world = world_with(
        json!([
            {"schedulerName": "default-scheduler", "plugins": enabled()},
            {"schedulerName": "other", "plugins": sorted},
        ]),
        8,
    );
    members(&mut world, "train", 1);
    let other =
        json!({"metadata": {"labels": {LABEL: "train"}}, "spec": {"schedulerName": "other"}});
    world.pod("other", &other);
    world.run();
    assert_eq!(world.bound(), ["other"]);
    let mut world = world_with(json!([{"schedulerName": "default-scheduler"}]), 8);
    members(&mut world, "train", 1);
    world.run();
    assert_eq!(world.bound(), ["train-0"]);
}

#[test]
fn pods_of_other_schedulers_count_once_they_run() {
    let mut world = world(8);
    apply_group(&mut world, "train", json!({"minMember": 2}));
    members(&mut world, "train", 1);
    let foreign = |node: &str| {
        json!({"metadata": {"labels": {LABEL: "train"}},
            "spec": {"schedulerName": "somebody", "nodeName": node}})
    };
    world.pod("foreign", &foreign(""));
    world.run();
    assert_eq!(world.bound(), Vec::<&str>::new());
    world.pod("foreign", &foreign("a"));
    world.run();
    assert_eq!(world.bound(), ["foreign", "train-0"]);
}

/// A world with the plugin and with the gates for PodGroups of `scheduling.k8s.io`.
fn world_with_both() -> GroupWorld {
    world_with_gates(&["GenericWorkload", "GangScheduling"], false, 8)
}

#[test]
fn the_plugin_for_the_other_kind_leaves_groups_alone() {
    let mut world = world_with_both();
    let names = members(&mut world, "train", 2);
    world.run();
    apply_group(&mut world, "train", json!({"minMember": 3}));
    world.run();
    assert_eq!(world.bound(), Vec::<&str>::new());
    apply_group(&mut world, "train", json!({"minMember": 2}));
    world.run();
    assert_eq!(bound_of(&world, "train"), 2, "{:#?}", world.log);
    let mut world = world_with_both();
    apply_group(&mut world, "train", json!({"minMember": 2}));
    members(&mut world, "train", 2);
    world.handle(Input::ObjectDeleted(group("train", json!({"minMember": 2}))));
    world.run();
    assert!(names.iter().all(|name| world.says(name, "PodGroup not found")), "{:#?}", world.log);
}

#[test]
fn groups_of_both_kinds_may_have_one_name() {
    let mut world = world_with_both();
    apply_group(&mut world, "train", json!({"minMember": 2}));
    let mut own = pod_group("train", json!({"schedulingPolicy": {"gang": {"minCount": 1}}}));
    own["metadata"]["uid"] = "own".into();
    world.handle(object_applied(own));
    members(&mut world, "train", 1);
    world.pod("own", &json!({"spec": {"schedulingGroup": {"podGroupName": "train"}}}));
    world.run();
    assert_eq!(world.bound(), ["own"], "{:#?}", world.log);
    world.pod("train-1", &json!({"metadata": {"labels": {LABEL: "train"}}}));
    world.run();
    assert_eq!(world.bound(), ["own", "train-0", "train-1"]);
}

/// A world with the plugin and these gates, and a node of so many CPUs.
fn world_with_gates(gates: &[&str], plans_gangs_exactly: bool, cpus: u32) -> GroupWorld {
    let profiles = json!([{"schedulerName": "default-scheduler", "plugins": enabled()}]);
    let gates = fixtures::gates(gates.iter().copied());
    let mut world = GroupWorld::new(&profiles, gates, plans_gangs_exactly);
    node(&mut world, "a", cpus);
    world
}

/// How many pods of the priority 5 have to go for a gang of two with these priorities.
fn n_evicted_for(priorities: [i32; 2], plans_gangs_exactly: bool) -> usize {
    let gates = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
    let mut world = world_with_gates(&gates, plans_gangs_exactly, 3);
    for i in 0..3 {
        world.pod(&format!("old-{i}"), &json!({"spec": {"nodeName": "a", "priority": 5}}));
    }
    apply_group(&mut world, "train", json!({"minMember": 2}));
    for (i, priority) in priorities.into_iter().enumerate() {
        let more =
            json!({"metadata": {"labels": {LABEL: "train"}}, "spec": {"priority": priority}});
        world.pod(&format!("train-{i}"), &more);
    }
    assert!(world.engine.schedule_next(world.now).is_some());
    world.handle(Input::TimePassed);
    world.log.iter().filter(|line| line.starts_with("evict")).count()
}

#[test]
fn a_gang_makes_room_as_its_least_important_pod_may() {
    for plans_gangs_exactly in [false, true] {
        // All victims but one are evicted before the last.
        assert_eq!(n_evicted_for([10, 10], plans_gangs_exactly), 1, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([10, 6], plans_gangs_exactly), 1, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([10, 5], plans_gangs_exactly), 0, "{plans_gangs_exactly}");
        assert_eq!(n_evicted_for([0, 0], plans_gangs_exactly), 0, "{plans_gangs_exactly}");
    }
}

#[test]
fn groups_whose_gate_is_off_are_not_planned_as_gangs() {
    let mut world = world_with_gates(&["GenericWorkload"], true, 8);
    let mut own = pod_group("train", json!({"schedulingPolicy": {"gang": {"minCount": 3}}}));
    own["metadata"]["uid"] = "own".into();
    world.handle(object_applied(own));
    world.pod("own", &json!({"spec": {"schedulingGroup": {"podGroupName": "train"}}}));
    assert_eq!(world.engine.missing_of_group("x", "train"), None);
    world.run();
    assert_eq!(world.bound(), ["own"], "it waits for nobody: {:#?}", world.log);
    apply_group(&mut world, "train", json!({"minMember": 3}));
    members(&mut world, "train", 2);
    assert!(world.engine.missing_of_group("x", "scheduling.x-k8s.io/train").is_some());
    world.run();
    assert_eq!(bound_of(&world, "train"), 0);
}

#[test]
fn a_label_that_changes_while_the_pod_is_being_bound_counts_if_that_fails() {
    let mut world = world(8);
    apply_group(&mut world, "red", json!({"minMember": 1}));
    apply_group(&mut world, "blue", json!({"minMember": 2}));
    let labelled = |gang: &str, version: &str| json!({"metadata": {"labels": {LABEL: gang}, "resourceVersion": version}});
    world.pod("blue-0", &labelled("blue", "1"));
    world.pod("red-0", &labelled("red", "1"));
    world.held = Some(("red-0", None));
    assert!(world.engine.schedule_next(world.now).is_some());
    world.handle(Input::TimePassed);
    world.pod("red-0", &labelled("blue", "2"));
    let Some((_, Some(token))) = world.held.take() else { panic!("{:#?}", world.log) };
    let state = |world: &GroupWorld, name: &str| {
        let state = world.engine.cluster().pod_group("x", name);
        state.map(|state| (state.n_known(), state.n_scheduled()))
    };
    assert_eq!(state(&world, "scheduling.x-k8s.io/red"), Some((1, 1)), "what is decided stands");
    let refused = ApiError { code: Some(409), ..ApiError::new("Conflict", "no") };
    // The engine alone: the world would show the pod again after its status is written, and so its label.
    world.engine.handle(Input::BindingWritten { token, result: Err(refused) }, world.now);
    assert_eq!(state(&world, "scheduling.x-k8s.io/red"), None);
    assert_eq!(state(&world, "scheduling.x-k8s.io/blue"), Some((2, 0)));
    world.handle(Input::TimePassed);
    world.run();
    assert_eq!(world.bound(), ["blue-0", "red-0"], "{:#?}", world.log);
}
