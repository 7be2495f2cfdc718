//! Metrics of plugins: counted here, shown by the shell beside the scheduler's own.
//!
//! Invariants: metrics are read back for export alone; asking again for a family of the same name, kind and labels gives the
//! same family, and asking for a different one of the same name is an error; families and series are listed in the order of
//! their names and labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;

use crate::plugin_error::PluginError;

/// Names that begin like this are the scheduler's own.
const RESERVED: [&str; 12] = [
    "scheduler_",
    "rest_client_",
    "process_",
    "go_",
    "workqueue_",
    "leader_election_",
    "apiserver_",
    "kubernetes_",
    "registered_metric",
    "hidden_metric",
    "disabled_metric",
    "kube_pod_",
];

/// Exceptions to [`RESERVED`]: metrics that plugins of the default profile count.
const OF_PLUGINS: [&str; 2] = ["scheduler_dra_", "scheduler_resourceclaim_"];

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

#[derive(Debug)]
struct Series {
    /// A float's bits.
    value: AtomicU64,
    buckets: Vec<AtomicU64>,
}

impl Series {
    fn change(&self, change: impl Fn(f64) -> f64) {
        let changed = |bits| Some(change(f64::from_bits(bits)).to_bits());
        // The closure never declines.
        let _ = self.value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    kind: MetricKind,
    labels: Vec<String>,
    series: Mutex<BTreeMap<Vec<String>, Arc<Series>>>,
}

/// All metrics of plugins. Cloning shares them.
#[derive(Clone, Default)]
pub struct PluginMetrics(Arc<Mutex<BTreeMap<String, MetricFamily>>>);

/// A family of metrics; [`with`](Self::with) gives one series.
#[derive(Clone, Debug)]
pub struct MetricFamily(Arc<Family>);

/// One number. Cheap to clone and to change from any thread.
#[derive(Clone, Debug)]
pub struct Metric {
    family: Arc<Family>,
    series: Arc<Series>,
}

impl PluginMetrics {
    /// A collection without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// A counter with these labels.
    ///
    /// # Errors
    /// If the name cannot be had.
    pub fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<MetricFamily, PluginError> {
        self.family(name, help, labels, MetricKind::Counter)
    }

    /// A gauge with these labels.
    ///
    /// # Errors
    /// If the name cannot be had.
    pub fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<MetricFamily, PluginError> {
        self.family(name, help, labels, MetricKind::Gauge)
    }

    /// A histogram with these labels and upper bounds of buckets.
    ///
    /// # Errors
    /// If the name cannot be had, or the bounds do not increase.
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[f64],
    ) -> Result<MetricFamily, PluginError> {
        if !bounds.windows(2).all(|pair| pair[0] < pair[1]) {
            return refused(name, "the bounds of its buckets must increase");
        }
        self.family(name, help, labels, MetricKind::Histogram(bounds.to_vec()))
    }

    fn family(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        kind: MetricKind,
    ) -> Result<MetricFamily, PluginError> {
        if let Some(wrong) = std::iter::once(&name).chain(labels).find(|name| !is_name(name)) {
            let rule = "names and labels are letters, digits and underscores, and do not begin with a digit";
            return refused(wrong, rule);
        }
        let is_of_plugins = OF_PLUGINS.into_iter().any(|start| name.starts_with(start));
        let mut reserved = RESERVED.into_iter().filter(|_| !is_of_plugins);
        if let Some(start) = reserved.find(|start| name.starts_with(start)) {
            return refused(
                name,
                &format!("names that begin with \"{start}\" belong to the scheduler"),
            );
        }
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let mut families = lock(&self.0);
        if let Some(family) = families.get(name) {
            let is_same = family.0.kind == kind && family.0.labels == labels;
            return if is_same {
                Ok(family.clone())
            } else {
                refused(name, "exists already, as a different one")
            };
        }
        let (name, help) = (name.to_owned(), help.to_owned());
        let family = Family { name: name.clone(), help, kind, labels, series: Mutex::default() };
        let family = MetricFamily(Arc::new(family));
        families.insert(name, family.clone());
        Ok(family)
    }

    /// All families, for export.
    pub fn families(&self) -> Vec<MetricFamily> {
        lock(&self.0).values().cloned().collect()
    }
}

impl MetricFamily {
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

    /// All series as they stand: the values of the labels, the number (of a histogram the sum of all observations), and how
    /// many observations fell into each bucket, the last one included (none unless a histogram).
    pub fn series(&self) -> Vec<(Vec<String>, f64, Vec<u64>)> {
        let series = lock(&self.0.series);
        let values = series.iter().map(|(labels, series)| {
            let buckets = series.buckets.iter().map(|n| n.load(Ordering::Relaxed)).collect();
            (labels.clone(), f64::from_bits(series.value.load(Ordering::Relaxed)), buckets)
        });
        values.collect()
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
        let series = lock(&family.series)
            .entry(labels)
            .or_insert_with(|| {
                let buckets = (0..n_buckets).map(|_| AtomicU64::new(0)).collect();
                Arc::new(Series { value: AtomicU64::new(0_f64.to_bits()), buckets })
            })
            .clone();
        Metric { family: family.clone(), series }
    }
}

impl Metric {
    /// Adds one to a counter or a gauge, or observes 1 in a histogram.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Adds to a counter or a gauge, or observes a value of a histogram. A counter does not shrink.
    pub fn add(&self, value: f64) {
        match &self.family.kind {
            MetricKind::Counter if value < 0.0 => return,
            MetricKind::Counter | MetricKind::Gauge => {}
            MetricKind::Histogram(bounds) => {
                let at = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
                if let Some(bucket) = self.series.buckets.get(at) {
                    bucket.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.series.change(|old| old + value);
    }

    /// Sets a gauge; has no effect on other kinds of metrics.
    pub fn set(&self, value: f64) {
        if self.family.kind == MetricKind::Gauge {
            self.series.change(|_| value);
        }
    }
}

impl fmt::Debug for PluginMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(lock(&self.0).keys()).finish()
    }
}

fn refused<T>(name: &str, why: &str) -> Result<T, PluginError> {
    Err(format!("metric {name:?}: {why}").into())
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_shared_by_all_who_ask_for_it() {
        let metrics = PluginMetrics::new();
        let a = metrics.counter("gang_waits_total", "Waits.", &["group"]).unwrap();
        let b = metrics.counter("gang_waits_total", "Waits.", &["group"]).unwrap();
        a.with(&["x"]).inc();
        b.with(&["x"]).add(2.0);
        b.with(&["x"]).add(-9.0);
        let family = metrics.families().remove(0);
        assert_eq!(family.name(), "gang_waits_total");
        assert_eq!(family.series(), [(vec!["x".to_owned()], 3.0, vec![])]);
        let other = metrics.gauge("gang_waits_total", "Waits.", &["group"]).unwrap_err();
        assert_eq!(
            other.to_string(),
            "metric \"gang_waits_total\": exists already, as a different one"
        );
    }

    #[test]
    fn observations_fall_into_buckets() {
        let metrics = PluginMetrics::new();
        let sizes = metrics.histogram("gang_size", "Sizes.", &[], &[1.0, 2.0]).unwrap().with(&[]);
        [0.5, 1.0, 1.5, 7.0].into_iter().for_each(|size| sizes.add(size));
        assert_eq!(metrics.families().remove(0).series(), [(vec![], 10.0, vec![2, 1, 1])]);
    }

    #[test]
    fn wrong_names_are_refused() {
        let metrics = PluginMetrics::new();
        let refused =
            |name: &str, label: &str| metrics.gauge(name, "", &[label]).unwrap_err().to_string();
        assert!(refused("1x", "a").contains("\"1x\": names and labels are"));
        assert!(refused("x", "a-b").contains("\"a-b\": names and labels are"));
        assert!(refused("scheduler_pods", "a").contains("\"scheduler_\" belong to the scheduler"));
        let bounds = metrics.histogram("x", "", &[], &[2.0, 1.0]).unwrap_err();
        assert_eq!(bounds.to_string(), "metric \"x\": the bounds of its buckets must increase");
    }
}
