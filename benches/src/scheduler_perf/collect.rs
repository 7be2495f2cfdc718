//! Measuring while operations run: throughput, the scheduler's histograms, memory, and how long it took.
//!
//! Throughput is sampled once a second as in the reference: nothing before the first pod has a node, the first sample after
//! that is skipped, and seconds without any pod are filled up with the mean of the stretch that they end in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube_scheduler_api_types::lock;
use kube_scheduler_daemon::{DaemonHandle, resident_memory_bytes};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::data_items::DataItem;
use super::definition::MetricsCollectorConfig;
use super::histograms;
use super::pods::{PodFilter, Pods, ScheduledCounter};

const THROUGHPUT_INTERVAL: Duration = Duration::from_secs(1);
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);

/// A collection under way.
pub(crate) struct Collection {
    name: String,
    config: MetricsCollectorConfig,
    scheduler: DaemonHandle,
    start: Instant,
    samples: Arc<Mutex<Samples>>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct Samples {
    throughput: Throughput,
    /// In MiB, with the time since the start.
    memory: Vec<(Duration, f64)>,
}

impl Collection {
    /// Begins; `name` is put into the results.
    pub(crate) fn start(
        name: String,
        pods: &Pods,
        filter: PodFilter,
        config: MetricsCollectorConfig,
        scheduler: DaemonHandle,
    ) -> Self {
        let samples: Arc<Mutex<Samples>> = Arc::default();
        let start = Instant::now();
        let counter = pods.count_scheduled(filter);
        let tasks = [
            tokio::spawn(sample_throughput(counter, start, samples.clone())),
            tokio::spawn(sample_memory(start, samples.clone())),
        ];
        Self { name, config, scheduler, start, samples, tasks }
    }

    /// Ends, and returns what was measured. Throughput is missing if all happened within two samples.
    pub(crate) fn stop(self) -> Vec<DataItem> {
        let length = self.start.elapsed();
        for task in &self.tasks {
            task.abort();
        }
        let mut samples = lock(&self.samples);
        samples.memory.push((length, memory()));
        let mut items = Vec::new();
        let item = |metric: &str, unit: &str| DataItem::new(&self.name, metric, unit);
        match item("SchedulingThroughput", "pods/s").with_samples(&samples.throughput.samples) {
            Some(throughput) => items.push(throughput),
            None => eprintln!(
                "{}: no SchedulingThroughput: it took less than two samples of a second; more pods or nodes make it take longer",
                self.name
            ),
        }
        items.extend(histograms::collect(&self.config, &self.scheduler.metrics(), &self.name));
        let sizes: Vec<f64> = samples.memory.iter().map(|(_, size)| *size).collect();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        items.extend(
            item("heap_memory_usage", "MB")
                .with_samples(&sizes)
                .map(|item| item.with("Max", largest)),
        );
        items
            .push(item("memory_growth_rate", "MB/min").with("GrowthRate", growth(&samples.memory)));
        items.push(item("SchedulingDuration", "s").with("Duration", length.as_secs_f64()));
        items
    }
}

async fn sample_throughput(
    counter: ScheduledCounter,
    start: Instant,
    samples: Arc<Mutex<Samples>>,
) {
    let mut ticks = ticks(THROUGHPUT_INTERVAL);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let n = counter.n_scheduled();
        let mut samples = lock(&samples);
        samples.throughput.sample(start.elapsed(), n);
    }
}

async fn sample_memory(start: Instant, samples: Arc<Mutex<Samples>>) {
    let mut ticks = ticks(MEMORY_INTERVAL);
    loop {
        ticks.tick().await;
        let sample = (start.elapsed(), memory());
        lock(&samples).memory.push(sample);
    }
}

fn ticks(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Parity: physical memory of this process, scheduler and all; the reference reports the heap of its own process, which
/// holds the API server too.
fn memory() -> f64 {
    resident_memory_bytes().map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20))
}

/// In MiB a minute, from the first sample to the last.
fn growth(samples: &[(Duration, f64)]) -> f64 {
    match samples {
        [(from, first), .., (to, last)] if to > from => {
            (last - first) / (*to - *from).as_secs_f64() * 60.0
        }
        _ => 0.0,
    }
}

/// Pods a second, from counts at points in time.
#[derive(Clone, Debug, Default, PartialEq)]
struct Throughput {
    samples: Vec<f64>,
    last: Option<(Duration, usize)>,
    skipped: usize,
}

impl Throughput {
    fn sample(&mut self, now: Duration, n_scheduled: usize) {
        if n_scheduled == 0 {
            return;
        }
        let Some((then, before)) = self.last else {
            // Likely an outlier: pods and samples begin independently.
            self.last = Some((now, n_scheduled));
            return;
        };
        let n_new = n_scheduled.saturating_sub(before);
        if n_new == 0 {
            self.skipped += 1;
            return;
        }
        let rate = n_new as f64 / now.saturating_sub(then).as_secs_f64();
        self.samples.extend(std::iter::repeat_n(rate, self.skipped + 1));
        self.skipped = 0;
        self.last = Some((now, n_scheduled));
    }
}

/// What to report of a test case.
pub(crate) fn config_of(
    own: Option<&MetricsCollectorConfig>,
    gates: &BTreeMap<String, bool>,
) -> MetricsCollectorConfig {
    let has_hints = gates.get("SchedulerQueueingHints") != Some(&false);
    own.cloned().unwrap_or_else(|| histograms::default_config(has_hints))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(counts: &[usize]) -> Vec<f64> {
        let mut throughput = Throughput::default();
        for (second, n) in counts.iter().enumerate() {
            throughput.sample(Duration::from_secs(second as u64), *n);
        }
        throughput.samples
    }

    #[test]
    fn the_first_second_with_pods_is_skipped() {
        assert_eq!(samples(&[0, 0, 50, 150, 200]), [100.0, 50.0]);
        assert_eq!(samples(&[0, 100]), Vec::<f64>::new());
    }

    #[test]
    fn seconds_without_pods_share_the_rate_of_their_stretch() {
        assert_eq!(samples(&[10, 10, 10, 40]), [10.0, 10.0, 10.0]);
        assert_eq!(samples(&[10, 20, 20, 20]), [10.0]);
    }

    #[test]
    fn growth_is_per_minute() {
        let at = |seconds, size| (Duration::from_secs(seconds), size);
        assert_eq!(growth(&[at(0, 10.0), at(15, 9.0), at(30, 11.0)]), 2.0);
        assert_eq!(growth(&[at(0, 10.0)]), 0.0);
    }
}
