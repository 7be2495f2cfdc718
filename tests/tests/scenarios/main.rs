//! Scenarios on an engine alone: one program, because each would link everything once more.

mod backfill;
mod bad_groups;
mod coscheduling;
mod exact_gangs;
mod given_back;
mod groups;
mod histories;
mod numbered;
mod tenants;

use std::time::Duration;

use kube_scheduler_engine::EngineOptions;
use kube_scheduler_tests::fixtures::{engine_with, gates};
use kube_scheduler_tests::live_cluster::LiveCluster;
use serde_json::Value;

/// A cluster without nodes, for groups: with these profiles and gates.
fn group_cluster(profiles: &Value, on: &[&str], plans_gangs_exactly: bool) -> LiveCluster {
    let options = EngineOptions {
        gates: gates(on.iter().copied()),
        plans_gangs_exactly,
        max_in_unschedulable: NEVER,
        ..EngineOptions::default()
    };
    LiveCluster::new(engine_with(profiles, &kube_scheduler_plugins_intree::registry(), options))
}

/// Whatever is not woken in time is not woken: what time alone brings back would hide that.
const NEVER: Duration = Duration::from_secs(1_000_000);
