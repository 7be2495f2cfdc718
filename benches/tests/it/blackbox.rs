//! The black box, with the ceiling as the program that is timed, against the API server in memory.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use kube_scheduler_benches::blackbox::{Backend, Cluster, Round, Shape, Subject};
use kube_scheduler_tests::control_plane::Features;

fn round(backend: Backend) -> Round {
    Round {
        backend,
        n_nodes: 7,
        n_pods: 40,
        shape: Shape::AntiAffinity,
        timeout: Duration::from_secs(180),
        grace: Duration::ZERO,
        program: env!("CARGO_BIN_EXE_bench-blackbox").into(),
        log: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ceiling_binds_all_pods() {
    let figures =
        round(Backend::Devcluster { is_plain: false }).play(&Subject::Ceiling).await.unwrap();
    assert_eq!((figures.bound, figures.scheduled_events), (40, None));
    assert!(figures.first_bind_millis.is_some_and(|millis| millis > 0.0), "{figures:?}");
    assert!(figures.server_cpu_seconds.is_some(), "{figures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_there_is_left_as_it_was_found() {
    let program = Path::new(env!("CARGO_BIN_EXE_bench-blackbox"));
    let cluster =
        Cluster::start(&Backend::Devcluster { is_plain: true }, program, Features::Default)
            .await
            .unwrap();
    let kubeconfig = cluster.files().join("administrator.kubeconfig");
    let figures = round(Backend::Given(kubeconfig)).play(&Subject::Ceiling).await.unwrap();
    assert_eq!((figures.bound, figures.server_cpu_seconds), (40, None));
    for kind in ["Node", "Namespace"] {
        let left = cluster.api.list(kind).await.unwrap();
        let names: Vec<&str> =
            left.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert!(!names.iter().any(|name| name.starts_with("blackbox-")), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_ends_is_reported_with_its_last_words() {
    let command = ["sh", "-c", "echo no such flag: $0 >&2; exit 3", "{kubeconfig}"];
    let subject = Subject::Scheduler(command.map(OsString::from).into());
    let error =
        round(Backend::Devcluster { is_plain: true }).play(&subject).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the scheduler ended with exit status: 3:\nno such flag: /"),
        "{error}"
    );
    assert!(error.ends_with("scheduler.kubeconfig"), "{error}");
}
