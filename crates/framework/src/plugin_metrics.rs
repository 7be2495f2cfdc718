//! Metrics of plugins: counted here, shown by the shell beside the scheduler's own.
//!
//! Invariants: metrics are read back for export alone; asking again for a family of the same name, kind and labels gives the
//! same family, and asking for a different one of the same name is an error; families and series are listed in the order of
//! their names and labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::lock;

use crate::metric_family::{MetricFamily, MetricKind};
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

/// All metrics of plugins. Cloning shares them.
#[derive(Clone, Default)]
pub struct PluginMetrics(Arc<Mutex<BTreeMap<String, MetricFamily>>>);

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
            let is_same = *family.kind() == kind && family.labels() == labels;
            return if is_same {
                Ok(family.clone())
            } else {
                refused(name, "exists already, as a different one")
            };
        }
        let family = MetricFamily::new(name.to_owned(), help.to_owned(), kind, labels);
        families.insert(name.to_owned(), family.clone());
        Ok(family)
    }

    /// All families, for export.
    pub fn families(&self) -> Vec<MetricFamily> {
        lock(&self.0).values().cloned().collect()
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
    use crate::metric_family::MetricSeries;

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
        let series = MetricSeries { labels: vec!["x".to_owned()], value: 3.0, buckets: vec![] };
        assert_eq!(family.series(), [series]);
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
        let series = MetricSeries { labels: vec![], value: 10.0, buckets: vec![2, 1, 1] };
        assert_eq!(metrics.families().remove(0).series(), [series]);
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
