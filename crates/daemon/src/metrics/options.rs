//! What of the metrics is shown: the flags `--disabled-metrics` and `--allow-metric-labels` as data.

use std::collections::{BTreeMap, BTreeSet};

/// Which metrics are shown, and with which label values. Names that no metric has are no mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Names of metrics that are not kept at all.
    pub disabled: Vec<String>,
    /// Metric and label to the label's only values; all others become `unexpected`.
    pub allow_labels: BTreeMap<(String, String), Vec<String>>,
}

impl MetricsOptions {
    /// The only values that a label of a metric may have, if they are limited.
    pub(crate) fn allowed(&self, metric: &str, label: &str) -> Option<BTreeSet<String>> {
        let values = self.allow_labels.get(&(metric.to_owned(), label.to_owned()))?;
        Some(values.iter().cloned().collect())
    }
}
