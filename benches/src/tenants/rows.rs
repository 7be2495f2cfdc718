//! Each kind of the worst pods by itself: what it costs, what the next plain pod costs, and what is left.

use std::time::Duration;

use anyhow::Result;
use kube_scheduler_tests::tenants::{KINDS, Share};
use serde_json::json;

use super::cluster::TenantCluster;
use super::{Heap, core_time, millis};
use crate::table::Table;

const TENANT: &str = "tenant";

fn mib(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A pod like no other: the time for it, in all.
fn plain(cluster: &mut TenantCluster, name: &str) -> Result<Duration> {
    let app = json!({"metadata": {"labels": {"app": name}}, "spec": {}});
    let taken = cluster.add("other", name, app)?;
    Ok(taken + cluster.attempts().longest)
}

/// Measures the kinds with these names, or all.
///
/// # Errors
/// If an engine cannot be built.
pub fn rows(n_nodes: usize, names: &[String], heap: Heap<'_>) -> Result<Table> {
    let mut table = Table::new([
        "pods",
        "n",
        "JSON KB",
        "intake ms",
        "attempt ms",
        "plain ms",
        "MiB",
        "left MiB",
    ]);
    for kind in &KINDS {
        if !names.is_empty() && names.iter().all(|name| name != kind.name) {
            continue;
        }
        let mut cluster = TenantCluster::new(n_nodes)?;
        for name in ["first", "second", "third"] {
            plain(&mut cluster, name)?;
        }
        let before = heap.current_usage();
        let (mut intake, mut attempt, mut size) = (Duration::ZERO, Duration::ZERO, 0);
        let mut most = before;
        for at in 0..kind.n_pods {
            let json = (kind.pod)(at, Share::WHOLE);
            size = json.to_string().len();
            intake = intake.max(cluster.add(TENANT, &format!("evil{at}"), json)?);
            heap.reset_peak_usage();
            attempt = attempt.max(cluster.attempts().longest);
            most = most.max(heap.peak_usage());
        }
        // Every pod is tried again, at least once.
        cluster.now = cluster.now + Duration::from_secs(400);
        attempt = attempt.max(cluster.attempts().longest);
        let beside = plain(&mut cluster, "fourth")?.min(plain(&mut cluster, "fifth")?);
        let removed = core_time();
        (0..kind.n_pods).for_each(|at| cluster.remove(TENANT, &format!("evil{at}")));
        intake = intake.max((core_time() - removed) / u32::try_from(kind.n_pods)?);
        for name in ["first", "second", "third", "fourth", "fifth"] {
            cluster.remove("other", name);
        }
        cluster.sharing.sweep();
        let left = heap.current_usage().saturating_sub(before);
        table.push(vec![
            kind.name.to_owned(),
            kind.n_pods.to_string(),
            (size / 1000).to_string(),
            format!("{:.2}", millis(intake)),
            format!("{:.2}", millis(attempt)),
            format!("{:.2}", millis(beside)),
            mib(most.saturating_sub(before)),
            mib(left),
        ]);
    }
    Ok(table)
}
