//! The end-to-end suite: one set of scenarios, played in the embedded cluster always, and before a kube-apiserver with
//! etcd where `KUBEBUILDER_ASSETS` says where they are.
//!
//! Both clusters have TLS and RBAC on. Nothing but the API server, the kubelets and volume controllers that stand in for
//! the rest of a cluster, and the scheduler under test does anything in them, and the scheduler always comes as the user
//! `system:kube-scheduler`.
//!
//! Invariants: scenarios see a cluster through its API only, so that they say the same of both; whatever was refused
//! to the scheduler because a right is missing fails the scenario; nothing waits for a while, only for a state.

#![allow(clippy::unwrap_used, reason = "a scenario that cannot go on stops where it is")]

mod aggregated;
mod cluster;
mod extender;
mod inhabitants;
mod objects;
mod scale;
mod scenarios;
mod scheduler;
mod stock;
mod wait;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Instant;

use futures::FutureExt;
use kube_scheduler_tests::control_plane::{Assets, Features};

use crate::cluster::{Backend, Cluster};
use crate::scenarios::{SCENARIOS, Scenario, each_scenario};

/// The scheduler for scenarios that need a process of its own.
const PROGRAM: &str = env!("CARGO_BIN_EXE_e2e-scheduler");

/// Plays one scenario in an embedded cluster of its own.
async fn play_embedded(name: &str) {
    let cluster =
        Cluster::start(&Backend::Embedded, Path::new(PROGRAM), Features::Gated).await.unwrap();
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    scenario.play(&cluster).await;
}

macro_rules! embedded {
    ($($features:ident $module:ident::$name:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            play_embedded(concat!(stringify!($module), "::", stringify!($name))).await;
        }
    )*};
}

each_scenario!(embedded);

/// Plays the scenarios for API servers with these features, one after the other in one cluster: starting an API server takes
/// longer than most of them. `KUBE_SCHEDULER_E2E_ONLY` plays those with the text in their names.
async fn play_real(features: Features) {
    let Some(assets) = Assets::from_environment().unwrap() else {
        eprintln!(
            "skipped: KUBEBUILDER_ASSETS is not set, so there is no real API server to test against"
        );
        return;
    };
    let only = std::env::var("KUBE_SCHEDULER_E2E_ONLY").unwrap_or_default();
    let backend = Backend::Real(assets);
    let cluster = Cluster::start(&backend, Path::new(PROGRAM), features).await.unwrap();
    let mut failed = Vec::new();
    let is_played = |one: &&Scenario| one.features == features && one.name.contains(&only);
    for scenario in SCENARIOS.iter().filter(is_played) {
        let begin = Instant::now();
        // The others are played even if it fails.
        let ended = AssertUnwindSafe(scenario.play(&cluster)).catch_unwind().await;
        let verdict = if ended.is_ok() { "ok" } else { "FAILED" };
        eprintln!("{verdict:6} {:6.1} s  {}", begin.elapsed().as_secs_f64(), scenario.name);
        if ended.is_err() {
            failed.push(scenario.name);
        }
        cluster.clear().await.unwrap();
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn against_a_real_api_server() {
    play_real(Features::Default).await;
}

/// Scenarios about what is off by default in an API server.
#[tokio::test(flavor = "multi_thread")]
async fn against_a_real_api_server_with_gates() {
    play_real(Features::Gated).await;
}
