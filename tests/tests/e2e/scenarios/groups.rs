//! Gangs: all of their pods, or as many as they want at least, or none.

use std::cell::Cell;

use kube_scheduler_config::Gate;
use serde_json::{Value, json};

use super::extenders::bind;
use crate::cluster::Cluster;
use crate::extender::Extender;
use crate::objects::{
    asking, gpu_class_and_template, gpus, node, nodes, pod, pod_with_gpu, priority_class, with,
};
use crate::scheduler::{Program, Running};
use crate::wait::until;

/// A group whose pods wait until so many of them can be scheduled.
fn gang(name: &str, min_count: usize) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}})
}

/// A pod that belongs to a group.
fn member(pod: Value, group: &str) -> Value {
    with(pod, json!({"spec": {"schedulingGroup": {"podGroupName": group}}}))
}

/// Waits until the condition of a group has this status, and returns its reason.
async fn until_condition(cluster: &Cluster, group: &str, status: &str) -> String {
    let mut reason = String::new();
    until(&format!("group {group} is {status}"), async || {
        let group = cluster.api().get("PodGroup", group).await.unwrap().unwrap_or_default();
        let condition = &group["status"]["conditions"][0];
        reason = condition["reason"].as_str().unwrap_or_default().to_owned();
        condition["status"] == status && condition["type"] == "PodGroupScheduled"
    })
    .await;
    reason
}

pub(crate) async fn a_gang_waits_for_its_last_pod(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(2)).await.unwrap();
    let scheduler = Running::start_with_groups(cluster).await;
    api.create(&gang("train", 3)).await.unwrap();
    for name in ["train-0", "train-1"] {
        api.create(&member(pod(name), "train")).await.unwrap();
    }
    // A pod that comes later and waits for no other pod goes first.
    api.create(&pod("single")).await.unwrap();
    cluster.node_of("single").await;
    assert_eq!(cluster.n_bound().await, 1, "two of three do not start");
    api.create(&member(pod("train-2"), "train")).await.unwrap();
    cluster.until_bound(4).await;
    assert_eq!(until_condition(cluster, "train", "True").await, "Scheduled");
    scheduler.stop().await;
}

pub(crate) async fn a_gang_that_does_not_fit_takes_no_room(cluster: &Cluster) {
    let api = cluster.api();
    // Two nodes of 4 CPUs: room for two of the three.
    api.create_all(nodes(2)).await.unwrap();
    let scheduler = Running::start_with_groups(cluster).await;
    api.create(&gang("large", 3)).await.unwrap();
    for i in 0..3 {
        let large = asking(&format!("large-{i}"), "3");
        api.create(&member(large, "large")).await.unwrap();
    }
    assert_eq!(until_condition(cluster, "large", "False").await, "Unschedulable");
    assert_eq!(cluster.n_bound().await, 0);
    // The room is still there.
    for name in ["other-0", "other-1"] {
        api.create(&asking(name, "3")).await.unwrap();
        cluster.node_of(name).await;
    }
    assert_eq!(cluster.n_bound().await, 2);
    scheduler.stop().await;
}

/// Of four free nodes in two racks no rack has enough for the second gang, until one more comes.
pub(crate) async fn a_gang_goes_to_a_rack_with_room_for_all_of_it(cluster: &Cluster) {
    let api = cluster.api();
    let in_rack = |rack: &str, at: usize| {
        let labels = json!({"metadata": {"labels": {"example.com/rack": rack}}});
        with(node(&format!("{rack}-{at}")), labels)
    };
    for (rack, n_nodes) in [("left", 2), ("middle", 3), ("right", 2)] {
        api.create_all((0..n_nodes).map(|at| in_rack(rack, at))).await.unwrap();
    }
    let scheduler = Running::start_with_groups(cluster).await;
    // Two of its pods fit on no node together.
    let create = async |group: &str| {
        let topology = json!([{"key": "example.com/rack"}]);
        let in_one = json!({"spec": {"schedulingConstraints": {"topology": topology}}});
        api.create(&with(gang(group, 3), in_one)).await.unwrap();
        for i in 0..3 {
            let large = asking(&format!("{group}-{i}"), "3");
            api.create(&member(large, group)).await.unwrap();
        }
    };
    let until_all_in = async |group: &str, rack: &str| {
        assert_eq!(until_condition(cluster, group, "True").await, "Scheduled");
        for i in 0..3 {
            let node = cluster.node_of(&format!("{group}-{i}")).await;
            assert!(node.starts_with(rack), "{group}-{i} is on {node}");
        }
    };
    create("first").await;
    until_all_in("first", "middle-").await;
    create("second").await;
    assert_eq!(until_condition(cluster, "second", "False").await, "Unschedulable");
    assert_eq!(cluster.n_bound().await, 3, "no pod of the second gang starts");
    api.create(&in_rack("right", 2)).await.unwrap();
    until_all_in("second", "right-").await;
    scheduler.stop().await;
}

/// Three pods fill a node each, and two of them may be evicted: enough for a gang of two, and in vain for one of three.
pub(crate) async fn a_gang_takes_the_place_of_less_important_pods(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all([priority_class("low", 10), priority_class("high", 1000)]).await.unwrap();
    api.create_all(nodes(3)).await.unwrap();
    let of =
        |object: Value, class: &str| with(object, json!({"spec": {"priorityClassName": class}}));
    let scheduler = Running::start_with_groups(cluster).await;
    for (name, class) in [("low-0", "low"), ("low-1", "low"), ("equal", "high")] {
        api.create(&of(asking(name, "3"), class)).await.unwrap();
    }
    cluster.until_bound(3).await;
    let before = cluster.placements().await;
    let create = async |group: &str, size: usize| {
        api.create(&of(gang(group, size), "high")).await.unwrap();
        for i in 0..size {
            let large = of(asking(&format!("{group}-{i}"), "3"), "high");
            api.create(&member(large, group)).await.unwrap();
        }
    };
    create("three", 3).await;
    assert_eq!(until_condition(cluster, "three", "False").await, "Unschedulable");
    let is_evicted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    assert!(!api.list("Pod").await.unwrap().iter().any(is_evicted), "nothing goes in vain");
    assert_eq!(cluster.n_bound().await, 3);

    create("two", 2).await;
    let mut taken = [cluster.node_of("two-0").await, cluster.node_of("two-1").await].map(Some);
    assert_eq!(until_condition(cluster, "two", "True").await, "Scheduled");
    let mut freed = [before["low-0"].clone(), before["low-1"].clone()];
    taken.sort();
    freed.sort();
    assert_eq!(taken, freed);
    let after = cluster.placements().await;
    assert_eq!(after.get("equal"), before.get("equal"), "{after:?}");
    for victim in ["low-0", "low-1"] {
        assert!(!after.contains_key(victim), "{after:?}");
        let event = cluster.until_event(victim, "Preempted").await;
        assert_eq!(event["action"], "Preempting");
        assert!(event["note"].as_str().unwrap().ends_with(" on node cluster"), "{event}");
    }
    scheduler.stop().await;
}

/// kubernetes#138765: the small pod comes first and takes the only node that the large one fits on.
pub(crate) async fn a_gang_fits_as_a_whole_though_not_pod_by_pod(cluster: &Cluster) {
    let api = cluster.api();
    let two = json!({"cpu": "2"});
    let small = json!({"status": {"capacity": two, "allocatable": two}});
    api.create_all([node("large"), with(node("small"), small)]).await.unwrap();
    api.create(&gang("train", 2)).await.unwrap();
    for (name, cpu) in [("train-0", "2"), ("train-1", "4")] {
        api.create(&member(asking(name, cpu), "train")).await.unwrap();
    }
    let one_by_one = Running::start_with_groups(cluster).await;
    assert_eq!(until_condition(cluster, "train", "False").await, "Unschedulable");
    one_by_one.stop().await;
    assert_eq!(cluster.n_bound().await, 0);

    let gates = "--feature-gates=GenericWorkload=true,GangScheduling=true";
    let args = ["--exact-gangs", gates, "--secure-port=0", "--leader-elect=false"];
    let as_a_whole = Program::start(cluster, "exact-gangs", &args).unwrap();
    assert_eq!(cluster.node_of("train-0").await, "small");
    assert_eq!(cluster.node_of("train-1").await, "large");
    assert_eq!(until_condition(cluster, "train", "True").await, "Scheduled");
    as_a_whole.kill();
}

pub(crate) async fn a_gang_shares_one_claim(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    api.create_all(gpu_class_and_template()).await.unwrap();
    // One device in the whole cluster.
    api.create(&gpus("node-1", 1)).await.unwrap();
    let gates = [Gate::GenericWorkload, Gate::GangScheduling, Gate::DRAWorkloadResourceClaims];
    let scheduler = Running::start_with_gates(cluster, &gates).await;
    let claims = json!({"spec": {"resourceClaims":
        [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}});
    api.create(&with(gang("train", 3), claims.clone())).await.unwrap();
    for name in ["train-0", "train-1", "train-2"] {
        api.create(&with(member(pod(name), "train"), claims.clone())).await.unwrap();
    }
    for name in ["train-0", "train-1", "train-2"] {
        assert_eq!(cluster.node_of(name).await, "node-1");
    }
    let group = api.get("PodGroup", "train").await.unwrap().unwrap();
    let all = api.list("ResourceClaim").await.unwrap();
    assert_eq!(all.len(), 1, "{all:#?}");
    let consumer = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups",
        "name": "train", "uid": group["metadata"]["uid"]}]);
    assert_eq!(all[0]["status"]["reservedFor"], consumer);
    assert_eq!(all[0]["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");

    // A pod that is none of the group's gets the device when the group is gone.
    let alone = with(pod("alone"), claims);
    api.create(&alone).await.unwrap();
    assert!(cluster.until_unschedulable("alone").await.contains("cannot allocate all claims"));
    for name in ["train-0", "train-1", "train-2"] {
        api.delete("Pod", name, Some(0)).await.unwrap();
    }
    api.delete("PodGroup", "train", None).await.unwrap();
    assert_eq!(cluster.node_of("alone").await, "node-1");
    scheduler.stop().await;
}

pub(crate) async fn members_of_a_gang_have_claims_of_their_own(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(2)).await.unwrap();
    api.create_all(gpu_class_and_template()).await.unwrap();
    for node in ["node-0", "node-1"] {
        api.create(&gpus(node, 1)).await.unwrap();
    }
    let scheduler = Running::start_with_groups(cluster).await;
    api.create(&gang("pair", 2)).await.unwrap();
    let claims = json!({"spec": {"resourceClaims":
        [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}});
    for name in ["pair-0", "pair-1"] {
        api.create(&with(member(pod(name), "pair"), claims.clone())).await.unwrap();
    }
    assert_ne!(cluster.node_of("pair-0").await, cluster.node_of("pair-1").await);
    for claim in api.list("ResourceClaim").await.unwrap() {
        assert_eq!(claim["status"]["reservedFor"].as_array().map(Vec::len), Some(1), "{claim:#}");
        assert!(claim["status"]["allocation"].is_object(), "{claim:#}");
    }
    scheduler.stop().await;
}

/// The first of two members is bound, with its device, and the other's claim is written, when the scheduler is killed.
pub(crate) async fn a_scheduler_is_killed_while_it_binds_a_gang_with_devices(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    api.create_all(gpu_class_and_template()).await.unwrap();
    for node in ["node-0", "node-1", "node-2"] {
        api.create(&gpus(node, 1)).await.unwrap();
    }
    let extender = Extender::listen().await;
    let config = extender.config(json!({"bindVerb": "bind"}));
    let gates = "GenericWorkload=true,GangScheduling=true";
    let program = Program::start_configured(cluster, "killed", &config, gates).unwrap();
    api.create(&gang("pair", 2)).await.unwrap();
    for name in ["pair-0", "pair-1"] {
        api.create(&member(pod_with_gpu(name), "pair")).await.unwrap();
    }
    let n_asked = Cell::new(0);
    let answer = async |_: &str, question: &Value| {
        n_asked.set(n_asked.get() + 1);
        if n_asked.get() > 1 {
            return Ok(None);
        }
        bind(api, question).await?;
        Ok(Some(json!({})))
    };
    let devices = async || -> Vec<Value> {
        let mut claims = api.list("ResourceClaim").await.unwrap();
        claims.retain(|claim| claim["status"]["reservedFor"][0]["name"].is_string());
        let result =
            |claim: &Value| claim["status"]["allocation"]["devices"]["results"][0]["pool"].clone();
        claims.iter().map(result).collect()
    };
    let is_half_bound = async || n_asked.get() == 2 && devices().await.len() == 2;
    tokio::select! {
        () = extender.serve(answer) => panic!("the extender has ended"),
        () = until("one of two is bound", is_half_bound) => {}
    }
    program.kill();
    assert_eq!(cluster.n_bound().await, 1);

    // The devices are those of the claims as the first scheduler left them.
    let mut expected = devices().await;
    let scheduler = Running::start_with_groups(cluster).await;
    let mut nodes =
        [Value::from(cluster.node_of("pair-0").await), cluster.node_of("pair-1").await.into()];
    expected.sort_by_key(Value::to_string);
    nodes.sort_by_key(Value::to_string);
    assert_eq!(nodes[..], expected[..]);
    assert_eq!(devices().await.len(), 2);
    // The third device belongs to no claim.
    api.create(&pod_with_gpu("alone")).await.unwrap();
    assert!(!nodes.contains(&cluster.node_of("alone").await.into()));
    scheduler.stop().await;
}
