//! The command line of a static pod as kubeadm writes it.

use kube_scheduler_devcluster::User;
use kube_scheduler_tests::control_plane::{Api, ReservedPort, code};

use crate::cluster::Cluster;
use crate::objects::{nodes, pods};
use crate::scheduler::Program;
use crate::wait::until;

/// Only the paths and the port differ from a control plane's: a test may not take the one port that those use.
pub(crate) async fn the_static_pod_of_a_control_plane_works(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(3)).await.unwrap();
    let kubeconfig = cluster.scheduler_kubeconfig().display();
    let reserved = ReservedPort::new().unwrap();
    let port = reserved.number();
    let args = [
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=true".to_owned(),
        format!("--secure-port={port}"),
    ];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let scheduler = Program::start(cluster, "static-pod", &args).unwrap();

    // The probes of the manifest: startup and liveness, then readiness; as a kubelet does them, without credentials and
    // without asking whose certificate it is.
    let url = format!("https://127.0.0.1:{port}");
    let anonymous = Api::of_server(&url, None).await.unwrap();
    for path in ["/livez", "/readyz"] {
        until(path, async || anonymous.text(path).await.is_ok_and(|text| text == "ok")).await;
    }
    api.create_all(pods("p", 10)).await.unwrap();
    cluster.until_bound(10).await;

    // Anonymous callers may see no more; an administrator with a certificate by the cluster's authority may.
    let refused = anonymous.text("/metrics").await.unwrap_err();
    assert_eq!(code(&refused), Some(403), "{refused:#}");
    let administrator = cluster.kubeconfig_for(&User::administrator()).await.unwrap();
    let administrator = Api::of_server(&url, Some(&administrator)).await.unwrap();
    let metrics = administrator.text("/metrics").await.unwrap();
    assert!(metrics.contains("scheduler_schedule_attempts_total{"), "{metrics}");
    assert_eq!(scheduler.terminate().await.unwrap(), Some(0));
}
