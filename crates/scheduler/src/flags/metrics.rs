//! Which metrics to expose, and which values of labels.

use std::collections::BTreeMap;

use serde_json::json;

use super::go;
use super::section::section;
use crate::text_file;

const METRIC_NAME: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL_NAME: &str = "[a-zA-Z_][a-zA-Z0-9_]*";
/// Metrics hidden in this version can be shown again under the name of the previous one.
const PREVIOUS_VERSION: &str = "1.35";

section! {
    /// What of the metrics to expose.
    MetricsFlags {
        /// The previous version, to show what is hidden in this one; empty not to.
        show_hidden_metrics_for_version: String = String::new(), "show-hidden-metrics-for-version",
            "The previous version for which you want to show hidden metrics. Only the previous minor version is \
             meaningful, other values will not be allowed. The format is <major>.<minor>, e.g.: '1.16'. The purpose of \
             this format is make sure you have the opportunity to notice if the next release hides additional metrics, \
             rather than being surprised when they are permanently removed in the release after that.";
        /// Names of metrics to leave out.
        disabled_metrics: Vec<String> = Vec::new(), "disabled-metrics",
            "This flag provides an escape hatch for misbehaving metrics. You must provide the fully qualified metric name \
             in order to disable it. Disclaimer: disabling metrics is higher in precedence than showing hidden metrics.";
        /// `metric,label` to the values that the label may have, separated by commas; others become `unexpected`.
        allow_metric_labels: BTreeMap<String, String> = BTreeMap::new(), "allow-metric-labels",
            "The map from metric-label to value allow-list of this label. The key's format is <MetricName>,<LabelName>. \
             The value's format is <allowed_value>,<allowed_value>...e.g. metric1,label1='v1,v2,v3', \
             metric1,label2='v1,v2,v3' metric2,label1='v1,v2,v3'.";
        /// A file with the same.
        allow_metric_labels_manifest: String = String::new(), "allow-metric-labels-manifest",
            "The path to the manifest file that contains the allow-list mapping. The format of the file is the same as \
             the flag --allow-metric-labels, i.e., \nallowListMapping:\n  \"metric1,label1\": \"value11,value12\"\n  \
             \"metric2,label2\": \"\"\nNote that the flag --allow-metric-labels will override the manifest file.";
    }
}

impl MetricsFlags {
    /// The errors of the reference's validation.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let version = &self.show_hidden_metrics_for_version;
        if !version.is_empty() && version != PREVIOUS_VERSION {
            errors.push(format!(
                "metrics.showHiddenMetricsForVersion: Invalid value: {}: must be omitted or have the value \
                 '{PREVIOUS_VERSION}'; only the previous minor version is allowed",
                go::quoted(version)
            ));
        }
        if let Some(name) = self.disabled_metrics.iter().find(|name| !is_name(name, true)) {
            errors.push(format!(
                "metrics.disabledMetrics: Invalid value: {}: must be fully qualified metric names matching {}, got {}",
                json!(self.disabled_metrics),
                go::quoted(&format!("^{METRIC_NAME}$")),
                go::quoted(name)
            ));
        }
        errors.extend(key_error("metrics.allowListMapping", &self.allow_metric_labels));
        let manifest = &self.allow_metric_labels_manifest;
        if !manifest.is_empty()
            && let Err(problem) = read_manifest(manifest)
        {
            errors.push(format!(
                "metrics.allowListMappingManifest: Invalid value: {}: {problem}",
                go::quoted(manifest)
            ));
        }
        if !manifest.is_empty() && !self.allow_metric_labels.is_empty() {
            errors.push(format!(
                "metrics: Invalid value: {}: cannot specify both allowListMapping and allowListMappingManifest",
                self.as_json()
            ));
        }
        errors
    }

    /// The values that labels may have, from the flag or else from the file: metric and label to values.
    ///
    /// # Errors
    /// If the file cannot be read, which [`validate`](Self::validate) has checked before.
    pub(crate) fn allowed_labels(&self) -> Result<BTreeMap<(String, String), Vec<String>>, String> {
        let from_file;
        let mapping = if self.allow_metric_labels.is_empty()
            && !self.allow_metric_labels_manifest.is_empty()
        {
            from_file = read_manifest(&self.allow_metric_labels_manifest)?;
            &from_file
        } else {
            &self.allow_metric_labels
        };
        let split = mapping.iter().filter_map(|(key, values)| {
            let (metric, label) = key.split_once(',')?;
            let values = values.split(',').map(str::to_owned).collect();
            Some(((metric.to_owned(), label.to_owned()), values))
        });
        Ok(split.collect())
    }

    fn as_json(&self) -> serde_json::Value {
        let mut fields = serde_json::Map::new();
        if !self.show_hidden_metrics_for_version.is_empty() {
            fields.insert(
                "showHiddenMetricsForVersion".into(),
                json!(self.show_hidden_metrics_for_version),
            );
        }
        if !self.disabled_metrics.is_empty() {
            fields.insert("disabledMetrics".into(), json!(self.disabled_metrics));
        }
        fields.insert("allowListMapping".into(), json!(self.allow_metric_labels));
        fields.insert("allowListMappingManifest".into(), json!(self.allow_metric_labels_manifest));
        fields.into()
    }
}

/// The mapping in a manifest file.
fn read_manifest(path: &str) -> Result<BTreeMap<String, String>, String> {
    let text = text_file::read(path.as_ref(), text_file::MAX_CONFIG).map_err(|error| {
        format!("failed to read allow list manifest: open {path}: {}", plain_io_error(&error))
    })?;
    let mapping: BTreeMap<String, String> = serde_saphyr::from_str(&text)
        .map_err(|error| format!("failed to parse allow list manifest: {error}"))?;
    match key_error("metrics.allowListMappingManifest", &mapping) {
        Some(error) => Err(format!("invalid allow list mapping in manifest: [{error}]")),
        None => Ok(mapping),
    }
}

/// As Go words the errors of files.
fn plain_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

fn key_error(path: &str, mapping: &BTreeMap<String, String>) -> Option<String> {
    let is_key = |key: &String| {
        key.split_once(',')
            .is_some_and(|(metric, label)| is_name(metric, true) && is_name(label, false))
    };
    if mapping.keys().all(is_key) {
        return None;
    }
    Some(format!(
        "{path}: Invalid value: {}: must have keys with format `metricName,labelName` where metricName matches {} and \
         labelName matches {}",
        json!(mapping),
        go::quoted(METRIC_NAME),
        go::quoted(LABEL_NAME)
    ))
}

/// Whether a text is the name of a metric, or of a label, which has no colons.
fn is_name(text: &str, may_have_colons: bool) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || (may_have_colons && c == ':');
    let mut chars = text.chars();
    chars.next().is_some_and(is_start) && chars.all(|c| is_start(c) || c.is_ascii_digit())
}
