//! Gangs: all of their pods, or as many as they want at least, or none.

use std::cell::Cell;

use kube_scheduler_config::Gate;
use serde_json::{Value, json};

use super::extenders::bind;
use crate::cluster::Cluster;
use crate::extender::Extender;
use crate::objects::{asking, gpu_class_and_template, gpus, nodes, pod, pod_with_gpu, with};
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
