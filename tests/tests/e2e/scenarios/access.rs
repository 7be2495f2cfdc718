//! What the scheduler may do, and that nothing more is needed.

use kube_scheduler_devcluster::User;
use kube_scheduler_tests::control_plane::Api;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{nodes, pods};
use crate::scheduler::Running;

/// That nothing is refused is asked after every scenario; this one makes sure that it would be, and that it would be
/// noticed.
pub(crate) async fn the_roles_of_the_scheduler_are_enough(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(2)).await.unwrap();
    api.create_all(pods("p", 20)).await.unwrap();
    let scheduler = Running::start(cluster).await;
    cluster.until_bound(20).await;
    cluster.until_event("p-19", "Scheduled").await;
    scheduler.stop().await;
    assert!(!cluster.placements().await.is_empty());

    let as_scheduler = cluster.kubeconfig_for(&User::kube_scheduler()).await.unwrap();
    let as_scheduler = Api::of_kubeconfig(&as_scheduler).await.unwrap();
    let review = |resource: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "create", "resource": resource, "namespace": "default"}}})
    };
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let may = async |resource: &str| {
        let review = review(resource);
        let answer = as_scheduler.send("POST", path, Some(&review), "application/json").await;
        answer.unwrap()["status"]["allowed"] == true
    };
    assert!(may("bindings").await);
    assert!(!may("pods").await, "access control is off");
}
