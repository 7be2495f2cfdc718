//! Families of metrics and their series: what plugins count, and what the scheduler counts itself.
//!
//! Invariants: metrics are read back for export alone; series are listed in the order of their labels; a series is read as it
//! stands between two changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;

/// What kind of metric a family is.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations by size, with the upper bounds of the buckets except for the last, which has none.
    Histogram(Vec<f64>),
}

/// One series of a family, as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// The values of the labels, in the order of [`MetricFamily::labels`].
    pub labels: Vec<String>,
    /// The number; of a histogram the sum of all observations.
    pub value: f64,
    /// How many observations fell into each bucket, the last one included; none unless a histogram.
    pub buckets: Vec<u64>,
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    kind: MetricKind,
    labels: Vec<String>,
    /// By the values of the labels.
    series: Mutex<BTreeMap<Vec<String>, Arc<Mutex<MetricSeries>>>>,
}

/// A family of metrics; [`with`](Self::with) gives one series.
#[derive(Clone, Debug)]
pub struct MetricFamily(Arc<Family>);

/// One number. Cheap to clone and to change from any thread.
#[derive(Clone, Debug)]
pub struct Metric {
    family: Arc<Family>,
    series: Arc<Mutex<MetricSeries>>,
}

impl MetricFamily {
    /// A family without series, for the program around the scheduler. Plugins get theirs from
    /// [`PluginMetrics`](crate::PluginMetrics), which are exported.
    pub fn new(name: String, help: String, kind: MetricKind, labels: Vec<String>) -> Self {
        Self(Arc::new(Family { name, help, kind, labels, series: Mutex::default() }))
    }

    /// The name of the family, as it is exported.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the family measures, in one sentence.
    pub fn help(&self) -> &str {
        &self.0.help
    }

    /// Whether it is a counter, a gauge or a histogram.
    pub fn kind(&self) -> &MetricKind {
        &self.0.kind
    }

    /// The names of the labels.
    pub fn labels(&self) -> &[String] {
        &self.0.labels
    }

    /// All series as they stand.
    pub fn series(&self) -> Vec<MetricSeries> {
        lock(&self.0.series).values().map(|series| lock(series).clone()).collect()
    }

    /// The series with these label values; missing ones are empty, those too many are left out. It is shown from now on.
    pub fn with(&self, labels: &[&str]) -> Metric {
        let family = &self.0;
        let n = family.labels.len();
        let labels: Vec<String> =
            (0..n).map(|at| labels.get(at).map_or_else(String::new, |v| (*v).to_owned())).collect();
        let n_buckets = match &family.kind {
            MetricKind::Histogram(bounds) => bounds.len() + 1,
            MetricKind::Counter | MetricKind::Gauge => 0,
        };
        let empty = |labels: &Vec<String>| {
            let buckets = vec![0; n_buckets];
            Arc::new(Mutex::new(MetricSeries { labels: labels.clone(), value: 0.0, buckets }))
        };
        let series = lock(&family.series).entry(labels).or_insert_with_key(empty).clone();
        Metric { family: family.clone(), series }
    }

    /// Forgets all series.
    pub fn clear(&self) {
        lock(&self.0.series).clear();
    }
}

impl Metric {
    /// Adds one to a counter or a gauge, or observes 1 in a histogram.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Adds to a counter or a gauge, or observes a value of a histogram. A counter does not shrink.
    pub fn add(&self, value: f64) {
        let mut series = lock(&self.series);
        match &self.family.kind {
            MetricKind::Counter if value < 0.0 => return,
            MetricKind::Counter | MetricKind::Gauge => {}
            MetricKind::Histogram(bounds) => {
                series.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
            }
        }
        series.value += value;
    }

    /// Adds observations of a histogram that were counted elsewhere, by the same buckets.
    pub fn absorb(&self, counts: &[u64], sum: f64) {
        let mut series = lock(&self.series);
        for (count, more) in series.buckets.iter_mut().zip(counts) {
            *count += more;
        }
        series.value += sum;
    }

    /// Sets a gauge; has no effect on other kinds of metrics.
    pub fn set(&self, value: f64) {
        if self.family.kind == MetricKind::Gauge {
            self.replace(value);
        }
    }

    /// Sets a gauge, or a counter that is counted elsewhere.
    pub fn replace(&self, value: f64) {
        lock(&self.series).value = value;
    }
}
