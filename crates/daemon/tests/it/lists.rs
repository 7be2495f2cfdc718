//! Reading a whole cluster once.

use std::error::Error as _;

use kube_scheduler_daemon::{ClusterLists, Endpoint};
use kube_scheduler_devcluster::{DevCluster, User};
use tempfile::tempdir;

use crate::cluster::cluster_of;

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_list_pods_reads_why_once() {
    let cluster = cluster_of(DevCluster::builder().tls(true).rbac(true), 1).await;
    let directory = tempdir().unwrap();
    let kubeconfig = directory.path().join("guest.conf");
    std::fs::write(&kubeconfig, cluster.kubeconfig_for(&User::new("guest")).unwrap()).unwrap();
    let endpoint = Endpoint::from_kubeconfig(&kubeconfig, None).await.unwrap();
    let error = ClusterLists::read(&endpoint).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot list pods");
    assert_eq!(
        error.source().unwrap().to_string(),
        "pods is forbidden: User \"guest\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
    );
}
