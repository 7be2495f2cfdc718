//! Pod groups that make no sense: each member says why it waits, the PodGroup has a condition where there is one, and other pods
//! are scheduled as if nothing were; once the mistake is corrected, the members are scheduled, too. The same in both modes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::group_world::GroupWorld;
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::Input;
use kube_scheduler_tests::fixtures::{GANG_GATES, gates, node_applied, pod_group};
use serde_json::{Value, json};

const WITHOUT_GANGS: [&str; 2] = ["GenericWorkload", "TopologyAwareWorkloadScheduling"];

/// An engine with a node in each of two zones, and one in none.
struct World(GroupWorld);

impl Deref for World {
    type Target = GroupWorld;

    fn deref(&self) -> &GroupWorld {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut GroupWorld {
        &mut self.0
    }
}

impl World {
    fn new(on: &[&str], plans_gangs_exactly: bool) -> Self {
        let profiles = json!([{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]);
        let mut world =
            Self(GroupWorld::new(&profiles, gates(on.iter().copied()), plans_gangs_exactly));
        for (name, labels) in
            [("a", json!({"zone": "a"})), ("b", json!({"zone": "b"})), ("c", json!({}))]
        {
            let node = json!({
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "100"}},
            });
            world.handle(node_applied(&node));
        }
        world
    }

    fn pod(&mut self, name: &str, spec: &Value) {
        self.0.pod(name, &json!({"spec": spec}));
    }

    fn member(&mut self, name: &str) {
        self.pod(name, &json!({"schedulingGroup": {"podGroupName": "g"}}));
    }

    /// A pod of no group, which has to be bound whatever happens to the others.
    fn bystander(&mut self) {
        self.pod("bystander", &json!({}));
    }

    fn group(&mut self, min_count: u32, topology: Option<&str>) {
        self.handle(Input::ObjectApplied(group(min_count, topology)));
    }

    /// Each of these pods has an event, and a condition, with this text; the PodGroup has a condition with its text.
    fn expect_reasons(&self, members: &[&str], text: &str, of_group: Option<&str>) {
        for member in members {
            assert!(self.says(member, text), "{member}: {text}: {:#?}", self.log);
        }
        if let Some(text) = of_group {
            let is_condition = |line: &&String| {
                line.contains("PodGroup x/g") && line.contains("\"status\":\"False\"")
            };
            let said = self.log.iter().filter(is_condition).any(|line| line.contains(text));
            assert!(said, "{text}: {:#?}", self.log);
        }
    }
}

/// A group of Kubernetes 1.37, all fields of which are set.
fn beta_group(change: impl FnOnce(&mut Value)) -> Arc<Object> {
    let mut object = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "x", "name": "g", "uid": "g", "generation": 1},
        "spec": {
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "resourceClaims": [{"name": "link", "resourceClaimTemplateName": "one-link"}],
            "disruptionMode": {"all": {}},
            "priorityClassName": "high", "priority": 7, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "conditions": [{
                "type": "DisruptionTarget", "status": "False", "reason": "No", "message": "",
                "lastTransitionTime": "2026-11-28T10:00:00Z", "observedGeneration": 1,
            }],
            "resourceClaimStatuses": [{"name": "link", "resourceClaimName": "g-link-x7k2p"}],
        },
    });
    change(&mut object);
    Arc::new(Object::from_value(object).unwrap())
}

fn group(min_count: u32, topology: Option<&str>) -> Arc<Object> {
    let constraints = topology.map(|key| json!({"topology": [{"key": key}]}));
    let spec = json!({
        "schedulingPolicy": {"gang": {"minCount": min_count}}, "schedulingConstraints": constraints,
    });
    Arc::new(Object::from_value(pod_group("g", spec)).unwrap())
}

const BOTH_MODES: [bool; 2] = [false, true];

#[test]
fn a_group_that_does_not_exist_is_waited_for() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.member("m0");
        world.member("m1");
        world.bystander();
        world.now = world.now + Duration::from_secs(29);
        world.handle(Input::TimePassed);
        assert_eq!(world.log, Vec::<String>::new(), "it may come yet");
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        assert_eq!(world.engine.queue().pending_counts().gated, 2, "where operators see it");
        let text = "waiting for the pod group \\\"g\\\", which does not exist";
        world.expect_reasons(&["m0", "m1"], text, None);
        let n_said = world.log.iter().filter(|line| line.contains(text)).count();
        assert_eq!(n_said, 4, "once for each member: {:#?}", world.log);
        world.group(2, None);
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn where_nothing_waits_for_the_group_its_absence_is_an_error() {
    let mut world = World::new(&WITHOUT_GANGS, false);
    world.member("m0");
    world.bystander();
    world.run();
    assert_eq!(world.bound(), ["bystander"]);
    world.expect_reasons(&["m0"], "podgroup.scheduling.k8s.io \\\"g\\\" not found", None);
}

#[test]
fn a_group_that_is_deleted_half_way_fails_its_members_until_it_is_back() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, None);
        world.member("m0");
        world.member("m1");
        world.bystander();
        // The members are ready to be tried.
        world.handle(Input::ObjectDeleted(group(2, None)));
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        world.expect_reasons(&["m0", "m1"], "podgroup.scheduling.k8s.io \\\"g\\\" not found", None);
        world.group(2, None);
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn a_group_that_is_changed_half_way_counts_as_it_is() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, None);
        world.member("m0");
        world.member("m1");
        world.bystander();
        world.group(3, None);
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        world.expect_reasons(
            &["m0", "m1"],
            "pod group is unschedulable",
            Some("pod group is unschedulable"),
        );
        world.member("m2");
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1", "m2"]);
    }
}

#[test]
fn a_group_of_a_later_version_is_bound() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.handle(Input::ObjectApplied(beta_group(|_| ())));
        world.member("m0");
        world.member("m1");
        world.run();
        assert_eq!(world.bound(), ["m0", "m1"]);
    }
}

#[test]
fn a_group_that_cannot_be_read_is_waited_for_until_it_is_mended() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        let mode = json!({"some": {}});
        world.handle(Input::ObjectApplied(beta_group(|group| {
            group["spec"]["disruptionMode"] = mode
        })));
        world.member("m0");
        world.member("m1");
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        let text = "the pod group cannot be read: podgroup x/g: spec.disruptionMode: unknown field `some`, \
                    expected `single` or `all`";
        world.expect_reasons(&["m0", "m1"], text, None);
        world.handle(Input::ObjectApplied(beta_group(|_| ())));
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn members_are_tried_as_soon_as_a_lower_minimum_has_them_all() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(5, None);
        for name in ["m0", "m1", "m2"] {
            world.member(name);
        }
        world.run();
        assert_eq!(world.bound(), Vec::<&str>::new());
        world.group(4, None);
        world.run();
        assert_eq!(world.bound(), Vec::<&str>::new(), "one is missing still");
        world.expect_reasons(
            &["m0", "m1", "m2"],
            "\\\"g\\\": it needs 4",
            Some("it needs 4, and 3 exist"),
        );
        world.group(3, None);
        assert_eq!(world.engine.queue().pending_counts().gated, 0, "woken by the change");
        world.run();
        assert_eq!(world.bound(), ["m0", "m1", "m2"]);
    }
}

/// Also where they have been tried, and where they do not fit all.
#[test]
fn members_that_do_not_fit_are_bound_once_fewer_are_enough() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(3, Some("zone"));
        for name in ["m0", "m1", "m2"] {
            let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "7"}}}]);
            world.pod(
                name,
                &json!({"schedulingGroup": {"podGroupName": "g"}, "containers": containers}),
            );
        }
        world.run();
        assert_eq!(world.bound(), Vec::<&str>::new());
        world.group(2, Some("zone"));
        world.run();
        assert_eq!(world.bound(), ["m0", "m1"]);
    }
}

/// What has a node keeps it; the others wait for so many as are needed now.
#[test]
fn a_higher_minimum_counts_for_those_that_come() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, None);
        world.member("m0");
        world.member("m1");
        world.run();
        world.group(4, None);
        world.member("m2");
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1"]);
        world.expect_reasons(&["m2"], "it needs 4", None);
        world.member("m3");
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1", "m2", "m3"]);
    }
}

#[test]
fn a_minimum_above_the_members_is_waited_for() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(3, None);
        world.member("m0");
        world.member("m1");
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        assert_eq!(world.engine.queue().pending_counts().gated, 2, "where operators see it");
        let text = "waiting for pods of the pod group \\\"g\\\": it needs 3";
        world.expect_reasons(&["m0", "m1"], text, Some("it needs 3, and 2 exist"));
        world.member("m2");
        world.run();
        assert_eq!(world.bound(), ["bystander", "m0", "m1", "m2"]);
    }
}

#[test]
fn members_that_wait_say_so_once_however_many_come() {
    let mut world = World::new(&GANG_GATES, false);
    world.group(5, None);
    for n in 0..4 {
        world.member(&format!("m{n}"));
        world.run();
    }
    let said = |what: &str| world.log.iter().filter(|line| line.starts_with(what)).count();
    for n in 0..4 {
        let counts = (said(&format!("event x/m{n} ")), said(&format!("patch x/m{n} ")));
        assert_eq!(counts, (1, 1), "m{n}: {:#?}", world.log);
    }
    assert!(world.log.iter().any(|line| line.contains("it needs 5, and 4 exist")));
}

#[test]
fn a_topology_that_no_node_has_is_named() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, Some("nowhere"));
        world.member("m0");
        world.member("m1");
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        let text = "no feasible placements found";
        world.expect_reasons(&["m0", "m1"], text, Some(text));
    }
}

#[test]
fn members_that_run_in_two_domains_contradict_the_topology() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, Some("zone"));
        for (name, node) in [("r0", "a"), ("r1", "b")] {
            world.pod(name, &json!({"nodeName": node, "schedulingGroup": {"podGroupName": "g"}}));
        }
        world.member("m0");
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander", "r0", "r1"]);
        let text = "more than 1 domain found for pod group: a, b";
        world.expect_reasons(&["m0"], text, Some(text));
    }
}

#[test]
fn members_for_different_schedulers_are_refused_together() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        world.group(2, None);
        world.member("m0");
        world.pod(
            "m1",
            &json!({"schedulerName": "other", "schedulingGroup": {"podGroupName": "g"}}),
        );
        world.bystander();
        world.run();
        assert_eq!(world.bound(), ["bystander"]);
        let text = "all pods in a single pod group should have the same .spec.schedulerName set";
        world.expect_reasons(&["m0", "m1"], text, Some(text));
    }
}

#[test]
fn a_parent_does_not_count_and_the_log_says_so_once() {
    for is_exact in BOTH_MODES {
        let mut world = World::new(&GANG_GATES, is_exact);
        let mut notes_after = |uid: &'static str, parent: &'static str, generation: u32| {
            world.handle(Input::ObjectApplied(beta_group(|group| {
                group["metadata"]["uid"] = uid.into();
                group["metadata"]["generation"] = generation.into();
                group["spec"]["parentCompositePodGroupName"] = parent.into();
            })));
            world.engine.drain_notes().collect::<Vec<String>>()
        };
        let text = |parent: &str| {
            format!(
                "pod group x/g: its parent \"{parent}\" (parentCompositePodGroupName) is not considered: the group is scheduled \
                 as if it had none, and the parent's constraints do not hold"
            )
        };
        assert_eq!(notes_after("g", "job", 1), [text("job")]);
        assert_eq!(notes_after("g", "job", 2), [""; 0], "it has been said");
        assert_eq!(notes_after("other", "job", 1), [text("job")], "of another object");
        assert_eq!(notes_after("other", "task", 2), [text("task")], "of another parent");
        world.member("m0");
        world.member("m1");
        world.run();
        assert_eq!(world.bound(), ["m0", "m1"]);
    }
}

#[test]
fn nothing_is_said_of_parents_where_groups_are_not_read() {
    let mut world = World::new(&[], false);
    world.handle(Input::ObjectApplied(beta_group(|group| {
        group["spec"]["parentCompositePodGroupName"] = "job".into();
    })));
    assert_eq!(world.engine.drain_notes().count(), 0);
}
