//! Several schedulers in one.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{nodes, pod, with};
use crate::scheduler::Running;

pub(crate) async fn each_pod_is_scheduled_by_its_profile(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(4)).await.unwrap();
    let packing = json!({"name": "NodeResourcesFit", "args": {"scoringStrategy":
        {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}});
    let off: Vec<_> = ["NodeResourcesBalancedAllocation", "PodTopologySpread", "ImageLocality"]
        .map(|name| json!({"name": name}))
        .into();
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "packer", "pluginConfig": [packing], "plugins": {"score": {"disabled": off}}},
        ],
    });
    let of = |name: &str, scheduler: &str| {
        with(pod(name), json!({"spec": {"schedulerName": scheduler}}))
    };
    let scheduler = Running::start_configured(cluster, &config).await;
    // One after the other, so that each sees where the one before went.
    let mut packed = BTreeSet::new();
    for i in 0..4 {
        let name = format!("packed-{i}");
        api.create(&of(&name, "packer")).await.unwrap();
        packed.insert(cluster.node_of(&name).await);
    }
    assert_eq!(packed.len(), 1, "{packed:?}");
    let mut spread = BTreeSet::new();
    api.create(&of("foreign", "somebody-else")).await.unwrap();
    for i in 0..3 {
        let name = format!("spread-{i}");
        api.create(&of(&name, "default-scheduler")).await.unwrap();
        spread.insert(cluster.node_of(&name).await);
    }
    assert_eq!(spread.len(), 3, "{spread:?}");
    assert_eq!(cluster.placements().await["foreign"], None);
    let event = cluster.until_event("packed-0", "Scheduled").await;
    assert_eq!(event["reportingController"], "packer");
    scheduler.stop().await;
}
