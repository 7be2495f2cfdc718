//! The scheduler's own histograms, read from the text of its metrics.
//!
//! Parity: in the reference the reset at the beginning of a collection works on a copy, so its figures are of the whole
//! workload from the start of the scheduler on. They are so here too. Quantiles are linear within a bucket, as there.

use std::collections::BTreeMap;

use super::data_items::DataItem;
use super::definition::{LabelValues, MetricsCollectorConfig};

/// The plugins that are reported by default.
const PLUGINS: [&str; 19] = [
    "PrioritySort",
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
];

/// What is reported of a test case that says nothing about it; with queueing hints, what they take too.
pub(crate) fn default_config(has_queueing_hints: bool) -> MetricsCollectorConfig {
    let label = |label: &str, values: &[&str]| LabelValues {
        label: label.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let point = || label("extension_point", &[]);
    let plugin = || label("plugin", &PLUGINS);
    let result = label("result", &["scheduled", "unschedulable", "error"]);
    let mut metrics = vec![
        ("scheduler_framework_extension_point_duration_seconds", Some(vec![point()])),
        ("scheduler_scheduling_attempt_duration_seconds", Some(vec![result])),
        ("scheduler_pod_scheduling_duration_seconds", None),
        ("scheduler_plugin_execution_duration_seconds", Some(vec![plugin(), point()])),
    ];
    if has_queueing_hints {
        let event = || label("event", &[]);
        metrics.extend([
            ("scheduler_queueing_hint_execution_duration_seconds", Some(vec![plugin(), event()])),
            ("scheduler_event_handling_duration_seconds", Some(vec![event()])),
        ]);
    }
    let metrics = metrics.into_iter().map(|(name, labels)| (name.to_owned(), labels)).collect();
    MetricsCollectorConfig { metrics }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Histogram {
    /// Cumulative counts by upper bound, in the text's order, the infinite one included.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

impl Histogram {
    fn add(&mut self, bound: f64, count: f64) {
        match self.buckets.iter_mut().find(|(own, _)| *own == bound) {
            Some((_, sum)) => *sum += count,
            None => self.buckets.push((bound, count)),
        }
    }

    fn quantile(&self, q: f64) -> f64 {
        let [.., last] = self.buckets.as_slice() else { return f64::NAN };
        if self.buckets.len() < 2 {
            return f64::NAN;
        }
        let rank = q * last.1;
        let end = self.buckets.len() - 1;
        let at = self.buckets[..end].partition_point(|(_, count)| *count < rank);
        let (bound, count) = self.buckets[at];
        if at == 0 {
            return bound * (rank / count);
        }
        let (lower, below) = self.buckets[at - 1];
        if at == end && bound.is_infinite() {
            return lower;
        }
        lower + (bound - lower) * ((rank - below) / (count - below))
    }
}

/// The results that `config` asks for, in milliseconds; what has no samples is left out.
pub(crate) fn collect(config: &MetricsCollectorConfig, text: &str, name: &str) -> Vec<DataItem> {
    let mut items = Vec::new();
    for (metric, labels) in &config.metrics {
        let labels = labels.as_deref().unwrap_or_default();
        for (values, histogram) in histograms(text, metric, labels) {
            if histogram.count == 0.0 || histogram.sum == 0.0 {
                continue;
            }
            let millis = |seconds: f64| seconds * 1e3;
            let mut item = DataItem::new(name, metric, "ms")
                .with("Average", millis(histogram.sum / histogram.count))
                .with("Perc50", millis(histogram.quantile(0.5)))
                .with("Perc90", millis(histogram.quantile(0.9)))
                .with("Perc95", millis(histogram.quantile(0.95)))
                .with("Perc99", millis(histogram.quantile(0.99)));
            for (label, value) in labels.iter().zip(values) {
                item.labels.insert(label.label.clone(), value);
            }
            items.push(item);
        }
    }
    items
}

/// The histograms of a metric by the values of `labels`; those that differ in other labels only are added up.
fn histograms(
    text: &str,
    metric: &str,
    labels: &[LabelValues],
) -> BTreeMap<Vec<String>, Histogram> {
    let mut all: BTreeMap<Vec<String>, Histogram> = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(metric) else { continue };
        let Some(series) = Series::read(rest) else { continue };
        let values: Option<Vec<String>> = labels
            .iter()
            .map(|wanted| {
                let value = series.labels.get(wanted.label.as_str())?;
                let is_wanted = wanted.values.is_empty() || wanted.values.contains(value);
                is_wanted.then(|| value.clone())
            })
            .collect();
        let Some(values) = values else { continue };
        let histogram = all.entry(values).or_default();
        match series.suffix {
            "_sum" => histogram.sum += series.value,
            "_count" => histogram.count += series.value,
            "_bucket" => {
                let bound = series.labels.get("le").and_then(|bound| match bound.as_str() {
                    "+Inf" => Some(f64::INFINITY),
                    number => number.parse().ok(),
                });
                if let Some(bound) = bound {
                    histogram.add(bound, series.value);
                }
            }
            _ => {}
        }
    }
    all
}

/// One line of the text format, without the name of the metric.
struct Series<'a> {
    suffix: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
}

impl<'a> Series<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let end = text.find(['{', ' '])?;
        let (suffix, mut rest) = text.split_at(end);
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            while !rest.starts_with('}') {
                let (label, after) = rest.split_once("=\"")?;
                let mut value = String::new();
                let mut chars = after.char_indices();
                let length = loop {
                    match chars.next()? {
                        (at, '"') => break at + 1,
                        (_, '\\') => value.push(match chars.next()?.1 {
                            'n' => '\n',
                            other => other,
                        }),
                        (_, other) => value.push(other),
                    }
                };
                labels.insert(label, value);
                rest = after[length..].trim_start_matches(',');
            }
            rest = &rest[1..];
        }
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { suffix, labels, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.001"} 4
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.002"} 8
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="+Inf"} 10
scheduler_scheduling_attempt_duration_seconds_sum{profile="a",result="scheduled"} 0.05
scheduler_scheduling_attempt_duration_seconds_count{profile="a",result="scheduled"} 10
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.001"} 0
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.002"} 10
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="+Inf"} 10
scheduler_scheduling_attempt_duration_seconds_sum{profile="b",result="scheduled"} 0.05
scheduler_scheduling_attempt_duration_seconds_count{profile="b",result="scheduled"} 10
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="odd",le="+Inf"} 1
scheduler_scheduling_attempt_duration_seconds_sum{profile="b",result="odd"} 1
scheduler_scheduling_attempt_duration_seconds_count{profile="b",result="odd"} 1
"#;

    #[test]
    fn histograms_with_the_same_wanted_labels_are_added_up() {
        let items = collect(&default_config(false), TEXT, "n");
        assert_eq!(items.len(), 1, "{items:?}");
        let item = &items[0];
        assert_eq!(item.labels["result"], "scheduled");
        assert_eq!(item.unit, "ms");
        let close = |bucket: &str, expected: f64| {
            assert!((item.data[bucket] - expected).abs() < 1e-9, "{bucket} {:?}", item.data);
        };
        // 4, 18 and 20 samples up to the bounds.
        close("Average", 5.0);
        close("Perc50", 1.0 + 6.0 / 14.0);
        close("Perc90", 2.0);
        close("Perc99", 2.0);
    }

    #[test]
    fn the_first_bucket_begins_at_zero() {
        let histogram = Histogram {
            buckets: vec![(0.5, 10.0), (1.0, 10.0), (f64::INFINITY, 10.0)],
            sum: 1.0,
            count: 10.0,
        };
        assert_eq!(histogram.quantile(0.5), 0.25);
        assert!(Histogram::default().quantile(0.5).is_nan());
    }

    #[test]
    fn escaped_label_values_are_read() {
        let series = Series::read(r#"_sum{a="x\"y,}",b="\\"} 3"#).unwrap();
        assert_eq!(series.labels["a"], "x\"y,}");
        assert_eq!(series.labels["b"], "\\");
        assert_eq!((series.suffix, series.value), ("_sum", 3.0));
        assert!(Series::read("_sum{a=\"x").is_none());
    }
}
