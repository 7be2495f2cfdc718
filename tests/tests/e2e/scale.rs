//! Many nodes and pods before a real API server that is killed twice meanwhile: asked for by `cargo xtask e2e --scale`,
//! in the release profile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube_scheduler_tests::control_plane::{Assets, Features, ServerOptions};
use serde_json::Value;

use crate::PROGRAM;
use crate::cluster::{Backend, Cluster};
use crate::objects::{node_in, pod};
use crate::scheduler::Program;

/// How many requests the test sends at once.
const WIDTH: usize = 32;

/// What stops a run that hangs.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Set by `cargo xtask e2e --scale`: nodes and pods, as `5000x10000`.
const SIZES: &str = "KUBE_SCHEDULER_E2E_SCALE";

#[tokio::test(flavor = "multi_thread")]
async fn none_is_lost_at_scale_while_the_api_server_is_killed_twice() {
    let Ok(sizes) = std::env::var(SIZES) else {
        eprintln!("skipped: {SIZES} is not set; cargo xtask e2e --scale sets it");
        return;
    };
    let (n_nodes, n_pods) = sizes.split_once('x').expect("NODESxPODS");
    let (n_nodes, n_pods): (usize, usize) = (n_nodes.parse().unwrap(), n_pods.parse().unwrap());
    let assets = Assets::from_environment().unwrap().expect("KUBEBUILDER_ASSETS is set");
    let backend = Backend::Real(assets);
    let options = ServerOptions { audits: false, features: Features::Default };
    let cluster = Cluster::start_bare(&backend, Path::new(PROGRAM), options).await.unwrap();

    let begin = Instant::now();
    let report = |what: String| eprintln!("{:7.1} s  {what}", begin.elapsed().as_secs_f64());
    let zones = ["a", "b", "c"];
    let nodes = (0..n_nodes).map(|i| node_in(&format!("node-{i}"), zones[i % 3]));
    create_all(&cluster, nodes).await;
    report(format!("{n_nodes} nodes created"));

    let log_args = ["--secure-port=0", "--leader-elect=false", "-v=1"];
    let scheduler = Program::start(&cluster, "scheduler", &log_args).unwrap();
    let created = create_all(&cluster, (0..n_pods).map(|i| pod(&format!("pod-{i}"))));
    let followed = async {
        let mut kills = vec![n_pods * 3 / 5, n_pods / 4];
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        while seen.len() < n_pods {
            assert!(begin.elapsed() < DEADLINE, "{} of {n_pods} bound", seen.len());
            tokio::time::sleep(Duration::from_secs(1)).await;
            note(&mut seen, &cluster).await;
            if kills.last().is_some_and(|at| seen.len() >= *at) {
                kills.pop();
                report(format!("{} bound; the API server is killed", seen.len()));
                cluster.restart_api_server(Duration::from_secs(3)).await.unwrap();
                report("the API server is ready again".to_owned());
            }
        }
        assert!(kills.is_empty(), "all was done before the second kill");
        seen
    };
    let ((), seen) = tokio::join!(created, followed);
    report(format!("{n_pods} pods created and bound"));

    // Nothing more happens: all are there, each where it was first seen, and no node holds more than it can.
    let mut last = BTreeMap::new();
    note(&mut last, &cluster).await;
    assert_eq!(last, seen);
    let mut per_node: BTreeMap<&str, usize> = BTreeMap::new();
    for node in last.values() {
        *per_node.entry(node).or_default() += 1;
    }
    let fullest = per_node.values().copied().max().unwrap_or(0);
    assert!(fullest <= 40, "a node of 4 CPUs holds {fullest} pods of 100m");
    assert!(scheduler.terminate().await.unwrap().is_some());
    report(format!("{} nodes used, at most {fullest} pods on one", per_node.len()));
}

async fn create_all(cluster: &Cluster, objects: impl Iterator<Item = Value>) {
    let created = stream::iter(objects)
        .map(|object| async move { cluster.api().create(&object).await.unwrap() })
        .buffer_unordered(WIDTH);
    created.collect::<Vec<()>>().await;
}

/// Notes where pods are; none that was seen may have moved or gone.
async fn note(seen: &mut BTreeMap<String, String>, cluster: &Cluster) {
    let placements = cluster.placements().await;
    for (pod, node) in seen.iter() {
        assert_eq!(placements.get(pod).and_then(Option::as_ref), Some(node), "{pod}");
    }
    let bound = placements.into_iter().filter_map(|(pod, node)| Some((pod, node?)));
    seen.extend(bound);
}
