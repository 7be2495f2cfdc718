//! Reading a whole cluster once.

use std::error::Error as _;

use kube_scheduler_daemon::{ClusterLists, Endpoint};
use kube_scheduler_devcluster::{DevCluster, User};
use serde_json::json;
use tempfile::tempdir;

use crate::cluster::{cluster_of, pod};

/// The cluster of this kubeconfig.
async fn endpoint_of(kubeconfig: &str) -> Endpoint {
    let directory = tempdir().unwrap();
    let path = directory.path().join("user.conf");
    std::fs::write(&path, kubeconfig).unwrap();
    Endpoint::from_kubeconfig(&path, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_list_pods_reads_why_once() {
    let cluster = cluster_of(DevCluster::builder().tls(true).rbac(true), 1).await;
    let endpoint = endpoint_of(&cluster.kubeconfig_for(&User::new("guest")).unwrap()).await;
    let error = ClusterLists::read(&endpoint).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot list pods");
    assert_eq!(
        error.source().unwrap().to_string(),
        "pods is forbidden: User \"guest\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_with_a_pod_are_for_those_who_may_list_pods() {
    let cluster = cluster_of(DevCluster::builder().tls(true).rbac(true), 1).await;
    for (namespace, name) in
        [("kube-system", "web"), ("default", "web"), ("kube-public", "web"), ("default", "web-1")]
    {
        let mut pod = pod(name);
        pod["metadata"]["namespace"] = json!(namespace);
        cluster.create(pod).unwrap();
    }
    let administrator = endpoint_of(&cluster.kubeconfig()).await;
    let found = |max| ClusterLists::namespaces_with_pod(&administrator, "web", max);
    assert_eq!(found(2).await.unwrap(), ["default", "kube-public"]);
    assert_eq!(found(9).await.unwrap(), ["default", "kube-public", "kube-system"]);
    let several = "web,metadata.name!=x";
    let none = ClusterLists::namespaces_with_pod(&administrator, several, 9).await.unwrap();
    assert!(none.is_empty(), "it is no name of a pod: {none:?}");
    let guest = endpoint_of(&cluster.kubeconfig_for(&User::new("guest")).unwrap()).await;
    let error = ClusterLists::namespaces_with_pod(&guest, "web", 9).await.unwrap_err();
    let refusal = "is forbidden: User \"guest\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
    assert!(error.to_string().ends_with(refusal), "{error}");
}
