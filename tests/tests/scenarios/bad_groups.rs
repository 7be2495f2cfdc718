//! Pod groups that make no sense: each member says why it waits, the PodGroup has a condition where there is one, and other pods
//! are scheduled as if nothing were; once the mistake is corrected, the members are scheduled, too. The same in both modes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::ZONE;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::testing;
use kube_scheduler_tests::fixtures::GANG_GATES;
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::{Value, json};

use super::group_cluster;

const WITHOUT_GANGS: [&str; 2] = ["GenericWorkload", "TopologyAwareWorkloadScheduling"];

/// A node in each of two zones, and one in none. In each test the pod `bystander` is of no group, and has to be bound whatever happens
/// to the others.
fn cluster(on: &[&str], plans_gangs_exactly: bool) -> LiveCluster {
    let profiles = json!([{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]);
    let mut cluster = group_cluster(&profiles, on, plans_gangs_exactly);
    cluster.apply("node a cpu=16 zone=a; node b cpu=16 zone=b; node c cpu=16");
    cluster
}

/// Each of these pods has an event, and a condition, with this text; the PodGroup has a condition with its text.
fn expect_reasons(cluster: &LiveCluster, members: &[&str], text: &str, of_group: Option<&str>) {
    for member in members {
        assert!(cluster.says(member, text), "{member}: {text}: {:#?}", cluster.log);
    }
    if let Some(text) = of_group {
        let is_condition = |line: &&String| {
            line.contains("PodGroup default/g") && line.contains("\"status\":\"False\"")
        };
        let said = cluster.log.iter().filter(is_condition).any(|line| line.contains(text));
        assert!(said, "{text}: {:#?}", cluster.log);
    }
}

/// A group of Kubernetes 1.37, all fields of which are set.
fn beta_group(change: impl FnOnce(&mut Value)) -> Arc<Object> {
    let mut object = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g", "uid": "g", "generation": 1},
        "spec": {
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": ZONE}]},
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

const BOTH_MODES: [bool; 2] = [false, true];

#[test]
fn a_group_that_does_not_exist_is_waited_for() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply("pod m0 cpu=1 group=g; pod m1 cpu=1 group=g; pod bystander cpu=1");
        cluster.now = cluster.now + Duration::from_secs(29);
        cluster.handle(Input::TimePassed);
        assert_eq!(cluster.log, Vec::<String>::new(), "it may come yet");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        assert_eq!(cluster.engine.queue().pending_counts().gated, 2, "where operators see it");
        let text = "waiting for the pod group \\\"g\\\", which does not exist";
        expect_reasons(&cluster, &["m0", "m1"], text, None);
        let n_said = cluster.log.iter().filter(|line| line.contains(text)).count();
        assert_eq!(n_said, 4, "once for each member: {:#?}", cluster.log);
        cluster.apply("podgroup g min=2");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn where_nothing_waits_for_the_group_its_absence_is_an_error() {
    let mut cluster = cluster(&WITHOUT_GANGS, false);
    cluster.apply("pod m0 cpu=1 group=g; pod bystander cpu=1");
    cluster.run();
    assert_eq!(cluster.bound(), ["bystander"]);
    expect_reasons(&cluster, &["m0"], "podgroup.scheduling.k8s.io \\\"g\\\" not found", None);
}

#[test]
fn a_group_that_is_deleted_half_way_fails_its_members_until_it_is_back() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply(
            "podgroup g min=2; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g; pod bystander cpu=1",
        );
        // The members are ready to be tried.
        cluster.handle(Input::ObjectDeleted(testing::object("podgroup g min=2").build()));
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        expect_reasons(
            &cluster,
            &["m0", "m1"],
            "podgroup.scheduling.k8s.io \\\"g\\\" not found",
            None,
        );
        cluster.apply("podgroup g min=2");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn a_group_that_is_changed_half_way_counts_as_it_is() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply(
            "podgroup g min=2; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g; pod bystander cpu=1",
        );
        cluster.apply("podgroup g min=3");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        expect_reasons(
            &cluster,
            &["m0", "m1"],
            "pod group is unschedulable",
            Some("pod group is unschedulable"),
        );
        cluster.apply("pod m2 cpu=1 group=g");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1", "m2"]);
    }
}

#[test]
fn a_group_of_a_later_version_is_bound() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.handle(Input::ObjectApplied(beta_group(|_| ())));
        cluster.apply("pod m0 cpu=1 group=g; pod m1 cpu=1 group=g");
        cluster.run();
        assert_eq!(cluster.bound(), ["m0", "m1"]);
    }
}

#[test]
fn a_group_that_cannot_be_read_is_waited_for_until_it_is_mended() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        let mode = json!({"some": {}});
        cluster.handle(Input::ObjectApplied(beta_group(|group| {
            group["spec"]["disruptionMode"] = mode
        })));
        cluster.apply("pod m0 cpu=1 group=g; pod m1 cpu=1 group=g; pod bystander cpu=1");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        let text = "the pod group cannot be read: podgroup default/g: spec.disruptionMode: unknown field `some`, \
                    expected `single` or `all`";
        expect_reasons(&cluster, &["m0", "m1"], text, None);
        cluster.handle(Input::ObjectApplied(beta_group(|_| ())));
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1"]);
    }
}

#[test]
fn members_are_tried_as_soon_as_a_lower_minimum_has_them_all() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply("podgroup g min=5");
        for name in ["m0", "m1", "m2"] {
            cluster.apply(&format!("pod {name} cpu=1 group=g"));
        }
        cluster.run();
        assert_eq!(cluster.bound(), Vec::<&str>::new());
        cluster.apply("podgroup g min=4");
        cluster.run();
        assert_eq!(cluster.bound(), Vec::<&str>::new(), "one is missing still");
        expect_reasons(
            &cluster,
            &["m0", "m1", "m2"],
            "\\\"g\\\": it needs 4",
            Some("it needs 4, and 3 exist"),
        );
        cluster.apply("podgroup g min=3");
        assert_eq!(cluster.engine.queue().pending_counts().gated, 0, "woken by the change");
        cluster.run();
        assert_eq!(cluster.bound(), ["m0", "m1", "m2"]);
    }
}

/// Also where they have been tried, and where they do not fit all.
#[test]
fn members_that_do_not_fit_are_bound_once_fewer_are_enough() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply("podgroup g min=3 topology=zone");
        for name in ["m0", "m1", "m2"] {
            cluster.apply(&format!("pod {name} cpu=7 group=g"));
        }
        cluster.run();
        assert_eq!(cluster.bound(), Vec::<&str>::new());
        cluster.apply("podgroup g min=2 topology=zone");
        cluster.run();
        assert_eq!(cluster.bound(), ["m0", "m1"]);
    }
}

/// What has a node keeps it; the others wait for so many as are needed now.
#[test]
fn a_higher_minimum_counts_for_those_that_come() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply("podgroup g min=2; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g");
        cluster.run();
        cluster.apply("podgroup g min=4; pod m2 cpu=1 group=g; pod bystander cpu=1");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1"]);
        expect_reasons(&cluster, &["m2"], "it needs 4", None);
        cluster.apply("pod m3 cpu=1 group=g");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1", "m2", "m3"]);
    }
}

#[test]
fn a_minimum_above_the_members_is_waited_for() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply(
            "podgroup g min=3; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g; pod bystander cpu=1",
        );
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        assert_eq!(cluster.engine.queue().pending_counts().gated, 2, "where operators see it");
        let text = "waiting for pods of the pod group \\\"g\\\": it needs 3";
        expect_reasons(&cluster, &["m0", "m1"], text, Some("it needs 3, and 2 exist"));
        cluster.apply("pod m2 cpu=1 group=g");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "m0", "m1", "m2"]);
    }
}

#[test]
fn members_that_wait_say_so_once_however_many_come() {
    let mut cluster = cluster(&GANG_GATES, false);
    cluster.apply("podgroup g min=5");
    for n in 0..4 {
        cluster.apply(&format!("pod m{n} cpu=1 group=g"));
        cluster.run();
    }
    let said = |what: &str| cluster.log.iter().filter(|line| line.starts_with(what)).count();
    for n in 0..4 {
        let counts = (said(&format!("event default/m{n} ")), said(&format!("patch default/m{n} ")));
        assert_eq!(counts, (1, 1), "m{n}: {:#?}", cluster.log);
    }
    assert!(cluster.log.iter().any(|line| line.contains("it needs 5, and 4 exist")));
}

#[test]
fn a_topology_that_no_node_has_is_named() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster
            .apply("podgroup g min=2 topology=nowhere; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g");
        cluster.apply("pod bystander cpu=1");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        let text = "no feasible placements found";
        expect_reasons(&cluster, &["m0", "m1"], text, Some(text));
    }
}

#[test]
fn members_that_run_in_two_domains_contradict_the_topology() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster.apply("podgroup g min=2 topology=zone");
        for (name, node) in [("r0", "a"), ("r1", "b")] {
            cluster.apply(&format!("pod {name} cpu=1 node={node} group=g"));
        }
        cluster.apply("pod m0 cpu=1 group=g; pod bystander cpu=1");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander", "r0", "r1"]);
        let text = "more than 1 domain found for pod group: a, b";
        expect_reasons(&cluster, &["m0"], text, Some(text));
    }
}

#[test]
fn members_for_different_schedulers_are_refused_together() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        cluster
            .apply("podgroup g min=2; pod m0 cpu=1 group=g; pod m1 cpu=1 group=g scheduler=other");
        cluster.apply("pod bystander cpu=1");
        cluster.run();
        assert_eq!(cluster.bound(), ["bystander"]);
        let text = "all pods in a single pod group should have the same .spec.schedulerName set";
        expect_reasons(&cluster, &["m0", "m1"], text, Some(text));
    }
}

#[test]
fn a_parent_does_not_count_and_the_log_says_so_once() {
    for is_exact in BOTH_MODES {
        let mut cluster = cluster(&GANG_GATES, is_exact);
        let mut notes_after = |uid: &'static str, parent: &'static str, generation: u32| {
            cluster.handle(Input::ObjectApplied(beta_group(|group| {
                group["metadata"]["uid"] = uid.into();
                group["metadata"]["generation"] = generation.into();
                group["spec"]["parentCompositePodGroupName"] = parent.into();
            })));
            cluster.engine.drain_notes().collect::<Vec<String>>()
        };
        let text = |parent: &str| {
            format!(
                "pod group default/g: its parent \"{parent}\" (parentCompositePodGroupName) is not considered: the group is scheduled \
                 as if it had none, and the parent's constraints do not hold"
            )
        };
        assert_eq!(notes_after("g", "job", 1), [text("job")]);
        assert_eq!(notes_after("g", "job", 2), [""; 0], "it has been said");
        assert_eq!(notes_after("other", "job", 1), [text("job")], "of another object");
        assert_eq!(notes_after("other", "task", 2), [text("task")], "of another parent");
        cluster.apply("pod m0 cpu=1 group=g; pod m1 cpu=1 group=g");
        cluster.run();
        assert_eq!(cluster.bound(), ["m0", "m1"]);
    }
}

#[test]
fn nothing_is_said_of_parents_where_groups_are_not_read() {
    let mut cluster = cluster(&[], false);
    cluster.handle(Input::ObjectApplied(beta_group(|group| {
        group["spec"]["parentCompositePodGroupName"] = "job".into();
    })));
    assert_eq!(cluster.engine.drain_notes().count(), 0);
}
