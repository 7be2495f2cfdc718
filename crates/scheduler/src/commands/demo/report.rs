//! The result of the demo: as a table for people, as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::devices::DeviceCounts;
use super::watcher::PodRecord;

/// Numbers of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) pods: PodCounts,
    pub(super) shapes: BTreeMap<String, ShapeCounts>,
    /// Devices by driver, if there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) devices: BTreeMap<String, DeviceCounts>,
    /// Pods per node.
    pub(super) pods_per_node: Spread,
    pub(super) elapsed_seconds: f64,
    /// Decisions per second of the time that decisions took.
    pub(super) decisions_per_second: f64,
    /// Bindings per second from the first pod's creation to the last one's binding.
    pub(super) binds_per_second: f64,
    pub(super) time_to_bind_seconds: Quantiles,
    /// Resident memory of this process: API server, nodes and scheduler together.
    pub(super) memory_bytes: Option<u64>,
    /// Pods that were not bound, and why.
    pub(super) pending: Vec<UnplacedPod>,
    /// What came after all that, with gangs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) urgent_gang: Option<UrgentGang>,
}

/// A gang for which others had to go. The other figures are those before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct UrgentGang {
    pub(super) pods: usize,
    pub(super) bound: usize,
    /// How many pods were evicted for it.
    pub(super) evicted: usize,
    /// Until the last of its pods was bound.
    pub(super) seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct PodCounts {
    pub(super) total: usize,
    pub(super) bound: usize,
    pub(super) pending: usize,
    pub(super) gated: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct ShapeCounts {
    pub(super) total: usize,
    pub(super) bound: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: usize,
    pub(super) mean: f64,
    pub(super) max: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct UnplacedPod {
    pub(super) pod: String,
    pub(super) message: String,
}

/// Figures of a run, without those of its pods.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    /// Names of all nodes.
    pub(super) nodes: Vec<String>,
    pub(super) n_pods: usize,
    pub(super) elapsed: Duration,
    pub(super) n_decisions: u64,
    pub(super) deciding: Duration,
    pub(super) memory_bytes: Option<u64>,
    pub(super) devices: BTreeMap<String, DeviceCounts>,
}

impl Report {
    pub(super) fn new(run: &Run, records: &BTreeMap<String, PodRecord>) -> Self {
        let mut shapes: BTreeMap<String, ShapeCounts> = BTreeMap::new();
        let mut on_node: BTreeMap<&str, usize> =
            run.nodes.iter().map(|node| (node.as_str(), 0)).collect();
        let mut pods = PodCounts { total: run.n_pods, ..PodCounts::default() };
        let mut pending = Vec::new();
        // Nodes without pods count in the mean, so every node has an entry from the start.
        for (name, pod) in records {
            let shape = shapes.entry(pod.shape.clone()).or_default();
            shape.total += 1;
            if let Some(node) = &pod.node {
                shape.bound += 1;
                pods.bound += 1;
                *on_node.entry(node).or_default() += 1;
            } else {
                pods.gated += usize::from(pod.is_gated());
                pods.pending += usize::from(!pod.is_gated());
                pending.push(UnplacedPod {
                    pod: format!("default/{name}"),
                    message: pod.message.clone(),
                });
            }
        }
        let per_node: Vec<usize> = on_node.into_values().collect();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            seed: run.seed,
            nodes: run.nodes.len(),
            pods,
            shapes,
            devices: run.devices.clone(),
            pods_per_node: Spread {
                min: per_node.iter().copied().min().unwrap_or(0),
                mean: per_node.iter().sum::<usize>() as f64 / per_node.len().max(1) as f64,
                max: per_node.iter().copied().max().unwrap_or(0),
            },
            elapsed_seconds: run.elapsed.as_secs_f64(),
            decisions_per_second: rate(run.n_decisions as f64, run.deciding),
            binds_per_second: rate(pods.bound as f64, run.elapsed),
            time_to_bind_seconds: Quantiles::of(
                records.values().filter_map(PodRecord::time_to_bind),
            ),
            memory_bytes: run.memory_bytes,
            pending,
            urgent_gang: None,
        }
    }

    /// Three-space columns, as kubectl prints them.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<22}{value}");
        };
        let pods = &self.pods;
        row("NODES", self.nodes.to_string());
        row("PODS", pods.total.to_string());
        row("  bound", pods.bound.to_string());
        row("  pending", pods.pending.to_string());
        row("  gated", pods.gated.to_string());
        row("PODS BY SHAPE", "bound / total".to_owned());
        for (shape, counts) in &self.shapes {
            row(&format!("  {shape}"), format!("{} / {}", counts.bound, counts.total));
        }
        if !self.devices.is_empty() {
            row("DEVICES BY DRIVER", "allocated / total".to_owned());
        }
        for (driver, counts) in &self.devices {
            let value = format!("{} / {}", counts.allocated, counts.devices);
            row(&format!("  {driver}"), format!("  {value}"));
        }
        let spread = &self.pods_per_node;
        row(
            "PODS PER NODE",
            format!("min {}   mean {:.1}   max {}", spread.min, spread.mean, spread.max),
        );
        row("DECISIONS", format!("{:.0} / s", self.decisions_per_second));
        row("BINDINGS", format!("{:.0} / s", self.binds_per_second));
        let wait = &self.time_to_bind_seconds;
        row(
            "TIME TO BIND",
            format!(
                "p50 {}   p99 {}   max {}",
                millis(wait.p50),
                millis(wait.p99),
                millis(wait.max)
            ),
        );
        row("ELAPSED", format!("{:.1} s", self.elapsed_seconds));
        if let Some(bytes) = self.memory_bytes {
            let mib = bytes as f64 / (1024.0 * 1024.0);
            row("MEMORY", format!("{mib:.0} MiB (API server, nodes and scheduler)"));
        }
        if let Some(gang) = &self.urgent_gang {
            let UrgentGang { pods, bound, evicted, seconds } = gang;
            let after = millis(*seconds);
            let text = format!(
                "{bound} of {pods} pods bound after {after}, {evicted} pods evicted for them"
            );
            row("URGENT GANG", text);
        }
        for pending in self.pending.iter().take(5) {
            let message =
                if pending.message.is_empty() { "not tried yet" } else { &pending.message };
            row("NOT BOUND", format!("{}: {message}", pending.pod));
        }
        if self.pending.len() > 5 {
            row("", format!("and {} more", self.pending.len() - 5));
        }
        text
    }
}

impl Quantiles {
    fn of(lengths: impl Iterator<Item = Duration>) -> Self {
        let mut seconds: Vec<f64> = lengths.map(|length| length.as_secs_f64()).collect();
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * seconds.len() as f64).ceil() as usize;
            seconds.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

fn rate(n: f64, length: Duration) -> f64 {
    if length.is_zero() { 0.0 } else { n / length.as_secs_f64() }
}

fn millis(seconds: f64) -> String {
    format!("{:.0} ms", seconds * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let lengths = (1..=100).map(Duration::from_secs);
        assert_eq!(Quantiles::of(lengths), Quantiles { p50: 50.0, p99: 99.0, max: 100.0 });
        assert_eq!(Quantiles::of(std::iter::empty()), Quantiles::default());
    }

    #[test]
    fn nodes_without_pods_count() {
        let run = Run {
            seed: 0,
            nodes: vec!["a".to_owned(), "b".to_owned()],
            n_pods: 0,
            elapsed: Duration::ZERO,
            n_decisions: 0,
            deciding: Duration::ZERO,
            memory_bytes: Some(1024 * 1024),
            devices: BTreeMap::new(),
        };
        let report = Report::new(&run, &BTreeMap::new());
        assert_eq!((report.nodes, report.pods_per_node.max), (2, 0));
        assert!(report.table().contains("MEMORY                1 MiB"), "{}", report.table());
    }
}
